// Which slots of time a stream can show, and which of them people read first.
import { rowsOf } from "./api.js";
import { called, lengthSeconds, offset, timeTicks } from "./words.js";

const DAY = 86400;
const COMMON = ["1h", "1d", "1w", "1mo", "1y"];
const RANGES = [["1m", 60], ["10m", 600], ["1h", 3600], ["6h", 21600], ["1d", DAY], ["7d", 7 * DAY], ["30d", 30 * DAY], ["90d", 90 * DAY], ["1y", 366 * DAY]];
const MOST_BARS = 1000;
const MOST_POINTS = 100;

/* The lengths that this stream has figures of, or whose counts are sums of whole figures; shortest first. */
export function lengths({ tick_seconds: tick, zone, levels, distinct_per: distinct }) {
  const adds = (per) => !distinct || lengthSeconds(per) <= lengthSeconds(distinct); // distinct persons do not add up
  const own = levels.map((level) => level.per);
  const smallest = own.length ? lengthSeconds(own[0]) : tick;
  const wholeDays = DAY % tick === 0 && smallest <= DAY && (tick === DAY || offset(Date.now(), zone) % (tick * 1000) === 0);
  const fits = (per) => lengthSeconds(per) >= tick && (per === "1h" ? 3600 % smallest === 0 : wholeDays);
  return [...new Set([...own, ...COMMON.filter(fits)])].filter(adds).sort((one, other) => lengthSeconds(one) - lengthSeconds(other));
}

/* What a headline shows: so far in the slot `open`, so far in a wider one, and the last whole slot of the length `last`. */
export function headlineSlots(facts) {
  const offered = lengths(facts);
  const [open = facts.distinct_per, wide] = ["1d", "1mo", "1y"].filter((per) => offered.includes(per) && lengthSeconds(per) > facts.tick_seconds);
  return { open, wide, last: open === "1d" ? open : offered[0] ?? open };
}

/* What the open slot and the last whole one are called, where these rows of them are published. */
export function slotNames(facts, rows = {}) {
  const { open, last } = headlineSlots(facts);
  const now = Date.now();
  const [today, yesterday] = [{ time: now, end: now + 1 }, { time: now - 1, end: now }];
  return [open ? called(rows.open ?? today, open, facts.zone) : "Total", last ? called(rows.last ?? yesterday, last, facts.zone) : "Before"];
}

/* The open slot and the last whole one, as rows; null where nothing of it is published. `who` is a key, or all together.
 * A stream without days or months has its total instead. */
export async function firstNumbers(facts, who, signal) {
  const { open, last } = headlineSlots(facts);
  if (!facts.published_through) return { open: null, last: null };
  if (!open) return { open: (await rowsOf(facts.name, "total", who, signal))[0] ?? null, last: null };
  const through = Date.parse(facts.published_through);
  const read = (per) => rowsOf(facts.name, "figures", { per, since: before(facts, 2.2 * lengthSeconds(per)), ...who }, signal);
  const [slots, others] = await Promise.all([read(open), open === last ? null : read(last)]);
  return { open: slots.findLast((row) => row.end > through) ?? null, last: (others ?? slots).findLast((row) => row.end <= through) ?? null };
}

/* So many seconds before what is published, as a time for a query. */
export const before = (facts, seconds) => new Date(Date.parse(facts.published_through) - 1000 * seconds).toISOString().replace(/\.\d+/, "");

/* How far back a chart can go: [name, seconds] of each range, and the name of the one to begin with. */
export function ranges(per, facts) {
  const step = per === "total" ? facts.tick_seconds : lengthSeconds(per);
  const lived = facts.published_through ? (Date.parse(facts.published_through) - Date.parse(facts.first_start)) / 1000 : 0;
  const most = per === "total" ? Infinity : MOST_BARS;
  const some = RANGES.filter(([, seconds]) => seconds >= 6 * step && seconds <= most * step && seconds < lived).slice(-4);
  const offered = [...some, ...(lived <= most * step ? [["all", lived + step]] : [])];
  const first = per === "total" ? offered.at(-1) : offered.find(([, seconds]) => seconds >= 24 * step) ?? offered.at(-1);
  return { offered, first: first?.[0] ?? "all" };
}

/* At which round times before now a line of totals has its points, in Unix seconds: midnights, if the line is long. */
export function pointsOf(seconds, facts) {
  const through = Date.parse(facts.published_through);
  const from = Math.max(Date.parse(facts.first_start), through - 1000 * seconds);
  const most = Math.min(MOST_POINTS, seconds < 7 * DAY ? MOST_POINTS : seconds / DAY);
  return timeTicks(from, through - 1, most, facts.zone).map(({ at }) => at / 1000);
}

// Numbers, times and durations as people read them.
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export const number = (value) => whole.format(value).replace("-", "−");
export const half = (row) => Math.round((row.high - row.low) / 2);

const UNITS = [["year", "y", 31536000], ["month", "mo", 2592000], ["week", "w", 604800], ["day", "d", 86400], ["hour", "h", 3600], ["minute", "m", 60], ["second", "s", 1]];
const many = (count, name) => `${count} ${name}${count === 1 ? "" : "s"}`;

export function duration(seconds) {
  const [name, , each] = UNITS.find(([, , each]) => seconds >= each && seconds % each === 0);
  return seconds === each ? name : many(seconds / each, name);
}

/* A length such as 20m or 1mo: in seconds, and in words. */
function parts(text) {
  const [, count, letter] = /^(\d+)(mo|[smhdwy])$/.exec(text);
  const [name, , each] = UNITS.find((unit) => unit[1] === letter);
  return { count: Number(count), name, each };
}
export function lengthSeconds(text) {
  const { count, each } = parts(text);
  return count * each;
}
export function length(text) {
  const { count, name } = parts(text);
  return count === 1 ? name : many(count, name);
}

/* About how long until something: one unit, rounded up. */
export function roughly(seconds) {
  const [name, , each] = UNITS.find(([, , each]) => seconds >= each) ?? [];
  return name ? many(Math.ceil(seconds / each), name) : "a moment";
}

/* How long after its end a figure comes, in days, hours, minutes and seconds: the two largest of them. */
export function lag(seconds) {
  const words = [];
  let left = seconds;
  for (const [name, , each] of UNITS.slice(3)) {
    if (left >= each) words.push(many(Math.floor(left / each), name));
    left %= each;
  }
  return words.slice(0, 2).join(" ");
}

const PARTS = {
  full: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" },
  exact: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" },
  clock: { hour: "2-digit", minute: "2-digit" },
  seconds: { hour: "2-digit", minute: "2-digit", second: "2-digit" },
  day: { day: "numeric", month: "short" },
  date: { weekday: "short", day: "numeric", month: "short", year: "numeric" },
  month: { month: "short", year: "numeric" },
  year: { year: "numeric" },
  numbers: { hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" },
};
const made = new Map();
function formatter(kind, zone) {
  const name = `${kind} ${zone}`;
  if (!made.has(name)) made.set(name, new Intl.DateTimeFormat("en-GB", { hour12: false, ...PARTS[kind], timeZone: zone ?? "UTC" }));
  return made.get(name);
}
const format = (kind, zone, milliseconds) => formatter(kind, zone).format(milliseconds);
export const zoned = (zone) => (!zone || zone === "UTC" ? "UTC" : `${zone.split("/").at(-1).replaceAll("_", " ")} time`);
const clock = (milliseconds, zone) => format(milliseconds % 60000 ? "seconds" : "clock", zone, milliseconds);

export const moment = (milliseconds, tickSeconds, zone) => tickSeconds % 86400 === 0
  ? format("date", zone, milliseconds)
  : `${format(tickSeconds % 60 ? "exact" : "full", zone, milliseconds)} ${zoned(zone)}`;

/* By how much clocks in a zone are ahead of UTC at a time, in milliseconds. */
export function offset(time, zone) {
  if (!zone || zone === "UTC") return 0;
  const found = Object.fromEntries(formatter("numbers", zone).formatToParts(time).map(({ type, value }) => [type, Number(value)]));
  return Date.UTC(found.year, found.month - 1, found.day, found.hour, found.minute, found.second) - Math.floor(time / 1000) * 1000;
}

const dayNumber = (time, zone) => Math.floor((time + offset(time, zone)) / 86400000);

/* A time near now, such as "15:00" or "tomorrow 01:00"; the clock is that of whoever looks. */
export function near(time, zone) {
  const days = dayNumber(time, zone) - dayNumber(Date.now(), zone);
  if (Math.abs(days) > 200) return format("full", zone, time);
  return `${{ 0: "", 1: "tomorrow", "-1": "yesterday" }[days] ?? format("day", zone, time)} ${clock(time, zone)}`.trim();
}

/* A slot of time: an hour, a day, a week, a month, a year. */
export function period(from, to, zone) {
  const days = (to - from) / 86400000;
  if (days < 0.8) return `${format("day", zone, from)}, ${clock(from, zone)} to ${clock(to, zone)}`;
  if (days < 1.2) return format("date", zone, from);
  if (days > 27 && days < 32) return format("month", zone, from);
  if (days > 360 && days < 367) return format("year", zone, from);
  return `${format("day", zone, from)} to ${format("date", zone, to - 1)}`;
}

/* What people call a slot of a length that they look at now: "Today so far", "Yesterday", or its date. */
export function called({ time, end, partial }, per, zone) {
  const [now, day] = [Date.now(), per === "1d"];
  if (time <= now && now < end) return `${day ? "Today" : `This ${length(per)}`} so far`;
  if (end <= now && now < end + 1000 * lengthSeconds(per)) return day ? "Yesterday" : `Last ${length(per)}`;
  return `${period(time, end, zone)}${partial ? ", so far" : ""}`;
}

/* Round moments for an axis from one time to another, at most `most` of them. */
export function timeTicks(from, to, most, zone) {
  const steps = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 345600, 604800, 1209600];
  const step = steps.find((each) => (to - from) / 1000 / each <= most) * 1000;
  const ticks = [];
  const add = (local, kind) => {
    const at = local - offset(local - offset(local, zone), zone);
    if (at >= from && at <= to) ticks.push({ at, label: format(kind, zone, at) });
  };
  const first = from + offset(from, zone);
  if (step) {
    const kind = step < 60000 ? "seconds" : step < 86400000 ? "clock" : "day";
    for (let local = Math.ceil(first / step) * step; local <= to + offset(to, zone); local += step) add(local, local % 86400000 ? kind : "day");
    return ticks;
  }
  const months = [1, 2, 3, 6, 12, 24, 60, 120, 600].find((each) => (to - from) / 2592e6 / each <= most) ?? 1200;
  const begin = new Date(first);
  for (let month = begin.getUTCFullYear() * 12; month <= new Date(to).getUTCFullYear() * 12 + 12; month += months) add(Date.UTC(Math.floor(month / 12), month % 12, 1), months % 12 ? "month" : "year");
  return ticks;
}

export function roundTicks(low, high, most) {
  const span = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(span / most));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => span / each <= most);
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) ticks.push(Number(at.toPrecision(12)));
  return ticks;
}

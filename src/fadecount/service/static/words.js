// Numbers, times and durations as people read them.
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
export const number = (value) => whole.format(value).replace("-", "−");
export const compact = (value) => short.format(value).replace("-", "−");

const UNITS = [["year", 31536000], ["month", 2592000], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

export function duration(seconds) {
  for (const [name, length] of UNITS) {
    if (seconds >= length && seconds % length === 0) return seconds === length ? name : `${seconds / length} ${name}s`;
  }
  return `${seconds} seconds`;
}

/* The length of a level, such as 20m or 1mo, in words. */
export function length(text) {
  const [, count, unit] = /^(\d+)(mo|[smhdy])$/.exec(text);
  const name = { s: "second", m: "minute", h: "hour", d: "day", mo: "month", y: "year" }[unit];
  return count === "1" ? name : `${count} ${name}s`;
}

/* About how long until something: one unit, rounded up. */
export function roughly(seconds) {
  for (const [name, length] of UNITS) {
    if (seconds >= length) {
      const count = Math.ceil(seconds / length);
      return `${count} ${name}${count === 1 ? "" : "s"}`;
    }
  }
  return "a moment";
}

const PARTS = {
  full: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" },
  exact: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" },
  clock: { hour: "2-digit", minute: "2-digit" },
  seconds: { hour: "2-digit", minute: "2-digit", second: "2-digit" },
  day: { day: "numeric", month: "short" },
  date: { weekday: "short", day: "numeric", month: "short", year: "numeric" },
  month: { month: "short", year: "numeric" },
};
const made = new Map();
function format(kind, zone, milliseconds) {
  const name = `${kind} ${zone}`;
  if (!made.has(name)) made.set(name, new Intl.DateTimeFormat("en-GB", { ...PARTS[kind], timeZone: zone ?? "UTC", hour12: false }));
  return made.get(name).format(milliseconds);
}
const zoned = (zone) => (!zone || zone === "UTC" ? "UTC" : zone.replaceAll("_", " "));

export const moment = (milliseconds, tickSeconds, zone) => tickSeconds % 86400 === 0
  ? format("date", zone, milliseconds)
  : `${format(tickSeconds % 60 ? "exact" : "full", zone, milliseconds)} ${zoned(zone)}`;

/* A window from one time to another: an hour, a day, a week. */
export function period(from, to, zone) {
  if (to - from < 72000000) return `${format("full", zone, from)} to ${format("clock", zone, to)} ${zoned(zone)}`;
  if (to - from < 100000000) return format("date", zone, from);
  return `${format("day", zone, from)} to ${format("date", zone, to - 1)}`;
}

/* Round moments for an axis from one time to another, at most `most` of them. */
export function timeTicks(from, to, most, zone) {
  const steps = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 345600, 604800, 1209600, 2592000, 7776000, 31536000];
  const span = (to - from) / 1000;
  const step = (steps.find((each) => span / each <= most) ?? 315360000) * 1000;
  const kind = step < 60000 ? "seconds" : step < 86400000 ? "clock" : step < 2592000000 ? "day" : "month";
  const shift = offset(from, zone);
  const ticks = [];
  for (let at = Math.ceil((from + shift) / step) * step - shift; at <= to; at += step) {
    const midnight = step < 86400000 && (at + shift) % 86400000 === 0;
    ticks.push({ at, label: format(midnight ? "day" : kind, zone, at) });
  }
  return ticks;
}

/* By how much clocks in a zone are ahead of UTC at a time, in milliseconds. */
function offset(time, zone) {
  if (!zone || zone === "UTC") return 0;
  const parts = Object.fromEntries(new Intl.DateTimeFormat("en-GB", { timeZone: zone, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric" })
    .formatToParts(time).map(({ type, value }) => [type, Number(value)]));
  return Date.UTC(parts.year, parts.month - 1, parts.day, parts.hour, parts.minute, parts.second) - Math.floor(time / 1000) * 1000;
}

export function roundTicks(low, high, most) {
  const span = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(span / most));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => span / each <= most);
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) ticks.push(Number(at.toPrecision(12)));
  return ticks;
}

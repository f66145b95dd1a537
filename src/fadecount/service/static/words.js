// Numbers, times and durations as people read them.
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
export const number = (value) => whole.format(value).replace("-", "−");

const UNITS = [["year", 31536000], ["month", 2592000], ["week", 604800], ["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

export function duration(seconds) {
  for (const [name, length] of UNITS) {
    if (seconds >= length && seconds % length === 0) return seconds === length ? name : `${seconds / length} ${name}s`;
  }
  return `${seconds} seconds`;
}

const options = { timeZone: "UTC", hour12: false };
const formats = {
  full: new Intl.DateTimeFormat("en-GB", { ...options, day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" }),
  exact: new Intl.DateTimeFormat("en-GB", { ...options, day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" }),
  clock: new Intl.DateTimeFormat("en-GB", { ...options, hour: "2-digit", minute: "2-digit" }),
  seconds: new Intl.DateTimeFormat("en-GB", { ...options, hour: "2-digit", minute: "2-digit", second: "2-digit" }),
  day: new Intl.DateTimeFormat("en-GB", { ...options, day: "numeric", month: "short" }),
  month: new Intl.DateTimeFormat("en-GB", { ...options, month: "short", year: "numeric" }),
};
export const moment = (milliseconds, tickSeconds) => `${formats[tickSeconds % 60 ? "exact" : "full"].format(milliseconds)} UTC`;

/* Round moments for an axis from one time to another, at most `most` of them. */
export function timeTicks(from, to, most) {
  const steps = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 345600, 604800, 1209600, 2592000, 7776000, 31536000];
  const span = (to - from) / 1000;
  const step = (steps.find((each) => span / each <= most) ?? 315360000) * 1000;
  const format = formats[step < 60000 ? "seconds" : step < 86400000 ? "clock" : step < 2592000000 ? "day" : "month"];
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const midnight = step < 86400000 && at % 86400000 === 0;
    ticks.push({ at, label: (midnight ? formats.day : format).format(at) });
  }
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

// One stream: the big number, the choices of what is shown, the charts, the table.
import { releases, windows } from "./api.js";
import { choices, download, fill, selection } from "./choices.js";
import { BarChart, LineChart } from "./counts.js";
import { Fading } from "./fading.js";
import { compact, duration, length, moment, number, period, roughly } from "./words.js";

const RANGES = [[3600, "1 hour"], [21600, "6 hours"], [86400, "1 day"], [604800, "1 week"], [2592000, "30 days"], [31536000, "1 year"]];
const PERIODS = [["1h", "per hour", 3600], ["1d", "per day", 86400], ["1w", "per week", 604800]];
const TOTAL = "total";
const EVERY_KEY = "\u0000every";
const MOST_CHIPS = 8;
const MOST_CHARTS = 24;
const MOST_TICKS = 20000;
const MOST_ROWS = 40000;
const TABLE_ROWS = 50;
const ANNOUNCE_EVERY = 20000;
const byId = (id) => document.getElementById(id);
const named = (key) => key || "all";

export class StreamView {
  constructor() {
    this.fading = new Fading();
    this.announced = 0;
    document.querySelector(".table-view").addEventListener("toggle", () => this.table());
    byId("download").addEventListener("click", () => this.save());
  }

  async open(facts, privacy, signal) {
    Object.assign(this, { facts, signal, rows: [], last: facts.last_start ? Date.parse(facts.last_start) : null });
    byId("stream-name").textContent = facts.name;
    byId("published-words").textContent = facts.levels.length
      ? `A count of every ${facts.levels.map(length).join(", ")}, each with random noise of its own, some time after it is over. All other numbers here are computed from these.`
      : `Once per ${duration(facts.tick_seconds)}, the running count plus random noise.`;
    this.per = TOTAL;
    this.key = facts.keys[0];
    this.keyChoice(facts.keys);
    this.periodChoice();
    this.rangeChoice();
    this.fading.show(privacy, facts, signal);
    await this.load();
  }

  /* total, and the windows that are at least two ticks long and made of whole ticks */
  periodChoice() {
    const { tick_seconds: tick } = this.facts;
    const fits = PERIODS.filter(([, , length]) => length > tick && length % tick === 0);
    choices(byId("periods"), "period", [[TOTAL, "total"], ...fits.map(([value, words]) => [value, words])], this.per, (value) => {
      this.per = value;
      this.rangeChoice();
      this.load();
    });
  }

  keyChoice(keys) {
    byId("keys").hidden = keys.length < 2;
    const options = [...keys.map((key) => [key, named(key)]), [EVERY_KEY, keys.length > MOST_CHARTS ? `first ${MOST_CHARTS} keys` : "all keys"]];
    const chosen = (value) => { this.key = value; this.load(); };
    (keys.length <= MOST_CHIPS ? choices : selection)(byId("keys"), keys.length <= MOST_CHIPS ? "key" : "Key", options, this.key, chosen);
  }

  /* Ranges that hold from a dozen to some thousand of what is counted. */
  rangeChoice() {
    const step = this.step();
    const least = this.per === TOTAL ? 12 : 4;
    const fits = ([length]) => length / step >= least && length / this.facts.tick_seconds <= MOST_TICKS;
    const whole = this.facts.first_start && this.last - Date.parse(this.facts.first_start) > MOST_TICKS * this.facts.tick_seconds * 1000;
    const ranges = [...RANGES.filter(fits), [null, whole ? `last ${number(MOST_TICKS)} ticks` : "all"]];
    this.range = (ranges.find(([length]) => length && length / step >= (this.per === TOTAL ? 100 : 7)) ?? ranges[0])[0];
    choices(byId("ranges"), "range", ranges.map(([length, label]) => [String(length), label]), String(this.range), (value) => {
      this.range = value === "null" ? null : Number(value);
      this.load();
    });
  }

  step() { return PERIODS.find(([value]) => value === this.per)?.[2] ?? this.facts.tick_seconds; }

  shownKeys() { return this.key === EVERY_KEY ? this.facts.keys.slice(0, MOST_CHARTS) : [this.key]; }

  from() {
    const begin = this.facts.first_start ? Date.parse(this.facts.first_start) : 0;
    if (this.last === null) return begin;
    const { tick_seconds: tick, keys } = this.facts;
    const most = this.key === EVERY_KEY && this.per === TOTAL ? Math.floor(MOST_ROWS / Math.min(keys.length, MOST_CHARTS)) : MOST_TICKS;
    return Math.max(begin, this.last - 1000 * Math.min(this.range ?? Infinity, most * tick));
  }

  async load() {
    const wanted = `${this.key}/${this.range}/${this.per}`;
    this.wanted = wanted;
    if (this.last !== null) {
      const before = this.last;
      const found = await this.read(new Date(this.from()).toISOString(), new Date(before + 1000).toISOString());
      if (this.wanted !== wanted) return;
      const keys = new Set(this.shownKeys());
      const later = this.per === TOTAL ? this.rows.filter((row) => keys.has(row.key) && row.time > before) : [];
      const timed = found.filter((row) => keys.has(row.key)).map((row) => ({ ...row, time: Date.parse(row.start), ...(row.end ? { stop: row.end, end: Date.parse(row.end) } : {}) }));
      this.rows = [...timed, ...later];
    }
    this.paint();
  }

  /* All keys in one go where they are few, otherwise one by one. */
  async read(since, until) {
    const ask = (query) => (this.per === TOTAL
      ? releases(this.facts.name, { ...query, since, until }, this.signal)
      : windows(this.facts.name, { ...query, since, per: this.per }, this.signal));
    if (this.key === EVERY_KEY && this.facts.keys.length <= MOST_CHARTS) return ask({});
    return (await Promise.all(this.shownKeys().map((key) => ask({ key })))).flat();
  }

  tick(tick) {
    const time = Date.parse(tick.start);
    if (this.last !== null && time <= this.last) return;
    const first = this.last === null;
    this.last = time;
    this.facts.first_start ??= tick.start;
    if (first) this.rangeChoice();
    if (this.per === TOTAL) {
      const keys = new Set(this.shownKeys());
      this.rows.push(...tick.releases.filter((row) => keys.has(row.key)).map((row) => ({ ...row, start: tick.start, time })));
      this.paint();
    } else if (!this.reloading) {
      this.reloading = setTimeout(() => { this.reloading = null; this.load(); }, 1000);
    }
  }

  paint() {
    const from = this.from();
    if (this.per === TOTAL) this.rows = this.rows.filter((row) => row.time >= from);
    const groups = new Map(this.shownKeys().map((key) => [key, []]));
    for (const row of this.rows) groups.get(row.key)?.push(row);
    this.charts(groups, from);
    this.headline(groups);
    this.table();
  }

  charts(groups, from) {
    const kind = `${this.key === EVERY_KEY ? "every" : "one"}/${this.per === TOTAL}/${[...groups.keys()].join("\u0000")}`;
    if (this.drawn !== `${this.facts.name}/${kind}`) {
      this.drawn = `${this.facts.name}/${kind}`;
      const Kind = this.per === TOTAL ? LineChart : BarChart;
      const every = this.key === EVERY_KEY;
      byId("count-chart").hidden = every;
      byId("multiples").hidden = !every;
      const what = this.per === TOTAL ? "Chart of the published count" : "Chart of the count of each window";
      this.shown = new Map([...groups.keys()].map((key) => [key, every
        ? new Kind(this.multiple(key), `${what}, ${named(key)}`, true)
        : new Kind(byId("count-chart"), what, false)]));
      const kept = new Set([...this.shown.values()].map((chart) => chart.figure));
      byId("multiples").replaceChildren(...(every ? [...kept].map((figure) => figure.parentElement) : []));
    }
    const spans = this.rows.flatMap((row) => [row.time, row.end ?? row.time]);
    const begin = this.per === TOTAL ? from : spans.reduce((least, each) => Math.min(least, each), Infinity);
    const end = this.per === TOTAL ? Math.max(this.last ?? 0, from + 1000) : spans.reduce((most, each) => Math.max(most, each), -Infinity);
    const frame = Number.isFinite(begin) ? { from: begin, to: end } : { from: 0, to: 1 };
    for (const [key, rows] of groups) {
      this.shown.get(key).show(rows, { ...frame, tickSeconds: this.facts.tick_seconds, zone: this.facts.zone });
      const latest = rows.at(-1);
      const words = this.shown.get(key).figure.parentElement.querySelector(".latest");
      if (words && this.key === EVERY_KEY) words.textContent = latest ? `${number(latest.value)} ± ${compact(half(latest))}` : "–";
    }
    byId("legend").classList.toggle("bars", this.per !== TOTAL);
    byId("band-words").textContent = this.per === TOTAL ? "the true count lies in the band 95 % of the time" : "the true count lies on the whisker 95 % of the time; a count may be below zero";
    byId("line-words").textContent = this.per === TOTAL ? "published count" : "count of a window; pale: not complete";
  }

  multiple(key) {
    const box = document.createElement("div");
    const button = Object.assign(document.createElement("button"), { type: "button", className: "multiple-title" });
    const [name, latest] = [document.createElement("span"), document.createElement("span")];
    [name.textContent, latest.className] = [named(key), "latest"];
    button.append(name, latest);
    button.addEventListener("click", () => { this.key = key; this.keyChoice(this.facts.keys); this.load(); });
    const figure = document.createElement("figure");
    figure.className = "chart small";
    box.append(button, figure);
    return figure;
  }

  headline(groups) {
    const empty = this.last === null;
    byId("empty").hidden = !empty;
    byId("legend").classList.toggle("pale", empty);
    const { tick_seconds: tick, zone } = this.facts;
    if (empty) {
      const due = Date.parse(this.facts.open_start) + tick * 1000;
      byId("empty-words").textContent = `The first count is published when the first ${duration(tick)} ends, at ${moment(due, tick % 86400 ? tick : 3600, zone)}, in about ${roughly(Math.max(1, (due - Date.now()) / 1000) > tick ? tick : Math.max(1, (due - Date.now()) / 1000))}. Nothing is shown before.`;
      [byId("value").textContent, byId("margin").textContent, byId("as-of").textContent] = ["–", "", "no tick has ended yet"];
      return;
    }
    const ended = moment(this.last + tick * 1000, tick, zone);
    if (this.key === EVERY_KEY) {
      const many = this.facts.keys.length;
      [byId("value").textContent, byId("margin").textContent] = [`${number(many)} keys`, ""];
      byId("as-of").textContent = `as of ${ended}${many > MOST_CHARTS ? `; the first ${MOST_CHARTS} are shown` : ""}`;
      return;
    }
    const latest = groups.get(this.key).at(-1);
    if (!latest) return;
    byId("value").textContent = number(latest.value);
    byId("margin").textContent = `± ${number(half(latest))}`;
    byId("as-of").textContent = this.per === TOTAL
      ? `as of ${ended}, released every ${duration(tick)}`
      : `${period(latest.time, latest.end, zone)}${latest.partial ? `, so far (${ended})` : ""}`;
    byId("value").style.setProperty("font-size", latest.value > 1e7 ? "clamp(2.2rem, 1.4rem + 4vw, 4.4rem)" : "");
    if (Date.now() - this.announced > ANNOUNCE_EVERY) {
      this.announced = Date.now();
      byId("announcer").textContent = `${named(this.key) === "all" ? this.facts.name : this.key}: ${number(latest.value)}, plus or minus ${number(half(latest))}`;
    }
  }

  table() {
    if (!document.querySelector(".table-view").open) return;
    const { tick_seconds: tick, zone } = this.facts;
    const when = (row) => (this.per === TOTAL ? moment(row.time, tick, zone) : `${period(row.time, row.end, zone)}${row.partial ? " (not complete)" : ""}`);
    fill(byId("release-table"), this.rows.slice(-TABLE_ROWS).reverse().map((row) => [when(row), named(row.key), number(row.value), number(row.low), number(row.high)]));
  }

  save() {
    const total = this.per === TOTAL;
    const header = ["stream", "start", ...(total ? [] : ["end"]), "key", "value", "low", "high", ...(total ? [] : ["status", "partial", "published"])];
    const lines = this.rows.map((row) => [this.facts.name, row.start, ...(total ? [] : [row.stop]), row.key, row.value, row.low, row.high, ...(total ? [] : [row.status, row.partial, row.published])]);
    download(`${this.facts.name.replace(/[^\w.-]+/g, "-")}-${total ? "totals" : this.per}.csv`, header, lines);
  }
}

const half = (row) => Math.round((row.high - row.low) / 2);

// One stream: the big number, the choices of key and range, the chart and the table.
import { releases } from "./api.js";
import { CountChart } from "./counts.js";
import { Fading } from "./fading.js";
import { duration, moment, number } from "./words.js";

const RANGES = [[3600, "1 hour"], [21600, "6 hours"], [86400, "1 day"], [604800, "1 week"], [2592000, "30 days"], [31536000, "1 year"]];
const MOST_CHIPS = 8;
const MOST_TICKS = 20000;
const ANNOUNCE_EVERY = 20000;
const byId = (id) => document.getElementById(id);

export class StreamView {
  constructor() {
    this.chart = new CountChart(byId("count-chart"));
    this.fading = new Fading();
    this.announced = 0;
    document.querySelector(".table-view").addEventListener("toggle", () => this.table());
  }

  async open(facts, privacy, signal) {
    Object.assign(this, { facts, signal, rows: [], last: facts.last_tick ? Date.parse(facts.last_tick) : null });
    byId("stream-name").textContent = facts.name;
    byId("tick-words").textContent = duration(facts.tick_seconds);
    this.key = facts.keys[0];
    const fits = ([length]) => length / facts.tick_seconds >= 12 && length / facts.tick_seconds <= MOST_TICKS;
    const whole = facts.first_tick && this.last - Date.parse(facts.first_tick) > MOST_TICKS * facts.tick_seconds * 1000;
    this.ranges = [...RANGES.filter(fits), [null, whole ? `last ${number(MOST_TICKS)}` : "all"]];
    this.range = (this.ranges.find(([length]) => length && length / facts.tick_seconds >= 100) ?? this.ranges[0])[0];
    this.keyChoice(facts.keys);
    choices(byId("ranges"), "range", this.ranges.map(([length, label]) => [String(length), label]), String(this.range), (value) => {
      this.range = value === "null" ? null : Number(value);
      this.load();
    });
    this.fading.show(privacy);
    await this.load();
  }

  keyChoice(keys) {
    byId("keys").hidden = keys.length < 2;
    const chosen = (value) => { this.key = value; this.load(); };
    if (keys.length <= MOST_CHIPS) {
      choices(byId("keys"), "key", keys.map((key) => [key, key]), this.key, chosen);
      return;
    }
    const select = document.createElement("select");
    select.setAttribute("aria-label", "Key");
    select.append(...keys.map((key) => new Option(key, key)));
    select.addEventListener("change", () => chosen(select.value));
    byId("keys").replaceChildren(byId("keys").querySelector("legend"), select);
  }

  from() {
    const begin = this.facts.first_tick ? Date.parse(this.facts.first_tick) : 0;
    if (this.last === null) return begin;
    return Math.max(begin, this.last - 1000 * (this.range ?? MOST_TICKS * this.facts.tick_seconds));
  }

  async load() {
    const wanted = `${this.key}/${this.range}`;
    this.wanted = wanted;
    if (this.last !== null) {
      const until = new Date(this.last + 1000).toISOString();
      const found = await releases(this.facts.name, { key: this.key, since: new Date(this.from()).toISOString(), until }, this.signal);
      if (this.wanted !== wanted) return;
      const later = this.rows.filter((row) => row.key === this.key && row.time > this.last);
      this.rows = [...found.map((row) => ({ ...row, time: Date.parse(row.tick) })), ...later];
    }
    this.paint();
  }

  tick(tick) {
    const time = Date.parse(tick.tick);
    if (this.last !== null && time <= this.last) return;
    this.last = time;
    if (!this.facts.first_tick) this.facts.first_tick = tick.tick;
    const found = tick.releases.find((row) => row.key === this.key);
    if (found) this.rows.push({ ...found, time });
    this.paint();
  }

  paint() {
    const from = this.from();
    while (this.rows.length && this.rows[0].time < from) this.rows.shift();
    const latest = this.rows.at(-1);
    this.chart.show(this.rows, from, Math.max(this.last ?? 0, from + 1000), this.facts.tick_seconds);
    if (!latest) return;
    const margin = Math.round((latest.high - latest.low) / 2);
    const when = moment(latest.time + this.facts.tick_seconds * 1000, this.facts.tick_seconds);
    byId("value").textContent = number(latest.value);
    byId("margin").textContent = `± ${number(margin)}`;
    byId("as-of").textContent = `as of ${when}, released every ${duration(this.facts.tick_seconds)}`;
    this.table();
    if (Date.now() - this.announced > ANNOUNCE_EVERY) {
      this.announced = Date.now();
      byId("announcer").textContent = `${this.key || this.facts.name}: ${number(latest.value)}, plus or minus ${number(margin)}`;
    }
  }

  table() {
    if (!document.querySelector(".table-view").open) return;
    const body = byId("release-table").tBodies[0];
    body.replaceChildren(...this.rows.slice(-50).reverse().map((row) => {
      const line = document.createElement("tr");
      for (const words of [moment(row.time, this.facts.tick_seconds), number(row.value), number(row.low), number(row.high)]) {
        line.insertCell().textContent = words;
      }
      return line;
    }));
  }
}

function choices(fieldset, name, options, chosen, onChoice) {
  const labels = options.map(([value, words]) => {
    const input = Object.assign(document.createElement("input"), { type: "radio", name, value, checked: value === chosen });
    input.addEventListener("change", () => onChoice(value));
    const label = document.createElement("label");
    const shown = document.createElement("span");
    shown.textContent = words || "all";
    label.append(input, shown);
    return label;
  });
  fieldset.replaceChildren(fieldset.querySelector("legend"), ...labels);
}

// One stream: the numbers that people come for, the choices of what is shown, the chart, the keys, the table.
import { figuresOf, get, rowsOf, streamPath } from "./api.js";
import { BarChart, LineChart } from "./counts.js";
import { Fading } from "./fading.js";
import { SearchList, choices, csv, fill, fillNumber, margin, save } from "./lists.js";
import { before, firstNumbers, headlineSlots, lengths, pointsOf, ranges, slotNames } from "./slots.js";
import { called, duration, half, length, lengthSeconds, moment, near, number, period, roughly, zoned } from "./words.js";

const TOTAL = "total";
const MOST_CHIPS = 8;
const TABLE_ROWS = 50;
const MOST_TOP = 20;
const ANNOUNCE_EVERY = 20000;
const KEYS_EVERY = 10000;
const FACTS_EVERY = 5000;
const byId = (id) => document.getElementById(id);

export class StreamView {
  constructor(address) {
    this.address = address; // the address of a choice of this stream
    this.fading = new Fading();
    this.announced = this.keysRead = this.factsRead = 0;
    this.keyList = new SearchList({ box: byId("keys").tBodies[0], search: byId("key-search"), note: byId("key-note") }, {
      named: (key) => key,
      draw: (key) => this.keyRow(key),
      fill: (key, row) => this.fillKey(key, row),
    });
    document.querySelector(".table-view").addEventListener("toggle", () => this.table());
    byId("download").addEventListener("click", () => this.download());
  }

  async open(facts, privacy, choice, signal) {
    Object.assign(this, { facts, signal, rows: [], drawn: null, numbers: {}, reading: null });
    byId("stream-name").textContent = facts.name;
    byId("published-words").textContent = facts.levels.length
      ? `A count of every ${facts.levels.map(({ per }) => length(per)).join(", ")}, each with random noise of its own, some time after it is over. All other numbers here are computed from these.`
      : `Once per ${duration(facts.tick_seconds)}, the running count plus random noise. A day is the difference of two counts, so its band is wide.`;
    byId("key-part").hidden = facts.keys.length < 2;
    byId("top-part").hidden = !facts.hidden;
    this.fading.show(privacy, facts, signal);
    const shown = this.choose(choice);
    this.keyList.show(facts.keys.length < 2 ? [] : facts.keys);
    this.fillKey(null, byId("keys").querySelector(".together tr"));
    await shown;
  }

  /* Show what an address asks for; what it leaves open, or what is not there, is as at the beginning. */
  choose({ key, per, range }) {
    const { facts } = this;
    const first = facts.default_per === TOTAL ? headlineSlots(facts).open ?? TOTAL : facts.default_per;
    this.offered = [...lengths(facts), ...(facts.distinct_per ? [] : [TOTAL])];
    this.key = facts.keys.includes(key) && facts.keys.length > 1 ? key : null;
    this.per = this.offered.includes(per) ? per : first;
    this.wantedRange = range ?? null;
    const go = (change) => { location.hash = this.address({ key: this.key, per: this.per === first ? null : this.per, range: this.wantedRange, ...change }); };
    this.keyAddress = (name) => this.address({ key: name, per: this.per === first ? null : this.per, range: this.wantedRange });
    const words = (each) => (each === TOTAL ? "total" : `per ${length(each)}`);
    const lived = (Date.parse(facts.published_through) - Date.parse(facts.first_start)) / 1000;
    const sensible = this.offered.filter((each) => each === TOTAL || each === this.per || each === first || 2 * lengthSeconds(each) <= lived);
    choices(byId("periods"), "period", sensible.map((each) => [each, words(each)]), this.per, (value) => go({ per: value === first ? null : value, range: null }));
    this.rangeChoice(go);
    const chips = facts.keys.length > 1 && facts.keys.length <= MOST_CHIPS;
    byId("key-chips").hidden = !chips;
    const options = [["", facts.keys.length > 2 ? `all ${facts.keys.length} together` : "both together"], ...facts.keys.map((each) => [`=${each}`, each])];
    choices(byId("key-chips"), "key", chips ? options : [], this.key === null ? "" : `=${this.key}`, (value) => go({ key: value ? value.slice(1) : null }));
    byId("key-jump-part").hidden = facts.keys.length <= MOST_CHIPS;
    byId("key-shown").textContent = this.key ?? `all ${number(facts.keys.length)} together`;
    for (const row of byId("keys").rows) row.classList.toggle("chosen", row.dataset.key === (this.key === null ? "" : `=${this.key}`));
    byId("keys").querySelector(".together a").href = this.keyAddress(null);
    for (const link of byId("keys").querySelectorAll("tbody:not(.together) a")) link.href = this.keyAddress(link.textContent);
    return this.load();
  }

  rangeChoice(go) {
    const { offered, first } = ranges(this.per, this.facts);
    this.range = (offered.find(([name]) => name === this.wantedRange) ?? offered.find(([name]) => name === first) ?? ["all", this.facts.tick_seconds]);
    const words = (name) => ({ all: "all", "7d": "1 week", "30d": "30 days", "90d": "90 days" }[name] ?? length(name).replace(/^(?=[a-z])/, "1 "));
    choices(byId("ranges"), "range", offered.map(([name]) => [name, words(name)]), this.range[0], (value) => go({ range: value === first ? null : value }));
  }

  get who() { return this.key !== null ? { key: this.key } : this.facts.keys.length > 1 ? { together: "true" } : { key: this.facts.keys[0] }; }

  /* Where the rows of the chart come from. */
  get question() {
    if (this.per === TOTAL) return ["total", { at: [...pointsOf(this.range[1], this.facts), this.facts.published_through].join(","), ...this.who }];
    const from = this.range[0] === "all" ? {} : { since: before(this.facts, this.range[1]) };
    return ["figures", { per: this.per, ...from, ...this.who }];
  }

  async load() {
    const { facts, signal } = this;
    if (facts.published_through) {
      const asked = this.reading = {};
      const { wide } = headlineSlots(facts);
      const [numbers, [wider], [total], rows] = await Promise.all([
        firstNumbers(facts, this.who, signal),
        wide ? rowsOf(facts.name, "so-far", { per: wide, ...this.who }, signal) : [],
        facts.distinct_per ? [] : rowsOf(facts.name, "total", this.who, signal),
        rowsOf(facts.name, ...this.question, signal),
      ]);
      if (this.reading !== asked) return;
      this.reading = null;
      this.numbers = { ...numbers, wide: wider, total };
      this.rows = this.per === TOTAL ? rows.map((row) => ({ ...row, time: row.end })) : rows;
    }
    this.paint();
    if (facts.hidden) await this.top();
  }

  /* The largest keys of the last whole day, those that appeared by themselves among them. */
  async top() {
    const { facts, signal } = this;
    const { keys, start, end } = await get(`${streamPath(facts.name)}/top?limit=${MOST_TOP}`, signal);
    fill(byId("top"), keys.map((each) => [each.key, number(each.value), number(each.low), number(each.high), each.apart ? "yes" : "cannot be told"]), { heads: true });
    const least = facts.hidden.discovery.thresholds[0];
    byId("top-note").textContent = `${start ? `${period(Date.parse(start), Date.parse(end), facts.zone)}. ` : ""}Other keys are hidden until about ${number(least)} people brought them in one ${length(facts.hidden.discovery.per)}.`;
  }

  /* Something was published: read it. While a reading runs, the newest waits. */
  async published(through) {
    const first = !this.facts.published_through;
    this.facts.published_through = through;
    if (this.busy) { this.again = through; return; }
    this.busy = true;
    try {
      if (first || (this.fading.isPast(through) && Date.now() - this.factsRead > FACTS_EVERY)) {
        this.factsRead = Date.now();
        Object.assign(this.facts, await get(streamPath(this.facts.name), this.signal));
        this.fading.schedule(this.facts);
        if (first) await this.choose({ key: this.key, per: this.per, range: this.wantedRange });
      }
      await this.load();
      if (Date.now() - this.keysRead > KEYS_EVERY) {
        this.keysRead = Date.now();
        this.fillKey(null, byId("keys").querySelector(".together tr"));
        this.keyList.refresh();
      }
    } catch (error) {
      if (error.name !== "AbortError") console.info("not read, the next publication is", error.message);
    } finally {
      this.busy = false;
    }
    if (this.again) { const next = this.again; this.again = null; this.published(next); }
  }

  paint() {
    this.headline();
    this.chart();
    this.table();
  }

  headline() {
    const { facts, numbers } = this;
    const { zone, tick_seconds: tick } = facts;
    const empty = !facts.published_through;
    byId("empty").hidden = !empty;
    for (const id of ["others", "legend", "more"]) byId(id).hidden = empty;
    const { open, last, wide } = headlineSlots(facts);
    const shown = numbers.open;
    const [openName, lastName] = slotNames(facts, numbers);
    fillNumber(byId("first"), shown, openName);
    byId("value").style.setProperty("min-width", `${number(numbers.last?.value ?? 0).length}ch`); // today gets as long as yesterday
    const through = Date.parse(facts.published_through);
    if (empty) {
      const due = Date.parse(facts.open_start) + tick * 1000;
      byId("as-of").textContent = "nothing is published yet";
      byId("empty-words").textContent = `The first figure is that of the first ${duration(tick)}. It comes ${near(due, zone)} ${zoned(zone)}, in about ${roughly(Math.min(tick, Math.max(1, (due - Date.now()) / 1000)))}. Nothing is shown before.`;
      return;
    }
    byId("as-of").textContent = shown
      ? `${number(shown.low)} to ${number(shown.high)} with 95 %\ncounted until ${near(through, zone)} ${zoned(zone)}`
      : `the first figure comes ${near(through + tick * 1000, zone)} ${zoned(zone)}`;
    byId("last-part").hidden = byId("wide-part").hidden = byId("total-part").hidden = !open;
    if (!open) return;
    byId("total-part").hidden = Boolean(facts.distinct_per);
    fillNumber(byId("last-part"), numbers.last, lastName);
    byId("last-words").textContent = numbers.last ? this.sharper(numbers.last, last) : "nothing yet";
    byId("wide-part").hidden = !wide;
    fillNumber(byId("wide-part"), numbers.wide, numbers.wide ? called(numbers.wide, wide, zone) : `This ${length(wide ?? "1mo")} so far`);
    byId("wide-words").textContent = numbers.wide ? `since ${period(numbers.wide.time, numbers.wide.time + 86400000, zone)}` : "nothing yet";
    fillNumber(byId("total-part"), numbers.total, "Total");
    byId("total-words").textContent = numbers.total ? `since ${moment(numbers.total.time, 86400, zone)}` : "nothing yet";
    if (shown && Date.now() - this.announced > ANNOUNCE_EVERY) {
      this.announced = Date.now();
      byId("announcer").textContent = `${this.key ?? facts.name}, ${openName}: ${number(shown.value)}, plus or minus ${number(half(shown))}`;
    }
  }

  /* The status of a figure, and when it gets sharper. */
  sharper(row, per) {
    const stages = this.facts.levels.find((level) => level.per === per)?.stages ?? [];
    const next = stages.find((stage) => row.end + stage.lag_seconds * 1000 > Date.parse(this.facts.published_through));
    return next ? `${row.status}, ${next.status} ${near(row.end + next.lag_seconds * 1000, this.facts.zone)}` : row.status;
  }

  chart() {
    const total = this.per === TOTAL;
    if (this.drawn !== total) {
      this.drawn = total;
      this.shown = total ? new LineChart(byId("count-chart"), "Chart of the total") : new BarChart(byId("count-chart"), "Chart of counts");
    }
    const { rows, facts } = this;
    this.shown.name = total ? "Chart of the total" : `Chart of counts per ${length(this.per)}`;
    this.shown.show(rows, { from: rows[0]?.time ?? 0, to: rows.at(-1)?.end ?? 1, tickSeconds: facts.tick_seconds, zone: facts.zone });
    byId("legend").dataset.kind = total ? "line" : facts.levels.some((level) => level.per === this.per && level.stages.some((stage) => stage.status === "revised")) ? "stages" : "bars";
  }

  table() {
    if (!document.querySelector(".table-view").open) return;
    const when = (row) => (this.per === TOTAL ? moment(row.time, this.facts.tick_seconds, this.facts.zone) : period(row.time, row.end, this.facts.zone));
    fill(byId("figure-table"), this.rows.slice(-TABLE_ROWS).reverse().map((row) => [when(row), number(row.value), number(row.low), number(row.high), row.partial ? "not over" : row.status]));
  }

  keyRow(key) {
    const row = byId("keys").querySelector(".together tr").cloneNode(true);
    row.dataset.key = `=${key}`;
    row.classList.toggle("chosen", key === this.key);
    Object.assign(row.querySelector("a"), { textContent: key, href: this.keyAddress(key) });
    for (const each of row.querySelectorAll(".value, .margin")) each.textContent = "";
    return row;
  }

  /* The numbers of a key, or of all together, in its row. */
  async fillKey(key, row) {
    const { facts, signal } = this;
    if (facts.keys.length < 2) return;
    const found = await firstNumbers(facts, key === null ? { together: "true" } : { key }, signal).catch(() => null);
    if (!found || signal.aborted) return;
    const [, open, last] = row.cells;
    for (const [cell, each] of [[open, found.open], [last, found.last]]) {
      cell.querySelector(".value").textContent = each ? number(each.value) : "–";
      cell.querySelector(".margin").textContent = margin(each);
    }
    if (key === null) slotNames(facts, found).forEach((name, index) => { byId("keys").tHead.rows[0].cells[index + 1].textContent = name; });
  }

  async download() {
    const name = [this.facts.name, this.key, this.per].filter(Boolean).join("-").replace(/[^\w.-]+/g, "-");
    save(`${name}.csv`, "text/csv", csv(await figuresOf(this.facts.name, ...this.question, this.signal)));
  }
}

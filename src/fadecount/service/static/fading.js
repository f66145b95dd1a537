// How privacy fades: a chart in human time, a slider for any age, and someone like me.
import { get, streamPath } from "./api.js";
import { Chart, node, stairs, text } from "./chart.js";
import { fill } from "./lists.js";
import { lag, length, near, number, period, roundTicks } from "./words.js";

const EDGE = { top: 14, right: 10, bottom: 28, left: 46 };
const AGES = [[60, "1 min"], [3600, "1 hour"], [86400, "1 day"], [604800, "1 week"], [2592000, "1 month"], [31536000, "1 year"], [315360000, "10 years"], [3153600000, "100 years"]];
const sure = (point) => 100 / (1 + Math.exp(-point.loss));
const byId = (id) => document.getElementById(id);

class FadingChart extends Chart {
  constructor(figure) {
    super(figure, EDGE, "Chart of the fading curve");
    this.kind = "guess";
    this.resting = 0;
    this.next = null;
  }

  describe(point) { return [`${point.age} ago`, `a privacy loss of at most ${point.shown}`, `at most ${point.sure} sure`]; }

  paint(frame) {
    const curve = this.items;
    if (!curve.length) return [];
    const guess = this.kind === "guess";
    const value = (point) => (guess ? sure(point) : point.loss);
    const [low, high] = guess ? [50, 100] : [0, Math.max(...curve.map(value)) * 1.05];
    const [first, last] = [Math.log(curve[0].age_seconds), Math.log(curve.at(-1).age_seconds)];
    const x = (seconds) => frame.left + ((Math.log(seconds) - first) / (last - first)) * frame.across;
    const y = (each) => frame.top + (1 - (each - low) / (high - low)) * frame.down;
    this.scale = (point) => x(point.age_seconds);
    const levels = guess ? [50, 60, 70, 80, 90, 100] : roundTicks(low, high, 5);
    const parts = [
      ...this.levels(frame, y, levels, (each) => (guess ? `${each} %` : number(each) === "0" || each < 10 ? String(each) : number(each))),
      ...this.labels(frame, AGES.filter(([seconds]) => seconds >= curve[0].age_seconds).map(([seconds, words]) => ({ x: x(seconds), words }))),
    ];
    const line = stairs(curve.map((point) => [x(point.age_seconds), y(value(point))]));
    parts.push(node("path", { class: "band", d: `${line}L${x(curve.at(-1).age_seconds).toFixed(1)} ${frame.bottom}L${frame.left} ${frame.bottom}Z` }));
    parts.push(node("path", { class: "line", d: line }));
    if (this.next) parts.push(...this.coming(frame, x, (point) => y(value(point))));
    const at = this.at ?? this.resting;
    const here = x(curve[at].age_seconds);
    parts.push(...this.readout(frame, here, this.at === null ? [] : [`${curve[at].age}: ε ≤ ${curve[at].shown}`, `at most ${curve[at].sure} sure`]));
    parts.push(node("circle", { class: "mark", r: 6, cx: here.toFixed(1), cy: y(value(curve[at])).toFixed(1) }));
    return parts;
  }

  /* Where the next publication is on the curve, and when it comes. */
  coming(frame, x, y) {
    const at = this.items.find((point) => point.age_seconds >= this.next.age);
    const [left, top] = [x(at.age_seconds), y(at)];
    const beside = Math.max(frame.left + 4, Math.min(left + 8, frame.right - this.next.words.length * 6.6));
    return [
      node("circle", { class: "next", r: 5, cx: left.toFixed(1), cy: top.toFixed(1) }),
      ...(this.at === null ? [text(beside, top - 12, this.next.words, { class: "tip" })] : []),
    ];
  }
}

export class Fading {
  constructor() {
    this.slider = byId("age");
    this.chart = new FadingChart(byId("fading-chart"));
    this.slider.addEventListener("input", () => this.tell());
    for (const id of ["times", "each", "during"]) byId(id).addEventListener("change", () => this.person());
    for (const choice of document.querySelectorAll('input[name="scale"]')) {
      choice.addEventListener("change", () => { this.chart.kind = choice.value; this.caption(); this.chart.redraw(); });
    }
    this.caption();
  }

  show(privacy, facts, signal) {
    const first = !this.privacy || this.privacy.stream !== privacy.stream;
    Object.assign(this, { privacy, facts, signal });
    this.chart.items = privacy.curve;
    this.chart.at = null;
    this.slider.max = String(privacy.curve.length - 1);
    if (first) {
      const day = privacy.curve.findIndex((point) => point.age_seconds >= 86400);
      this.slider.value = String(Math.max(0, day));
    }
    const unit = privacy.unit ?? "one event";
    byId("unit-promise").textContent = unit;
    byId("group-promise").textContent = facts.group ? `Group ${facts.group.text}.` : "Losses of other streams about the same people are not added.";
    byId("interval-words").textContent = facts.interval;
    this.schedule(facts);
    this.tell();
    this.person();
  }

  /* What is published when, what is lost by then, and which publication is next. */
  schedule(facts) {
    const [tick, { curve }] = [facts.tick_seconds, this.privacy];
    this.stages = facts.levels.flatMap(({ per, stages }) => stages.map((stage) => ({ ...stage, per, age: Math.max(tick, stage.age_seconds) })));
    const rows = this.stages.map(({ per, status, lag_seconds: after, next, age }) => {
      const { shown } = curve.find((point) => point.age_seconds >= age);
      const comes = after ? `${lag(after)} after its end` : "at its end";
      return [`${length(per)}, ${status}`, next ? `${comes}; next ${near(Date.parse(next.published), facts.zone)}` : comes, shown];
    });
    fill(byId("schedule"), rows, { heads: true });
    byId("schedule-part").hidden = !rows.length;
    byId("ages-part").hidden = rows.length > 0;
    const coming = this.stages.filter(({ next }) => next).sort((one, other) => Date.parse(one.next.published) - Date.parse(other.next.published));
    const marked = coming.find(({ lag_seconds: after }) => after) ?? coming[0];
    const when = marked && near(Date.parse(marked.next.published), facts.zone);
    this.chart.next = marked ? { age: marked.age, words: `the ${length(marked.per)}’s figure, ${when}` } : null;
    byId("next-words").textContent = marked ? `Next: the ${marked.status} figure of ${period(Date.parse(marked.next.start), Date.parse(marked.next.end), facts.zone)}, ${when}.` : "";
    this.chart.redraw();
  }

  /* Whether a publication that is shown as the next one is over. */
  isPast(through) { return this.stages.some(({ next }) => next && Date.parse(next.published) <= Date.parse(through)); }

  tell() {
    const at = Number(this.slider.value);
    const here = this.privacy.curve[at];
    this.chart.resting = at;
    byId("age-words").textContent = here.subject;
    byId("age-loss").textContent = here.shown;
    this.slider.setAttribute("aria-valuetext", `${here.age} ago: a privacy loss of at most ${here.shown}, at most ${here.sure} sure`);
    byId("meaning").textContent = here.meaning;
    byId("guess-ours").style.setProperty("width", `${2 * (sure(here) - 50)}%`);
    this.chart.label(`${here.age} ago: a privacy loss of at most ${here.shown}.`);
    this.table();
    this.chart.redraw();
  }

  /* Someone who came again and again: the losses add up, and the service adds them. */
  async person() {
    const [times, each, during] = ["times", "each", "during"].map((id) => byId(id).value);
    const query = new URLSearchParams({ visits: times, every: each, during });
    const found = await get(`${streamPath(this.privacy.stream)}/privacy?${query}`, this.signal).catch((error) => {
      if (error.name === "AbortError") return null;
      throw error;
    });
    if (!found || query.toString() !== new URLSearchParams({ visits: byId("times").value, every: byId("each").value, during: byId("during").value }).toString()) return;
    [byId("person-loss").textContent, byId("person-meaning").textContent] = [found.losses[0].shown, found.losses[0].meaning];
  }

  caption() {
    byId("fading-caption").textContent = this.chart.kind === "guess"
      ? "How sure a fifty-fifty guess can become, by age"
      : "Privacy loss (ε), by age";
  }

  /* The losses at common ages: those that the stream has reached, and those that come later. */
  table() {
    const { losses } = this.privacy;
    const { first_start: first, published_through: through } = this.facts;
    const reached = first ? (Date.parse(through) - Date.parse(first)) / 1000 : 0;
    fill(byId("ages"), losses.map((each) => [each.age, each.shown, each.sure, each.age_seconds <= reached ? "by now" : "later"]), { heads: true });
  }
}

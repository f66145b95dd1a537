// How privacy fades: a chart in human time, a slider for any age, someone like me, and a rival that refreshes its budget.
import { get, streamPath } from "./api.js";
import { Chart } from "./chart.js";
import { fill } from "./choices.js";
import { node, stairs } from "./svg.js";
import { number, roundTicks } from "./words.js";

const EDGE = { top: 14, right: 10, bottom: 28, left: 46 };
const AGES = [[60, "1 min"], [3600, "1 hour"], [86400, "1 day"], [604800, "1 week"], [2592000, "1 month"], [31536000, "1 year"], [315360000, "10 years"], [3153600000, "100 years"]];
const EVERY = { "1d": 86400, "1w": 604800, "1mo": 2592000, "1y": 31536000 };
const FAR_APART = 8; // a rival that loses so many times as much is drawn on a logarithmic scale
const sure = (point) => {
  const pure = 100 / (1 + Math.exp(-point.loss)); // Gaussian noise has another rule: its figure comes with the point
  const shown = point.sure.startsWith("over") ? 100 : parseFloat(point.sure);
  return Math.abs(pure - shown) <= 1 ? pure : shown;
};
const byId = (id) => document.getElementById(id);

class FadingChart extends Chart {
  constructor(figure) {
    super(figure, EDGE, "Chart of the fading curve");
    this.kind = "guess";
    this.others = [];
    this.resting = 0;
  }

  describe(point) { return [`${point.age} ago`, `a privacy loss of at most ${point.shown}`, `at most ${point.sure} sure`]; }

  paint(frame) {
    const curve = this.items;
    if (!curve.length) return [];
    const guess = this.kind === "guess";
    const value = (point) => (guess ? sure(point) : point.loss);
    const most = Math.max(...curve.map(value), ...this.others.map(value));
    const least = Math.min(...[...curve, ...this.others].map(value).filter((each) => each > 0));
    const logarithmic = !guess && this.others.length && most / Math.max(...curve.map(value)) > FAR_APART;
    const [low, high] = guess ? [50, 100] : logarithmic ? [least, most * 1.2] : [0, most * 1.05];
    const share = (each) => (logarithmic ? Math.log(Math.max(each, low) / low) / Math.log(high / low) : (each - low) / (high - low));
    const [first, last] = [Math.log(curve[0].age_seconds), Math.log(curve.at(-1).age_seconds)];
    const x = (seconds) => frame.left + ((Math.log(seconds) - first) / (last - first)) * frame.across;
    const y = (each) => frame.top + (1 - share(each)) * frame.down;
    this.scale = (point) => x(point.age_seconds);
    const levels = guess ? [50, 60, 70, 80, 90, 100] : logarithmic ? powers(low, high) : roundTicks(low, high, 5);
    const parts = [
      ...this.levels(frame, y, levels, (each) => (guess ? `${each} %` : number(each) === "0" || each < 10 ? String(each) : number(each))),
      ...this.labels(frame, AGES.filter(([seconds]) => seconds >= curve[0].age_seconds).map(([seconds, words]) => ({ x: x(seconds), words }))),
    ];
    const path = (points) => stairs(points.map((point, index) => [x(curve[index].age_seconds), y(value(point))]));
    if (this.others.length) parts.push(node("path", { class: "line other", d: path(this.others) }));
    const ours = path(curve);
    parts.push(node("path", { class: "band", d: `${ours}L${x(curve.at(-1).age_seconds).toFixed(1)} ${frame.bottom}L${frame.left} ${frame.bottom}Z` }));
    parts.push(node("path", { class: "line", d: ours }));
    const at = this.at ?? this.resting;
    const here = x(curve[at].age_seconds);
    parts.push(...this.readout(frame, here, this.at === null ? [] : [`${curve[at].age}: ε ≤ ${curve[at].shown}`, `at most ${curve[at].sure} sure`]));
    if (this.others.length) parts.push(node("circle", { class: "mark other", r: 5, cx: here.toFixed(1), cy: y(value(this.others[at])).toFixed(1) }));
    parts.push(node("circle", { class: "mark", r: 6, cx: here.toFixed(1), cy: y(value(curve[at])).toFixed(1) }));
    return parts;
  }
}

function powers(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) if (10 ** power >= low) found.push(Number((10 ** power).toPrecision(2)));
  return found;
}

export class Fading {
  constructor() {
    this.slider = byId("age");
    this.compare = byId("compare");
    this.chart = new FadingChart(byId("fading-chart"));
    this.slider.addEventListener("input", () => this.tell());
    this.compare.addEventListener("change", () => this.tell());
    byId("rival").addEventListener("change", () => this.rival());
    for (const id of ["times", "each", "during"]) byId(id).addEventListener("change", () => this.person());
    for (const choice of document.querySelectorAll('input[name="scale"]')) {
      choice.addEventListener("change", () => { this.chart.kind = choice.value; this.caption(); this.chart.redraw(); });
    }
    this.caption();
  }

  show(privacy, facts, signal) {
    const first = !this.privacy || this.privacy.stream !== privacy.stream;
    Object.assign(this, { privacy, facts, signal, refresh: privacy.refresh });
    this.chart.items = privacy.curve;
    this.chart.at = null;
    this.slider.max = String(privacy.curve.length - 1);
    if (first) {
      const day = privacy.curve.findIndex((point) => point.age_seconds >= 86400);
      this.slider.value = String(Math.max(0, day));
      for (const option of byId("rival").options) option.disabled = EVERY[option.value] < 2 * privacy.tick_seconds;
      byId("rival").value = Object.keys(EVERY).find((each) => EVERY[each] === privacy.refresh?.every_seconds) ?? "1y";
    }
    const unit = privacy.unit ?? "one event";
    byId("unit-words").textContent = unit[0].toUpperCase() + unit.slice(1);
    byId("unit-promise").textContent = unit;
    byId("typical-error").textContent = number(privacy.typical_error);
    this.tell();
    this.person();
  }

  tell() {
    const at = Number(this.slider.value);
    const here = this.privacy.curve[at];
    const comparing = this.compare.checked && Boolean(this.refresh);
    const other = comparing ? this.refresh.points[at] : null;
    this.chart.resting = at;
    this.chart.others = comparing ? this.refresh.points : [];
    byId("age-words").textContent = here.age;
    byId("age-loss").textContent = here.shown;
    this.slider.setAttribute("aria-valuetext", `${here.age} ago: a privacy loss of at most ${here.shown}, at most ${here.sure} sure`);
    byId("meaning").textContent = here.meaning;
    byId("guess-ours").style.setProperty("width", `${2 * (sure(here) - 50)}%`);
    byId("guess-refresh").style.setProperty("width", comparing ? `${2 * (sure(other) - 50)}%` : "0");
    byId("guess-refresh").style.setProperty("visibility", comparing ? "visible" : "hidden");
    byId("compare-meaning").textContent = !this.compare.checked ? "" : this.refresh ? this.refresh.sentence : "The paper's baseline, refreshed so often, never has the same error.";
    document.body.classList.toggle("comparing", comparing);
    this.chart.label(`${here.age} ago: a privacy loss of at most ${here.shown}.`);
    this.table();
    this.chart.redraw();
  }

  /* Another window for the rival: the service finds the one with the same error. */
  async rival() {
    const wanted = byId("rival").value;
    const found = await get(`${streamPath(this.privacy.stream)}/privacy?${new URLSearchParams({ refresh: wanted })}`, this.signal);
    if (byId("rival").value !== wanted) return;
    this.refresh = found.refresh;
    this.compare.checked = true;
    this.tell();
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
      ? "How sure a fifty-fifty guess can become, by the age of the event"
      : "Privacy loss (ε), by the age of the event";
  }

  /* What has been lost: ages that the stream has reached. Older ages come later. */
  table() {
    const { statements, curve, tick_seconds: tick } = this.privacy;
    const { first_start: first, last_start: last } = this.facts;
    const reached = first ? (Date.parse(last) - Date.parse(first)) / 1000 + tick : 0;
    const ages = new Map(curve.map((point, index) => [point.age_seconds, index]));
    const row = (each) => [each.age, each.shown, each.sure, this.refresh?.points[ages.get(each.age_seconds)].shown ?? ""];
    const past = statements.filter((each) => each.age_seconds <= reached);
    const later = statements.filter((each) => each.age_seconds > reached);
    fill(byId("lost"), past.map(row), { heads: true });
    fill(byId("to-be-lost"), later.map(row), { heads: true });
    byId("lost-part").hidden = !past.length;
    byId("later-part").hidden = !later.length;
  }
}

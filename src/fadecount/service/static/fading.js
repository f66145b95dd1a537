// The fading curve: a chart in human time, a slider for any age, and what it means in words.
import { drawn, node, stairs, text } from "./svg.js";
import { roundTicks } from "./words.js";

const EDGE = { top: 14, right: 10, bottom: 28, left: 46 };
const AGES = [[60, "1 min"], [3600, "1 hour"], [86400, "1 day"], [604800, "1 week"], [2592000, "1 month"], [31536000, "1 year"], [315360000, "10 years"], [3153600000, "100 years"]];
const sure = (loss) => 100 / (1 + Math.exp(-loss));
const byId = (id) => document.getElementById(id);

export class Fading {
  constructor() {
    this.slider = byId("age");
    this.compare = byId("compare");
    this.svg = node("svg", { role: "img" });
    byId("fading-chart").replaceChildren(this.svg);
    this.redraw = drawn(byId("fading-chart"), (width, height) => this.draw(width, height));
    this.slider.addEventListener("input", () => this.tell());
    this.compare.addEventListener("change", () => this.tell());
    this.scale = "guess";
    for (const choice of document.querySelectorAll('input[name="scale"]')) {
      choice.addEventListener("change", () => { this.scale = choice.value; this.caption(); this.redraw(); });
    }
    this.caption();
  }

  show(privacy) {
    const first = !this.privacy || this.privacy.stream !== privacy.stream;
    this.privacy = privacy;
    this.compare.disabled = !privacy.refresh;
    this.compare.checked &&= Boolean(privacy.refresh);
    this.slider.max = String(privacy.curve.length - 1);
    if (first) {
      const day = privacy.curve.findIndex((point) => point.age_seconds >= 86400);
      this.slider.value = String(Math.max(0, day));
    }
    byId("typical-error").textContent = String(Math.round(privacy.typical_error)).replace(/\B(?=(\d{3})+$)/g, ",");
    this.table();
    this.tell();
  }

  tell() {
    const at = Number(this.slider.value);
    const here = this.privacy.curve[at];
    const other = this.privacy.refresh?.points[at];
    byId("age-words").textContent = here.age;
    byId("age-loss").textContent = here.shown;
    this.slider.setAttribute("aria-valuetext", `${here.age} ago: a loss of at most ${here.shown}, at most ${here.sure} sure`);
    byId("meaning").textContent = here.meaning[0].toUpperCase() + here.meaning.slice(1);
    byId("guess-ours").style.setProperty("width", `${2 * (sure(here.loss) - 50)}%`);
    byId("guess-refresh").style.setProperty("width", this.compare.checked ? `${2 * (sure(other.loss) - 50)}%` : "0");
    byId("guess-refresh").style.setProperty("visibility", this.compare.checked ? "visible" : "hidden");
    byId("compare-meaning").textContent = this.compare.checked
      ? `A counter with the same typical error that refreshes its privacy budget every month, tuned for one year, has lost up to ${other.shown} by then (${other.sure} sure), and its loss grows by the same amount every month, for ever.`
      : "";
    document.body.classList.toggle("comparing", this.compare.checked);
    this.redraw();
  }

  caption() {
    const words = this.scale === "guess" ? "How sure a fifty-fifty guess can become, by the age of the event" : "Privacy loss, by the age of the event";
    byId("fading-caption").textContent = words;
    this.svg.setAttribute("aria-label", `${words}. The slider reads it out for any age.`);
  }

  table() {
    const ages = new Map(this.privacy.curve.map((point, index) => [point.age_seconds, index]));
    const rows = this.privacy.statements.map((statement) => {
      const row = document.createElement("tr");
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = statement.age;
      const cells = [statement.shown, statement.sure, this.privacy.refresh?.points[ages.get(statement.age_seconds)].shown ?? ""].map((words) => {
        const cell = document.createElement("td");
        cell.textContent = words;
        return cell;
      });
      cells[2].className = "refresh-column";
      row.append(head, ...cells);
      return row;
    });
    byId("statements").tBodies[0].replaceChildren(...rows);
  }

  draw(width, height) {
    if (!this.privacy) return;
    const { curve, refresh } = this.privacy;
    const guess = this.scale === "guess";
    const value = (point) => (guess ? sure(point.loss) : point.loss);
    const others = this.compare.checked ? refresh.points : [];
    const low = guess ? 50 : 0;
    const high = guess ? 100 : Math.max(...curve.map(value), ...others.map(value)) * 1.05;
    const first = Math.log(curve[0].age_seconds);
    const last = Math.log(curve.at(-1).age_seconds);
    const x = (seconds) => EDGE.left + ((Math.log(seconds) - first) / (last - first)) * (width - EDGE.left - EDGE.right);
    const y = (each) => EDGE.top + (1 - (each - low) / (high - low)) * (height - EDGE.top - EDGE.bottom);
    const parts = [];
    for (const each of guess ? [50, 60, 70, 80, 90, 100] : roundTicks(low, high, 5)) {
      parts.push(node("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y(each).toFixed(1), y2: y(each).toFixed(1) }));
      parts.push(text(EDGE.left - 8, y(each) + 4, guess ? `${each} %` : String(each), { "text-anchor": "end" }));
    }
    let edge = -Infinity;
    for (const [seconds, label] of AGES) {
      if (seconds < curve[0].age_seconds) continue;
      const at = x(seconds);
      const long = label.length * 6.6;
      const anchor = at + long / 2 > width ? "end" : at - long / 2 < EDGE.left ? "start" : "middle";
      const begin = at - { start: 0, middle: long / 2, end: long }[anchor];
      if (begin < edge + 8) continue;
      edge = begin + long;
      parts.push(text(at, height - 6, label, { "text-anchor": anchor }));
    }
    const path = (points) => stairs(points.map((point, index) => [x(curve[index].age_seconds), y(value(point))]));
    if (others.length) parts.push(node("path", { class: "line other", d: path(others) }));
    const ours = path(curve);
    parts.push(node("path", { class: "band", d: `${ours}L${x(curve.at(-1).age_seconds).toFixed(1)} ${y(low).toFixed(1)}L${EDGE.left} ${y(low).toFixed(1)}Z` }));
    parts.push(node("path", { class: "line", d: ours }));
    const at = Number(this.slider.value);
    const here = x(curve[at].age_seconds);
    parts.push(node("line", { class: "cross", x1: here.toFixed(1), x2: here.toFixed(1), y1: EDGE.top, y2: height - EDGE.bottom }));
    if (others.length) parts.push(node("circle", { class: "mark other", r: 5, cx: here.toFixed(1), cy: y(value(others[at])).toFixed(1) }));
    parts.push(node("circle", { class: "mark", r: 6, cx: here.toFixed(1), cy: y(value(curve[at])).toFixed(1) }));
    this.svg.replaceChildren(...parts);
  }
}

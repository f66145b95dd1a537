// The published count of one key over a range, with its band.
import { area, drawn, line, node, text } from "./svg.js";
import { moment, number, roundTicks, timeTicks } from "./words.js";

const EDGE = { top: 12, right: 8, bottom: 26, left: 58 };

export class CountChart {
  constructor(figure) {
    this.rows = [];
    this.from = this.to = 0;
    this.tickSeconds = 1;
    this.at = null;
    this.svg = node("svg", { role: "img", tabindex: "0", "aria-label": "Chart of the published count" });
    figure.replaceChildren(this.svg);
    this.redraw = drawn(figure, (width, height) => this.draw(width, height));
    this.svg.addEventListener("pointermove", (event) => this.point(event.clientX));
    this.svg.addEventListener("pointerleave", () => { this.at = null; this.redraw(); });
    this.svg.addEventListener("blur", () => { this.at = null; this.redraw(); });
    this.svg.addEventListener("keydown", (event) => this.step(event));
  }

  show(rows, from, to, tickSeconds) {
    Object.assign(this, { rows, from, to, tickSeconds });
    const last = rows.at(-1);
    const words = last ? `${number(last.value)}, between ${number(last.low)} and ${number(last.high)}, at ${moment(last.time, tickSeconds)}` : "nothing yet";
    this.svg.setAttribute("aria-label", `Chart of the published count. Latest: ${words}. Arrow keys move through it.`);
    this.redraw();
  }

  point(clientX) {
    const box = this.svg.getBoundingClientRect();
    const share = (clientX - box.left - EDGE.left) / (box.width - EDGE.left - EDGE.right);
    const time = this.from + share * (this.to - this.from);
    let best = null;
    this.rows.forEach((row, index) => {
      if (best === null || Math.abs(row.time - time) < Math.abs(this.rows[best].time - time)) best = index;
    });
    this.at = best;
    this.redraw();
  }

  step(event) {
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: 10, PageDown: -10, Home: -Infinity, End: Infinity };
    if (!(event.key in moves) || !this.rows.length) return;
    event.preventDefault();
    const last = this.rows.length - 1;
    this.at = Math.max(0, Math.min(last, (this.at ?? last) + moves[event.key]));
    const row = this.rows[this.at];
    this.svg.setAttribute("aria-label", `${moment(row.time, this.tickSeconds)}: ${number(row.value)}, between ${number(row.low)} and ${number(row.high)}`);
    this.redraw();
  }

  draw(width, height) {
    const inner = { width: width - EDGE.left - EDGE.right, height: height - EDGE.top - EDGE.bottom };
    const shown = thinned(this.rows, inner.width);
    const [low, high] = extent(shown);
    const x = (time) => EDGE.left + ((time - this.from) / (this.to - this.from || 1)) * inner.width;
    const y = (value) => EDGE.top + (1 - (value - low) / (high - low)) * inner.height;
    const parts = [];
    for (const value of roundTicks(low, high, 5)) {
      parts.push(node("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: y(value).toFixed(1), y2: y(value).toFixed(1) }));
      parts.push(text(EDGE.left - 10, y(value) + 4, number(value), { "text-anchor": "end" }));
    }
    for (const { at, label } of timeTicks(this.from, this.to, Math.max(3, inner.width / 75))) {
      const anchor = x(at) > width - 40 ? "end" : x(at) < EDGE.left + 20 ? "start" : "middle";
      parts.push(text(x(at), height - 6, label, { "text-anchor": anchor }));
    }
    parts.push(node("path", { class: "band", d: area(shown.map((row) => [x(row.time), y(row.high)]), shown.map((row) => [x(row.time), y(row.low)])) }));
    parts.push(node("path", { class: "line", d: line(shown.map((row) => [x(row.time), y(row.value)])) }));
    const last = this.rows.at(-1);
    if (last && this.at === null) parts.push(node("circle", { class: "mark", r: 5, cx: x(last.time).toFixed(1), cy: y(last.value).toFixed(1) }));
    if (this.at !== null && this.rows[this.at]) parts.push(...this.readout(this.rows[this.at], x, y, width, height));
    this.svg.replaceChildren(...parts);
  }

  readout(row, x, y, width, height) {
    const at = x(row.time);
    const anchor = at > width / 2 ? "end" : "start";
    const beside = at + (anchor === "end" ? -10 : 10);
    return [
      node("line", { class: "cross", x1: at.toFixed(1), x2: at.toFixed(1), y1: EDGE.top, y2: height - EDGE.bottom }),
      node("circle", { class: "mark", r: 5, cx: at.toFixed(1), cy: y(row.value).toFixed(1) }),
      text(beside, EDGE.top + 8, `${number(row.value)}  (${number(row.low)} to ${number(row.high)})`, { "text-anchor": anchor, class: "tip" }),
      text(beside, EDGE.top + 26, moment(row.time, this.tickSeconds), { "text-anchor": anchor }),
    ];
  }
}

/* From the lowest to the highest edge of the band with some air, and from zero when zero is near. */
function extent(rows) {
  const low = rows.reduce((least, row) => Math.min(least, row.low), Infinity);
  const high = rows.reduce((most, row) => Math.max(most, row.high), -Infinity);
  if (!rows.length) return [0, 1];
  const air = Math.max(1, (high - low) * 0.08);
  return [low >= 0 && low < 0.4 * high ? 0 : low - air, high + air];
}

/* At most two rows per pixel: more cannot be seen. The last one always stays. */
function thinned(rows, pixels) {
  const every = Math.max(1, Math.floor(rows.length / (2 * pixels)));
  return every === 1 ? rows : rows.filter((row, index) => index % every === 0 || index === rows.length - 1);
}

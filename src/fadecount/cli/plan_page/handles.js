// A curve to choose: one handle per age that pointer, touch and keyboard move; below it the curve that was planned.
import { drawn, line, node, stairs, text } from "./chart.js";

const EDGE = { top: 22, right: 16, bottom: 28, left: 46 };
const LABELS = [[1, "1 s"], [60, "1 min"], [3600, "1 hour"], [86400, "1 day"], [2592000, "1 month"], [31536000, "1 year"], [315360000, "10 years"]];
export const [LEAST, MOST] = [0.01, 100];
const STEPS = { ArrowUp: 1.1, ArrowRight: 1.1, ArrowDown: 1 / 1.1, ArrowLeft: 1 / 1.1, PageUp: 2, PageDown: 0.5 };
const ENDS = { Home: LEAST, End: MOST };
export const rounded = (loss) => Number(Math.min(MOST, Math.max(LEAST, loss)).toPrecision(2));

export class Handles {
  /* ages: [[name, words, seconds]]; onMove(name, loss) while a handle moves. */
  constructor(figure, ages, onMove) {
    Object.assign(this, { ages, onMove, limits: new Map(), planned: [], from: 60, to: 31536000 });
    this.svg = node("svg", { role: "group", "aria-label": "The curve of allowed losses: one handle for each age" });
    this.back = node("g", { "aria-hidden": "true" });
    this.svg.append(this.back);
    this.handles = new Map(ages.map(([name, words]) => [name, this.handle(name, words)]));
    this.svg.append(...this.handles.values());
    figure.replaceChildren(this.svg);
    this.redraw = drawn(figure, (width, height) => this.paint(width, height));
  }

  handle(name, words) {
    const handle = node("g", { class: "handle", role: "slider", tabindex: "0", "aria-label": `Loss after ${words}`, "aria-orientation": "vertical", "aria-valuemin": LEAST, "aria-valuemax": MOST },
      node("circle", { class: "reach", r: 24 }), node("circle", { class: "grip", r: 9 }), text(-7, -13, "", { "text-anchor": "end", class: "tip" }));
    handle.addEventListener("pointerdown", (event) => { handle.setPointerCapture(event.pointerId); handle.focus(); event.preventDefault(); });
    handle.addEventListener("pointermove", (event) => {
      if (handle.hasPointerCapture(event.pointerId)) this.onMove(name, rounded(this.lossAt(event.clientY - this.svg.getBoundingClientRect().top)));
    });
    handle.addEventListener("keydown", (event) => {
      const now = this.limits.get(name);
      const wanted = ENDS[event.key] ?? (event.key in STEPS ? moved(now, STEPS[event.key]) : null);
      if (wanted === null) return;
      event.preventDefault();
      this.onMove(name, wanted);
    });
    return handle;
  }

  /* limits: Map of name to loss, for the ages in use; planned: losses of the plan, or none while there is no plan. */
  show(limits, planned, from, to) {
    Object.assign(this, { limits, planned, from, to });
    for (const [name, handle] of this.handles) {
      const loss = limits.get(name);
      handle.style.setProperty("display", loss === undefined ? "none" : "");
      if (loss === undefined) continue;
      handle.setAttribute("aria-valuenow", loss);
      handle.setAttribute("aria-valuetext", `a privacy loss of at most ${loss}`);
      handle.lastChild.textContent = String(loss);
    }
    this.redraw();
  }

  paint(width, height) {
    const [left, right, top, bottom] = [EDGE.left, width - EDGE.right, EDGE.top, height - EDGE.bottom];
    const x = (seconds) => left + (Math.log(seconds / this.from) / Math.log(this.to / this.from)) * (right - left);
    const y = (loss) => bottom - (Math.log(Math.max(loss, LEAST) / LEAST) / Math.log(MOST / LEAST)) * (bottom - top);
    this.lossAt = (place) => LEAST * (MOST / LEAST) ** ((bottom - place) / (bottom - top));
    const parts = [0.01, 0.1, 1, 10, 100].flatMap((loss) => [
      node("line", { class: "grid", x1: left, x2: right, y1: y(loss).toFixed(1), y2: y(loss).toFixed(1) }),
      text(left - 8, y(loss) + 4, String(loss), { "text-anchor": "end" }),
    ]);
    let end = -Infinity;
    for (const [seconds, words] of LABELS.filter(([each]) => each >= this.from && each <= this.to)) {
      const half = words.length * 3.3;
      const middle = Math.min(Math.max(x(seconds), half), width - half);
      if (middle - half < end + 8) continue;
      end = middle + half;
      parts.push(text(middle, height - 6, words, { "text-anchor": "middle" }));
    }
    const inside = this.planned.filter(([age]) => age >= this.from && age <= this.to).map(([age, loss]) => [x(age), y(loss)]);
    if (inside.length) {
      const path = stairs(inside);
      parts.push(node("path", { class: "band", d: `${path}L${inside.at(-1)[0].toFixed(1)} ${bottom}L${inside[0][0].toFixed(1)} ${bottom}Z` }), node("path", { class: "line", d: path }));
    }
    const used = this.ages.filter(([name]) => this.limits.has(name)).map(([name, , seconds]) => [x(seconds), y(this.limits.get(name))]);
    if (used.length) parts.push(node("path", { class: "line limit", d: `${stairs([[left, used[0][1]], ...used])}${line([used.at(-1), [right, used.at(-1)[1]]])}` }));
    this.back.replaceChildren(...parts);
    for (const [name, , seconds] of this.ages) {
      if (this.limits.has(name)) this.handles.get(name).setAttribute("transform", `translate(${x(seconds).toFixed(1)} ${y(this.limits.get(name)).toFixed(1)})`);
    }
  }
}

/* The next loss in that direction: always another one, also where rounding would keep it. */
function moved(now, factor) {
  const next = rounded(now * factor);
  return next === now ? rounded(now + Math.sign(factor - 1) * 10 ** Math.floor(Math.log10(now) - 1)) : next;
}

// What all charts share: the little that they need of SVG, a drawing that fills its figure, a position that pointer and keyboard move, axes and a readout.
const SPACE = "http://www.w3.org/2000/svg";

export function node(name, attributes = {}, ...children) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function text(x, y, words, attributes = {}) {
  return node("text", { x: x.toFixed(1), y: y.toFixed(1), ...attributes }, words);
}

const point = ([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`;
export const line = (points) => (points.length ? `M${points.map(point).join("L")}` : "");
export const area = (upper, lower) => (upper.length ? `${line(upper)}L${[...lower].reverse().map(point).join("L")}Z` : "");

/* A staircase that reaches each value at the beginning of its step: never below the truth between two points. */
export function stairs(points) {
  const corners = [];
  points.forEach(([x, y], index) => {
    if (index) corners.push([points[index - 1][0], y]);
    corners.push([x, y]);
  });
  return line(corners);
}

/* Calls draw(width, height) now and whenever the element changes size. */
export function drawn(element, draw) {
  let frame = 0;
  const again = () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => {
      const { width, height } = element.getBoundingClientRect();
      if (width && height) draw(width, height);
    });
  };
  new ResizeObserver(again).observe(element);
  return again;
}

const MOVES = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: 10, PageDown: -10, Home: -Infinity, End: Infinity };

export class Chart {
  /* `edge` is the room for labels around the drawing. Subclasses give `items`, `place(item)` and `paint(frame)`. */
  constructor(figure, edge, name) {
    this.figure = figure;
    this.edge = edge;
    this.name = name;
    this.items = [];
    this.at = null;
    this.svg = node("svg", { role: "img", tabindex: "0", "aria-label": name });
    figure.replaceChildren(this.svg);
    this.redraw = drawn(figure, (width, height) => this.svg.replaceChildren(...this.paint(this.frame(width, height))));
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.move(null));
    this.svg.addEventListener("blur", () => this.move(null));
    this.svg.addEventListener("keydown", (event) => this.step(event));
  }

  frame(width, height) {
    const { top, right, bottom, left } = this.edge;
    return { width, height, top, left, right: width - right, bottom: height - bottom, across: width - left - right, down: height - top - bottom };
  }

  /* The name of the chart with its latest item: what a screen reader says when the chart gets the focus. */
  label(words) {
    this.svg.setAttribute("aria-label", `${this.name}. ${words} Arrow keys move through it.`);
  }

  point(event) {
    if (!this.items.length || !this.scale) return;
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    let best = 0;
    this.items.forEach((item, index) => {
      if (Math.abs(this.scale(item) - x) < Math.abs(this.scale(this.items[best]) - x)) best = index;
    });
    this.move(best);
  }

  step(event) {
    if (!(event.key in MOVES) || !this.items.length) return;
    event.preventDefault();
    const last = this.items.length - 1;
    this.move(Math.max(0, Math.min(last, (this.at ?? last) + MOVES[event.key])));
    this.svg.setAttribute("aria-label", this.describe(this.items[this.at]).join(", "));
  }

  move(index) {
    if (this.at === index) return;
    this.at = index;
    this.redraw();
  }

  /* Horizontal lines with labels at round values. */
  levels(frame, y, values, words) {
    return values.flatMap((value) => [
      node("line", { class: "grid", x1: frame.left, x2: frame.right, y1: y(value).toFixed(1), y2: y(value).toFixed(1) }),
      text(frame.left - 8, y(value) + 4, words(value), { "text-anchor": "end" }),
    ]);
  }

  /* Labels below the drawing. Those that would touch the one before are left out. */
  labels(frame, marks) {
    const parts = [];
    let end = -Infinity;
    for (const { x, words } of marks) {
      const long = words.length * 6.6;
      const anchor = x + long / 2 > frame.width ? "end" : x - long / 2 < frame.left - 10 ? "start" : "middle";
      const begin = x - { start: 0, middle: long / 2, end: long }[anchor];
      if (begin < end + 8) continue;
      end = begin + long;
      parts.push(text(x, frame.height - 6, words, { "text-anchor": anchor }));
    }
    return parts;
  }

  /* A dotted line at an item, with what it says beside it. */
  readout(frame, x, lines) {
    const anchor = x > frame.left + frame.across / 2 ? "end" : "start";
    const beside = x + (anchor === "end" ? -10 : 10);
    return [
      node("line", { class: "cross", x1: x.toFixed(1), x2: x.toFixed(1), y1: frame.top, y2: frame.bottom }),
      ...lines.map((words, index) => text(beside, frame.top + 8 + 18 * index, words, { "text-anchor": anchor, class: index ? "tip soft" : "tip" })),
    ];
  }
}

// Published counts: bars with whiskers for slots of time, a line with its band for totals.
import { Chart, area, line, node } from "./chart.js";
import { moment, number, period, roundTicks, timeTicks } from "./words.js";

const EDGE = { top: 12, right: 8, bottom: 26, left: 58 };

const between = (row) => `${number(row.value)}  (${number(row.low)} to ${number(row.high)})`;
const spoken = (row) => `${number(row.value)}, between ${number(row.low)} and ${number(row.high)}`;

class Counts extends Chart {
  constructor(figure, name) {
    super(figure, EDGE, name);
    this.from = this.to = 0;
    this.tickSeconds = 1;
  }

  show(rows, { from, to, tickSeconds, zone }) {
    Object.assign(this, { items: rows, from, to, tickSeconds, zone });
    if (this.at !== null && this.at >= rows.length) this.at = null;
    const last = rows.at(-1);
    this.label(last ? `Latest: ${spoken(last)}, ${this.when(last)}.` : "Nothing is published yet.");
    this.redraw();
  }

  describe(row) { return [this.when(row), spoken(row)]; }

  /* Scales for rows, and their marks. */
  axes(frame, rows) {
    const [low, high] = extent(rows);
    const x = (time) => frame.left + ((time - this.from) / (this.to - this.from || 1)) * frame.across;
    const y = (value) => frame.top + (1 - (value - low) / (high - low)) * frame.down;
    const ticks = timeTicks(this.from, this.to, Math.max(2, frame.across / 75), this.zone);
    const times = this.labels(frame, ticks.map(({ at, label }) => ({ x: x(at), words: label })));
    return { x, y, marks: [...this.levels(frame, y, roundTicks(low, high, 5), number), ...times] };
  }
}

/* Totals of one key, or of all. */
export class LineChart extends Counts {
  when(row) { return moment(row.time, this.tickSeconds, this.zone); }

  paint(frame) {
    const shown = thinned(this.items, frame.across);
    const { x, y, marks: parts } = this.axes(frame, shown);
    this.scale = (row) => x(row.time);
    parts.push(node("path", { class: "band", d: area(shown.map((row) => [x(row.time), y(row.high)]), shown.map((row) => [x(row.time), y(row.low)])) }));
    parts.push(node("path", { class: "line", d: line(shown.map((row) => [x(row.time), y(row.value)])) }));
    const row = this.items[this.at];
    if (row) parts.push(...this.readout(frame, x(row.time), [between(row), this.when(row)]));
    const marked = row ?? shown.at(-1);
    if (marked) parts.push(node("circle", { class: "mark", r: 5, cx: x(marked.time).toFixed(1), cy: y(marked.value).toFixed(1) }));
    return parts;
  }
}

/* Counts of hours, days or months of one key, or of all. Those that are not final are hatched. */
export class BarChart extends Counts {
  when(row) { return `${period(row.time, row.end, this.zone)}${row.partial ? ", not over" : row.status ? `, ${row.status}` : ""}`; }

  paint(frame) {
    const rows = this.items;
    const { x, y, marks } = this.axes(frame, [...rows, { low: 0, high: 0 }]);
    this.scale = (row) => x((row.time + row.end) / 2);
    const hatch = node("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, node("rect", { class: "hatched", width: 2, height: 5 }));
    const parts = [node("defs", {}, hatch), ...marks];
    rows.forEach((row, index) => {
      const [left, right] = [x(row.time), x(row.end)];
      const gap = Math.min(6, (right - left) * 0.2);
      const [top, base] = [Math.min(y(row.value), y(0)), Math.max(y(row.value), y(0))];
      const kind = `column ${row.partial ? "partial" : row.status ?? "final"}${index === this.at ? " chosen" : ""}`;
      parts.push(node("rect", { class: kind, x: (left + gap / 2).toFixed(1), width: Math.max(1, right - left - gap).toFixed(1), y: top.toFixed(1), height: Math.max(1, base - top).toFixed(1), rx: Math.min(3, (right - left) / 6).toFixed(1) }));
      const middle = this.scale(row).toFixed(1);
      parts.push(node("line", { class: "whisker", x1: middle, x2: middle, y1: y(row.low).toFixed(1), y2: y(row.high).toFixed(1) }));
    });
    parts.push(node("line", { class: "zero", x1: frame.left, x2: frame.right, y1: y(0).toFixed(1), y2: y(0).toFixed(1) }));
    const row = this.items[this.at];
    if (row) parts.push(...this.readout(frame, this.scale(row), [between(row), this.when(row)]));
    return parts;
  }
}

/* From the lowest to the highest edge of the band with some air, and from zero when zero is near. */
function extent(rows) {
  if (!rows.length) return [0, 1];
  const [low, high] = [Math.min(...rows.map((row) => row.low)), Math.max(...rows.map((row) => row.high))];
  const air = Math.max(1, (high - low) * 0.08);
  return [low >= 0 && low < 0.4 * high ? 0 : low - air, high + air];
}

/* At most two rows per pixel: more cannot be seen. The last one always stays. */
function thinned(rows, pixels) {
  const every = Math.max(1, Math.floor(rows.length / (2 * pixels)));
  return every === 1 ? rows : rows.filter((row, index) => index % every === 0 || index === rows.length - 1);
}

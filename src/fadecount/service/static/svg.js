// The little that the charts need of SVG.
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

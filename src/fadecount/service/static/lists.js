// Rows of choices, tables, long lists (a search narrows them, and rows get their numbers when they are seen), downloads.
import { half, number } from "./words.js";

const MOST_DRAWN = 200;
const SEARCH_FROM = 9;

export class SearchList {
  /* `draw(item)` makes a row, `fill(item, row)` puts its numbers in, `named(item)` is what a search looks at. */
  constructor({ box, search, note }, { draw, fill, named }) {
    Object.assign(this, { box, search, note, draw, fill, named, items: [], rows: new Map() });
    search.addEventListener("input", () => this.narrow());
    this.watcher = new IntersectionObserver((seen) => {
      for (const { target, isIntersecting } of seen) {
        const row = this.rows.get(target);
        if (!row) continue;
        row.seen = isIntersecting;
        if (isIntersecting) this.fill(row.item, target);
      }
    }, { rootMargin: "100% 0px" });
  }

  show(items) {
    this.items = items;
    this.search.value = "";
    this.search.parentElement.hidden = items.length < SEARCH_FROM;
    this.narrow();
  }

  narrow() {
    const wanted = this.search.value.trim().toLowerCase();
    const found = this.items.filter((item) => this.named(item).toLowerCase().includes(wanted));
    this.watcher.disconnect();
    this.rows = new Map(found.slice(0, MOST_DRAWN).map((item) => [this.draw(item), { item, seen: false }]));
    this.box.replaceChildren(...this.rows.keys());
    for (const row of this.rows.keys()) this.watcher.observe(row);
    const left = found.length - this.rows.size;
    this.note.textContent = left ? `${number(left)} more: search for them.` : found.length ? "" : "None has such a name.";
  }

  /* Read the numbers of what is seen once more. */
  refresh() {
    for (const [element, { item, seen }] of this.rows) if (seen) this.fill(item, element);
  }
}

export const margin = (row) => (row ? `± ${number(half(row))}` : "");

/* The parts of a number with its name: [name, value, margin] in an element with such children. */
export function fillNumber(element, row, name) {
  const [label, value, around] = element.querySelectorAll(".label, .value, .margin");
  label.textContent = name;
  value.textContent = row ? number(row.value) : "–";
  around.textContent = margin(row);
}

/* Radio buttons in a fieldset: options are [value, words]. */
export function choices(fieldset, name, options, chosen, onChoice) {
  const labels = options.map(([value, words]) => {
    const input = Object.assign(document.createElement("input"), { type: "radio", name, value, checked: value === chosen });
    input.addEventListener("change", () => onChoice(value));
    const label = document.createElement("label");
    const shown = document.createElement("span");
    shown.textContent = words;
    label.append(input, shown);
    return label;
  });
  fieldset.replaceChildren(fieldset.querySelector("legend"), ...labels);
}

/* The body of a table; the first cell of a row is its heading if `heads`. */
export function fill(table, rows, { heads = false } = {}) {
  table.tBodies[0].replaceChildren(...rows.map((cells) => {
    const row = document.createElement("tr");
    cells.forEach((words, index) => {
      const cell = document.createElement(heads && index === 0 ? "th" : "td");
      if (heads && index === 0) cell.scope = "row";
      cell.textContent = words;
      row.append(cell);
    });
    return row;
  }));
}

/* Rows with the same fields as CSV: quoted where that is needed. A spreadsheet must not run a text
   as a formula: one that begins like one has an apostrophe before it. */
export function csv(rows) {
  const text = (value) => (/^'*[=+\-@\t\r]/.test(value) ? `'${value}` : value);
  const quoted = (value) => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const cell = (value) => (typeof value === "string" ? quoted(text(value)) : value ?? "");
  const lines = rows.map((row) => Object.values(row).map(cell).join(","));
  return `${[Object.keys(rows[0] ?? {}).join(","), ...lines].join("\n")}\n`;
}

export function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

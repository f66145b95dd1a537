// Rows of choices, tables, and files to download.

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

/* A list to choose from, for more options than fit in a row. */
export function selection(fieldset, name, options, chosen, onChoice) {
  const select = document.createElement("select");
  select.setAttribute("aria-label", name);
  select.append(...options.map(([value, words]) => new Option(words, value, false, value === chosen)));
  select.addEventListener("change", () => onChoice(select.value));
  fieldset.replaceChildren(fieldset.querySelector("legend"), select);
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

const quoted = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));

/* A table as a CSV file. */
export function download(name, header, rows) {
  save(name, "text/csv", `${[header, ...rows].map((row) => row.map(quoted).join(",")).join("\n")}\n`);
}

export function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

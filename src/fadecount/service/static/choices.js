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

export function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

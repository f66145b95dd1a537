// The description of the HTTP interface, as a page. It is the same description that programs read.
import { get } from "./api.js";

/* `Names` between backticks become code. */
function coded(name, words, className) {
  const box = made(name, "", className);
  box.append(...String(words ?? "").split("`").map((part, index) => (index % 2 ? made("code", part) : part)));
  return box;
}

const made = (name, words, className) => Object.assign(document.createElement(name), { textContent: words ?? "", ...(className ? { className } : {}) });

export async function showInterface(container, signal) {
  const description = await get("/v1/openapi.json", signal);
  const parts = [];
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      if (typeof operation !== "object" || !operation.responses) continue;
      parts.push(section(description, path, method, operation));
    }
  }
  container.replaceChildren(...parts);
}

function section(description, path, method, operation) {
  const box = made("section", "", "operation");
  const title = made("h2");
  title.append(made("span", method.toUpperCase(), "method"), " ", made("code", path));
  box.append(title, coded("p", operation.summary));
  if (operation.description) box.append(coded("p", operation.description, "caption"));
  const parameters = (operation.parameters ?? []).map((each) => resolve(description, each));
  if (parameters.length) box.append(list(parameters.map((each) => [`${each.name}${each.required ? "" : " (optional)"}`, [each.description, words(description, each.schema)].filter(Boolean).join("; ")])));
  const body = resolve(description, operation.requestBody ?? {});
  for (const [type, { schema }] of Object.entries(body.content ?? {})) box.append(made("p", `Body (${type})`, "caption"), fields(description, schema));
  const answers = Object.entries(operation.responses).map(([status, answer]) => [status, resolve(description, answer).description ?? ""]);
  const more = made("details");
  more.append(made("summary", "Answers"), list(answers));
  box.append(more);
  return box;
}

function resolve(description, value) {
  return value.$ref ? value.$ref.split("/").slice(1).reduce((found, name) => found[name], description) : value;
}

function fields(description, schema) {
  const found = resolve(description, schema ?? {});
  const rows = Object.entries(found.properties ?? {}).map(([name, each]) => [`${name}${(found.required ?? []).includes(name) ? "" : " (optional)"}`, [each.description ?? resolve(description, each).description, words(description, each)].filter(Boolean).join("; ")]);
  return rows.length ? list(rows) : made("p", [found.description, words(description, found)].filter(Boolean).join("; "), "caption");
}

function words(description, schema) {
  if (!schema) return "";
  const found = resolve(description, schema);
  if (found.enum) return found.enum.join(", ");
  if (found.anyOf ?? found.oneOf) return (found.anyOf ?? found.oneOf).map((each) => words(description, each)).filter(Boolean).join(" or ");
  if (found.type === "array") return `list of ${words(description, found.items)}`;
  return [found.title ?? found.type, found.examples ? `such as ${found.examples.join(", ")}` : "", found.default === undefined ? "" : `by default ${found.default}`].filter(Boolean).join(", ");
}

function list(rows) {
  const box = made("dl");
  for (const [name, about] of rows) {
    const term = made("dt");
    term.append(made("code", name));
    box.append(term, coded("dd", about));
  }
  return box;
}

// Choose your curve: what may be lost at which age, and at once how exact the counts can be. fadecount plan --open does the planning.
import { save } from "./lists.js";
import { Handles, LEAST, MOST } from "./handles.js";

const AGES = [["1h", "an hour", 3600], ["1d", "a day", 86400], ["1mo", "a month", 2592000], ["1y", "a year", 31536000]];
const SECONDS = { "1s": 1, "10s": 10, "1m": 60, "15m": 900, "1h": 3600, "1d": 86400, "1mo": 2592000, "1y": 31536000, "10y": 315360000 };
const SELECTS = ["tick", "horizon", "unit", "times", "each", "delta"];
const DEBOUNCE = 300;
const byId = (id) => document.getElementById(id);

const losses = new Map([["1h", 0.5], ["1d", 1], ["1mo", 2], ["1y", 4]]);
let [options, chosen] = [[], 0];
let [wanted, planned, running, timer] = ["", "", false, 0];

/* The limits in use: ages from one tick to the horizon. */
function limits() {
  const [tick, horizon] = [SECONDS[byId("tick").value], SECONDS[byId("horizon").value]];
  return new Map(AGES.filter(([, , seconds]) => seconds >= tick && seconds <= horizon).map(([name]) => [name, losses.get(name)]));
}

function query() {
  const value = (id) => byId(id).value;
  return new URLSearchParams({
    tick: value("tick"),
    horizon: value("horizon"),
    losses: [...limits()].map(([age, loss]) => `${age}:${loss}`).join(","),
    ...(value("unit") === "person" ? { person: `${value("times")}/${value("each")}` } : {}),
    ...(value("delta") ? { delta: value("delta") } : {}),
  });
}

/* What is lost stays lost: a raised limit raises the later ones, a lowered limit lowers the earlier ones. */
function limit(name, loss) {
  const at = AGES.findIndex(([each]) => each === name);
  AGES.forEach(([each], index) => {
    if (index === at || (index > at ? losses.get(each) < loss : losses.get(each) > loss)) losses.set(each, loss);
  });
  changed();
}

/* The wishes changed: show them at once, and plan when they rest. */
function changed() {
  const used = limits();
  for (const [name] of AGES) {
    const input = byId(`loss-${name}`);
    if (document.activeElement !== input || Number(input.value) !== losses.get(name)) input.value = losses.get(name);
    input.disabled = !used.has(name);
  }
  const person = byId("unit").value === "person";
  byId("person-words").hidden = !person;
  const subject = person ? `one person’s ${byId("each").selectedOptions[0].textContent}` : "one event";
  for (const id of ["subject", "subject-then"]) byId(id).textContent = subject;
  byId("curve-caption").textContent = `Privacy loss (ε) of ${subject}, by the age from its start`;
  wanted = String(query());
  stale(planned !== wanted || !options.length);
  history.replaceState(null, "", `#${wanted}`);
  clearTimeout(timer);
  timer = setTimeout(plan, DEBOUNCE);
}

/* One request at a time; when it is answered, the newest wish is next. */
async function plan() {
  if (running) return;
  running = true;
  document.body.classList.add("planning");
  while (planned !== wanted) {
    const asked = wanted;
    say("planning …");
    const found = await request(asked);
    if (asked !== wanted) continue;
    [planned, options, chosen] = [asked, found ?? [], 0];
    if (!found) continue;
    alternatives();
    show();
  }
  document.body.classList.remove("planning");
  running = false;
}

async function request(asked) {
  const reply = await fetch(`/plan?${asked}`).catch(() => null);
  if (reply?.ok) return reply.json();
  say(reply ? (await reply.json()).detail : "The page is no longer served: run fadecount plan --open again.", true);
  return null;
}

function say(words, problem = false) {
  byId("status").textContent = words;
  byId("status").classList.toggle("problem", problem);
}

/* Whether what is shown is the plan of other wishes: it cannot be taken then. */
function stale(is) {
  document.body.classList.toggle("stale", is);
  for (const id of ["options", "download"]) byId(id).disabled = is;
  handles.show(limits(), is ? [] : options[chosen].losses, SECONDS[byId("tick").value], SECONDS[byId("horizon").value]);
}

/* Everything about the chosen option. */
function show() {
  const option = options[chosen];
  byId("widths").replaceChildren(...option.widths.map(([name, margin, words]) => {
    const box = document.createElement("div");
    box.append(made("h3", capital(name)), made("p", margin, "figure"), made("p", words, "caption"));
    return box;
  }));
  byId("published").replaceChildren(...option.published.map(([per, ...rest]) => {
    const row = document.createElement("tr");
    row.append(Object.assign(made("th", per), { scope: "row" }), ...rest.map((text) => made("td", text)));
    return row;
  }));
  byId("file-option").textContent = option.name;
  stale(false);
  say(`A total is within ${option.widths.at(-1)[1]}, 95 % of the time.`);
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);
const made = (name, text, className = "") => Object.assign(document.createElement(name), { textContent: text, className });

function alternatives() {
  byId("options").replaceChildren(byId("options").querySelector("legend"), ...options.map((each, index) => {
    const input = Object.assign(document.createElement("input"), { type: "radio", name: "option", checked: index === chosen });
    input.addEventListener("change", () => { chosen = index; show(); });
    const box = made("span", "", "option");
    box.append(made("strong", each.name), made("span", `total ${each.widths.at(-1)[1]}`), made("span", `loses ${each.final_loss} by the end`), made("span", capital(each.reason), "why"));
    const label = document.createElement("label");
    label.append(input, box);
    return label;
  }));
}

/* Wishes from the address: so a plan can be shared, and survives a reload. */
function fromAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  const choose = (id, value) => { if ([...byId(id).options].some((each) => each.value === value)) byId(id).value = value; };
  for (const id of ["tick", "horizon", "delta"]) if (given.has(id)) choose(id, given.get(id));
  const [times, each] = (given.get("person") ?? "").split("/");
  if (each) { choose("unit", "person"); byId("times").value = String(Math.min(1000, Math.max(1, Math.round(Number(times)) || 1))); choose("each", each); }
  for (const pair of (given.get("losses") ?? "").split(",")) {
    const [age, loss] = pair.split(":");
    if (losses.has(age) && Number(loss) >= LEAST && Number(loss) <= MOST) losses.set(age, Number(loss));
  }
}

const handles = new Handles(byId("curve-chart"), AGES, limit);
for (const id of SELECTS) byId(id).addEventListener("change", () => { if (byId(id).validity.valid) changed(); });
for (const [name] of AGES) {
  byId(`loss-${name}`).addEventListener("change", (event) => { if (event.target.value && event.target.validity.valid) limit(name, Number(event.target.value)); else changed(); });
}
byId("download").addEventListener("click", () => save("plan.json", "application/json", options[chosen].file));
fromAddress();
changed();

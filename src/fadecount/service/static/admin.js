// The page of the operator: streams and tokens. The admin token lives in the memory of this page and nowhere else.
import "./theme.js";
import { duration, moment, number, roughly } from "./words.js";

const byId = (id) => document.getElementById(id);
const PAGE = 100;
const SAID_FOR = 10000;
const CHOICES = ["declare-stream", "retain-stream", "delete-stream"];
let fading = 0;
for (const font of ["400 1rem 'Fadecount Sans'", "600 1rem 'Fadecount Serif'"]) document.fonts.load(font);
let token = null;
let names = [];
let cursor = null;

class Refused extends Error {
  constructor(status, detail) { super(detail); this.status = status; }
}

/* One request with the token in its header: there are no cookies, so no other page can send it. */
async function call(method, path, body) {
  const headers = { Accept: "application/json", Authorization: `Bearer ${token}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, credentials: "omit", cache: "no-store", ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, found.detail ?? `The service answered with status ${answer.status}.`);
  return found;
}

function made(name, words, className) {
  return Object.assign(document.createElement(name), { textContent: words ?? "", ...(className ? { className } : {}) });
}

function row(cells) {
  const line = made("tr");
  line.append(...cells.map((each) => (each instanceof Node ? each : made("td", each))));
  return line;
}

const cell = (...parts) => {
  const box = made("td");
  box.append(...parts);
  return box;
};

const time = (text) => moment(Date.parse(text), 60, "UTC");

/* Says how it went. A refusal of the token itself ends the session. */
async function attempt(work, success) {
  byId("said").textContent = byId("problem").textContent = "";
  try {
    const found = await work();
    if (success) {
      byId("said").textContent = success;
      clearTimeout(fading);
      fading = setTimeout(() => { byId("said").textContent = ""; }, SAID_FOR);
    }
    return found;
  } catch (error) {
    if (error instanceof Refused && error.status === 401) leave("The token is not valid any more.");
    else byId("problem").textContent = error instanceof Refused || error instanceof Mistake ? sentence(error.message) : "The service does not answer. Try again.";
    return null;
  }
}

class Mistake extends Error {}
const sentence = (words) => `${words.charAt(0).toUpperCase()}${words.slice(1)}${words.endsWith(".") ? "" : "."}`;

function leave(words = "") {
  token = null;
  forgetMade();
  for (const id of ["streams", "tokens", ...CHOICES, "token-stream"]) byId(id).replaceChildren();
  for (const form of document.forms) form.reset();
  byId("desk").hidden = byId("leave").hidden = true;
  byId("sign-in").hidden = false;
  byId("token-problem").textContent = words;
  byId("token").focus();
}

async function showStreams(more = false) {
  const page = await call("GET", `/v1/streams?${new URLSearchParams({ limit: PAGE, ...(more && cursor ? { cursor } : {}) })}`);
  const rows = page.streams.map((each) => {
    const name = cell(made("a", each.name));
    name.className = "name";
    name.firstChild.href = `/#/streams/${encodeURIComponent(each.name)}`;
    const state = made("span", each.state, "state");
    state.dataset.state = each.state;
    const late = made("td", each.lag_seconds >= 1 ? roughly(each.lag_seconds) : "", each.lag_seconds > each.tick_seconds ? "late" : "");
    const kept = each.retain_seconds === null ? "ever" : duration(each.retain_seconds).replace(/^(?=[a-z])/, "1 ");
    return row([name, cell(state), number(each.key_count), duration(each.tick_seconds), each.published_through ? time(each.published_through) : "nothing yet", late, kept]);
  });
  names = [...(more ? names : []), ...page.streams.map((each) => each.name)];
  cursor = page.next;
  if (more) byId("streams").append(...rows);
  else byId("streams").replaceChildren(...rows);
  byId("no-streams").hidden = names.length > 0;
  byId("more").hidden = cursor === null;
  for (const id of CHOICES) fill(byId(id), names.map((name) => [name, name]));
  showDelete();
  fill(byId("token-stream"), [["", "all streams"], ...names.map((name) => [name, name])]);
}

function fill(select, options) {
  const chosen = select.value;
  select.replaceChildren(...options.map(([value, words]) => Object.assign(made("option", words), { value })));
  if (options.some(([value]) => value === chosen)) select.value = chosen;
}

async function showTokens() {
  const { tokens } = await call("GET", "/v1/tokens");
  byId("tokens").replaceChildren(...tokens.map((each) => {
    const label = cell(made("span", each.label || "no label"), made("small", each.id));
    label.className = "name";
    const own = token.split("_")[1] === each.id;
    return row([label, each.role, each.stream ?? "all streams", each.expired ? "expired" : each.expires ? time(each.expires) : "never",
      own ? made("td", "in use here") : cell(revoker(each))]);
  }));
}

/* Revoking takes two presses of one button, so that a slip does nothing. */
function revoker(each) {
  const button = made("button", "Revoke", "quiet");
  button.type = "button";
  const words = each.label || each.id;
  button.setAttribute("aria-label", `Revoke ${words}`);
  const calm = () => {
    button.textContent = "Revoke";
    button.classList.remove("sure");
    button.setAttribute("aria-label", `Revoke ${words}`);
  };
  button.addEventListener("blur", calm);
  button.addEventListener("click", async () => {
    if (!button.classList.contains("sure")) {
      button.textContent = "Really revoke?";
      button.classList.add("sure");
      button.setAttribute("aria-label", `Really revoke ${words}?`);
      return;
    }
    button.disabled = true;
    await attempt(async () => { await call("DELETE", `/v1/tokens/${encodeURIComponent(each.id)}`); await showTokens(); }, `The token ${words} is revoked.`);
    button.disabled = false;
    byId("tokens-title").scrollIntoView({ block: "nearest" });
  });
  return button;
}

function forgetMade() {
  byId("made-token").textContent = "";
  byId("made").hidden = true;
}

const lines = (id) => [...new Set(byId(id).value.split("\n").map((each) => each.trim()).filter(Boolean))];

/* What is in the chosen plan file; the form takes from it what it states. */
async function readPlan() {
  const file = byId("plan").files[0];
  if (!file) return null;
  try {
    const found = JSON.parse(await file.text());
    if (found?.fadecount !== "mechanism") throw new Error("not a plan");
    return found;
  } catch {
    throw new Mistake("The file is not a plan. Make one with fadecount plan --save.");
  }
}

byId("plan").addEventListener("change", () => attempt(async () => {
  const plan = await readPlan();
  if (plan?.planned_tick_seconds) byId("tick").value = `${plan.planned_tick_seconds}s`;
  const person = plan?.plan?.request?.person;
  const perTick = person?.per_step ? person.events : person?.steps ? Math.floor(person.events / person.steps) : 0;
  byId("unit").value = perTick >= 1 ? "person" : "event";
  byId("events").value = Math.max(1, perTick);
  byId("person-keys").value = person?.keys ?? 1;
  showUnit();
}));

function showUnit() {
  byId("person-part").hidden = byId("unit").value !== "person";
}
byId("unit").addEventListener("change", showUnit);

function onSubmit(id, work, after = () => {}) {
  byId(id).addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = event.target.querySelector("button[type=submit]");
    button.disabled = true;
    await work(event.target);
    button.disabled = false;
    after();
  });
}

onSubmit("create-form", async (form) => {
  const name = byId("name").value.trim();
  const done = await attempt(async () => {
    const keys = lines("keys");
    const unit = byId("unit").value === "person" ? { unit: { of: "person", events: Number(byId("events").value), keys: Number(byId("person-keys").value) } } : {};
    await call("POST", "/v1/streams", { name, tick: byId("tick").value.trim(), mechanism: await readPlan(), ...unit, ...(keys.length ? { keys } : {}) });
    await showStreams();
    return true;
  }, `The stream ${name} is created. Its first tick has begun.`);
  if (done) { form.reset(); showUnit(); }
});

onSubmit("declare-form", async () => {
  const name = byId("declare-stream").value;
  const done = await attempt(async () => {
    await call("POST", `/v1/streams/${encodeURIComponent(name)}/keys`, { keys: lines("declare-keys") });
    await showStreams();
    return true;
  }, `The keys are declared in ${name}.`);
  if (done) byId("declare-keys").value = "";
});

onSubmit("retain-form", async () => {
  const name = byId("retain-stream").value;
  const retain = byId("retain").value.trim() || null;
  await attempt(async () => {
    await call("PUT", `/v1/streams/${encodeURIComponent(name)}/retention`, { retain });
    await showStreams();
  }, `Releases of ${name} are kept for ${retain ?? "ever"}.`);
});

/* A stream is deleted only after its name was written once more. */
function showDelete() {
  byId("delete").disabled = !byId("delete-stream").value || byId("delete-name").value.trim() !== byId("delete-stream").value;
}
byId("delete-name").addEventListener("input", showDelete);
byId("delete-stream").addEventListener("change", showDelete);

onSubmit("delete-form", async () => {
  const name = byId("delete-stream").value;
  if (byId("delete-name").value.trim() !== name) return;
  const done = await attempt(async () => {
    await call("DELETE", `/v1/streams/${encodeURIComponent(name)}`);
    await showStreams();
    return true;
  }, `The stream ${name} is deleted.`);
  if (done) byId("delete-name").value = "";
}, showDelete);

onSubmit("token-form", async (form) => {
  forgetMade();
  const wanted = { role: byId("role").value };
  for (const [field, id] of [["stream", "token-stream"], ["label", "label"], ["expires", "expires"]]) {
    if (byId(id).value.trim()) wanted[field] = byId(id).value.trim();
  }
  const found = await attempt(async () => { const each = await call("POST", "/v1/tokens", wanted); await showTokens(); return each; });
  if (!found) return;
  form.reset();
  byId("made-token").textContent = found.token;
  byId("made").hidden = false;
  byId("made").focus();
});

byId("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(byId("made-token").textContent);
    byId("copy").textContent = "Copied";
  } catch {
    byId("copy").textContent = "Select it and copy";
  }
});
byId("done").addEventListener("click", () => {
  forgetMade();
  byId("copy").textContent = "Copy";
  byId("role").focus();
});

byId("refresh").addEventListener("click", () => attempt(async () => { await showStreams(); await showTokens(); }, "Up to date."));
byId("more").addEventListener("click", () => attempt(() => showStreams(true)));
byId("leave").addEventListener("click", () => leave());

byId("sign-in-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  byId("token-problem").textContent = "";
  try {
    await Promise.all([showStreams(), showTokens()]);
  } catch (error) {
    token = null;
    byId("token-problem").textContent = error instanceof Refused && [401, 403].includes(error.status)
      ? "That is not the token of an admin of all streams."
      : "The service does not answer. Try again.";
    return;
  }
  byId("token").value = "";
  byId("sign-in").hidden = true;
  byId("desk").hidden = byId("leave").hidden = false;
  byId("main").focus({ preventScroll: true });
});
byId("token").focus();

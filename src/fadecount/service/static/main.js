// The page: which part is shown, and what flows into it.
import { Refused, follow, get, setToken, streamList, streamPath } from "./api.js";
import { showInterface } from "./interface.js";
import { StreamView } from "./stream.js";
import "./theme.js";
import { duration, number } from "./words.js";

const byId = (id) => document.getElementById(id);
const sections = ["sign-in", "list", "interface", "stream"];
const view = new StreamView();
let running = new AbortController();

function only(shown) {
  for (const id of sections) byId(id).hidden = id !== shown;
  byId("trouble").hidden = true;
}

export function connection(state) {
  byId("connection").dataset.state = state;
  byId("connection-text").textContent = { live: "live", lost: "reconnecting", waiting: "connecting", idle: "connected", closed: "locked" }[state];
}

/* The page's own fonts, or half a second: what is shown is shown once, in its final size. */
const FONTS = ["400 1rem 'Fadecount Sans'", "600 1rem 'Fadecount Serif'"];
const loaded = Promise.allSettled(FONTS.map((font) => document.fonts.load(font)));
const fonts = () => Promise.race([loaded, new Promise((resolve) => setTimeout(resolve, 500))]);

async function showList() {
  const [streams] = await Promise.all([streamList(running.signal), fonts()]);
  const cards = streams.map((each) => {
    const link = document.createElement("a");
    link.href = `#/streams/${encodeURIComponent(each.name)}`;
    const name = document.createElement("span");
    name.className = "name";
    name.textContent = each.name;
    const detail = document.createElement("span");
    detail.className = "detail";
    const keys = each.key_count > 1 ? `${number(each.key_count)} keys` : "one count";
    detail.textContent = `${keys}, released every ${duration(each.tick_seconds)}`;
    link.append(name, detail);
    const item = document.createElement("li");
    item.append(link);
    return item;
  });
  byId("streams").replaceChildren(...cards);
  byId("no-streams").hidden = streams.length > 0;
  document.title = "fadecount";
  connection("idle");
  only("list");
  if (streams.length === 1 && !location.hash) location.hash = `#/streams/${encodeURIComponent(streams[0].name)}`;
}

async function showStream(name) {
  const signal = running.signal;
  const [facts, privacy] = await Promise.all([get(streamPath(name), signal), get(`${streamPath(name)}/privacy`, signal)]);
  document.title = `${name}: fadecount`;
  await Promise.all([view.open(facts, privacy, signal), fonts()]);
  only("stream");
  follow(name, { onTick: (tick) => view.tick(tick), onState: connection, signal, after: facts.last_start });
}

async function showDescription() {
  await Promise.all([showInterface(byId("operations"), running.signal), fonts()]);
  document.title = "Interface: fadecount";
  connection("idle");
  only("interface");
}

async function route() {
  running.abort();
  running = new AbortController();
  connection("waiting");
  const found = /^#\/streams\/(.+)$/.exec(location.hash);
  try {
    await (found ? showStream(decodeURIComponent(found[1])) : location.hash === "#/interface" ? showDescription() : showList());
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
      connection("closed");
      only("sign-in");
      byId("token").focus();
      return;
    }
    for (const id of sections) byId(id).hidden = true;
    byId("trouble").hidden = false;
    byId("trouble").textContent = error instanceof Refused && error.status === 404
      ? "There is no such stream. It may have been removed."
      : "The service does not answer. This page tries again in a few seconds.";
    connection("lost");
    const signal = running.signal;
    if (!(error instanceof Refused && error.status === 404)) setTimeout(() => { if (!signal.aborted) route(); }, 4000);
  }
}

byId("sign-in-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  setToken(byId("token").value.trim());
  try {
    await get("/v1/streams");
    byId("token").value = byId("token-problem").textContent = "";
    route();
  } catch {
    setToken("");
    byId("token-problem").textContent = "That token does not open this counter.";
  }
});

window.addEventListener("hashchange", () => {
  route();
  byId("main").focus({ preventScroll: true });
});
route();

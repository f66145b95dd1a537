// The page: which part is shown, and what flows into it.
import { Refused, follow, get, setToken, streamList, streamPath } from "./api.js";
import { SearchList, fillNumber } from "./lists.js";
import { firstNumbers, slotNames } from "./slots.js";
import { StreamView } from "./stream.js";
import { duration, number } from "./words.js";

const byId = (id) => document.getElementById(id);
const sections = ["sign-in", "list", "stream"];
let running = new AbortController();
let opened = null; // the stream that is shown

/* The address of a stream and of what is shown of it; what is as at the beginning is left out. */
function addressOf(name, choice = {}) {
  const words = new URLSearchParams(Object.entries(choice).filter(([, value]) => value !== null)).toString();
  return `#/streams/${encodeURIComponent(name)}${words ? `?${words}` : ""}`;
}
const view = new StreamView((choice) => addressOf(opened, choice));

function only(shown) {
  for (const id of sections) byId(id).hidden = id !== shown;
  byId("trouble").hidden = true;
}

function connection(state) {
  byId("connection").dataset.state = state;
  byId("connection-text").textContent = { live: "live", lost: "reconnecting", waiting: "connecting", idle: "connected", closed: "locked" }[state];
}

/* The page's own fonts, or half a second: what is shown is shown once, in its final size. */
const FONTS = ["400 1rem 'Fadecount Sans'", "600 1rem 'Fadecount Serif'"];
const loaded = Promise.allSettled(FONTS.map((font) => document.fonts.load(font)));
const fonts = () => Promise.race([loaded, new Promise((resolve) => setTimeout(resolve, 500))]);

const cards = new SearchList({ box: byId("streams"), search: byId("stream-search"), note: byId("stream-note") }, {
  named: (facts) => facts.name,
  draw: card,
  fill: fillCard,
});

function card(facts) {
  const item = byId("card").content.firstElementChild.cloneNode(true);
  item.querySelector("a").href = addressOf(facts.name);
  item.querySelector(".name").textContent = facts.name;
  item.querySelector(".detail").textContent = `${facts.key_count > 1 ? `${number(facts.key_count)} keys, ` : ""}published every ${duration(facts.tick_seconds)}`;
  item.querySelectorAll(".label").forEach((label, index) => { label.textContent = slotNames(facts)[index]; });
  return item;
}

/* So far today, and yesterday: read when the card is seen. */
async function fillCard(facts, item) {
  const found = await firstNumbers(facts, { together: "true" }, running.signal).catch(() => null);
  if (!found) return;
  const names = slotNames(facts, found);
  [found.open, found.last].forEach((row, index) => fillNumber(item.querySelectorAll(".part")[index], row, names[index]));
}

async function showList() {
  const [streams] = await Promise.all([streamList(running.signal), fonts()]);
  if (streams.length === 1 && !location.hash) { location.replace(addressOf(streams[0].name)); return; }
  byId("no-streams").hidden = streams.length > 0;
  document.title = "fadecount";
  connection("idle");
  only("list");
  cards.show(streams);
}

async function showStream(name, choice) {
  const signal = running.signal;
  const [facts, privacy] = await Promise.all([get(streamPath(name), signal), get(`${streamPath(name)}/privacy`, signal)]);
  document.title = `${name}: fadecount`;
  opened = name;
  await Promise.all([view.open(facts, privacy, choice, signal), fonts()]);
  only("stream");
  follow(name, { onPublished: (through) => view.published(through), onState: connection, signal, after: facts.published_through });
}

async function route() {
  const [path, query] = location.hash.split("?");
  const name = /^#\/streams\/(.+)$/.exec(path)?.[1];
  const choice = Object.fromEntries(new URLSearchParams(query));
  try {
    if (name && decodeURIComponent(name) === opened && !byId("stream").hidden) { await view.choose(choice); return; }
    running.abort();
    running = new AbortController();
    opened = null;
    connection("waiting");
    await (name ? showStream(decodeURIComponent(name), choice) : showList());
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
      connection("closed");
      only("sign-in");
      byId("token").focus();
      return;
    }
    const absent = error instanceof Refused && error.status === 404;
    for (const id of sections) byId(id).hidden = true;
    byId("trouble").hidden = false;
    byId("trouble").textContent = absent
      ? "There is no such stream. It may have been removed."
      : "The service does not answer. This page tries again in a few seconds.";
    connection("lost");
    const signal = running.signal;
    if (!absent) setTimeout(() => { if (!signal.aborted) route(); }, 4000);
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

byId("key-jump").addEventListener("click", () => byId("key-search").focus());

window.addEventListener("hashchange", () => {
  const other = !opened || !location.hash.startsWith(addressOf(opened));
  route();
  if (other) byId("main").focus({ preventScroll: true });
});
route();

// Talking to the service. A token, if there is one, lives in this tab only.
const STORED = "fadecount-token";
const MOST_ROWS = 40000;

export class Refused extends Error {
  constructor(status) { super(`status ${status}`); this.status = status; }
}

export function setToken(token) {
  if (token) sessionStorage.setItem(STORED, token);
  else sessionStorage.removeItem(STORED);
}

async function ask(path, accept, signal) {
  const token = sessionStorage.getItem(STORED);
  const headers = { Accept: accept, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  const answer = await fetch(path, { headers, signal });
  if (!answer.ok) throw new Refused(answer.status);
  return answer;
}

/* An answer as JSON. The browser keeps it, and asks by its entity tag whether it has changed. */
export const get = async (path, signal) => (await ask(path, "application/json", signal)).json();

export const streamPath = (name) => `/v1/streams/${encodeURIComponent(name)}`;

/* All rows of an answer that comes in pages. */
async function paged(path, field, query, signal) {
  const rows = [];
  let cursor = null;
  do {
    const words = new URLSearchParams({ ...query, ...(cursor ? { cursor } : {}) });
    const page = await get(`${path}?${words}`, signal);
    rows.push(...page[field]);
    cursor = page.next;
  } while (cursor && rows.length < MOST_ROWS);
  return rows;
}

export const streamList = (signal) => paged("/v1/streams", "streams", {}, signal);

/* Rows of `figures`, `total` or `so-far`. */
export const figuresOf = (name, route, query, signal) => paged(`${streamPath(name)}/${route}`, "figures", query, signal);

/* The same, with their times as milliseconds. */
export async function rowsOf(...question) {
  const rows = await figuresOf(...question);
  return rows.map((row) => ({ ...row, time: Date.parse(row.start), end: Date.parse(row.end) }));
}

/* Server-sent events over fetch: EventSource cannot carry a token. An event says that something was published, not what. */
export async function follow(name, { onPublished, onState, signal, after = null }) {
  let last = after;
  let wait = 500;
  while (!signal.aborted) {
    try {
      const answer = await ask(`${streamPath(name)}/live`, "text/event-stream", signal);
      onState("live");
      wait = 500;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop();
        const ids = blocks.filter((block) => /^event: published$/m.test(block)).map((block) => /^id: (.*)$/m.exec(block)?.[1]);
        if (!ids.length || ids.at(-1) === last) continue;
        last = ids.at(-1);
        onPublished(last);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && [401, 403, 404].includes(error.status)) { onState("lost"); return; }
    }
    onState("lost");
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, 15000);
  }
}

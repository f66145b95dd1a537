// Talking to the service. A token, if there is one, lives in this tab only.
const STORED = "fadecount-token";

export class Refused extends Error {
  constructor(status) { super(`status ${status}`); this.status = status; }
}

export function setToken(token) {
  if (token) sessionStorage.setItem(STORED, token);
  else sessionStorage.removeItem(STORED);
}

function headers(more = {}) {
  const token = sessionStorage.getItem(STORED);
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

export async function get(path, signal) {
  const answer = await fetch(path, { headers: headers({ Accept: "application/json" }), signal });
  if (!answer.ok) throw new Refused(answer.status);
  return answer.json();
}

export const streamPath = (name) => `/v1/streams/${encodeURIComponent(name)}`;

const MOST_ROWS = 40000;

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
export const releases = (name, query, signal) => paged(`${streamPath(name)}/releases`, "releases", { ...query, limit: "5000" }, signal);
export const windows = (name, query, signal) => paged(`${streamPath(name)}/windows`, "windows", query, signal);

/* Server-sent events over fetch: EventSource cannot carry a token. Resumes after the last tick it has seen. */
export async function follow(name, { onTick, onState, signal, after = null }) {
  let last = after;
  let wait = 500;
  while (!signal.aborted) {
    try {
      const more = last === null ? {} : { "Last-Event-ID": String(last) };
      const answer = await fetch(`${streamPath(name)}/live`, { headers: headers({ Accept: "text/event-stream", ...more }), signal });
      if (!answer.ok) throw new Refused(answer.status);
      onState("live");
      wait = 500;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) {
          const fields = Object.fromEntries(block.split("\n").map((line) => {
            const at = line.indexOf(":");
            return [line.slice(0, at), line.slice(at + 1).trimStart()];
          }));
          if (fields.event !== "tick" || !fields.data) continue;
          last = fields.id;
          onTick(JSON.parse(fields.data));
        }
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

// Asking the admin API: one function for every call, problems as values, and the token, which never leaves the header.
import { current, send } from "./store.js";

let token = null;
const tabs = "BroadcastChannel" in self ? new BroadcastChannel("hapax") : null;
const store = { get: () => sessionStorage.getItem("hapax.token"), set: value => sessionStorage.setItem("hapax.token", value), drop: () => sessionStorage.removeItem("hapax.token") };

/** A "no" of the API, or no answer at all (status 0). */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `status ${status}`);
    Object.assign(this, { status, code: body.code ?? "", title: body.title ?? `The server answered ${status}`, detail: body.detail ?? "", page: body.type, claim: body.claim, retryable: body.retryable, body });
  }
}

const asQuery = query => {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined && value !== null && value !== "") asked.set(name, String(value));
  const text = asked.toString();
  return text ? "?" + text : "";
};

/** Numbers that this language would round stay the text that they are. */
const exactly = (name, value, context) => (typeof value === "number" && context && String(value) !== context.source ? JSON.rawJSON(context.source) : value);

async function answer(response, exact) {
  const text = await response.text();
  let body = null;
  try { body = JSON.parse(text, exact && "rawJSON" in JSON ? exactly : undefined); } catch { /* said below */ }
  if (response.ok && body !== null) return body;
  if (response.ok) throw new Problem(0, { title: "Half an answer", detail: "what came is not JSON: the connection may have broken" });
  throw new Problem(response.status, body ?? { detail: response.statusText });
}

/** Sends one request. Throws a `Problem`. A 401 leads to the sign-in over the page. */
export async function call(method, path, { query, body, signal, as, exact } = {}) {
  const headers = { authorization: `Bearer ${as ?? token}`, accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path + asQuery(query), { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal, cache: "no-store", credentials: "omit", redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { title: "No answer", detail: "the server cannot be reached" });
  }
  try { return await answer(response, exact); } catch (problem) {
    if (problem.status === 401 && as === undefined && current().signedIn) send({ type: "signedOut", problem });
    throw problem;
  }
}

/** `exact`: numbers that would be rounded are kept as text, for what is shown and not counted with. */
export const getExact = (path, query, signal) => call("GET", path, { query, signal, exact: true });
export const get = (path, query, signal) => call("GET", path, { query, signal });
export const post = (path, body) => call("POST", path, { body });

/** Is there no such endpoint on this server? (For a list; a single thing may be missing by itself.) */
export const absent = problem => problem?.status === 404 || problem?.status === 405;

/** Who we are; older servers do not tell, and then any list shows that the token counts. */
async function who(as) {
  try { return await call("GET", "/v1/me", { as }); } catch (problem) {
    if (problem.status !== 404) throw problem;
    await call("GET", "/v1/audit", { query: { limit: 1 }, as });
    return { name: "token", role: "operate", server: {}, links: [] };
  }
}

/** Signs in with a token, and lets the other tabs know. */
export async function signIn(typed) {
  const began = performance.now();
  const me = await who(typed);
  const way = performance.now() - began;
  token = typed;
  store.set(typed);
  send({ type: "signedIn", me, now: Date.now(), way });
}

export function signOut() {
  token = null;
  store.drop();
  tabs?.postMessage({ say: "out" });
  send({ type: "signedOut" });
}

/** The token of this tab, or of another one of the same origin. */
export async function resume() {
  if (!store.get() && tabs) await ask();
  const found = store.get();
  if (!found) return;
  try { await signIn(found); } catch (problem) {
    if (problem.status === 401) store.drop();
    send({ type: "signedOut", problem });
  }
}

const ask = () => new Promise(done => {
  const heard = ({ data }) => { if (data.say === "here") { store.set(data.token); end(); } };
  const end = () => { clearTimeout(timer); tabs.removeEventListener("message", heard); done(); };
  const timer = setTimeout(end, 250);
  tabs.addEventListener("message", heard);
  tabs.postMessage({ say: "who" });
});

tabs?.addEventListener("message", ({ data }) => {
  if (data.say === "who" && token && current().signedIn) tabs.postMessage({ say: "here", token });
  // An answer that came late, while the sign-in was shown already.
  if (data.say === "here" && !token && !current().signedIn) signIn(data.token).catch(() => {});
  if (data.say === "out" && current().signedIn) { token = null; store.drop(); send({ type: "signedOut" }); }
});

/** May this token decide? */
export const mayOperate = me => me?.role === "operate";

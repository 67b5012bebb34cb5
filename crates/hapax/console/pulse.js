// The one poll that drives everything: while the page is seen and live, `GET /v1/pulse`; views fetch their own data when
// it says that something has changed.
import { useEffect, useRef, useState } from "./html.js";
import { absent, get } from "./api.js";
import { current, listen, send, useStore } from "./store.js";

const EVERY = 2500, BACKED_OFF = 15000, FAILURES = 3;
let timer = null, failures = 0, failedAt = 0, asking = false, took = 0, without = false;

/** How much of the past the chart shows; the pulse is asked for it. */
export const windows = { "15m": "15 min", "1h": "1 h", "6h": "6 h", "24h": "24 h" };

const wanted = () => current().signedIn && current().live && !document.hidden;

/** Of a server without pulse: what its older endpoints tell. */
async function pieced() {
  const [ready, counts] = await Promise.all([
    get("/readyz").catch(problem => problem.body?.reasons ? problem.body : { ready: false, reasons: [problem.message] }),
    get("/v1/claims/count"),
  ]);
  return { pulse: { ready: ready.ready, reasons: ready.reasons, counts, attention: { in_doubt: counts.in_doubt }, changed: null }, now: Date.now(), way: 0 };
}

/** Samples of each window that the server remembers. */
const MOST = { "15m": 90, "1h": 60, "6h": 360, "24h": 288 };
/** Those that were told, so that only later ones are asked for: of one window, of one life of the server. */
let kept = { window: null, since: null, cursor: undefined, samples: [] };

/** A pulse with all samples of its window. */
function whole(pulse, window, after) {
  const last = after === undefined ? "" : kept.samples.at(-1)?.at ?? "";
  const former = after === undefined ? [] : kept.samples;
  const samples = [...former, ...pulse.samples.filter(sample => sample.at > last)].slice(-MOST[window]);
  kept = { window, since: pulse.since, cursor: pulse.cursor, samples };
  return { ...pulse, samples };
}

/** The pulse, and how long ago the server's clock was read: unknown where the way took long. */
async function ask() {
  const window = current().window ?? "15m";
  if (without) return pieced();
  const after = kept.window === window ? kept.cursor : undefined;
  const began = performance.now();
  try {
    const pulse = await get("/v1/pulse", { window, after });
    const way = performance.now() - began;
    const other = (current().window ?? "15m") !== window || (after !== undefined && pulse.since !== kept.since);
    if (!other) return heard(whole(pulse, window, after), way);
  } catch (problem) {
    if (!absent(problem)) throw problem;
    without = true;
    return pieced();
  }
  // Another window is shown by now, or another process answers: what was kept is not its past.
  kept = { window: null, since: null, cursor: undefined, samples: [] };
  return ask();
}

/** The digest that stands in the path of these files; what the server says now is another one after an upgrade. */
const BUILD = new URL(import.meta.url).pathname.split("/")[2];
const isNew = console_ => Boolean(console_) && console_ !== BUILD;

/** Notes what a pulse says of these files, and when the server's clock was read. */
function heard(pulse, way) {
  if (isNew(pulse.console) && !current().outdated) send({ type: "set", outdated: true });
  return { pulse, now: Date.now(), way };
}

async function beat() {
  clearTimeout(timer);
  if (!wanted() || asking) return;
  asking = true;
  const began = performance.now();
  try {
    const told = await ask();
    failures = 0;
    send({ type: "pulse", ...told });
  } catch (problem) {
    failures += 1;
    if (failures === 1) failedAt = Date.now() - (performance.now() - began) + current().skew;
    if (failures >= FAILURES || problem.status === 503) send({ type: "silent", since: failedAt });
  }
  took = performance.now() - began;
  asking = false;
  const pause = failures >= FAILURES ? BACKED_OFF : Math.min(BACKED_OFF, Math.max(without ? 2 * EVERY : EVERY, 10 * took));
  if (wanted()) timer = setTimeout(beat, pause);
}

/** Lists look again at once, live or not: something was decided here. */
export const look = () => send({ type: "set", decided: current().decided + 1 });

/** Asks now, live or not: after a decision, or where a person asks for it. */
export async function refresh() {
  try { send({ type: "pulse", ...(await ask()) }); } catch { /* the next beat says it */ }
}

/** Starts; the poll stops by itself while nothing is wanted. */
export function start() {
  let was = wanted();
  const look = () => {
    const is = wanted();
    if (is && !was) beat();
    if (!is) clearTimeout(timer);
    was = is;
  };
  document.addEventListener("visibilitychange", look);
  listen(look);
  if (was) beat();
}

/** The last step in which something was counted: traffic is told anew when there was some. */
const counted = ({ samples = [] }) => samples.findLast(sample => Object.entries(sample).some(([name, value]) => name !== "step_s" && typeof value === "number" && value > 0))?.at;

/** A sign that changes when the data of a topic may have changed. */
const sign = topic => {
  const { pulse, beat, decided } = current();
  if (!pulse) return "none";
  return pulse.changed ? JSON.stringify([decided, ...[].concat(topic).map(one => (one === "traffic" ? counted(pulse) : pulse.changed[one]))]) : String(beat);
};

const useSign = topic => useStore(() => (topic ? sign(topic) : ""));

/**
 * Data of a view: fetched when `key` changes, when the pulse says so, and on `again()`. Former data stays while the next is
 * under way or after a failure. `ask(signal)` gives a promise.
 */
export function useData(key, ask, topic) {
  const [shown, set] = useState({ key, data: null, problem: null, slow: false, at: 0 });
  const [times, setTimes] = useState(0);
  const changed = useSign(topic);
  const live = useStore(state => state.live);
  const signedIn = useStore(state => state.signedIn);
  const decided = useStore(state => state.decided);
  const before = useRef(null);
  useEffect(() => {
    // What a stopped page shows is not fetched again by itself.
    const asked = JSON.stringify([key, times, decided]);
    if (!signedIn || (!live && before.current === asked)) return undefined;
    before.current = asked;
    const ending = new AbortController();
    const slow = setTimeout(() => set(now => ({ ...now, slow: true })), 150);
    const done = next => { clearTimeout(slow); if (!ending.signal.aborted) set(now => ({ ...now, slow: false, ...next })); };
    ask(ending.signal).then(
      data => done({ key, data, problem: null, at: Date.now() }),
      problem => { if (problem.name !== "AbortError") done(problem.status === 404 ? { key, data: null, problem } : { key, problem, ...(key === shown.key ? {} : { data: null }) }); },
    );
    return () => { clearTimeout(slow); ending.abort(); };
  }, [key, times, live ? changed : decided, signedIn]);
  const fits = shown.key === key;
  return { data: fits ? shown.data : null, problem: fits ? shown.problem : null, slow: shown.slow, at: shown.at, again: () => setTimes(count => count + 1) };
}

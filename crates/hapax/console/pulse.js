// The one poll that drives everything: while the page is seen and live, `GET /v1/pulse`; views fetch their own data when
// it says that something has changed.
import { useEffect, useRef, useState } from "./html.js";
import { absent, get } from "./api.js";
import { current, listen, send, useStore } from "./store.js";

const EVERY = 2000, BACKED_OFF = 15000, FAILURES = 3;
let timer = null, failures = 0, asking = false, took = 0, without = false;

/** How much of the past the chart shows; the pulse is asked for it. */
export const windows = { "15m": "15 min", "1h": "1 h", "6h": "6 h", "24h": "24 h" };

const wanted = () => current().signedIn && current().live && !document.hidden;

/** Of a server without pulse: what its older endpoints tell. */
async function pieced() {
  const [ready, counts] = await Promise.all([
    get("/readyz").catch(problem => problem.body?.reasons ? problem.body : { ready: false, reasons: [problem.message] }),
    get("/v1/claims/count"),
  ]);
  return { ready: ready.ready, reasons: ready.reasons, counts, attention: { in_doubt: counts.in_doubt }, changed: null };
}

async function ask() {
  const window = current().window ?? "15m";
  if (without) return pieced();
  try { return await get("/v1/pulse", { window }); } catch (problem) {
    if (!absent(problem)) throw problem;
    without = true;
    return pieced();
  }
}

/** The digest that stands in the path of these files; what the server says now is another one after an upgrade. */
const BUILD = new URL(import.meta.url).pathname.split("/")[2];
const isNew = console_ => Boolean(console_) && BUILD !== "dev" && console_ !== "dev" && console_ !== BUILD;

async function beat() {
  clearTimeout(timer);
  if (!wanted() || asking) return;
  asking = true;
  const began = performance.now();
  try {
    const pulse = await ask();
    failures = 0;
    send({ type: "pulse", pulse, now: Date.now() });
    if (isNew(pulse.console) && !current().outdated) send({ type: "set", outdated: true });
  } catch (problem) {
    failures += 1;
    if (failures >= FAILURES || problem.status === 503) send({ type: "silent", now: Date.now() });
  }
  took = performance.now() - began;
  asking = false;
  const pause = failures >= FAILURES ? BACKED_OFF : Math.max(without ? 2 * EVERY : EVERY, 10 * took);
  if (wanted()) timer = setTimeout(beat, pause);
}

/** Lists look again at once, live or not: something was decided here. */
export const look = () => send({ type: "set", decided: current().decided + 1 });

/** Asks now, live or not: after a decision, or where a person asks for it. */
export async function refresh() {
  try { send({ type: "pulse", pulse: await ask(), now: Date.now() }); } catch { /* the next beat says it */ }
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

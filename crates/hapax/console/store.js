// The state of the console: one object, changed by `update(state, message)` only, which is pure.
import { useEffect, useState } from "./html.js";

const kept = (name, usual) => {
  try { return localStorage.getItem(`hapax.${name}`) ?? usual; } catch { return usual; }
};

/** The state before anything is known. */
export const initial = () => ({
  signedIn: false, refused: null, me: null, pulse: null, pulseAt: 0, silentSince: null, away: null,
  live: true, zone: kept("zone", "utc"), theme: kept("theme", "auto"), keysOn: kept("keys", "on") === "on",
  by: kept("by", ""), skew: 0, skewKnown: false, said: "", help: false, shelves: [], outdated: false, beat: 0, decided: 0,
});

const changes = {
  signedIn: (state, { me, now }) => ({ signedIn: true, refused: null, me, ...skewed(me.time, now) }),
  signedOut: (state, { problem }) => ({ signedIn: false, refused: problem ?? null, me: problem ? state.me : null }),
  pulse: (state, { pulse, now }) => ({
    pulse, pulseAt: now, silentSince: null, beat: state.beat + 1, ...skewed(pulse.time, now),
    away: pulse.ledger && pulse.ledger.up === false ? { since: pulse.ledger.since } : null,
  }),
  silent: (state, { now }) => ({ silentSince: state.silentSince ?? now }),
  set: (state, { type, ...rest }) => rest,
  said: (state, { text }) => ({ said: text }),
};

/** How far this machine's clock is from the server's, in milliseconds. */
const skewed = (time, now) => {
  if (!time) return {};
  return { skew: Date.parse(time) - now, skewKnown: true };
};

/** The next state. Pure. */
export const update = (state, message) => ({ ...state, ...changes[message.type](state, message) });

let state = initial();
const listeners = new Set();

export const current = () => state;

/** Sends a message, and lets every view that looks at the state know. */
export const send = message => {
  state = update(state, message);
  listeners.forEach(listen => listen(state));
};

/** What is kept over visits: never a token, never anything of a customer. */
export const keep = (name, value) => {
  try { localStorage.setItem(`hapax.${name}`, value); } catch { /* a browser that keeps nothing */ }
};

export const listen = listener => { listeners.add(listener); return () => listeners.delete(listener); };

/** The part of the state that a view looks at. */
export const useStore = pick => {
  const [value, set] = useState(() => pick(state));
  useEffect(() => {
    const look = now => set(() => pick(now));
    look(state);
    return listen(look);
  }, []);
  return value;
};

/** Speaks to those who listen instead of looking. */
export const say = text => send({ type: "said", text });

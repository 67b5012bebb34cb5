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
  signedIn: (state, { me, now, way }) => ({ signedIn: true, refused: null, me, ...skewed(me.time, now, way) }),
  signedOut: (state, { problem }) => ({ signedIn: false, refused: problem ?? null, me: problem ? state.me : null }),
  pulse: (state, { pulse, now, way }) => ({
    pulse, pulseAt: now, silentSince: null, beat: state.beat + 1, ...skewed(pulse.time, now, way),
    away: pulse.ledger && pulse.ledger.up === false ? { since: pulse.ledger.since } : null,
  }),
  silent: (state, { since }) => ({ silentSince: state.silentSince ?? since }),
  set: (state, { type, ...rest }) => rest,
  said: (state, { text }) => ({ said: text }),
};

/** The longest way of a question and its answer that still tells how the clocks differ, in milliseconds. */
const WAY = 1000;

/**
 * How far this machine's clock is from the server's, in milliseconds: the server read its clock in the middle of the way, as
 * far as can be known. Of a long way nothing is learned.
 */
const skewed = (time, now, way) => (time && way <= WAY ? { skew: Date.parse(time) - (now - way / 2), skewKnown: true } : {});

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

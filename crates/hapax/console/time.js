// Times: UTC or local, ages by the server's clock, spans in words of the shortest kind.
import { current } from "./store.js";

const two = number => String(number).padStart(2, "0");
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** The server's time now, in milliseconds. */
export const now = () => Date.now() + current().skew;

const parts = (time, zone) => {
  const date = new Date(time);
  return zone === "utc"
    ? { y: date.getUTCFullYear(), mo: date.getUTCMonth(), d: date.getUTCDate(), h: date.getUTCHours(), mi: date.getUTCMinutes(), s: date.getUTCSeconds(), ms: date.getUTCMilliseconds() }
    : { y: date.getFullYear(), mo: date.getMonth(), d: date.getDate(), h: date.getHours(), mi: date.getMinutes(), s: date.getSeconds(), ms: date.getMilliseconds() };
};

/** `UTC`, or how far local time is from it. */
export const zoneName = (zone = current().zone, time = now()) => {
  if (zone === "utc") return "UTC";
  const off = -new Date(time).getTimezoneOffset();
  return `UTC${off < 0 ? "−" : "+"}${two(Math.floor(Math.abs(off) / 60))}:${two(Math.abs(off) % 60)}`;
};

/** A time as it is shown: of day, with the date where that is not today. `exact`: with milliseconds. */
export function shown(iso, { exact = false, zone = current().zone, short = false } = {}) {
  const at = typeof iso === "number" ? iso : Date.parse(iso);
  if (Number.isNaN(at)) return "–";
  const { y, mo, d, h, mi, s, ms } = parts(at, zone), today = parts(now(), zone);
  const day = y === today.y && mo === today.mo && d === today.d ? "" : `${d} ${MONTHS[mo]}${y === today.y ? "" : " " + y} `;
  if (short) return `${day}${two(h)}:${two(mi)}`;
  return `${day}${two(h)}:${two(mi)}:${two(s)}${exact ? "." + String(ms).padStart(3, "0") : ""}`;
}

/** Both zones and the whole text, for those who look closer. */
export const told = iso => `${iso} · ${shown(iso, { zone: "local", exact: true })} ${zoneName("local", Date.parse(iso))} · ${shown(iso, { zone: "utc", exact: true })} UTC`;

/** A span: `38 m 02 s`, `4 h 10 m`, `6 d 4 h`, `1.28 s`, `0.31 ms`. */
export function span(ms) {
  if (!Number.isFinite(ms)) return "–";
  const sign = ms < 0 ? "−" : "", far = Math.abs(ms);
  if (far < 1) return `${sign}${far.toFixed(2)} ms`;
  if (far < 1000) return `${sign}${Math.round(far)} ms`;
  if (far < 10000) return `${sign}${(far / 1000).toFixed(1)} s`;
  const s = Math.floor(far / 1000), m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
  if (m < 1) return `${sign}${s} s`;
  if (h < 1) return `${sign}${m} m ${two(s % 60)} s`;
  if (d < 1) return `${sign}${h} h ${two(m % 60)} m`;
  return `${sign}${d} d ${h % 24} h`;
}

/** How long ago, by the server's clock; never less than nothing. */
export const age = iso => span(Math.max(0, now() - Date.parse(iso)));
/** How long until then; 0 when it has passed. */
export const left = iso => Math.max(0, Date.parse(iso) - now());
/** For the name of a file. */
export const stamp = () => new Date(now()).toISOString().replace(/[-:]/g, "").replace(/\..*/, "Z");

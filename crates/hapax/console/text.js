// Texts as they are shown: foreign characters that deceive made visible, numbers, bytes, JSON in its colours.

// Control characters, and those that turn or hide text: shown as their code, so that one key cannot pose as another.
const DECEIVING = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\u206a-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

const code = char => "\\u" + char.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");

/** A caller's text, safe to look at. */
export const visible = text => String(text ?? "").replace(DECEIVING, code);
/** The same where lines may break. */
export const visibleLines = text => String(text ?? "").replace(DECEIVING, char => (char === "\n" || char === "\t" ? char : code(char)));
/** Shortened in the middle. */
export const shorter = (text, most = 48) => (text.length <= most ? text : `${text.slice(0, most - 13)}…${text.slice(-12)}`);

/** A whole number with its thousands apart. */
export const count = number => (number === null || number === undefined ? "–" : String(number).replace(/\B(?=(\d{3})+(?!\d))/g, ","));
/** Three digits. */
export const rate = number => {
  if (number === null || number === undefined || !Number.isFinite(number)) return "–";
  if (number === 0) return "0";
  if (number >= 100) return count(Math.round(number));
  return number >= 10 ? number.toFixed(1) : number.toFixed(2);
};
export const percent = part => (part === null || part === undefined || !Number.isFinite(part) ? "–" : `${(100 * part).toFixed(1)} %`);
export const bytes = number => {
  if (number === null || number === undefined) return "–";
  if (number < 1024) return `${count(number)} bytes`;
  const [unit, by] = number < 1 << 20 ? ["KiB", 1 << 10] : number < 1 << 30 ? ["MiB", 1 << 20] : ["GiB", 1 << 30];
  return `${(number / by).toFixed(1)} ${unit}`;
};
export const plural = (number, one, many = one + "s") => `${count(number)} ${number === 1 ? one : many}`;

const decoder = new TextDecoder("utf-8", { fatal: true });

/** Bytes of base64. */
export const fromBase64 = text => Uint8Array.from(atob(text), char => char.charCodeAt(0));
/** Base64 of a text's UTF-8. */
export const toBase64 = text => {
  let binary = "";
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return btoa(binary);
};
/** The text that bytes are, or null. */
export const asText = raw => { try { return decoder.decode(raw); } catch { return null; } };
/** The first 4 KiB of bytes as hex. */
export const hex = raw => {
  const lines = [];
  for (let at = 0; at < Math.min(raw.length, 4096); at += 16) {
    const row = Array.from(raw.slice(at, at + 16), byte => byte.toString(16).padStart(2, "0"));
    lines.push(`${at.toString(16).padStart(6, "0")}  ${row.join(" ")}`);
  }
  return lines.join("\n");
};

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)|([{}[\],:])|\s+/y;

/**
 * JSON as pieces `[class, text]`, indented. It is shown from its text: numbers are never read, so none is rounded. Null where it
 * is no JSON.
 */
export function jsonPieces(text) {
  try { JSON.parse(text); } catch { return null; }
  const pieces = [];
  let depth = 0, open = false;
  const line = () => pieces.push(["", "\n" + "  ".repeat(depth)]);
  TOKEN.lastIndex = 0;
  for (let found; (found = TOKEN.exec(text)); ) {
    const [all, string, colon, plain, mark] = found;
    if (string || plain) {
      if (open) { line(); open = false; }
      pieces.push([string ? (colon ? "j-k" : "j-s") : "j-n", visible(string ?? plain)]);
      if (colon) pieces.push(["", ": "]);
    } else if (mark === "{" || mark === "[") {
      if (open) line();
      pieces.push(["", all]); depth += 1; open = true;
    } else if (mark === "}" || mark === "]") {
      depth -= 1;
      if (!open) line();
      open = false; pieces.push(["", all]);
    } else if (mark === ",") { pieces.push(["", ","]); line(); }
    if (TOKEN.lastIndex >= text.length) break;
  }
  return pieces;
}

/** A value of a command line, quoted where a shell needs it. */
export const quoted = text => (/^[A-Za-z0-9_./:=@%+,-]+$/.test(text) ? text : "'" + text.replace(/'/g, "'\\''") + "'");

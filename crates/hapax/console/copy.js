// Copying, also where there is no clipboard: over plain HTTP browsers have none.
import { say } from "./store.js";

function byHand(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}

/** Copies a text and says so. */
export async function copy(text) {
  const before = document.activeElement;
  let copied = false;
  try { await navigator.clipboard.writeText(text); copied = true; } catch { copied = byHand(text); }
  before?.focus?.();
  say(copied ? "Copied" : "The browser does not let anything be copied");
  return copied;
}

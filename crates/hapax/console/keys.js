// The keyboard: single keys outside of fields, which can be switched off, and what lists and desks do with them.
import { useEffect, useRef } from "./html.js";
import { current } from "./store.js";
import { link, scope } from "./route.js";

/** What the help lists: keys, and what they do. */
export const LIST = [
  ["/", "search"], ["g then o a c r e w s k u", "overview, attention, claims, requests, executions, webhooks, schedules, API keys, audit"],
  ["j k or ↓ ↑", "move in a list"], ["Enter", "open"], ["o", "open in a new tab"], ["x", "select"], ["c", "copy the operation id"],
  ["y", "copy the link of this page"], ["d · n · u", "it was done · it was not done · not known yet"], ["Ctrl or ⌘ Enter", "submit the form"],
  ["l", "live or stopped"], ["z", "UTC or local time"], ["t", "theme"], ["?", "this list"], ["Esc", "close"],
];

export const PLACES = { o: [], a: ["attention", "in-doubt"], c: ["claims"], r: ["requests"], e: ["executions"], w: ["webhooks"], s: ["schedules"], k: ["keys"], u: ["audit"] };

const layers = [];

const inField = target => target.closest?.("input, textarea, select, [contenteditable]") && !/^(checkbox|radio|button)$/.test(target.type ?? "");

let going = 0;
function pressed(event) {
  if (event.defaultPrevented || event.isComposing) return;
  const command = (event.ctrlKey || event.metaKey) && event.key === "Enter";
  if (!command && (event.ctrlKey || event.metaKey || event.altKey)) return;
  if (!command && (inField(event.target) || document.querySelector("dialog[open]"))) return;
  if (!command && !current().keysOn && event.key.length === 1) return;
  if (!command && event.timeStamp - going < 1500 && PLACES[event.key]) {
    going = 0;
    event.preventDefault();
    location.hash = link(PLACES[event.key], scope());
    return;
  }
  going = event.key === "g" && !command ? event.timeStamp : 0;
  const name = command ? "submit" : event.key;
  for (const { layer } of [...layers]) {
    const act = layer.current[name];
    if (act && act(event) !== false) { event.preventDefault(); return; }
  }
}

/** Starts to listen. */
export const start = () => addEventListener("keydown", pressed);

/** What keys do while a view is shown: `{j: () => …}`; "submit" is Ctrl Enter. The frame is at depth 0, what lies deeper comes first. */
export function useKeys(acts, depth = 1) {
  const layer = useRef(acts);
  layer.current = acts;
  useEffect(() => {
    const mine = { layer, depth };
    layers.push(mine);
    layers.sort((one, other) => other.depth - one.depth);
    return () => layers.splice(layers.indexOf(mine), 1);
  }, []);
}

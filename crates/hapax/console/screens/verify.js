// Verifying a chain, page by page: progress, a stop, and in the end "whole" or where it breaks.
import { html, useEffect, useRef, useState } from "../html.js";
import { count, visible } from "../text.js";
import { span } from "../time.js";
import { Copy, Note, ProblemNote } from "../ui.js";

/** `page(from)` gives `{events | checked, hash, broken, next}`. */
export function useVerify(page, all) {
  const [found, set] = useState(null);
  const stop = useRef(false);
  useEffect(() => () => { stop.current = true; }, []);
  const start = async () => {
    stop.current = false;
    const began = performance.now();
    let from, checked = 0, hash = null;
    set({ running: true, checked });
    try {
      do {
        const told = await page(from);
        checked += told.events ?? told.receipts ?? 0; hash = told.hash ?? hash;
        const broken = told.broken ?? (told.ok === false ? { position: told.broken_at, what: told.error } : null);
        if (broken) { set({ checked, hash, broken }); return; }
        from = told.next ?? null;
        set({ running: from !== null, checked, hash, whole: from === null, took: performance.now() - began });
      } while (from !== null && !stop.current);
      if (from !== null) set({ checked, hash, stopped: true });
    } catch (problem) { set({ checked, hash, problem }); }
  };
  return { start, stop: () => { stop.current = true; }, running: found?.running ?? false, broken: found?.broken ?? null, hash: found?.hash, found, all };
}

/** What was found so far. */
export function Verified({ what, of: { found, all } }) {
  if (!found) return null;
  if (found.problem) return html`<${ProblemNote} problem=${found.problem} />`;
  if (found.broken) return html`<${Note} kind="error" alert><b>Broken at ${found.broken.position}:</b> ${visible(found.broken.what)} ${count(found.checked)} before it are sound.<//>`;
  if (found.whole) return html`<${Note} kind="settled"><span role="status"><b>Whole:</b> ${count(found.checked)} ${what} in ${span(found.took)}${found.hash ? html`, head <code>${found.hash.slice(0, 12)}…</code> <${Copy} text=${found.hash} what="the head" />` : ""}</span><//>`;
  return html`<div class="progress" role="status"><progress aria-label="Verifying" max=${Math.max(all ?? 0, found.checked, 1)} value=${found.checked}></progress><span>${count(found.checked)} of ${count(all)} ${what}${found.stopped ? " · stopped" : ""}</span></div>`;
}

// The buttons that export a list: CSV or JSON lines, with progress and a stop.
import { html, useRef, useState } from "./html.js";
import { MOST, file, gather } from "./export.js";
import { say } from "./store.js";
import { plural } from "./text.js";
import { Icon } from "./icons.js";

/** `page(after)` gives `{rows, next}`; `columns` are `[name, row => value]`. */
export function Exports({ screen, filter, columns, page }) {
  const [running, setRunning] = useState(null);
  const stop = useRef(false);
  const run = async format => {
    stop.current = false;
    setRunning(0);
    try {
      const got = await gather(page, { onProgress: setRunning, stopped: () => stop.current });
      const { count, complete } = file(screen, filter, format, columns, got);
      say(`${plural(count, "row")} exported${complete ? "" : `: the first ${MOST.toLocaleString("en")} at most, not all`}`);
    } catch (problem) { say(`The export failed: ${problem.message}`); }
    setRunning(null);
  };
  if (running !== null) return html`<span class="muted">${plural(running, "row")} …</span><button class="btn small" type="button" onClick=${() => { stop.current = true; }}>Stop</button>`;
  return html`<button class="btn" type="button" onClick=${() => run("csv")}><${Icon} name="export" />CSV</button><button class="btn" type="button" onClick=${() => run("json")}>JSON</button>`;
}

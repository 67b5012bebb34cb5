// A decision about many doubts: each with the epoch that was seen, four at a time, with progress and a stop between two.
import { html, useRef, useState } from "../html.js";
import { cli, decide, notBefore } from "../data.js";
import { useStore } from "../store.js";
import { plural, quoted, shorter, toBase64, visible } from "../text.js";
import { left } from "../time.js";
import { Act, Cli, Dialog, Field, Input, Note } from "../ui.js";
import { Because } from "./decision.js";

const MOST = 200, AT_ONCE = 4;
const WORDS = { release: ["Release", "The next request with each key runs. Do this only if none of this work was done."], settle: ["Settle", "Callers of each get this answer from now on. It is the same for all."], note: ["Note", "All stay in doubt, with this note in the audit."] };

/** One decision per claim; `tell(id, result)` hears of each. */
async function run(claims, one, tell, stopped) {
  const queue = [...claims];
  const worker = async () => {
    while (queue.length && !stopped()) {
      const claim = queue.shift();
      try { await one(claim); tell(claim.operation_id, { ok: true }); } catch (problem) { tell(claim.operation_id, { problem }); }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

/** The commands that decide the same. */
const commands = (what, claims, { status, body, reason, by }) => {
  const why = cli.because({ reason: reason.trim(), by });
  if (what === "note") return cli.many(claims, `note "$id" ${why}`);
  const how = what === "release" ? "--release" : `--settle-status ${status}${body ? ` --settle-body answer.json --settle-header ${quoted("Content-Type: application/json")}` : ""}`;
  return cli.many(claims, `resolve "$id" --epoch "$epoch" ${how} ${why}`);
};

export function Batch({ what, claims, close, done }) {
  const [seen] = useState(() => claims.slice(0, MOST));
  const [results, setResults] = useState({}), [stage, setStage] = useState("ask");
  const [reason, setReason] = useState(""), [by, setBy] = useState(useStore(state => state.by));
  const [status, setStatus] = useState("200"), [body, setBody] = useState("");
  const stop = useRef(false);
  const [word, follows] = WORDS[what];
  const told = Object.values(results), well = told.filter(result => result.ok).length;
  const early = what === "release" ? seen.filter(claim => { const from = notBefore(claim); return from && left(from) > 0; }).length : 0;
  const one = claim => decide(claim, what === "note" ? "note" : "resolve", { reason: reason.trim(), by: by || undefined, ...(what === "release" ? { release: true } : what === "settle" ? { settle: { status: Number(status), headers: body ? { "content-type": "application/json" } : {}, body_base64: toBase64(body) } } : {}) });
  const start = async () => {
    setStage("running"); stop.current = false;
    await run(seen, one, (id, result) => setResults(now => ({ ...now, [id]: result })), () => stop.current);
    setStage("done"); done();
  };
  const ask = stage === "ask";
  return html`<${Dialog} title=${`${word} ${plural(seen.length, "claim")}`} close=${() => { stop.current = true; close(); }}><div class="form">
    ${ask ? html`<p class="outcome">${follows}${claims.length > MOST ? ` At most ${MOST} at a time: these are the first.` : ""}</p>${early > 0 && html`<${Note} kind="doubt">${plural(early, "of them may still run", "of them may still run")}: the server refuses these; force is not offered for many.<//>`}
      ${what === "settle" && html`<div class="row align-top"><${Field} id="b-status" label="Status"><${Input} id="b-status" type="number" class="w-status" value=${status} on=${setStatus} /><//><${Field} grow id="b-body" label="Body"><textarea id="b-body" rows="3" value=${body} onInput=${event => setBody(event.target.value)}></textarea><//></div>`}
      <${Because} reason=${reason} setReason=${setReason} by=${by} setBy=${setBy} id="b-reason" /><div class="row"><${Cli} line=${commands(what, seen, { status, body, reason, by })} /></div>`
    : html`<div class="progress" role="status"><progress aria-label="Progress" max=${seen.length} value=${told.length}></progress><span>${well} done · ${told.length - well} not · of ${seen.length}${stage === "done" && told.length < seen.length ? " · stopped" : ""}</span></div>`}
    <ul class="many" tabindex="0" aria-label="Claims and results">${seen.map(claim => html`<li key=${claim.operation_id}><bdi class="mono">${shorter(visible(claim.key), 40)}</bdi><code class="muted">${claim.epoch}</code><${Result} of=${results[claim.operation_id]} /></li>`)}</ul>
    <div class="row end">${ask ? html`<button class="btn" type="button" autofocus onClick=${close}>Cancel</button><${Act} kind="primary" disabled=${reason.trim() === ""} on=${start}>${word} ${plural(seen.length, "claim")}<//>` : stage === "running" ? html`<button class="btn" type="button" onClick=${() => { stop.current = true; }}>Stop</button>` : html`<button class="btn primary" type="button" onClick=${close}>Close</button>`}</div></div><//>`;
}

const Result = ({ of }) => (!of ? html`<span></span>` : of.ok ? html`<span class="c-settled">done</span>` : html`<span class="c-refused" title=${visible(of.problem.detail)}>${of.problem.code || of.problem.title}: ${visible(of.problem.detail)}</span>`);

// The kept answer of a claim: hidden until asked for, because it is a customer's; shown as text and nothing else.
import { html, useState } from "../html.js";
import { call } from "../api.js";
import { copy } from "../copy.js";
import { save } from "../export.js";
import { asText, bytes, fromBase64, hex, jsonPieces, visible, visibleLines } from "../text.js";
import { Icon } from "../icons.js";
import { Act, Card, Note, ProblemNote } from "../ui.js";

const SHOWN = 256 * 1024;

/** JSON with its colours, or the text as it is. */
export function JsonText({ text, label = "Body" }) {
  const pieces = text.length <= SHOWN ? jsonPieces(text) : null;
  return html`<pre class="body-view" tabindex="0" role="region" aria-label=${label}>${pieces ? pieces.map(([kind, piece]) => (kind ? html`<span class=${kind}>${piece}</span>` : piece)) : visibleLines(text.slice(0, SHOWN))}</pre>`;
}

function Body({ raw }) {
  const text = asText(raw);
  const [view, setView] = useState("pretty");
  if (raw.length === 0) return html`<p class="muted">No body.</p>`;
  if (raw.length > SHOWN) return html`<p class="muted">${bytes(raw.length)}: too much to show. Save it.</p>`;
  const views = text === null ? ["hex"] : jsonPieces(text) ? ["pretty", "raw", "hex"] : ["raw", "hex"];
  const shown = views.includes(view) ? view : views[0];
  return html`<div class="seg" role="group" aria-label="View">${views.map(name => html`<button key=${name} type="button" aria-pressed=${name === shown} onClick=${() => setView(name)}>${name}</button>`)}</div>
    ${shown === "pretty" ? html`<${JsonText} text=${text} />` : html`<pre class="body-view" tabindex="0" role="region" aria-label="Body">${shown === "raw" ? visibleLines(text) : hex(raw)}</pre>`}`;
}

const lines = headers => Object.entries(headers ?? {}).flatMap(([name, values]) => [].concat(values).map(value => [name, value]));

function Kept({ outcome, claim }) {
  if (outcome.unreadable) return html`<${Note} kind="doubt"><b>It does not open:</b> ${visible(outcome.unreadable)}<//>`;
  const raw = fromBase64(outcome.body_base64 ?? outcome.kept_base64 ?? "");
  const text = asText(raw);
  return html`<div class="hdrs">${lines(outcome.headers).map(([name, value], at) => html`<div key=${at}><b>${visible(name)}</b>: ${visible(value)}</div>`)}</div><${Body} raw=${raw} />
    <div class="row end"><button class="btn quiet small" type="button" onClick=${() => save(`${claim.operation_id}.body`, "application/octet-stream", raw)}><${Icon} name="export" />Save</button>${text !== null && html`<button class="btn quiet small" type="button" onClick=${() => copy(text)}><${Icon} name="copy" />Copy</button>`}</div>`;
}

const KINDS = { succeeded: "an answer", refused: "a refusal", not_kept: "not kept: only that it was done", erased: "erased by an operator" };

export function Answer({ claim }) {
  const [told, setTold] = useState(null), [problem, setProblem] = useState(null);
  const { outcome } = claim;
  const ask = async () => {
    try { setTold((await call("GET", `/v1/claims/${claim.operation_id}`, { query: { outcome: true } })).outcome); setProblem(null); } catch (caught) { setProblem(caught); }
  };
  const has = outcome.kind === "succeeded" || outcome.kind === "refused";
  const shown = told ?? outcome;
  const note = [shown.status, KINDS[outcome.kind], has && bytes(outcome.bytes), `by the ${claim.settled_by}`].filter(Boolean).join(" · ");
  return html`<${Card} title="Kept answer" note=${note} actions=${has && !told && html`<${Act} small on=${ask}>Show<//>`}>
    ${problem && html`<${ProblemNote} problem=${problem} />`}${told ? html`<${Kept} outcome=${told} claim=${claim} />` : html`<p class="muted">${has ? "It may hold a customer's data: it is fetched when you ask for it." : "There are no bytes."}</p>`}<//>`;
}

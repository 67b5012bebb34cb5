// Decisions in a dialog: reopen, purge and erase of a claim; with what follows, a reason, the epoch that was seen, the command.
import { html, useState } from "../html.js";
import { cli, decide } from "../data.js";
import { useStore } from "../store.js";
import { visible } from "../text.js";
import { Act, Cli, Dialog, Field, Input, Note, ProblemNote, State } from "../ui.js";

const WHAT = {
  reopen: ["Reopen", "The kept answer is set aside, and the next request with this key runs. The audit keeps what was set aside.", false],
  purge: ["Purge", "The claim is forgotten, its fingerprint included: a request with this key is a new one, also a different one. This cannot be undone.", true],
  erase: ["Erase", "The answer is destroyed, also one that was set aside. The key stays used up: a retry is told that the outcome is not kept. This cannot be undone.", true],
};

/** Reason and name, as every decision has them. */
export function Because({ reason, setReason, by, setBy, id = "why" }) {
  return html`<div class="row"><${Field} grow id=${id} label=${html`Reason <span class="muted">· the audit keeps it</span>`}><${Input} id=${id} value=${reason} on=${setReason} maxlength="1024" /><//><${Field} id=${`${id}-by`} label="By"><${Input} id=${`${id}-by`} value=${by} on=${setBy} size="12" maxlength="128" /><//></div>`;
}

/** What was seen beside what is now: a conflict changes nothing. */
export function Conflict({ problem, seen }) {
  const now = problem.claim;
  return html`<${Note} kind="mismatch" alert><b>${visible(problem.title)}.</b> ${visible(problem.detail)}
    <dl class="kv tight"><dt>you saw</dt><dd><${State} state=${seen.state} /> epoch <code>${seen.epoch}</code></dd><dt>it is now</dt><dd>${now ? html`<${State} state=${now.state} /> epoch <code>${now.epoch}</code>` : "absent"}</dd></dl><//>`;
}

/** A dialog that asks for a reason and does something; `run({reason, by})` may throw a problem. */
export function Ask({ title, verb, danger, name, seen, line, close, run, children, ready = true }) {
  const [reason, setReason] = useState(""), [by, setBy] = useState(useStore(state => state.by));
  const [typed, setTyped] = useState(""), [problem, setProblem] = useState(null), [busy, setBusy] = useState(false);
  const may = ready && reason.trim() !== "" && (!danger || typed === name) && !busy;
  const submit = async event => {
    event.preventDefault();
    if (!may) return;
    setBusy(true);
    try { await run({ reason, by: by || undefined }); } catch (caught) { setProblem(caught); }
    setBusy(false);
  };
  return html`<${Dialog} title=${title} close=${close}><form class="form" onSubmit=${submit}>${children}
    ${danger && html`<${Field} id="again" label=${html`Type <code>${visible(name)}</code> to confirm`}><${Input} id="again" value=${typed} on=${setTyped} /><//>`}
    <${Because} reason=${reason} setReason=${setReason} by=${by} setBy=${setBy} />
    ${problem && (seen && problem.status === 409 ? html`<${Conflict} problem=${problem} seen=${seen} />` : html`<${ProblemNote} problem=${problem} />`)}
    ${line && html`<div class="row"><${Cli} line=${line(reason, by || undefined)} /></div>`}
    <div class="row end"><button class="btn" type="button" onClick=${close} autofocus>Cancel</button><${Act} type="submit" kind=${danger ? "danger" : "primary"} disabled=${!may}>${verb}<//></div></form><//>`;
}

/** Reopen, purge or erase the claim that is on the screen. */
export function ClaimDecision({ verb, claim, close, done }) {
  const [seen] = useState(claim);
  const [word, follows, danger] = WHAT[verb];
  const run = async body => { await decide(seen, verb, body); done(); };
  return html`<${Ask} title=${`${word} ${visible(seen.key)}`} verb=${`${word} ${visible(seen.key)}`} danger=${danger} name=${seen.key} seen=${seen} close=${close} run=${run} line=${(reason, by) => cli.plain(seen, verb, { reason, by })}><p class="outcome">${follows}</p><//>`;
}

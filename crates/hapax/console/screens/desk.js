// The decision desk for one doubt: find out, say what happened, see what follows. The epoch on the screen is what is sent.
import { html, useEffect, useState } from "../html.js";
import { cli, decide, lastAnswer, notBefore, read } from "../data.js";
import { get, mayOperate } from "../api.js";
import { current as state, say, useStore } from "../store.js";
import { useData } from "../pulse.js";
import { useKeys } from "../keys.js";
import { link } from "../route.js";
import { toBase64, visible } from "../text.js";
import { left, shown, span, zoneName } from "../time.js";
import { DOUBTS, ofAgent } from "../words.js";
import { Icon, Mark } from "../icons.js";
import { Act, Cli, Copy, Dialog, Field, Foreign, Input, Note, ProblemNote, RoleHint, Skeleton, State, Ticking, Time } from "../ui.js";
import { Because, Conflict } from "./decision.js";
import { LinksOut } from "./claim.js";

const size = text => new TextEncoder().encode(text).length;
const isJson = text => { try { JSON.parse(text); return true; } catch { return false; } };

const Found = ({ name, value, what }) => html`<div><div class="k">${name}</div><div class="v"><code title=${visible(value)}>${visible(value)}</code><${Copy} text=${value} what=${what} /></div></div>`;

/** What to look for, in the system that would know. */
function FindOut({ claim }) {
  const until = claim.may_run_until && claim.may_run_until < new Date(Date.now() + state().skew).toISOString() ? claim.may_run_until : claim.may_run_until ?? claim.doubt.since;
  return html`<div class="section"><h2 class="h3"><span class="step">1</span>Find out <small>search the system that would know, by any of these</small></h2><div class="find">
    <${Found} name=${claim.upstream_key ? `Idempotency-Key, as ${claim.upstream} got it` : "the caller's key"} value=${claim.upstream_key ?? claim.key} what="the key that was sent" />
    <${Found} name="x-operation-id" value=${claim.operation_id} what="the operation id" />
    <${Found} name=${`When it can have happened (${zoneName()})`} value=${`${shown(claim.granted_at, { exact: true })} – ${shown(until, { exact: true })}`} what="the interval" />
    <div><div class="k">Caller</div><div class="v"><${Foreign} text=${`${claim.tenant} / ${claim.project} · ${claim.subject}`} /></div></div>
  </div><${LinksOut} claim=${claim} /></div>`;
}

const sentence = text => text.charAt(0).toUpperCase() + text.slice(1);

function Lede({ claim }) {
  const { doubt } = claim;
  return html`<p class="lede">${sentence(DOUBTS[doubt.reason] ?? doubt.reason)}${claim.upstream ? ` (upstream ${visible(claim.upstream)})` : ""}${doubt.cause && html`: <b>${visible(doubt.cause)}</b>`}. It is not known whether the work was done. Callers get 409 <code>outcome-unknown</code>; nothing runs under this key until you decide.</p>`;
}

const wait = claim => { const from = notBefore(claim); return from ? left(from) : 0; };

/** Is it still too early to release? Looks each second. */
function useEarly(claim) {
  const [early, set] = useState(wait(claim) > 0);
  useEffect(() => { set(wait(claim) > 0); const timer = setInterval(() => set(wait(claim) > 0), 500); return () => clearInterval(timer); }, [claim]);
  return early;
}

function Choices({ claim, choice, choose, early, force, may }) {
  const one = (name, title, words, off) => html`<label class="choice" key=${name}><input type="radio" name="happened" value=${name} checked=${choice === name} disabled=${off || !may} onChange=${() => choose(name)} /><b>${title}</b><span>${words}</span></label>`;
  return html`<div class="choices" role="radiogroup" aria-label="What happened">
    ${one("settle", "It was done", "Settle: callers get the answer below, from now on, byte for byte.")}
    ${one("release", "It was not done", early ? html`Release: the next request runs. In <${Ticking} of=${() => span(wait(claim))} />; until then the call may still arrive.` : "Release: the next request with this key runs.", early)}
    ${one("note", "I don't know yet", "Leave it closed and add a note for whichever colleague comes next.")}
  </div>${early && html`<p class="row end"><${Act} small kind="quiet" on=${force}>Release by force…<//></p>`}`;
}

function Stated({ claim, form, set, donor, setDonor }) {
  const [problem, setProblem] = useState(null);
  const start = async () => {
    try {
      const from = await lastAnswer(claim);
      if (!from) { say("There is none"); setProblem({ title: "There is none", detail: "no settled claim of this operation is kept" }); return; }
      const type = [].concat(from.outcome.headers?.["content-type"] ?? form.type)[0];
      set({ status: String(from.outcome.status), type, body: new TextDecoder().decode(Uint8Array.from(atob(from.outcome.body_base64 ?? ""), char => char.charCodeAt(0))) });
      setDonor(from); setProblem(null);
    } catch (caught) { setProblem(caught); }
  };
  const foreign = leftOver(form, donor);
  return html`<div class="row align-top stated"><${Field} id="status" label="Status"><${Input} id="status" type="number" class="w-status" min="200" max="599" value=${form.status} on=${status => set({ status })} /><//><${Field} grow id="type" label="Content-Type"><${Input} id="type" value=${form.type} on=${type => set({ type })} /><//>
    <div class="field"><span class="label">Start from</span><${Act} on=${start}>the last answer of ${visible(claim.operation)}<//></div></div>
    ${problem && html`<${ProblemNote} problem=${problem} />`}
    <${Field} id="body" label="Body" hint=${`${size(form.body)} bytes${form.body ? (isJson(form.body) ? " · valid JSON" : /json/.test(form.type) ? " · not valid JSON" : "") : ""}`} error=${foreign && `The body still has ${visible(foreign)}, which is the other request's: put in what belongs to this one.`}><textarea id="body" rows="4" spellcheck=${false} value=${form.body} onInput=${event => set({ body: event.target.value })}></textarea><//>`;
}

/** What of the other claim's is still in the body. */
const leftOver = (form, donor) => (donor ? [donor.key, donor.operation_id].find(id => form.body.includes(id)) : undefined);

function Follows({ claim, choice, form, forced }) {
  const { data } = useData("routes", signal => get("/v1/routes", {}, signal), "routes");
  const kept = data?.routes.find(route => route.operation === claim.operation || route.first_name === claim.operation)?.retention;
  if (choice === "note") return html`<div class="outcome"><span>After this: still <b>in doubt</b>, with your note in the audit for those who come next.</span></div>`;
  if (choice === "release") return html`<div class="outcome"><span><${Mark} kind="released" extra="icon" /> After this: <b>in doubt → released</b>, epoch ${claim.epoch} → a new one. The next request with this key <b>runs</b>. If the work was done after all, it is done twice${forced ? ", and the former call may still be under way" : ""}. A late true outcome is recorded until that request comes.</span></div>`;
  return html`<div class="outcome"><span><${Mark} kind="settled" extra="icon" /> After this: <b>in doubt → settled</b>, epoch ${claim.epoch} → a new one. Callers get <b>${form.status}, ${size(form.body)} bytes</b>, kept ${kept?.kept ? html`for <b>${kept.kept}</b>${kept.class && html` (class <code>${kept.class}</code>)`}` : "as long as the route says"}. A later answer of the former run is refused and raised.</span></div>`;
}

/** The dialog before a release by force. */
function Force({ claim, close, release }) {
  const [dead, setDead] = useState(false), [gone, setGone] = useState(false), [typed, setTyped] = useState("");
  return html`<${Dialog} title=${`Release ${visible(claim.key)} by force`} close=${close}><div class="form">
    <p class="outcome">The former run may still reach the work for <${Ticking} of=${() => span(wait(claim))} />. If it does, and the next request runs, the work is done twice.</p>
    <label class="check"><input type="checkbox" checked=${dead} onChange=${event => setDead(event.target.checked)} /><span>The former run is dead.</span></label>
    <label class="check"><input type="checkbox" checked=${gone} onChange=${event => setGone(event.target.checked)} /><span>Nothing that it sent is still under way.</span></label>
    <${Field} id="force-key" label=${html`Type <code>${visible(claim.key)}</code> to confirm`}><${Input} id="force-key" value=${typed} on=${setTyped} /><//>
    <div class="row end"><button class="btn" type="button" autofocus onClick=${close}>Cancel</button><${Act} kind="danger" disabled=${!(dead && gone && typed === claim.key)} on=${release}>Choose release by force<//></div></div><//>`;
}

const fresh = () => ({ status: "201", type: "application/json", body: "", reason: "", by: state().by });

/** What is sent for a choice. */
function bodyOf(choice, form, forced) {
  const said = { reason: form.reason.trim(), by: form.by || undefined };
  if (choice === "note") return ["note", said];
  if (choice === "release") return ["resolve", { ...said, release: true, force: forced || undefined }];
  const none = ["204", "205", "304"].includes(form.status);
  return ["resolve", { ...said, settle: { status: Number(form.status), headers: form.type && !none ? { "content-type": form.type } : {}, body_base64: toBase64(form.body) } }];
}

const VERBS = { settle: "Settle", release: "Release", note: "Note" };

/** A page for the claim with this id; `listed` is how the list has it now. */
export function Desk({ id, listed, next }) {
  const from = useData(`desk ${id}`, () => read(id), "claims");
  const [seen, setSeen] = useState(null);
  useEffect(() => { if (!seen && from.data) setSeen(from.data); }, [from.data]);
  if (from.problem && !seen) return html`<section class="card"><div class="section"><${ProblemNote} problem=${from.problem} /></div></section>`;
  if (!seen) return html`<section class="card"><div class="section"><${Skeleton} rows=${8} /></div></section>`;
  return html`<${Open} seen=${seen} now=${from.data ?? listed ?? seen} again=${setSeen} gone=${from.problem?.status === 404} next=${next} />`;
}

function useDecision({ seen, next, again }) {
  const [choice, choose] = useState("settle"), [form, change] = useState(fresh), [forced, setForced] = useState(false);
  const [donor, setDonor] = useState(null), [problem, setProblem] = useState(null), [busy, setBusy] = useState(false);
  const set = changes => change(now => ({ ...now, ...changes }));
  const submit = async () => {
    setBusy(true); setProblem(null);
    const [verb, body] = bodyOf(choice, form, forced);
    try {
      await decide(seen, verb, body);
      say(`${visible(seen.key)}: ${{ settle: "settled", release: "released", note: "noted" }[choice]}`);
      if (choice === "note") set({ reason: "" }); else next();
    } catch (caught) {
      // After a lost answer the claim says whether the decision counted.
      const now = caught.status === 0 ? await read(seen.operation_id).catch(() => null) : null;
      if (now && now.epoch !== seen.epoch) again(now); else setProblem(caught);
    }
    setBusy(false);
  };
  return { choice, choose, form, set, forced, setForced, donor, setDonor, problem, setProblem, busy, submit };
}

function Open({ seen, now, again, gone, next }) {
  const desk = useDecision({ seen, next, again });
  const { choice, form, forced, problem } = desk;
  const may = useStore(one => mayOperate(one.me));
  const early = useEarly(seen) && !forced;
  const [forcing, setForcing] = useState(false);
  const changed = gone || now.epoch !== seen.epoch || now.state !== seen.state;
  const ready = may && !ofAgent(seen) && !desk.busy && !changed && seen.state === "in_doubt" && form.reason.trim() !== "" && !(choice === "release" && early) && !(choice === "settle" && (leftOver(form, desk.donor) || !/^[2-5]\d\d$/.test(form.status)));
  const choose = name => { if (may && !(name === "release" && early)) desk.choose(name); };
  useKeys({ submit: () => ready && desk.submit(), d: () => choose("settle"), n: () => choose("release"), u: () => choose("note") }, 2);
  const force = () => { desk.setForced(true); desk.choose("release"); setForcing(false); };
  const lookAgain = () => { again(now); desk.setProblem(null); };
  return html`<section class="card" aria-labelledby="c-key" data-operation-id=${seen.operation_id} data-epoch=${seen.epoch}>
    <div class="section"><div class="claim-head"><${State} state=${seen.state} big /><span class="key" id="c-key"><bdi>${visible(seen.key)}</bdi></span><${Copy} text=${seen.key} what="the key" /><span class="top-gap"></span><a class="btn small" href=${link(["claims", seen.operation_id])}><${Icon} name="link" />Open claim</a></div>${seen.doubt && html`<${Lede} claim=${seen} />`}</div>
    ${changed && html`<div class="section"><${Changed} now=${now} gone=${gone} look=${lookAgain} next=${next} /></div>`}
    ${seen.state === "in_doubt" && ofAgent(seen) && html`<${FindOut} claim=${seen} /><div class="section"><${Note} kind="person" actions=${html`<a class="btn small" href="#/attention/approvals">Approvals</a>`}>This is ${seen.operation === "action" ? "an action of an agent" : "a step of an execution"}: it is decided under Approvals, so that its ${seen.operation === "action" ? "lane opens" : "journal tells of it"}.<//></div>`}
    ${seen.state === "in_doubt" && !ofAgent(seen) && html`<${FindOut} claim=${seen} /><div class="section"><h2 class="h3"><span class="step">2</span>Say what happened</h2><${RoleHint} />
      <${Choices} claim=${seen} choice=${choice} choose=${choose} early=${early} force=${() => setForcing(true)} may=${may} />
      <div class="form">${choice === "settle" && html`<${Stated} claim=${seen} form=${form} set=${desk.set} donor=${desk.donor} setDonor=${desk.setDonor} />`}
        <${Because} reason=${form.reason} setReason=${reason => desk.set({ reason })} by=${form.by} setBy=${by => desk.set({ by })} id="reason" />
        <${Follows} claim=${seen} choice=${choice} form=${form} forced=${forced} />
        ${problem && (problem.status === 409 ? html`<${Conflict} problem=${problem} seen=${seen} />` : html`<${ProblemNote} problem=${problem} />`)}
        <div class="row"><${Cli} line=${choice === "settle" ? cli.settle(seen, form) : choice === "release" ? cli.release(seen, { force: forced, reason: form.reason, by: form.by }) : cli.note(seen, form)} /><${Act} kind="primary" disabled=${!ready} on=${desk.submit}>${VERBS[choice]} ${shortKey(seen.key)} <kbd>Ctrl ↵</kbd><//></div>
      </div></div>`}
    ${forcing && html`<${Force} claim=${seen} close=${() => setForcing(false)} release=${force} />`}</section>`;
}

const shortKey = key => { const text = visible(key); return text.length > 24 ? text.slice(0, 23) + "…" : text; };

/** What it is now, beside what was seen; nothing moves by itself. */
function Changed({ now, gone, look, next }) {
  return html`<${Note} kind="mismatch" alert actions=${html`<button class="btn small" type="button" onClick=${look}>Look again</button><button class="btn small" type="button" onClick=${next}>Go on to the next</button>`}><b>Changed meanwhile.</b> ${gone ? "The claim is absent now." : html`It is now <${State} state=${now.state} /> with epoch <code>${now.epoch}</code>${now.settled_at && html` since <${Time} at=${now.settled_at} />`}${now.settled_by ? ` by the ${now.settled_by}` : ""}.`} What you typed stays.<//>`;
}

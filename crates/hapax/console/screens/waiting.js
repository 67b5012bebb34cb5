// The other queues: steps that wait for an approval, alerts of the gate, outcomes that came too late, records that cannot be read.
import { html, useState } from "../html.js";
import { get, post } from "../api.js";
import { claimsPage, cli } from "../data.js";
import { useData } from "../pulse.js";
import { link } from "../route.js";
import { quoted, visible } from "../text.js";
import { Mark } from "../icons.js";
import { Act, Age, Card, Empty, Field, Foreign, Input, Loaded, Table, Time } from "../ui.js";
import { auditPage, eventId } from "./audit.js";
import { Ask } from "./decision.js";
import { DecideStep } from "./step.js";

const items = (kinds, signal) => get("/v1/attention", {}, signal).then(page => page.items.filter(item => kinds.includes(item.kind)));

/** Executions that are paused, with the steps of each that wait. */
async function waitingSteps({ tenant, project }, signal) {
  const page = await get("/v1/executions", { tenant, project, status: "PAUSED", limit: 50 }, signal);
  const one = async execution => {
    const scope = { tenant: execution.tenant, project: execution.project };
    const { waiting } = await get(`/v1/executions/${encodeURIComponent(execution.execution_id)}/waiting`, scope, signal).catch(problem => { if (problem.name === "AbortError") throw problem; return { waiting: [] }; });
    return waiting.map(step => ({ ...step, execution }));
  };
  return (await Promise.all(page.executions.map(one))).flat();
}

const STEPS = decide => [
  { name: "Execution", of: ({ execution }) => html`<a href=${link(["executions", execution.execution_id], { tenant: execution.tenant, project: execution.project })}><code>${visible(execution.execution_id)}</code></a><span class="sub">${visible(execution.agent)} · ${execution.tenant} / ${execution.project}</span>` },
  { name: "Step", of: step => `${step.iteration}.${step.call}` }, { name: "Tool", of: step => html`<code>${visible(step.tool)}</code>` },
  { name: "Why", of: step => (step.doubt ? `in doubt: ${step.doubt}` : "its result was not kept") },
  { name: "Waits since", of: ({ execution }) => html`<${Age} at=${execution.updated_at} />` },
  { name: "Claim", of: step => html`<a href=${link(["claims", step.operation_id])}><code>${step.operation_id.slice(0, 12)}…</code></a>` },
  { name: "Decision", label: html`<span class="visually-hidden">Decision</span>`, of: step => html`<${Act} small on=${() => decide(step)}>Decide…<//>` },
];

const ACTIONS = decide => [
  { name: "Action", of: one => html`<a href=${link(["claims", one.operation_id])}><${Foreign} text=${one.key} most=${40} /></a><span class="sub">${one.tenant} / ${one.project}</span>` },
  { name: "What was seen", of: one => html`<span class="reason" title=${visible(one.cause)}>${visible(one.cause ?? "its process ended without a word")}</span>` }, { name: "Why", of: one => `in doubt: ${one.doubt}` }, { name: "Waits since", of: one => html`<${Age} at=${one.since} />` },
  { name: "Decision", label: html`<span class="visually-hidden">Decision</span>`, of: one => html`<${Act} small on=${() => decide({ one, verb: "confirm" })}>It happened…<//> <${Act} small on=${() => decide({ one, verb: "release" })}>It did not…<//>` },
];
const FOLLOWS = { confirm: ["It happened", "The action is done: a repeated one is told so, and its lane opens."], release: ["It did not happen", "The action may be proposed again, and its lane opens."] };

/** Actions of unknown fate, and steps of executions that wait. */
export function Approvals({ place }) {
  const { tenant, project } = place.query;
  const steps = useData(`approvals ${tenant} ${project}`, signal => waitingSteps({ tenant, project }, signal), ["attention", "executions"]);
  const actions = useData(`actions ${tenant} ${project}`, signal => get("/v1/approvals", { tenant, project, limit: 200 }, signal), ["attention", "claims"]);
  const [step, setStep] = useState(null), [action, setAction] = useState(null);
  return html`<div class="stack"><${Card} title="Steps of executions" flush><${Loaded} from=${steps} what="The list of executions">${list => list.length === 0 ? html`<${Empty}>No agent waits for a person.<//>` : html`<${Table} caption="Approvals" columns=${STEPS(setStep)} rows=${list} id=${one => one.operation_id} />`}<//><//>
    <${Card} title="Actions of unknown fate" flush><${Loaded} from=${actions} what="The list of actions">${({ approvals }) => approvals.length === 0 ? html`<${Empty}>No action waits for a person.<//>` : html`<${Table} caption="Actions" columns=${ACTIONS(setAction)} rows=${approvals} id=${one => one.operation_id} />`}<//><//></div>
    ${step && html`<${DecideStep} step=${step} execution=${step.execution} close=${() => setStep(null)} done=${() => { setStep(null); steps.again(); }} />`}
    ${action && html`<${DecideAction} ...${action} close=${() => setAction(null)} done=${() => { setAction(null); actions.again(); }} />`}`;
}

/** It happened, with what the tool answered where that is known; or it did not. */
function DecideAction({ one, verb, close, done }) {
  const [seen] = useState(one), [result, setResult] = useState(""), [force, setForce] = useState(false);
  const confirms = verb === "confirm";
  let value, valid = true;
  try { value = result.trim() ? JSON.parse(result) : undefined; } catch { valid = false; }
  const run = async said => { await post(`/v1/approvals/${seen.operation_id}/${verb}`, { digest: seen.digest, epoch: seen.epoch, ...(confirms ? { result: value } : { force }), ...said }); done(); };
  const line = (reason, by) => cli.other(`approvals ${verb} ${seen.operation_id} --epoch ${seen.epoch}${confirms && result.trim() ? ` --result ${quoted(result)}` : ""}${force ? " --force" : ""}`, { reason, by });
  return html`<${Ask} title=${`${FOLLOWS[verb][0]}: ${visible(seen.key)}`} verb=${FOLLOWS[verb][0]} ready=${valid} close=${close} run=${run} line=${line}><p class="outcome">${FOLLOWS[verb][1]} The decision is about epoch ${seen.epoch}.</p>
    ${(seen.cause ?? seen.entity_key) && html`<p class="muted">${visible(seen.cause ?? `${seen.tool ?? "an action"} on ${seen.entity_key}; its process ended without a word`)}</p>`}
    ${confirms ? html`<${Field} id="action-result" label="What the tool answered" hint=${valid ? "as JSON; empty where it is not known" : "not valid JSON"}><${Input} id="action-result" value=${result} on=${setResult} /><//>` : html`<label class="check"><input type="checkbox" checked=${force} onChange=${event => setForce(event.target.checked)} /><span>Also while the former call may still be on its way.</span></label>`}<//>`;
}

/** What the server keeps as an item of attention, to be acknowledged. */
function Items({ kinds, what, empty, mark }) {
  const from = useData(`items ${kinds}`, signal => items(kinds, signal), ["attention", "audit"]);
  const [seen, setSeen] = useState(null);
  const run = async said => { await post(`/v1/attention/${encodeURIComponent(seen.id)}/acknowledge`, said); setSeen(null); from.again(); };
  return html`<${Loaded} from=${from} what=${what}>${list => list.length === 0 ? html`<${Empty}>${empty}<//>` : html`<ul class="items">${list.map(item => html`<li key=${item.id}><${Mark} kind=${mark} /><div><b>${visible(item.text)}</b><span class="sub">${item.kind.replace(/-/g, " ")} · since <${Time} at=${item.since} />${item.about && html` · <${AboutLink} about=${item.about} />`}</span></div>${item.acknowledged ? html`<span class="muted" title=${visible(item.acknowledged.reason)}>seen by ${visible(item.acknowledged.by ?? "somebody")}</span>` : html`<${Act} small on=${() => setSeen(item)}>Acknowledge…<//>`}</li>`)}</ul>`}<//>
    ${seen && html`<${Ask} title="Acknowledge" verb="Acknowledge" close=${() => setSeen(null)} run=${run} line=${(reason, by) => cli.other(`attention acknowledge ${seen.id}`, { reason, by })}><p class="outcome">It stays until its cause has gone, and is not counted any more; the audit keeps who has seen it.</p><//>`}`;
}

const AboutLink = ({ about }) => { const id = typeof about === "string" ? about : about.operation_id ?? about.id ?? ""; return /^op_/.test(id) ? html`<a href=${link(["claims", id])}><code>${id.slice(0, 14)}…</code></a>` : html`<${Foreign} text=${typeof about === "string" ? about : JSON.stringify(about)} />`; };

const ALERTS = seen => [
  { name: "When", of: one => html`<${Time} at=${one.at} />` }, { name: "Tool", of: one => html`<code>${visible([one.connector, one.tool].filter(Boolean).join(" · "))}</code>` }, { name: "Entity", of: one => html`<${Foreign} text=${one.entity_key} most=${36} />` },
  { name: "Rule", of: one => visible(one.rule ?? "by default") }, { name: "Tenant / project", of: one => `${one.tenant} / ${one.project}` }, { name: "Claim", of: one => (one.operation_id ? html`<a href=${link(["claims", one.operation_id])}><${Foreign} text=${one.key ?? one.operation_id} most=${28} /></a>` : "–") },
  { name: "Seen", label: html`<span class="visually-hidden">Seen</span>`, of: one => html`<${Act} small on=${() => seen(one)}>Acknowledge…<//>` },
];

/** Actions that were let through and are raised for people. */
export function Alerts({ place }) {
  const { tenant } = place.query;
  const from = useData(`alerts ${tenant}`, signal => get("/v1/alerts", { tenant, limit: 200 }, signal), ["attention", "audit", "claims"]);
  const [seen, setSeen] = useState(null);
  const run = async said => { await post(`/v1/alerts/${encodeURIComponent(seen.id)}/acknowledge`, said); setSeen(null); from.again(); };
  return html`<${Card} title="Alerts" note="actions that a rule of the gate watches" flush><${Loaded} from=${from} what="The list of alerts">${({ alerts }) => alerts.length === 0 ? html`<${Empty}>No rule has raised an alert.<//>` : html`<${Table} caption="Alerts" columns=${ALERTS(setSeen)} rows=${alerts} id=${one => one.id} />`}<//><//>
    ${seen && html`<${Ask} title="Acknowledge the alert" verb="Acknowledge" close=${() => setSeen(null)} run=${run} line=${(reason, by) => cli.other(`alerts acknowledge ${seen.id}`, { reason, by })}><p class="outcome">It is not listed any more; the audit keeps what you found.</p><//>`}`;
}

/** From the audit, where the server keeps no items. */
export function Late() {
  const from = useData("late", signal => auditPage({ verb: "settle-refused" }, signal), "audit");
  const kind = outcome => (outcome ? `${outcome.kind}${outcome.status ? ` ${outcome.status}` : ""}, ${outcome.bytes} bytes` : "–");
  const columns = [
    { name: "When", of: event => html`<${Time} at=${event.at} exact />` },
    { name: "Claim", of: event => html`<a href=${link(["claims", event.operation_id])}>${event.key ? html`<${Foreign} text=${event.key} />` : html`<code>${event.operation_id}</code>`}</a>` },
    { name: "What came too late", of: event => kind(event.outcome) }, { name: "Epoch", of: event => html`<code>${event.epoch}</code>` }, { name: "Why refused", of: event => html`<span class="reason">${visible(event.reason)}</span>` },
  ];
  const acknowledging = useData("late items", signal => items(["settle-refused"], signal), ["attention", "audit"]);
  return html`<div class="stack"><${Card} title="Late outcomes" note="the true outcome came after an operator had stated another: compare the two" flush><${Loaded} from=${from} what="The audit">${page => page.events.length === 0 ? html`<${Empty}>No late outcome disagrees with what was decided.<//>` : html`<${Table} caption="Late outcomes" columns=${columns} rows=${page.events} id=${eventId} />`}<//><//>
    ${acknowledging.data?.length > 0 && html`<${Card} title="To acknowledge"><${Items} kinds=${["settle-refused"]} what="The list" empty="All are acknowledged." mark="mismatch" /><//>`}</div>`;
}

export function Damaged() {
  const from = useData("damaged", async signal => {
    const [page, more] = await Promise.all([claimsPage({ limit: 1000 }, signal), items(["record-damaged"], signal).catch(() => [])]);
    return [...(page.damaged ?? []), ...more.map(item => ({ id: item.about?.operation_id ?? item.about ?? item.id, error: item.text }))];
  }, "claims");
  return html`<${Card} title="Damaged records" note="what cannot be read stays closed: nothing runs under these keys" footer=${html`What to do: <code>docs/operating/</code> has the page on damage; <code>hapax doctor</code> checks the store.`}><${Loaded} from=${from} what="The list of claims">${list => list.length === 0 ? html`<${Empty}>Every record that was looked at can be read.<//>` : html`<ul class="items">${list.map(one => html`<li key=${one.id}><${Mark} kind="refused" /><div><b class="mono">${visible(one.id)}</b><span class="sub">${visible(one.error)}</span></div></li>`)}</ul>`}<//><//>`;
}

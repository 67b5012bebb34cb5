// The other queues: steps that wait for an approval, alerts of the gate, outcomes that came too late, records that cannot be read.
import { html, useState } from "../html.js";
import { absent, get, post } from "../api.js";
import { claimsPage } from "../data.js";
import { useData } from "../pulse.js";
import { link } from "../route.js";
import { visible } from "../text.js";
import { Mark } from "../icons.js";
import { Act, Age, Card, Empty, Foreign, Loaded, ProblemNote, Table, Time } from "../ui.js";
import { auditPage, eventId } from "./audit.js";
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

export function Approvals({ place }) {
  const { tenant, project } = place.query;
  const from = useData(`approvals ${tenant} ${project}`, signal => waitingSteps({ tenant, project }, signal), "executions");
  const [deciding, setDeciding] = useState(null);
  const columns = [
    { name: "Execution", of: ({ execution }) => html`<a href=${link(["executions", execution.execution_id], { tenant: execution.tenant, project: execution.project })}><code>${visible(execution.execution_id)}</code></a><span class="sub">${visible(execution.agent)} · ${execution.tenant} / ${execution.project}</span>` },
    { name: "Step", of: step => `${step.iteration}.${step.call}` }, { name: "Tool", of: step => html`<code>${visible(step.tool)}</code>` },
    { name: "Why", of: step => (step.doubt ? `in doubt: ${step.doubt}` : "its result was not kept") },
    { name: "Waits since", of: ({ execution }) => html`<${Age} at=${execution.updated_at} />` },
    { name: "Claim", of: step => html`<a href=${link(["claims", step.operation_id])}><code>${step.operation_id.slice(0, 12)}…</code></a>` },
    { name: "Decision", label: html`<span class="visually-hidden">Decision</span>`, of: step => html`<${Act} small on=${() => setDeciding(step)}>Decide…<//>` },
  ];
  return html`<section class="card"><${Loaded} from=${from} what="The list of executions">${steps => steps.length === 0 ? html`<${Empty}>No agent waits for a person.<//>` : html`<${Table} caption="Approvals" columns=${columns} rows=${steps} id=${step => step.operation_id} />`}<//></section>
    ${deciding && html`<${DecideStep} step=${deciding} execution=${deciding.execution} close=${() => setDeciding(null)} done=${() => { setDeciding(null); from.again(); }} />`}`;
}

/** What the server keeps as an item of attention, to be acknowledged. */
function Items({ kinds, what, empty, mark }) {
  const from = useData(`items ${kinds}`, signal => items(kinds, signal), ["audit", "claims"]);
  const [problem, setProblem] = useState(null);
  const acknowledge = async item => { try { await post(`/v1/attention/${encodeURIComponent(item.id)}/acknowledge`, { reason: "seen" }); from.again(); } catch (caught) { setProblem(caught); } };
  return html`${problem && html`<${ProblemNote} problem=${problem} />`}<${Loaded} from=${from} what=${what}>${list => list.length === 0 ? html`<${Empty}>${empty}<//>` : html`<ul class="items">${list.map(item => html`<li key=${item.id}><${Mark} kind=${mark} /><div><b>${visible(item.text)}</b><span class="sub">${item.kind.replace(/-/g, " ")} · since <${Time} at=${item.since} />${item.about && html` · <${AboutLink} about=${item.about} />`}</span></div>${item.acknowledged ? html`<span class="muted" title=${visible(item.acknowledged.reason)}>seen by ${visible(item.acknowledged.by ?? "somebody")}</span>` : html`<${Act} small on=${() => acknowledge(item)}>Acknowledge<//>`}</li>`)}</ul>`}<//>`;
}

const AboutLink = ({ about }) => { const id = typeof about === "string" ? about : about.operation_id ?? about.id ?? ""; return /^op_/.test(id) ? html`<a href=${link(["claims", id])}><code>${id.slice(0, 14)}…</code></a>` : html`<${Foreign} text=${typeof about === "string" ? about : JSON.stringify(about)} />`; };

export const Alerts = () => html`<${Card} title="Alerts" note="actions that a rule of the gate watches"><${Items} kinds=${["alert", "lane-closed"]} what="The list of alerts" empty="No rule has raised an alert." mark="doubt" /><//>`;

/** From the audit, where the server keeps no items. */
export function Late() {
  const from = useData("late", signal => auditPage({ verb: "settle-refused" }, signal), "audit");
  const kind = outcome => (outcome ? `${outcome.kind}${outcome.status ? ` ${outcome.status}` : ""}, ${outcome.bytes} bytes` : "–");
  const columns = [
    { name: "When", of: event => html`<${Time} at=${event.at} exact />` },
    { name: "Claim", of: event => html`<a href=${link(["claims", event.operation_id])}>${event.key ? html`<${Foreign} text=${event.key} />` : html`<code>${event.operation_id}</code>`}</a>` },
    { name: "What came too late", of: event => kind(event.outcome) }, { name: "Epoch", of: event => html`<code>${event.epoch}</code>` }, { name: "Why refused", of: event => html`<span class="reason">${visible(event.reason)}</span>` },
  ];
  const acknowledging = useData("late items", signal => items(["settle-refused", "outcome-set-aside"], signal), "audit");
  return html`<div class="stack"><${Card} title="Late outcomes" note="the true outcome came after an operator had stated another: compare the two" flush><${Loaded} from=${from} what="The audit">${page => page.events.length === 0 ? html`<${Empty}>No late outcome disagrees with what was decided.<//>` : html`<${Table} caption="Late outcomes" columns=${columns} rows=${page.events} id=${eventId} />`}<//><//>
    ${!absent(acknowledging.problem) && html`<${Card} title="To acknowledge"><${Items} kinds=${["settle-refused", "outcome-set-aside"]} what="The list" empty="All are acknowledged." mark="mismatch" /><//>`}</div>`;
}

export function Damaged() {
  const from = useData("damaged", async signal => {
    const [page, more] = await Promise.all([claimsPage({ limit: 1000 }, signal), items(["record-damaged", "execution-corrupted"], signal).catch(() => [])]);
    return [...(page.damaged ?? []), ...more.map(item => ({ id: item.about?.operation_id ?? item.about ?? item.id, error: item.text }))];
  }, "claims");
  return html`<${Card} title="Damaged records" note="what cannot be read stays closed: nothing runs under these keys" footer=${html`What to do: <code>docs/operating/</code> has the page on damage; <code>hapax doctor</code> checks the store.`}><${Loaded} from=${from} what="The list of claims">${list => list.length === 0 ? html`<${Empty}>Every record that was looked at can be read.<//>` : html`<ul class="items">${list.map(one => html`<li key=${one.id}><${Mark} kind="refused" /><div><b class="mono">${visible(one.id)}</b><span class="sub">${visible(one.error)}</span></div></li>`)}</ul>`}<//><//>`;
}

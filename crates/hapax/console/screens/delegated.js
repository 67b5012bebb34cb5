// Calls whose claims a cluster keeps: what the engine tells of them, and forgetting or ending one.
import { html, useState } from "../html.js";
import { get, post } from "../api.js";
import { useData } from "../pulse.js";
import { refine } from "../route.js";
import { cli } from "../data.js";
import { visible } from "../text.js";
import { Act, Code, Condition, Copy, Empty, Foreign, Head, Loaded, Table, Time } from "../ui.js";
import { Ask } from "./decision.js";

const WHAT = { purge: ["Purge", "The call is forgotten: the next request with its key runs."], kill: ["Kill", "The call ends where it is, and is forgotten. Nothing that it did is undone, and no compensation runs."] };

export function Delegated({ place }) {
  const { tenant, project, subject, status, upstream } = place.query;
  const from = useData(`delegated ${JSON.stringify(place.query)}`, signal => (tenant ? get("/v1/delegated", { tenant, project, subject, status, upstream, limit: 200 }, signal) : Promise.resolve({ calls: [], next: null })), "claims");
  const [asking, setAsking] = useState(null);
  const run = async said => { const { call, verb } = asking; const part = value => (value === "_any" ? undefined : value); await post(`/v1/delegated/${encodeURIComponent(call.invocation_id)}/${verb}`, { tenant: call.tenant, project: part(call.project), subject: part(call.subject), upstream: call.upstream, ...said }); setAsking(null); from.again(); };
  const columns = [
    { name: "Status", of: call => html`<span class="tag">${visible(call.status)}</span>${call.result ? ` ${call.result}` : ""}` }, { name: "Key", of: call => html`<${Foreign} text=${call.key} most=${36} />` }, { name: "Handler", of: call => html`<code>${visible([call.service, call.object, call.handler].filter(Boolean).join(" / "))}</code>` }, { name: "Subject", of: call => html`<${Foreign} text=${call.subject} most=${32} />` },
    { name: "Accepted", of: call => html`<${Time} at=${call.created_at} />` }, { name: "Ended", of: call => html`<${Time} at=${call.completed_at} />` }, { name: "Failure", of: call => html`<span class="reason">${visible(call.failure ?? "–")}</span>` }, { name: "Invocation", of: call => html`<${Code}>${call.invocation_id.slice(0, 14)}…<//> <${Copy} text=${call.invocation_id} what="the invocation id" />` },
    { name: "Decision", label: html`<span class="visually-hidden">Decision</span>`, of: call => html`<div class="row">${call.completed_at ? html`<${Act} small on=${() => setAsking({ call, verb: "purge" })}>Purge…<//>` : html`<${Act} small kind="danger" on=${() => setAsking({ call, verb: "kill" })}>Kill…<//>`}</div>` },
  ];
  return html`<div class="crumbs"><a href="#/claims">Claims</a></div><${Head} title="Calls kept by a cluster" note="Operations that a cluster runs and remembers itself; this is what it tells." />
    <div class="filters">${[["tenant", tenant], ["project", project], ["subject", subject], ["status", status], ["upstream", upstream]].map(([name, value]) => html`<${Condition} key=${name} id=${`f-${name}`} label=${name} value=${value} on=${text => refine({ [name]: text })} />`)}</div>
    <section class="card"><${Loaded} from=${from} what="The list of delegated calls">${({ calls }) => (calls.length === 0 ? html`<${Empty}>${tenant ? "No such call." : "Name a tenant: calls are told by tenant."}<//>` : html`<${Table} caption="Delegated calls" columns=${columns} rows=${calls} id=${call => call.invocation_id} />`)}<//></section>
    ${asking && html`<${Ask} title=${`${WHAT[asking.verb][0]} ${visible(asking.call.key)}`} verb=${`${WHAT[asking.verb][0]} ${visible(asking.call.key)}`} danger name=${asking.call.key} close=${() => setAsking(null)} run=${run} line=${(reason, by) => cli.other(`delegated ${asking.verb} ${asking.call.invocation_id} --tenant ${asking.call.tenant}`, { reason, by })}><p class="outcome">${WHAT[asking.verb][1]}</p><//>`}`;
}

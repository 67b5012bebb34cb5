// One execution: its chain of events, the steps that wait, and pausing, resuming, cancelling, verifying, exporting.
import { html, useRef, useState } from "../html.js";
import { get, mayOperate, post, getExact } from "../api.js";
import { useData } from "../pulse.js";
import { cli } from "../data.js";
import { link } from "../route.js";
import { save } from "../export.js";
import { useStore } from "../store.js";
import { count, shorter, visible } from "../text.js";
import { stamp } from "../time.js";
import { Act, Card, Code, Copy, Empty, Facts, Head, Loaded, Note, Table, Time } from "../ui.js";
import { JsonText } from "./answer.js";
import { Ask } from "./decision.js";
import { Status } from "./executions.js";
import { DecideStep } from "./step.js";
import { Verified, useVerify } from "./verify.js";

const base = one => `/v1/executions/${encodeURIComponent(one.execution_id)}`;
const PAGE = 100;

export function Execution({ id, place }) {
  const { tenant, project } = place.query;
  const from = useData(`${id} ${tenant} ${project}`, signal => (tenant && project ? get(`/v1/executions/${encodeURIComponent(id)}`, { tenant, project }, signal) : found(id, signal)), "executions");
  if (from.problem?.status === 404) return html`<${Head} title="No such execution" /><${Note}>${visible(from.problem.detail)}<//>`;
  return html`<${Loaded} from=${from} what="The execution" rows=${8}>${one => html`<${Page} one=${one} again=${from.again} />`}<//>`;
}

/** An id counts within its tenant and project: without them it is looked for. */
async function found(id, signal) {
  let after;
  do {
    const page = await get("/v1/executions", { limit: 1000, after }, signal);
    const one = page.executions.find(execution => execution.execution_id === id);
    if (one) return one;
    after = page.next;
  } while (after);
  throw Object.assign(new Error("no such execution"), { status: 404, title: "No such execution", detail: "no execution has this id in any tenant and project", code: "" });
}

const WHAT = {
  pause: ["Pause", "The runner is fenced off, and the execution waits until it is resumed. What was begun may still come to its end."], resume: ["Resume", "It is given to the next process that looks for executions without a runner. This server runs none itself."],
  cancel: ["Cancel", "The execution ends: it has failed. What was begun may still come to its end, and nothing is undone."], archive: ["Archive", "The claims of its steps are let go. Its journal stays, and its id stays used up."],
};
const FITS = { RUNNING: ["pause", "cancel"], PAUSED: ["resume", "cancel"], RECOVERING: ["pause", "cancel"], COMPLETED: ["archive"], FAILED: ["archive"] };

function Waiting({ one, again }) {
  const scope = { tenant: one.tenant, project: one.project };
  const from = useData(`waiting ${one.execution_id} ${one.version}`, signal => get(`${base(one)}/waiting`, scope, signal), null);
  const [deciding, setDeciding] = useState(null);
  if (!from.data?.waiting.length) return null;
  return html`${from.data.waiting.map(step => html`<${Note} key=${step.operation_id} kind="doubt" actions=${html`<${Act} small on=${() => setDeciding(step)}>Decide…<//>`}><b>${visible(step.tool)}</b> of step ${step.iteration}.${step.call} waits for you: ${step.doubt ? `in doubt (${step.doubt})` : "its result was not kept"}. <a href=${link(["claims", step.operation_id])}>Its claim</a><//>`)}
    ${deciding && html`<${DecideStep} step=${deciding} execution=${one} close=${() => setDeciding(null)} done=${() => { setDeciding(null); again(); from.again(); }} />`}`;
}

const field = (payload, name) => { const value = payload && typeof payload === "object" ? payload[name] : undefined; return value === undefined || (value !== null && typeof value === "object") ? null : String(value); };

function Payload({ event }) {
  const [open, setOpen] = useState(false);
  if (event.erased) return html`<span class="muted">erased</span>`;
  if (event.payload === undefined) return html`<span class="muted">–</span>`;
  const what = ["tool", "status", "reason", "error"].map(name => field(event.payload, name)).filter(Boolean).join(" · ");
  return html`${what && html`<span>${visible(shorter(what, 60))} </span>`}${event.operation_id && html`<a href=${link(["claims", event.operation_id])}>claim</a> `}<button class="btn quiet small" type="button" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "Hide" : "Payload"}</button>${open && html`<${JsonText} text=${JSON.stringify(event.payload)} label=${`Payload of ${event.seq}`} />`}`;
}

function Events({ one, broken }) {
  const operate = useStore(state => mayOperate(state.me));
  const [from, setFrom] = useState(null);
  const start = from ?? Math.max(0, one.events - PAGE);
  const data = useData(`events ${one.execution_id} ${start} ${one.version}`, signal => getExact(`${base(one)}/events`, { tenant: one.tenant, project: one.project, from: start, limit: PAGE, payloads: operate || undefined }, signal), null);
  const columns = [
    { name: "#", num: true, of: event => (broken?.position === event.seq ? html`<b class="c-refused">✗ ${event.seq}</b>` : event.seq) }, { name: "When", of: event => html`<${Time} at=${event.at} exact />` }, { name: "Type", of: event => html`<code>${visible(event.type)}</code>` }, { name: "What", of: event => html`<${Payload} event=${event} />` }, { name: "Hash", of: event => html`<code class="muted">${event.hash.slice(0, 10)}…</code> <${Copy} text=${event.hash} what="the hash" />` },
  ];
  return html`<${Card} title="Events" note=${`${count(one.events)} in all, newest first`} flush footer=${html`<button class="btn small" type="button" disabled=${start === 0} onClick=${() => setFrom(Math.max(0, start - PAGE))}>Older</button><button class="btn small" type="button" disabled=${start + PAGE >= one.events} onClick=${() => setFrom(Math.min(one.events - 1, start + PAGE))}>Newer</button>`}><${Loaded} from=${data} what="The list of events">${({ events }) => (events.length === 0 ? html`<${Empty}>No events.<//>` : html`<${Table} caption="Events" columns=${columns} rows=${[...events].reverse()} id=${event => event.seq} />`)}<//><//>`;
}

function useExport(one) {
  const [running, set] = useState(null);
  const stop = useRef(false);
  const run = async () => {
    const lines = [];
    let from = 0;
    stop.current = false;
    try {
      do { const page = await getExact(`${base(one)}/events`, { tenant: one.tenant, project: one.project, from, limit: 256, payloads: true }); lines.push(...page.events.map(event => JSON.stringify(event))); from = page.next; set(lines.length); } while (from !== null && !stop.current);
      save(`hapax_execution_${one.execution_id}_${stamp()}${from === null ? "" : "_incomplete"}.jsonl`, "application/jsonl", lines.join("\n") + "\n");
    } finally { set(null); }
  };
  return { running, run, stop: () => { stop.current = true; } };
}

function Page({ one, again }) {
  const [asking, setAsking] = useState(null);
  const scope = { tenant: one.tenant, project: one.project };
  const verify = useVerify(from => get(`${base(one)}/verify`, { ...scope, from, limit: 256 }), one.events);
  const out = useExport(one);
  const order = async said => { await post(`${base(one)}/${asking.verb}`, { ...scope, version: asking.version, ...said }); setAsking(null); again(); };
  const corrupted = verify.broken;
  const line = (reason, by) => cli.other(`executions ${asking.verb} ${one.execution_id} --tenant ${one.tenant} --project ${one.project}`, { reason, by });
  return html`<div class="crumbs"><a href="#/executions">Executions</a><span>/</span><a href=${link(["executions"], { tenant: one.tenant })}>${one.tenant}</a></div>
    <${Head} title=${`Execution ${visible(one.execution_id)}`} actions=${html`<button class="btn" type="button" onClick=${verify.running ? verify.stop : verify.start}>${verify.running ? "Stop" : "Verify"}</button><${Act} on=${out.running === null ? out.run : out.stop}>${out.running === null ? "Export" : `Stop (${out.running})`}<//>${!corrupted && (FITS[one.status] ?? []).map(verb => html`<${Act} key=${verb} kind=${verb === "cancel" ? "danger" : ""} on=${() => setAsking({ verb, version: one.version })}>${WHAT[verb][0]}…<//>`)}`}><div class="claim-head"><${Status} status=${one.status} big /><h1 class="key">${visible(one.execution_id)}</h1><${Copy} text=${one.execution_id} what="the id" /></div><//>
    <div class="stack"><${Verified} what="events" of=${verify} /><${Waiting} one=${one} again=${again} />
    <div class="cols two"><${Events} one=${one} broken=${verify.broken} /><${Card} title="Execution"><${Facts} rows=${[["agent", visible(one.agent)], ["tenant / project", `${one.tenant} / ${one.project}`], one.subject && ["subject", html`<${Code}>${visible(one.subject)}<//>`], ["version", count(one.version)], ["runner", !["RUNNING", "RECOVERING"].includes(one.status) ? "none: it does not run" : one.runs ? "at work: its lease lasts" : "none, or it has gone"], ["events", count(one.events)], ["made", html`<${Time} at=${one.created_at} zone />`], ["last written", html`<${Time} at=${one.updated_at} zone />`]]} /><//></div></div>
    ${asking && html`<${Ask} title=${`${WHAT[asking.verb][0]} ${visible(one.execution_id)}`} verb=${`${WHAT[asking.verb][0]} ${visible(one.execution_id)}`} danger=${asking.verb === "cancel"} name=${one.execution_id} close=${() => setAsking(null)} run=${order} line=${line}><p class="outcome">${WHAT[asking.verb][1]} The order is about version ${asking.version}, as you see it.</p><//>`}`;
}

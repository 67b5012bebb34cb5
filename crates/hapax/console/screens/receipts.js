// Receipts of agents' actions: the chain of a tenant, verified, compared with a head noted earlier, exported; and the lanes.
import { html, useRef, useState } from "../html.js";
import { absent, get } from "../api.js";
import { useData } from "../pulse.js";
import { link, refine } from "../route.js";
import { gather, save } from "../export.js";
import { count, visible } from "../text.js";
import { now, stamp } from "../time.js";
import { Badge, Condition, Copy, Empty, Foreign, Head, Input, Loaded, NotHere, Table, Time } from "../ui.js";
import { Verified, useVerify } from "./verify.js";

const DECISIONS = { ALLOW: "settled", DEDUP: "released", BLOCK: "refused", ALERT: "doubt" };
const COLUMNS = [
  { name: "#", num: true, of: one => count(one.seq) }, { name: "When", of: one => html`<${Time} at=${one.at} />` }, { name: "Decision", of: one => html`<${Badge} kind=${DECISIONS[one.decision] ?? "seen"}>${one.decision}<//>` }, { name: "Tool", of: one => html`<code>${visible([one.connector, one.tool].filter(Boolean).join(" · "))}</code>${one.args ? html`<span class="sub"><${Foreign} text=${JSON.stringify(one.args)} most=${40} /></span>` : ""}` },
  { name: "Entity", of: one => html`<${Foreign} text=${one.entity_key ?? "–"} most=${36} />` }, { name: "Key", of: one => html`<${Foreign} text=${one.key ?? "–"} most=${32} />` }, { name: "Came of it", of: one => (one.ok ? "ok" : html`<span title=${visible(one.error)}>${visible(one.code ?? "failed")}</span>`) }, { name: "Why", of: one => (one.rule ? `rule ${visible(one.rule)}` : one.by ? html`<span class="reason">${visible(one.by)}: ${visible(one.reason)}</span>` : "–") },
  { name: "Claim", of: one => (one.operation_id ? html`<a href=${link(["claims", one.operation_id])}><code>${one.operation_id.slice(0, 12)}…</code></a>` : "–") }, { name: "Hash", of: one => (one.hash ? html`<code class="muted">${one.hash.slice(0, 8)}…</code> <${Copy} text=${one.hash} what="the hash" />` : "") },
];
const Nav = ({ at }) => html`<nav class="tabs" aria-label="Actions"><a href="#/receipts" aria-current=${at === "receipts" ? "page" : undefined}>Receipts</a><a href="#/lanes" aria-current=${at === "lanes" ? "page" : undefined}>Lanes</a></nav>`;

export function Receipts({ place }) {
  const tenant = place.parts[1] ?? place.query.tenant;
  const shelves = useData("shelves of receipts", signal => get("/v1/shelves", { limit: 1000 }, signal).catch(() => ({ shelves: [] })), null);
  const tenants = [...new Set((shelves.data?.shelves ?? []).map(shelf => shelf.tenant))].sort();
  if (!tenant) return html`<${Head} title="Receipts" note="What agents did, as a chain for each tenant." /><${Nav} at="receipts" /><section class="card"><${Empty}>A chain belongs to a tenant: ${tenants.length ? tenants.map(one => html`<a key=${one} class="chip" href=${link(["receipts", one])}>${one}</a> `) : "choose one above."}<//></section>`;
  return html`<${Chain} key=${tenant} tenant=${tenant} query=${place.query} />`;
}

/** A head that was noted elsewhere: of equal length it must be the same; of a shorter one the receipt there must have it. */
function Compare({ tenant, head }) {
  const [length, setLength] = useState(""), [hash, setHash] = useState(""), [told, setTold] = useState(null);
  const compare = async event => {
    event.preventDefault();
    const noted = Number(length);
    if (noted > head.receipts) { setTold([false, `The chain has only ${count(head.receipts)} receipts: some are missing.`]); return; }
    let here = noted === head.receipts ? head.hash : null;
    if (here === null) { const page = await get("/v1/receipts", { tenant, after: noted, limit: 2 }).catch(() => ({ receipts: [] })); here = page.receipts.find(one => one.seq === noted - 1)?.hash ?? null; }
    setTold(here === null ? [null, "The receipt at that length cannot be read: verify the chain with the noted head by `hapax verify`."] : here === hash.trim() ? [true, "The noted head is an ancestor of this chain: nothing before it was changed."] : [false, "The hash differs: what was noted is not a part of this chain."]);
  };
  return html`<form class="row" onSubmit=${compare}><span class="muted">compare with a head noted earlier:</span><${Input} id="n-length" aria-label="Length" placeholder="length" size="8" value=${length} on=${setLength} /><${Input} id="n-hash" aria-label="Hash" placeholder="hash" size="24" value=${hash} on=${setHash} /><button class="btn small" type="submit" disabled=${!length || !hash}>Compare</button>${told && html`<span role="status" class=${told[0] ? "c-settled" : "c-refused"}>${told[1]}</span>`}</form>`;
}

function Chain({ tenant, query }) {
  const { entity, decision, key } = query;
  const head = useData(`head ${tenant}`, signal => get(`/v1/receipts/${encodeURIComponent(tenant)}/head`, {}, signal), "executions");
  const from = useData(`receipts ${tenant} ${entity} ${decision} ${key}`, signal => get("/v1/receipts", { tenant, entity, decision, key, limit: 200 }, signal), "executions");
  const verify = useVerify(at => get(`/v1/receipts/${encodeURIComponent(tenant)}/verify`, { from: at, limit: 256 }), head.data?.receipts ?? 0);
  const [running, setRunning] = useState(null), stop = useRef(false);
  const out = async () => { stop.current = false; const got = await gather(async after => { const page = await get("/v1/receipts", { tenant, limit: 1000, after }); return { rows: page.receipts, next: page.next }; }, { most: 1e6, onProgress: setRunning, stopped: () => stop.current }); save(`hapax_receipts_${tenant}_${stamp()}${got.complete ? "" : "_incomplete"}.jsonl`, "application/jsonl", got.rows.map(row => JSON.stringify(row)).join("\n") + "\n"); setRunning(null); };
  const note = head.data && html`${count(head.data.receipts)} · head <code>${head.data.hash?.slice(0, 12)}…</code> <${Copy} text=${`${head.data.receipts} ${head.data.hash}`} what="the head" /> at <${Time} at=${new Date(now()).toISOString()} />`;
  return html`<${Head} title=${`Receipts of ${visible(tenant)}`} note=${note} actions=${!absent(from.problem) && html`<button class="btn" type="button" onClick=${verify.running ? verify.stop : verify.start}>${verify.running ? "Stop" : "Verify"}</button><button class="btn" type="button" onClick=${running === null ? out : () => { stop.current = true; }}>${running === null ? "Export JSON lines" : `Stop (${running})`}</button>`} /><${Nav} at="receipts" />
    <div class="stack">${!absent(from.problem) && html`<div class="filters"><${Condition} id="f-entity" label="entity" value=${entity} on=${value => refine({ entity: value })} /><${Condition} id="f-key" label="key" value=${key} on=${value => refine({ key: value })} /><${Condition} id="f-decision" label="decision" value=${decision} on=${value => refine({ decision: value.toUpperCase() })} /></div>`}
    ${head.data && html`<${Compare} tenant=${tenant} head=${head.data} />`}<${Verified} what="receipts" of=${verify} />
    <section class="card"><${Loaded} from=${from} what="The list of receipts">${({ receipts }) => (receipts.length === 0 ? html`<${Empty}>No action has left a receipt.<//>` : html`<${Table} caption="Receipts" columns=${COLUMNS} rows=${receipts} id=${one => one.seq} />`)}<//></section></div>`;
}

const LANES = [
  { name: "Entity", of: one => html`<${Foreign} text=${one.entity_key ?? one.entity} />` }, { name: "Tenant / project", of: one => [one.tenant, one.project].filter(Boolean).join(" / ") }, { name: "Served", of: one => (one.served ? html`${one.served.claim ? html`<a href=${link(["claims", one.served.claim.operation_id])}><${Foreign} text=${one.served.claim.key} most=${28} /></a>` : "an action"}${one.served.begun ? "" : ", not begun"}<span class="sub">until <${Time} at=${one.served.until} /></span>` : html`<span class="muted">none</span>`) }, { name: "Wait", num: true, of: one => count(one.waiting ?? 0) },
  { name: "State", of: one => (one.closed_by ? html`<${Badge} kind="doubt">closed<//> by <a href=${link(["claims", one.closed_by.operation_id])}><${Foreign} text=${one.closed_by.key} most=${28} /></a>` : html`<${Badge} kind="settled">open<//>`) },
  { name: "Lately", of: one => html`<span class="reason">${one.recent.map(({ tool, count: times }) => `${visible(tool)} ${times}×`).join(", ") || "–"}</span>` },
];

export function Lanes() {
  const from = useData("lanes", signal => get("/v1/lanes", { limit: 1000 }, signal), "executions");
  return html`<${Head} title="Lanes" note="One action at a time for each entity. A doubt closes the lane; it opens when the claim that closes it is resolved." /><${Nav} at="lanes" /><section class="card">${absent(from.problem) ? html`<${NotHere} what="The list of lanes" />` : html`<${Loaded} from=${from} what="The list of lanes">${({ lanes }) => (lanes.length === 0 ? html`<${Empty}>Nothing waits, runs or is closed.<//>` : html`<${Table} caption="Lanes" columns=${LANES} rows=${lanes} id=${one => `${one.tenant} ${one.project} ${one.entity_key}`} />`)}<//>`}</section>`;
}

// One webhook: its deliveries, what was refused before a claim, its secrets; why a delivery was not processed.
import { html, useState } from "../html.js";
import { call, get, post } from "../api.js";
import { useData } from "../pulse.js";
import { cli } from "../data.js";
import { link, refine } from "../route.js";
import { count, plural, visible } from "../text.js";
import { Exports } from "../exports.js";
import { Act, Badge, Card, Code, Condition, Copy, Empty, Facts, Field, Foreign, Head, Input, Loaded, Note, Select, State, Table, Time } from "../ui.js";
import { STATES } from "../words.js";
import { Ask } from "./decision.js";
import { Secret } from "./webhooks.js";

const base = id => `/v1/webhooks/${encodeURIComponent(id)}`;

export function Webhook({ id, place }) {
  const from = useData(id, signal => get(base(id), {}, signal), "webhooks");
  if (from.problem?.status === 404) return html`<${Head} title="No such webhook" /><${Note}>${visible(from.problem.detail)}<//>`;
  return html`<${Loaded} from=${from} what="The webhook">${one => html`<${Page} one=${one} query=${place.query} again=${from.again} />`}<//>`;
}

const COLUMNS = [
  { name: "Came", of: one => html`<${Time} at=${one.opened_at} />` }, { name: "Delivery", of: one => html`<a href=${link(["claims", one.operation_id])}><${Foreign} text=${one.key} most=${44} /></a>` }, { name: "State", of: one => html`<${State} state=${one.state} />` },
  { name: "Answered", num: true, of: one => one.status ?? one.outcome?.status ?? "–" }, { name: "Outcome", of: one => (one.outcome ? `${one.outcome.kind.replace("_", " ")}` : one.doubt ? `in doubt: ${one.doubt.reason}` : "–") },
];
const CSV = ["operation_id", "key", "state", "epoch", "opened_at", "status"].map(name => [name, one => one[name]]);

function Deliveries({ one, query, reopen }) {
  const { identifier = "", state = "" } = query;
  const from = useData(`deliveries ${one.webhook_id} ${identifier} ${state}`, signal => get(`${base(one.webhook_id)}/deliveries`, { identifier, state, limit: 100 }, signal), "claims");
  const page = async after => { const got = await get(`${base(one.webhook_id)}/deliveries`, { identifier, state, limit: 1000, after }); return { rows: got.deliveries, next: got.next }; };
  return html`<${Card} title="Deliveries" note="each is a claim, newest first" flush actions=${html`<${Exports} screen="deliveries" filter=${{ identifier, state }} columns=${CSV} page=${page} /><${Act} on=${reopen}>Reopen refused…<//>`}>
    <div class="body filters"><${Condition} id="f-identifier" label="the sender's id, such as evt_1P…" size=${28} value=${identifier} on=${value => refine({ identifier: value })} /><${Select} id="f-state" label="State" value=${state} on=${value => refine({ state: value })} options=${[["", "any state"], ...Object.entries(STATES).map(([name, [word]]) => [name, word])]} /></div>
    <${Loaded} from=${from} what="The list of deliveries">${({ deliveries, next }) => (deliveries.length === 0 ? html`<${Empty}>${identifier ? html`It never came, or was refused before a claim: see what was refused below. (<code>${visible(identifier)}</code>)` : "Nothing has come yet."}<//>` : html`<${Table} caption="Deliveries" columns=${COLUMNS} rows=${deliveries} id=${delivery => delivery.operation_id} />${next ? html`<footer class="body muted">The newest ${count(deliveries.length)}; name the sender's id to find an older one.</footer>` : ""}`)}<//><//>`;
}

function Refusals({ one }) {
  return html`<${Card} title="Refused before a claim" note="at this instance, since it started" flush>${one.refusals.length === 0 ? html`<${Empty}>Nothing was refused.<//>` : html`<div class="body chips">${one.refused.map(group => html`<span class="tag" key=${group.cause}>${group.cause} ${count(group.count)}</span>`)}</div><${Table} caption="Refused deliveries" columns=${[{ name: "When", of: refusal => html`<${Time} at=${refusal.at} />` }, { name: "Told the sender", of: refusal => html`<code>${visible(refusal.cause)}</code>` }, { name: "Why", of: refusal => html`<span class="reason">${visible(refusal.why)}</span>` }]} rows=${one.refusals} id=${refusal => `${refusal.at} ${refusal.why}`} />`}<//>`;
}

function Rotate({ one, close, done }) {
  const [made, setMade] = useState(null), [secret, setSecret] = useState(""), [drop, setDrop] = useState(false);
  if (made) return html`<${Secret} title="The new secret, shown once" secret=${made.secret} close=${close} />`;
  const flags = `${secret ? " --secret-stdin" : ""}${drop ? " --drop-former" : ""}`;
  const run = async said => { const answer = await post(`${base(one.webhook_id)}/rotate`, { ...said, drop_former: drop, secret: secret || undefined }); done(); if (answer.secret) setMade(answer); else close(); };
  return html`<${Ask} title="Rotate the secret" verb="Rotate the secret" close=${close} run=${run} line=${reason => cli.other(`webhooks rotate ${one.webhook_id}${flags}`, { reason })}><${Field} id="new-secret" label="New secret" hint=${drop ? "empty: the newest one stays" : "empty: one is made and told once"}><${Input} id="new-secret" type="password" value=${secret} on=${setSecret} /><//><label class="check"><input type="checkbox" checked=${drop} onChange=${event => setDrop(event.target.checked)} /><span>All secrets but the newest stop counting at once. Otherwise the former ones count beside the new one.</span></label><//>`;
}

function Reopen({ one, close, done }) {
  const [since, setSince] = useState("2h"), [status, setStatus] = useState(""), [told, setTold] = useState(null);
  const run = async said => {
    let after, reopened = 0, gone = 0;
    do { const page = await post(`${base(one.webhook_id)}/reopen`, { ...said, since, status: status ? Number(status) : undefined, after }); reopened += page.reopened; gone += page.left; after = page.next ?? undefined; setTold(`${count(reopened)} reopened`); } while (after);
    done(); setTold(`${plural(reopened, "answer was", "answers were")} set aside; ${count(gone)} changed meanwhile.`);
  };
  return html`<${Ask} title="Reopen refused deliveries" verb="Reopen them" close=${close} run=${run} line=${reason => cli.other(`webhooks reopen ${one.webhook_id} --since ${since}${status ? ` --status ${status}` : ""}`, { reason })}><p class="outcome">Kept refusals are set aside: the sender's next try of each runs. hapax does not call by itself.</p><div class="row align-top"><${Field} id="re-since" label="Settled since" hint="2h, or a time"><${Input} id="re-since" value=${since} on=${setSince} /><//><${Field} id="re-status" label="Status" hint="empty: all of 4xx"><${Input} id="re-status" value=${status} on=${setStatus} size="6" /><//></div>${told && html`<p role="status"><b>${told}</b></p>`}<//>`;
}

function Page({ one, query, again }) {
  const [what, setWhat] = useState(null);
  const close = () => setWhat(null), done = () => again();
  const revoke = async said => { await call("DELETE", base(one.webhook_id), { query: said }); close(); again(); };
  const { deliveries } = one;
  return html`<div class="crumbs"><a href="#/webhooks">Webhooks</a></div><${Head} title=${`${visible(one.provider)}${one.label ? ` · ${visible(one.label)}` : ""}`} note=${html`<${Code}>${one.webhook_id}<//> <${Copy} text=${one.webhook_id} what="the id" />`} actions=${!one.revoked_at && html`<${Act} on=${() => setWhat("rotate")}>Rotate secret…<//><${Act} kind="danger" on=${() => setWhat("revoke")}>Revoke…<//>`} />
    <div class="stack">${one.revoked_at && html`<${Note} kind="doubt"><b>Revoked</b> <${Time} at=${one.revoked_at} />: its path is a 404.<//>`}
    <div class="cols two"><div class="stack"><${Deliveries} one=${one} query=${query} reopen=${() => setWhat("reopen")} /><${Refusals} one=${one} /></div>
    <${Card} title="Webhook"><${Facts} rows=${[["from", visible(one.provider)], ["tenant / project", `${one.tenant} / ${one.project}`], ["path", html`<code>${visible(one.path)}</code> <${Copy} text=${one.path} what="the path" />`], ["operation", html`<a href=${link(["claims"], { operation: one.operation })}><code>${visible(one.operation)}</code></a>`], ["same when", one.dedupe === "content" ? "what is signed is the same" : "the sender's identifier is the same"], ["secrets", `${one.secrets}, from ${one.secrets_from}`], ["kept for", one.retention], ["made", html`<${Time} at=${one.created_at} />`], ["deliveries kept", html`${count(deliveries.settled)} settled · ${count(deliveries.held)} held · ${deliveries.in_doubt ? html`<${Badge} kind="doubt">${count(deliveries.in_doubt)} in doubt<//>` : "0 in doubt"} · ${count(deliveries.released)} released`], one.content_repeated > 0 && ["content again", `${plural(one.content_repeated, "time")} under another identifier`]]} /><//></div></div>
    ${what === "rotate" && html`<${Rotate} one=${one} close=${close} done=${done} />`}${what === "reopen" && html`<${Reopen} one=${one} close=${close} done=${done} />`}
    ${what === "revoke" && html`<${Ask} title="Revoke the webhook" verb=${`Revoke ${visible(one.provider)}`} danger name=${one.provider} close=${close} run=${revoke} line=${reason => cli.other(`webhooks revoke ${one.webhook_id}`, { reason })}><p class="outcome">Its path is a 404 at once here, and within seconds at every other instance. What was delivered stays.</p><//>`}`;
}

// API keys: made (and told once), listed, revoked. What a key holds beyond its id never leaves the browser's field.
import { html, useState } from "../html.js";
import { call, get, post } from "../api.js";
import { useData } from "../pulse.js";
import { refine } from "../route.js";
import { quoted, visible } from "../text.js";
import { cli } from "../data.js";
import { useStore } from "../store.js";
import { keyId } from "../search.js";
import { Exports } from "../exports.js";
import { Act, Cli, Code, Copy, Dialog, Empty, Field, Foreign, Head, Input, Loaded, Note, ProblemNote, Select, Table, Time } from "../ui.js";
import { Ask } from "./decision.js";

const CSV = ["id", "tenant", "project", "subject", "level", "label", "created_at", "expires_at"].map(name => [name, key => key[name]]);

async function all(signal) {
  const keys = [];
  let after;
  do { const page = await get("/v1/keys", { limit: 1000, after }, signal); keys.push(...page.keys); after = page.next; } while (after && keys.length < 5000);
  return { keys, more: Boolean(after) };
}

/** The field to find a key by: what follows the id is cut off as it is pasted. */
const Find = ({ id }) => html`<${Input} id="f-id" aria-label="Find by id or key" placeholder="find: id or key" size="26" value=${id} on=${text => refine({ id: /^hpx_/.test(text.trim()) ? keyId(text.trim()) : text.trim() })} />`;

export function Keys({ place }) {
  const { id = "", tenant = "" } = place.query;
  const from = useData("keys", all, "keys");
  const [making, setMaking] = useState(false), [revoking, setRevoking] = useState(null);
  const columns = [
    { name: "Id", of: key => html`<${Code}>${key.id}<//> <${Copy} text=${key.id} what="the id" />` }, { name: "Tenant / project", of: key => `${key.tenant} / ${key.project ?? "–"}` }, { name: "Acts as", of: key => html`<${Foreign} text=${key.subject} />` },
    { name: "Level", of: key => key.level }, { name: "Label", of: key => html`<bdi>${visible(key.label ?? "–")}</bdi>` }, { name: "Made", of: key => html`<${Time} at=${key.created_at} short />` }, { name: "Expires", of: key => (key.expires_at ? html`<${Time} at=${key.expires_at} short />` : "when revoked") },
    { name: "Revoke", label: html`<span class="visually-hidden">Revoke</span>`, of: key => html`<${Act} small kind="danger" aria-label=${`Revoke ${key.id}`} on=${() => setRevoking(key)}>Revoke…<//>` },
  ];
  const revoke = async ({ reason, by }) => { await call("DELETE", `/v1/keys/${revoking.id}`, { query: useReason ? { reason, by } : {} }).catch(async problem => { if (problem.status !== 400) throw problem; useReason = false; await call("DELETE", `/v1/keys/${revoking.id}`); }); setRevoking(null); from.again(); };
  return html`<${Head} title="API keys" note="Who may call the edge with a key of hapax." actions=${html`<${Exports} screen="keys" filter=${{ tenant }} columns=${CSV} page=${async after => { const page = await get("/v1/keys", { limit: 1000, after }); return { rows: page.keys, next: page.next }; }} /><${Act} kind="primary" on=${() => setMaking(true)}>Create…<//>`} />
    <div class="filters"><${Find} id=${id} /></div>
    <section class="card"><${Loaded} from=${from} what="The list of keys">${({ keys }) => { const rows = keys.filter(key => (!id || key.id.startsWith(id)) && (!tenant || key.tenant === tenant)); return rows.length === 0 ? html`<${Empty}>${id ? "No such key: it was never made, or is revoked." : "No keys yet."}<//>` : html`<${Table} caption="API keys" columns=${columns} rows=${rows} id=${key => key.id} />`; }}<//></section>
    ${making && html`<${Create} close=${() => setMaking(false)} done=${from.again} />`}
    ${revoking && html`<${Ask} title=${`Revoke ${revoking.id}`} verb=${`Revoke ${revoking.id}`} danger name=${revoking.id} close=${() => setRevoking(null)} run=${revoke} line=${() => cli.other(`keys revoke ${revoking.id}`)}><p class="outcome">Requests with this key get 401, at once at this instance and within seconds at the others. This cannot be undone; what was done with it stays.</p><//>`}`;
}
let useReason = true;

function Create({ close, done }) {
  const [form, change] = useState({ tenant: "", project: "", subject: "service:", level: "project", label: "", expires: "90d" });
  const [made, setMade] = useState(null), [problem, setProblem] = useState(null), [busy, setBusy] = useState(false);
  const by = useStore(state => state.by);
  const set = name => value => change({ ...form, [name]: value });
  const asked = { tenant: form.tenant, project: form.project || undefined, subject: form.subject, level: form.level, label: form.label || undefined, expires: form.expires || undefined };
  const make = async event => { event.preventDefault(); setBusy(true); try { setMade(await post("/v1/keys", asked)); setProblem(null); done(); } catch (caught) { setProblem(caught); } setBusy(false); };
  const line = `keys create --tenant ${quoted(form.tenant || "…")}${form.project || form.level === "project" ? ` --project ${quoted(form.project || "…")}` : ""} --subject ${quoted(form.subject)}${form.level === "project" ? "" : ` --level ${form.level}`}${form.label ? ` --label ${quoted(form.label)}` : ""}${form.expires ? ` --expires ${form.expires}` : ""}`;
  if (made) return html`<${Dialog} title="The key, shown once" close=${close}><div class="form"><${Note} kind="doubt">It cannot be told again. Copy it now.<//><div class="cli"><code class="whole">${made.key}</code><${Copy} text=${made.key} what="the key" /></div><div class="row end"><button class="btn primary" type="button" onClick=${close}>Done</button></div></div><//>`;
  const field = (name, label, hint) => html`<${Field} id=${`k-${name}`} label=${label} hint=${hint} grow><${Input} id=${`k-${name}`} value=${form[name]} on=${set(name)} /><//>`;
  return html`<${Dialog} title="Create an API key" close=${close}><form class="form" onSubmit=${make}><div class="row align-top">${field("tenant", "Tenant")}${field("project", "Project")}</div>${field("subject", "Acts as", "user:ID, service:ID, tenant_member:ID or client:ID")}
    <div class="row align-top"><${Field} id="k-level" label="Level"><${Select} id="k-level" label="Level" value=${form.level} on=${set("level")} options=${["project", "tenant", "platform"].map(one => [one, one])} /><//>${field("label", "Label")}${field("expires", "Expires", "a span such as 90d, or a time; empty: when revoked")}</div>
    ${problem && html`<${ProblemNote} problem=${problem} />`}<div class="row"><${Cli} line=${cli.other(line)} /></div><div class="row end"><span class="muted">${by && `by ${visible(by)}`}</span><button class="btn" type="button" onClick=${close}>Cancel</button><${Act} kind="primary" type="submit" disabled=${busy || !form.tenant || !form.subject}>Create the key<//></div></form><//>`;
}

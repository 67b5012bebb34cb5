// Webhooks: who sends what to which path; made (a secret is told once).
import { html, useState } from "../html.js";
import { absent, get, post } from "../api.js";
import { useData } from "../pulse.js";
import { cli } from "../data.js";
import { link } from "../route.js";
import { quoted, visible } from "../text.js";
import { Exports } from "../exports.js";
import { Act, Badge, Cli, Code, Copy, Dialog, Empty, Field, Foreign, Head, Input, Loaded, Note, ProblemNote, Select, Table, Time } from "../ui.js";

const COLUMNS = [
  { name: "Webhook", of: one => html`<a href=${link(["webhooks", one.webhook_id])}><${Code}>${one.webhook_id.slice(0, 12)}…<//></a> <${Copy} text=${one.webhook_id} what="the id" />` }, { name: "From", of: one => html`<b>${visible(one.provider)}</b>` }, { name: "Label", of: one => html`<bdi>${visible(one.label ?? "–")}</bdi>` },
  { name: "Tenant / project", of: one => `${one.tenant} / ${one.project}` }, { name: "Path", of: one => html`<${Foreign} text=${one.path} most=${32} /> <${Copy} text=${one.path} what="the path" />` }, { name: "Same when", of: one => (one.dedupe === "content" ? "content is the same" : "identifier is the same") }, { name: "Secrets", num: true, of: one => one.secrets },
  { name: "Made", of: one => html`<${Time} at=${one.created_at} short />` }, { name: "State", of: one => (one.revoked_at ? html`<${Badge} kind="released">revoked<//>` : html`<${Badge} kind="settled">takes deliveries<//>`) },
];
const CSV = ["webhook_id", "provider", "tenant", "project", "path", "operation", "dedupe", "secrets", "label", "created_at", "revoked_at"].map(name => [name, one => one[name]]);
const PROVIDERS = ["github", "shopify", "slack", "standard", "stripe", "twilio", "twilio-events"];

export function Webhooks({ place }) {
  const { tenant, project } = place.query;
  const from = useData("webhooks", signal => get("/v1/webhooks", { limit: 1000 }, signal), "webhooks");
  const [making, setMaking] = useState(false);
  const page = async after => { const got = await get("/v1/webhooks", { limit: 1000, after }); return { rows: got.webhooks, next: got.next }; };
  const none = absent(from.problem);
  return html`<${Head} title="Webhooks" note="Deliveries of others, checked, and done once." actions=${!none && html`<${Exports} screen="webhooks" filter=${{ tenant, project }} columns=${CSV} page=${page} /><${Act} kind="primary" on=${() => setMaking(true)}>Create…<//>`} />
    <section class="card">${none ? html`<${Empty}>${visible(from.problem.detail || "This server takes no webhooks.")}<//>` : html`<${Loaded} from=${from} what="The list of webhooks">${({ webhooks }) => { const rows = webhooks.filter(one => (!tenant || one.tenant === tenant) && (!project || one.project === project)); return rows.length === 0 ? html`<${Empty}>No webhooks yet.<//>` : html`<${Table} caption="Webhooks" columns=${COLUMNS} rows=${rows} id=${one => one.webhook_id} />`; }}<//>`}</section>
    ${making && html`<${Create} close=${() => setMaking(false)} done=${from.again} />`}`;
}

/** A secret that is told once. */
export const Secret = ({ title, secret, url, close }) => html`<${Dialog} title=${title} close=${close}><div class="form">${url && html`<${Field} id="hook-url" label="Give the sender this path"><div class="cli"><code class="whole" id="hook-url">${url}</code><${Copy} text=${url} what="the path" /></div><//>`}${secret ? html`<${Note} kind="doubt">The secret cannot be told again. Copy it now.<//><div class="cli"><code class="whole">${secret}</code><${Copy} text=${secret} what="the secret" /></div>` : html`<p class="outcome">The secret is where you said; it is not told.</p>`}<div class="row end"><button class="btn primary" type="button" onClick=${close}>Done</button></div></div><//>`;

function Create({ close, done }) {
  const [form, change] = useState({ provider: "stripe", tenant: "", project: "", secret: "", label: "", reason: "" });
  const [made, setMade] = useState(null), [problem, setProblem] = useState(null), [busy, setBusy] = useState(false);
  const set = name => value => change({ ...form, [name]: value });
  const make = async event => {
    event.preventDefault(); setBusy(true);
    try { setMade(await post("/v1/webhooks", Object.fromEntries(Object.entries(form).filter(([, value]) => value)))); done(); } catch (caught) { setProblem(caught); }
    setBusy(false);
  };
  if (made) return html`<${Secret} title="The webhook, with its secret shown once" secret=${made.secret} url=${made.url ?? made.path} close=${close} />`;
  const field = (name, label, hint, type) => html`<${Field} grow id=${`w-${name}`} label=${label} hint=${hint}><${Input} id=${`w-${name}`} type=${type ?? "text"} value=${form[name]} on=${set(name)} /><//>`;
  return html`<${Dialog} title="Create a webhook" close=${close}><form class="form" onSubmit=${make}><div class="row align-top"><${Field} id="w-provider" label="From"><${Select} id="w-provider" label="From" value=${form.provider} on=${set("provider")} options=${PROVIDERS.map(one => [one, one])} /><//>${field("tenant", "Tenant")}${field("project", "Project")}</div>
    ${field("secret", "Secret", "what the sender signs with; empty: one is made and told once", "password")}<div class="row align-top">${field("label", "Label")}${field("reason", "Reason", "for the audit")}</div>${problem && html`<${ProblemNote} problem=${problem} />`}
    <div class="row"><${Cli} line=${cli.other(`webhooks create --tenant ${quoted(form.tenant || "…")} --project ${quoted(form.project || "…")} --provider ${form.provider}`)} /></div><div class="row end"><button class="btn" type="button" onClick=${close}>Cancel</button><${Act} kind="primary" type="submit" disabled=${busy || !form.tenant || !form.project}>Create the webhook<//></div></form><//>`;
}

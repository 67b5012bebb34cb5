// Retention: how long outcomes are kept, by class; what is configured, what was set, by whom.
import { html, useState } from "../html.js";
import { call, get, post } from "../api.js";
import { useData } from "../pulse.js";
import { cli } from "../data.js";
import { visible } from "../text.js";
import { Act, Empty, Field, Head, Input, Loaded, Table, Time } from "../ui.js";
import { Ask } from "./decision.js";

const set = one => (one.set ? html`${one.set.retention}<span class="sub">by ${visible(one.set.by)} <${Time} at=${one.set.at} short /> · ${visible(one.set.reason)}</span>` : html`<span class="muted">–</span>`);

export function Retention() {
  const from = useData("retention", signal => get("/v1/retention", {}, signal), "audit");
  const [changing, setChanging] = useState(null), [taking, setTaking] = useState(null), [value, setValue] = useState("");
  const columns = [
    { name: "Class", of: one => html`<b class="mono">${visible(one.class)}</b>${one.default ? html` <span class="tag">default</span>` : ""}` }, { name: "Kept for", of: one => html`<b>${one.retention ?? "–"}</b>` }, { name: "Configured", of: one => one.configured ?? "–" }, { name: "Set", of: set },
    { name: "Routes", of: one => html`<span class="reason">${one.routes.map(visible).join(", ") || "none"}</span>` },
    { name: "Change", label: html`<span class="visually-hidden">Change</span>`, of: one => html`<div class="row"><${Act} small aria-label=${`Change ${one.class}`} on=${() => { setValue(one.retention ?? ""); setChanging(one); }}>Change…<//>${one.set && html`<${Act} small aria-label=${`${one.class} as configured`} on=${() => setTaking(one)}>As configured…<//>`}</div>` },
  ];
  const path = one => `/v1/retention/${encodeURIComponent(one.class)}`;
  const change = async said => { await post(path(changing), { retention: value, ...said }); setChanging(null); from.again(); };
  const take = async said => { await call("DELETE", path(taking), { query: said }); setTaking(null); from.again(); };
  return html`<${Head} title="Retention" note="How long outcomes are kept that are recorded from now on. What is kept already stays as it is." />
    <section class="card"><${Loaded} from=${from} what="The list of classes">${({ classes }) => (classes.length === 0 ? html`<${Empty}>No classes are configured.<//>` : html`<${Table} caption="Retention classes" columns=${columns} rows=${classes} id=${one => one.class} />`)}<//></section>
    ${changing && html`<${Ask} title=${`Keep ${changing.class} for …`} verb=${`Set ${changing.class}`} ready=${value.trim() !== ""} close=${() => setChanging(null)} run=${change} line=${(reason, by) => cli.other(`retention set ${changing.class} ${value || "…"}`, { reason, by })}><p class="outcome">In all servers on this store, until it is taken back. When the time is over, a key is free again: a retry that comes later runs.</p><${Field} id="kept" label="Kept for" hint="such as 24h, 7d, or forever"><${Input} id="kept" value=${value} on=${setValue} /><//><//>`}
    ${taking && html`<${Ask} title=${`${taking.class} as configured`} verb=${`Take back ${taking.set.retention}`} close=${() => setTaking(null)} run=${take} line=${(reason, by) => cli.other(`retention unset ${taking.class}`, { reason, by })}><p class="outcome">Kept for ${taking.configured ?? "as long as the default"} again.</p><//>`}`;
}

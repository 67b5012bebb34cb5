// Instance and store: which processes there are, what the store holds, how this one is configured.
import { html, useState } from "../html.js";
import { get } from "../api.js";
import { useData } from "../pulse.js";
import { useStore } from "../store.js";
import { bytes, count, visible } from "../text.js";
import { span } from "../time.js";
import { Age, Badge, Card, Copy, Empty, Facts, Head, Loaded, Table, Tag, Time } from "../ui.js";
import { JsonText } from "./answer.js";

const COLUMNS = [
  { name: "Instance", of: one => html`<b>${visible(one.name ?? one.session)}</b>${one.this ? html` <${Tag}>this<//>` : ""}<span class="sub mono">${visible(one.session)}</span>` }, { name: "Version", of: one => visible(one.version ?? "–") },
  { name: "State", of: one => (one.alive ? html`<${Badge} kind="settled">alive<//>` : html`<${Badge} kind="refused">lapsed<//>`) }, { name: "Since", of: one => html`<${Time} at=${one.started_at} short />` },
  { name: "Last sign", of: one => (one.last_at ? html`<${Age} at=${one.last_at} /> ago` : "–") }, { name: "Session until", of: one => html`<${Time} at=${one.until} />` }, { name: "Holds", num: true, of: one => (one.holds === undefined || one.holds === null ? "–" : count(one.holds)) },
];

const words = name => name.replace(/_/g, " ");
const sized = (name, value) => (value === null || value === undefined ? "–" : typeof value === "object" ? (Array.isArray(value) ? (value.length ? value.map(one => (typeof one === "object" ? JSON.stringify(one) : String(one))).join(", ") : "none") : Object.entries(value).map(([key, one]) => `${words(key)} ${sized(key, one)}`).join(" · ")) : /bytes/.test(name) ? bytes(value) : typeof value === "number" ? count(value) : String(value));

export function Instance() {
  const me = useStore(state => state.me), pulse = useStore(state => state.pulse);
  const instances = useData("instances", signal => get("/v1/instances", {}, signal), "claims");
  const store = useData("store", signal => get("/v1/store", {}, signal), "claims");
  const config = useData("config", signal => get("/v1/config", {}, signal), "routes");
  const [whole, setWhole] = useState(false);
  const server = me?.server ?? {};
  return html`<${Head} title="Instance and store" note="This process, the others on its store, and the store itself." /><div class="stack">
    <${Card} title="Instances" note="all that share this store" flush><${Loaded} from=${instances} what="The list of instances">${({ instances: all }) => (all.length === 0 ? html`<${Empty}>None has a session.<//>` : html`<${Table} caption="Instances" columns=${COLUMNS} rows=${all} id=${one => one.session} />`)}<//><//>
    <div class="cols even two"><${Card} title="This instance"><${Facts} rows=${[["version", server.version ?? "–"], server.instance && ["name", visible(server.instance)], server.started_at && ["serves since", html`<${Time} at=${server.started_at} zone /> <span class="muted"><${Age} at=${server.started_at} /></span>`], pulse && ["ready", pulse.ready === false ? (pulse.reasons ?? []).map(visible).join("; ") : "yes"], pulse?.session && ["session", `${span(pulse.session.left_ms)} left`], pulse?.ledger && ["ledger", pulse.ledger.up === false ? "does not answer" : `answers in ${span((pulse.ledger.took_us ?? 0) / 1000)}`], ["your token", html`<b>${visible(me?.name)}</b> <${Tag}>${me?.role}<//>`], ["address", html`<code>${location.host}</code> <${Copy} text=${location.origin} what="the address" />`]]} /><//>
      <${Card} title="Store"><${Loaded} from=${store} what="What the store says">${data => html`<${Facts} rows=${Object.entries(data).map(([name, value]) => [words(name), visible(sized(name, value))])} />`}<//>${pulse?.counts && html`<p class="lede">${count(pulse.counts.settled)} settled · ${count(pulse.counts.held)} held · ${count(pulse.counts.in_doubt)} in doubt · ${count(pulse.counts.released)} released</p>`}<//></div>
    <${Card} title="Configuration" note="as it takes effect, without secrets: hapax config show"><${Loaded} from=${config} what="The configuration">${data => { const { loaded_at, waits_for_restart, ...rest } = data; return html`<${Facts} rows=${[["loaded", html`<${Time} at=${loaded_at} zone />`], ["waits for a restart", [].concat(waits_for_restart ?? []).map(visible).join(", ") || "nothing"]]} /><p class="row end"><button class="btn small" type="button" aria-expanded=${whole} onClick=${() => setWhole(!whole)}>${whole ? "Hide" : "Show all of it"}</button></p>${whole && html`<${JsonText} text=${JSON.stringify(rest.config ?? rest)} label="Configuration" />`}`; }}<//><//></div>`;
}

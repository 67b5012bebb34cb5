// Instance and store: how this process does, what its store holds, which services are behind it.
import { html } from "../html.js";
import { get } from "../api.js";
import { useData } from "../pulse.js";
import { useStore } from "../store.js";
import { link } from "../route.js";
import { count, visible } from "../text.js";
import { span } from "../time.js";
import { Age, Badge, Card, Cli, Copy, Empty, Facts, Head, Loaded, Table, Tag, Time } from "../ui.js";
import { UPSTREAM } from "./routes.js";

const STATES = [["Settled", "settled"], ["Held", "held"], ["In doubt", "in_doubt"], ["Released", "released"]];
const SHELVES = [
  { name: "Tenant / project", of: one => html`<a href=${link(["claims"], { tenant: one.tenant, project: one.project })}>${visible(one.tenant)} / ${visible(one.project)}</a>` },
  { name: "Operation", of: one => html`<a href=${link(["routes", one.operation])}><code>${visible(one.operation)}</code></a>` },
  ...STATES.map(([name, state]) => ({ name, num: true, of: one => (one[state] ? html`<a class=${state === "in_doubt" ? "fg-doubt" : ""} href=${link(["claims"], { tenant: one.tenant, project: one.project, operation: one.operation, state })}>${count(one[state])}</a>` : html`<span class="muted">–</span>`) })),
];

const Shelves = () => {
  const from = useData("shelves of the store", signal => get("/v1/shelves", { limit: 200 }, signal), "claims");
  return html`<${Card} title="Claims kept" note="store-wide, by tenant, project and operation" flush><${Loaded} from=${from} what="The list of shelves">${({ shelves, next }) => (shelves.length === 0 ? html`<${Empty}>The store is empty.<//>` : html`<${Table} caption="Claims kept" columns=${SHELVES} rows=${shelves} id=${one => `${one.tenant} ${one.project} ${one.operation}`} />${next && html`<footer class="body muted">The first ${count(shelves.length)}; choose a tenant on the screen of claims to see others.</footer>`}`)}<//><//>`;
};

const ready = pulse => (pulse.ready === false ? html`<${Badge} kind="refused">no<//> ${(pulse.reasons ?? []).map(visible).join("; ")}` : html`<${Badge} kind="settled">yes<//>`);
const ledger = ({ up, took_us: took, since }) => (up === false ? html`does not answer${since ? html` since <${Time} at=${since} />` : ""}` : took === null || took === undefined ? "answers" : `answers in ${span(took / 1000)}`);

export function Instance() {
  const me = useStore(state => state.me), pulse = useStore(state => state.pulse);
  const upstreams = useData("upstreams", signal => get("/v1/upstreams", {}, signal), "routes");
  const server = me?.server ?? {}, counts = pulse?.counts;
  return html`<${Head} title="Instance and store" note="This process, its store, and the services behind it." /><div class="stack">
    <div class="cols even two"><${Card} title="This instance"><${Facts} rows=${[["version", server.version ?? "–"], server.instance && ["name", visible(server.instance)], server.started_at && ["serves since", html`<${Time} at=${server.started_at} zone /> <span class="muted"><${Age} at=${server.started_at} /></span>`], pulse && ["ready", ready(pulse)], pulse?.session && ["session", `${span(pulse.session.left_ms)} left; it is renewed`], pulse?.ledger && ["ledger", ledger(pulse.ledger)], ["your token", html`<b>${visible(me?.name)}</b> <${Tag}>${me?.role}<//>`], ["address", html`<code>${location.host}</code> <${Copy} text=${location.origin} what="the address" />`]]} /><//>
      <${Card} title="Store"><${Facts} rows=${[["kind", visible(server.store?.kind ?? "–")], ["answers kept", server.sealed ? "encrypted" : "not encrypted: see [seal]"], pulse?.sweep && ["sweep", pulse.sweep.lag_s < 60 ? "up to date" : `${span(1000 * pulse.sweep.lag_s)} behind`], ...(counts ? STATES.map(([name, state]) => [name.toLowerCase(), html`<a href=${link(["claims"], { state })}>${count(counts[state])}</a>`]) : [])]} /><//></div>
    <${Card} title="Upstreams" note="the services behind" flush><${Loaded} from=${upstreams} what="The list of upstreams">${({ upstreams: all }) => (all.length === 0 ? html`<${Empty}>None is configured.<//>` : html`<${Table} caption="Upstreams" columns=${UPSTREAM} rows=${all} id=${one => one.name} />`)}<//><//>
    <${Shelves} />
    <${Card} title="Configuration"><p class="lede">The configuration as it takes effect, without secrets, is told where hapax runs.</p><div class="row"><${Cli} line="hapax config show" /></div><//></div>`;
}

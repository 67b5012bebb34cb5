// Instance and store: how this process does, who else is on the store, what it holds, and which services are behind it.
import { html, useState } from "../html.js";
import { get, getExact } from "../api.js";
import { useData } from "../pulse.js";
import { useStore } from "../store.js";
import { link } from "../route.js";
import { bytes, count, visible } from "../text.js";
import { span } from "../time.js";
import { Age, Badge, Card, Cli, Copy, Empty, Facts, Head, Loaded, Note, Table, Tag, Time } from "../ui.js";
import { JsonText } from "./answer.js";
import { UPSTREAM } from "./routes.js";

const STATES = [["Settled", "settled"], ["Held", "held"], ["In doubt", "in_doubt"], ["Released", "released"]];
const SHELVES = [
  { name: "Tenant / project", of: one => html`<a href=${link(["claims"], { tenant: one.tenant, project: one.project })}>${visible(one.tenant)} / ${visible(one.project)}</a>` },
  { name: "Operation", of: one => html`<a href=${link(["routes", one.operation])}><code>${visible(one.operation)}</code></a>` },
  ...STATES.map(([name, state]) => ({ name, num: true, of: one => (one[state] ? html`<a class=${state === "in_doubt" ? "fg-doubt" : ""} href=${link(["claims"], { tenant: one.tenant, project: one.project, operation: one.operation, state })}>${count(one[state])}</a>` : html`<span class="muted">–</span>`) })),
];
const PAGE = 100;

/** Shelves page by page; a tenant that is chosen above narrows them. */
const Shelves = ({ tenant, project }) => {
  const [marks, setMarks] = useState([]);
  const after = marks.at(-1);
  const from = useData(`shelves of the store ${tenant} ${project} ${after}`, signal => get("/v1/shelves", { tenant, project, limit: PAGE, after }, signal), "claims");
  const pages = next => (marks.length > 0 || next) && html`<footer><button class="btn small" type="button" disabled=${marks.length === 0} onClick=${() => setMarks(marks.slice(0, -1))}>Back</button><button class="btn small" type="button" disabled=${!next} onClick=${() => setMarks([...marks, next])}>Next ${PAGE}</button></footer>`;
  return html`<${Card} title="Claims kept" note="store-wide, by tenant, project and operation" flush><${Loaded} from=${from} what="The list of shelves">${({ shelves, next }) => (shelves.length === 0 && marks.length === 0 ? html`<${Empty}>The store is empty.<//>` : html`<${Table} caption="Claims kept" columns=${SHELVES} rows=${shelves} id=${one => `${one.tenant} ${one.project} ${one.operation}`} />${pages(next)}`)}<//><//>`;
};

const INSTANCES = [
  { name: "Instance", of: one => html`<b>${visible(one.name ?? `session ${one.session}`)}</b>${one.this && html` <${Tag}>this<//>`}` }, { name: "Version", of: one => visible(one.version ?? "–") },
  { name: "State", of: one => (one.alive ? html`<${Badge} kind="settled">alive<//>` : html`<${Badge} kind="released">ended<//>`) },
  { name: "Since", of: one => html`<${Time} at=${one.opened_at} />` }, { name: "Last sign", of: one => html`<${Age} at=${one.last_at} /> ago` }, { name: "Its claims until", of: one => html`<${Time} at=${one.until} />` },
];

const Instances = () => {
  const from = useData("instances", signal => get("/v1/instances", {}, signal), "claims");
  return html`<${Card} title="Instances" note="every process that has this store open, or had it lately" flush><${Loaded} from=${from} what="The list of instances">${({ instances }) => html`<${Table} caption="Instances" columns=${INSTANCES} rows=${[...instances].reverse()} id=${one => one.session} />`}<//><//>`;
};

const Store = ({ sweep }) => {
  const from = useData("store", signal => get("/v1/store", {}, signal), "claims");
  return html`<${Card} title="Store"><${Loaded} from=${from} what="The store">${store => html`<${Facts} rows=${[
    ["kind", visible(store.kind)], store.bytes !== null && ["takes", html`${bytes(store.bytes)}${store.free_bytes !== null ? html` <span class="muted">${bytes(store.free_bytes)} free</span>` : ""}`],
    ["answers kept", store.sealed ? "encrypted" : "not encrypted: see [seal]"], ["sweep", (sweep ?? store.sweep).lag_s < 60 ? "up to date" : `${span(1000 * (sweep ?? store.sweep).lag_s)} behind`],
    ["spool", store.spool.owed === 0 ? "empty" : `${count(store.spool.waiting)} on disk, ${count(store.spool.owed)} that the ledger has not heard`],
    ["damaged", store.damaged === 0 ? "none" : html`<a class="fg-doubt" href="#/attention/damaged">${count(store.damaged)}</a>`],
    ...STATES.map(([name, state]) => [name.toLowerCase(), html`<a href=${link(["claims"], { state })}>${count(store.counts[state])}</a>`]),
  ]} />`}<//><//>`;
};

const Config = () => {
  const [open, setOpen] = useState(false);
  const from = useData("config", signal => getExact("/v1/config", {}, signal), "routes");
  const shown = html`<button class="btn small" type="button" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "Hide" : "Show"}</button>`;
  return html`<${Card} title="Configuration" note="as it takes effect, with all defaults and without secrets" actions=${shown}><${Loaded} from=${from} what="The configuration">${told => html`<${Facts} rows=${[["loaded", html`<${Time} at=${told.loaded_at} zone />`]]} />
    ${told.waits_for_restart.length > 0 && html`<${Note} kind="doubt"><b>Changed in the file, and in force after a restart:</b> ${told.waits_for_restart.map(visible).join(", ")}<//>`}${open && (told.config === null ? html`<p class="muted">It was not read from a file.</p>` : html`<${JsonText} text=${JSON.stringify(told.config)} label="Configuration" />`)}
    <div class="row"><${Cli} line="hapax config show FILE" /></div>`}<//><//>`;
};

const ready = pulse => (pulse.ready === false ? html`<${Badge} kind="refused">no<//> ${(pulse.reasons ?? []).map(visible).join("; ")}` : html`<${Badge} kind="settled">yes<//>`);
const ledger = ({ up, took_us: took, since }) => (up === false ? html`does not answer${since ? html` since <${Time} at=${since} />` : ""}` : took === null || took === undefined ? "answers" : `answers in ${span(took / 1000)}`);

export function Instance({ place }) {
  const me = useStore(state => state.me), pulse = useStore(state => state.pulse);
  const upstreams = useData("upstreams", signal => get("/v1/upstreams", {}, signal), ["routes", "traffic"]);
  const server = me?.server ?? {}, { tenant, project } = place.query;
  return html`<${Head} title="Instance and store" note="This process, its store, and the services behind it." /><div class="stack">
    <div class="cols even two"><${Card} title="This instance"><${Facts} rows=${[["version", server.version ?? "–"], server.instance && ["name", visible(server.instance)], server.started_at && ["serves since", html`<${Time} at=${server.started_at} zone /> <span class="muted"><${Age} at=${server.started_at} /></span>`], pulse && ["ready", ready(pulse)], pulse?.session && ["session", `${span(pulse.session.left_ms)} left; it is renewed`], pulse?.ledger && ["ledger", ledger(pulse.ledger)], ["your token", html`<b>${visible(me?.name)}</b> <${Tag}>${me?.role}<//>`], ["address", html`<code>${location.host}</code> <${Copy} text=${location.origin} what="the address" />`]]} /><//><${Store} sweep=${pulse?.sweep} /></div>
    <${Instances} />
    <${Card} title="Upstreams" note="the services behind" flush><${Loaded} from=${upstreams} what="The list of upstreams">${({ upstreams: all }) => (all.length === 0 ? html`<${Empty}>None is configured.<//>` : html`<${Table} caption="Upstreams" columns=${UPSTREAM} rows=${all} id=${one => one.name} />`)}<//><//>
    <${Shelves} key=${`${tenant} ${project}`} tenant=${tenant} project=${project} /><${Config} /></div>`;
}

// Routes: which policy each has, and what that means in plain words.
import { html } from "../html.js";
import { get } from "../api.js";
import { useData } from "../pulse.js";
import { link, refine } from "../route.js";
import { count, visible } from "../text.js";
import { policySays } from "../words.js";
import { Card, Code, Condition, Copy, Empty, Facts, Head, Loaded, Select, Table, Tag, Time } from "../ui.js";

const kept = route => [route.rerun, route.scope && `by ${route.scope}`, route.fingerprint, route.retention && `${route.retention.class ?? ""} ${route.retention.kept ?? ""}`.trim()].filter(Boolean).map(visible).join(" · ");

const COLUMNS = [
  { name: "Route", of: route => html`<span class="mono">${route.method} ${visible(route.path)}</span>` }, { name: "Policy", of: route => html`<${Tag}>${route.policy}<//>` },
  { name: "Operation", of: route => (route.operation ? html`<a class="mono" href=${link(["routes", route.operation])}>${visible(route.operation)}</a>` : html`<span class="muted">–</span>`) },
  { name: "How", of: route => kept(route) || html`<span class="muted">not protected</span>` }, { name: "Upstream", of: route => visible(route.upstream) },
];

export function Routes({ place }) {
  const from = useData("routes", signal => get("/v1/routes", {}, signal), "routes");
  const { policy = "", filter = "" } = place.query;
  return html`<${Head} title="Routes" note="What becomes of a request, by method and path." /><${Loaded} from=${from} what="The list of routes">${({ routes }) => {
    const policies = [...new Set(routes.map(route => route.policy))].sort();
    const rows = routes.filter(route => (!policy || route.policy === policy) && `${route.method} ${route.path} ${route.operation ?? ""} ${route.upstream}`.toLowerCase().includes(filter.toLowerCase()));
    return html`<div class="filters"><${Select} id="f-policy" label="Policy" value=${policy} on=${value => refine({ policy: value })} options=${[["", "any policy"], ...policies.map(one => [one, one])]} /><${Condition} id="f-text" label="path, operation or upstream" size=${28} value=${filter} on=${value => refine({ filter: value })} /></div>
      <div class="stack"><${Card} label="Routes" flush>${rows.length === 0 ? html`<${Empty}>${routes.length ? "No such route." : "No routes are configured."}<//>` : html`<${Table} caption="Routes" columns=${COLUMNS} rows=${rows} id=${route => `${route.method} ${route.path}`} />`}<//><${Upstreams} /></div>`;
  }}<//>`;
}

/** How a service has failed since the process started, by what became of the request. */
const failures = one => {
  const all = Object.entries(one.failures ?? {});
  if (all.length === 0) return html`<span class="muted">none</span>`;
  return html`<span class="fg-doubt">${all.map(([event, times]) => `${count(times)} ${event}`).join(" · ")}</span> <span class="muted">last <${Time} at=${one.last_failure} /></span>${one.suspended?.length > 0 && html` <${Tag}>suspended: ${one.suspended.map(visible).join(", ")}<//>`}`;
};

/** The columns of upstreams, here and on the screen of the instance. */
export const UPSTREAM = [
  { name: "Name", of: one => visible(one.name) }, { name: "Kind", of: one => one.kind }, { name: "URL", of: one => (one.url ? html`<code>${visible(one.url)}</code>` : html`<span class="muted">several addresses</span>`) }, { name: "Routes", num: true, of: one => count(one.routes) },
  { name: "Failures", of: one => failures(one) },
];

const Upstreams = () => {
  const from = useData("upstreams", signal => get("/v1/upstreams", {}, signal), ["routes", "traffic"]);
  return html`<${Card} title="Upstreams" note="the services behind" flush><${Loaded} from=${from} what="The list of upstreams">${({ upstreams }) => html`<${Table} caption="Upstreams" columns=${UPSTREAM} rows=${upstreams} id=${one => one.name} />`}<//><//>`;
};

const plain = value => (typeof value === "object" && value !== null ? Object.values(value).filter(Boolean).join(", ") : String(value));
const TOLD = ["method", "path", "policy", "operation", "says"];

/** One route by its operation: the sentence first, it is the best check of a policy. */
export function Route({ id }) {
  const from = useData("routes", signal => get("/v1/routes", {}, signal), "routes");
  const counts = useData(`count of ${id}`, signal => get("/v1/claims/count", { operation: id }, signal), "claims");
  return html`<${Loaded} from=${from} what="The list of routes">${({ routes }) => {
    const mine = routes.filter(route => route.operation === id || route.first_name === id);
    if (mine.length === 0) return html`<${Head} title=${visible(id)} /><${Empty}>No route calls this operation now. <a href=${link(["claims"], { operation: id })}>Its claims</a> are kept as before.<//>`;
    return html`<div class="crumbs"><a href="#/routes">Routes</a></div><${Head} title=${visible(id)} note=${counts.data && `${count(counts.data.settled)} settled · ${count(counts.data.held)} held · ${count(counts.data.in_doubt)} in doubt · ${count(counts.data.released)} released`} actions=${html`<a class="btn" href=${link(["claims"], { operation: id })}>Claims</a><a class="btn" href=${link(["requests"], { endpoint: mine[0].path })}>Requests</a>`} />
      <div class="stack">${mine.map(route => html`<${Card} key=${`${route.method} ${route.path}`} title=${html`<span class="mono">${route.method} ${visible(route.path)}</span>`} note=${route.policy} label=${`${route.method} ${route.path}`}><p class="lede">${policySays(route)}</p>
        <${Facts} rows=${Object.entries(route).filter(([name, value]) => !TOLD.includes(name) && value !== null && value !== undefined && name !== "place").map(([name, value]) => [name.replace(/_/g, " "), html`<span class="mono">${visible(plain(value))}</span>`])} />
        ${route.place && html`<p class="muted">In <${Code}>${visible(`${route.place.file}:${route.place.line}`)}<//> <${Copy} text=${`${route.place.file}:${route.place.line}`} what="the place" /></p>`}<//>`)}</div>`;
  }}<//>`;
}

// Requests: what this instance has answered lately, from a bounded ring in its memory. No log store.
import { html, useState } from "../html.js";
import { get } from "../api.js";
import { useData } from "../pulse.js";
import { useStore } from "../store.js";
import { link, refine } from "../route.js";
import { count, visible } from "../text.js";
import { span } from "../time.js";
import { eventMark } from "../words.js";
import { Mark } from "../icons.js";
import { Exports } from "../exports.js";
import { Condition, Copy, Empty, Foreign, Head, Loaded, Select, Table, Time } from "../ui.js";

const NAMES = ["event", "status", "endpoint", "tenant", "project", "key", "operation_id", "since", "until"];
const EVENTS = ["executed", "replayed", "attached", "passed", "released", "mismatch", "in_doubt", "refused", "invalid", "unavailable", "key-reused", "key-missing", "key-malformed", "outcome-unknown", "signature-invalid"];

const why = one => [one.cause, ...(one.differs ?? []).map(part => (typeof part === "string" ? part : `${part.pointer ?? part.path} ${part.change ?? part.how}`))].filter(Boolean).map(visible).join(", ");

const where = one => (one.endpoint?.startsWith("/") && one.method ? `${one.method} ${one.endpoint}` : one.endpoint ?? one.method);

const COLUMNS = [
  { name: "When", of: one => html`<${Time} at=${one.at} exact />` }, { name: "Endpoint", of: one => html`<span class="mono">${visible(where(one))}</span>` }, { name: "Status", num: true, of: one => one.status },
  { name: "Became", of: one => html`<span class="row-mark"><${Mark} kind=${eventMark(one.event)} />${visible(String(one.event).replace(/_/g, " "))}</span>` }, { name: "Took", num: true, of: one => span(one.took_us / 1000) },
  { name: "Tenant / project", of: one => (one.tenant ? `${one.tenant} / ${one.project ?? "–"}` : "–") }, { name: "Key", of: one => (one.key ? one.operation_id ? html`<a href=${link(["claims", one.operation_id])}><${Foreign} text=${one.key} most=${32} /></a>` : html`<${Foreign} text=${one.key} most=${32} />` : "–") },
  { name: "Why", of: one => html`<span class="reason">${why(one) || "–"}</span>` }, { name: "Trace", of: one => (one.trace_id ? html`<${Copy} text=${one.trace_id} what="the trace id" />` : "") },
];
const CSV = ["at", "method", "endpoint", "status", "event", "took_us", "tenant", "project", "subject", "key", "operation_id", "policy", "trace_id", "cause"].map(name => [name, one => one[name]]);

/** By code and endpoint: what goes wrong, and how often. */
function grouped(requests) {
  const groups = new Map();
  for (const one of requests) {
    const id = `${one.event} ${one.endpoint}`, group = groups.get(id) ?? { id, event: one.event, endpoint: one.endpoint, number: 0, last: one.at, tenants: new Set() };
    group.number += 1;
    if (one.tenant) group.tenants.add(one.tenant);
    if (one.at > group.last) group.last = one.at;
    groups.set(id, group);
  }
  return [...groups.values()].sort((one, other) => other.number - one.number);
}
const GROUPS = [
  { name: "Became", of: one => html`<a class="row-mark" href=${link(["requests"], { event: one.event, endpoint: one.endpoint })}><${Mark} kind=${eventMark(one.event)} />${visible(String(one.event).replace(/_/g, " "))}</a>` }, { name: "Endpoint", of: one => html`<span class="mono">${visible(one.endpoint)}</span>` }, { name: "Requests", num: true, of: one => count(one.number) }, { name: "Tenants", of: one => [...one.tenants].slice(0, 4).join(", ") }, { name: "Last", of: one => html`<${Time} at=${one.last} exact />` },
];

const within = ({ since, until }) => one => (!since || one.at >= since) && (!until || one.at < until);

export function Requests({ place }) {
  const filter = Object.fromEntries(NAMES.filter(name => place.query[name]).map(name => [name, place.query[name]]));
  const { since, until } = filter, asked = filter;
  const from = useData(JSON.stringify(asked), signal => get("/v1/requests", { ...asked, limit: 1000 }, signal), "claims");
  const [group, setGroup] = useState(false), [most, setMost] = useState(200);
  const instance = useStore(state => state.me?.server?.instance) ?? "this instance";
  const page = async after => { const got = await get("/v1/requests", { ...asked, limit: 1000, after }); return { rows: got.requests.filter(within(filter)), next: got.next }; };
  const field = (name, size) => html`<${Condition} id=${`f-${name}`} label=${name.replace("_", " ")} size=${size} value=${filter[name]} on=${value => refine({ [name]: value })} />`;
  return html`<${Head} title="Requests" note=${html`What ${visible(instance)} has answered${from.data?.since ? html` since <${Time} at=${from.data.since} />` : " lately"}: a bounded ring in memory; older ones are in the log.`} actions=${html`<${Exports} screen="requests" filter=${asked} columns=${CSV} page=${page} />`} />
    <div class="filters"><${Select} id="f-event" label="What became of it" value=${filter.event} on=${event => refine({ event })} options=${[["", "any event"], ...[...new Set([...EVENTS, filter.event].filter(Boolean))].map(one => [one, one.replace(/_/g, " ")])]} />${field("status", 6)}${field("endpoint", 18)}${field("tenant", 10)}${field("key", 16)}
      <div class="seg" role="group" aria-label="Grouped"><button type="button" aria-pressed=${!group} onClick=${() => setGroup(false)}>one by one</button><button type="button" aria-pressed=${group} onClick=${() => setGroup(true)}>by event and endpoint</button></div>
      ${(since || until) && html`<button class="chip" type="button" aria-pressed="true" onClick=${() => refine({ since: "", until: "" })}><${Time} at=${since} /> – <${Time} at=${until} /> ×</button>`}${Object.keys(filter).length > 0 && html`<a class="btn quiet small" href="#/requests">Clear</a>`}</div>
    <section class="card"><${Loaded} from=${from} what="The list of recent requests">${data => {
      const rows = data.requests.filter(within(filter));
      if (rows.length === 0) return html`<${Empty}>${Object.keys(filter).length ? "No such request is remembered." : "No requests yet."}<//>`;
      return group ? html`<${Table} caption="Requests by event and endpoint" columns=${GROUPS} rows=${grouped(rows)} id=${one => one.id} />` : html`<${Table} caption="Requests" columns=${COLUMNS} rows=${rows.slice(0, most)} id=${one => `${one.at} ${one.operation_id ?? ""} ${one.took_us}`} />${rows.length > most && html`<footer><button class="btn small" type="button" onClick=${() => setMost(most + 200)}>${`${count(rows.length - most)} more`}</button></footer>`}`;
    }}<//></section>`;
}

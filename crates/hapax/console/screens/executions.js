// Durable executions of agents: how they stand, and which wait for a person.
import { html, useState } from "../html.js";
import { get } from "../api.js";
import { useData } from "../pulse.js";
import { link, refine } from "../route.js";
import { count, visible } from "../text.js";
import { STATUSES } from "../words.js";
import { Exports } from "../exports.js";
import { Age, Badge, Code, Condition, Empty, Head, Loaded, Select, Table, Time } from "../ui.js";

export const Status = ({ status, big }) => html`<${Badge} kind=${STATUSES[status]?.[1] ?? "seen"} big=${big}>${STATUSES[status]?.[0] ?? status}<//>`;
export const to = one => link(["executions", one.execution_id], { tenant: one.tenant, project: one.project });

const COLUMNS = [
  { name: "Status", of: one => html`<${Status} status=${one.status} />` }, { name: "Execution", of: one => html`<a href=${to(one)}><${Code}>${visible(one.execution_id)}<//></a>` }, { name: "Agent", of: one => html`<bdi>${visible(one.agent)}</bdi>` }, { name: "Tenant / project", of: one => `${one.tenant} / ${one.project}` },
  { name: "Runner", of: one => (one.runs && /^(RUNNING|RECOVERING)$/.test(one.status) ? "at work" : one.status === "RUNNING" ? html`<b class="fg-doubt">gone</b>` : "–") }, { name: "Events", num: true, of: one => count(one.events) }, { name: "Version", num: true, of: one => count(one.version) }, { name: "Made", of: one => html`<${Time} at=${one.created_at} />` }, { name: "Last written", of: one => html`<${Age} at=${one.updated_at} /> ago` },
];
const CSV = ["execution_id", "tenant", "project", "subject", "agent", "status", "version", "events", "runs", "created_at", "updated_at"].map(name => [name, one => one[name]]);
const NAMES = ["tenant", "project", "status", "agent", "idle_for"];

export function Executions({ place }) {
  const filter = Object.fromEntries(NAMES.filter(name => place.query[name]).map(name => [name, place.query[name]]));
  const from = useData(JSON.stringify(filter), signal => get("/v1/executions", { ...filter, limit: 200 }, signal), "executions");
  const [more, setMore] = useState([]);
  const key = JSON.stringify(filter), pages = more.filter(page => page.key === key);
  const rows = [...(from.data?.executions ?? []), ...pages.flatMap(page => page.executions)], next = (pages.at(-1) ?? from.data)?.next;
  const page = async after => { const got = await get("/v1/executions", { ...filter, limit: 1000, after }); return { rows: got.executions, next: got.next }; };
  const load = async () => setMore([...pages, { key, ...(await get("/v1/executions", { ...filter, limit: 200, after: next })) }]);
  return html`<${Head} title="Executions" note="What agents do durably: each step is a claim." actions=${html`<${Exports} screen="executions" filter=${filter} columns=${CSV} page=${page} />`} />
    <div class="filters"><div class="chips"><button class="chip" type="button" aria-pressed=${!filter.status} onClick=${() => refine({ status: "" })}>all</button>${Object.entries(STATUSES).map(([name, [word]]) => html`<button class="chip" key=${name} type="button" aria-pressed=${filter.status === name} onClick=${() => refine({ status: name })}>${word}</button>`)}</div>
      <${Condition} id="f-agent" label="agent" value=${filter.agent} on=${agent => refine({ agent })} /><${Select} id="f-idle" label="Not written to for" value=${filter.idle_for} on=${idle_for => refine({ idle_for })} options=${[["", "written to at any time"], ["10m", "stuck longer than 10 m"], ["1h", "stuck longer than 1 h"], ["24h", "stuck longer than 24 h"]]} /></div>
    <section class="card"><${Loaded} from=${from} what="The list of executions">${() => (rows.length === 0 ? html`<${Empty}>${Object.keys(filter).length ? "No such execution." : "No executions yet."}<//>` : html`<${Table} caption="Executions" columns=${COLUMNS} rows=${rows} id=${one => `${one.tenant} ${one.project} ${one.execution_id}`} />`)}<//>${next && html`<footer><button class="btn small" type="button" onClick=${load}>Load more</button></footer>`}</section>`;
}

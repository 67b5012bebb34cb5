// Requests: what this instance has answered lately, counted by caller and endpoint. Single requests are in the log.
import { html } from "../html.js";
import { get } from "../api.js";
import { useData, windows } from "../pulse.js";
import { link, refine } from "../route.js";
import { count, percent, plural, visible } from "../text.js";
import { eventMark } from "../words.js";
import { Mark } from "../icons.js";
import { Exports } from "../exports.js";
import { Condition, Empty, Head, Loaded, Select, Table, Time } from "../ui.js";

/** What becomes of requests: a member of the traffic, its word, and what it means. */
const EVENTS = [
  ["executed", "Executed", "the work ran"], ["replayed", "Replayed", "the first answer again"], ["attached", "Attached", "waited for the first"], ["terminal_error", "Error again", "replayed, and the first answer is an error"],
  ["mismatch", "Mismatch", "the key was used for another request"], ["in_doubt", "In doubt", "not known whether the work ran"], ["invalid", "Bad key", "refused for the key"], ["missing", "No key", "no key where one could be"],
];
const SCOPE = ["tenant", "project", "endpoint"];
export const CSV = ["tenant", "project", "endpoint", "requests", "keyed", ...EVENTS.map(([name]) => name), "hit_rate", "p50_ms", "p99_ms"].map(name => [name, row => row[name]]);

/** A tenant as it is shown: two words stand for those that have no name here. */
export const whose = name => ({ _none: "no caller let in", _other: "all others" })[name] ?? visible(name);

const fits = filter => row => SCOPE.every(name => !filter[name] || (name === "endpoint" ? row.endpoint.includes(filter.endpoint) : row[name] === filter[name])) && (!filter.event || row[filter.event] > 0);

/** A number, with a link to the claims behind it where there are some. */
const number = name => row => {
  if (!row[name]) return html`<span class="muted">–</span>`;
  const state = { executed: "", in_doubt: "in_doubt" }[name];
  return state === undefined || row.tenant.startsWith("_") ? count(row[name]) : html`<a class=${name === "in_doubt" ? "fg-doubt" : ""} href=${link(["claims"], { tenant: row.tenant, project: row.project, state })}>${count(row[name])}</a>`;
};

const COLUMNS = [
  { name: "Tenant / project", of: row => (row.tenant.startsWith("_") ? html`<span class="muted">${whose(row.tenant)}</span>` : html`<a href=${link(["claims"], { tenant: row.tenant, project: row.project })}>${visible(row.tenant)} / ${visible(row.project)}</a>`) },
  { name: "Endpoint", of: row => html`<span class="mono">${visible(row.endpoint)}</span>` }, { name: "Requests", sort: "requests", num: true, of: row => html`<b>${count(row.requests)}</b>` },
  ...EVENTS.map(([name, word, what]) => ({ name: word, sort: name, num: true, label: html`<span title=${what}>${word}</span>`, of: number(name) })), { name: "Hit rate", sort: "hit_rate", num: true, of: row => percent(row.hit_rate) },
];

export function Requests({ place }) {
  const { query } = place;
  const window = query.window in windows ? query.window : "1h";
  const filter = Object.fromEntries([...SCOPE, "event"].filter(name => query[name]).map(name => [name, query[name]]));
  const sort = query.sort ?? filter.event ?? "requests";
  const from = useData(`requests ${window}`, signal => get("/v1/traffic", { window, limit: 200 }, signal), ["claims", "traffic"]);
  const pick = data => data.rows.filter(fits(filter)).sort((one, other) => (other[sort] ?? -1) - (one[sort] ?? -1));
  const page = async () => ({ rows: pick(await get("/v1/traffic", { window, limit: 200 })), next: null });
  const field = (name, size) => html`<${Condition} id=${`f-${name}`} label=${name} size=${size} value=${filter[name]} on=${value => refine({ [name]: value })} />`;
  const [, word, what] = EVENTS.find(([name]) => name === filter.event) ?? [];
  return html`<${Head} title="Requests" note=${html`What ${visible(from.data?.instance ?? "this instance")} has answered${from.data ? html` since <${Time} at=${from.data.since} />` : ""}, by caller and endpoint. Single requests are in the log.`} actions=${html`<${Exports} screen="requests" filter=${{ window, ...filter }} columns=${CSV} page=${page} />`} />
    <div class="filters"><${Select} id="f-event" label="What became of it" value=${filter.event} on=${event => refine({ event, sort: "" })} options=${[["", "any event"], ...EVENTS.map(([name, words]) => [name, words.toLowerCase()])]} />${field("endpoint", 18)}${field("tenant", 10)}${field("project", 10)}
      <div class="seg" role="group" aria-label="Window">${Object.entries(windows).map(([name, words]) => html`<button key=${name} type="button" aria-pressed=${name === window} onClick=${() => refine({ window: name })}>${words}</button>`)}</div>${Object.keys(filter).length > 0 && html`<a class="btn quiet small" href="#/requests">Clear</a>`}</div>
    <section class="card"><${Loaded} from=${from} what="Traffic by endpoint">${data => {
      const rows = pick(data);
      if (rows.length === 0) return html`<${Empty}>${Object.keys(filter).length ? "No such request in this window." : "No requests in this window."}<//>`;
      const all = rows.reduce((sum, row) => sum + (row[filter.event] ?? row.requests), 0);
      return html`<p class="summary"><span class="row-mark">${word && html`<${Mark} kind=${eventMark(filter.event)} />`}<span><b>${plural(all, "request")}</b>${word ? ` ${word.toLowerCase()} (${what})` : ""} in the last ${windows[window]}${data.more ? `; ${plural(data.more, "row")} more are not shown` : ""}</span></span></p><${Table} caption="Requests by caller and endpoint" columns=${COLUMNS} rows=${rows} id=${row => `${row.tenant} ${row.project} ${row.endpoint}`} sorted=${sort} onSort=${name => refine({ sort: name })} />`;
    }}<//></section>`;
}

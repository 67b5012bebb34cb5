// The audit: what was decided, by whom and why; and what was refused.
import { html, useState } from "../html.js";
import { call, get } from "../api.js";
import { useData } from "../pulse.js";
import { link, refine } from "../route.js";
import { visible } from "../text.js";
import { stateWord, verbMark, verbWord } from "../words.js";
import { Mark } from "../icons.js";
import { Exports } from "../exports.js";
import { Condition, Empty, Foreign, Head, Loaded, Table, Time } from "../ui.js";

const PAGE = 100;
const HERE = ["operation_id", "actor", "verb", "since", "until"];

/** One page; what an older server cannot pick is picked here. */
export async function auditPage(query, signal) {
  try { return await get("/v1/audit", { limit: PAGE, ...query }, signal); } catch (problem) {
    if (problem.status !== 400 || !HERE.some(name => query[name])) throw problem;
    const { limit = PAGE, after, ...wanted } = query;
    const page = await call("GET", "/v1/audit", { query: { limit: Math.max(limit, 500), after }, signal });
    const fits = event => Object.entries(wanted).every(([name, value]) => !value || (name === "since" ? event.at >= value : name === "until" ? event.at <= value : name === "actor" ? event.actor.startsWith(value) : event[name] === value));
    return { ...page, events: page.events.filter(fits) };
  }
}

const change = event => {
  const { before, after, setting } = event;
  if (before === null && after === null) return "–";
  // What is made has no former value, what is taken away has none afterwards; a class of retention falls back to the configuration.
  if (setting && !setting.startsWith("retention/")) return before === null ? visible(after) : after === null ? html`<s>${visible(before)}</s>` : `${visible(before)} → ${visible(after)}`;
  const word = value => (setting ? visible(value ?? "as configured") : stateWord(value ?? "absent"));
  return before === after ? word(after) : `${word(before)} → ${word(after)}`;
};

/** The columns, on this screen and on a claim's. */
export const COLUMNS = [
  { name: "When", of: event => html`<${Time} at=${event.at} exact />` },
  { name: "What", of: event => html`<span class="row-mark"><${Mark} kind=${event.refused ? "refused" : verbMark(event.verb)} />${verbWord(event.verb)}${event.refused ? html` · refused: <code>${event.refused}</code>` : ""}</span>` },
  { name: "Who", of: event => visible(event.actor || "the holder") },
  { name: "About", of: event => event.operation_id ? html`<a href=${link(["claims", event.operation_id])}>${event.key ? html`<${Foreign} text=${event.key} most=${32} />` : html`<code>${event.operation_id.slice(0, 15)}…</code>`}</a>` : html`<${Foreign} text=${event.setting ?? "–"} most=${34} />` },
  { name: "Change", of: change },
  { name: "Reason", of: event => html`<span class="reason" title=${visible(event.reason)}>${event.reason === event.verb ? "–" : visible(event.reason) || "–"}</span>` },
];

const CSV = ["at", "verb", "actor", "operation_id", "key", "tenant", "epoch", "before", "after", "setting", "reason", "refused"].map(name => [name, event => event[name]]);

export const eventId = event => event.id ?? `${event.at} ${event.verb} ${event.operation_id ?? event.setting}`;

export function Audit({ place }) {
  const { verb = "", actor = "", operation_id = "" } = place.query;
  const filter = { verb, actor, operation_id };
  const [more, setMore] = useState([]);
  const from = useData(JSON.stringify(filter), signal => { setMore([]); return auditPage(filter, signal); }, "audit");
  const pages = from.data ? [from.data, ...more] : [];
  const events = pages.flatMap(page => page.events);
  const next = pages.at(-1)?.next;
  const load = async () => setMore([...more, await auditPage({ ...filter, after: next })]);
  return html`<${Head} title="Audit" note="What was decided, by whom, and why." actions=${html`<${Exports} screen="audit" filter=${filter} columns=${CSV} page=${async after => { const page = await auditPage({ ...filter, after, limit: 1000 }); return { rows: page.events, next: page.next }; }} />`} />
    <div class="filters"><${Condition} id="f-verb" label="verb" value=${verb} on=${value => refine({ verb: value })} list="verbs" /><datalist id="verbs">${["resolve-release", "resolve-settle", "reopen", "purge", "erase", "note", "settle-refused"].map(name => html`<option key=${name} value=${name} />`)}</datalist>
      <${Condition} id="f-actor" label="actor" value=${actor} on=${value => refine({ actor: value })} /><${Condition} id="f-op" label="operation id" size=${34} value=${operation_id} on=${value => refine({ operation_id: value })} /></div>
    <section class="card"><${Loaded} from=${from} what="The audit">${() => events.length === 0 ? html`<${Empty}>${verb || actor || operation_id ? "Nothing of this kind." : "Nothing has been decided yet."}<//>` : html`<${Table} caption="Audit" columns=${COLUMNS} rows=${events} id=${eventId} />`}<//>
    ${next && html`<footer><button class="btn small" type="button" onClick=${load}>Load more</button></footer>`}</section>`;
}

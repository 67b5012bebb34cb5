// The overview: is it well, since when, whose traffic is odd. Every number leads to the rows that it is made of.
import { html, useEffect, useState } from "../html.js";
import { get } from "../api.js";
import { refresh, useData, windows } from "../pulse.js";
import { send, useStore } from "../store.js";
import { go, link, scope } from "../route.js";
import { count, percent, plural, rate, visible } from "../text.js";
import { age, left, shown, span } from "../time.js";
import { Bar, Lines, Spark, Traffic as Chart, ms } from "../chart.js";
import { notBefore, doubts } from "../data.js";
import { Icon, Mark } from "../icons.js";
import { Exports } from "../exports.js";
import { CSV, whose } from "./requests.js";
import { Card, Empty, Head, Loaded, NotHere, Skeleton, Table } from "../ui.js";

const sum = (samples, name) => samples.reduce((all, sample) => all + (sample[name] ?? 0), 0);
const seconds = samples => samples.reduce((all, sample) => all + (sample.step_s ?? 10), 0) || 1;
/** The last minute, so that a tile does not flicker. */
const lately = samples => { const step = samples.at(-1)?.step_s ?? 10; return samples.slice(-Math.max(1, Math.round(60 / step))); };

/** How it is, worst first, in one sentence made by rules. */
export function sentence(pulse, silentSince) {
  if (!pulse) return "Asking …";
  if (silentSince) return `Not known since ${shown(silentSince)}: the server does not answer.`;
  if (pulse.ledger?.up === false) return `The ledger does not answer${pulse.ledger.since ? ` since ${shown(pulse.ledger.since)}` : ""}.`;
  if (pulse.ready === false) return `Not ready: ${(pulse.reasons ?? []).map(visible).join("; ")}`;
  // Just started: nothing store-wide is counted yet, and zero would be a claim.
  if (pulse.ledger?.took_us === null) return "Serving. The ledger has not been asked yet.";
  const samples = pulse.samples ?? [];
  const said = ["Serving. The ledger answers."];
  const rose = sum(samples, "in_doubt");
  const last = [...samples].reverse().find(sample => sample.in_doubt > 0);
  if (rose) said.push(`${plural(rose, "claim")} became in doubt, last at ${shown(last.at, { short: true })}.`);
  const failing = pulse.upstreams ?? [];
  if (failing.length) said.push(`Failures of ${failing.map(one => `${visible(one.name)}, last at ${shown(one.last_at, { short: true })}`).join("; ")}.`);
  if (said.length === 1 && sum(samples, "unavailable")) said.push(`${count(sum(samples, "unavailable"))} requests found the ledger away.`);
  if (said.length === 1 && sum(samples, "mismatch") > sum(samples, "replayed") / 10 && sum(samples, "mismatch") > 2) said.push("Many keys are used for different requests.");
  const waits = Object.values(pulse.attention ?? {}).reduce((all, number) => all + number, 0);
  if (said.length === 1) said.push(waits ? `${plural(waits, "thing waits", "things wait")} for a person.` : "All is well.");
  return said.join(" ");
}

const Att = ({ hot, mark, title, note, to }) => html`<a class=${`att ${hot ? "hot" : ""}`} href=${to}><${Mark} kind=${mark} extra="mark" /><strong>${title}</strong><span>${note}</span><span class="go"><${Icon} name="go" /></span></a>`;

function Attention() {
  const attention = useStore(state => state.pulse?.attention) ?? {};
  const many = attention.in_doubt ?? 0;
  const { data } = useData(`att ${many}`, signal => (many ? doubts(scope(), signal) : Promise.resolve(null)), many ? "claims" : null);
  const oldest = data?.claims.map(claim => claim.doubt.since).sort()[0];
  const free = data?.claims.filter(claim => { const from = notBefore(claim); return !from || left(from) <= 0; }).length;
  const others = [["approvals", "approval waits", "approvals wait", "person", "a step of an agent"], ["alerts", "alert", "alerts", "doubt", "of the gate's rules"], ["late", "late outcome disagrees", "late outcomes disagree", "mismatch", "with what an operator stated"], ["damaged", "damaged record", "damaged records", "refused", "cannot be read"]];
  const shownOnes = others.filter(([name]) => attention[name] > 0);
  if (!many && shownOnes.length === 0) return null;
  return html`<div class="attention">${many > 0 && html`<${Att} hot mark="doubt" title=${`${plural(many, "claim")} in doubt`} note=${oldest ? `oldest ${age(oldest)} · ${count(free)} can be released now` : "store-wide"} to="#/attention/in-doubt" />`}
    ${shownOnes.map(([name, one, several, mark, note]) => html`<${Att} key=${name} mark=${mark} title=${plural(attention[name], one, several)} note=${note} to=${link(["attention", name])} />`)}</div>`;
}

const Tile = ({ name, swatch, value, unit, note, to }) => html`<a class="tile" href=${to}><span class="k">${swatch && html`<i class=${`swatch ${swatch}`}></i>`}${name}</span><span class="v">${value}${unit && html`<small>${unit}</small>`}</span><span class="d">${note}</span></a>`;

function Tiles({ samples, window }) {
  const to = event => link(["requests"], { ...scope(), event, window });
  const now = lately(samples), per = seconds(now);
  const all = ["executed", "replayed", "attached", "passed", "mismatch", "in_doubt", "refused", "invalid", "unavailable", "released", "other"].reduce((sum_, name) => sum_ + sum(now, name), 0);
  const keyed = sum(now, "executed") + sum(now, "replayed") + sum(now, "attached");
  const latency = (name, at) => [...samples].reverse().map(sample => sample.latency?.[name]?.[at]).find(value => value !== undefined && value !== null);
  const [, p99, unit] = ms(latency("executed", 1)).match(/^(.*?) ?(m?s)?$/);
  return html`<section class="tiles" aria-label="Now">
    <${Tile} name="Requests" value=${rate(all / per)} unit="/s" note="this instance, last minute" to=${to()} />
    <${Tile} name="Executed" swatch="executed" value=${rate(sum(now, "executed") / per)} unit="/s" note="the work ran" to=${to("executed")} />
    <${Tile} name="Replayed" swatch="replayed" value=${rate(sum(now, "replayed") / per)} unit="/s" note="the first answer again" to=${to("replayed")} />
    <${Tile} name="Attached" swatch="attached" value=${rate(sum(now, "attached") / per)} unit="/s" note="waited for the first" to=${to("attached")} />
    <${Tile} name="Hit rate" value=${keyed ? ((100 * (keyed - sum(now, "executed"))) / keyed).toFixed(1) : "–"} unit=${keyed ? "%" : ""} note="answered without running" to=${to("replayed")} />
    <${Tile} name="p99 executed" value=${p99} unit=${unit} note=${`replayed ${ms(latency("replayed", 1))}`} to=${to("executed")} />
  </section>`;
}

const LANES = [["in_doubt", "in doubt"], ["mismatch", "mismatch"], ["refused", "refused"]].map(([name, words]) => [name, words, sample => (sample[name] ?? 0) + (name === "refused" ? sample.invalid ?? 0 : 0)]);

const SECONDS = { "15m": 900, "1h": 3600, "6h": 21600, "24h": 86400 };
/** The steps of the whole window: those before the process counted are empty, so that the axis is always as long. */
export function whole(samples, window) {
  if (samples.length === 0) return samples;
  const step_s = samples[0].step_s || 10, first = Date.parse(samples[0].at), missing = Math.round(SECONDS[window] / step_s) - samples.length;
  const before = Array.from({ length: Math.max(0, missing) }, (_, at) => ({ at: new Date(first - 1000 * step_s * (missing - at)).toISOString(), step_s, before: true }));
  return [...before, ...samples];
}

const stepTable = [{ name: "Step", of: sample => shown(sample.at) }, ...["executed", "replayed", "attached", "in_doubt", "mismatch", "refused"].map(name => ({ name: name.replace("_", " "), num: true, of: sample => count(sample[name] ?? 0) }))];

function Traffic({ samples, since, window }) {
  const [table, setTable] = useState(false);
  const { data } = useData("decided", signal => get("/v1/audit", { limit: 50 }, signal), "audit");
  const times = (data?.events ?? []).filter(event => event.operation_id && !event.refused).map(event => Date.parse(event.at));
  const within = sample => { const from = Date.parse(sample.at), until = from + 1000 * (sample.step_s ?? 10); return times.filter(time => time >= from && time < until).length; };
  const open = sample => go(["claims"], { ...scope(), opened_after: sample.at, opened_before: new Date(Date.parse(sample.at) + 1000 * (sample.step_s ?? 10)).toISOString() });
  const legend = html`<div class="legend">${["executed", "replayed", "attached"].map(name => html`<span key=${name}><i class=${`swatch ${name}`}></i>${name}</span>`)}</div><button class="btn quiet small" type="button" aria-pressed=${table} onClick=${() => setTable(!table)}>Table</button>`;
  return html`<${Card} title="Traffic" note=${`this instance, ${span(1000 * (samples.at(-1)?.step_s ?? 10))} steps`} actions=${legend} flush=${table}>${samples.length === 0 ? html`<${Empty}>Collecting since ${since ? shown(since) : "just now"}.<//>` : table ? html`<div class="tall"><${Table} caption="Traffic by step" columns=${stepTable} rows=${[...samples].reverse()} id=${sample => sample.at} /></div>` : html`<${Chart} samples=${whole(samples, window)} lanes=${[...LANES, ["decided", "decided", within]]} open=${open} />`}<//>`;
}

const of = (name, at) => sample => sample.latency?.[name]?.[at] ?? null;
const LINES = [["executed p50", "l-executed", of("executed", 0)], ["executed p99", "l-executed l-dash", of("executed", 1)], ["replayed p50", "l-replayed", of("replayed", 0)], ["replayed p99", "l-replayed l-dash", of("replayed", 1)]];

function Health({ pulse }) {
  const { ledger, session, sweep, spool } = pulse, counts = ledger?.took_us === null ? null : pulse.counts;
  const row = (well, name, value) => html`<li key=${name}><${Mark} kind=${well ? "settled" : "doubt"} />${name}<b>${value}</b></li>`;
  return html`<${Card} title="Health" note="store-wide where it says kept"><ul class="health">
    ${row(pulse.ready !== false, pulse.ready === false ? "Not ready" : "Ready", (pulse.reasons ?? []).length ? (pulse.reasons ?? []).map(visible).join("; ") : "serving")}
    ${ledger && row(ledger.up !== false, ledger.up === false ? "Ledger away" : "Ledger takes claims", ledger.up !== false && ledger.took_us ? ms(ledger.took_us / 1000) : "–")}
    ${session && row(session.left_ms > 3000, "Session renewed", `${span(session.left_ms)} left`)}
    ${sweep && row((sweep.lag_s ?? 0) < 60, (sweep.lag_s ?? 0) < 60 ? "Sweep up to date" : `Sweep ${span(1000 * sweep.lag_s)} behind`, sweep.lag_s ? `${span(1000 * sweep.lag_s)} ago` : "now")}
    ${spool && row(!spool.owed, spool.waiting ? "Spool holds outcomes" : "Spool empty", `${count(spool.waiting)} on disk · ${count(spool.owed)} owed`)}
    ${(pulse.upstreams ?? []).map(one => row(false, html`<a href="#/instance">Upstream ${visible(one.name)}</a>`, `${plural(one.failures, "failure")}, last ${age(one.last_at)} ago`))}
    ${counts && row(true, "Claims kept", html`<a href="#/claims">${count(counts.held + counts.settled + counts.in_doubt + counts.released)}</a>`)}
    ${counts && row(counts.in_doubt === 0, "In doubt", html`<a href="#/attention/in-doubt">${count(counts.in_doubt)}</a>`)}</ul><//>`;
}

const perS = (row, page) => row.requests / Math.max(1, (Date.parse(page.until) - Date.parse(page.since)) / 1000);
const COLUMNS = page => [
  { name: "Where", of: row => html`<a class="path" href=${link(["requests"], { tenant: row.tenant, project: row.project, endpoint: row.endpoint })}>${whose(row.tenant)}<i>/</i>${row.tenant.startsWith("_") ? "" : html`${visible(row.project)}<i>/</i>`}<span class="mono">${visible(row.endpoint)}</span></a>` },
  { name: "Requests/s", sort: "requests", num: true, of: row => rate(perS(row, page)) }, { name: "Hit rate", sort: "hit_rate", num: true, of: row => percent(row.hit_rate) },
  { name: "bar", label: html`<span class="visually-hidden">Hit rate as a bar</span>`, of: row => html`<${Bar} part=${row.hit_rate} />` },
  { name: "Mismatch", sort: "mismatch", num: true, of: row => (row.mismatch ? html`<a href=${link(["requests"], { tenant: row.tenant, project: row.project, endpoint: row.endpoint, event: "mismatch" })}>${count(row.mismatch)}</a>` : "–") },
  { name: "In doubt", sort: "in_doubt", num: true, of: row => (row.in_doubt ? html`<a class="fg-doubt" href=${link(["claims"], { tenant: row.tenant, project: row.project, state: "in_doubt" })}><b>${count(row.in_doubt)}</b></a>` : "–") },
  { name: "p50", sort: "p50_ms", num: true, of: row => ms(row.p50_ms) }, { name: "p99", sort: "p99_ms", num: true, of: row => ms(row.p99_ms) }, { name: "30 min", of: row => html`<${Spark} values=${[...Array(Math.max(0, 30 - row.spark.length)).fill(0), ...row.spark]} />` },
];

function Where({ window }) {
  const [sort, setSort] = useState("requests");
  const { tenant, project } = scope();
  const from = useData(`traffic ${window}`, signal => get("/v1/traffic", { window, limit: 50 }, signal), ["claims", "traffic"]);
  const mine = page => page.rows.filter(row => (!tenant || row.tenant === tenant) && (!project || row.project === project)).sort((one, other) => (other[sort] ?? -1) - (one[sort] ?? -1));
  const page = async () => ({ rows: mine(await get("/v1/traffic", { window, limit: 200 })), next: null });
  return html`<${Card} title="By tenant, project, endpoint" note=${`last ${windows[window]}, this instance`} flush actions=${html`<${Exports} screen="traffic" filter=${{ window, tenant, project }} columns=${CSV} page=${page} />`}><${Loaded} from=${from} what="Traffic by endpoint">${data => { const rows = mine(data); return rows.length === 0 ? html`<${Empty}>No request with a known caller yet.<//>` : html`<${Table} caption="Traffic by tenant, project and endpoint" columns=${COLUMNS(data)} rows=${rows} id=${row => `${row.tenant} ${row.project} ${row.endpoint}`} sorted=${sort} onSort=${setSort} />`; }}<//><footer class="muted">Hit rate: answers that came from an earlier request, of all requests with a key. p50 and p99 are the endpoint's since this instance started.</footer><//>`;
}

export function Overview({ place }) {
  const pulse = useStore(state => state.pulse), silentSince = useStore(state => state.silentSince);
  const window = place.query.window in windows ? place.query.window : "15m";
  useEffect(() => { send({ type: "set", window }); refresh(); }, [window]);
  const pick = html`<div class="seg" role="group" aria-label="Window">${Object.entries(windows).map(([name, words]) => html`<button key=${name} type="button" aria-pressed=${name === window} onClick=${() => go([], { ...scope(), window: name })}>${words}</button>`)}</div>`;
  const samples = pulse?.samples;
  return html`<${Head} title="Overview" note=${sentence(pulse, silentSince)} actions=${pick} /><${Attention} />
    ${!pulse ? html`<${Skeleton} rows=${6} />` : samples ? html`<${Tiles} samples=${samples} window=${window} /><div class="stack"><${Traffic} samples=${samples} since=${pulse.since} window=${window} /><div class="cols two even"><${Card} title="Latency" note="head to head, logarithmic"><${Lines} samples=${whole(samples, window)} lines=${LINES} /><//><${Health} pulse=${pulse} /></div><${Where} window=${window} /></div>`
      : html`<div class="stack"><${Card} title="Traffic"><${NotHere} what="The history of traffic" /><//><${Health} pulse=${pulse} /></div>`}`;
}

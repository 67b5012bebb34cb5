// Claims: found by what they are; a condition that scans says how far it has looked.
import { html, useEffect, useRef, useState } from "../html.js";
import { absent, get } from "../api.js";
import { newestPage } from "../data.js";
import { useData } from "../pulse.js";
import { copy } from "../copy.js";
import { useKeys } from "../keys.js";
import { go, link, refine } from "../route.js";
import { count, plural, visible } from "../text.js";
import { DOUBTS, STATES } from "../words.js";
import { Exports } from "../exports.js";
import { Condition, Empty, Foreign, Head, Loaded, Note, ProblemNote, Select, State, Table, Time } from "../ui.js";

const NAMES = ["tenant", "project", "operation", "subject", "key", "state", "doubt", "age", "opened_after", "opened_before"];
const HITS = 50, PATIENCE = 60000;

const answer = claim => claim.outcome ? (claim.outcome.status ?? claim.outcome.kind.replace("_", " ")) : claim.ran === "perhaps" ? "may have run" : "–";

/** The columns of claims, here and where claims are compared. */
export const COLUMNS = [
  { name: "State", of: claim => html`<${State} state=${claim.state} />` },
  { name: "Key", of: claim => html`<a href=${link(["claims", claim.operation_id])}><${Foreign} text=${claim.key} most=${40} /></a>` },
  { name: "Tenant / project", of: claim => `${claim.tenant} / ${claim.project}` },
  { name: "Operation", of: claim => html`<code>${visible(claim.operation)}</code>` },
  { name: "Subject", of: claim => html`<${Foreign} text=${claim.subject} most=${36} />` },
  { name: "Opened", of: claim => html`<${Time} at=${claim.opened_at} />` },
  { name: "Answer", of: answer },
  { name: "Kept until", of: claim => html`<${Time} at=${claim.keep_until} short />` },
];

export const CSV = ["operation_id", "state", "key", "tenant", "project", "subject", "operation", "source", "scope", "epoch", "rerun", "opened_at", "granted_at", "settled_at", "keep_until", "released_at"].map(name => [name, claim => claim[name]]).concat([["doubt", claim => claim.doubt?.reason], ["outcome", claim => claim.outcome?.kind], ["status", claim => claim.outcome?.status]]);

/** Looks on, page by page, until there are enough hits, the end, a stop, or a minute has passed. */
function useScan(filter) {
  const key = JSON.stringify(filter);
  const [found, set] = useState({ key, claims: [], damaged: [], looked: 0, next: null, oldest: false, running: true, problem: null });
  const run = useRef(null);
  const look = async (after, wanted, oldest) => {
    const mine = { stopped: false };
    run.current = mine;
    const until = Date.now() + PATIENCE;
    let hits = 0;
    do {
      try {
        const page = await newestPage({ ...filter, limit: HITS, after }, undefined, oldest);
        if (mine.stopped) return;
        oldest = Boolean(page.oldest);
        after = page.next; hits += page.claims.length;
        set(now => ({ ...now, claims: merged(now.claims, page.claims), damaged: [...now.damaged, ...(page.damaged ?? [])], looked: now.looked + (page.looked_at ?? page.claims.length), next: page.next ?? null, oldest, running: Boolean(page.next) && hits < wanted && Date.now() < until }));
      } catch (problem) { if (!mine.stopped) set(now => ({ ...now, running: false, problem })); return; }
    } while (after && hits < wanted && Date.now() < until && !mine.stopped);
  };
  useEffect(() => {
    set({ key, claims: [], damaged: [], looked: 0, next: null, oldest: false, running: true, problem: null });
    look(undefined, HITS, false);
    return () => { run.current.stopped = true; };
  }, [key]);
  const stop = () => { run.current.stopped = true; set(now => ({ ...now, running: false })); };
  const more = () => { set(now => ({ ...now, running: true, problem: null })); look(found.next ?? undefined, HITS, found.oldest); };
  const fresh = claims => set(now => ({ ...now, claims: merged(claims, now.claims.map(claim => claims.find(one => one.operation_id === claim.operation_id) ?? claim)) }));
  return { ...found, stop, more, fresh };
}

const merged = (first, then) => { const known = new Set(first.map(claim => claim.operation_id)); return [...first, ...then.filter(claim => !known.has(claim.operation_id))]; };

/** New claims on top, and what became of those that are shown. */
function useFresh(filter, scan) {
  const { data } = useData(`fresh ${scan.oldest} ${JSON.stringify(filter)}`, signal => newestPage({ ...filter, limit: HITS }, signal, scan.oldest), "claims");
  const first = useRef(null);
  useEffect(() => { if (data && first.current && data !== first.current && !scan.running) scan.fresh(data.claims); first.current = data; }, [data]);
}

function Counts({ filter }) {
  const { tenant, project, operation } = filter;
  const { data } = useData(`count ${tenant} ${project} ${operation}`, signal => get("/v1/claims/count", { tenant, project, operation }, signal), "claims");
  if (!data) return null;
  return html`${plural(data.settled, "claim is", "claims are")} settled · ${count(data.held)} held · ${count(data.in_doubt)} in doubt · ${count(data.released)} released`;
}

function Filters({ filter }) {
  const field = (name, words, wide) => html`<${Condition} id=${`f-${name}`} label=${words} value=${filter[name]} size=${wide} on=${value => refine({ [name]: value, find: "" })} />`;
  return html`<div class="filters">
    <${Select} id="f-state" label="State" value=${filter.state} on=${state => refine({ state, doubt: "" })} options=${[["", "any state"], ...Object.entries(STATES).map(([name, [word]]) => [name, word])]} />
    ${filter.state === "in_doubt" && html`<${Select} id="f-doubt" label="Reason of the doubt" value=${filter.doubt} on=${doubt => refine({ doubt })} options=${[["", "any reason"], ...Object.keys(DOUBTS).map(name => [name, name])]} />`}
    ${field("key", "key", 18)}${field("operation", "operation")}${field("subject", "subject")}${field("tenant", "tenant", 10)}${field("project", "project", 10)}
    <${Select} id="f-age" label="Age" value=${filter.age} on=${age => refine({ age })} options=${[["", "any age"], ["15m", "older than 15 min"], ["1h", "older than 1 h"], ["24h", "older than 24 h"], ["7d", "older than 7 d"]]} />
    ${(filter.opened_after || filter.opened_before) && html`<button class="chip" type="button" aria-pressed="true" aria-label="Opened at any time again" onClick=${() => refine({ opened_after: "", opened_before: "" })}>opened <${Time} at=${filter.opened_after} /> – <${Time} at=${filter.opened_before} /> ×</button>`}
    ${NAMES.some(name => filter[name]) && html`<a class="btn quiet small" href="#/claims">Clear</a>`}</div>`;
}

/** How far it has looked; without an end it says so. */
function Progress({ scan, filter }) {
  const narrow = NAMES.some(name => filter[name]);
  if (scan.running) return html`<div class="progress" role="status"><progress aria-label="Looking"></progress><span>looked at ${count(scan.looked)} · ${count(scan.claims.length)} found …</span><button class="btn small" type="button" onClick=${scan.stop}>Stop</button></div>`;
  if (scan.problem && scan.claims.length === 0) return null;
  const order = scan.oldest && html`<span>Oldest first: there are more than 1,000 shelves of tenant, project and operation. Name a tenant for the newest.</span>`;
  return html`<div class="progress" role="status"><span>${scan.problem ? `looked at ${count(scan.looked)}, not at all` : scan.next ? `looked at ${count(scan.looked)} so far` : narrow ? `looked at all ${count(scan.looked)}` : `all ${count(scan.looked)}`}${narrow ? ` · ${count(scan.claims.length)} found` : ""}</span>${order}${scan.next && html`<button class="btn small" type="button" onClick=${scan.more}>Load more</button>`}</div>`;
}

/** Where the caller is known, a key is found by point reads. */
function Lookup({ query }) {
  const { tenant, project, subject, key, operation } = query;
  const from = useData(JSON.stringify(query), signal => get("/v1/claims/lookup", { tenant, project, subject, key, operation }, signal), null);
  useEffect(() => {
    if (from.data?.claims.length === 1) location.replace(link(["claims", from.data.claims[0].operation_id]));
    if (absent(from.problem)) refine({ find: "" });
  }, [from.data, from.problem]);
  return html`<${Loaded} from=${from} what="The lookup">${data => data.claims.length === 0 ? html`<${Empty}>No claim has this key: looked at all ${count(data.looked_at)} places where it could be.<//>` : html`<${Table} caption="Claims with this key" columns=${COLUMNS} rows=${data.claims} id=${claim => claim.operation_id} />`}<//>`;
}

export function Claims({ place }) {
  const filter = Object.fromEntries(NAMES.filter(name => place.query[name]).map(name => [name, place.query[name]]));
  return place.query.find ? html`<${Head} title="Claims" /><${Filters} filter=${filter} /><section class="card"><${Lookup} query=${filter} /></section>` : html`<${List} filter=${filter} />`;
}

function List({ filter }) {
  const scan = useScan(filter);
  const [at, setAt] = useState(0);
  useFresh(filter, scan);
  const one = scan.claims[at];
  const move = by => { if (scan.claims.length === 0) return; const next = Math.min(scan.claims.length - 1, Math.max(0, at + by)); setAt(next); document.querySelectorAll("tbody tr")[next]?.scrollIntoView({ block: "nearest" }); };
  useKeys({ j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1), c: () => one && copy(one.operation_id), o: () => one && window.open(link(["claims", one.operation_id]), "_blank", "noopener"),
    Enter: event => { if (event.target.closest("a, button, summary") || !one) return false; go(["claims", one.operation_id]); } });
  let oldest = false;
  const page = async after => { const got = await newestPage({ ...filter, limit: 1000, after }, undefined, after !== undefined && oldest); oldest = Boolean(got.oldest); return { rows: got.claims, next: got.next }; };
  return html`<${Head} title="Claims" note=${html`<${Counts} filter=${filter} />`} actions=${html`<a class="btn quiet small" href=${link(["delegated"], { tenant: filter.tenant })}>Kept by a cluster</a><${Exports} screen="claims" filter=${filter} columns=${CSV} page=${page} />`} />
    <${Filters} filter=${filter} /><${Progress} scan=${scan} filter=${filter} />
    ${scan.problem && html`<${ProblemNote} problem=${scan.problem} again=${scan.more} />`}
    ${scan.damaged.length > 0 && html`<${Note} kind="doubt"><b>${plural(scan.damaged.length, "record")} cannot be read</b> and ${scan.damaged.length === 1 ? "is" : "are"} passed by: ${scan.damaged.slice(0, 5).map(one => html`<code key=${one.id}>${visible(one.id)}</code> ${visible(one.error)} `)}<//>`}
    <section class="card">${scan.claims.length === 0 && !scan.running && !scan.problem ? html`<${Empty}>${Object.keys(filter).length ? `No such claim: looked at all ${count(scan.looked)}.` : "No claims yet. The first request with a key makes one."}<//>` : html`<${Table} caption="Claims" columns=${COLUMNS} rows=${scan.claims} id=${claim => claim.operation_id} current=${at} onSelect=${setAt} />`}</section>`;
}

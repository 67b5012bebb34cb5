// One claim: what it is, its life, what is kept of its answer, what else was asked alike, and what can be decided.
import { html, useEffect, useRef, useState } from "../html.js";
import { get } from "../api.js";
import { useData } from "../pulse.js";
import { copy } from "../copy.js";
import { useKeys } from "../keys.js";
import { link } from "../route.js";
import { count, plural, visible } from "../text.js";
import { ofAgent } from "../words.js";
import { span } from "../time.js";
import { Icon } from "../icons.js";
import { useStore } from "../store.js";
import { Act, Age, Badge, Card, Code, Copy, Empty, Facts, Foreign, Head, Loaded, Note, ProblemNote, State, Table, Tag, Time } from "../ui.js";
import { Timeline } from "./timeline.js";
import { Answer } from "./answer.js";
import { ClaimDecision } from "./decision.js";
import { COLUMNS as AUDIT_COLUMNS, auditPage, eventId } from "./audit.js";

const path = id => `/v1/claims/${encodeURIComponent(id)}`;

export function Claim({ id }) {
  const from = useData(id, signal => get(path(id), {}, signal), "claims");
  if (from.problem?.status === 404) return html`<${Gone} id=${id} problem=${from.problem} />`;
  if (from.problem?.status === 400) return html`<${Head} title="Claim" /><${ProblemNote} problem=${from.problem} />`;
  return html`<${Loaded} from=${from} what="The claim" rows=${8}>${claim => html`<${Page} claim=${claim} again=${from.again} />`}<//>`;
}

/** No such claim: with what the audit still knows of it. */
function Gone({ id, problem }) {
  return html`<${Head} title="No such claim" note=${html`<code>${visible(id)}</code>`} /><div class="stack"><${Note}>${visible(problem.detail)}<//><${AuditOf} id=${id} /></div>`;
}

function AuditOf({ id }) {
  const from = useData(`audit ${id}`, signal => auditPage({ operation_id: id }, signal), "audit");
  const columns = AUDIT_COLUMNS.filter(column => column.name !== "About");
  return html`<${Card} title="Audit of this claim" flush><${Loaded} from=${from} what="The audit">${page => page.events.length === 0 ? html`<${Empty}>Nothing was decided about it.<//>` : html`<${Table} caption="Audit of this claim" columns=${columns} rows=${page.events} id=${eventId} />`}<//><//>`;
}


function About({ claim }) {
  const digest = claim.fingerprint.digest;
  const { data } = useData("routes", signal => get("/v1/routes", {}, signal), "routes");
  const links = fitting(useStore(state => state.me?.links), claim);
  const route = data?.routes.find(one => one.operation === claim.operation || one.first_name === claim.operation);
  return html`<${Card} title="Claim"><${Facts} rows=${[
    ["operation id", html`<${Code}>${claim.operation_id}<//> <${Copy} text=${claim.operation_id} what="the operation id" />`],
    ["tenant / project", html`<a href=${link(["claims"], { tenant: claim.tenant })}>${claim.tenant}</a> / <a href=${link(["claims"], { tenant: claim.tenant, project: claim.project })}>${claim.project}</a>`],
    ["subject", html`<${Foreign} text=${claim.subject} />`],
    ["operation", html`<a href=${link(["routes", claim.operation])}><code>${visible(claim.operation)}</code></a> ${route && html`<span class="muted">${route.method} ${visible(route.path)} → ${visible(claim.upstream ?? route.upstream)}</span>`}`],
    ["key", html`<${Foreign} text=${claim.key} /> <${Tag}>${claim.source}<//> <${Tag}>scope ${claim.scope}<//>`],
    claim.upstream_key && ["key sent on", html`<${Code}>${visible(claim.upstream_key)}<//> <${Copy} text=${claim.upstream_key} what="the key that was sent on" />`],
    ["epoch", html`<${Code}>${claim.epoch}<//> <span class="muted">x-operation-epoch ${claim.operation_epoch}</span>`],
    claim.holder && [claim.state === "held" ? "held by" : "was held by", html`${visible(claim.holder.instance ?? `session ${claim.holder.session}`)} <span class="muted">${claim.holder.alive ? html`session until <${Time} at=${claim.holder.until} />` : "its session has ended"}</span>`],
    ["rerun", html`${claim.rerun}${route?.give_up ? html` <span class="muted">· gives up after ${route.give_up}</span>` : ""}`],
    ["fingerprint", html`<${Code}>${digest.slice(0, 8)}…${digest.slice(-8)}<//> <${Copy} text=${digest} what="the fingerprint" />`],
    links.length > 0 && ["elsewhere", html`<${LinksOut} claim=${claim} />`],
    ["opened", html`<${Time} at=${claim.opened_at} exact zone /> <span class="muted"><${Age} at=${claim.opened_at} /> ago</span>`],
    claim.state === "held" && ["runs until", claim.run_until ? html`<${Time} at=${claim.run_until} exact zone />` : "no bound"],
    claim.state === "in_doubt" && ["may run until", html`<${Time} at=${claim.may_run_until} exact zone />`],
    claim.state === "settled" && ["kept until", claim.keep_until ? html`<${Time} at=${claim.keep_until} exact zone /> <span class="muted">${visible(route?.retention?.class)}</span>` : "for ever"],
  ]} /><//>`;
}

const places = claim => ({ ...claim, from: claim.opened_at, to: claim.settled_at ?? claim.opened_at });
const PLACE = /\{(\w+)\}/g;
const fill = (url, claim) => url.replace(PLACE, (all, name) => encodeURIComponent(places(claim)[name]));
/** Those of the web whose places the claim can fill. */
const fitting = (links, claim) => (links ?? []).filter(({ url }) => /^https?:\/\//.test(url) && [...url.matchAll(PLACE)].every(([, name]) => places(claim)[name] !== undefined));

/** Links to other tools, as configured. */
export function LinksOut({ claim }) {
  return fitting(useStore(state => state.me?.links), claim).map(({ name, url }) => html` <a key=${name} class="btn small" target="_blank" rel="noopener noreferrer" href=${fill(url, claim)}>${visible(name)}</a>`);
}

const MOST = 20;
const nearest = (claims, claim) => { const far = one => Math.abs(Date.parse(one.opened_at) - Date.parse(claim.opened_at)); return [...claims].sort((one, other) => far(one) - far(other)); };

/** Other claims with this key, or with this request: what "charged twice" is mostly made of. */
function Related({ claim, from }) {
  return html`<${Card} title="Same key, same request" note="the key on other operations; the same request within an hour" flush><${Loaded} from=${from} what="The comparison with other claims">${({ same_key = [], same_request = [] }) => {
    const all = [...nearest(same_request, claim).map(one => ({ ...one, same: true })), ...same_key.filter(one => !same_request.some(other => other.operation_id === one.operation_id))];
    const rows = all.slice(0, MOST);
    if (rows.length === 0) return html`<${Empty}>No other claim has this key, and none asks for the same${fate(claim) === "ran" ? ": it ran under this key alone" : ""}.<//>`;
    const columns = [
      { name: "Key", of: one => html`<a href=${link(["claims", one.operation_id])}><${Foreign} text=${one.key} most=${40} /></a>` },
      { name: "State", of: one => html`<${State} state=${one.state} />` },
      { name: "Opened", of: one => html`<${Time} at=${one.opened_at} exact /><span class="sub">${distance(one, claim)}</span>` },
      { name: "Subject", of: one => html`<${Foreign} text=${one.subject} most=${36} />` },
      { name: "Operation", of: one => html`<code>${visible(one.operation)}</code>` },
      { name: "Request", of: one => one.same ? html`<${Badge} kind="mismatch">same request<//>` : html`<span class="muted">another</span>` },
      { name: "Answer", of: one => one.outcome ? one.outcome.status ?? one.outcome.kind.replace("_", " ") : html`<span class="muted">${one.state === "held" ? "runs" : one.ran === "no" ? "did not run" : "–"}</span>` },
    ];
    return html`<${Table} caption="Same key, same request" columns=${columns} rows=${rows} id=${one => one.operation_id} />${all.length > MOST && html`<footer class="muted">The ${MOST} nearest in time of ${count(all.length)}.</footer>`}`;
  }}<//><//>`;
}

const distance = (one, claim) => { const far = Date.parse(one.opened_at) - Date.parse(claim.opened_at); return `${span(Math.abs(far))} ${far < 0 ? "before" : "later"}`; };

/** What is known of the work under a claim. */
const fate = one => (one.state === "settled" ? (one.outcome?.kind === "refused" ? "refused" : "ran") : one.state === "held" ? "runs" : one.ran === "no" ? "not" : "unknown");
const FATES = {
  ran: status => `was executed too${status ? ` (${status})` : ""}`, refused: status => `was refused by the service${status ? ` (${status})` : ""}`,
  runs: () => "runs now", not: () => "did not run", unknown: () => "is not known to have run, nor not to have run",
};

function SameRequest({ claim, related }) {
  const alike = related.data?.same_request ?? [], [other] = nearest(alike, claim);
  if (!other) return null;
  return html`<${Note} kind="mismatch" actions=${html`<a class="btn small" href=${link(["claims", other.operation_id])}>Compare</a>`}><b>The same request came under another key.</b> <${Foreign} text=${other.key} /> came ${distance(other, claim)}, ${other.subject === claim.subject ? "from the same caller" : html`from <${Foreign} text=${other.subject} />`}, with the same fingerprint, and ${FATES[fate(other)](other.outcome?.status)}.${alike.length > 1 ? ` ${plural(alike.length - 1, "more key")} asked for it, too.` : ""} Two keys are two intents${fate(claim) === "ran" && fate(other) === "ran" ? ": hapax ran both" : ""}.<//>`;
}

/** A change while somebody looks is shown, and is no surprise. */
function useChange(claim) {
  const seen = useRef(claim);
  const [change, setChange] = useState(null);
  useEffect(() => {
    if (seen.current.epoch !== claim.epoch || seen.current.state !== claim.state) setChange(claim.state);
    seen.current = claim;
  }, [claim]);
  return [change, () => setChange(null)];
}

/** Where a doubt is decided. */
const decided = claim => (ofAgent(claim) ? link(["attention", "approvals"]) : link(["attention", "in-doubt"], { op: claim.operation_id }));

function Page({ claim, again }) {
  const [deciding, setDeciding] = useState(null);
  const [change, looked] = useChange(claim);
  const related = useData(`related ${claim.operation_id}`, signal => get(`${path(claim.operation_id)}/related`, {}, signal), null);
  const decide = verb => setDeciding({ verb, claim });
  useKeys({ c: () => { copy(claim.operation_id); }, d: () => claim.state === "in_doubt" && (location.hash = decided(claim)) });
  const settled = claim.state === "settled";
  const actions = html`<button class="btn" type="button" onClick=${() => copy(location.href)}><${Icon} name="link" />Copy link</button>
    ${claim.state === "in_doubt" && html`<a class="btn primary" href=${decided(claim)}>Decide…</a>`}
    ${settled && html`<${Act} on=${() => decide("reopen")}>Reopen…<//>`}${settled && html`<${Act} on=${() => decide("purge")}>Purge…<//>`}${settled && html`<${Act} on=${() => decide("erase")}>Erase…<//>`}`;
  return html`<div class="crumbs"><a href="#/claims">Claims</a><span>/</span><a href=${link(["claims"], { tenant: claim.tenant })}>${claim.tenant}</a><span>/</span><a href=${link(["claims"], { tenant: claim.tenant, project: claim.project })}>${claim.project}</a><span>/</span><a href=${link(["claims"], { tenant: claim.tenant, project: claim.project, operation: claim.operation })}>${visible(claim.operation)}</a></div>
    <${Head} title=${`Claim ${visible(claim.key)}`} actions=${actions}><div class="claim-head" data-operation-id=${claim.operation_id} data-tenant=${claim.tenant}><${State} state=${claim.state} big /><h1 class="key"><bdi>${visible(claim.key)}</bdi></h1><${Copy} text=${claim.key} what="the key" /></div><//>
    <div class="stack">
      ${change && html`<${Note} alert actions=${html`<button class="btn small" type="button" onClick=${looked}>Seen</button>`}><b>Changed meanwhile:</b> it is now ${change.replace("_", " ")}.<//>`}
      <${SameRequest} claim=${claim} related=${related} />
      ${claim.state === "held" && html`<${Note}>It runs: wait until it has ended. Nothing can be decided about it before.<//>`}
      <div class="cols two"><${Timeline} claim=${claim} /><div class="stack"><${About} claim=${claim} />${settled && html`<${Answer} claim=${claim} />`}</div></div>
      <${Related} claim=${claim} from=${related} /><${AuditOf} id=${claim.operation_id} />
    </div>${deciding && html`<${ClaimDecision} ...${deciding} close=${() => setDeciding(null)} done=${() => { setDeciding(null); again(); }} />`}`;
}

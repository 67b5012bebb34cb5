// Claims in doubt: the queue, grouped by operation, the desk beside it, what was decided lately, and decisions about many.
import { html, useRef, useState } from "../html.js";
import { doubts, notBefore } from "../data.js";
import { useData } from "../pulse.js";
import { copy } from "../copy.js";
import { useKeys } from "../keys.js";
import { here, link, refine } from "../route.js";
import { plural, shorter, visible } from "../text.js";
import { left, shown, span } from "../time.js";
import { ofAgent, verbMark, verbWord } from "../words.js";
import { Mark } from "../icons.js";
import { Act, Age, Card, Empty, Loaded, Note, Ticking, Time } from "../ui.js";
import { auditPage, eventId } from "./audit.js";
import { Batch } from "./batch.js";
import { Desk } from "./desk.js";

/** By operation, the longest in doubt first. */
function grouped(claims) {
  const groups = new Map();
  for (const claim of claims) groups.set(claim.operation, [...(groups.get(claim.operation) ?? []), claim]);
  return [...groups.entries()];
}

const Left = ({ claim }) => html`<${Ticking} of=${() => { const from = notBefore(claim), wait = from ? left(from) : 0; return wait > 0 ? `may run ${span(wait)}` : "can be released"; }} />`;

function Item({ claim, current, selected, onSelect, onPick }) {
  const { operation_id: id, tenant, project, subject, doubt } = claim;
  return html`<li class=${`item ${current ? "current" : ""}`} data-operation-id=${id} data-tenant=${tenant}>
    <input type="checkbox" aria-label=${`Select ${visible(claim.key)}`} checked=${selected} onClick=${event => onPick(event.shiftKey)} />
    <a class="key" href=${link(["attention", "in-doubt"], { ...here().query, op: id })} aria-current=${current ? "true" : undefined} onClick=${event => { if (event.ctrlKey || event.metaKey || event.shiftKey) return; event.preventDefault(); onSelect(); }} title=${visible(claim.key)}><bdi>${shorter(visible(claim.key))}</bdi></a>
    <span class="age"><${Age} at=${doubt.since} /></span>
    <span class="where">${tenant} / ${project} · ${visible(subject)} · ${doubt.reason}</span><span class="left"><${Left} claim=${claim} /></span></li>`;
}

function Lately() {
  const from = useData("lately", signal => auditPage({ limit: 20 }, signal), "audit");
  const about = (from.data?.events ?? []).filter(event => event.operation_id && !event.refused).slice(0, 6);
  return html`<${Card} title="Decided lately" actions=${html`<a class="btn quiet small" href="#/audit">Audit</a>`} flush>${about.length === 0 ? html`<${Empty}>Nothing yet.<//>` : html`<ul class="lately">${about.map(event => html`<li key=${eventId(event)}><${Mark} kind=${verbMark(event.verb)} /><span><a class="mono" href=${link(["claims", event.operation_id])}>${event.key ? shorter(visible(event.key), 28) : `${event.operation_id.slice(0, 13)}…`}</a> ${verbWord(event.verb)}</span><${Time} at=${event.at} short /><span class="sub">${visible(event.actor || "the holder")} · ${visible(event.reason)}</span></li>`)}</ul>`}<//>`;
}

/** Which are chosen, for a decision about many. */
function useChosen(claims) {
  const [chosen, set] = useState(new Set());
  const last = useRef(null);
  const known = claims.filter(claim => chosen.has(claim.operation_id));
  const pick = (claim, range) => set(now => {
    const next = new Set(now), on = !now.has(claim.operation_id);
    const from = range && last.current !== null ? claims.findIndex(one => one.operation_id === last.current) : -1;
    const at = claims.indexOf(claim);
    const all = from < 0 ? [claim] : claims.slice(Math.min(from, at), Math.max(from, at) + 1);
    all.forEach(one => (on ? next.add(one.operation_id) : next.delete(one.operation_id)));
    last.current = claim.operation_id;
    return next;
  });
  const all = some => set(now => { const next = new Set(now), on = !some.every(one => now.has(one.operation_id)); some.forEach(one => (on ? next.add(one.operation_id) : next.delete(one.operation_id))); return next; });
  return { chosen, known, pick, all, none: () => set(new Set()) };
}

function Queue({ claims, shownOnes, current, select, chosen, reason, setReason, more, batch }) {
  const kinds = [...new Set(claims.map(claim => claim.doubt.reason))].sort();
  const count = kind => claims.filter(claim => claim.doubt.reason === kind).length;
  return html`<section class="card queue" aria-label="Claims in doubt"><header><h2>${claims.length}${more ? "+" : ""} in doubt</h2></header>
    <div class="body"><div class="chips"><button class="chip" type="button" aria-pressed=${!reason} onClick=${() => setReason("")}>all</button>${kinds.map(kind => html`<button class="chip" key=${kind} type="button" aria-pressed=${reason === kind} onClick=${() => setReason(kind)}>${kind} <b>${count(kind)}</b></button>`)}</div></div>
    <div class="bar-top"><input type="checkbox" aria-label="Select all" checked=${shownOnes.length > 0 && shownOnes.every(one => chosen.chosen.has(one.operation_id))} onClick=${() => chosen.all(shownOnes)} /><span>${chosen.known.length} selected</span>
      ${chosen.known.length > 0 ? html`<${Act} small on=${() => batch("release")}>Release…<//><${Act} small on=${() => batch("settle")}>Settle…<//><${Act} small on=${() => batch("note")}>Note…<//>` : html`<span class="top-gap"></span><span class="hide-small"><kbd>j</kbd> <kbd>k</kbd> move · <kbd>x</kbd> select</span>`}</div>
    ${grouped(shownOnes).map(([operation, ones]) => html`<div class="group" key=${`group ${operation}`}><input type="checkbox" aria-label=${`Select all of ${visible(operation)}`} checked=${ones.every(one => chosen.chosen.has(one.operation_id))} onClick=${() => chosen.all(ones)} /><b class="mono">${visible(operation)}</b><span>${ones.length > 1 ? `${ones.length} since ${shown(ones[0].doubt.since)}` : ""}${ones[0].upstream ? ` upstream ${visible(ones[0].upstream)}` : ""}</span></div>
      <ul key=${`list ${operation}`}>${ones.map(claim => html`<${Item} key=${claim.operation_id} claim=${claim} current=${claim.operation_id === current} selected=${chosen.chosen.has(claim.operation_id)} onSelect=${() => select(claim)} onPick=${range => chosen.pick(claim, range)} />`)}</ul>`)}</section>`;
}

const NothingHere = () => {
  const { data } = useData("last", signal => auditPage({ limit: 20 }, signal), "audit");
  const last = data?.events.find(event => /^resolve-/.test(event.verb) && !event.refused);
  return html`<${Empty}>Nothing in doubt. Callers get answers.${last && html` The last one was decided <${Age} at=${last.at} /> ago by ${visible(last.actor)}.`}<//>`;
};

export function InDoubt({ place }) {
  const { tenant, project, op, doubt = "" } = place.query;
  const from = useData(`doubts ${tenant} ${project}`, signal => doubts({ tenant, project }, signal), "claims");
  return html`<${Loaded} from=${from} what="The list of doubts" rows=${8}>${data => html`<${Both} data=${{ ...data, claims: data.claims.filter(claim => !ofAgent(claim)), agents: data.claims.filter(ofAgent).length }} op=${op} reason=${doubt} />`}<//>`;
}

function Both({ data, op, reason }) {
  const { claims, damaged, more, agents } = data;
  const others = agents > 0 && html`<${Note} kind="person" actions=${html`<a class="btn small" href="#/attention/approvals">Approvals</a>`}>${plural(agents, "doubt")} of agents: what they did is decided under Approvals.<//>`;
  const shownOnes = grouped(claims.filter(claim => !reason || claim.doubt.reason === reason)).flatMap(([, ones]) => ones);
  const chosen = useChosen(shownOnes);
  const [many, setMany] = useState(null);
  const listed = shownOnes.findIndex(claim => claim.operation_id === op);
  const current = op ?? shownOnes[0]?.operation_id;
  const at = op ? listed : 0;
  const select = claim => { refine({ op: claim.operation_id }); };
  const focus = id => requestAnimationFrame(() => document.querySelector(`.item[data-operation-id="${id}"] a.key`)?.focus());
  const move = by => { const next = shownOnes[Math.min(shownOnes.length - 1, Math.max(0, at + by))]; if (next) { select(next); focus(next.operation_id); } };
  /** The next one under the cursor, once this one is decided. */
  const next = id => { const index = shownOnes.findIndex(claim => claim.operation_id === id); const then = shownOnes[index + 1] ?? shownOnes[index - 1]; refine({ op: then?.operation_id ?? "" }); if (then) focus(then.operation_id); };
  useKeys({ j: () => move(1), k: () => move(-1), ArrowDown: event => (event.target.type === "radio" ? false : move(1)), ArrowUp: event => (event.target.type === "radio" ? false : move(-1)), x: () => shownOnes[at] && chosen.pick(shownOnes[at]), c: () => { if (current) copy(current); },
    o: () => { if (current) window.open(link(["claims", current]), "_blank", "noopener"); } });
  if (claims.length === 0 && !op && !many) return html`<div class="stack">${others}<${NothingHere} /><${Lately} /></div>`;
  const claim = shownOnes.find(one => one.operation_id === current);
  return html`<div class="desk"><div class="stack">${others}<${Queue} claims=${claims} shownOnes=${shownOnes} current=${current} select=${select} chosen=${chosen} reason=${reason} setReason=${doubt => refine({ doubt })} more=${more} batch=${setMany} />
    ${damaged.length > 0 && html`<${Note} kind="doubt">${plural(damaged.length, "record")} cannot be read; <a href="#/attention/damaged">see Damaged</a>.<//>`}<${Lately} /></div>
    <div class="stack">${current && html`<${Desk} key=${current} id=${current} listed=${claim} next=${() => next(current)} />`}</div></div>
    ${many && html`<${Batch} what=${many} claims=${chosen.known} close=${() => setMany(null)} done=${chosen.none} />`}`;
}

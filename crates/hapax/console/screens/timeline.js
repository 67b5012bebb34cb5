// A claim's life: what the ledger knows, what operators did, what this instance has seen, and what comes.
import { html } from "../html.js";
import { absent, get } from "../api.js";
import { useData } from "../pulse.js";
import { left, shown, span } from "../time.js";
import { DOUBTS, eventMark, stateMark, verbMark, verbWord } from "../words.js";
import { bytes, visible } from "../text.js";
import { Mark } from "../icons.js";
import { useStore } from "../store.js";
import { Card, Copy, Skeleton, Tag, Ticking, Time } from "../ui.js";

/** What the claim itself says, where no timeline is told. */
function ledger(claim) {
  const granted = claim.granted_at !== claim.opened_at;
  return [
    { at: claim.opened_at, source: "ledger", kind: "held", text: granted ? "First granted" : `Granted${claim.holder?.instance ? ` to ${claim.holder.instance}` : ""}`, more: `epoch ${claim.epoch} · ${claim.subject}` },
    granted && { at: claim.granted_at, source: "ledger", kind: "held", text: "Granted again", more: `epoch ${claim.epoch}` },
    claim.doubt && { at: claim.doubt.since, source: "ledger", kind: "in_doubt", text: `In doubt: ${DOUBTS[claim.doubt.reason] ?? claim.doubt.reason}`, more: claim.doubt.cause },
    claim.doubt?.asked_at && { at: claim.doubt.asked_at, source: "ledger", kind: "seen", text: "The service was asked" },
    claim.settled_at && { at: claim.settled_at, source: "ledger", kind: "settled", text: `Settled by the ${claim.settled_by}${claim.outcome?.status ? `: ${claim.outcome.status}` : ""}`, more: claim.outcome ? `${claim.outcome.kind.replace("_", " ")}, ${claim.outcome.bytes} bytes` : "" },
    claim.released_at && { at: claim.released_at, source: "ledger", kind: "released", text: "Released: the next request runs", more: { no: "the work did not run", waived: "the work may have run; it was let run again", perhaps: "the work may have run" }[claim.ran] },
  ].filter(Boolean);
}

/** What is still to come. */
const future = claim => [
  claim.state === "held" && claim.run_until && { at: claim.run_until, text: "Runs until then", more: "its holder may go on no longer" },
  claim.state === "in_doubt" && claim.may_run_until && left(claim.may_run_until) > 0 && { at: claim.may_run_until, text: "Can be released from then on", more: "until then the former call may still arrive" },
  claim.state === "settled" && claim.keep_until && { at: claim.keep_until, text: "Kept until then", more: "after that the key is free again" },
].filter(Boolean);

const markOf = event => (event.source === "audit" ? verbMark(event.kind) : event.source === "ledger" ? stateMark(event.kind) === "seen" ? ({ granted: "held", opened: "held", doubt: "doubt" }[event.kind] ?? stateMark(event.kind)) : stateMark(event.kind) : eventMark(event.kind));

/** What the claim knows of an entry that tells no more: of its first grant, and of what is kept. */
const more = (event, claim) => {
  if (event.more || event.source !== "ledger") return event.more;
  if (event.kind === "held" && event.at === claim.opened_at) return claim.granted_at === claim.opened_at ? `epoch ${claim.epoch} · ${claim.subject}` : claim.subject;
  if (event.kind === "settled" && event.at === claim.settled_at && claim.outcome) return `${claim.outcome.kind.replace("_", " ")}, ${bytes(claim.outcome.bytes)}`;
  return null;
};

/** What happened, in words: decisions and doubts come as the names that the API has for them. */
const told = event => {
  if (event.source === "audit") { const word = verbWord(event.kind); return word[0].toUpperCase() + word.slice(1); }
  const [, reason] = event.text.match(/^In doubt: (\w+)$/) ?? [];
  return DOUBTS[reason] ? `In doubt: ${DOUBTS[reason]}` : event.text;
};

const differs = ({ differs }) => differs?.length > 0 && html`<span class="diff">${differs.map(one => (typeof one === "string" ? html`<span key=${one}>${visible(one)}</span><span></span>` : html`<span>${visible(one.pointer ?? one.path)}</span><span>${visible(one.change ?? one.how)}</span>`))}</span>`;

const Entry = ({ event, first }) => html`<li><span class="at"><${Time} at=${event.at} exact /><small>${first ? (event.at === first.at ? "first request" : `+ ${span(Date.parse(event.at) - Date.parse(first.at))}`) : ""}</small></span><span class="rail"><${Mark} kind=${markOf(event)} /></span><div class="what"><b>${visible(told(event))}</b><${Tag}>${event.source}<//>${(event.more || event.actor || event.took_us) && html`<p>${[event.more, event.actor && `by ${event.actor}`, event.status && `status ${event.status}`, event.took_us && `in ${span(event.took_us / 1000)}`].filter(Boolean).map(visible).join(" · ")}</p>`}${differs(event)}</div></li>`;
const Coming = ({ event }) => html`<li class="future"><span class="at"><${Time} at=${event.at} short /><small><${Ticking} of=${() => `in ${span(left(event.at))}`} /></small></span><span class="rail"><${Mark} kind="released" /></span><div class="what"><b>${event.text}</b><p>${event.more}</p></div></li>`;

export function Timeline({ claim }) {
  const zone = useStore(state => state.zone);
  const id = claim.operation_id;
  const from = useData(`timeline ${id}`, signal => get(`/v1/claims/${id}/timeline`, {}, signal), "claims");
  const known = from.data?.events;
  const events = [...(known?.map(event => ({ ...event, more: more(event, claim) })) ?? (absent(from.problem) || from.problem ? ledger(claim) : []))].sort((one, other) => (one.at < other.at ? -1 : one.at > other.at ? 1 : 0));
  const since = from.data?.seen_since;
  const note = `${zone === "utc" ? "UTC" : "local"} · what the ledger knows, what operators did${since ? `, what this instance has seen since ${shown(since, { short: true })}` : ""}`;
  const query = `operation_id="${id}"`;
  return html`<${Card} title="Timeline" note=${note} footer=${html`<span>${since ? "Older requests are" : "Requests are"} in the log: <code>operation_id="${id.slice(0, 14)}…"</code></span><${Copy} text=${query} what="a log query" />`}>
    ${events.length === 0 ? html`<${Skeleton} />` : html`<ol class="time">${events.map((event, at) => html`<${Entry} key=${`${event.at} ${at}`} event=${event} first=${events[0]} />`)}${future(claim).map(event => html`<${Coming} key=${event.text} event=${event} />`)}</ol>`}<//>`;
}

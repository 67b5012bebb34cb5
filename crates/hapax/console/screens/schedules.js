// Schedules: when each ticks next, what became of its ticks, and pausing, resuming and running it.
import { html, useState } from "../html.js";
import { get, post } from "../api.js";
import { useData } from "../pulse.js";
import { cli } from "../data.js";
import { link } from "../route.js";
import { count, visible } from "../text.js";
import { useStore } from "../store.js";
import { left, shown, span, zoneName } from "../time.js";
import { Act, Badge, Card, Copy, Empty, Facts, Head, Loaded, Note, State, Ticking, Time } from "../ui.js";
import { Ask } from "./decision.js";

const path = (one, verb) => `/v1/schedules/${encodeURIComponent(one.id)}/${verb}`;
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/** The expression in words, where it is a plain one. */
export function cronWords(cron) {
  const [minute, hour, day, month, weekday] = (cron ?? "").trim().split(/\s+/);
  const at = /^\d+$/.test(minute) && /^\d+$/.test(hour) ? `${hour.padStart(2, "0")}:${minute.padStart(2, "0")}` : null;
  if (!at || month !== "*") return /^\*\/\d+$/.test(minute) && hour === "*" && day === "*" && weekday === "*" ? `every ${minute.slice(2)} minutes` : null;
  if (day === "*" && weekday === "*") return `daily at ${at}`;
  if (day === "*" && /^[0-7]$/.test(weekday)) return `every ${DAYS[weekday]} at ${at}`;
  if (/^\d+$/.test(day) && weekday === "*") return `on day ${day} of each month at ${at}`;
  return null;
}

const when = one => (one.every ? `every ${one.every}` : html`<code>${visible(one.cron)}</code>${cronWords(one.cron) ? ` ${cronWords(one.cron)}` : ""}, ${visible(one.tz ?? "UTC")}`);

const HERE = { differs: "this instance has another definition and dispatches nothing", absent: "this instance does not have the schedule" };

const WHAT = {
  pause: ["Pause", "No tick is dispatched, in all servers on the store, until it is resumed. What runs goes on."], resume: ["Resume", "Ticks are dispatched again from now on."], run: ["Run now", "One run that is not planned, within seconds, also while it is paused. It has a key of its own."],
};

const Tick = ({ tick }) => html`<${Time} at=${tick.at} /> ${tick.operation_id ? html`<a href=${link(["claims", tick.operation_id])}><code>${visible(tick.key)}</code></a>` : html`<code>${visible(tick.key)}</code>`} ${tick.claim ? html`<${State} state=${tick.claim} />` : html`<span class="muted">its claim is gone</span>`}`;

function Ticks({ one }) {
  const zone = useStore(state => state.zone);
  return html`<${Facts} rows=${[
    ["next", one.next.length === 0 ? html`<span class="muted">none while it is paused</span>` : html`${one.next.slice(0, 3).map((at, index) => html`<div key=${at}><${Time} at=${at} zone /> <span class="muted">${zone === "utc" ? `${shown(at, { zone: "local" })} ${zoneName("local", Date.parse(at))}` : `${shown(at, { zone: "utc" })} UTC`}</span>${index === 0 ? html` <span class="muted">in <${Ticking} of=${() => span(left(at))} /></span>` : ""}</div>`)}`],
    ["route", html`<a href=${link(["routes", one.operation])}><code>${visible(one.operation)}</code></a> <span class="muted">${visible(one.route)} · ${one.tenant} / ${one.project}</span>`],
    ["overlap", one.overlap === "skip" ? "a tick is left out while an earlier one has not ended" : "ticks may overlap"],
    one.last && ["last tick", html`<${Tick} tick=${one.last} />`],
    ["ticks", html`<a href=${link(["claims"], { tenant: one.tenant, project: one.project, operation: one.operation, subject: "service:scheduler" })}>${count(one.dispatched)} dispatched</a>${` · ${count(one.late)} late · ${count(one.late)} late · ${count(one.missed)} missed · ${count(one.skipped)} skipped`}`],
    one.open.length > 0 && ["open", one.open.map(tick => html`<div key=${tick.key}><${Tick} tick=${tick} /> <span class="muted">sent ${tick.sends}×</span></div>`)],
    one.last_missed.length > 0 && ["missed", one.last_missed.slice(0, 3).map(missed => html`<div key=${missed.from}>${count(missed.count)} · ${shown(missed.from)} – ${shown(missed.until)} <span class="tag">${visible(missed.why)}</span></div>`)],
  ]} />`;
}

export function Schedules() {
  const from = useData("schedules", signal => get("/v1/schedules", {}, signal), "claims");
  const [asking, setAsking] = useState(null);
  const order = (verb, one) => setAsking({ verb, one, run: crypto.getRandomValues(new Uint32Array(4)).join("-") });
  const act = async said => { const { verb, one, run } = asking; await post(path(one, verb), verb === "run" ? { run, ...said } : said); setAsking(null); from.again(); };
  const actions = one => html`<${Act} small on=${() => order("run", one)}>Run now…<//>${one.state === "paused" ? html`<${Act} small on=${() => order("resume", one)}>Resume…<//>` : html`<${Act} small on=${() => order("pause", one)}>Pause…<//>`}`;
  return html`<${Head} title="Schedules" note="Ticks come in through the edge, each as a request with a key of its own." /><${Loaded} from=${from} what="The list of schedules">${({ schedules }) => (schedules.length === 0 ? html`<${Empty}>No schedules are configured.<//>` : html`<div class="stack">${schedules.map(one => html`<${Card} key=${one.id} title=${html`<span class="mono">${visible(one.id)}</span> <${Copy} text=${one.id} what="the id" />`} label=${visible(one.id)} note=${when(one)} actions=${actions(one)}>
    ${one.paused && html`<${Note} kind="doubt"><b>Paused</b> by ${visible(one.paused.by)} <${Time} at=${one.paused.at} />: ${visible(one.paused.reason)}<//>`}${HERE[one.here] && html`<${Badge} kind="doubt">${HERE[one.here]}<//>`}<${Ticks} one=${one} /><//>`)}</div>`)}<//>
    ${asking && html`<${Ask} title=${`${WHAT[asking.verb][0]}: ${visible(asking.one.id)}`} verb=${`${WHAT[asking.verb][0]}: ${visible(asking.one.id)}`} close=${() => setAsking(null)} run=${act} line=${(reason, by) => cli.other(`schedules ${asking.verb} ${asking.one.id}`, { reason, by })}><p class="outcome">${WHAT[asking.verb][1]}</p><//>`}`;
}

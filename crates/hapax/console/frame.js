// The frame: side bar, top bar with search, scope, live, zone and theme, banners, the list of keys, what is said aloud.
import { html, useEffect, useRef, useState } from "./html.js";
import { Brand, Icon } from "./icons.js";
import { keep, send, useStore } from "./store.js";
import { here, link, refine, scope } from "./route.js";
import { get, signOut } from "./api.js";
import { useData } from "./pulse.js";
import { LIST, useKeys } from "./keys.js";
import { copy } from "./copy.js";
import { count, visible } from "./text.js";
import { age, shown, span } from "./time.js";
import { Search } from "./search.js";
import { Dialog, Note, Ticking } from "./ui.js";

const PLACES = [
  ["", "Overview", "overview"], ["attention", "Attention", "attention"],
  [null, "Ledger"], ["claims", "Claims", "claims"], ["requests", "Requests", "requests"],
  [null, "Work"], ["executions", "Executions", "link"], ["receipts", "Receipts", "receipts"], ["webhooks", "Webhooks", "webhooks"], ["schedules", "Schedules", "schedules"],
  [null, "Set-up"], ["routes", "Routes", "routes"], ["keys", "API keys", "keys"], ["retention", "Retention", "retention"],
  [null, "Record"], ["audit", "Audit", "audit"], ["instance", "Instance", "instance"],
];

const total = attention => Object.values(attention ?? {}).reduce((sum, one) => sum + (one ?? 0), 0);

function Side({ at }) {
  const attention = useStore(state => state.pulse?.attention);
  const server = useStore(state => state.me?.server) ?? {};
  const waiting = total(attention);
  const entry = ([path, name, icon]) => {
    if (path === null) return html`<div class="nav-head" key=${name}>${name}</div>`;
    const place = path === "attention" ? [path, "in-doubt"] : [path].filter(Boolean);
    const current = at === path || (path === "receipts" && at === "lanes") || (path === "claims" && at === "delegated");
    return html`<a key=${name} href=${link(place, scope())} aria-current=${current ? "page" : undefined}><${Icon} name=${icon} />${name}${path === "attention" && waiting > 0 && html`<span class="count" aria-label=${`${waiting} wait`}>${count(waiting)}</span>`}</a>`;
  };
  return html`<aside class="side">
    <a class="brand" href="#/"><${Brand} />hapax<small>${visible(server.label)}</small></a>
    <nav class="nav" aria-label="Console">${PLACES.map(entry)}</nav>
    <div class="side-foot"><span><b>hapax ${server.version ?? ""}</b>${server.started_at && html` · up <${Ticking} of=${() => age(server.started_at)} />`}</span>
      ${server.instance && html`<span>instance <b>${visible(server.instance)}</b></span>`}${server.store && html`<span>store <b>${visible(server.store.kind)}</b></span>`}</div>
  </aside>`;
}

/** Pages of shelves that are read for the names: beyond them a tenant is typed on the screen of claims. */
const PAGES = 50;

/** The projects of each tenant that has claims. */
async function names(signal) {
  const projects = new Map();
  let after;
  for (let page = 0; page < PAGES && after !== null; page += 1) {
    const { shelves, next } = await get("/v1/shelves", { limit: 1000, after }, signal);
    for (const { tenant, project } of shelves) projects.set(tenant, (projects.get(tenant) ?? new Set()).add(project));
    after = next;
  }
  return projects;
}

function Scope() {
  // Asked for anew on each screen, because tenants come; the former ones stay meanwhile.
  const from = useData(`shelves ${here().parts[0] ?? ""}`, signal => names(signal).catch(() => null), null);
  const known = useRef(null);
  known.current = from.data ?? known.current;
  const data = known.current;
  const [, look] = useState(0);
  useEffect(() => { const again = () => look(times => times + 1); addEventListener("hashchange", again); return () => removeEventListener("hashchange", again); }, []);
  const { tenant = "", project = "" } = here().query;
  const tenants = [...new Set([...(data?.keys() ?? []), tenant].filter(Boolean))].sort();
  const projects = [...new Set([...(data?.get(tenant) ?? []), project].filter(Boolean))].sort();
  const pick = (label, value, all, names, name) => html`<select class="scope" aria-label=${label} value=${value} onChange=${event => refine(name === "tenant" ? { tenant: event.target.value, project: "" } : { project: event.target.value })}>
    <option value="" selected=${value === ""}>${all}</option>${names.map(one => html`<option key=${one} value=${one} selected=${one === value}>${visible(one)}</option>`)}</select>`;
  return html`${pick("Tenant", tenant, "All tenants", tenants, "tenant")}${tenant && pick("Project", project, "All projects", projects, "project")}`;
}

const toggleLive = () => send({ type: "set", live: !live.now }), live = { now: true };
const setZone = zone => { keep("zone", zone); send({ type: "set", zone }); };
const setTheme = theme => { keep("theme", theme); send({ type: "set", theme }); };
const THEMES = [["auto", "A", "As the system"], ["light", "☀", "Light"], ["dark", "☾", "Dark"]];

function Top() {
  const state = useStore(now => now);
  live.now = state.live;
  return html`<header class="top">
    <${Search} /><${Scope} /><div class="top-gap"></div>
    <button class="btn quiet live" type="button" aria-pressed=${state.live} title="Live updates on or off (l)" onClick=${toggleLive}><span class=${state.live ? "dot" : "dot off"}></span>${state.live ? "Live" : "Stopped"}</button>
    <div class="seg" role="group" aria-label="Times"><button type="button" aria-pressed=${state.zone === "utc"} onClick=${() => setZone("utc")}>UTC</button><button type="button" aria-pressed=${state.zone !== "utc"} onClick=${() => setZone("local")}>Local</button></div>
    <div class="seg" role="radiogroup" aria-label="Theme">${THEMES.map(([name, sign, words]) => html`<label key=${name} title=${words}><input type="radio" name="theme" id=${`theme-${name}`} checked=${state.theme === name} onChange=${() => setTheme(name)} /><span aria-hidden="true">${sign}</span><span class="visually-hidden">${words}</span></label>`)}</div>
    <button class="btn quiet" type="button" aria-label="Keys of the keyboard" title="Keys (?)" onClick=${() => send({ type: "set", help: true })}>?</button>
    <div class="who hide-small"><b>${visible(state.me?.name)}</b><span class="tag">${state.me?.role}</span></div>
    <button class="btn quiet small" type="button" onClick=${signOut}>Sign out</button>
  </header>`;
}

function Banners() {
  const { pulse, silentSince, away, skew, skewKnown, me, outdated } = useStore(state => state);
  const overPlain = location.protocol === "http:" && !/^(localhost|127\.|\[::1\])/.test(location.hostname);
  return html`<div class="banners">
    ${silentSince && html`<${Note} kind="error" alert key="silent"><b>No answer from ${visible(me?.server?.instance ?? "the server")}</b> since ${shown(silentSince)}. What is shown is older.<//>`}
    ${away && html`<${Note} kind="error" alert key="away"><b>The ledger does not answer</b>${away.since ? ` since ${shown(away.since)}` : ""}. Nothing can be claimed or decided; lists keep what they had.<//>`}
    ${pulse && pulse.ready === false && !away && html`<${Note} kind="doubt" key="ready"><b>Not ready.</b> ${(pulse.reasons ?? []).map(visible).join("; ")}<//>`}
    ${skewKnown && Math.abs(skew) > 2000 && html`<${Note} key="clock">This machine's clock differs from the server's by ${span(Math.abs(skew))}. Ages are reckoned from the server's.<//>`}
    ${overPlain && html`<${Note} kind="doubt" key="plain">Your token crosses the network readable: this page came over plain HTTP.<//>`}
    ${outdated && html`<${Note} key="new" actions=${html`<button class="btn small" type="button" onClick=${() => location.reload()}>Reload</button>`}>hapax was updated.<//>`}
  </div>`;
}

function Help() {
  const on = useStore(state => state.keysOn);
  const close = () => send({ type: "set", help: false });
  const set = event => { keep("keys", event.target.checked ? "on" : "off"); send({ type: "set", keysOn: event.target.checked }); };
  return html`<${Dialog} title="Keys" close=${close}><dl class="kv">${LIST.map(([keys, what]) => [html`<dt key=${keys}><kbd>${keys}</kbd></dt>`, html`<dd>${what}</dd>`])}</dl>
    <label class="check"><input type="checkbox" checked=${on} onChange=${set} /><span>Single keys act outside of fields</span></label>
    <div class="row end"><button class="btn" type="button" onClick=${close}>Close</button></div><//>`;
}

/** Everything around a screen. */
export function Frame({ place, children }) {
  const silent = useStore(state => state.silentSince), away = useStore(state => state.away);
  const said = useStore(state => state.said), help = useStore(state => state.help), zone = useStore(state => state.zone), theme = useStore(state => state.theme);
  const main = useRef(null), first = useRef(true);
  const at = place.parts.join("/");
  useEffect(() => { if (!first.current && !main.current.contains(document.activeElement)) main.current.focus({ preventScroll: true }); first.current = false; }, [at]);
  useKeys({
    "/": () => document.getElementById("q").focus(), l: toggleLive, z: () => setZone(zone === "utc" ? "local" : "utc"),
    t: () => setTheme(THEMES[(THEMES.findIndex(([name]) => name === theme) + 1) % 3][0]), "?": () => send({ type: "set", help: true }), y: () => { copy(location.href); },
  }, 0);
  return html`<a class="skip" href="#main" onClick=${event => { event.preventDefault(); main.current.focus(); }}>Skip to content</a>
    <div class="frame"><${Side} at=${place.parts[0] ?? ""} /><${Top} /><main id="main" tabindex="-1" ref=${main}><${Banners} /><div class=${silent || away ? "stale" : ""}>${children}</div></main></div>
    <div class="visually-hidden said" role="status" aria-live="polite">${said}</div>${help && html`<${Help} />`}`;
}

// Where the console starts: the screens by their place, the frame around them, and the sign-in over all of it.
import { html, render, useEffect, useErrorBoundary, useState } from "./html.js";
import { usePlace } from "./route.js";
import { current, send, useStore } from "./store.js";
import { resume, signOut } from "./api.js";
import { refresh, start as startPulse } from "./pulse.js";
import { start as startKeys } from "./keys.js";
import { Frame } from "./frame.js";
import { SignIn } from "./signin.js";
import { Empty, Head, Note, Skeleton } from "./ui.js";

/** A screen is fetched when it is first opened. A browser does not ask again for a file that it did not get, so a further try names it otherwise. */
const from = (file, name) => again => import(`./screens/${file}.js${again ? `?again=${again}` : ""}`).then(module => module[name]);

const SCREENS = {
  "": from("overview", "Overview"), attention: from("attention", "Attention"), claims: from("claims", "Claims"), requests: from("requests", "Requests"),
  executions: from("executions", "Executions"), receipts: from("receipts", "Receipts"), lanes: from("receipts", "Lanes"), webhooks: from("webhooks", "Webhooks"),
  schedules: from("schedules", "Schedules"), routes: from("routes", "Routes"), keys: from("apikeys", "Keys"), retention: from("retention", "Retention"),
  audit: from("audit", "Audit"), instance: from("instance", "Instance"), delegated: from("delegated", "Delegated"),
};
const ONE = { claims: from("claim", "Claim"), executions: from("execution", "Execution"), webhooks: from("webhook", "Webhook"), routes: from("routes", "Route") };

/** How often a file is asked for by itself. */
const TRIES = 3;

/**
 * The view of a place: null while it comes, false where there is none. A file that does not come is asked for again when the
 * server has answered; whether another version is served now, the pulse tells.
 */
function useView(load) {
  const [view, set] = useState({ load, of: null, tries: 0 });
  const beat = useStore(state => state.beat);
  const look = tries => load(tries).then(of => set({ load, of, tries }), () => { set({ load, of: null, tries: tries + 1, beat: current().beat }); refresh(); });
  useEffect(() => {
    set({ load, of: load ? null : false, tries: 0 });
    if (load) look(0);
  }, [load]);
  const lost = view.load === load && view.of === null && view.tries > 0;
  useEffect(() => { if (lost && view.tries < TRIES && beat !== view.beat) look(view.tries); }, [beat, lost, view.tries]);
  return { of: view.load === load ? view.of : null, lost, again: () => (view.tries < TRIES ? look(view.tries) : location.reload()) };
}

const Missing = () => html`<${Head} title="No such page" /><${Empty}>The link leads nowhere. <a href="#/">Overview</a><//>`;

/** One screen; a fault of it does not take the frame away. */
function Screen({ place }) {
  const [fault, forget] = useErrorBoundary();
  const [name = "", id] = place.parts;
  const { of: View, lost, again } = useView(id !== undefined && Object.hasOwn(ONE, name) ? ONE[name] : (Object.hasOwn(SCREENS, name) ? SCREENS[name] : null));
  if (fault) return html`<${Head} title="A fault of this page" /><${Note} kind="error" alert actions=${html`<button class="btn small" type="button" onClick=${forget}>Try again</button>`}><b>The page cannot be shown.</b> ${String(fault)}<//>`;
  if (lost) return html`<${Head} title="This page did not come" /><${Note} kind="error" alert actions=${html`<button class="btn small" type="button" onClick=${again}>Retry</button>`}><b>A file of this page could not be fetched.</b> It is asked for again when the server answers.<//>`;
  if (View === null) return html`<${Skeleton} />`;
  return View ? html`<${View} place=${place} id=${id} />` : html`<${Missing} />`;
}

const HOURS_12 = 12 * 60 * 60 * 1000;

/** Signs out after 12 hours without input. */
function useIdleEnd() {
  useEffect(() => {
    let last = Date.now();
    const touched = () => { last = Date.now(); };
    const look = () => { if (current().signedIn && Date.now() - last > HOURS_12) signOut(); };
    const timer = setInterval(look, 60000);
    for (const kind of ["keydown", "pointerdown"]) addEventListener(kind, touched);
    return () => { clearInterval(timer); for (const kind of ["keydown", "pointerdown"]) removeEventListener(kind, touched); };
  }, []);
}

function App() {
  const place = usePlace();
  const signedIn = useStore(state => state.signedIn);
  const before = useStore(state => state.me !== null);
  const theme = useStore(state => state.theme);
  useIdleEnd();
  useEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  }, [theme]);
  if (!signedIn && !before) return html`<${SignIn} />`;
  const key = place.parts.slice(0, 1).concat(ONE[place.parts[0]] ? place.parts.slice(1, 2) : []).join("/");
  return html`<${Frame} place=${place}><${Screen} key=${key} place=${place} /><//>${!signedIn && html`<${SignIn} over />`}`;
}

startKeys();
await resume();
startPulse();
send({ type: "set" });
render(html`<${App} />`, document.getElementById("app"));

// Where the console starts: the screens by their place, the frame around them, and the sign-in over all of it.
import { html, render, useEffect, useErrorBoundary, useState } from "./html.js";
import { usePlace } from "./route.js";
import { current, send, useStore } from "./store.js";
import { resume, signOut } from "./api.js";
import { start as startPulse } from "./pulse.js";
import { start as startKeys } from "./keys.js";
import { Frame } from "./frame.js";
import { SignIn } from "./signin.js";
import { Empty, Head, Note, Skeleton } from "./ui.js";

/** A screen is fetched when it is first opened. */
const from = (file, name) => () => import(`./screens/${file}.js`).then(module => module[name]);

const SCREENS = {
  "": from("overview", "Overview"), attention: from("attention", "Attention"), claims: from("claims", "Claims"), requests: from("requests", "Requests"),
  executions: from("executions", "Executions"), receipts: from("receipts", "Receipts"), lanes: from("receipts", "Lanes"), webhooks: from("webhooks", "Webhooks"),
  schedules: from("schedules", "Schedules"), routes: from("routes", "Routes"), keys: from("apikeys", "Keys"), retention: from("retention", "Retention"),
  audit: from("audit", "Audit"), instance: from("instance", "Instance"), delegated: from("delegated", "Delegated"),
};
const ONE = { claims: from("claim", "Claim"), executions: from("execution", "Execution"), webhooks: from("webhook", "Webhook"), routes: from("routes", "Route") };

/** The view of a place: null while it comes, false where there is none. A file that is gone means another version is served now. */
function useView(load) {
  const [view, set] = useState(null);
  useEffect(() => {
    if (!load) { set({ load, of: false }); return; }
    load().then(of => set({ load, of }), () => send({ type: "set", outdated: true }));
  }, [load]);
  return view?.load === load ? view.of : null;
}

const Missing = () => html`<${Head} title="No such page" /><${Empty}>The link leads nowhere. <a href="#/">Overview</a><//>`;

/** One screen; a fault of it does not take the frame away. */
function Screen({ place }) {
  const [fault, forget] = useErrorBoundary();
  const [name = "", id] = place.parts;
  const View = useView(id !== undefined && Object.hasOwn(ONE, name) ? ONE[name] : (Object.hasOwn(SCREENS, name) ? SCREENS[name] : null));
  if (fault) return html`<${Head} title="A fault of this page" /><${Note} kind="error" alert actions=${html`<button class="btn small" type="button" onClick=${forget}>Try again</button>`}><b>The page cannot be shown.</b> ${String(fault)}<//>`;
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

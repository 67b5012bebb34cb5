// The sign-in: before anything is shown, or over the page when the token counts no more; what was typed there stays.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { Brand } from "./icons.js";
import { keep, send, useStore } from "./store.js";
import { signIn } from "./api.js";
import { visible } from "./text.js";
import { Input, useTitle } from "./ui.js";

function Form() {
  const refused = useStore(state => state.refused);
  const [token, setToken] = useState("");
  const [by, setBy] = useState(useStore(state => state.by));
  const [problem, setProblem] = useState(refused);
  const [busy, setBusy] = useState(false);
  const field = useRef(null);
  useEffect(() => field.current.querySelector("input").focus(), []);
  const submit = async event => {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn(token.trim());
      keep("by", by);
      send({ type: "set", by });
    } catch (caught) {
      setProblem(caught);
      setBusy(false);
      field.current.querySelector("input").select();
    }
  };
  return html`<form class="sign-in card" onSubmit=${submit}>
    <div class="field" ref=${field}><label for="token">Admin token</label><${Input} id="token" type="password" value=${token} on=${setToken} required aria-describedby=${problem ? "sign-in-no" : undefined} aria-invalid=${problem ? "true" : undefined} /></div>
    <div class="field"><label for="by">Your name</label><${Input} id="by" value=${by} on=${setBy} placeholder="night-shift" maxlength="128" aria-describedby="by-hint" /><span class="hint" id="by-hint">Goes into the audit beside the token's name.</span></div>
    <div class="row end"><button class="btn primary" type="submit" disabled=${busy || token === ""}>Sign in</button></div>
    ${problem && html`<p class="no" id="sign-in-no" role="alert"><b>${visible(problem.title)}.</b> ${visible(problem.detail)}</p>`}
  </form>`;
}

const Insecure = () => location.protocol === "http:" && !/^(localhost|127\.|\[::1\])/.test(location.hostname)
  ? html`<p class="no">This page came over plain HTTP: your token crosses the network readable.</p>` : null;

/** `over`: above a page that stays where it is. */
export function SignIn({ over }) {
  const ref = useRef(null);
  useTitle(over ? null : "Sign in");
  useLayoutEffect(() => { if (over) ref.current.showModal(); }, []);
  const inside = html`<div class="brand"><${Brand} />hapax<small>${location.host}</small></div><h1>${over ? "Sign in again" : "Sign in"}</h1><${Form} /><${Insecure} />`;
  if (over) return html`<dialog class="sign-in-page" ref=${ref} aria-label="Sign in" onCancel=${event => event.preventDefault()}>${inside}</dialog>`;
  return html`<main class="sign-in-page">${inside}</main>`;
}

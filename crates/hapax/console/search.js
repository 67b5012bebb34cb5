// The search: decides by the form of what was typed where it leads; keys are looked up or looked for.
import { html, useRef, useState } from "./html.js";
import { Icon } from "./icons.js";
import { link, scope } from "./route.js";
import { visible } from "./text.js";

const RECENT = "hapax.searches", CODES = /^[a-z]+(-[a-z]+)+$/;
const KNOWN_CODES = new Set(["key-reused", "key-malformed", "key-missing", "key-prohibited", "key-duplicated", "key-reserved", "outcome-unknown", "in-progress", "ledger-unavailable", "claim-changed", "claim-may-still-run", "claim-not-applicable", "body-too-large", "outcome-not-kept", "rate-limited", "signature-invalid", "translation-failed"]);

const recent = () => { try { return JSON.parse(sessionStorage.getItem(RECENT)) ?? []; } catch { return []; } };
const remember = text => sessionStorage.setItem(RECENT, JSON.stringify([text, ...recent().filter(one => one !== text)].slice(0, 10)));

/** What is kept of an API key that was pasted: its id. The rest never leaves the field. */
export const keyId = text => text.match(/^hpx_[A-Za-z0-9]{1,24}/)?.[0] ?? text.slice(0, 12);

/** A wire key `t-tenant:project:subject-kind:subject:key` read back. */
const wire = text => {
  const [, tenant, project, kind, subject, key] = text.match(/^t-([^:]+):([^:]+):([^:]+):([^:]+):(.+)$/s) ?? [];
  return key === undefined ? null : { tenant, project, subject: `${kind}:${subject}`, key };
};

/** Where a text can lead: `[words, hash]`, the likeliest first. */
export function leads(typed) {
  const text = typed.trim();
  if (!text) return [];
  if (/^op_[0-9a-f]{32}$/i.test(text)) return [["the claim of this operation id", link(["claims", text.toLowerCase()])]];
  if (/^wh_[0-9a-f]+$/i.test(text)) return [["the webhook", link(["webhooks", text])]];
  if (/^hpx_/.test(text)) return [[`the API key ${keyId(text)}`, link(["keys"], { id: keyId(text) })]];
  const read = wire(text);
  if (read) return [[`key ${read.key} of ${read.subject} in ${read.tenant}`, link(["claims"], { ...read, find: "1" })]];
  const { tenant, project } = scope();
  const where = tenant ? ` in ${tenant}${project ? ` / ${project}` : ""}` : "";
  const found = [[`key ${text}${where}`, link(["claims"], { tenant, project, key: text })]];
  if (/^(user|service|tenant_member|client):/.test(text)) found.unshift([`claims of the subject ${text}${where}`, link(["claims"], { tenant, project, subject: text })]);
  if (/^e[-_]/.test(text)) found.unshift([`the execution ${text}`, link(["executions", text], { tenant, project })]);
  if (CODES.test(text) && KNOWN_CODES.has(text)) found.unshift([`what ${text} means`, `/.well-known/hapax/errors/${text}`]);
  return found;
}

/** The field, with what it may lead to. */
export function Search() {
  const [text, setText] = useState(""), [at, setAt] = useState(0), [open, setOpen] = useState(false);
  const field = useRef(null);
  const found = text.trim() ? leads(text) : recent().map(one => [one, leads(one)[0]?.[1] ?? "#/"]);
  const go = lead => {
    if (!lead) return;
    if (text.trim()) remember(/^hpx_/.test(text.trim()) ? keyId(text.trim()) : text.trim());
    setOpen(false); setText(""); field.current.blur();
    if (lead[1].startsWith("#")) location.hash = lead[1]; else window.open(lead[1], "_blank", "noopener");
  };
  const keyed = event => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move && found.length) { event.preventDefault(); setOpen(true); setAt((at + move + found.length) % found.length); }
    if (event.key === "Enter") { event.preventDefault(); go(found[at] ?? found[0]); }
    if (event.key === "Escape") { if (text) setText(""); else field.current.blur(); setOpen(false); }
  };
  const shows = open && found.length > 0;
  return html`<div class="search" role="search"><label class="visually-hidden" for="q">Find a claim, key, webhook or execution</label><${Icon} name="search" />
    <input id="q" ref=${field} type="search" placeholder="Key, op_…, t-tenant:project:…, wh_…" autocomplete="off" spellcheck=${false} value=${text} role="combobox" aria-expanded=${shows} aria-controls="leads" aria-autocomplete="list" aria-activedescendant=${shows ? `lead-${at}` : undefined}
      onInput=${event => { setText(event.target.value); setAt(0); setOpen(true); }} onFocus=${() => setOpen(true)} onBlur=${() => setTimeout(() => setOpen(false), 150)} onKeyDown=${keyed} /><kbd aria-hidden="true">/</kbd>
    <ul class="leads" id="leads" role="listbox" aria-label="Where it leads" hidden=${!shows}>${found.map((lead, index) => html`<li key=${lead[1]} id=${`lead-${index}`} role="option" aria-selected=${index === at} onMouseDown=${event => { event.preventDefault(); go(lead); }}>${visible(lead[0])}</li>`)}</ul></div>`;
}

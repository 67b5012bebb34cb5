// Attention: what only a person can settle, in queues.
import { html } from "../html.js";
import { useStore } from "../store.js";
import { link, scope } from "../route.js";
import { count } from "../text.js";
import { Head } from "../ui.js";
import { InDoubt } from "./doubt.js";
import { Alerts, Approvals, Damaged, Late } from "./waiting.js";

const QUEUES = [["in-doubt", "In doubt", "in_doubt", InDoubt], ["approvals", "Approvals", "approvals", Approvals], ["alerts", "Alerts", "alerts", Alerts], ["late", "Late outcomes", "late", Late], ["damaged", "Damaged", "damaged", Damaged]];

export function Attention({ place }) {
  const attention = useStore(state => state.pulse?.attention) ?? {};
  const name = place.parts[1] ?? "in-doubt";
  const [, word, , View] = QUEUES.find(([path]) => path === name) ?? QUEUES[0];
  return html`<${Head} title="Attention" note="What only a person can settle." />
    <nav class="tabs" aria-label="Queues">${QUEUES.map(([path, words, member]) => html`<a key=${path} href=${link(["attention", path], scope())} aria-current=${path === name ? "page" : undefined}>${words} <span class=${attention[member] > 0 ? "n some" : "n"}>${count(attention[member] ?? 0)}</span></a>`)}</nav>
    <${View} key=${word} place=${place} />`;
}

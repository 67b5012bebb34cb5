// Icons and the marks of states: a shape for each, never colour alone.
import { html } from "./html.js";

const PATHS = {
  overview: ["M2 9.5h2.6l1.7-5 3 8 1.9-5.2.8 2.2H14"],
  attention: ["M8 1.8 14.2 8 8 14.2 1.8 8Z", "M8 5.2v3.4", "M8 10.7v.1"],
  claims: ["M3 2.5h10v11H3z", "M5.4 5.4h5.2M5.4 8h5.2M5.4 10.6h3"],
  requests: ["M2.5 5.2h10.2M10 2.6l2.8 2.6L10 7.8", "M13.5 10.8H3.3M6 8.2l-2.8 2.6L6 13.4"],
  link: ["M6.7 9.3 9.3 6.7", "M7.6 4.4 9 3a2.8 2.8 0 0 1 4 4l-1.4 1.4", "M8.4 11.6 7 13a2.8 2.8 0 0 1-4-4l1.4-1.4"],
  receipts: ["M3.5 1.8h9v12.4l-2.2-1.4L8 14.2l-2.3-1.4-2.2 1.4Z", "M6 5.2h4M6 8h4"],
  webhooks: ["M8 2.2a2.1 2.1 0 1 0 0 4.2 2.1 2.1 0 0 0 0-4.2ZM3.7 9.4a2.1 2.1 0 1 0 0 4.2 2.1 2.1 0 0 0 0-4.2ZM12.3 9.4a2.1 2.1 0 1 0 0 4.2 2.1 2.1 0 0 0 0-4.2Z", "m7 6.2-2.2 3.5M9 6.2l2.2 3.5M5.8 11.5h4.4"],
  schedules: ["M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2Z", "M8 4.6V8l2.4 1.6"],
  routes: ["M4 2.2v4.3c0 1 .8 1.8 1.8 1.8h4.4c1 0 1.8.8 1.8 1.8v3.7", "M4 8v5.8", "m9.9 11.8 2.1 2 2.1-2"],
  keys: ["M5 7.7a2.9 2.9 0 1 0 0 5.8 2.9 2.9 0 0 0 0-5.8Z", "m7.2 8.5 6-6M10.9 4.8l1.9 1.9"],
  retention: ["M4 2h8M4 14h8M5 2c0 3 1.4 4.4 3 6-1.6 1.6-3 3-3 6M11 2c0 3-1.4 4.4-3 6 1.6 1.6 3 3 3 6"],
  audit: ["m2.3 4.2 1.2 1.2 2-2.3M2.3 10.7l1.2 1.2 2-2.3", "M8 4.5h5.7M8 11h5.7"],
  instance: ["M2.5 3h11v4h-11zM2.5 9h11v4h-11z", "M5 5h.1M5 11h.1"],
  search: ["M7 2.7a4.3 4.3 0 1 0 0 8.6 4.3 4.3 0 0 0 0-8.6Z", "m10.3 10.3 3.4 3.4"],
  copy: ["M7 5.5h5A1.5 1.5 0 0 1 13.5 7v5a1.5 1.5 0 0 1-1.5 1.5H7A1.5 1.5 0 0 1 5.5 12V7A1.5 1.5 0 0 1 7 5.500Z", "M10.5 3.700v-.2c0-.8-.7-1.5-1.5-1.500H4A1.5 1.5 0 0 0 2.5 3.500v5c0 .8.7 1.5 1.5 1.500h.2"],
  export: ["M8 2.5v8M4.7 7.5 8 10.800l3.3-3.300M3 13.500h10"],
  go: ["m6 3.5 4.5 4.500L6 12.5"],
};

/** An icon beside words. */
export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true">${PATHS[name].map(d => html`<path d=${d} />`)}</svg>`;

const SHAPES = {
  held: () => html`<circle cx="8" cy="8" r="5.6" fill="none" stroke="currentColor" stroke-width="1.6" /><path d="M8 4.4a3.6 3.6 0 0 1 0 7.2Z" fill="currentColor" />`,
  settled: () => html`<circle cx="8" cy="8" r="6.4" fill="currentColor" /><path class="cut" d="m5 8.3 2.1 2.1L11 6.3" fill="none" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round" />`,
  doubt: () => html`<path d="M8 1.7 14.3 8 8 14.3 1.7 8Z" fill="none" stroke="currentColor" stroke-width="1.9" stroke-linejoin="round" /><path d="M8 5.3 10.7 8 8 10.7 5.3 8Z" fill="currentColor" />`,
  released: () => html`<circle cx="8" cy="8" r="5.6" fill="none" stroke="currentColor" stroke-width="1.6" stroke-dasharray="2.8 2.06" />`,
  mismatch: () => html`<rect x="1.9" y="1.9" width="12.2" height="12.2" rx="2.2" fill="currentColor" /><path class="cut" d="M4.8 6.5h6.4M4.8 9.5h6.4M9.8 4.2 6.2 11.8" stroke-width="1.4" stroke-linecap="round" />`,
  refused: () => html`<path d="M5.2 1.7h5.6l3.5 3.500v5.6l-3.5 3.500H5.2l-3.5-3.500V5.200Z" fill="currentColor" /><path class="cut" d="m5.7 5.7 4.6 4.600m0-4.6-4.6 4.6" stroke-width="1.6" stroke-linecap="round" />`,
  person: () => html`<circle cx="8" cy="8" r="6.4" fill="none" stroke="currentColor" stroke-width="1.4" /><circle cx="8" cy="6.4" r="2" fill="currentColor" /><path d="M4.4 11.9c.7-1.7 2-2.5 3.6-2.5s2.9.8 3.6 2.5" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round" />`,
  seen: () => html`<circle cx="8" cy="8" r="3.6" fill="none" stroke="currentColor" stroke-width="1.5" />`,
};

/** The mark of a state, an event or a person. */
export const Mark = ({ kind, extra = "" }) => html`<svg class=${`c-${kind} ${extra}`} viewBox="0 0 16 16" aria-hidden="true">${(SHAPES[kind] ?? SHAPES.seen)()}</svg>`;

/** The ring with one dot: once. */
export const Brand = () => html`<svg viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="12" r="9.6" fill="none" stroke="currentColor" stroke-width="2.4" stroke-dasharray="50 10.3" stroke-dashoffset="-7" stroke-linecap="round" /><circle cx="12" cy="12" r="3.4" fill="currentColor" /></svg>`;

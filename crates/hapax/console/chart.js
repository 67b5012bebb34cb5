// Charts as SVG: stacked columns with lanes for rare events, lines on a logarithmic scale, sparks and bars. Read from the
// page by tests and by those who do not see; text never scales.
import { html, useEffect, useRef, useState } from "./html.js";
import { shown } from "./time.js";
import { rate } from "./text.js";
import { useStore } from "./store.js";

/** The width of an element, followed. */
function useWidth(usual) {
  const ref = useRef(null);
  const [width, set] = useState(usual);
  useEffect(() => {
    const watcher = new ResizeObserver(([entry]) => { if (entry.contentRect.width > 0) set(Math.round(entry.contentRect.width)); });
    watcher.observe(ref.current);
    return () => watcher.disconnect();
  }, []);
  return [ref, width];
}

/** A round number at or above. */
export const ceiling = most => {
  if (!(most > 0)) return 1;
  const ten = 10 ** Math.floor(Math.log10(most));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map(by => by * ten).find(one => one >= most * 0.999) ?? 10 * ten;
};

const STACK = [["executed", "s-executed"], ["replayed", "s-replayed"], ["attached", "s-attached"]];
const LEFT = 92, TOP = 12, HIGH = 196, LANE = 18;

const perSecond = (sample, name) => (sample[name] ?? 0) / (sample.step_s || 10);

/** A mark of a lane: larger for more, never flattened. */
function LaneMark({ lane, x, y, number }) {
  const size = Math.min(6, 3.5 + Math.sqrt(number));
  if (lane === "in_doubt") return html`<path class="m-doubt" d=${`M${x} ${y - size}l${size} ${size}l${-size} ${size}l${-size} ${-size}z`} />`;
  if (lane === "mismatch") return html`<rect class="m-mismatch" x=${x - size * 0.8} y=${y - size * 0.8} width=${size * 1.6} height=${size * 1.6} rx="1" />`;
  return html`<circle class=${lane === "decided" ? "m-decision" : "m-refused"} cx=${x} cy=${y} r=${lane === "decided" ? 3.6 : size * 0.7} />`;
}

function Column({ sample, x, width, top }) {
  let at = TOP + HIGH;
  return STACK.map(([name, kind]) => {
    const high = HIGH * (perSecond(sample, name) / top);
    if (high < 0.3) return null;
    at -= high;
    return html`<rect key=${name} class=${kind} x=${x + 0.5} y=${at} width=${Math.max(1, width - 1)} height=${Math.max(0.5, high - (name === "executed" ? 0 : 1))} />`;
  });
}

function Axes({ top, width, samples, step }) {
  const marks = Math.max(1, Math.floor((width - LEFT) / 130)), every = Math.max(1, Math.ceil(samples.length / marks));
  return html`${[0, 1, 2, 3, 4].map(part => { const y = TOP + HIGH - (HIGH * part) / 4; return html`<line key=${part} class=${part ? "grid" : "axis"} x1=${LEFT} x2=${width} y1=${y} y2=${y} /><text x=${LEFT - 8} y=${y + 3.8} text-anchor="end">${rate((top * part) / 4)}</text>`; })}
    ${samples.map((sample, at) => at % every === 0 && html`<text key=${sample.at} x=${LEFT + (at + 0.5) * step} y=${TOP + HIGH + 17} text-anchor="middle">${shown(sample.at, { short: true })}</text>`)}`;
}

/** What stands at the cursor. */
function Tip({ sample, x, width }) {
  const rows = [...STACK.map(([name]) => [name, `${rate(perSecond(sample, name))}/s`]), ...["in_doubt", "mismatch", "refused"].filter(name => sample[name] > 0).map(name => [name.replace("_", " "), String(sample[name])])];
  const left = x + 190 > width ? x - 180 : x + 10;
  return html`<g class="tip-box"><rect class="tip" x=${left} y="14" width="168" height=${34 + 16 * rows.length} rx="7" /><text class="strong" x=${left + 11} y="33">${shown(sample.at)}</text>${rows.map(([name, value], at) => html`<text key=${name} class="tip-text" x=${left + 11} y=${52 + 16 * at}>${name}</text><text class="tip-num" x=${left + 157} y=${52 + 16 * at}>${value}</text>`)}</g>`;
}

const says = sample => `${shown(sample.at)}: ${STACK.map(([name]) => `${rate(perSecond(sample, name))} ${name}`).join(", ")} per second${sample.in_doubt ? `, ${sample.in_doubt} in doubt` : ""}${sample.mismatch ? `, ${sample.mismatch} mismatch` : ""}${sample.refused ? `, ${sample.refused} refused` : ""}`;

/** Traffic: columns per step, lanes below; `lanes`: `[name, words, sample → number]`; `open(sample)` leads to what it is made of; a step `before` the first has nothing. */
export function Traffic({ samples, lanes, open }) {
  useStore(state => state.zone);
  const [ref, width] = useWidth(1000);
  const [at, setAt] = useState(null);
  const step = (width - LEFT) / Math.max(1, samples.length);
  const top = ceiling(Math.max(0, ...samples.map(sample => STACK.reduce((sum, [name]) => sum + perSecond(sample, name), 0))));
  const high = TOP + HIGH + 26 + LANE * lanes.length + 6;
  const keyed = event => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by) { event.preventDefault(); setAt(Math.min(samples.length - 1, Math.max(0, (at ?? samples.length - 1) + (at === null ? 0 : by)))); }
    if (event.key === "Enter" && at !== null && !samples[at].before) open(samples[at]);
  };
  const one = samples[at];
  return html`<div ref=${ref} class="chart-box"><svg class="chart" width=${width} height=${high} role="application" aria-roledescription="chart" aria-label="Requests per second, by what became of them. Arrow keys move, Enter opens the claims that a step opened." tabindex="0" onKeyDown=${keyed} onMouseLeave=${() => setAt(null)} onBlur=${() => setAt(null)}>
    <defs><pattern id="hatch" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatch-a" width="4" height="4" /><path class="hatch-b" d="M0 0V4" /></pattern></defs>
    <${Axes} top=${top} width=${width} samples=${samples} step=${step} />
    ${samples.map((sample, index) => html`<g key=${sample.at} class="column" data-at=${sample.at} data-executed=${sample.executed ?? 0} data-replayed=${sample.replayed ?? 0}><${Column} sample=${sample} x=${LEFT + index * step} width=${step} top=${top} /></g>`)}
    ${lanes.map(([name, words, of], row) => { const y = TOP + HIGH + 26 + LANE * row; const sum = samples.reduce((all, sample) => all + of(sample), 0); return html`<g key=${name} class="lane-row" data-lane=${name} data-sum=${sum}><rect class="lane" x=${LEFT} y=${y} width=${Math.max(0, width - LEFT)} height="15" rx="3" /><text class="lane-name" x=${LEFT - 8} y=${y + 11.5} text-anchor="end">${words} <tspan class="strong">${sum}</tspan></text>${samples.map((sample, index) => of(sample) > 0 && html`<${LaneMark} key=${sample.at} lane=${name} x=${LEFT + (index + 0.5) * step} y=${y + 7.5} number=${of(sample)} />`)}</g>`; })}
    ${samples.map((sample, index) => html`<rect key=${`hit ${sample.at}`} class="hit" x=${LEFT + index * step} y=${TOP} width=${step} height=${high - TOP} onMouseEnter=${() => setAt(index)} onClick=${() => sample.before || open(sample)} />`)}
    ${one && html`<line class="cursor" x1=${LEFT + (at + 0.5) * step} x2=${LEFT + (at + 0.5) * step} y1="8" y2=${high} /><${Tip} sample=${one} x=${LEFT + (at + 0.5) * step} width=${width} />`}
  </svg><div class="visually-hidden" aria-live="polite">${one ? says(one) : ""}</div></div>`;
}

const LOG = [["0.1 ms", -1], ["1 ms", 0], ["10 ms", 1], ["100 ms", 2], ["1 s", 3], ["10 s", 4]];

/** Latency on a logarithmic scale: `lines`: `[words, kind, sample → ms or null]`. */
export function Lines({ samples, lines }) {
  const [ref, width] = useWidth(520);
  useStore(state => state.zone);
  const left = 50, right = 92, high = 186, every = Math.max(1, Math.ceil(samples.length / Math.max(1, Math.floor((width - 142) / 110)))), step = (width - left - right) / Math.max(1, samples.length - 1);
  const y = ms => high - 8 - ((Math.log10(Math.min(30000, ms === 0 ? 0.5 : Math.max(0.08, ms))) + 1.1) / 5.6) * (high - 20);
  const path = of => { let pen = "M"; return samples.map((sample, at) => { const ms = of(sample); if (!(ms >= 0) || ms === null) { pen = "M"; return ""; } const part = `${pen}${(left + at * step).toFixed(1)} ${y(ms).toFixed(1)}`; pen = "L"; return part; }).join(""); };
  // A step between two without answers has no line: it is a dot.
  const has = value => value !== null && value !== undefined && value >= 0;
  const alone = of => samples.map((sample, at) => [at, of(sample)]).filter(([at, one]) => has(one) && !has(samples[at - 1] && of(samples[at - 1])) && !has(samples[at + 1] && of(samples[at + 1])));
  const last = lines.map(([words, kind, of]) => ({ words, kind, ms: samples.map(of).filter(value => value !== null && value >= 0).at(-1) })).filter(one => one.ms !== undefined).map(one => ({ ...one, y: y(one.ms) })).sort((one, other) => one.y - other.y);
  last.forEach((one, at) => { if (at > 0 && one.y - last[at - 1].y < 13) one.y = last[at - 1].y + 13; });
  return html`<div ref=${ref} class="chart-box"><svg class="chart" width=${width} height=${high + 22} role="img" aria-label=${`Latency, logarithmic. ${last.map(one => `${one.words} ${ms(one.ms)}`).join(", ")}`}>
    ${LOG.map(([words, power]) => html`<line key=${words} class="grid" x1=${left} x2=${width - right} y1=${y(10 ** power)} y2=${y(10 ** power)} /><text x=${left - 7} y=${y(10 ** power) + 3.8} text-anchor="end">${words}</text>`)}
    ${samples.map((sample, at) => at % every === 0 && html`<text key=${`at ${sample.at}`} x=${left + at * step} y=${high + 16} text-anchor=${at ? "middle" : "start"}>${shown(sample.at, { short: true })}</text>`)}
    ${lines.map(([words, kind, of]) => html`<path key=${words} class=${`line ${kind}`} d=${path(of)} />${alone(of).map(([at, one]) => html`<circle key=${at} class=${`dot-mark ${kind}`} cx=${left + at * step} cy=${y(one)} r="2.4" />`)}`)}
    ${last.map(one => html`<text key=${one.words} class="line-name" x=${width - right + 6} y=${one.y + 3.8}>${one.words}</text>`)}</svg></div>`;
}

/** Milliseconds with two digits. */
export const ms = value => (value === null || value === undefined || !(value >= 0) ? "–" : value === 0 ? "< 1 ms" : value >= 1000 ? `${(value / 1000).toPrecision(2)} s` : `${value >= 100 ? Math.round(value) : Number(value.toPrecision(2))} ms`);

/** A small line of the last hour. */
export function Spark({ values }) {
  if (!values?.length) return html`<span class="muted">–</span>`;
  const most = Math.max(1, ...values), x = at => (96 * at) / Math.max(1, values.length - 1);
  const line = values.map((value, at) => `${at ? "L" : "M"}${x(at).toFixed(1)} ${(21 - (19 * value) / most).toFixed(1)}`).join(" ");
  return html`<svg class="spark" viewBox="0 0 96 22" preserveAspectRatio="none" aria-hidden="true"><path class="area" d=${`${line} L96 22 L0 22Z`} /><path d=${line} /></svg>`;
}

export const Bar = ({ part }) => html`<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="ground" width="100" height="8" rx="3" /><rect class="fill" width=${Math.max(0, Math.min(100, 100 * (part ?? 0)))} height="8" rx="3" /></svg>`;

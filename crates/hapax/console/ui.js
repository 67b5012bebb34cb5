// The pieces that every screen is made of: badges, copies, times, cards, notes, states of loading and failing, dialogs.
import { Fragment, html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { Icon, Mark } from "./icons.js";
import { age, shown, told, zoneName } from "./time.js";
import { copy } from "./copy.js";
import { absent, mayOperate } from "./api.js";
import { shorter, visible } from "./text.js";
import { stateMark, stateWord } from "./words.js";
import { useStore } from "./store.js";

/** A state with its mark and its word. */
export const Badge = ({ kind, big, children }) => html`<span class=${`state is-${kind} ${big ? "big" : ""}`}><${Mark} kind=${kind} />${children}</span>`;
export const State = ({ state, big }) => html`<${Badge} kind=${stateMark(state)} big=${big}>${stateWord(state)}<//>`;
export const Tag = ({ children }) => html`<span class="tag">${children}</span>`;

/** A button beside a text that copies it. */
export const Copy = ({ text, what }) => html`<button class="copy" type="button" aria-label=${`Copy ${what}`} title=${`Copy ${what}`} onClick=${event => { event.stopPropagation(); copy(text); }}><${Icon} name="copy" /></button>`;

/** A caller's text: as text, and nothing else. */
export const Foreign = ({ text, most = 64 }) => { const all = visible(text); return html`<bdi class="mono" title=${all.length > most ? all : undefined}>${shorter(all, most)}</bdi>`; };
export const Code = ({ children }) => html`<code>${children}</code>`;

/** A time in the zone that was chosen; the rest on hover and focus. */
export const Time = ({ at, exact, short, zone }) => {
  useStore(state => state.zone);
  if (!at) return html`<span class="muted">–</span>`;
  return html`<time datetime=${at} title=${told(at)}>${shown(at, { exact, short })}${zone ? ` ${zoneName()}` : ""}</time>`;
};

/** Text that is counted on, each second. */
export const Ticking = ({ of }) => {
  const [, tick] = useState(0);
  useEffect(() => { const timer = setInterval(() => tick(count => count + 1), 1000); return () => clearInterval(timer); }, []);
  return of();
};
export const Age = ({ at }) => html`<span title=${at && told(at)}><${Ticking} of=${() => age(at)} /></span>`;

export const Card = ({ title, note, actions, children, footer, flush, label, extra = "" }) => html`<section class=${`card ${extra}`} aria-label=${label ?? (typeof title === "string" ? title : undefined)}>
  ${title && html`<header><h2>${title}</h2>${note && html`<p>${note}</p>`}${actions && html`<div class="actions">${actions}</div>`}</header>`}
  ${flush ? children : html`<div class="body">${children}</div>`}
  ${footer && html`<footer>${footer}</footer>`}
</section>`;

/** Name and value, one under the other. Rows that are null are left out. */
export const Facts = ({ rows }) => html`<dl class="kv">${rows.filter(Boolean).map(([name, value]) => html`<${Fragment} key=${name}><dt>${name}</dt><dd>${value}</dd><//>`)}</dl>`;

export const Note = ({ kind = "info", actions, children, alert }) => html`<div class=${`note ${kind}`} role=${alert ? "alert" : undefined}>${kind !== "info" && html`<${Mark} kind=${kind === "error" ? "refused" : kind} />`}<div>${children}</div>${actions && html`<div class="actions">${actions}</div>`}</div>`;

/** A "no" in the server's words. */
export const ProblemNote = ({ problem, again, alert = true }) => html`<${Note} kind="error" alert=${alert} actions=${again && html`<button class="btn small" type="button" onClick=${again}>Retry</button>`}>
  <b>${visible(problem.title)}.</b> ${visible(problem.detail)} ${problem.code && html`<a href=${`/.well-known/hapax/errors/${encodeURIComponent(problem.code)}`} target="_blank" rel="noopener noreferrer"><code>${problem.code}</code></a>`}<//>`;

export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;
export const Skeleton = ({ rows = 5 }) => html`<div class="skeleton" aria-hidden="true">${Array.from({ length: rows }, (_, at) => html`<i key=${at}></i>`)}</div>`;
export const NotHere = ({ what }) => html`<${Empty}>${what} is not available on this server.<//>`;

/** What is shown of data that loads: nothing, a skeleton, why not, the former data with its age, or the data. */
export function Loaded({ from, what, rows, children }) {
  const { data, problem, slow, again, at } = from;
  if (absent(problem)) return html`<${NotHere} what=${what} />`;
  if (problem?.status === 403) return html`<${Note} alert><b>Not with this token.</b> ${visible(problem.detail)}<//>`;
  if (!data) return html`<div aria-busy=${!problem}>${problem ? html`<${ProblemNote} problem=${problem} again=${again} />` : slow ? html`<${Skeleton} rows=${rows} />` : html`<div class="quiet-room"></div>`}</div>`;
  return html`<div class=${problem ? "stale" : ""}>${problem && html`<${ProblemNote} problem=${{ ...problem, title: problem.title, detail: `${problem.detail} What is shown is of ${shown(at)}` }} again=${again} />`}${children(data)}</div>`;
}

/** The title of a screen, with what it is for and what can be done. */
export function Head({ title, note, actions, children }) {
  useTitle(typeof title === "string" ? title : null);
  return html`<div class="page-head"><div>${children ?? html`<h1>${title}</h1>`}${note && html`<p>${note}</p>`}</div>${actions && html`<div class="actions">${actions}</div>`}</div>`;
}

export const useTitle = title => useEffect(() => { if (title) document.title = `${title} · hapax`; }, [title]);

export const Field = ({ label, hint, id, children, grow, error }) => html`<div class=${`field ${grow ? "grow" : ""}`}><label for=${id}>${label}</label>${children}${hint && html`<span class="hint" id=${`${id}-hint`}>${hint}</span>`}${error && html`<span class="hint c-refused" role="alert">${error}</span>`}</div>`;
export const Input = ({ id, value, on, type = "text", ...rest }) => html`<input id=${id} type=${type} value=${value} autocomplete="off" spellcheck=${false} onInput=${event => on(event.target.value)} ...${rest} />`;
/** A condition of a list: sent when typing rests, or with Enter. */
export function Condition({ id, label, value, on, size = 14, list }) {
  const [text, setText] = useState(value ?? "");
  const timer = useRef(0), sent = useRef(value ?? "");
  useEffect(() => { if ((value ?? "") !== sent.current) { sent.current = value ?? ""; setText(value ?? ""); } }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const now = typed => { clearTimeout(timer.current); sent.current = typed.trim(); on(typed.trim()); };
  const later = typed => { setText(typed); clearTimeout(timer.current); timer.current = setTimeout(() => now(typed), 350); };
  return html`<input id=${id} type="text" aria-label=${label} placeholder=${label} autocomplete="off" spellcheck=${false} size=${size} list=${list} value=${text} onInput=${event => later(event.target.value)} onKeyDown=${event => { if (event.key === "Enter") now(text); }} />`;
}
export const Select = ({ id, label, value, on, options }) => html`<select id=${id} aria-label=${label} value=${value ?? ""} onChange=${event => on(event.target.value)}>${options.map(([name, text]) => html`<option key=${name} value=${name} selected=${name === (value ?? "")}>${text}</option>`)}</select>`;

/** A decision's button: disabled with the reason where the token may not decide. */
export function Act({ children, on, kind = "", disabled, small, title, type = "button", ...rest }) {
  const me = useStore(state => state.me);
  const may = mayOperate(me);
  const why = may ? title : `needs operate; your token ${me?.name ?? ""} has ${me?.role ?? "none"}`;
  return html`<button class=${`btn ${kind} ${small ? "small" : ""}`} type=${type} title=${why} disabled=${disabled || !may} onClick=${on} ...${rest}>${children}</button>`;
}

export const RoleHint = () => {
  const me = useStore(state => state.me);
  return mayOperate(me) ? null : html`<${Note}>Decisions need the role <b>operate</b>; your token <b>${visible(me?.name)}</b> has <b>${me?.role}</b>.<//>`;
};

/** The command that does the same. */
export const Cli = ({ line }) => html`<div class="cli grow"><code>${line}</code><${Copy} text=${line} what="the command" /></div>`;

/** A dialog over the page: Esc closes, and the focus goes back. */
export function Dialog({ title, close, children }) {
  const ref = useRef(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    ref.current.showModal();
    return () => before?.isConnected && before.focus();
  }, []);
  return html`<dialog ref=${ref} aria-labelledby="dialog-title" onClose=${close} onCancel=${event => { event.preventDefault(); close(); }}><h2 id="dialog-title">${title}</h2>${children}</dialog>`;
}

/** A table whose rows keep their identity. `columns`: `{name, of, num, sort}`. */
export function Table({ columns, rows, id, caption, current, sorted, onSort, onSelect }) {
  const head = ({ name, label, num, sort }) => html`<th key=${name} class=${num ? "num" : ""} scope="col" aria-sort=${sorted && sort === sorted ? "descending" : undefined}>${sort && onSort ? html`<button type="button" onClick=${() => onSort(sort)}>${label ?? name}${sort === sorted ? " ▾" : ""}</button>` : label ?? name}</th>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${`${caption}, table`}><table><caption class="visually-hidden">${caption}</caption><thead><tr>${columns.map(head)}</tr></thead>
  <tbody>${rows.map((row, at) => html`<tr key=${id(row)} class=${at === current ? "current" : ""} data-operation-id=${row.operation_id} data-tenant=${row.tenant} onClick=${onSelect && (() => onSelect(at))}>${columns.map(({ name, of, num, nowrap }) => html`<td key=${name} class=${`${num ? "num" : ""}`}>${of(row)}</td>`)}</tr>`)}</tbody></table></div>`;
}

// Exports: CSV and JSON lines of what a filter means, fetched page by page in the browser.
import { stamp } from "./time.js";

/** The most rows of one export; more say that they are incomplete. */
export const MOST = 10000;

/** A cell of CSV: quoted, and defused where a spreadsheet would take it for a formula. */
export const cell = value => {
  let text = value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  if (/^[=+\-@\t\r]/.test(text)) text = "'" + text;
  return /[",\n\r]/.test(text) || text !== text.trim() ? `"${text.replace(/"/g, '""')}"` : text;
};

/** Rows as CSV. `columns`: `[name, row => value]`. */
export const csv = (columns, rows) => [columns.map(([name]) => cell(name)), ...rows.map(row => columns.map(([, of]) => cell(of(row))))].map(line => line.join(",")).join("\r\n") + "\r\n";

/** Rows as JSON lines; the last line says how many there are, and whether these are all. */
export const jsonLines = (rows, complete) => rows.map(row => JSON.stringify(row)).join("\n") + (rows.length ? "\n" : "") + JSON.stringify({ rows: rows.length, complete }) + "\n";

export function save(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** Fetches pages until the end, the bound, or a stop. `page(after)` gives `{rows, next}`. */
export async function gather(page, { most = MOST, onProgress = () => {}, stopped = () => false } = {}) {
  const rows = [];
  let after, next = null;
  do {
    const got = await page(after);
    rows.push(...got.rows);
    next = got.next ?? null;
    after = next;
    onProgress(rows.length);
  } while (next !== null && rows.length <= most && !stopped());
  const complete = next === null && rows.length <= most;
  return { rows: rows.slice(0, most), complete };
}

/** The file of an export. */
export function file(screen, filter, format, columns, { rows, complete }) {
  const conditions = Object.entries(filter).filter(([, value]) => value).map(([name, value]) => `${name}-${value}`.replace(/[^A-Za-z0-9._-]+/g, "_")).join("_");
  const name = ["hapax", screen, conditions, stamp(), complete ? "" : `first-${rows.length}-incomplete`].filter(Boolean).join("_");
  if (format === "csv") save(`${name}.csv`, "text/csv;charset=utf-8", csv(columns, rows));
  else save(`${name}.jsonl`, "application/jsonl", jsonLines(rows, complete));
  return { count: rows.length, complete };
}

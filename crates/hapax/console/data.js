// What several screens ask and decide: claims page by page, decisions about the epoch that was seen, their command lines.
import { call, get, post } from "./api.js";
import { quoted } from "./text.js";
import { look, refresh } from "./pulse.js";

// Conditions that older servers do not know; without them a list is longer, and sorted otherwise.
const NEWER = ["order", "opened_after", "doubt", "outcome", "looked_at"];
let older = false;

/** One page of claims. */
export async function claimsPage(query, signal) {
  const asked = { ...query };
  if (older) NEWER.forEach(name => delete asked[name]);
  try { return await get("/v1/claims", asked, signal); } catch (problem) {
    if (problem.status !== 400 || !NEWER.some(name => asked[name] && problem.detail.includes(`\`${name}\``))) throw problem;
    older = true;
    return claimsPage(query, signal);
  }
}

/**
 * One page of the newest claims. Of more shelves than the server merges, shelf by shelf and the oldest of each first, as
 * `oldest` of the page says; pages after it are asked for with that.
 */
export async function newestPage(query, signal, oldest = false) {
  if (!oldest) {
    try { return await claimsPage({ ...query, order: "newest" }, signal); } catch (problem) { if (problem.code !== "too-many-shelves") throw problem; }
  }
  return { ...(await claimsPage(query, signal)), oldest: true };
}

/** All claims in doubt, up to what a desk can hold. */
export async function doubts(scope, signal) {
  const claims = [], damaged = [];
  let after;
  do {
    const page = await claimsPage({ ...scope, state: "in_doubt", limit: 250, after }, signal);
    claims.push(...page.claims);
    damaged.push(...(page.damaged ?? []));
    after = page.next;
  } while (after && claims.length < 1000);
  return { claims, damaged, more: Boolean(after) };
}

/** Decides, and lets the pulse know. `verb`: resolve, reopen, purge, erase, note. */
export async function decide(claim, verb, body) {
  const done = await post(`/v1/claims/${encodeURIComponent(claim.operation_id)}/${verb}`, verb === "note" ? body : { epoch: claim.epoch, ...body });
  look();
  refresh();
  return done;
}

/** After a lost answer: did the decision count? The claim says. */
export const read = id => get(`/v1/claims/${encodeURIComponent(id)}`);

const USUAL = "127.0.0.1:8081";
/** Where the command finds this server; what it takes by itself is left out. */
const where = () => (location.protocol === "http:" && location.host === USUAL ? "" : ` --admin ${location.origin}`);
const end = ({ epoch, reason, by }) => `${epoch ? ` --epoch ${epoch}` : ""} --reason ${reason ? quoted(reason) : "…"}${by ? ` --by ${quoted(by)}` : ""}${where()}`;

/** The command line that decides the same. */
export const cli = {
  settle: (claim, { status, type, reason, by }) => `hapax claims resolve ${claim.operation_id} --settle-status ${status} --settle-body answer.json${type ? ` --settle-header ${quoted(`Content-Type: ${type}`)}` : ""}${end({ epoch: claim.epoch, reason, by })}`,
  release: (claim, { force, reason, by }) => `hapax claims resolve ${claim.operation_id} --release${force ? " --force" : ""}${end({ epoch: claim.epoch, reason, by })}`,
  plain: (claim, verb, { reason, by }) => `hapax claims ${verb} ${claim.operation_id}${end({ epoch: claim.epoch, reason, by })}`,
  note: (claim, { reason, by }) => `hapax claims note ${claim.operation_id}${end({ reason, by })}`,
  other: (words, { reason, by } = {}) => `hapax ${words}${reason === undefined ? where() : end({ reason, by })}`,
  /** The same decision about many: a loop of the shell over operation ids and epochs. */
  many: (claims, rest) => `while read -r id epoch; do hapax claims ${rest}${where()}; done <<'END'\n${claims.map(({ operation_id, epoch }) => `${operation_id} ${epoch}`).join("\n")}\nEND`,
  /** A reason and a name, as every command of a decision takes them. */
  because: ({ reason, by }) => `--reason ${reason ? quoted(reason) : "…"}${by ? ` --by ${quoted(by)}` : ""}`,
};

/** The newest kept answer of the claim's operation, to start from: with its claim, whose ids must not stay in it. */
export async function lastAnswer(claim) {
  const page = await claimsPage({ tenant: claim.tenant, project: claim.project, operation: claim.operation, state: "settled", order: "newest", limit: 20 });
  const one = page.claims.filter(other => other.operation_id !== claim.operation_id && other.outcome?.kind === "succeeded").sort((a, b) => (a.settled_at < b.settled_at ? 1 : -1))[0];
  if (!one) return null;
  return call("GET", `/v1/claims/${one.operation_id}`, { query: { outcome: true } });
}

/** When a claim in doubt can be released: the time, or null for now. */
export const notBefore = claim => {
  const lives = claim.holder?.alive && claim.doubt?.reason === "lapsed" ? claim.holder.until : null;
  return [claim.may_run_until, lives].filter(Boolean).sort().at(-1) ?? null;
};

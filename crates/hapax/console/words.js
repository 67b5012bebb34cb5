// Words of the API in plain words: states, reasons of doubts, verbs of the audit, events, policies.

/** A claim's state: its word and its mark. */
export const STATES = {
  held: ["Held", "held"], settled: ["Settled", "settled"], in_doubt: ["In doubt", "doubt"], released: ["Released", "released"],
};

export const stateWord = state => STATES[state]?.[0] ?? state ?? "–";
export const stateMark = state => STATES[state]?.[1] ?? "seen";

/** Why a claim is in doubt. */
export const DOUBTS = {
  failed: "the call failed after the request had been sent",
  lapsed: "the instance that ran it went silent",
  stated: "the service itself said that it cannot be known",
  paused: "the service could not be reached and no attempt is left",
};

/** Is the claim a step of an execution or an action of an agent? Those are decided under Approvals, because more than the claim is told. */
export const ofAgent = claim => claim.source === "derived" && (claim.operation === "action" || claim.operation.startsWith("step."));

/** What the audit tells: a verb, its mark. */
export const VERBS = {
  "resolve-release": ["released", "released"], "resolve-settle": ["settled", "settled"], reopen: ["reopened", "released"], purge: ["purged", "released"],
  erase: ["answer erased", "released"], note: ["noted", "seen"], "settle-refused": ["late outcome refused", "mismatch"],
};
export const verbWord = verb => VERBS[verb]?.[0] ?? verb.replace(/[-_]/g, " ");
export const verbMark = verb => VERBS[verb]?.[1] ?? "seen";

/** What became of a request: its word and its mark. */
const EVENTS = { executed: "settled", replayed: "settled", attached: "held", mismatch: "mismatch", in_doubt: "doubt", refused: "refused", invalid: "refused", unavailable: "refused", released: "released", passed: "seen" };
export const eventMark = event => EVENTS[event?.replace(/-/g, "_")] ?? (/key-reused/.test(event) ? "mismatch" : /outcome-unknown/.test(event) ? "doubt" : "seen");

/** How an execution stands. */
export const STATUSES = { RUNNING: ["Running", "held"], PAUSED: ["Paused", "doubt"], RECOVERING: ["Recovering", "held"], COMPLETED: ["Completed", "settled"], FAILED: ["Failed", "refused"] };

const KEYED = { REQUIRED_A: "A key is required.", REQUIRED: "A key is required.", ACCEPTED: "A key is honoured where one is sent; without one the request passes through.", PROHIBITED: "No key is taken: the request passes through, and one that has a key is refused." };
const RERUN = {
  unsafe: "If it cannot be known whether it ran, it waits for a person.", safe: "If it cannot be known whether it ran, it runs again.", ask: "If it cannot be known whether it ran, the service is asked.",
};

/** What a route's policy means, in sentences made from its fields. */
export function policySays(route) {
  if (route.says) return route.says;
  const says = [KEYED[route.policy] ?? (/^REQUIRED/.test(route.policy) ? KEYED.REQUIRED : `The policy is ${route.policy}.`)];
  if (!route.operation) return says.join(" ");
  const kept = route.retention?.kept;
  says.push(`A retry with the same key gets the first answer${kept ? ` for ${kept}` : " as long as it is kept"}.`);
  if (route.scope) says.push(route.scope === "subject" ? "Each caller has keys of its own." : `Keys are shared by all callers of a ${route.scope}.`);
  if (RERUN[route.rerun]) says.push(RERUN[route.rerun]);
  if (route.attach === "wait") says.push(`A second caller waits${route.attach_timeout ? ` up to ${route.attach_timeout}` : ""} for the first one's answer.`);
  if (route.attach === "reject") says.push("A second caller is told 409 while the first one runs.");
  if (route.on_5xx) says.push(`Answers of status 5xx: ${typeof route.on_5xx === "string" ? route.on_5xx : Object.entries(route.on_5xx).map(([name, what]) => `${name} ${what}`).join(", ")}.`);
  return says.join(" ");
}

//! Every bound and default of this crate.

use std::time::Duration;

/// The longest wait for the end of running requests.
pub(crate) const DRAIN: Duration = Duration::from_secs(30);
/// The longest wait at the end of a drain for the ledger to hear what calls have left behind.
pub(crate) const DEBTS_PAID: Duration = Duration::from_secs(2);
/// Bytes of requests and answers held in memory at a time.
pub(crate) const BUFFERED: u64 = 256 << 20;
/// Calls that go on without a caller.
pub(crate) const DETACHED: usize = 10_000;
/// Ends the caller's wait.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a first failed attempt.
pub(crate) const BACKOFF: Duration = Duration::from_millis(100);
/// Where the pages about problem codes are: the edge itself serves them.
pub(crate) const DOCS: &str = "/.well-known/hapax/errors/";
/// Below this the edge serves its own pages, and nothing else.
pub(crate) const OWN: &str = "/.well-known/hapax/";
/// The segment behind a route's path below which outcomes are recalled by key.
pub(crate) const RECALL_SEGMENT: &str = "by-idempotency-key";
/// The longest path of a route, in bytes.
pub(crate) const PATTERN: usize = 1_024;
/// The longest pause between two attempts at a service.
pub(crate) const LONGEST_BACKOFF: Duration = Duration::from_secs(5);
/// Tenants whose shares are remembered before idle ones are forgotten.
pub(crate) const TENANTS: usize = 10_000;
/// The longest wait of a recall for an outcome.
pub(crate) const RECALL_WAIT: Duration = Duration::from_secs(30);
/// Tenants and projects that metrics tell apart; the rest is `_other` (O1).
pub(crate) const LABELS: usize = 1_000;
/// Projects at endpoints that metrics tell apart; the rest is `_other` (O1).
pub(crate) const GRAINS: usize = 50 * LABELS;
/// Answers of one project at one endpoint that metrics tell apart, by event and status; those of further statuses are counted together.
pub(crate) const ANSWERS: usize = 32;
/// Providers of one project at one endpoint that metrics tell apart.
pub(crate) const PROVIDERS: usize = 32;
/// Label sets of any other family: providers with causes, schedules.
pub(crate) const TALLIED: usize = 10_000;
/// The longest wait for a service that is asked whether an earlier attempt happened, to the end of its answer.
pub(crate) const RECONCILE: Duration = Duration::from_secs(5);
/// The longest answer to that question.
pub(crate) const RECONCILED: usize = 1 << 20;

// Traces (O3).

/// Recorded requests that wait to be exported; further ones are counted and dropped.
pub(crate) const TRACES_WAITING: usize = 2_048;
/// Steps of one request that are recorded.
pub(crate) const STEPS: usize = 16;

// Authentication (A).

/// The longest credential, in bytes.
pub(crate) const CREDENTIAL: usize = 8 << 10;
/// Verified credentials remembered at a time.
pub(crate) const REMEMBERED: usize = 10_000;
/// Refused credentials remembered at a time, so that an outside service is not asked about each of them again.
pub(crate) const REFUSED: usize = 1_000;
/// How long a verified token is believed without looking again; keys that were withdrawn count that much longer.
pub(crate) const TOKEN_REMEMBERED: Duration = Duration::from_secs(60);
/// How long an API key is believed without looking again: a revoked one stops working within this, everywhere.
pub(crate) const API_KEY_REMEMBERED: Duration = Duration::from_secs(5);
/// How long a refusal by an outside service is believed.
pub(crate) const REFUSAL_REMEMBERED: Duration = Duration::from_secs(5);
/// The longest time that answers of an outside service may be set to be remembered.
pub(crate) const VERIFY_REMEMBERED: Duration = Duration::from_secs(60 * 60);
/// Credentials that are looked up at a time; a further one waits for its turn.
pub(crate) const LOOK_UPS: usize = 64;
/// The longest wait for the registry, its turn included.
pub(crate) const REGISTRY_WAIT: Duration = Duration::from_secs(5);
/// The longest answer of a service that verifies keys.
pub(crate) const VERIFY_BODY: usize = 64 << 10;
/// The most that clocks may be set to differ.
pub(crate) const LEEWAY: Duration = Duration::from_secs(60 * 60);
/// The longest JWKS document.
pub(crate) const JWKS_BODY: usize = 256 << 10;
/// Keys that are used of one JWKS document.
pub(crate) const JWKS_KEYS: usize = 64;
/// Keys that are tried for a token that does not name its key.
pub(crate) const JWKS_TRIES: usize = 8;
/// The longest wait for a JWKS URL.
pub(crate) const JWKS_TIMEOUT: Duration = Duration::from_secs(5);
/// How old fetched keys grow before they are fetched again.
pub(crate) const JWKS_FRESH: Duration = Duration::from_secs(5 * 60);
/// The shortest time between two fetches, whatever tokens ask for.
pub(crate) const JWKS_PAUSE: Duration = Duration::from_secs(5);
/// How long keys are used after they were fetched last, while they cannot be fetched again.
pub(crate) const JWKS_KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// API keys in one page of a list.
pub(crate) const API_KEYS_PAGE: usize = 1_000;

// Webhooks (W).

/// A day.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How far the time of a signature may be from now, both ways.
pub(crate) const SIGNATURE_TOLERANCE: Duration = Duration::from_secs(300);
/// Signatures of one delivery that are compared.
pub(crate) const SIGNATURES: usize = 16;
/// How long a sender waits for an answer, unless its provider says otherwise.
pub(crate) const DELIVERY_WAIT: Duration = Duration::from_secs(10);
/// For how long a sender may send a delivery again, unless its provider says otherwise.
pub(crate) const DELIVERY_WINDOW: Duration = DAY;
/// Webhooks that are remembered at a time, those that nobody has among them.
pub(crate) const WEBHOOKS_REMEMBERED: usize = 10_000;
/// How long a webhook is believed without looking again: a revoked one stops working within this, everywhere.
pub(crate) const WEBHOOK_REMEMBERED: Duration = Duration::from_secs(5);
/// Webhooks in one page of a list.
pub(crate) const WEBHOOKS_PAGE: usize = 1_000;
/// The longest file with secrets.
pub(crate) const SECRET_FILE: usize = 64 << 10;
/// The longest answer of a KV store.
pub(crate) const KV_BODY: usize = 64 << 10;
/// How long secrets of a KV store are believed without asking again.
pub(crate) const KV_REMEMBERED: Duration = Duration::from_secs(60);
/// Deliveries whose signed content is remembered, to notice it under another identifier.
pub(crate) const CONTENTS: usize = 10_000;
/// How long signed content is remembered.
pub(crate) const CONTENT_REMEMBERED: Duration = DAY;

/// The longest id of a webhook that an outside service knows, in bytes.
pub(crate) const OUTSIDE_ID: usize = 64;
/// Webhooks of which it is known, for operators, how their deliveries were refused.
pub(crate) const REFUSALS_WEBHOOKS: usize = 1_000;
/// Refused deliveries of one webhook that are shown.
pub(crate) const REFUSALS_SHOWN: usize = 20;

// Delegation to Restate (D).

/// Headers of callers that handlers get to see, unless the configuration names others.
pub(crate) const DELEGATED_HEADERS: [&str; 2] = ["traceparent", "tracestate"];
/// Failures in a row after which a node is asked nothing for a while.
pub(crate) const SUSPEND_AFTER: u32 = 5;
/// How long that while is.
pub(crate) const SUSPEND_FOR: Duration = Duration::from_secs(5);
/// The longest wait for what a cluster answers by itself, at one node.
pub(crate) const PROMPT: Duration = Duration::from_secs(5);
/// The longest wait for a suspended node that is asked whether it is back.
pub(crate) const PROBE: Duration = Duration::from_secs(1);
/// The longest answer to that.
pub(crate) const PROBE_ANSWER: usize = 64 << 10;
/// After how much waiting it is looked whether a call can still come to its end.
pub(crate) const STATUS_FIRST: Duration = Duration::from_secs(2);
/// How long after that it is looked again, each time.
pub(crate) const STATUS_AGAIN: Duration = Duration::from_secs(10);
/// The longest wait for an admin API, at one node.
pub(crate) const ADMIN_WAIT: Duration = Duration::from_secs(3);
/// A wait for an admin API that says nothing about it, because it was shorter.
pub(crate) const ADMIN_LEAST: Duration = Duration::from_millis(100);
/// The longest answer of an admin API.
pub(crate) const ADMIN_ANSWER: usize = 16 << 20;
/// How much of the first entry of a journal is read: the edge's own headers stand at its beginning.
pub(crate) const JOURNAL_HEAD: usize = 2_048;
/// Calls of which it is remembered what the cluster accepted.
pub(crate) const CONFIRMED: usize = 100_000;
/// How long that is remembered at most.
pub(crate) const CONFIRMED_REMEMBERED: Duration = Duration::from_secs(60 * 60);
/// Calls under way at an edge that are told apart.
pub(crate) const FLIGHTS: usize = 100_000;
/// The longest key of an object, in bytes.
pub(crate) const OBJECT_KEY: usize = 512;
/// The longest body of a request without a key to a handler.
pub(crate) const PASSED_REQUEST: usize = 1 << 20;
/// How much of an answer to a request without a key is read before it is passed on.
pub(crate) const PASSED_ANSWER: usize = 1 << 20;
/// What a caller whose call goes on is told to wait.
pub(crate) const DELEGATED_RETRY: Duration = Duration::from_secs(1);

/// The longest label of an API key, in characters.
pub(crate) const LABEL: usize = 200;

// What the code relies on between two bounds.

const _: () =
    assert!(DEBTS_PAID.as_millis() < DRAIN.as_millis(), "debts are paid within the time of a drain");
const _: () = assert!(BACKOFF.as_millis() <= LONGEST_BACKOFF.as_millis(), "pauses grow up to the longest");
const _: () = assert!(
    RECONCILE.as_millis() <= TIMEOUT.as_millis(),
    "a service is asked about an earlier attempt while a caller waits"
);
const _: () = assert!(RECONCILED as u64 <= BUFFERED, "what a service knows has room in memory");
const _: () = assert!(RECALL_WAIT.as_millis() <= DRAIN.as_millis(), "a drain outlasts the wait of a recall");
const _: () = assert!(
    API_KEY_REMEMBERED.as_millis() <= TOKEN_REMEMBERED.as_millis()
        && REFUSAL_REMEMBERED.as_millis() <= TOKEN_REMEMBERED.as_millis(),
    "what can be withdrawn here, and what may be granted soon, is believed for less long than a token"
);
const _: () = assert!(JWKS_TRIES <= JWKS_KEYS, "only keys of a document are tried");
const _: () = assert!(
    JWKS_PAUSE.as_millis() < JWKS_FRESH.as_millis() && JWKS_FRESH.as_millis() < JWKS_KEPT.as_millis(),
    "keys are fetched again before they are too old to be used"
);
const _: () = assert!(
    WEBHOOK_REMEMBERED.as_millis() < KV_REMEMBERED.as_millis(),
    "a revoked webhook stops working before its secrets are asked for again"
);
const _: () = assert!(
    SIGNATURE_TOLERANCE.as_secs() < DELIVERY_WINDOW.as_secs(),
    "a signature is old before a delivery is"
);
const _: () = assert!(
    CONTENT_REMEMBERED.as_secs() > SIGNATURE_TOLERANCE.as_secs(),
    "content is noticed again for longer than a captured signature holds"
);
const _: () =
    assert!(DELIVERY_WAIT.as_millis() <= TIMEOUT.as_millis(), "a sender waits no longer than any caller");
const _: () = assert!(
    API_KEYS_PAGE <= hapax_core::limits::MAX_PAGE && WEBHOOKS_PAGE <= hapax_core::limits::MAX_PAGE,
    "a page of keys or webhooks is a page of the registry"
);
const _: () = assert!(
    STATUS_FIRST.as_millis() < STATUS_AGAIN.as_millis() && STATUS_FIRST.as_millis() < TIMEOUT.as_millis(),
    "a paused call is noticed while its caller waits"
);
const _: () = assert!(
    PROBE.as_millis() < SUSPEND_FOR.as_millis(),
    "a node that is looked at again has answered, or not, before the next look"
);
const _: () = assert!(
    PROMPT.as_millis() <= TIMEOUT.as_millis() && ADMIN_WAIT.as_millis() <= TIMEOUT.as_millis(),
    "a node that does not answer leaves time for the next one, or for an answer to the caller"
);
const _: () = assert!(JOURNAL_HEAD <= ADMIN_ANSWER, "the head of a journal entry fits into an answer");

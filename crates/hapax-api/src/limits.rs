//! The bounds that the models tell their callers; the server checks them.

/// The longest reason of a decision, in characters, because that is what a schema can say.
pub const REASON_LENGTH: usize = 1024;
/// The longest name of a person, of a token or of a key, in characters.
pub const NAME_LENGTH: usize = 128;
/// The longest name of a place where a secret is, in characters.
pub const PLACE_LENGTH: usize = 1024;
/// The longest secret of a webhook, in characters.
pub const SECRET_LENGTH: usize = 4096;
/// The largest page.
pub const PAGE_RECORDS: usize = hapax_core::limits::MAX_PAGE;
/// The largest page of traffic.
pub const PAGE_TRAFFIC: usize = 200;
/// The longest body of a request of an operator.
pub const ADMIN_BODY_BYTES: usize = 2 * 1024 * 1024;
/// The longest body of a request of an application: a checkpoint of 4 MiB, and what goes with it.
pub const APPLICATION_BODY_BYTES: usize = 4608 * 1024;
const _: () = assert!(
    hapax_core::limits::MAX_CHECKPOINT_BYTES + 64 * 1024 < APPLICATION_BODY_BYTES,
    "a checkpoint fits"
);
/// The longest name of an attempt, in characters.
pub const ATTEMPT_LENGTH: usize = 128;
/// The largest page of an execution's events.
pub const PAGE_EVENTS: usize = 256;

// The forms of texts, as the description tells them.

/// A tenant or a project (K4).
pub(crate) const SLUG: &str = "^[a-z0-9][a-z0-9_-]{0,62}$";
/// A subject, as people write it.
pub(crate) const SUBJECT: &str = "^(user|service|tenant_member|client):[\\s\\S]+$";
/// A subject, as hapax writes it (K4).
pub(crate) const WRITTEN_SUBJECT: &str =
    "^(user|service|tenant_member|client):([A-Za-z0-9._~@-]|%[0-9A-F]{2})+$";
/// A project as claims have it: where it does not count, a word stands for it.
pub(crate) const CLAIMS_PROJECT: &str = "^([a-z0-9][a-z0-9_-]{0,62}|_any|_tenant|_platform)$";
/// A subject as claims have it.
pub(crate) const CLAIMS_SUBJECT: &str =
    "^((user|service|tenant_member|client):([A-Za-z0-9._~@-]|%[0-9A-F]{2})+|_any|_tenant|_platform)$";
/// The name of an operation.
pub(crate) const OPERATION: &str = "^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$";
const _: () = assert!(hapax_core::limits::MAX_OPERATION_CHARS == 128, "OPERATION says so");
/// By what traffic can be sorted: the numbers of its rows.
pub(crate) const TRAFFIC_SORT: &str =
    "^(requests|executed|replayed|mismatch|invalid|in_doubt|hit_rate|p50_ms|p99_ms)$";
/// A span of time.
pub(crate) const SPAN: &str = "^[0-9]{1,10}(ms|s|m|h|d)$";
/// A span of time, or for ever.
pub(crate) const RETENTION: &str = "^([0-9]{1,10}(ms|s|m|h|d)|forever)$";
/// A time in UTC.
pub(crate) const UTC: &str = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,6})?Z$";
/// A span of time, or a time in UTC.
pub(crate) const SPAN_OR_UTC: &str =
    "^([0-9]{1,10}(ms|s|m|h|d)|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,6})?Z)$";
/// The name of something that is configured: an upstream, a provider, a class.
pub(crate) const CONFIGURED: &str = "^[a-z][a-z0-9_-]{0,62}$";
/// What a cluster calls a call.
pub(crate) const INVOCATION: &str = "^inv_[A-Za-z0-9]{1,64}$";
/// What tells one run of a schedule from others.
pub(crate) const RUN_ID: &str = "^[A-Za-z0-9_-]{1,64}$";
/// A text that is not blank, without control characters.
pub(crate) const SAID: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*[^\\s\\u0000-\\u001f\\u007f-\\u009f][^\\u0000-\\u001f\\u007f-\\u009f]*$";
/// A text without control characters.
pub(crate) const PRINTABLE: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$";
/// The id of an execution, which also has more than dots.
pub(crate) const EXECUTION_ID: &str = "^[A-Za-z0-9._~-]{1,64}$";
/// What tells one attempt of a caller from others.
pub(crate) const ATTEMPT: &str = "^[!-~]{1,128}$";
const _: () = assert!(ATTEMPT_LENGTH == 128, "ATTEMPT says so");
/// A key of a caller, which also has at most 1,024 bytes.
pub(crate) const KEY: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]{1,1024}$";
/// A SHA-256.
pub(crate) const DIGEST: &str = "^[0-9a-f]{64}$";
/// An agent.
pub(crate) const AGENT: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]{1,128}$";
/// The type of an event.
pub(crate) const EVENT_TYPE: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]{1,50}$";
/// The name of a tool.
pub(crate) const TOOL: &str = "^[A-Za-z0-9._:/-]{1,123}$";

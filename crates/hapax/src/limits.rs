//! Every bound and default of this crate, in one place.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Longest URL of a store.
pub(crate) const MAX_URL_BYTES: usize = 4_096;

// Listeners that serve an API.

/// How often the ledger is asked which claims of a tenant at its limit are held no more.
pub(crate) const PLACES_LOOKED_AT_EVERY: Duration = Duration::from_secs(1);
/// How long the ledger is asked then.
pub(crate) const PLACES_LOOKED_AT_FOR: Duration = Duration::from_secs(2);
/// Connections at a time; further ones wait to be accepted.
pub(crate) const API_CONNECTIONS: usize = 256;
/// The longest time for the head of a request, and the longest silence between two requests.
pub(crate) const API_HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest head of a request, in bytes.
pub(crate) const API_HEAD_BYTES: usize = 32 * 1024;
/// The most header fields of a request.
pub(crate) const API_HEAD_FIELDS: usize = 64;
/// The longest body of a request of an operator: an answer of 1 MiB in base64, and what goes with it.
pub(crate) const API_BODY_BYTES: usize = hapax_api::limits::ADMIN_BODY_BYTES;
/// The longest time for the body of a request.
pub(crate) const API_BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Most bytes of an execution that is imported, and how long its lines may take to be sent and written.
pub(crate) const IMPORT_BYTES: u64 = 1024 * 1024 * 1024;
/// See [`IMPORT_BYTES`].
pub(crate) const UPLOAD_PIECE: usize = 64 * 1024;
/// See [`IMPORT_BYTES`].
pub(crate) const REMOTE_IMPORT: Duration = Duration::from_secs(5 * 60);
/// The longest life of a connection, so that one that reads nothing does not stay.
pub(crate) const API_CONNECTION_LIFE: Duration = Duration::from_secs(5 * 60);
/// How long running requests are waited for when the process ends.
pub(crate) const API_DRAIN: Duration = Duration::from_secs(5);
/// The pause after a connection could not be accepted, such as when no file descriptor is left.
pub(crate) const API_ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a lease of a caller lasts unless it says otherwise.
pub(crate) const OPEN_LEASE: Duration = Duration::from_secs(30);
/// How long a former run of an application's claim may have to be silent, at most.
pub(crate) const CLAIM_QUIET: (Duration, Duration) = (Duration::ZERO, Duration::from_secs(86_400));
/// How long one attempt of an application's claim may be renewed.
pub(crate) const CLAIM_MAX_RUN: (Duration, Duration) =
    (Duration::from_secs(1), Duration::from_secs(30 * 86_400));
/// How long a caller may wait for another holder's outcome in one request.
pub(crate) const CLAIM_ATTACH: (Duration, Duration) = (Duration::ZERO, Duration::from_secs(30));
/// How long the outcome of an application's claim is kept unless it says otherwise.
pub(crate) const CLAIM_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
/// Most bytes of the outcome of an application's claim, as canonical JSON.
pub(crate) const CLAIM_RESULT_BYTES: usize = hapax_agent::limits::MAX_RESULT_BYTES;

/// Most bytes of a step's result that an application tells, as canonical JSON: what is kept has some more around it.
pub(crate) const STEP_RESULT_BYTES: usize = hapax_agent::limits::MAX_RESULT_BYTES - 1024;
/// Tokens that the admin listener knows.
pub(crate) const ADMIN_TOKENS: usize = 64;

/// How often the counters are read for samples.
pub(crate) const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// Samples of 10 seconds, of a minute and of 5 minutes that are remembered: a quarter of an hour, 6 hours, a day.
pub(crate) const SAMPLES_FINE: usize = 90;
/// Samples of a minute that are remembered.
pub(crate) const SAMPLES_MINUTES: usize = 360;
/// Samples of 5 minutes that are remembered.
pub(crate) const SAMPLES_COARSE: usize = 288;
/// Tenants' projects at endpoints whose traffic is remembered; that of others is told since the start.
pub(crate) const TRAFFIC_GRAINS: usize = 200;
/// Minutes for which it is remembered one by one.
pub(crate) const TRAFFIC_MINUTES: usize = 62;
/// Half hours for which it is remembered.
pub(crate) const TRAFFIC_HALVES: usize = 50;
/// Minutes that a row of traffic shows one by one.
pub(crate) const TRAFFIC_SPARK: usize = 30;
/// The span of a pulse unless the question says otherwise.
pub(crate) const PULSE_WINDOW: Duration = Duration::from_secs(15 * 60);
/// The longest such span.
pub(crate) const PULSE_WINDOW_MOST: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a pulse waits for what it asks of the store; after that it tells what was known before.
pub(crate) const PULSE_PATIENCE: Duration = Duration::from_millis(200);
/// Services behind that a pulse names because they have failed.
pub(crate) const PULSE_UPSTREAMS: usize = 16;
/// How long a count of what waits for a person is told again.
pub(crate) const ATTENTION_EVERY: Duration = Duration::from_secs(5);
/// Claims that a page of the newest of several shelves looks at.
pub(crate) const NEWEST_SCAN: usize = 10_000;
/// Shelves whose newest claims are listed as one.
pub(crate) const NEWEST_SHELVES: usize = 1_000;
/// Claims that one lookup of a key reads.
pub(crate) const LOOKUP_READS: usize = 2_000;
/// How far apart two claims of the same request may have been opened to be shown together.
pub(crate) const RELATED_WITHIN: Duration = Duration::from_secs(60 * 60);
/// Claims that are looked at for those.
pub(crate) const RELATED_SCAN: usize = 5_000;
/// Pages of the audit that one question with conditions looks at.
pub(crate) const AUDIT_PAGES: usize = 10;
/// Claims whose key and tenant one page of the audit names.
pub(crate) const AUDIT_CLAIMS: usize = 200;
/// The longest file of the console that is read from a folder, in bytes.
pub(crate) const CONSOLE_FILE_BYTES: u64 = 1024 * 1024;
/// Links to other tools that the console shows.
pub(crate) const ADMIN_LINKS: usize = 16;
/// Wrong tokens of one address within [`GUESS_SPAN`], each counted once; then all of its tokens are refused until the span is over.
pub(crate) const GUESSES: usize = 10;
/// How long wrong tokens are remembered.
pub(crate) const GUESS_SPAN: Duration = Duration::from_secs(60);
/// Addresses whose wrong tokens are remembered; where there are more, the longest known is forgotten.
pub(crate) const GUESSERS: usize = 1024;
/// Refused decisions that the audit is told of within a minute; the others are only counted.
pub(crate) const REFUSALS_AUDITED: u32 = 60;

/// Places beside `Idempotency-Key` that a route may read its key from.
pub(crate) const KEY_PLACES: usize = 8;

/// Records in a page unless the question says otherwise.
pub(crate) const PAGE: usize = 50;
/// Claims that one request to erase a subject's answers looks at.
pub(crate) const ERASE_PAGE: usize = 200;
// What callers are told in the API's description, too.
pub(crate) use hapax_api::limits::{NAME_LENGTH, PLACE_LENGTH, REASON_LENGTH, SECRET_LENGTH};
/// Header fields of an answer that an operator states.
pub(crate) const SETTLED_FIELDS: usize = 64;
/// The longest answer that an operator states, in bytes.
pub(crate) const SETTLED_BODY_BYTES: usize = 1024 * 1024;
/// How long an answer stated by an operator is kept where nothing else is said.
pub(crate) const SETTLED_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

// Backups.

/// Bytes of a backup's file that are read, sealed and written at once.
pub(crate) const BACKUP_PIECE: u64 = 1024 * 1024;
/// The most bytes by which a sealed piece is longer.
pub(crate) const SEALED_MORE: u64 = 64;
/// The longest manifest, in bytes: the spool has a bound, and each of its files has a line.
pub(crate) const MANIFEST_BYTES: u64 = 16 * 1024 * 1024;
/// How often a person hears how far a backup is.
pub(crate) const BACKUP_TOLD_EVERY: Duration = Duration::from_secs(1);

// Retention by command.

/// How often it is looked at what others have set.
pub(crate) const RETENTION_EVERY: Duration = Duration::from_secs(5);
/// How often a class is set anew because another process set it meanwhile.
pub(crate) const RETENTION_ATTEMPTS: u32 = 8;

// The log.

/// Lines that wait to be written.
pub(crate) const LOG_LINES: usize = 8 * 1024;
/// Bytes of lines that are written at once.
pub(crate) const LOG_BYTES: usize = 8 * 1024;
/// How long a log that takes nothing at the moment is left alone.
pub(crate) const LOG_PAUSE: Duration = Duration::from_millis(10);
/// How often the log is told which of its lines are missing.
pub(crate) const LOG_GAPS_EVERY: Duration = Duration::from_secs(5);

// Actions.

/// Most rules of the gate.
pub(crate) const TRUST_RULES: usize = 1_000;
/// Most tools of a connector that are configured.
pub(crate) const CONNECTOR_TOOLS: usize = 1_000;
/// Plans that a server does at a time.
pub(crate) const PLANS: usize = 256;
/// How long a command waits at its end until the store has confirmed what it is owed.
pub(crate) const ACTIONS_SETTLE: Duration = Duration::from_secs(30);
/// The same where a server ends: its supervisor waits no longer than a minute, and most of that is for what is running.
pub(crate) const PLANS_SETTLE: Duration = Duration::from_secs(2);

// Traces.

/// Recorded requests that go to the collector at once.
pub(crate) const EXPORT_BATCH: usize = 512;
/// The longest wait for more of them.
pub(crate) const EXPORT_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked whether more have come.
pub(crate) const EXPORT_PAUSE: Duration = Duration::from_millis(50);
/// The longest wait for a collector.
pub(crate) const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// The first and the longest pause after a collector has taken nothing.
pub(crate) const EXPORT_BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(8));
/// The longest wait at the end of the process for a collector to take the last spans.
pub(crate) const EXPORT_AT_END: Duration = Duration::from_secs(2);

// Schedules.

/// Most schedules of a configuration.
pub(crate) const SCHEDULES: usize = 1_000;
/// The longest id of a schedule, in bytes: it stands in keys.
pub(crate) const SCHEDULE_ID_BYTES: usize = 63;
/// The longest cron expression, in bytes.
pub(crate) const CRON_BYTES: usize = 256;
/// The longest body of a tick, in bytes: the registry keeps it.
pub(crate) const TICK_BODY_BYTES: usize = 64 * 1024;
/// Ticks of an expression that are looked at in one step.
pub(crate) const TICKS_WALKED: usize = 10_000;
/// Definitions that were in force before and have ticks that are yet to be walked.
pub(crate) const FORMER_DEFINITIONS: usize = 8;
/// For how long the latest tick that is due counts as dispatched in its time: as long as a restart may take.
pub(crate) const TICK_GRACE: Duration = Duration::from_secs(60);
/// A tick that is dispatched longer after its time is counted as late.
pub(crate) const TICK_LATE: Duration = Duration::from_secs(5);
/// Ticks of a schedule that were dispatched and have not ended (S1).
pub(crate) const OPEN_TICKS: usize = 64;
/// Missed ticks of a schedule that are shown, spans of them as one.
pub(crate) const MISSED_SHOWN: usize = 20;
/// The pause before an open tick is sent again for the first time; doubled each time, up to the longest.
pub(crate) const TICK_AGAIN: Duration = Duration::from_secs(1);
/// The longest such pause.
pub(crate) const TICK_AGAIN_MOST: Duration = Duration::from_secs(60);
/// How often a schedule is looked at for what others have made of it.
pub(crate) const SCHEDULE_LOOK_EVERY: Duration = Duration::from_secs(1);
/// The pause after a step of a schedule failed; doubled each time, up to the longest.
pub(crate) const SCHEDULE_PAUSE: Duration = Duration::from_millis(200);
/// The longest such pause.
pub(crate) const SCHEDULE_PAUSE_MOST: Duration = Duration::from_secs(30);
/// The pauses between two looks at whether a tick's claim exists, from the first to the longest.
pub(crate) const CLAIM_LOOK: RangeInclusive<Duration> = Duration::from_millis(2)..=Duration::from_millis(100);
/// How long a tick's claim is waited for before the tick is sent again.
pub(crate) const CLAIM_WAIT: Duration = Duration::from_secs(10);
/// How long the answer to a tick is waited for. The call goes on without.
pub(crate) const TICK_ANSWER: Duration = Duration::from_secs(60);
/// Bytes of that answer that are read, so that its connection can be used again.
pub(crate) const TICK_ANSWER_BYTES: usize = 64 * 1024;
/// Ticks of all schedules of this process that are under way.
pub(crate) const TICKS_UNDER_WAY: usize = 256;
/// How often a schedule is changed anew because another process changed it meanwhile.
pub(crate) const SCHEDULE_ATTEMPTS: u32 = 16;
/// The longest id of a run that an operator asks for, in bytes.
pub(crate) const RUN_ID_BYTES: usize = 64;
/// Ticks to come that are shown.
pub(crate) const TICKS_SHOWN: usize = 3;

// The command line.

/// How long a server may take to accept a connection.
pub(crate) const REMOTE_CONNECT: Duration = Duration::from_secs(5);
/// How long a server may take to answer.
pub(crate) const REMOTE_ANSWER: Duration = Duration::from_secs(60);
/// The longest answer of a server, in bytes.
pub(crate) const REMOTE_BYTES: usize = 64 * 1024 * 1024;
/// Pages that one listing asks for at most, so that a filter that matches nothing comes to an end.
pub(crate) const REMOTE_PAGES: usize = 100_000;
/// Characters of a column of a table that people read.
pub(crate) const COLUMN: usize = 40;

// What `hapax doctor` looks at.

/// The oldest PostgreSQL that is supported, as `server_version_num` has it.
pub(crate) const POSTGRES_OLDEST: i32 = 140_000;
/// How long one question to PostgreSQL may take.
pub(crate) const DOCTOR_WAIT: Duration = Duration::from_secs(10);
/// How long a notification may take.
pub(crate) const DOCTOR_NOTIFY: Duration = Duration::from_secs(3);
/// Connections that PostgreSQL should have left for an instance.
pub(crate) const POSTGRES_CONNECTIONS_LEFT: i64 = 16;
/// By how much two clocks may differ.
pub(crate) const CLOCK_DIFFERENCE: Duration = Duration::from_secs(2);
/// Free bytes below which somebody should look at a disk.
pub(crate) const DISK_WANTED: u64 = 1024 * 1024 * 1024;
/// File descriptors below which a server cannot work.
pub(crate) const FILES_NEEDED: u64 = 256;
/// File descriptors that the default number of connections needs: one to the caller and one to the service each.
pub(crate) const FILES_WANTED: u64 = 41_000;
/// How long after a panic a task of the node is started again.
pub(crate) const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// How often the ledger is asked whether it takes claims, and claims in doubt are counted.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often it is asked while it does not.
pub(crate) const LOOK_EVERY_AWAY: Duration = Duration::from_secs(1);
/// How long it may take to answer that: longer than a store tries by itself, so that it is the store that says why.
pub(crate) const LEDGER_ANSWERS: Duration = Duration::from_secs(8);
/// The same for an outcome. PostgreSQL tries that twice: together with others, and alone where that left it open.
pub(crate) const LEDGER_SETTLES: Duration = Duration::from_secs(16);
/// How long such a question may have no answer before operators are told that the ledger does not answer.
pub(crate) const LEDGER_SILENT: Duration = Duration::from_secs(2);
/// How many such questions in a row must fail before an instance says that it cannot serve.
pub(crate) const LEDGER_FAILURES: u32 = 2;
/// Pages of claims in doubt that are counted by tenant; with more, those beyond are not.
pub(crate) const DOUBT_PAGES: usize = 20;

// The configuration.

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Longest configuration or OpenAPI document, in bytes.
pub(crate) const FILE_BYTES: u64 = 64 * MIB;
/// Longest file with a secret, in bytes.
pub(crate) const SECRET_BYTES: u64 = 64 * KIB;
/// Most mistakes that are told at a time.
pub(crate) const MISTAKES: usize = 1_000;
/// Most routes.
pub(crate) const ROUTES: usize = 15_000;
/// Longest name of an upstream or a retention class, in bytes.
pub(crate) const UPSTREAM_NAME_BYTES: usize = 63;
/// The pause before a cluster is looked at again that had nothing to look at; doubled each time, up to the longest.
pub(crate) const CLUSTER_LOOK: Duration = Duration::from_secs(1);
/// The longest of these pauses.
pub(crate) const CLUSTER_LOOK_LONGEST: Duration = Duration::from_secs(60);
/// Looks whether a call that was killed has come to its end, and the pause between them.
pub(crate) const KILL_LOOKS: u32 = 50;
/// The pause between two of them.
pub(crate) const KILL_PAUSE: Duration = Duration::from_millis(100);
/// Addresses of a cluster, of each kind.
pub(crate) const CLUSTER_NODES: usize = 16;
/// Headers of callers that handlers of a cluster get to see.
pub(crate) const CLUSTER_HEADERS: usize = 16;
/// The longest name of a service or handler, in bytes.
pub(crate) const HANDLER_NAME: usize = 128;
/// The longest name of a declared provider of webhooks: it stands in operations and keys.
pub(crate) const PROVIDER_NAME_BYTES: usize = 32;
/// Secrets of one webhook that count at a time.
pub(crate) const WEBHOOK_SECRETS: usize = 3;
/// How long outcomes of deliveries are kept where nothing is said (W6).
pub(crate) const WEBHOOK_RETENTION: Duration = Duration::from_secs(7 * 86_400);
/// Deepest nesting of an OpenAPI document that is read from YAML.
pub(crate) const YAML_DEPTH: usize = 128;
/// How often the names of operations are decided anew because another process wrote some of them meanwhile (K6).
pub(crate) const AGREEMENT_ATTEMPTS: u32 = 8;
/// How many documents about operations are written at a time (K6).
pub(crate) const DOCUMENTS_AT_A_TIME: usize = 64;
/// Most former names that a route states (K6).
pub(crate) const FORMER_NAMES: usize = 32;
/// A shared secret of tokens should not be shorter, in bytes (RFC 7518, 3.2).
pub(crate) const JWT_SECRET_BYTES: usize = 32;
/// The secret of schedules should not be shorter, in bytes.
pub(crate) const SCHEDULE_SECRET_BYTES: usize = 16;
/// The size of a seal key, in bytes (B9).
pub(crate) const SEAL_BYTES: usize = 32;

/// How much the clocks of a token's issuer and of the edge may differ, unless said otherwise.
pub(crate) const LEEWAY: Duration = Duration::from_secs(5);
/// How long the answer of an outside key service is remembered, unless said otherwise (A7).
pub(crate) const REMEMBER: Duration = MINUTE;
/// The longest wait for an outside key service, unless said otherwise (A7).
pub(crate) const VERIFY_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a browser may remember what other origins may do, unless said otherwise.
pub(crate) const CORS_MAX_AGE: Duration = Duration::from_secs(600);
/// How long one renewal of a session lasts, unless said otherwise (L4).
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// How long an outcome of the class `interactive` is kept, unless said otherwise.
pub(crate) const INTERACTIVE: Duration = DAY;
/// How long what was asked stands for a key, unless said otherwise (H9).
pub(crate) const WINDOW: Duration = HOUR;

/// What can be configured, from the least to the most.
pub(crate) mod range {
    use super::*;

    pub(crate) const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=HOUR;
    pub(crate) const DRAIN: RangeInclusive<Duration> = Duration::ZERO..=HOUR;
    pub(crate) const IDLE: RangeInclusive<Duration> = SECOND..=HOUR;
    pub(crate) const ATTACH: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(600);
    pub(crate) const GIVE_UP: RangeInclusive<Duration> =
        Duration::from_millis(1)..=Duration::from_secs(7 * 86_400);
    pub(crate) const MAX_RUN: RangeInclusive<Duration> = SECOND..=Duration::from_secs(30 * 86_400);
    pub(crate) const QUIET: RangeInclusive<Duration> = Duration::ZERO..=DAY;
    pub(crate) const DOUBT: RangeInclusive<Duration> = SECOND..=Duration::from_secs(3_650 * 86_400);
    pub(crate) const RETENTION: RangeInclusive<Duration> = SECOND..=Duration::from_secs(3_650 * 86_400);
    pub(crate) const WINDOW: RangeInclusive<Duration> = SECOND..=Duration::from_secs(7 * 86_400);
    pub(crate) const LEASE: RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(600);
    pub(crate) const BACKOFF: RangeInclusive<Duration> = Duration::from_millis(1)..=MINUTE;
    pub(crate) const LEEWAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(300);
    pub(crate) const REMEMBER: RangeInclusive<Duration> = Duration::ZERO..=HOUR;
    pub(crate) const CORS_MAX_AGE: RangeInclusive<Duration> = Duration::ZERO..=DAY;

    pub(crate) const BODY: RangeInclusive<u64> = 0..=GIB;
    pub(crate) const KEPT_RESPONSE: RangeInclusive<u64> = 0..=hapax_tower::limits::MOST_KEPT_RESPONSE as u64;
    pub(crate) const BODY_RATE: RangeInclusive<u64> = 1..=GIB;
    pub(crate) const BUFFERED: RangeInclusive<u64> = MIB..=1024 * GIB;

    pub(crate) const THREADS: RangeInclusive<i64> = 1..=1_024;
    pub(crate) const CONNECTIONS: RangeInclusive<i64> = 1..=1_000_000;
    /// `suspend_after`.
    pub(crate) const SUSPEND_AFTER: RangeInclusive<i64> = 1..=1_000;
    /// `suspend_for`.
    pub(crate) const SUSPEND_FOR: RangeInclusive<Duration> = Duration::from_millis(100)..=HOUR;
    pub(crate) const DETACHED: RangeInclusive<i64> = 1..=1_000_000;
    pub(crate) const ATTEMPTS: RangeInclusive<i64> = 1..=10;
    pub(crate) const EVERY: RangeInclusive<Duration> =
        Duration::from_millis(10)..=Duration::from_secs(366 * 86_400);
    pub(crate) const CATCH_UP: RangeInclusive<i64> = 0..=5_000;
    pub(crate) const TENANT: RangeInclusive<i64> = 0..=u32::MAX as i64;
}

// What the code relies on between two bounds, also of the crates below.

const _: () = assert!(
    SETTLED_BODY_BYTES.div_ceil(3) * 4 + 4 * (REASON_LENGTH + NAME_LENGTH) < API_BODY_BYTES,
    "the longest answer that an operator states fits into a request, in base64"
);
const _: () = assert!(PAGE <= hapax_core::limits::MAX_PAGE, "the usual page is a page");
const _: () = assert!(ERASE_PAGE <= hapax_core::limits::MAX_PAGE, "what is erased at once is a page");
const _: () = assert!(
    API_HEADER_TIMEOUT.as_millis() + API_BODY_TIMEOUT.as_millis() < API_CONNECTION_LIFE.as_millis(),
    "a slow request can come to its end"
);
const _: () = assert!(
    LOOK_EVERY_AWAY.as_millis() <= LOOK_EVERY.as_millis(),
    "a ledger that is away is asked more often"
);
const _: () = assert!(
    hapax_store::limits::PATIENCE.as_millis() < LEDGER_ANSWERS.as_millis(),
    "the store gives up first, and so says why"
);
const _: () = assert!(
    2 * hapax_store::limits::PATIENCE.as_millis() < LEDGER_SETTLES.as_millis(),
    "a store that tries an outcome twice gives up first"
);
const _: () = assert!(
    LEDGER_ANSWERS.as_millis() + LEDGER_SETTLES.as_millis() < REMOTE_ANSWER.as_millis(),
    "a command hears from a server whose ledger is away"
);
const _: () = assert!(
    hapax_exec::limits::SPOOL_AFTER.as_millis() < hapax_store::limits::PATIENCE.as_millis(),
    "an outcome is in the spool before the store gives it up"
);
const _: () = assert!(
    hapax_store::limits::RENEWALS_PER_TERM * hapax_core::limits::TERM_PART_LEFT
        >= hapax_store::limits::RENEWALS_PER_TERM + hapax_core::limits::TERM_PART_LEFT,
    "between two renewals that came in time, work can start without another one"
);
const _: () = assert!(
    hapax_sqlite::limits::SPACE_RESERVE + hapax_sqlite::limits::BALLAST_BYTES < DISK_WANTED,
    "a disk is told to be short before the store refuses claims"
);
const _: () = assert!(FILES_NEEDED < FILES_WANTED, "a warning comes before a failure");
const _: () = assert!(
    DOCTOR_NOTIFY.as_millis() < DOCTOR_WAIT.as_millis(),
    "a lost notification is told apart from a silent server"
);
const _: () = assert!(SEAL_BYTES as u64 * 2 <= SECRET_BYTES, "a key in hex fits into its file");
const _: () =
    assert!(LOG_GAPS_EVERY.as_millis() > LOG_PAUSE.as_millis(), "a log is tried before its gaps are told");

const _: () = assert!(
    *range::CATCH_UP.end() + 1 < TICKS_WALKED as i64,
    "what may be caught up is found in one step, and something beyond it"
);
const _: () = assert!(TICK_LATE.as_millis() <= TICK_GRACE.as_millis(), "what is missed is late");
const _: () = assert!(TICKS_UNDER_WAY >= OPEN_TICKS, "one schedule can have all of its open ticks under way");
const _: () = assert!(within(LEASE, range::LEASE), "the default lease may be configured");
const _: () = assert!(
    LEASE.as_millis() == hapax_store::limits::SESSION_TERM.as_millis(),
    "the program's lease is the store's"
);
const _: () = assert!(
    range::LEASE.end().as_millis() < hapax_postgres::limits::SESSION_KEPT.as_millis(),
    "the row of a session outlives the longest lease"
);
const _: () = assert!(
    CLOCK_DIFFERENCE.as_millis() < LEASE.as_millis(),
    "clocks that differ are told before a lease is in danger"
);
const _: () = assert!(within(INTERACTIVE, range::RETENTION), "the default class may be configured");
const _: () =
    assert!(within(SETTLED_RETENTION, range::RETENTION), "an operator's retention may be configured");
const _: () = assert!(within(WINDOW, range::WINDOW), "the default window may be configured");
const _: () = assert!(within(LEEWAY, range::LEEWAY), "the default leeway may be configured");
const _: () = assert!(within(REMEMBER, range::REMEMBER), "the default memory may be configured");
const _: () = assert!(within(VERIFY_TIMEOUT, range::TIMEOUT), "the default wait may be configured");
const _: () = assert!(within(CORS_MAX_AGE, range::CORS_MAX_AGE), "the default age may be configured");
const _: () = assert!(
    range::TIMEOUT.end().as_millis() <= range::GIVE_UP.end().as_millis(),
    "a `give_up` that is not shorter than any `timeout` can be configured"
);
const _: () = assert!(
    range::GIVE_UP.end().as_millis() <= range::MAX_RUN.end().as_millis(),
    "a `max_run` that is not shorter than any `give_up` can be configured"
);

/// Whether a default is within what can be configured.
const fn within(default: Duration, range: RangeInclusive<Duration>) -> bool {
    range.start().as_nanos() <= default.as_nanos() && default.as_nanos() <= range.end().as_nanos()
}

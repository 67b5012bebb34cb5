//! Every bound of this crate, in one place, so that an operator or a reviewer can read them together.
//!
//! Only numbers live here. What happens when one is reached is decided, and documented, where it is used.

use std::time::Duration;

/// Longest [`Key`](crate::Key) in bytes, whatever its source (K2).
pub const MAX_KEY_BYTES: usize = 1024;

/// Longest key in an `Idempotency-Key` field, in characters, without its quotes (K2).
pub const MAX_HEADER_KEY_CHARS: usize = 255;

/// Longest tenant or project name in characters (K4).
pub const MAX_SLUG_CHARS: usize = 63;

/// Longest subject id in characters once percent-encoded.
///
/// Chosen so that `t-{tenant}:{project}:{subject}:{key}` always fits [`MAX_NAMESPACED_CHARS`] when the key
/// came from a header: a caller is refused when it authenticates, not later because its key was long.
pub const MAX_SUBJECT_ID_CHARS: usize = 240;

/// Longest namespaced key in characters (K4).
pub const MAX_NAMESPACED_CHARS: usize = 640;

/// Longest operation name in characters.
pub const MAX_OPERATION_CHARS: usize = 128;

/// Deepest nesting of arrays and objects that is read as JSON. Deeper bodies are fingerprinted as bytes.
pub const MAX_JSON_DEPTH: usize = 100;

/// How many parts of a multipart body may be in parts themselves, one within the other. What is further down is fingerprinted as bytes.
pub const MAX_MULTIPART_DEPTH: usize = 8;

/// Most named headers, and most ignored pointers, in one fingerprint recipe.
pub const MAX_RECIPE_ITEMS: usize = 64;

/// Longest JSON pointer in a fingerprint recipe, and to a leaf that is kept or told, in bytes.
pub const MAX_POINTER_BYTES: usize = 1024;

/// Most leaves of a JSON body whose keyed hashes are kept to explain a mismatch (H10).
pub const MAX_LEAVES: usize = 256;

/// Most leaves of the *new* body that are looked at to explain a mismatch.
pub const MAX_LEAVES_COMPARED: usize = 4096;

/// Most pointers that one explanation lists under each heading.
pub const MAX_POINTERS_TOLD: usize = 256;

/// Bits of an epoch that count grants; the bits above them number the store's incarnation (L4).
pub const EPOCH_COUNTER_BITS: u32 = 48;

/// Largest grant counter of an incarnation: at 100,000 grants a second it lasts for 89 years.
pub const MAX_EPOCH_COUNTER: u64 = (1 << EPOCH_COUNTER_BITS) - 1;

/// Largest incarnation, so that a packed epoch fits a signed 64-bit integer.
pub const MAX_INCARNATION: u64 = 0x7fff;

/// How long one attempt may be renewed unless its terms say otherwise (L4).
pub const DEFAULT_MAX_RUN: Duration = Duration::from_secs(60 * 60);

/// How often one call asks for a claim: a spent attempt asks again, a waiter may as well.
pub const ASKS: u8 = 16;

/// How often a lease is renewed before its work begins: each time the process was stopped for longer than the lease lasts (L4).
pub const RENEWALS: u8 = 4;

/// Before work begins, this part of the session's term must be left, or the lease is renewed first (L4).
pub const TERM_PART_LEFT: u32 = 3;

/// How long a doubt is left alone after somebody asked and nobody knew (L6).
pub const ASK_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// How long a released claim leaves a tombstone, so that late reports of its holder find it.
pub const TOMBSTONE_KEPT: Duration = Duration::from_secs(60 * 60);

/// Longest text that is kept with a doubt to say what the holder saw, in bytes.
pub const MAX_CAUSE_BYTES: usize = 200;

/// When an operator may ask again about a lapse that no sweeper has written down yet.
pub const UNTIL_SWEPT: Duration = Duration::from_secs(1);

/// Shortest and longest term of a lease that is not a process's own: a caller must have time to renew it, and must not keep others
/// from its work for long once it is gone.
pub const LEASE_TERM: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60 * 60));

/// Longest name of a journal stream, a registry kind or a registry document, in bytes.
pub const MAX_NAME_BYTES: usize = 512;

/// Longest type of a journal event in characters (J1).
pub const MAX_EVENT_TYPE_CHARS: usize = 50;

/// Longest id of the agent that a stream belongs to, in characters (J1).
pub const MAX_AGENT_CHARS: usize = 128;

/// Most events in one write to a stream.
pub const MAX_APPEND_EVENTS: usize = 1_000;

/// Bytes of the largest payload of a journal event, as it is stored.
pub const MAX_PAYLOAD_BYTES: usize = 2 * 1024 * 1024;

/// Bytes of the largest checkpoint of a stream, as it is stored.
pub const MAX_CHECKPOINT_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of all payloads in one write to a stream.
pub const MAX_APPEND_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of payloads that one read of a stream gives, beyond its first event.
pub const MAX_READ_BYTES: usize = 4 * 1024 * 1024;

/// Most tickets waiting in one lane.
pub const MAX_LANE_TICKETS: usize = 1024;

/// How long an action waits for its turn in a lane.
pub const LANE_WAIT: Duration = Duration::from_secs(60);

/// Longest name of a tool in bytes.
pub const MAX_TOOL_BYTES: usize = 128;

/// How many begun actions a lane keeps of each tool.
pub const RECENT_TIMES: usize = 64;

/// Of how many tools a lane keeps begun actions.
pub const RECENT_TOOLS: usize = 64;

/// How long a lane keeps begun actions, and so how far back a rule can count.
pub const RECENT_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Most records in one page of a listing.
pub const MAX_PAGE: usize = 1000;

// What the code relies on between two bounds.

const _: () = assert!(MAX_HEADER_KEY_CHARS <= MAX_KEY_BYTES, "every key that a header may carry is a key");
const _: () = assert!(
    "t-".len()
        + 2 * (MAX_SLUG_CHARS + 1)
        + "tenant_member:".len()
        + MAX_SUBJECT_ID_CHARS
        + 1
        + MAX_HEADER_KEY_CHARS
        <= MAX_NAMESPACED_CHARS,
    "the longest namespace has room for the longest key of a header"
);
const _: () = assert!(
    (MAX_INCARNATION << EPOCH_COUNTER_BITS) | MAX_EPOCH_COUNTER <= i64::MAX as u64,
    "a packed epoch fits a signed 64-bit integer, as databases have it"
);
const _: () =
    assert!(MAX_LEAVES <= MAX_LEAVES_COMPARED, "every leaf that was kept can be found in the new body");
const _: () = assert!(
    MAX_POINTERS_TOLD <= MAX_LEAVES_COMPARED,
    "a list of differences can be full before the comparison ends"
);
const _: () = assert!(MAX_PAYLOAD_BYTES <= MAX_APPEND_BYTES, "the largest event can be written");
const _: () = assert!(ASKS >= 2, "an attempt that was spent can ask again");
const _: () = assert!(RENEWALS >= 2, "a process that was stopped once can renew its lease again");
const _: () = assert!(TERM_PART_LEFT >= 2, "a session that was just renewed has enough of its term left");
const _: () = assert!(
    UNTIL_SWEPT.as_millis() < ASK_AGAIN_AFTER.as_millis(),
    "a lapse is written down before its doubt is asked about again"
);
const _: () = assert!(
    DEFAULT_MAX_RUN.as_millis() <= TOMBSTONE_KEPT.as_millis(),
    "a report at the end of the longest run finds the tombstone of its claim"
);
const _: () = assert!(LEASE_TERM.0.as_nanos() < LEASE_TERM.1.as_nanos(), "there are terms to choose from");
const _: () = assert!(
    MAX_PAYLOAD_BYTES <= MAX_READ_BYTES && MAX_APPEND_BYTES <= MAX_READ_BYTES,
    "what one write put there can be read at once"
);
const _: () = assert!(
    LANE_WAIT.as_millis() < RECENT_KEPT.as_millis(),
    "what an action waited behind is still known when it begins"
);

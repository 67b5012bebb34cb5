//! Every bound of this crate, in one place.

use std::time::Duration;

use hapax_core::limits as core_limits;

/// Longest id of an execution, in characters (J1).
pub const MAX_EXECUTION_ID_CHARS: usize = 64;

/// Longest name of a tool: with `step.` before it, it is the name of an operation.
pub const MAX_TOOL_CHARS: usize = core_limits::MAX_OPERATION_CHARS - "step.".len();

/// Most tool calls in one plan.
pub const MAX_CALLS: usize = 256;

/// Most bytes of one tool's result, as canonical JSON. A larger one is not kept, and a person has to look.
pub const MAX_RESULT_BYTES: usize = 1024 * 1024 - 1024;

/// Most bytes of an agent's state, which is the checkpoint of an iteration, as canonical JSON.
pub const MAX_STATE_BYTES: usize = core_limits::MAX_CHECKPOINT_BYTES - SEALED_MORE;

/// Most bytes of the payload of one event, as canonical JSON.
pub const MAX_EVENT_BYTES: usize = core_limits::MAX_PAYLOAD_BYTES - SEALED_MORE;

/// What a seal adds to bytes, at most.
pub const SEALED_MORE: usize = 64;

/// Longest cause, reason or name that is written into an event for people, in characters.
pub const MAX_TEXT_CHARS: usize = 1024;

/// Events that are read at once.
pub const READ_PAGE: usize = 256;

/// How often one append of a runner is sent: again with the version that the stream has, or because nobody knows whether it arrived.
pub const APPEND_TRIES: u32 = 64;

/// How often of these an append is sent to a store that does not answer.
pub const APPEND_AWAY_TRIES: u32 = 4;

/// How long a step waits for another holder of its claim, before it looks whether its execution is still its own.
pub const WAIT: Duration = Duration::from_secs(10);

/// How often a call claims for itself that waits for a holder who gives the claim back.
pub const TURNS: u32 = 8;

/// How often a tool that failed without effect is called in one life of an execution, and the pause between two calls.
pub const TOOL_ATTEMPTS: u32 = 3;
/// See [`TOOL_ATTEMPTS`].
pub const TOOL_PAUSE: Duration = Duration::from_millis(100);

/// How long one tool call may run, unless the tools say otherwise.
pub const MAX_RUN: Duration = Duration::from_secs(60 * 60);

/// Iterations of one execution, unless its loop says otherwise.
pub const MAX_ITERATIONS: u64 = 10_000;

/// Longest line of an export that is read.
pub const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;

/// Executions that one round of erasing a subject looks at.
pub const ERASE_PAGE: usize = 16;

/// Events, and bytes of their payloads, that an import writes at once.
pub const IMPORT_BATCH: usize = 200;
/// See [`IMPORT_BATCH`].
pub const IMPORT_BATCH_BYTES: usize = core_limits::MAX_APPEND_BYTES - core_limits::MAX_PAYLOAD_BYTES;

/// Most actions in one plan, and most bytes of its JSON.
pub const MAX_ACTIONS: usize = 10_000;
/// See [`MAX_ACTIONS`].
pub const MAX_PLAN_BYTES: usize = 64 * 1024 * 1024;

/// Most bytes of an action's arguments.
pub const MAX_ARGS_BYTES: usize = 64 * 1024;

/// Longest entity key in bytes.
pub const MAX_ENTITY_BYTES: usize = core_limits::MAX_NAME_BYTES;

/// Longest rule of the gate in bytes, how deep it nests, and how deep it walks lists and maps.
pub const MAX_RULE_BYTES: usize = 4 * 1024;
/// See [`MAX_RULE_BYTES`].
pub const MAX_RULE_DEPTH: usize = 32;
/// See [`MAX_RULE_BYTES`].
pub const MAX_RULE_WALKS: usize = 2;

/// The stack of the thread that reads a rule: the parser goes down with every bracket.
pub const RULE_STACK_BYTES: usize = 64 * 1024 * 1024;

/// How many elements rules may visit in the arguments of one action, and for how long.
pub const MAX_RULE_ELEMENTS: u64 = 1_000_000;
/// See [`MAX_RULE_ELEMENTS`].
pub const RULE_TIME: Duration = Duration::from_secs(5);

/// How long an action waits while the rules of other actions walk their arguments.
pub const RULE_WAIT: Duration = Duration::from_secs(30);

/// How often an action that waits for its turn looks by itself, beside being woken.
pub const LANE_LOOK: Duration = Duration::from_secs(1);

/// How much later an action looks again for each other one that is before it in its lane.
pub const LANE_STEP: Duration = Duration::from_millis(2);

/// The pause before an action that has lost its place takes another one.
pub const LANE_PAUSE: Duration = Duration::from_millis(10);

/// The first and the longest pause between two tries to tell the store what is owed.
pub const OWED_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// How often a receipt is sent that is written alone.
pub const RECEIPT_TRIES: u32 = 5;

/// How much of a name or a key is written into a receipt that is longer than names and keys are, in characters.
pub const CLIPPED_CHARS: usize = 64;

/// Lanes that are looked at for one that is closed by a claim.
pub const LANES_LOOKED_AT: usize = 2_000;

/// Receipts that one question looks at.
pub const RECEIPTS_LOOKED_AT: usize = 2_048;

/// How often an alert of an action that did not begin is taken back.
pub const ALERT_TRIES: u32 = 64;

/// How long the ledger may take to say whose an action is.
pub const ASK_WITHIN: Duration = Duration::from_secs(10);

/// How long one call of a tool may take, unless it says otherwise.
pub const TOOL_GIVE_UP: Duration = Duration::from_secs(15 * 60);

/// How much longer than its call the lease of an action may be renewed.
pub const RUN_MORE: Duration = Duration::from_secs(60);

/// How long a connection to a service may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Most bytes of a service's answer that are read.
pub const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// How much of a service's refusal is told.
pub const EXCERPT_CHARS: usize = 200;

/// Most calls that one MCP server is sent at once.
pub const MCP_CALLS: usize = 64;

/// How long an MCP server may take to be started and greeted, and to list all its tools; and to answer one question that is no call of a tool.
pub const MCP_START: Duration = Duration::from_secs(30);
/// See [`MCP_START`].
pub const MCP_ASK: Duration = Duration::from_secs(10);

/// The first and the longest pause between two starts of an MCP server that does not stay.
pub const MCP_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// How long an MCP server has to live to count as started.
pub const MCP_LIVED: Duration = Duration::from_secs(10);

/// The longest pause before a start of an MCP server that an action waits for; beyond, it is refused at once.
pub const MCP_PATIENCE: Duration = Duration::from_secs(2);

/// How long an MCP server has to end by itself, once its input is closed, and how often it is looked at.
pub const MCP_END: Duration = Duration::from_secs(3);
/// See [`MCP_END`].
pub const MCP_LOOK: Duration = Duration::from_millis(100);

/// How long a list of tools is used, unless its server says that it has changed, and how soon one is asked for again.
pub const MCP_LIST_FRESH: Duration = Duration::from_secs(5 * 60);
/// See [`MCP_LIST_FRESH`].
pub const MCP_LIST_AGAIN: Duration = Duration::from_secs(1);

/// Most pages of a list of tools, and most tools on them.
pub const MCP_LIST_PAGES: usize = 64;
/// See [`MCP_LIST_PAGES`].
pub const MCP_TOOLS: usize = 1024;

/// How much of one line is logged that an MCP server writes to its standard error, in bytes.
pub const MCP_LOG_LINE: usize = 4096;

/// How often the stream of an answer over HTTP is taken up again where it was cut, and the pause before.
pub const MCP_RESUMES: usize = 5;

// What the code relies on between two bounds.

const _: () = assert!(
    MAX_RESULT_BYTES + 4096 < MAX_EVENT_BYTES,
    "a result fits an event, with the coordinates of its step"
);
const _: () = assert!(APPEND_AWAY_TRIES < APPEND_TRIES, "a store that is away is not asked for ever");
const _: () = assert!(
    2 * core_limits::MAX_PAYLOAD_BYTES < MAX_LINE_BYTES,
    "a line has room for the largest payload, also as base64"
);
const _: () =
    assert!(MCP_PATIENCE.as_nanos() < MCP_PAUSE.1.as_nanos(), "no action waits for the longest pause");
const _: () = assert!(MAX_ARGS_BYTES < MAX_ANSWER_BYTES, "what is sent is smaller than what is read");

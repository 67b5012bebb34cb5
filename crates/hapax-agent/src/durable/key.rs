//! The key of a tool call: what it is called by, wherever its process died (J5).

use std::fmt;

use hapax_core::{AppendId, AttemptId, RunnerId};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::execution::ExecutionId;

/// Where a tool call stands in its execution: the iteration, and the place in the plan of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Coordinates {
    /// The iteration, from 0.
    pub iteration: u64,
    /// The place in the recorded plan, from 0.
    pub call: u32,
}

impl fmt::Display for Coordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "iteration {}, call {}", self.iteration, self.call)
    }
}

/// The first 16 bytes of SHA-256 of `executionId:iterationIndex:toolCallIndex`.
fn key_bytes(execution: &ExecutionId, at: Coordinates) -> [u8; 16] {
    let text = format!("{}:{}:{}", execution.as_str(), at.iteration, at.call);
    truncated(Sha256::digest(text).into())
}

/// The idempotency key of a tool call: 32 hexadecimal characters.
pub fn tool_key(execution: &ExecutionId, at: Coordinates) -> String {
    hex(&key_bytes(execution, at))
}

/// The id under which the result of a step is appended, whoever brings it: once.
pub(crate) fn result_id(execution: &ExecutionId, at: Coordinates) -> AppendId {
    AppendId::from_bytes(key_bytes(execution, at))
}

/// The id of another event about a step, which there may be several of.
pub(crate) fn event_id(execution: &ExecutionId, at: Coordinates, what: &str) -> AppendId {
    let mut hasher = Sha256::new();
    hasher.update(key_bytes(execution, at));
    hasher.update(what);
    AppendId::from_bytes(truncated(hasher.finalize().into()))
}

/// The id of what a runner writes once, whoever asks for it how often: which write it is, and what it says.
pub(crate) fn written_once(runner: RunnerId, what: &str, says: &[u8]) -> AppendId {
    let mut hasher = Sha256::new();
    hasher.update("hapax.written\0");
    hasher.update(runner.as_bytes());
    hasher.update((what.len() as u64).to_be_bytes());
    hasher.update(what);
    hasher.update(says);
    AppendId::from_bytes(truncated(hasher.finalize().into()))
}

/// The runner that an attempt to resume an execution makes, however often it is asked for.
pub(crate) fn runner_of(attempt: AttemptId) -> RunnerId {
    let mut hasher = Sha256::new();
    hasher.update("hapax.resumed\0");
    hasher.update(attempt.as_bytes());
    RunnerId::from_bytes(truncated(hasher.finalize().into()))
}

pub(crate) fn truncated(digest: [u8; 32]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads hexadecimal of this many bytes.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; N];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_key_is_the_formula_of_its_source_j5() {
        let id = ExecutionId::new("e-42").unwrap();
        // What `printf 'e-42:3:1' | sha256sum | cut -c1-32` says.
        assert_eq!(tool_key(&id, Coordinates { iteration: 3, call: 1 }), EXPECTED);
        let other = [(3, 0), (31, 0), (0, 31)]
            .map(|(iteration, call)| tool_key(&id, Coordinates { iteration, call }));
        assert!(other.iter().all(|key| key != EXPECTED && key.len() == 32));
        assert_eq!(unhex::<16>(EXPECTED).map(|bytes| hex(&bytes)).as_deref(), Some(EXPECTED));
        assert_eq!(unhex::<16>("é123456789abcdef0123456789abcde"), None);
    }

    const EXPECTED: &str = "04b968feaa405e3f446f3f4f2e375ee2";
}

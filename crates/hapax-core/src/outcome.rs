//! What is kept of a run, and for how long.

use std::time::Duration;

use bytes::Bytes;

use crate::claim::SettledBy;
use crate::id::{AttemptId, Epoch, OperationId};
use crate::time::Timestamp;

/// What the ledger keeps of a run that came to its end (L7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The work was done; these bytes are its answer.
    Succeeded(Bytes),
    /// The work ended with a terminal error; these bytes are its answer, kept like a success.
    Refused(Bytes),
    /// The work ended, but its answer was not kept: the fact alone.
    NotKept {
        /// The status the first caller saw.
        status: u16,
    },
    /// The answer was kept and has been destroyed on request; the key stays burned (L8).
    Erased,
}

impl Outcome {
    /// How many bytes it keeps.
    pub fn len(&self) -> usize {
        match self {
            Outcome::Succeeded(bytes) | Outcome::Refused(bytes) => bytes.len(),
            Outcome::NotKept { .. } | Outcome::Erased => 0,
        }
    }

    /// Whether it keeps no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How long an outcome is kept (L10, L11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// This long from the settle.
    For(Duration),
    /// This long from the grant under which it is settled, for keys derived from what was asked (H9). Not from the first
    /// grant: what was released before does not count, or an outage as long as this would leave nothing to keep.
    SinceGrant(Duration),
    /// Until it is purged.
    Forever,
}

impl Retention {
    /// When an outcome settled now may be forgotten.
    pub fn keep_until(self, granted: Timestamp, settled: Timestamp) -> Timestamp {
        match self {
            Retention::For(duration) => settled.after(duration),
            Retention::SinceGrant(duration) => granted.after(duration),
            Retention::Forever => Timestamp::NEVER,
        }
    }
}

/// A settled outcome as it is handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The public id of the operation that settled.
    pub operation_id: OperationId,
    /// The attempt that settled it, or the last one before an operator did.
    pub attempt: AttemptId,
    /// The epoch it was settled under.
    pub epoch: Epoch,
    /// What is kept.
    pub outcome: Outcome,
    /// When it was settled.
    pub settled_at: Timestamp,
    /// Until when it is kept.
    pub keep_until: Timestamp,
    /// Who settled it.
    pub by: SettledBy,
    /// An attempt before the one that settled it may have run. Then a refusal does not say that nothing was done (E6).
    pub earlier_may_have_run: bool,
}

//! What a pulse tells of the store beyond what the node counts anyway: how much waits for a person, and the last entry of the audit
//! (M3, O1).
//!
//! The store is asked in the background. A pulse waits for it for a moment and tells else what was known before, so that consoles hear of
//! a ledger that is away at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hapax_api::AttentionCounts;
use hapax_core::Inspect as _;

use super::{AdminState, attention};
use crate::{clock, limits};

/// What was known of the store when it answered last.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// How much waits for a person.
    pub(super) attention: AttentionCounts,
    /// A word for the last entry of the audit.
    pub(super) audit: String,
    /// When was counted what waits; `None` where it must be counted anew.
    counted_at: Option<Instant>,
}

/// Keeps what is known, and lets one question at a time be under way.
#[derive(Default)]
pub(crate) struct Watched {
    known: Mutex<Known>,
    asking: Arc<tokio::sync::Mutex<()>>,
}

impl Watched {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has what waits counted anew with the next pulse: a person has just seen some of it.
    pub(super) fn forget(&self) {
        self.known().counted_at = None;
    }
}

/// What is known of the store, asked anew where it answers at once.
pub(super) async fn look(state: &AdminState) -> Known {
    if let Ok(turn) = state.watched.asking.clone().try_lock_owned() {
        let asking = state.clone();
        let asked = tokio::spawn(async move {
            ask(&asking).await;
            drop(turn);
        });
        // Late or failed: then the former answer is told.
        let _ = tokio::time::timeout(limits::PULSE_PATIENCE, asked).await;
    }
    state.watched.known().clone()
}

async fn ask(state: &AdminState) {
    if let Ok(page) = state.store.audit(None, 1).await {
        let last = page.items.first().map(|event| format!("{}.{}", event.at.as_micros(), event.verb));
        state.watched.known().audit = last.unwrap_or_default();
    }
    let counted_at = state.watched.known().counted_at;
    if counted_at.is_some_and(|at| at.elapsed() < limits::ATTENTION_EVERY) {
        return;
    }
    if let Ok(counts) = attention::counts(state).await {
        let mut known = state.watched.known();
        (known.attention, known.counted_at) = (counts, Some(clock::now()));
    }
}

//! What became of deliveries that were never claimed, webhook by webhook, for operators: how many were refused for which cause, the last
//! of them, and how often signed content came again (W5).
//!
//! It is this process's own, since it started, and bounded: of webhooks beyond the bound the one that was refused longest ago is
//! forgotten. What counts for ever is in the metrics.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use foldhash::HashMap;

use crate::clock;
use crate::limits;

/// A delivery that went nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// When.
    pub at: SystemTime,
    /// The code of the problem that its sender was told.
    pub cause: &'static str,
    /// What exactly, for operators.
    pub why: String,
}

/// What is known of one webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// How many deliveries were refused, by cause.
    pub refused: BTreeMap<&'static str, u64>,
    /// The last of them, the newest first.
    pub last: VecDeque<Refusal>,
    /// How often signed content came again under another identifier.
    pub content_repeated: u64,
    /// When something was counted last.
    changed_at: SystemTime,
}

/// What is known of all of them.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<HashMap<String, Tally>>);

impl Refusals {
    /// A delivery to this webhook was refused.
    pub(crate) fn refused(&self, webhook: &str, cause: &'static str, why: &str) {
        self.change(webhook, |tally, now| {
            *tally.refused.entry(cause).or_default() += 1;
            tally.last.truncate(limits::REFUSALS_SHOWN - 1);
            tally.last.push_front(Refusal { at: now, cause, why: why.to_owned() });
        });
    }

    /// Signed content came to this webhook again.
    pub(crate) fn content_repeated(&self, webhook: &str) {
        self.change(webhook, |tally, _| tally.content_repeated += 1);
    }

    /// What is known of this webhook.
    pub(crate) fn of(&self, webhook: &str) -> Option<Tally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(webhook).cloned()
    }

    fn change(&self, webhook: &str, change: impl FnOnce(&mut Tally, SystemTime)) {
        let now = clock::time_of_day();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= limits::REFUSALS_WEBHOOKS && !known.contains_key(webhook) {
            let oldest = known.iter().min_by_key(|(_, tally)| tally.changed_at).map(|(id, _)| id.clone());
            oldest.and_then(|oldest| known.remove(&oldest));
        }
        let fresh = || Tally {
            refused: BTreeMap::new(),
            last: VecDeque::new(),
            content_repeated: 0,
            changed_at: now,
        };
        let tally = known.entry(webhook.to_owned()).or_insert_with(fresh);
        tally.changed_at = now;
        change(tally, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_webhook_the_last_refusals_and_all_counts_are_known_within_bounds() {
        let refusals = Refusals::default();
        for number in 0..limits::REFUSALS_SHOWN + 5 {
            refusals.refused("a", "signature-invalid", &number.to_string());
        }
        refusals.refused("a", "translation-failed", "last");
        refusals.content_repeated("b");
        let tally = refusals.of("a").unwrap();
        assert_eq!(tally.refused["signature-invalid"], limits::REFUSALS_SHOWN as u64 + 5);
        assert_eq!((tally.last.len(), tally.last[0].why.as_str()), (limits::REFUSALS_SHOWN, "last"));
        assert_eq!(refusals.of("b").unwrap().content_repeated, 1);
        for number in 0..2 * limits::REFUSALS_WEBHOOKS {
            refusals.refused(&format!("w{number}"), "signature-invalid", "");
        }
        assert_eq!(refusals.0.lock().unwrap().len(), limits::REFUSALS_WEBHOOKS);
        assert!(refusals.of("a").is_none(), "what was refused longest ago is forgotten");
    }
}

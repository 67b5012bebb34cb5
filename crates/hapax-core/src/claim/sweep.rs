//! The sweeper's visit: writes down what time alone has made of a claim (L6, L10).

use std::borrow::Cow;

use super::standing::current;
use super::{Change, Claim, Now, State, Swept};
use crate::id::Epoch;

/// Decides a visit. `seen` is the epoch under which the sweeper found the claim due.
pub(super) fn sweep(claim: Option<&Claim>, seen: Epoch, now: &Now) -> (Change, Swept) {
    if claim.is_none_or(|claim| claim.epoch != seen) {
        return (Change::None, Swept::Kept);
    }
    match current(claim, now) {
        None => (Change::Remove, Swept::Forgotten),
        Some(present) => written(present),
    }
}

/// A borrowed claim is what is stored already.
fn written(present: Cow<'_, Claim>) -> (Change, Swept) {
    match present {
        Cow::Borrowed(_) => (Change::None, Swept::Kept),
        Cow::Owned(claim) => {
            let swept = match claim.state {
                State::InDoubt { .. } => Swept::InDoubt,
                _ => Swept::Released,
            };
            (Change::Put(claim), swept)
        }
    }
}

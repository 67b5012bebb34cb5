//! What time alone has made of a claim: lapsed leases, expired outcomes, doubts that end.
//!
//! Every command decides on [`current`], and the sweeper writes it down, so a claim that nobody has swept behaves exactly
//! like one that was (L6, L10).

use std::borrow::Cow;

use super::{Claim, Doubt, DoubtThen, Now, Ran, Rerun, State};
use crate::time::Timestamp;

/// The claim as it stands at this moment; `None` when it has become absent.
pub fn current<'a>(claim: Option<&'a Claim>, now: &Now) -> Option<Cow<'a, Claim>> {
    let claim = claim?;
    let present = match &claim.state {
        State::Held { run_until } if now.time < lease_end(*run_until, now) => {
            return Some(Cow::Borrowed(claim));
        }
        State::Held { run_until } => Cow::Owned(lapse(claim, *run_until, now)),
        State::Settled { keep_until, .. } => return (now.time < *keep_until).then_some(Cow::Borrowed(claim)),
        State::InDoubt { .. } | State::Released { .. } => Cow::Borrowed(claim),
    };
    // A lease that lapsed long ago may have become a doubt that has ended since, and that a tombstone that is gone.
    end_tombstone(end_doubt(present, now)?, now)
}

/// When a held claim lapses unless its session is renewed.
pub(super) fn lease_end(run_until: Timestamp, now: &Now) -> Timestamp {
    now.holder.until.min(run_until)
}

/// A lapsed lease: released where running again is safe, in doubt everywhere else; as before where it was only to be asked.
fn lapse(claim: &Claim, run_until: Timestamp, now: &Now) -> Claim {
    if let Some(doubted) = claim.doubted {
        return claim.in_doubt_again(doubted, None);
    }
    claim.with(match claim.terms.rerun {
        Rerun::Safe => State::Released { since: last_sign(claim, now), ran: Ran::Perhaps },
        Rerun::Ask | Rerun::Unsafe => {
            // Of a session that nobody knows any more the end is not known either; the grant was before it.
            let since = lease_end(run_until, now).max(claim.granted_at);
            State::InDoubt { reason: Doubt::Lapsed, since, asked_at: None }
        }
    })
}

/// When the holder was last heard of; the grant itself was a sign.
fn last_sign(claim: &Claim, now: &Now) -> Timestamp {
    now.holder.last.max(claim.granted_at)
}

/// A doubt that was opted out of lasting for ever (L10).
fn end_doubt<'a>(claim: Cow<'a, Claim>, now: &Now) -> Option<Cow<'a, Claim>> {
    let State::InDoubt { since, .. } = claim.state else { return Some(claim) };
    let Some(ends) = claim.terms.doubt else { return Some(claim) };
    let end = since.after(ends.after);
    if now.time < end {
        return Some(claim);
    }
    match ends.then {
        DoubtThen::Forget => None,
        DoubtThen::Release => {
            // The state tells the next grant. What was before this attempt stays as it was: the attempt may still report its outcome.
            Some(Cow::Owned(claim.with(State::Released { since: end, ran: Ran::Waived })))
        }
    }
}

/// A released claim leaves a tombstone.
fn end_tombstone<'a>(claim: Cow<'a, Claim>, now: &Now) -> Option<Cow<'a, Claim>> {
    let State::Released { since, .. } = claim.state else { return Some(claim) };
    (now.time < since.after(claim.terms.tombstone())).then_some(claim)
}

//! What the holder of an epoch reports: renew, cleared, settle, release, doubt (L5, L6, L7).
//!
//! A report counts only under the current epoch. Under it a settle is accepted however late it comes: a true outcome is
//! never thrown away.

use std::borrow::Cow;

use super::standing::{current, lease_end};
use super::{Cause, Change, Claim, Doubt, Ending, Now, Ran, Report, Rerun, SettledBy, State};
use crate::id::Epoch;
use crate::outcome::{Outcome, Retention};
use crate::time::Timestamp;

/// Decides a report.
pub(super) fn report(claim: Option<&Claim>, epoch: Epoch, report: &Report, now: &Now) -> (Change, Ending) {
    let Some(claim) = claim.filter(|claim| claim.epoch == epoch) else {
        return (Change::None, Ending::LostLease);
    };
    if let Some(kept) = claim.kept() {
        return (Change::None, Ending::AlreadySettled(kept));
    }
    match report {
        Report::Renew => renew(claim, now),
        Report::Cleared => cleared(claim, now),
        Report::Settle(outcome, retention) => settle(claim, outcome, *retention, now),
        Report::Release(ran) => on_present(claim, now, |present| release(present, *ran, None, now)),
        Report::Doubt(reason) => on_present(claim, now, |present| doubt(present, *reason, None, now)),
        Report::Because(reason, cause) => on_present(claim, now, |present| match reason {
            Some(reason) => doubt(present, *reason, Some(cause), now),
            None => release(present, Ran::Perhaps, Some(cause), now),
        }),
    }
}

/// Gives back or doubts what the claim has become by now, written down or not. Only a settle reaches further back.
fn on_present(claim: &Claim, now: &Now, decide: impl FnOnce(&Claim) -> (Change, Ending)) -> (Change, Ending) {
    match current(Some(claim), now) {
        Some(present) => decide(&present),
        None => (Change::None, Ending::LostLease),
    }
}

/// A lapsed lease that nobody has acted on is taken up again by renewing its session first. One whose `max_run` is
/// over, or whose session has ended for good, is lost: to call it renewed would let its holder begin after the end.
fn renew(claim: &Claim, now: &Now) -> (Change, Ending) {
    let State::Held { run_until } = claim.state else { return (Change::None, Ending::LostLease) };
    let until = lease_end(run_until, now);
    if now.time < until {
        (Change::None, Ending::Renewed { until })
    } else {
        (Change::None, Ending::LostLease)
    }
}

fn cleared(claim: &Claim, now: &Now) -> (Change, Ending) {
    let (_, ending) = renew(claim, now);
    if claim.earlier == Ran::No || ending == Ending::LostLease {
        return (Change::None, ending);
    }
    (Change::Put(Claim { earlier: Ran::No, doubted: None, cause: None, ..claim.clone() }), ending)
}

fn settle(claim: &Claim, outcome: &Outcome, retention: Retention, now: &Now) -> (Change, Ending) {
    let granted_at = claim.doubted.map_or(claim.granted_at, |doubted| doubted.granted_at);
    let mut after = claim.with(State::Settled {
        outcome: outcome.clone(),
        settled_at: now.time,
        keep_until: retention.keep_until(granted_at, now.time),
        by: SettledBy::Holder,
    });
    after.leave_to_the_run();
    let Some(kept) = after.kept() else { unreachable!("it was settled just now") };
    (Change::Put(after), Ending::Settled(kept))
}

/// Gives the claim back, unless the work may have run and must not run again (L7).
fn release(claim: &Claim, reported: Ran, cause: Option<&Cause>, now: &Now) -> (Change, Ending) {
    let ran = match reported {
        // What was waived stays waived: the claim is as free as it was, and nothing before is forgotten.
        Ran::No => claim.earlier,
        Ran::Waived | Ran::Perhaps => Ran::Perhaps,
    };
    match (&claim.state, ran, claim.terms.rerun) {
        (State::Released { ran: Ran::No | Ran::Waived, .. }, _, _) => (Change::None, Ending::Released),
        // Only the lapse of a lease can be taken back or explained by the one who held it.
        (State::InDoubt { reason, .. }, _, _) if *reason != Doubt::Lapsed || only_asked(claim) => {
            (Change::None, Ending::InDoubt)
        }
        (_, Ran::No | Ran::Waived, _) | (_, Ran::Perhaps, Rerun::Safe) => {
            let since = last_sign(claim, reported, now);
            (Change::Put(claim.with(State::Released { since, ran })), Ending::Released)
        }
        (_, Ran::Perhaps, Rerun::Ask | Rerun::Unsafe) => put_in_doubt(claim, Doubt::Failed, cause, now),
    }
}

/// When the work was last heard of. Where this attempt did not run and an earlier one may have, that has been silent for as long
/// as `quiet` says since before this one was granted. It is not dated back further: the tombstone counts from here.
fn last_sign(claim: &Claim, reported: Ran, now: &Now) -> Timestamp {
    match reported {
        Ran::No if claim.earlier == Ran::Perhaps => now.time.before(claim.terms.quiet),
        _ => now.time,
    }
}

fn doubt(claim: &Claim, reason: Doubt, cause: Option<&Cause>, now: &Now) -> (Change, Ending) {
    match claim.state {
        State::InDoubt { reason: present, .. }
            if present == reason || present == Doubt::Paused || only_asked(claim) =>
        {
            (Change::None, Ending::InDoubt)
        }
        State::Released { ran: Ran::No | Ran::Waived, .. } => (Change::None, Ending::Released),
        _ => put_in_doubt(claim, reason, cause, now),
    }
}

/// Whoever was granted the claim in order to ask has asked: the next one waits its turn, and the doubt is the one it was.
fn put_in_doubt(claim: &Claim, reason: Doubt, cause: Option<&Cause>, now: &Now) -> (Change, Ending) {
    let asked_at = (claim.earlier == Ran::Perhaps).then_some(now.time);
    match claim.doubted {
        Some(doubted) => still_in_doubt(claim.in_doubt_again(doubted, asked_at), now),
        None => {
            let mut after = claim.with(State::InDoubt { reason, since: now.time, asked_at });
            after.cause = cause.cloned();
            (Change::Put(after), Ending::InDoubt)
        }
    }
}

/// A former doubt, unless it has ended while it was asked about (L10).
fn still_in_doubt(again: Claim, now: &Now) -> (Change, Ending) {
    let Some(present) = current(Some(&again), now).map(Cow::into_owned) else {
        return (Change::Put(again), Ending::LostLease);
    };
    let ending = match present.state {
        State::Released { .. } => Ending::Released,
        _ => Ending::InDoubt,
    };
    (Change::Put(present), ending)
}

/// Whether the holder of this epoch had to ask and never cleared it: then it has not run the work, and the doubt is not its
/// own.
pub(super) fn only_asked(claim: &Claim) -> bool {
    claim.earlier == Ran::Perhaps && claim.terms.rerun == Rerun::Ask
}

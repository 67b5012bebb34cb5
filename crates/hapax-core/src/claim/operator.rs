//! What operators decide: resolve, reopen, purge, erase (L8).
//!
//! Every decision names the epoch the operator saw. Of two operators who saw the same epoch one wins, because the state
//! or the epoch has moved for the other. Only to erase what is free moves neither: nothing else can be decided about that.

use super::standing::current;
use super::{Change, Claim, Decision, Doubt, Doubted, Now, Operated, Ran, SettledBy, State, Verb};
use crate::id::Epoch;
use crate::limits;
use crate::outcome::Outcome;
use crate::time::Timestamp;

/// Decides what an operator asked for.
pub(super) fn decide(claim: Option<&Claim>, decision: &Decision, now: &Now) -> (Change, Operated) {
    let Some(present) = current(claim, now) else { return (Change::None, Operated::Absent) };
    if present.epoch != decision.seen {
        return (Change::None, Operated::Changed { epoch: present.epoch });
    }
    match (&decision.verb, &present.state) {
        (Verb::Settle(outcome, retention), State::InDoubt { .. }) => {
            let state = State::Settled {
                outcome: outcome.clone(),
                settled_at: now.time,
                keep_until: retention.keep_until(present.granted_at, now.time),
                by: SettledBy::Operator,
            };
            done(Claim { epoch: now.next_epoch, ..present.with(state) })
        }
        (Verb::Release { force }, State::InDoubt { reason, .. }) => {
            let until = match claim.and_then(|stored| stored.doubted) {
                // Whoever was to ask has gone silent, and nobody has written that down: a moment knows how one session stands, and
                // here that is not the one of the run in doubt. The sweeper is about to come by.
                Some(Doubted { reason: Doubt::Lapsed, .. }) => now.time.after(limits::UNTIL_SWEPT),
                _ => may_run_until(&present, *reason, now),
            };
            if !force && now.time < until {
                return (Change::None, Operated::MayStillRun { until });
            }
            done(freed(&present, present.epoch, now))
        }
        // Under a new epoch, or the former holder's settle, sent again, would bring the old outcome back.
        (Verb::Reopen, State::Settled { .. }) => done(freed(&present, now.next_epoch, now)),
        (Verb::Purge, State::Settled { .. }) => (Change::Remove, Operated::Done(None)),
        (Verb::Erase, State::Settled { settled_at, keep_until, by, .. }) => {
            let state = State::Settled {
                outcome: Outcome::Erased,
                settled_at: *settled_at,
                keep_until: *keep_until,
                by: *by,
            };
            // Under a new epoch, or somebody who saw what was erased could purge or reopen it as if it was still there.
            done(Claim { epoch: now.next_epoch, leaves: None, ..present.with(state) })
        }
        // The audit may have what a reopen set aside (`audit::forgotten`). The claim itself is as free as before, and open
        // to a settle that comes late (L5): under a new epoch that would be lost.
        (Verb::Erase, State::Released { .. }) => done(Claim { leaves: None, ..present.into_owned() }),
        (_, state) => (Change::None, Operated::NotApplicable(state.name())),
    }
}

fn done(claim: Claim) -> (Change, Operated) {
    let epoch = claim.epoch;
    (Change::Put(claim), Operated::Done(Some(epoch)))
}

/// The operator says that it may run again. That does not mean that it has not run: the next holder is told (E6).
fn freed(claim: &Claim, epoch: Epoch, now: &Now) -> Claim {
    let state = State::Released { since: now.time, ran: Ran::Waived };
    Claim { epoch, earlier: Ran::Waived, ..claim.with(state) }
}

/// Until when the former run may still reach the work: `give_up` bounds the call, and a session that lapsed and lives
/// again may still be working on it.
fn may_run_until(claim: &Claim, reason: Doubt, now: &Now) -> Timestamp {
    let call = claim.granted_at.after(claim.terms.give_up);
    match reason {
        Doubt::Lapsed => call.max(now.holder.until),
        Doubt::Failed | Doubt::Stated | Doubt::Paused => call,
    }
}

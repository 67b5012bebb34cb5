//! Claim, set and peek: who may run, and what everybody else is told (L2, L6, L13).

use super::holder::only_asked;
use super::standing::{current, lease_end};
use super::{
    Ask, Change, Claim, Doubt, Doubted, Grant, Now, Ran, Rerun, SetAnswer, SettledBy, State, Terms, Verdict,
    View,
};
use crate::limits;
use crate::outcome::{Outcome, Retention};
use crate::time::Timestamp;

/// Decides a claim.
pub(super) fn claim(claim: Option<&Claim>, ask: &Ask, now: &Now) -> (Change, Verdict) {
    if let Some(own) =
        claim.filter(|claim| claim.attempt == ask.attempt && claim.fingerprint == ask.fingerprint)
    {
        return (Change::None, asked_again(own, now));
    }
    let Some(present) = current(claim, now) else { return grant_anew(ask, now) };
    if present.fingerprint != ask.fingerprint {
        return (Change::None, mismatch(&present));
    }
    let rerun = present.terms.rerun.max(ask.terms.rerun);
    match present.state {
        State::Held { run_until } => (Change::None, held(&present, lease_end(run_until, now))),
        State::Settled { .. } => (Change::None, replay(&present)),
        State::InDoubt { reason, asked_at, .. } => {
            if rerun == Rerun::Ask && reason != Doubt::Paused && may_ask_again(asked_at, now) {
                return grant_over(&present, ask, now, true);
            }
            doubtful(claim, &present)
        }
        State::Released { ran: Ran::No | Ran::Waived, .. } => grant_over(&present, ask, now, false),
        State::Released { since, ran: Ran::Perhaps } => match rerun {
            Rerun::Safe => {
                let quiet_end = since.after(present.terms.quiet.max(ask.terms.quiet));
                if now.time < quiet_end {
                    return (Change::None, held(&present, quiet_end));
                }
                grant_over(&present, ask, now, false)
            }
            Rerun::Ask => grant_over(&present, ask, now, true),
            Rerun::Unsafe => {
                // The grant said safe, this caller says it is not: the stricter wins, and nobody knows what happened. The
                // doubt begins here, however long ago the run was: it must not have ended before anybody saw it.
                let doubt = State::InDoubt { reason: Doubt::Failed, since: now.time, asked_at: None };
                let mut after = present.with(doubt);
                after.terms.rerun = Rerun::Unsafe;
                let verdict = in_doubt(&after);
                (Change::Put(after), verdict)
            }
        },
    }
}

/// The same attempt asks again because it does not know whether its first command arrived (L13). It has not dispatched
/// anything, or it would know; so its own lease is handed out again, lapsed or not, swept or not: a holder renews a lapsed
/// lease before it begins (L4), and one who does not want it any more can give it back. What is absent by now is not granted
/// anew: the command was carried out, once.
fn asked_again(own: &Claim, now: &Now) -> Verdict {
    if let Some(run_until) = lease_of(own) {
        return Verdict::Granted(Grant {
            epoch: own.epoch,
            operation_id: own.operation_id,
            run_until,
            earlier_may_have_run: own.earlier != Ran::No,
            must_ask: only_asked(own),
        });
    }
    match current(Some(own), now) {
        Some(present) if present.kept().is_some() => replay(&present),
        Some(present) => in_doubt(&present),
        None => Verdict::Spent,
    }
}

/// Whether an attempt asks again for a grant that does not stand any more, or that hangs on another session than it asks under. A
/// process finds that out before it begins, and renews its lease (L4); a holder elsewhere begins by the grant alone (M1).
pub fn is_lapsed_repeat(claim: Option<&Claim>, ask: &Ask, now: &Now) -> bool {
    let Some(own) = claim.filter(|claim| claim.attempt == ask.attempt) else { return false };
    let stands = own.session == ask.session
        && current(claim, now).is_some_and(|present| matches!(present.state, State::Held { .. }));
    !stands && matches!(asked_again(own, now), Verdict::Granted(_))
}

/// Until when the lease runs or ran, where nothing but time has ended it. Whoever was to ask about a former run has lost it for
/// good: the doubt is the former one again.
fn lease_of(claim: &Claim) -> Option<Timestamp> {
    match claim.state {
        State::Held { run_until } => Some(run_until),
        State::InDoubt { reason: Doubt::Lapsed, .. } if !only_asked(claim) => {
            Some(claim.granted_at.after(claim.terms.max_run))
        }
        _ => None,
    }
}

fn grant_anew(ask: &Ask, now: &Now) -> (Change, Verdict) {
    granted(
        Claim {
            epoch: now.next_epoch,
            attempt: ask.attempt,
            operation_id: ask.operation_id,
            fingerprint: ask.fingerprint,
            leaves: ask.leaves.clone(),
            terms: ask.terms.clone(),
            opened_at: now.time,
            granted_at: now.time,
            session: ask.session,
            earlier: Ran::No,
            doubted: None,
            cause: None,
            state: State::Held { run_until: now.time.after(ask.terms.max_run) },
        },
        false,
    )
}

/// A grant over a present claim: the epoch moves on, the public id and the fingerprint stay, the stricter rerun wins.
fn grant_over(present: &Claim, ask: &Ask, now: &Now, must_ask: bool) -> (Change, Verdict) {
    debug_assert!(now.next_epoch > present.epoch, "an epoch is never reused");
    let earlier = match present.state {
        State::Released { ran, .. } => ran,
        _ => Ran::Perhaps,
    };
    // Whoever is to ask about a run must not shorten how long that may still reach the work (L8).
    let give_up = if must_ask { present.terms.give_up.max(ask.terms.give_up) } else { ask.terms.give_up };
    granted(
        Claim {
            epoch: now.next_epoch,
            attempt: ask.attempt,
            operation_id: present.operation_id,
            fingerprint: present.fingerprint,
            leaves: present.leaves.clone(),
            terms: Terms { rerun: present.terms.rerun.max(ask.terms.rerun), give_up, ..ask.terms.clone() },
            opened_at: present.opened_at,
            granted_at: now.time,
            session: ask.session,
            earlier,
            doubted: must_ask.then(|| doubted(present, now)),
            cause: present.cause.clone().filter(|_| must_ask),
            state: State::Held { run_until: now.time.after(ask.terms.max_run) },
        },
        must_ask,
    )
}

/// What the next holder must ask about.
fn doubted(present: &Claim, now: &Now) -> Doubted {
    let (reason, since) = match present.state {
        State::InDoubt { reason, since, .. } => (reason, since),
        // The grant said safe, this caller wants it to be asked: the doubt begins here.
        _ => (Doubt::Failed, now.time),
    };
    Doubted { reason, since, session: present.session, granted_at: present.granted_at }
}

fn granted(claim: Claim, must_ask: bool) -> (Change, Verdict) {
    let State::Held { run_until } = claim.state else { unreachable!("a grant holds") };
    let grant = Grant {
        epoch: claim.epoch,
        operation_id: claim.operation_id,
        run_until,
        earlier_may_have_run: claim.earlier != Ran::No,
        must_ask,
    };
    (Change::Put(claim), Verdict::Granted(grant))
}

/// "Nobody knows", written down if time alone made it so.
fn doubtful(stored: Option<&Claim>, present: &Claim) -> (Change, Verdict) {
    let change = if stored == Some(present) { Change::None } else { Change::Put(present.clone()) };
    (change, in_doubt(present))
}

fn may_ask_again(asked_at: Option<Timestamp>, now: &Now) -> bool {
    asked_at.is_none_or(|at| now.time >= at.after(limits::ASK_AGAIN_AFTER))
}

fn held(claim: &Claim, until: Timestamp) -> Verdict {
    Verdict::Held { operation_id: claim.operation_id, until }
}

fn mismatch(claim: &Claim) -> Verdict {
    Verdict::Mismatch {
        operation_id: claim.operation_id,
        recipe: claim.fingerprint.recipe,
        leaves: claim.leaves.clone(),
        keep_until: match claim.state {
            State::Settled { keep_until, .. } => Some(keep_until),
            _ => None,
        },
    }
}

fn replay(claim: &Claim) -> Verdict {
    claim.kept().map_or(Verdict::Spent, Verdict::Replay)
}

fn in_doubt(claim: &Claim) -> Verdict {
    match claim.state {
        State::InDoubt { reason, since, .. } => {
            Verdict::InDoubt { operation_id: claim.operation_id, reason, since }
        }
        _ => Verdict::Spent,
    }
}

/// Keeps an outcome where nothing is (E4).
pub(super) fn set(
    claim: Option<&Claim>,
    ask: &Ask,
    outcome: &Outcome,
    retention: Retention,
    now: &Now,
) -> (Change, SetAnswer) {
    if let Some(own) = current(claim, now).filter(|claim| claim.attempt == ask.attempt)
        && let Some(kept) = own.kept()
    {
        return (Change::None, SetAnswer::Stored(kept));
    }
    if let Some(view) = view(claim, now) {
        return (Change::None, SetAnswer::Present(view));
    }
    let (Change::Put(mut claim), _) = grant_anew(ask, now) else { unreachable!("a grant is recorded") };
    claim.state = State::Settled {
        outcome: outcome.clone(),
        settled_at: now.time,
        keep_until: retention.keep_until(now.time, now.time),
        by: SettledBy::Holder,
    };
    let Some(kept) = claim.kept() else { unreachable!("it was settled just now") };
    (Change::Put(claim), SetAnswer::Stored(kept))
}

/// What a reader sees; changes nothing.
pub fn view(claim: Option<&Claim>, now: &Now) -> Option<View> {
    let claim = current(claim, now)?;
    let operation_id = claim.operation_id;
    Some(match claim.state {
        State::Held { run_until } => View::Held { operation_id, until: lease_end(run_until, now) },
        State::Settled { .. } => View::Settled(claim.kept()?),
        State::InDoubt { reason, since, .. } => View::InDoubt { operation_id, reason, since },
        State::Released { .. } => View::Released { operation_id },
    })
}

//! Claims, counts and audit events as the models of the API: what the admin listener answers and what `hapax claims --json`
//! prints.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hapax_api::{
    Claim, ClaimState, Counts, Damaged, Doubt, Event, Fingerprint, HeaderValues, Headers, OutcomeKind, Time,
};
use hapax_core::claim::audit::{About, AuditEvent};
use hapax_core::{Outcome, Record, State, Timestamp};
use hapax_exec::Seal;
use hapax_tower::Answer;

use super::gate::REFUSED;
use crate::node::KeptAnswers;
use crate::when::utc;

/// What stands for a time that never comes where one must be told. No rule makes such a time.
const NO_TIME: &str = "9999-12-31T23:59:59.999999Z";

/// A claim, without the bytes of its outcome.
pub(crate) fn claim(record: &Record) -> Claim {
    let (identity, claim) = (&record.identity, &record.claim);
    let parts = identity.scope().narrowed(identity.width());
    Claim {
        operation_id: claim.operation_id.into(),
        tenant: parts.tenant().to_owned(),
        project: parts.project().to_owned(),
        subject: parts.subject().to_owned(),
        operation: identity.operation().as_str().to_owned(),
        key: identity.key().as_str().to_owned(),
        source: identity.source().into(),
        scope: identity.width().into(),
        epoch: claim.epoch.into(),
        // As text: it does not fit into the numbers that every reader of JSON has.
        operation_epoch: claim.epoch.packed().to_string(),
        fingerprint: Fingerprint {
            recipe: format!("{:016x}", claim.fingerprint.recipe.0),
            digest: hex(&claim.fingerprint.digest),
        },
        rerun: claim.terms.rerun.into(),
        opened_at: time(claim.opened_at),
        granted_at: time(claim.granted_at),
        upstream: None,
        upstream_key: None,
        holder: None,
        state: state(claim),
    }
}

/// What a page has passed by.
pub(super) fn damaged(damaged: &[hapax_core::Damaged]) -> Vec<Damaged> {
    let one = |record: &hapax_core::Damaged| Damaged { id: record.id.clone(), error: record.error.clone() };
    damaged.iter().map(one).collect()
}

/// What depends on the state.
fn state(claim: &hapax_core::Claim) -> ClaimState {
    match &claim.state {
        State::Held { run_until } => ClaimState::Held { run_until: moment(*run_until) },
        State::Settled { outcome: kept, settled_at, keep_until, by } => ClaimState::Settled {
            settled_at: time(*settled_at),
            settled_by: (*by).into(),
            keep_until: moment(*keep_until),
            outcome: outcome(kept),
        },
        State::InDoubt { reason, since, asked_at } => ClaimState::InDoubt {
            doubt: Doubt {
                reason: (*reason).into(),
                since: time(*since),
                asked_at: asked_at.and_then(moment),
                cause: claim.cause.as_ref().map(ToString::to_string),
            },
            may_run_until: moment(claim.granted_at.after(claim.terms.give_up)),
        },
        State::Released { since, ran } => {
            ClaimState::Released { released_at: time(*since), ran: (*ran).into() }
        }
    }
}

/// What is kept, without its bytes.
fn outcome(outcome: &Outcome) -> hapax_api::Outcome {
    let of = |kind, bytes: usize, status| hapax_api::Outcome {
        kind,
        bytes: bytes as u64,
        status,
        headers: None,
        body_base64: None,
        kept_base64: None,
        unreadable: None,
    };
    match outcome {
        Outcome::Succeeded(bytes) => of(OutcomeKind::Succeeded, bytes.len(), None),
        Outcome::Refused(bytes) => of(OutcomeKind::Refused, bytes.len(), None),
        Outcome::NotKept { status } => of(OutcomeKind::NotKept, 0, Some(*status)),
        Outcome::Erased => of(OutcomeKind::Erased, 0, None),
    }
}

/// A claim with the status of its answer, and nothing else of what is kept.
pub(super) fn claim_with_status(record: &Record, answers: &KeptAnswers) -> Claim {
    let mut told = claim(record);
    if let ClaimState::Settled { outcome, .. } = &mut told.state {
        outcome.status = outcome.status.or_else(|| status(record, answers));
    }
    told
}

/// The status that callers are answered with, as far as what is kept is an answer that opens.
pub(super) fn status(record: &Record, answers: &KeptAnswers) -> Option<u16> {
    match &record.claim.state {
        State::Settled { outcome: Outcome::Succeeded(bytes) | Outcome::Refused(bytes), .. } => {
            let answer = answers.decode(&record.identity.claim_id(), bytes).ok()?;
            Some(answer.status.as_u16())
        }
        State::Settled { outcome: Outcome::NotKept { status }, .. } => Some(*status),
        _ => None,
    }
}

/// A claim with what is kept of its answer. Bytes that are no answer of HTTP (a program kept them through the library) are
/// given as they are.
pub(super) fn claim_with_outcome(record: &Record, answers: &KeptAnswers) -> Claim {
    let mut told = claim(record);
    let State::Settled { outcome: Outcome::Succeeded(bytes) | Outcome::Refused(bytes), .. } =
        &record.claim.state
    else {
        return told;
    };
    let ClaimState::Settled { outcome, .. } = &mut told.state else { return told };
    match answers.decode(&record.identity.claim_id(), bytes) {
        Ok(answer) => {
            outcome.status = Some(answer.status.as_u16());
            outcome.headers = Some(headers(&answer));
            outcome.body_base64 = Some(STANDARD.encode(answer.body.unwrap_or_default()));
        }
        Err(error) => {
            outcome.kept_base64 = Some(STANDARD.encode(bytes));
            // Nobody should take sealed bytes for what was kept.
            outcome.unreadable = Seal::is_sealed(bytes).then(|| format!("{error:#}"));
        }
    }
    told
}

fn headers(answer: &Answer) -> Headers {
    let values = |name: &http::HeaderName| {
        let all = answer.headers.get_all(name).iter();
        let mut all: Vec<_> =
            all.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
        match (all.len(), all.pop()) {
            (1, Some(one)) => HeaderValues::One(one),
            (_, last) => HeaderValues::Many(all.into_iter().chain(last).collect()),
        }
    };
    answer.headers.keys().map(|name| (name.as_str().to_owned(), values(name))).collect()
}

/// How many claims there are in each state.
pub(super) fn counts(counts: &hapax_core::Counts) -> Counts {
    Counts {
        held: counts.held,
        settled: counts.settled,
        in_doubt: counts.in_doubt,
        released: counts.released,
    }
}

/// One entry of the audit, without the bytes of an outcome that was set aside.
pub(super) fn event(event: &AuditEvent) -> Event {
    let (verb, refused) = match event.verb.split_once(REFUSED) {
        Some((verb, code)) => (verb, Some(code.to_owned())),
        None => (event.verb.as_str(), None),
    };
    let told = Event {
        id: digest(
            format!("{:?} {} {} {} {:?}", event.at, event.verb, event.actor, event.reason, event.about)
                .as_bytes(),
        ),
        key: None,
        tenant: None,
        at: time(event.at),
        verb: verb.to_owned(),
        refused,
        actor: event.actor.clone(),
        reason: event.reason.clone(),
        operation_id: None,
        epoch: None,
        before: None,
        after: None,
        setting: None,
        outcome: event.outcome.as_ref().map(outcome),
    };
    match &event.about {
        About::Claim { operation_id, epoch, before, after } => Event {
            operation_id: Some((*operation_id).into()),
            epoch: Some((*epoch).into()),
            before: Some(before.as_str().to_owned()),
            after: after.map(|state| state.as_str().to_owned()),
            ..told
        },
        About::Setting { name, before, after } => {
            Event { setting: Some(name.clone()), before: before.clone(), after: after.clone(), ..told }
        }
    }
}

/// A time that comes.
pub(crate) fn time(time: Timestamp) -> Time {
    utc(time).unwrap_or_else(|| NO_TIME.into()).into()
}

/// A time, or nothing where it never comes.
pub(crate) fn moment(time: Timestamp) -> Option<Time> {
    utc(time).map(Time::from)
}

/// A short word in the place of a long one.
pub(super) fn digest(bytes: &[u8]) -> String {
    hex(&super::access::sha256(bytes)[..8])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

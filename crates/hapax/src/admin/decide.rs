//! What operators decide: resolve, reopen, purge, erase (L8).
//!
//! Every decision names the epoch that was seen and a reason. Whether it is carried out, the rules decide; where not, the
//! operator is told what the claim is now.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hapax_agent::actions::approvals;
use hapax_api::{
    ActionDecision, Claim, ConflictCode, Decide, Decided, Done, HeaderValues, Headers, Resolve, Settle,
    operations as op,
};
use hapax_core::journal::Append;
use hapax_core::{ClaimId, Decision, Error, Inspect as _, Operated, Outcome, Record, StateName, Verb};
use hapax_tower::Answer;
use hapax_tower::answer::{is_hop_by_hop, is_ours};
use http::StatusCode;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, SET_COOKIE};

use super::access::Operator;
use super::{AdminState, claims, view};
use crate::limits;
use crate::listen::mount::Asked;
use crate::listen::refusal::{Conflict, Refusal};
use crate::when::{now, parse_retention, utc};

pub(super) async fn resolve(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::ResolveClaim>,
) -> Result<Decided, Refusal> {
    let Resolve { epoch, reason, by, release, force, settle } = asked.body;
    let record = claims::find(&state, &asked.id).await?;
    let verb = match (release, settle) {
        (true, None) => Verb::Release { force },
        (false, Some(_)) if force => return Err(Refusal::malformed("force belongs to release")),
        (false, Some(settle)) => settled(&state, &record, settle)?,
        _ => return Err(Refusal::malformed("say either \"release\": true or \"settle\": {…}")),
    };
    decide(&state, &operator, record, Decide { epoch, reason, by }, verb).await
}

pub(super) async fn reopen(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::ReopenClaim>,
) -> Result<Decided, Refusal> {
    plainly(&state, &operator, &asked.id, asked.body, Verb::Reopen).await
}

pub(super) async fn purge(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::PurgeClaim>,
) -> Result<Decided, Refusal> {
    plainly(&state, &operator, &asked.id, asked.body, Verb::Purge).await
}

pub(super) async fn erase(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::EraseClaim>,
) -> Result<Decided, Refusal> {
    plainly(&state, &operator, &asked.id, asked.body, Verb::Erase).await
}

async fn plainly(
    state: &AdminState,
    operator: &Operator,
    id: &str,
    asked: Decide,
    verb: Verb,
) -> Result<Decided, Refusal> {
    decide(state, operator, claims::find(state, id).await?, asked, verb).await
}

async fn decide(
    state: &AdminState,
    operator: &Operator,
    record: Record,
    asked: Decide,
    verb: Verb,
) -> Result<Decided, Refusal> {
    if verb != Verb::Erase && hapax_agent::durable::is_step(&record) {
        return Err(step_of_an_execution(&record, Done::from(&verb)).into());
    }
    let frees_or_settles = matches!(verb, Verb::Settle(..) | Verb::Release { .. });
    if frees_or_settles && approvals::is_action(&record) {
        return Err(action_of_an_agent(&record, Done::from(&verb)).into());
    }
    let actor = actor(&operator.name, asked.by.as_deref())?;
    let (seen, reason) = (asked.epoch.as_str().parse()?, reason(asked.reason)?);
    let (id, done) = (record.identity.claim_id(), Done::from(&verb));
    let events = told_in_receipts(state, &record, &verb, &actor, &reason)?;
    let decision = Decision { seen, verb, actor: actor.clone(), reason };
    let operated = state.store.decide_with(id, decision, events).await?;
    done_or_not(state, &record, operated, done, &actor).await
}

/// An action that may run a second time says so among its tenant's receipts, or these would show it twice and nothing between.
fn told_in_receipts(
    state: &AdminState,
    record: &Record,
    verb: &Verb,
    actor: &str,
    reason: &str,
) -> Result<Vec<Append>, Error> {
    let word = match verb {
        Verb::Reopen => ActionDecision::Reopen,
        Verb::Purge => ActionDecision::Purge,
        _ => return Ok(Vec::new()),
    };
    if !approvals::is_action(record) {
        return Ok(Vec::new());
    }
    Ok(vec![approvals::event_of(state.answers.seal(), record, word.as_str(), actor, reason)?])
}

/// What became of a decision, for the operator and for the log.
pub(super) async fn done_or_not(
    state: &AdminState,
    record: &Record,
    operated: Operated,
    done: Done,
    actor: &str,
) -> Result<Decided, Refusal> {
    let id = record.identity.claim_id();
    if let Operated::Done(epoch) = operated {
        let operation_id = record.claim.operation_id;
        tracing::info!(%operation_id, verb = done.as_str(), actor, "an operator decided");
        let claim = as_it_is(state, id).await?;
        return Ok(Decided { operation_id: operation_id.into(), done, epoch: epoch.map(Into::into), claim });
    }
    Err(not_done(state, record, id, operated, done).await?)
}

/// What is decided about a step must reach its execution, which waits for it (J5).
fn step_of_an_execution(record: &Record, done: Done) -> Conflict {
    Conflict {
        code: ConflictCode::NotApplicable,
        detail: format!(
            "{done} does not fit a step of an execution: its journal must tell of the decision; see `hapax executions waiting` and use \
             `hapax executions decide`"
        ),
        operation_id: record.claim.operation_id,
        claim: Some(view::claim(record)),
        retry_after: None,
    }
}

/// What is decided about an action must reach its tenant's receipts; and its outcome is what its tool answered, no answer of HTTP.
fn action_of_an_agent(record: &Record, done: Done) -> Conflict {
    Conflict {
        code: ConflictCode::NotApplicable,
        detail: format!(
            "{done} does not fit an action of an agent: its receipts must tell of the decision; use `hapax approvals confirm` or \
             `hapax approvals release`"
        ),
        operation_id: record.claim.operation_id,
        claim: Some(view::claim(record)),
        retry_after: None,
    }
}

/// Somebody else, or time, was faster; or the rules say no.
async fn not_done(
    state: &AdminState,
    record: &Record,
    id: ClaimId,
    operated: Operated,
    done: Done,
) -> Result<Refusal, Refusal> {
    let mut retry_after = None;
    let (code, detail) = match operated {
        Operated::Changed { epoch } => (
            ConflictCode::Changed,
            format!(
                "the claim has epoch {epoch} now: somebody else decided, or it was granted again; look again"
            ),
        ),
        Operated::NotApplicable(state) => (ConflictCode::NotApplicable, fitting(done, state)),
        Operated::MayStillRun { until } => {
            retry_after = Some(until.since(now()));
            let until = utc(until).unwrap_or_else(|| "the end of time".into());
            let detail =
                format!("the former run may still reach the work until {until}: wait, or release by force");
            (ConflictCode::MayStillRun, detail)
        }
        Operated::Absent | Operated::Done(_) => {
            return Ok(Refusal::not_found("the claim is absent by now"));
        }
    };
    let conflict = Conflict {
        code,
        detail,
        operation_id: record.claim.operation_id,
        claim: as_it_is(state, id).await?,
        retry_after,
    };
    Ok(Refusal::Conflict(Box::new(conflict)))
}

async fn as_it_is(state: &AdminState, id: ClaimId) -> Result<Option<Claim>, Error> {
    Ok(state.store.record(id).await?.as_ref().map(view::claim))
}

/// What can be done instead.
fn fitting(done: Done, state: StateName) -> String {
    let instead = match state {
        StateName::Held => "it runs: wait until it has ended",
        StateName::Settled => "it can be reopened, purged or erased",
        StateName::InDoubt => "it can be resolved: released or settled",
        StateName::Released => "it is free already: the next request with its key runs",
    };
    format!("{done} does not fit a claim that is {}; {instead}", state.as_str())
}

/// The token's name, and whom its user says to be.
pub(super) fn actor(token: &str, by: Option<&str>) -> Result<String, Error> {
    match by {
        None | Some("") => Ok(token.into()),
        Some(by) if by.chars().count() <= limits::NAME_LENGTH && !by.chars().any(char::is_control) => {
            Ok(format!("{token}/{by}"))
        }
        Some(_) => Err(Error::invalid("\"by\" has at most 128 printable characters")),
    }
}

pub(super) fn reason(reason: String) -> Result<String, Error> {
    let fits = !reason.trim().is_empty() && reason.chars().count() <= limits::REASON_LENGTH;
    match fits && !reason.chars().any(char::is_control) {
        true => Ok(reason),
        false => Err(Error::invalid("state a reason of 1 to 1024 printable characters: the audit keeps it")),
    }
}

/// The outcome that an operator states.
fn settled(state: &AdminState, record: &Record, settling: Settle) -> Result<Verb, Error> {
    let status =
        StatusCode::from_u16(settling.status).ok().filter(|status| (200..=599).contains(&status.as_u16()));
    let status = status.ok_or_else(|| Error::invalid("an answer has a status from 200 to 599"))?;
    let body = STANDARD.decode(&settling.body_base64).map_err(|error| {
        Error::invalid("body_base64 is not base64 (RFC 4648, with padding)").with_detail(error)
    })?;
    if body.len() > limits::SETTLED_BODY_BYTES {
        return Err(Error::invalid("a stated answer has a body of at most 1 MiB"));
    }
    if matches!(settling.status, 204 | 205 | 304) && !body.is_empty() {
        let what =
            format!("an answer of status {} has no body: state another status, or none", settling.status);
        return Err(Error::invalid(what));
    }
    let retention = match &settling.retention {
        Some(text) => parse_retention(text)?,
        None => state.keeping.retention_of(&record.identity),
    };
    let answer = Answer { status, headers: headers(settling.headers)?, body: Some(Bytes::from(body)) };
    let kept = state.answers.encode(&record.identity.claim_id(), &answer);
    let outcome = if status.as_u16() < 400 { Outcome::Succeeded(kept) } else { Outcome::Refused(kept) };
    Ok(Verb::Settle(outcome, retention))
}

/// What only a connection, a person or hapax itself may say (H3).
fn is_kept(name: &HeaderName) -> bool {
    !is_hop_by_hop(name) && !is_ours(name) && *name != SET_COOKIE && *name != CONTENT_LENGTH
}

fn headers(stated: Headers) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    for (name, values) in stated {
        let bad = |why: &str| Error::invalid(format!("the header {name:?} cannot be kept: {why}"));
        let field = HeaderName::try_from(&name).map_err(|_| bad("that is no name of a header"))?;
        if !is_kept(&field) {
            return Err(bad("an answer that is handed out again does not have it"));
        }
        let values = match values {
            HeaderValues::One(value) => vec![value],
            HeaderValues::Many(values) => values,
        };
        for value in values {
            let value = HeaderValue::try_from(value).map_err(|_| bad("its value has control characters"))?;
            headers.append(&field, value);
        }
    }
    match headers.len() <= limits::SETTLED_FIELDS {
        true => Ok(headers),
        false => Err(Error::invalid("a stated answer has at most 64 header fields")),
    }
}

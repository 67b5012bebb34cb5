//! What operators decide: resolve, reopen, purge, erase (L8).
//!
//! Every decision names the epoch that was seen and a reason. Whether it is carried out, the rules decide; where not, the
//! operator is told what the claim is now.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hapax_core::{ClaimId, Decision, Epoch, Error, Inspect as _, Operated, Outcome, Record, StateName, Verb};
use hapax_tower::answer::{is_hop_by_hop, is_ours};
use http::Response;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use serde::Deserialize;
use serde_json::{Value, json};

use super::endpoints::{Asked, Ran, ok};
use super::refusal::{Conflict, ConflictCode, Refusal};
use super::{AdminState, HttpAnswer, claims, view};
use crate::limits;
use crate::when::{now, parse_retention, utc};

/// What every decision says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain {
    epoch: String,
    reason: String,
    #[serde(default)]
    by: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Resolving {
    epoch: String,
    reason: String,
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    release: bool,
    #[serde(default)]
    force: bool,
    #[serde(default)]
    settle: Option<Settling>,
}

/// The answer that callers are to get.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settling {
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, Values>,
    #[serde(default)]
    body_base64: String,
    #[serde(default)]
    retention: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Values {
    One(String),
    Many(Vec<String>),
}

pub(super) fn resolve(state: AdminState, asked: Asked) -> Ran {
    Box::pin(async move {
        let resolving: Resolving = asked.json()?;
        let record = claims::find(&state, &asked.id).await?;
        let verb = match (resolving.release, resolving.settle) {
            (true, None) => Verb::Release { force: resolving.force },
            (false, Some(_)) if resolving.force => {
                return Err(Refusal::malformed("force belongs to release"));
            }
            (false, Some(settling)) => settled(&state, &record, settling)?,
            _ => return Err(Refusal::malformed("say either \"release\": true or \"settle\": {…}")),
        };
        let plain = Plain { epoch: resolving.epoch, reason: resolving.reason, by: resolving.by };
        decide(&state, &asked, record, plain, verb).await
    })
}

pub(super) fn reopen(state: AdminState, asked: Asked) -> Ran {
    plainly(state, asked, Verb::Reopen)
}

pub(super) fn purge(state: AdminState, asked: Asked) -> Ran {
    plainly(state, asked, Verb::Purge)
}

pub(super) fn erase(state: AdminState, asked: Asked) -> Ran {
    plainly(state, asked, Verb::Erase)
}

fn plainly(state: AdminState, asked: Asked, verb: Verb) -> Ran {
    Box::pin(async move {
        let plain: Plain = asked.json()?;
        let record = claims::find(&state, &asked.id).await?;
        decide(&state, &asked, record, plain, verb).await
    })
}

async fn decide(
    state: &AdminState,
    asked: &Asked,
    record: Record,
    plain: Plain,
    verb: Verb,
) -> Result<Response<Bytes>, Refusal> {
    let actor = actor(&asked.who.name, plain.by.as_deref())?;
    let decision =
        Decision { seen: plain.epoch.parse()?, verb, actor: actor.clone(), reason: reason(plain.reason)? };
    let (id, word) = (record.identity.claim_id(), decision.verb.as_str());
    let operated = state.store.decide(id, decision).await?;
    if let Operated::Done(epoch) = operated {
        tracing::info!(operation_id = %record.claim.operation_id, verb = word, actor, "an operator decided");
        return done(state, &record, id, word, epoch).await;
    }
    Err(not_done(state, &record, id, operated, word).await?)
}

async fn done(
    state: &AdminState,
    record: &Record,
    id: ClaimId,
    word: &str,
    epoch: Option<Epoch>,
) -> Result<Response<Bytes>, Refusal> {
    ok(&json!({
        "operation_id": record.claim.operation_id.to_string(),
        "done": word,
        "epoch": epoch.map(|epoch| epoch.to_string()),
        "claim": as_it_is(state, id).await?,
    }))
}

/// Somebody else, or time, was faster; or the rules say no.
async fn not_done(
    state: &AdminState,
    record: &Record,
    id: ClaimId,
    operated: Operated,
    word: &str,
) -> Result<Refusal, Refusal> {
    let mut retry_after = None;
    let (code, detail) = match operated {
        Operated::Changed { epoch } => (
            ConflictCode::Changed,
            format!(
                "the claim has epoch {epoch} now: somebody else decided, or it was granted again; look again"
            ),
        ),
        Operated::NotApplicable(state) => (ConflictCode::NotApplicable, fitting(word, state)),
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

async fn as_it_is(state: &AdminState, id: ClaimId) -> Result<Value, Error> {
    Ok(state.store.record(id).await?.as_ref().map(view::claim).unwrap_or(Value::Null))
}

/// What can be done instead.
fn fitting(word: &str, state: StateName) -> String {
    let instead = match state {
        StateName::Held => "it runs: wait until it has ended",
        StateName::Settled => "it can be reopened, purged or erased",
        StateName::InDoubt => "it can be resolved: released or settled",
        StateName::Released => "it is free already: the next request with its key runs",
    };
    format!("{word} does not fit a claim that is {}; {instead}", state.as_str())
}

/// The token's name, and whom its user says to be.
pub(super) fn actor(token: &str, by: Option<&str>) -> Result<String, Error> {
    match by {
        None | Some("") => Ok(token.into()),
        Some(by) if by.len() <= limits::NAME_BYTES && !by.chars().any(char::is_control) => {
            Ok(format!("{token}/{by}"))
        }
        Some(_) => Err(Error::invalid("\"by\" has at most 128 printable bytes")),
    }
}

pub(super) fn reason(reason: String) -> Result<String, Error> {
    let fits = !reason.trim().is_empty() && reason.len() <= limits::REASON_BYTES;
    match fits && !reason.chars().any(char::is_control) {
        true => Ok(reason),
        false => Err(Error::invalid("state a reason of 1 to 1024 printable bytes: the audit keeps it")),
    }
}

/// The outcome that an operator states.
fn settled(state: &AdminState, record: &Record, settling: Settling) -> Result<Verb, Error> {
    if !(200..=599).contains(&settling.status) {
        return Err(Error::invalid("an answer has a status from 200 to 599"));
    }
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
        None => (state.retention)(&record.identity),
    };
    let answer =
        HttpAnswer { status: settling.status, headers: headers(settling.headers)?, body: Bytes::from(body) };
    let kept = state.answers.encode(&record.identity.claim_id(), &answer)?;
    let outcome = if answer.status < 400 { Outcome::Succeeded(kept) } else { Outcome::Refused(kept) };
    Ok(Verb::Settle(outcome, retention))
}

/// What only a connection, a person or hapax itself may say (H3).
fn is_kept(name: &HeaderName) -> bool {
    !is_hop_by_hop(name) && !is_ours(name) && *name != SET_COOKIE && *name != CONTENT_LENGTH
}

fn headers(stated: BTreeMap<String, Values>) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    for (name, values) in stated {
        let bad = |why: &str| Error::invalid(format!("the header {name:?} cannot be kept: {why}"));
        let field = HeaderName::try_from(&name).map_err(|_| bad("that is no name of a header"))?;
        if !is_kept(&field) {
            return Err(bad("an answer that is handed out again does not have it"));
        }
        let values = match values {
            Values::One(value) => vec![value],
            Values::Many(values) => values,
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

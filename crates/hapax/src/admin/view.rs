//! Claims, counts and audit events as JSON: what the admin API answers and what `hapax claims --json` prints.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hapax_core::claim::SettledBy;
use hapax_core::claim::audit::{About, AuditEvent};
use hapax_core::{Claim, Counts, Damaged, Outcome, Ran, Record, Rerun, State, Timestamp, Width};
use hapax_tower::Seal;
use serde_json::{Map, Value, json};

use super::{AnswerCodec, HttpAnswer};
use crate::when::utc;

/// A claim, without the bytes of its outcome.
pub fn claim(record: &Record) -> Value {
    let (identity, claim) = (&record.identity, &record.claim);
    let parts = identity.scope().narrowed(identity.width());
    let mut told = json!({
        "operation_id": claim.operation_id.to_string(),
        "tenant": parts.tenant(),
        "project": parts.project(),
        "subject": parts.subject(),
        "operation": identity.operation().as_str(),
        "key": identity.key().as_str(),
        "source": identity.source().as_str(),
        "scope": width(identity.width()),
        "state": claim.state.name().as_str(),
        "epoch": claim.epoch.to_string(),
        // As text: it does not fit into the numbers that every reader of JSON has.
        "operation_epoch": claim.epoch.packed().to_string(),
        "fingerprint": {
            "recipe": format!("{:016x}", claim.fingerprint.recipe.0),
            "digest": hex(&claim.fingerprint.digest),
        },
        "rerun": rerun(claim.terms.rerun),
        "opened_at": utc(claim.opened_at),
        "granted_at": utc(claim.granted_at),
    });
    if let Value::Object(told) = &mut told {
        told.extend(state(claim));
    }
    told
}

/// What a page has passed by.
pub(super) fn damaged(damaged: &[Damaged]) -> Value {
    damaged.iter().map(|record| json!({"id": record.id, "error": record.error})).collect()
}

/// What depends on the state.
fn state(claim: &Claim) -> Map<String, Value> {
    let told = match &claim.state {
        State::Held { run_until } => json!({"run_until": utc(*run_until)}),
        State::Settled { outcome: kept, settled_at, keep_until, by } => json!({
            "settled_at": utc(*settled_at),
            "settled_by": match by {
                SettledBy::Holder => "holder",
                SettledBy::Operator => "operator",
            },
            "keep_until": utc(*keep_until),
            "outcome": outcome(kept),
        }),
        State::InDoubt { reason, since, asked_at } => json!({
            "doubt": {"reason": reason.as_str(), "since": utc(*since), "asked_at": asked_at.and_then(utc)},
            "may_run_until": utc(claim.granted_at.after(claim.terms.give_up)),
        }),
        State::Released { since, ran } => json!({
            "released_at": utc(*since),
            "ran": match ran {
                Ran::No => "no",
                Ran::Perhaps => "perhaps",
            },
        }),
    };
    match told {
        Value::Object(told) => told,
        _ => Map::new(),
    }
}

/// What is kept, without its bytes.
fn outcome(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Succeeded(bytes) => json!({"kind": "succeeded", "bytes": bytes.len()}),
        Outcome::Refused(bytes) => json!({"kind": "refused", "bytes": bytes.len()}),
        Outcome::NotKept { status } => json!({"kind": "not_kept", "bytes": 0, "status": status}),
        Outcome::Erased => json!({"kind": "erased", "bytes": 0}),
    }
}

/// A claim with what is kept of its answer. Bytes that are no answer of HTTP (a program kept them through the library) are
/// given as they are.
pub(super) fn claim_with_outcome(record: &Record, answers: &dyn AnswerCodec) -> Value {
    let mut told = claim(record);
    let State::Settled { outcome: Outcome::Succeeded(bytes) | Outcome::Refused(bytes), .. } =
        &record.claim.state
    else {
        return told;
    };
    let more = match answers.decode(&record.identity.claim_id(), bytes) {
        Ok(answer) => http(&answer),
        // Nobody should take sealed bytes for what was kept.
        Err(error) if Seal::is_sealed(bytes) => {
            json!({"unreadable": format!("{error:#}"), "kept_base64": STANDARD.encode(bytes)})
        }
        Err(_) => json!({"kept_base64": STANDARD.encode(bytes)}),
    };
    if let (Some(Value::Object(outcome)), Value::Object(more)) = (told.get_mut("outcome"), more) {
        outcome.extend(more);
    }
    told
}

fn http(answer: &HttpAnswer) -> Value {
    let mut headers = Map::new();
    for name in answer.headers.keys() {
        let values: Vec<_> =
            answer.headers.get_all(name).iter().map(|value| lossy(value.as_bytes())).collect();
        headers
            .insert(name.as_str().into(), if values.len() == 1 { json!(values[0]) } else { json!(values) });
    }
    json!({"status": answer.status, "headers": headers, "body_base64": STANDARD.encode(&answer.body)})
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// How many claims there are in each state.
pub fn counts(counts: &Counts) -> Value {
    json!({
        "held": counts.held,
        "settled": counts.settled,
        "in_doubt": counts.in_doubt,
        "released": counts.released,
    })
}

/// One entry of the audit, without the bytes of an outcome that was set aside.
pub(super) fn event(event: &AuditEvent) -> Value {
    let mut shown = json!({
        "at": utc(event.at),
        "verb": event.verb,
        "actor": event.actor,
        "reason": event.reason,
        "operation_id": null,
        "epoch": null,
        "before": null,
        "after": null,
        "setting": null,
        "outcome": event.outcome.as_ref().map(outcome),
    });
    match &event.about {
        About::Claim { operation_id, epoch, before, after } => {
            shown["operation_id"] = operation_id.to_string().into();
            shown["epoch"] = epoch.to_string().into();
            shown["before"] = before.as_str().into();
            shown["after"] = after.map(|state| state.as_str()).into();
        }
        About::Setting { name, before, after } => {
            shown["setting"] = name.as_str().into();
            shown["before"] = before.as_deref().into();
            shown["after"] = after.as_deref().into();
        }
    }
    shown
}

/// A time, or null where it never comes or is not stated.
pub(super) fn time(time: Option<Timestamp>) -> Value {
    time.and_then(utc).into()
}

fn width(width: Width) -> &'static str {
    match width {
        Width::Subject => "subject",
        Width::Project => "project",
        Width::Tenant => "tenant",
    }
}

fn rerun(rerun: Rerun) -> &'static str {
    match rerun {
        Rerun::Safe => "safe",
        Rerun::Ask => "ask",
        Rerun::Unsafe => "unsafe",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

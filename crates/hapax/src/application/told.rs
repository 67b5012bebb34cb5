//! What an application is told when it gets no answer: problems of the edge where they fit, and how something stands (H1, J3).

use hapax_agent::durable;
use hapax_api::{ExecutionConflict, Standing};
use hapax_core::{Error, Kind, OperationId, Particular};
use hapax_exec::Reason;
use hapax_tower::{Code, Problem};
use serde_json::{Map, Value, json};

use crate::listen::refusal::Refusal;

/// How something stands, in words.
pub(super) fn stands(standing: Standing, detail: impl Into<String>) -> Refusal {
    Refusal::Standing(standing, detail.into(), Map::new())
}

/// The same about an operation.
pub(super) fn stands_of(standing: Standing, detail: &str, operation_id: OperationId) -> Refusal {
    let more = Map::from_iter([("operation_id".to_owned(), operation_id.to_string().into())]);
    Refusal::Standing(standing, detail.to_owned(), more)
}

/// What the store says. Details of a store are for its operator.
pub(super) fn of_store(error: Error) -> Refusal {
    if let Some(Particular::TooMany) = error.particular() {
        return Problem::new(Code::TooMany).detail(error.message()).into();
    }
    let code = match error.kind() {
        Kind::Invalid => return Refusal::malformed(error.message()),
        Kind::LostLease => return lease_over(),
        Kind::Unavailable | Kind::Conflict => Code::LedgerUnavailable,
        _ => Code::Internal,
    };
    tracing::warn!(error = format!("{error:#}"), "the application API could not be served");
    Problem::new(code).into()
}

pub(super) fn lease_over() -> Refusal {
    let detail = "lease: it has lapsed, was ended, or was opened with other credentials; open another one";
    stands(Standing::LeaseOver, detail)
}

/// What the executor says where its word is no verdict.
pub(super) fn of_call(error: hapax_exec::Error) -> Refusal {
    match error.reason() {
        Reason::LeaseOver => lease_over(),
        Reason::Invalid => Refusal::malformed(error.cause().unwrap_or("the call cannot be accepted")),
        _ => {
            tracing::warn!(error = error.to_string(), "the application API could not be served");
            Problem::from(&error).into()
        }
    }
}

/// What an execution's rules say.
pub(super) fn of_execution(error: durable::Error) -> Refusal {
    use durable::Error as E;
    let (standing, more) = match &error {
        E::NotFound => return no_execution(),
        E::Invalid(detail) => return Refusal::malformed(detail.clone()),
        E::Store(_) | E::Call(_) => {
            return match error {
                E::Store(error) => of_store(error),
                E::Call(error) => of_call(error),
                other => Refusal::malformed(other.to_string()),
            };
        }
        E::NotApplicable(detail) => {
            return Refusal::Execution(ExecutionConflict::NotApplicable, detail.clone());
        }
        E::AlreadyExists => (Standing::AlreadyExists, Value::Null),
        E::VersionConflict { expected, found } => {
            (Standing::VersionConflict, json!({"expected": expected, "found": found}))
        }
        E::Fenced => (Standing::Fenced, Value::Null),
        E::Ended => (Standing::Ended, Value::Null),
        E::ExecutionCorrupted { position, .. } => {
            (Standing::ExecutionCorrupted, json!({"position": position}))
        }
        E::UnsupportedSchemaVersion { version } => {
            (Standing::UnsupportedSchemaVersion, json!({"version": version}))
        }
        E::PlanDiverged { at } => {
            (Standing::PlanDiverged, json!({"iteration": at.iteration, "call": at.call}))
        }
        E::EffectKeyTaken { at, operation_id } => {
            let holder = operation_id.map(|operation_id| operation_id.to_string());
            let more = json!({"iteration": at.iteration, "call": at.call, "operation_id": holder});
            (Standing::EffectKeyTaken, more)
        }
        E::WrongIteration { present, .. } => (Standing::WrongIteration, json!({"iteration": present})),
        E::Erased => (Standing::Erased, Value::Null),
        other => return Problem::new(Code::Internal).owing_to(other.to_string()).into(),
    };
    let more = match more {
        Value::Object(more) => more,
        _ => Map::new(),
    };
    Refusal::Standing(standing, error.to_string(), more)
}

/// The same whether there is none, or one of another project.
pub(super) fn no_execution() -> Refusal {
    Refusal::not_found("there is no such execution")
}

/// The same whether there is none, or one of another caller.
pub(super) fn no_claim() -> Refusal {
    Refusal::not_found("there is no such claim")
}

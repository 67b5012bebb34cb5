//! How long outcomes are kept, by class: shown, set and taken back by operators (P5).
//!
//! What a class is and which routes have it is the configuration's affair; what was set is kept by [`crate::node::Keeping`].

use std::time::Duration;

use hapax_api::{DelegatedRetention, RetentionClass, RetentionClasses, operations as op};
use hapax_core::Retention;
use hapax_gateway::restate::{Registered, span};
use hapax_gateway::settings::Upstream;

use super::AdminState;
use super::access::Operator;
use super::decide::{actor, reason};
use super::delegated::admin_of;
use crate::config::parse_retention;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;
use crate::node::SetTo;

pub(super) async fn get_list(
    state: AdminState,
    _: Operator,
    _: Asked<op::ListRetention>,
) -> Result<RetentionClasses, Refusal> {
    Ok(RetentionClasses { classes: state.keeping.list().await? })
}

pub(super) async fn set(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::SetRetention>,
) -> Result<RetentionClass, Refusal> {
    let setting = asked.body;
    let retention = parse_retention(&setting.retention)
        .map_err(|remedy| Refusal::malformed(format!("{:?} is no retention: {remedy}", setting.retention)))?;
    let by = actor(&operator.name, setting.by.as_deref())?;
    let to = SetTo { retention: Some(retention), by, reason: reason(setting.reason)? };
    let now = found(&asked.id, state.keeping.set(&asked.id, &to).await?)?;
    Ok(in_clusters(&state, now).await)
}

pub(super) async fn unset(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::UnsetRetention>,
) -> Result<RetentionClass, Refusal> {
    let by = actor(&operator.name, asked.query.by.as_deref())?;
    let to = SetTo { retention: None, by, reason: reason(asked.query.reason)? };
    let now = found(&asked.id, state.keeping.set(&asked.id, &to).await?)?;
    Ok(in_clusters(&state, now).await)
}

/// Tells clusters, which keep outcomes themselves, and what each of them has made of it: a server may keep less than it is told.
async fn in_clusters(state: &AdminState, mut now: RetentionClass) -> RetentionClass {
    let retention = now.retention.as_deref().and_then(|text| parse_retention(text).ok());
    for (upstream, service) in state.keeping.delegated(&now.class).await {
        let mut told = DelegatedRetention {
            upstream: upstream.name.clone(),
            service: service.clone(),
            idempotency_retention: None,
            journal_retention: None,
            problem: None,
        };
        match retention {
            Some(Retention::For(span)) => match keep(&upstream, &service, span).await {
                Ok(registered) => {
                    told.problem = differs(&registered, span);
                    told.idempotency_retention = registered.idempotency_retention;
                    told.journal_retention = registered.journal_retention;
                }
                Err(problem) => told.problem = Some(problem),
            },
            _ => told.problem = Some("a cluster keeps nothing for ever: set a span".into()),
        }
        now.delegated.push(told);
    }
    now
}

async fn keep(upstream: &Upstream, service: &str, span: Duration) -> Result<Registered, String> {
    let admin = admin_of(upstream).map_err(|error| format!("{error:#}"))?;
    let kept = admin.keep(service, span).await.map_err(|away| away.to_string())?;
    kept.ok_or_else(|| "no such service is registered".into())
}

/// What a service keeps otherwise than it was told.
fn differs(registered: &Registered, asked: Duration) -> Option<String> {
    let kept = |text: &Option<String>| text.as_deref().and_then(span);
    let own = registered
        .handlers
        .iter()
        .find(|handler| handler.idempotency_retention.is_some() || handler.journal_retention.is_some());
    match own {
        _ if kept(&registered.idempotency_retention) != Some(asked) => {
            Some("it keeps outcomes for another span".into())
        }
        _ if kept(&registered.journal_retention) != Some(asked) => {
            Some("it keeps journals for another span".into())
        }
        Some(handler) => Some(format!("its handler {} has a retention of its own, which wins", handler.name)),
        None => None,
    }
}

fn found(class: &str, now: Option<RetentionClass>) -> Result<RetentionClass, Refusal> {
    now.ok_or_else(|| {
        Refusal::not_found(format!(
            "there is no retention class {class:?}: GET /v1/retention lists those of [retention] in the configuration"
        ))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_service_keeps_otherwise_than_it_was_told_is_told_p5() {
        let asked = json!({
            "name": "S", "ty": "Service", "idempotency_retention": "3d", "journal_retention": "72h",
            "handlers": [{"name": "h"}],
        });
        let told = |service: serde_json::Value| {
            let registered: Registered = serde_json::from_value(service).unwrap();
            differs(&registered, Duration::from_secs(3 * 86_400)).unwrap_or_default()
        };
        assert_eq!(told(asked.clone()), "", "another text of the same span");
        for (place, value, tells) in [
            ("/idempotency_retention", json!("2d"), "it keeps outcomes for another span"),
            ("/idempotency_retention", json!(null), "it keeps outcomes for another span"),
            ("/journal_retention", json!("1d"), "it keeps journals for another span"),
            (
                "/handlers/0/idempotency_retention",
                json!("3d"),
                "its handler h has a retention of its own, which wins",
            ),
            (
                "/handlers/0/journal_retention",
                json!("1h"),
                "its handler h has a retention of its own, which wins",
            ),
        ] {
            let mut service = asked.clone();
            let (parent, member) = place.rsplit_once('/').unwrap();
            service.pointer_mut(parent).unwrap()[member] = value;
            assert_eq!(told(service), tells, "{place}");
        }
    }
}

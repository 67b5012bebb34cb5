//! How long outcomes are kept, by class: shown, set and taken back by operators (P5).
//!
//! What a class is and which routes have it is the configuration's affair; what was set is kept by [`crate::node::Keeping`].

use hapax_api::{RetentionClass, RetentionClasses, operations as op};

use super::AdminState;
use super::access::Operator;
use super::decide::{actor, reason};
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
    found(&asked.id, state.keeping.set(&asked.id, &to).await?)
}

pub(super) async fn unset(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::UnsetRetention>,
) -> Result<RetentionClass, Refusal> {
    let by = actor(&operator.name, asked.query.by.as_deref())?;
    let to = SetTo { retention: None, by, reason: reason(asked.query.reason)? };
    found(&asked.id, state.keeping.set(&asked.id, &to).await?)
}

fn found(class: &str, now: Option<RetentionClass>) -> Result<RetentionClass, Refusal> {
    now.ok_or_else(|| {
        Refusal::not_found(format!(
            "there is no retention class {class:?}: GET /v1/retention lists those of [retention] in the configuration"
        ))
    })
}

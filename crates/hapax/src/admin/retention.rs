//! How long outcomes are kept, by class: shown, set and taken back by operators (P5).
//!
//! What a class is and which routes have it is the configuration's affair. Here is what operators say about them, and the
//! [`RetentionDesk`] that carries it out.

use hapax_core::{Retention, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::decide::{actor, reason};
use super::endpoints::{Asked, Ran, ok};
use super::refusal::Refusal;
use super::{AdminState, Reply, view};
use crate::config::{parse_retention, retention_text};

/// The classes of retention, as operators see them.
pub trait RetentionDesk: Send + Sync {
    /// All classes that are configured here or were set.
    fn list(&self) -> Reply<'_, Vec<ClassInfo>>;

    /// Sets a class, or takes back what was set, and writes down who wants it so. `None` when there is no such class.
    fn set(&self, class: String, to: SetTo) -> Reply<'_, Option<ClassInfo>>;
}

/// What a class is to be set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetTo {
    /// How long outcomes are kept; `None` for as long as configured.
    pub retention: Option<Retention>,
    /// Who says so.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// What a class was set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetInfo {
    /// How long outcomes are kept.
    pub retention: Retention,
    /// Who said so.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// A class as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassInfo {
    /// Its name.
    pub class: String,
    /// What the configuration says; `None` where it does not have the class.
    pub configured: Option<Retention>,
    /// Whether routes that name no class have this one.
    pub is_default: bool,
    /// What it was set to.
    pub set: Option<SetInfo>,
    /// The routes that have it.
    pub routes: Vec<String>,
}

/// A desk without classes.
pub(crate) struct NoClasses;

impl RetentionDesk for NoClasses {
    fn list(&self) -> Reply<'_, Vec<ClassInfo>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn set(&self, _: String, _: SetTo) -> Reply<'_, Option<ClassInfo>> {
        Box::pin(async { Ok(None) })
    }
}

fn shown(info: &ClassInfo) -> Value {
    let holds = info.set.as_ref().map(|set| set.retention).or(info.configured);
    json!({
        "class": info.class,
        "retention": holds.map(retention_text),
        "configured": info.configured.map(retention_text),
        "default": info.is_default,
        "set": info.set.as_ref().map(|set| json!({
            "retention": retention_text(set.retention),
            "by": set.by,
            "reason": set.reason,
            "at": view::time(Some(set.at)),
        })),
        "routes": info.routes,
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Setting {
    retention: String,
    reason: String,
    #[serde(default)]
    by: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unsetting {
    reason: String,
    #[serde(default)]
    by: Option<String>,
}

pub(super) fn get_list(state: AdminState, _: Asked) -> Ran {
    Box::pin(async move {
        let classes = state.retentions.list().await?;
        ok(&json!({"classes": classes.iter().map(shown).collect::<Vec<_>>()}))
    })
}

pub(super) fn set(state: AdminState, asked: Asked) -> Ran {
    Box::pin(async move {
        let setting: Setting = asked.json()?;
        let retention = parse_retention(&setting.retention).map_err(|remedy| {
            Refusal::malformed(format!("{:?} is no retention: {remedy}", setting.retention))
        })?;
        let by = actor(&asked.who.name, setting.by.as_deref())?;
        let to = SetTo { retention: Some(retention), by, reason: reason(setting.reason)? };
        found(&asked.id, state.retentions.set(asked.id.clone(), to).await?)
    })
}

pub(super) fn unset(state: AdminState, asked: Asked) -> Ran {
    Box::pin(async move {
        let unsetting: Unsetting = asked.query()?;
        let by = actor(&asked.who.name, unsetting.by.as_deref())?;
        let to = SetTo { retention: None, by, reason: reason(unsetting.reason)? };
        found(&asked.id, state.retentions.set(asked.id.clone(), to).await?)
    })
}

fn found(class: &str, info: Option<ClassInfo>) -> Result<http::Response<bytes::Bytes>, Refusal> {
    match info {
        Some(info) => ok(&shown(&info)),
        None => Err(Refusal::not_found(format!(
            "there is no retention class {class:?}: GET /v1/retention lists those of [retention] in the configuration"
        ))),
    }
}

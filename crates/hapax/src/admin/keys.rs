//! API keys: made, listed and revoked by operators (A2).
//!
//! How keys are kept and checked is the gateway's affair. Here is what operators say about them, and the [`KeyDesk`] that
//! carries it out.

use std::future::Future;
use std::pin::Pin;

use hapax_core::{Error, Page, Project, Subject, Tenant, Timestamp};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::claims::page_size;
use super::endpoints::{Asked, Ran, answer, ok};
use super::refusal::Refusal;
use super::{AdminState, view};
use crate::limits;
use crate::when::{now, parse_span, parse_utc};

/// What a desk answers, later.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// The registry of API keys, as operators see it.
pub trait KeyDesk: Send + Sync {
    /// Makes a key. It is told once and kept only as a digest.
    fn create(&self, new: NewKey) -> Reply<'_, KeyMade>;

    /// Lists keys in the order of their ids, after the given one.
    fn list(&self, after: Option<String>, limit: usize) -> Reply<'_, Page<KeyInfo>>;

    /// Revokes a key; `false` when there is none of this id.
    fn revoke(&self, id: String) -> Reply<'_, bool>;
}

/// A key that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewKey {
    /// Whose.
    pub tenant: Tenant,
    /// In which project; without it no project's routes can be reached.
    pub project: Option<Project>,
    /// As whom it acts.
    pub subject: Subject,
    /// How far it reaches.
    pub level: KeyLevel,
    /// What it is for, for people.
    pub label: Option<String>,
    /// When it ends; without it, when it is revoked.
    pub expires: Option<Timestamp>,
}

/// How far a key reaches (A6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyLevel {
    /// Routes of its project.
    #[default]
    Project,
    /// Routes of its tenant, too.
    Tenant,
    /// Routes of the platform, too.
    Platform,
}

impl KeyLevel {
    /// As it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            KeyLevel::Project => "project",
            KeyLevel::Tenant => "tenant",
            KeyLevel::Platform => "platform",
        }
    }

    /// Reads what [`KeyLevel::as_str`] gives.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let all = [KeyLevel::Project, KeyLevel::Tenant, KeyLevel::Platform];
        let known = all.into_iter().find(|level| level.as_str() == text);
        known.ok_or_else(|| Error::invalid("a key's level is project, tenant or platform"))
    }
}

/// A key that was made.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyMade {
    /// Its public id, to list and revoke it by.
    pub id: String,
    /// The key itself.
    pub key: String,
}

impl std::fmt::Debug for KeyMade {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyMade").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A key as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Its public id.
    pub id: String,
    /// What was asked for.
    pub key: NewKey,
    /// When it was made.
    pub created: Timestamp,
}

/// What `POST /v1/keys` and `hapax keys create` say.
#[derive(Clone, Debug, Default, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Asking {
    /// Whose.
    pub tenant: String,
    /// In which project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// As whom: `service:ci`.
    pub subject: String,
    /// How far it reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// A time in UTC, or a span from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

impl Asking {
    /// Checks it.
    pub fn checked(self) -> Result<NewKey, Error> {
        let level = self.level.as_deref().map(KeyLevel::parse).transpose()?.unwrap_or_default();
        if level == KeyLevel::Project && self.project.is_none() {
            return Err(Error::invalid(
                "name the project: a key of level project without one reaches nothing",
            ));
        }
        let label = self.label.as_ref();
        if label.is_some_and(|label| label.len() > limits::NAME_BYTES || label.chars().any(char::is_control))
        {
            return Err(Error::invalid("a key's label has at most 128 printable bytes"));
        }
        let expires = self.expires.as_deref().map(parse_expires).transpose()?;
        if expires.is_some_and(|expires| expires <= now()) {
            return Err(Error::invalid("the key would have expired already"));
        }
        Ok(NewKey {
            tenant: Tenant::new(self.tenant)?,
            project: self.project.map(Project::new).transpose()?,
            subject: Subject::from_credential_text(&self.subject)?,
            level,
            label: self.label,
            expires,
        })
    }
}

fn parse_expires(text: &str) -> Result<Timestamp, Error> {
    if text.ends_with('Z') { parse_utc(text) } else { parse_span(text).map(|span| now().after(span)) }
}

/// A key as JSON.
pub(crate) fn info(info: &KeyInfo) -> Value {
    json!({
        "id": info.id,
        "tenant": info.key.tenant.as_str(),
        "project": info.key.project.as_ref().map(Project::as_str),
        "subject": info.key.subject.as_str(),
        "level": info.key.level.as_str(),
        "label": info.key.label,
        "created_at": view::time(Some(info.created)),
        "expires_at": view::time(info.key.expires),
    })
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Pages {
    limit: Option<usize>,
    after: Option<String>,
}

pub(super) fn get_list(state: AdminState, asked: Asked) -> Ran {
    Box::pin(async move {
        let pages: Pages = asked.query()?;
        let page = state.keys.list(pages.after, page_size(pages.limit)?).await?;
        let keys: Vec<_> = page.items.iter().map(info).collect();
        ok(&json!({"keys": keys, "next": page.next}))
    })
}

pub(super) fn create(state: AdminState, asked: Asked) -> Ran {
    Box::pin(async move {
        let asking: Asking = asked.json()?;
        let made = state.keys.create(asking.checked()?).await?;
        answer(StatusCode::CREATED, &json!({"id": made.id, "key": made.key}))
    })
}

pub(super) fn revoke(state: AdminState, asked: Asked) -> Ran {
    Box::pin(async move {
        match state.keys.revoke(asked.id.clone()).await? {
            true => ok(&json!({"id": asked.id, "revoked": true})),
            false => Err(Refusal::not_found(format!("there is no key {}", asked.id))),
        }
    })
}

//! API keys: made, listed and revoked by operators (A2), over HTTP and for `hapax keys --store`.
//!
//! How keys are kept and checked is the gateway's affair.

use hapax_api::{Key, KeyMade, Keys, KeysQuery, Level, NewKey, Revoked, operations as op};
use hapax_core::{Error, Kind, Project, Subject, Tenant, Timestamp};
use hapax_gateway::auth::api_key::{self, ApiKey, NewApiKey};
use hapax_gateway::settings;

use super::access::Operator;
use super::claims::page_size;
use super::{AdminState, view};
use crate::Store;
use crate::limits;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;
use crate::when::{now, parse_span, parse_utc};

/// Checks a key that is asked for.
pub(crate) fn checked(asked: &NewKey) -> Result<NewApiKey, Error> {
    let level = asked.level.unwrap_or(Level::Project);
    if level == Level::Project && asked.project.is_none() {
        return Err(Error::invalid("name the project: a key of level project without one reaches nothing"));
    }
    let label = asked.label.clone().unwrap_or_default();
    if label.chars().count() > limits::NAME_LENGTH || label.chars().any(char::is_control) {
        return Err(Error::invalid("a key's label has at most 128 printable characters"));
    }
    let expires_at = asked.expires.as_deref().map(parse_expires).transpose()?;
    if expires_at.is_some_and(|expires| expires <= now()) {
        return Err(Error::invalid("the key would have expired already"));
    }
    Ok(NewApiKey {
        tenant: Tenant::new(&asked.tenant)?,
        project: asked.project.as_ref().map(Project::new).transpose()?,
        subject: Subject::from_credential_text(&asked.subject)?,
        level: match level {
            Level::Project => settings::Level::Project,
            Level::Tenant => settings::Level::Tenant,
            Level::Platform => settings::Level::Platform,
        },
        expires_at,
        label,
    })
}

fn parse_expires(text: &str) -> Result<Timestamp, Error> {
    if text.ends_with('Z') { parse_utc(text) } else { parse_span(text).map(|span| now().after(span)) }
}

/// Makes a key, as this actor wants it. It is told once and kept only as a digest.
pub(crate) async fn create(store: &Store, new: NewApiKey, actor: &str) -> Result<KeyMade, Error> {
    let created = api_key::create_by(store, new, now(), actor).await?;
    Ok(KeyMade { id: created.id, key: created.key })
}

/// One page of the keys that were not revoked.
pub(crate) async fn page(store: &Store, query: &KeysQuery) -> Result<Keys, Error> {
    let page = api_key::list(store, query.after.as_deref(), page_size(query.limit)?).await?;
    let in_use = page.items.into_iter().filter(|key| key.revoked_at.is_none());
    Ok(Keys { keys: in_use.map(shown).collect(), next: page.next })
}

/// Revokes a key and returns it; `None` when there is none of this id. Said again, it is revoked still.
pub(crate) async fn revoke(store: &Store, id: &str, actor: &str) -> Result<Option<ApiKey>, Error> {
    match api_key::revoke_by(store, id, now(), actor).await {
        Ok(key) => Ok(Some(key)),
        Err(error) if error.kind() == Kind::Invalid => Ok(None),
        Err(error) => Err(error),
    }
}

fn shown(key: ApiKey) -> Key {
    Key {
        id: key.id,
        tenant: key.tenant.as_str().to_owned(),
        project: key.project.map(|project| project.as_str().to_owned()),
        subject: key.subject.as_str().to_owned(),
        level: match key.level {
            settings::Level::Project => Level::Project,
            settings::Level::Tenant => Level::Tenant,
            settings::Level::Platform => Level::Platform,
        },
        label: Some(key.label).filter(|label| !label.is_empty()),
        created_at: view::time(key.created_at),
        expires_at: key.expires_at.and_then(view::moment),
    }
}

pub(super) async fn get_list(
    state: AdminState,
    _: Operator,
    asked: Asked<op::ListKeys>,
) -> Result<Keys, Refusal> {
    Ok(page(&state.store, &asked.query).await?)
}

pub(super) async fn post(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::CreateKey>,
) -> Result<KeyMade, Refusal> {
    Ok(create(&state.store, checked(&asked.body)?, &operator.name).await?)
}

pub(super) async fn delete(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::RevokeKey>,
) -> Result<Revoked, Refusal> {
    match revoke(&state.store, &asked.id, &operator.name).await? {
        Some(key) => {
            state.gateway.look_up_again(key);
            Ok(Revoked { id: asked.id, revoked: true })
        }
        None => Err(Refusal::not_found(format!("there is no key {}", asked.id))),
    }
}

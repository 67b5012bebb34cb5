//! Webhooks: made, listed, rotated and revoked by operators (W1, W7). Each change leaves an audit event.
//!
//! How webhooks are kept and deliveries checked is the gateway's affair.

use std::sync::Arc;

use hapax_api::{
    Algorithm, Dedupe, NewWebhook, On4xx, RotateWebhook, SecretsFrom, Webhook, WebhookMade, WebhookRotated,
    Webhooks, WebhooksQuery, operations as op,
};
use hapax_core::claim::audit::Setting;
use hapax_core::{Error, Inspect as _, Kind, Project, Tenant};
use hapax_gateway::settings;
use hapax_gateway::webhooks::provider::{Secret, Traits};
use hapax_gateway::webhooks::record::{self, Desk, Record, Secrets};

use super::access::Operator;
use super::claims::page_size;
use super::decide::{actor, reason};
use super::{AdminState, view};
use crate::Store;
use crate::limits;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;
use crate::when::now;

/// The settings of webhooks; without them there are none.
pub(super) fn configured(state: &AdminState) -> Result<Arc<settings::Webhooks>, Refusal> {
    state.keeping.settings().borrow().webhooks.clone().ok_or_else(|| {
        Refusal::not_found("this server takes no webhooks: its configuration has no [webhooks]")
    })
}

fn path(settings: &settings::Webhooks, record: &Record) -> String {
    format!("{}/{}/{}", settings.prefix, record.provider, record.id)
}

pub(super) fn shown(settings: &settings::Webhooks, record: Record) -> Webhook {
    Webhook {
        path: path(settings, &record),
        operation: record.operation(),
        secrets_from: match record.secrets {
            Secrets::Kept(_) => SecretsFrom::Registry,
            Secrets::Env(_) => SecretsFrom::Env,
            Secrets::File(_) => SecretsFrom::File,
            Secrets::Kv => SecretsFrom::Kv,
        },
        secrets: match &record.secrets {
            Secrets::Kept(secrets) => secrets.len(),
            _ => 0,
        },
        dedupe: match record.dedupe {
            record::Dedupe::Identifier => Dedupe::Identifier,
            record::Dedupe::Content => Dedupe::Content,
        },
        on_4xx: if record.keeps_4xx { On4xx::Keep } else { On4xx::Release },
        algorithm: if record.sha256 { Algorithm::Sha256 } else { Algorithm::Provider },
        label: Some(record.label).filter(|label| !label.is_empty()),
        created_at: view::time(record.created_at),
        revoked_at: record.revoked_at.map(view::time),
        webhook_id: record.id,
        tenant: record.tenant.as_str().to_owned(),
        project: record.project.as_str().to_owned(),
        provider: record.provider,
    }
}

/// Where the secret of a new webhook is, and the secret that was made for it, if one was.
fn secrets(asked: &NewWebhook, provider: &Traits) -> Result<(Secrets, Option<Secret>), Error> {
    let NewWebhook { secret, secret_env, secret_file, secret_kv, .. } = asked;
    match (secret, secret_env, secret_file, secret_kv) {
        (None, None, None, false) => {
            let made = provider.make_secret()?;
            Ok((Secrets::Kept(vec![made.clone()]), Some(made)))
        }
        (Some(text), None, None, false) => Ok((Secrets::Kept(vec![given(text, provider)?]), None)),
        (None, Some(name), None, false) => Ok((Secrets::Env(plain("secret_env", name)?), None)),
        (None, None, Some(path), false) => Ok((Secrets::File(plain("secret_file", path)?), None)),
        (None, None, None, true) => Ok((Secrets::Kv, None)),
        _ => Err(Error::invalid(
            "a webhook's secret is in one place: `secret`, `secret_env`, `secret_file` or `secret_kv`",
        )),
    }
}

fn given(text: &str, provider: &Traits) -> Result<Secret, Error> {
    if text.chars().count() > limits::SECRET_LENGTH {
        return Err(Error::invalid("`secret` has at most 4096 characters"));
    }
    let secret = Secret::new(text);
    provider.check_secret(&secret)?;
    Ok(secret)
}

fn plain(field: &str, text: &str) -> Result<String, Error> {
    match !text.is_empty()
        && text.chars().count() <= limits::PLACE_LENGTH
        && !text.chars().any(char::is_control)
    {
        true => Ok(text.to_owned()),
        false => Err(Error::invalid(format!("`{field}` has 1 to 1024 printable characters"))),
    }
}

/// The webhook that is asked for, with the secret that was made for it, if one was.
fn checked(asked: &NewWebhook, settings: &settings::Webhooks) -> Result<(Record, Option<Secret>), Error> {
    let provider = settings.provider(&asked.provider).ok_or_else(|| {
        Error::invalid(format!(
            "there is no provider {:?} here: see `enabled` and [webhooks.providers]",
            asked.provider
        ))
    })?;
    if provider.signs_url() && settings.public_url.is_none() {
        return Err(Error::invalid("this provider signs the public URL: say `public_url` in [webhooks]"));
    }
    let sha256 = asked.algorithm == Algorithm::Sha256;
    if sha256 && !asked.provider.starts_with("twilio") {
        return Err(Error::invalid("`algorithm` can be chosen for twilio and twilio-events only"));
    }
    if asked.secret_kv && settings.kv.is_none() {
        return Err(Error::invalid("`secret_kv` needs [webhooks.kv] in the configuration"));
    }
    let label = asked.label.clone().unwrap_or_default();
    if label.chars().count() > limits::NAME_LENGTH || label.chars().any(char::is_control) {
        return Err(Error::invalid("a webhook's label has at most 128 printable characters"));
    }
    let (secrets, made) = secrets(asked, &provider)?;
    let record = Record {
        id: Desk::<Store>::fresh_id()?,
        tenant: Tenant::new(&asked.tenant)?,
        project: Project::new(&asked.project)?,
        provider: asked.provider.clone(),
        secrets,
        dedupe: match asked.dedupe {
            Some(Dedupe::Identifier) => record::Dedupe::Identifier,
            Some(Dedupe::Content) => record::Dedupe::Content,
            None => record::Dedupe::usual(&asked.provider),
        },
        keeps_4xx: asked.on_4xx == On4xx::Keep,
        sha256,
        label,
        created_at: now(),
        revoked_at: None,
    };
    if record.project.is_sentinel() {
        return Err(Error::invalid("a level is no project: name the project of the webhook"));
    }
    Ok((record, made))
}

/// What the audit tells: never a secret.
fn setting(
    verb: &str,
    record: &Record,
    actor: String,
    reason: Option<&str>,
    before: Option<&str>,
) -> Setting {
    let after = match (&record.revoked_at, &record.secrets) {
        (Some(_), _) => "revoked".to_owned(),
        (None, Secrets::Kept(secrets)) => format!("{} in use, {} secrets", record.provider, secrets.len()),
        (None, other) => format!("{} in use, secret from {}", record.provider, other.place()),
    };
    let reason = reason.unwrap_or(verb);
    Setting {
        verb: verb.into(),
        actor,
        reason: reason.to_owned(),
        name: format!("webhook/{}", record.id),
        before: before.map(str::to_owned),
        after: Some(after),
    }
}

fn told(secret: Option<Secret>) -> Option<String> {
    secret.map(|secret| String::from_utf8_lossy(secret.reveal()).into_owned())
}

pub(super) async fn post(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::CreateWebhook>,
) -> Result<WebhookMade, Refusal> {
    let settings = configured(&state)?;
    let (record, made) = checked(&asked.body, &settings)?;
    let by = actor(&operator.name, asked.body.by.as_deref())?;
    let reason = asked.body.reason.map(reason).transpose()?;
    let (name, body) = state.webhooks.written(&record)?;
    let setting = setting("webhook-create", &record, by, reason.as_deref(), None);
    state.store.decide_setting(&name, 0, Some(body), setting).await?;
    let path = path(&settings, &record);
    let url = settings.public_url.as_ref().map(|origin| format!("{origin}{path}"));
    Ok(WebhookMade { webhook_id: record.id, path, url, secret: told(made) })
}

pub(super) async fn get_list(
    state: AdminState,
    _: Operator,
    asked: Asked<op::ListWebhooks>,
) -> Result<Webhooks, Refusal> {
    let settings = configured(&state)?;
    let WebhooksQuery { limit, after } = &asked.query;
    let page = state.webhooks.list(after.as_deref(), page_size(*limit)?).await?;
    let webhooks = page.items.into_iter().map(|record| shown(&settings, record)).collect();
    Ok(Webhooks { webhooks, next: page.next })
}

/// Changes one webhook, with its audit event.
async fn change(
    state: &AdminState,
    id: &str,
    verb: &str,
    (by, reason): (String, Option<String>),
    mut to: impl FnMut(Record) -> Result<Record, Error>,
) -> Result<Record, Refusal> {
    for _ in 0..limits::RETENTION_ATTEMPTS {
        let Some((record, version)) = state.webhooks.get(id).await? else {
            return Err(Refusal::not_found(format!("there is no webhook {id}")));
        };
        let before = if record.revoked_at.is_some() { "revoked" } else { "in use" };
        let changed = to(record)?;
        let (name, body) = state.webhooks.written(&changed)?;
        let setting = setting(verb, &changed, by.clone(), reason.as_deref(), Some(before));
        match state.store.decide_setting(&name, version, Some(body), setting).await {
            Ok(()) => {
                state.gateway.look_up_webhook_again(id);
                return Ok(changed);
            }
            Err(error) if error.kind() == Kind::Conflict => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::unavailable("other operators keep changing this webhook").into())
}

pub(super) async fn rotate(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::RotateWebhook>,
) -> Result<WebhookRotated, Refusal> {
    let settings = configured(&state)?;
    let RotateWebhook { secret, drop_former, by, reason } = asked.body;
    let (by, reason) = (actor(&operator.name, by.as_deref())?, reason.map(self::reason).transpose()?);
    let (mut made, mut dropped) = (None, 0);
    let changed = change(&state, &asked.id, "webhook-rotate", (by, reason), |mut record| {
        let provider = settings
            .provider(&record.provider)
            .ok_or_else(|| Error::invalid("the provider of this webhook is not taken here any more"))?;
        let Secrets::Kept(secrets) = &mut record.secrets else {
            return Err(Error::invalid(
                "the secret of this webhook is not in the registry: change it where it is",
            ));
        };
        if record.revoked_at.is_some() {
            return Err(Error::invalid("the webhook is revoked"));
        }
        let fresh = match &secret {
            Some(text) => Some(given(text, &provider)?),
            // The newest one is what the sender has been given: it stays.
            None if drop_former => None,
            None => Some(made.get_or_insert(provider.make_secret()?).clone()),
        };
        dropped = rotated(secrets, fresh, drop_former);
        Ok(record)
    })
    .await?;
    let secrets = match &changed.secrets {
        Secrets::Kept(secrets) => secrets.len(),
        _ => 0,
    };
    Ok(WebhookRotated { webhook_id: changed.id, secrets, dropped, secret: told(made) })
}

/// Puts a fresh secret, if there is one, before those that counted so far, and says how many of these count no more. A secret that is
/// there already takes no second place: said again, a rotation drops nothing.
fn rotated(secrets: &mut Vec<Secret>, fresh: Option<Secret>, drop_former: bool) -> usize {
    let former = secrets.clone();
    if let Some(fresh) = fresh {
        secrets.retain(|secret| *secret != fresh);
        secrets.insert(0, fresh);
    }
    secrets.truncate(if drop_former { 1 } else { limits::WEBHOOK_SECRETS });
    former.iter().filter(|secret| !secrets.contains(secret)).count()
}

pub(super) async fn delete(
    state: AdminState,
    operator: Operator,
    asked: Asked<op::RevokeWebhook>,
) -> Result<Webhook, Refusal> {
    let settings = configured(&state)?;
    let by = actor(&operator.name, asked.query.by.as_deref())?;
    let (id, reason) = (asked.id, asked.query.reason.map(reason).transpose()?);
    // Said again, it is revoked still.
    if let Some((record, _)) = state.webhooks.get(&id).await?
        && record.revoked_at.is_some()
    {
        return Ok(shown(&settings, record));
    }
    let changed = change(&state, &id, "webhook-revoke", (by, reason), |mut record| {
        record.revoked_at.get_or_insert_with(now);
        Ok(record)
    });
    Ok(shown(&settings, changed.await?))
}

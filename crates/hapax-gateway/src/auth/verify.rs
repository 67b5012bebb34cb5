//! Keys that an outside service knows (A7), asked as Unkey is asked: `POST` with the key, and back come whether it is valid,
//! the tenant as its external id, and project and subject in its metadata.
//!
//! Without an answer nobody comes in. How many are asked at a time, and what is remembered of those that are valid, is
//! decided by [`super::Authenticator`].

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use hapax_core::{Error, Project, Subject, SubjectKind, Tenant};
use serde_json::{Value, json};

use super::outside::Outside;
use super::remembered::{Digest, Remembered};
use super::{AuthError, Principal, Verified};
use crate::clock;
use crate::limits;
use crate::settings::{Fixed, Level, VerifyService};

/// Whose a webhook is that the service knows (W1).
pub(crate) struct WebhookOwner {
    pub(crate) tenant: Tenant,
    pub(crate) project: Project,
    pub(crate) provider: String,
}

/// Asks an outside service about keys.
pub(crate) struct Verifier {
    service: Outside,
    remember: Duration,
    timeout: Duration,
    refused: Remembered<()>,
}

impl Verifier {
    pub(crate) fn new(settings: &VerifyService) -> Result<Self, Error> {
        if settings.remember > limits::VERIFY_REMEMBERED {
            return Err(Error::invalid("answers about keys can be remembered for at most an hour"));
        }
        let mut service = Outside::new(&settings.url, settings.timeout, limits::VERIFY_BODY)?;
        if !settings.token.is_empty() {
            service = service.with_bearer(&settings.token)?;
        }
        Ok(Verifier {
            service,
            remember: settings.remember,
            timeout: settings.timeout,
            refused: Remembered::new(limits::REFUSED),
        })
    }

    /// The longest wait for an answer.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// An error if the service refused this key a moment ago.
    pub(super) fn is_not_refused(&self, digest: &Digest) -> Result<(), AuthError> {
        match self.refused.get(digest) {
            Some(()) => Err(AuthError::invalid("the verifying service refused this key a moment ago")),
            None => Ok(()),
        }
    }

    pub(super) async fn verify(
        &self,
        key: &str,
        digest: Digest,
        fixed: &Fixed,
    ) -> Result<Verified, AuthError> {
        // Whoever waited for its turn may find that the one before was refused.
        self.is_not_refused(&digest)?;
        match self.ask(key).await? {
            Some(said) => {
                Ok(Verified { principal: principal(&said, fixed)?, good_for: self.good_for(&said) })
            }
            None => {
                let for_now = limits::REFUSAL_REMEMBERED.min(self.remember);
                self.refused.insert(digest, (), for_now, self.refused.before());
                Err(AuthError::invalid("the verifying service refused this key"))
            }
        }
    }

    /// Whose webhook has this id, and how long that may be believed; `None` where the service knows none (W1).
    pub(crate) async fn webhook(&self, id: &str) -> Result<Option<(WebhookOwner, Duration)>, AuthError> {
        let Some(said) = self.ask(id).await? else { return Ok(None) };
        let text = |pointer: &str| said.pointer(pointer).and_then(Value::as_str);
        // A key of a caller names no provider: it is no webhook.
        let Some(provider) = text("/meta/provider") else { return Ok(None) };
        let tenant = text("/meta/tenant_id").map(Tenant::new).transpose();
        let project = text("/meta/project_id").map(Project::new).transpose();
        let (Ok(Some(tenant)), Ok(Some(project))) = (tenant, project) else { return Ok(None) };
        if project.is_sentinel() {
            return Ok(None);
        }
        Ok(Some((WebhookOwner { tenant, project, provider: provider.to_owned() }, self.good_for(&said))))
    }

    /// What the service says of a key that is valid; `None` for one that is not.
    async fn ask(&self, key: &str) -> Result<Option<Value>, AuthError> {
        let question = Bytes::from(json!({ "key": key }).to_string());
        let answer = self.service.post(question).await.map_err(unanswered)?;
        let mut answer: Value =
            serde_json::from_slice(&answer).map_err(|_| unanswered("the answer is no JSON"))?;
        // Later versions of the interface wrap what is said.
        let said = match answer.get_mut("data").filter(|data| data.is_object()) {
            Some(data) => data.take(),
            None => answer,
        };
        match said.get("valid").and_then(Value::as_bool) {
            Some(true) => Ok(Some(said)),
            Some(false) => Ok(None),
            None => Err(unanswered("the answer does not say whether the key is valid")),
        }
    }

    /// As long as the settings say, and not beyond the key's own expiry, in milliseconds of the Unix time.
    fn good_for(&self, said: &Value) -> Duration {
        let Some(expires) = said.get("expires").and_then(Value::as_u64).filter(|expires| *expires > 0) else {
            return self.remember;
        };
        let now = clock::time_of_day().duration_since(UNIX_EPOCH).unwrap_or(Duration::MAX);
        Duration::from_millis(expires).saturating_sub(now).min(self.remember)
    }
}

/// Whom a valid key names. One that names nobody, or nobody who can be, is a key that does not open anything here.
fn principal(said: &Value, fixed: &Fixed) -> Result<Principal, AuthError> {
    let unfit = |error: Error| AuthError::unfit(&error);
    let text = |pointer: &str| said.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let tenant = text("/externalId").or_else(|| text("/identity/externalId")).or_else(|| text("/ownerId"));
    let tenant = tenant.map(Tenant::new).transpose().map_err(unfit)?;
    let project = text("/meta/project_id")
        .or_else(|| text("/meta/project"))
        .map(Project::new)
        .transpose()
        .map_err(unfit)?;
    let subject = match (text("/meta/subject"), text("/keyId")) {
        (Some(subject), _) => Subject::from_credential_text(subject),
        // A key that says nothing about its user is a client of its own.
        (None, Some(id)) => Subject::from_credential(SubjectKind::Client, id),
        (None, None) => return Err(AuthError::invalid("the verifying service names no subject")),
    };
    let whose = fixed.complete(tenant, project);
    let (tenant, project) =
        whose.ok_or_else(|| AuthError::invalid("the verifying service names no tenant"))?;
    Ok(Principal::new(tenant, project, subject.map_err(unfit)?, Level::Project))
}

fn unanswered(why: impl std::fmt::Display) -> AuthError {
    AuthError::unreachable(format!("the verifying service gave no answer: {why}"))
}

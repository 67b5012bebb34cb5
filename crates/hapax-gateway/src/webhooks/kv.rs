//! Secrets in a KV version 2 store of OpenBao or Vault, at `{tenant}:{project}:{provider}` (W7).
//!
//! `GET /v1/{mount}/data/{path}` with a token; the fields `secret` and `previous` of the newest version count. The token file is
//! read for each question, so that a rotated token is used at once.

use std::time::Duration;

use hapax_core::Error;
use http::HeaderName;
use serde::Deserialize;

use super::provider::Secret;
use super::record::Record;
use crate::auth::outside::Outside;
use crate::auth::remembered::{Digest, Remembered};
use crate::limits;
use crate::settings::KvStore;

/// What a KV store is asked with.
const TOKEN: HeaderName = HeaderName::from_static("x-vault-token");

/// A KV store.
pub(super) struct Kv {
    url: String,
    mount: String,
    token_file: std::path::PathBuf,
    timeout: Duration,
    remembered: Remembered<Vec<Secret>>,
}

#[derive(Deserialize)]
struct Answer {
    data: Version,
}

#[derive(Deserialize)]
struct Version {
    data: Option<Fields>,
}

#[derive(Deserialize)]
struct Fields {
    secret: String,
    previous: Option<String>,
}

impl Kv {
    pub(super) fn new(settings: &KvStore) -> Result<Self, Error> {
        // Only to find a mistake at once.
        Outside::new(&settings.url, settings.timeout, limits::KV_BODY)?;
        Ok(Kv {
            url: settings.url.trim_end_matches('/').to_owned(),
            mount: settings.mount.clone(),
            token_file: settings.token_file.clone(),
            timeout: settings.timeout,
            remembered: Remembered::new(limits::WEBHOOKS_REMEMBERED),
        })
    }

    /// The secrets of a webhook. The error says why there are none, for the log.
    pub(super) async fn secrets(&self, record: &Record) -> Result<Vec<Secret>, String> {
        let path = format!("{}:{}:{}", record.tenant.as_str(), record.project.as_str(), record.provider);
        let digest = Digest::of(&path);
        if let Some(secrets) = self.remembered.get(&digest) {
            return Ok(secrets);
        }
        let before = self.remembered.before();
        let secrets = self.ask(&path).await.map_err(|why| format!("the KV store: {path}: {why}"))?;
        self.remembered.insert(digest, secrets.clone(), limits::KV_REMEMBERED, before);
        Ok(secrets)
    }

    async fn ask(&self, path: &str) -> Result<Vec<Secret>, String> {
        let token = tokio::fs::read_to_string(&self.token_file).await;
        let token = token.map_err(|error| format!("the token file: {error}"))?;
        let url = format!("{}/v1/{}/data/{}", self.url, self.mount, path.replace(':', "%3A"));
        let store = Outside::new(&url, self.timeout, limits::KV_BODY).map_err(|error| error.to_string())?;
        let store = store.with_credential(TOKEN, token.trim()).map_err(|error| error.to_string())?;
        let answer = store.get().await?;
        let answer: Answer =
            serde_json::from_slice(&answer).map_err(|_| "the answer has no field `secret`".to_owned())?;
        let fields = answer.data.data.ok_or("the newest version was deleted")?;
        let secrets = [Some(fields.secret), fields.previous];
        Ok(secrets.into_iter().flatten().filter(|secret| !secret.is_empty()).map(Secret::new).collect())
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::{Project, Tenant};
    use serde_json::json;

    use super::*;

    /// Moves the clock of remembered things, not that of the world.
    async fn later(by: Duration) {
        tokio::time::pause();
        tokio::time::advance(by).await;
        tokio::time::resume();
    }

    #[tokio::test]
    async fn secrets_are_believed_for_a_minute_and_a_failure_is_not_remembered_w7() {
        let store = hapax_testkit::kv::Kv::start("token").await.unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "token\n").unwrap();
        let settings = KvStore {
            url: store.url(),
            mount: "secret".into(),
            token_file: file.path().to_owned(),
            timeout: Duration::from_secs(30),
        };
        let kv = Kv::new(&settings).unwrap();
        let (tenant, project) = (Tenant::new("acme").unwrap(), Project::new("web").unwrap());
        let record = Record::from_outside("wh_1", tenant, project, "github".into());
        assert!(kv.secrets(&record).await.unwrap_err().contains("status 404"));
        store.write("acme:web:github", json!({ "secret": "a", "previous": "b" }));
        let (a, b, c) = (Secret::new("a"), Secret::new("b"), Secret::new("c"));
        assert_eq!(kv.secrets(&record).await.unwrap(), [a.clone(), b.clone()]);
        store.write("acme:web:github", json!({ "secret": "c", "previous": "" }));
        later(Duration::from_secs(59)).await;
        assert_eq!(kv.secrets(&record).await.unwrap(), [a, b], "believed unasked");
        assert_eq!(store.asked(), 2);
        later(Duration::from_secs(1)).await;
        assert_eq!(kv.secrets(&record).await.unwrap(), [c]);
        assert_eq!(store.asked(), 3);
    }
}

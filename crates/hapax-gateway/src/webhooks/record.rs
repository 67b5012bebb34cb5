//! A webhook as the registry keeps it: made, listed, rotated and revoked by operators (W1, W7).
//!
//! Secrets are sealed where the installation has a seal. A webhook whose secret lies elsewhere (a file, an environment variable, a
//! KV store) keeps only where that is.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hapax_core::registry::{Document, DocumentId};
use hapax_core::{Error, Page, Project, Registry, Tenant, Timestamp};
use hapax_exec::Seal;
use serde::{Deserialize, Serialize};

use super::provider::Secret;
use crate::limits;

const KIND: &str = "webhook";
const PREFIX: &str = "wh_";
/// 128 bits: nobody finds one by trying.
const ID_BYTES: usize = 16;

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its id, which stands in its path: `wh_` and 32 hexadecimal digits.
    pub id: String,
    /// Whose deliveries come here.
    pub tenant: Tenant,
    /// In which project.
    pub project: Project,
    /// Who sends them.
    pub provider: String,
    /// What they are signed with.
    pub secrets: Secrets,
    /// What makes two deliveries the same (W5). Fixed when the webhook is made.
    pub dedupe: Dedupe,
    /// Whether answers of status 4xx are kept (W8).
    pub keeps_4xx: bool,
    /// Whether Twilio signs with SHA-256 here (W2).
    pub sha256: bool,
    /// What people call it.
    pub label: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl Record {
    /// A webhook that the verifying service knows (A7): everything as is usual, and the secret in the KV store.
    pub(crate) fn from_outside(id: &str, tenant: Tenant, project: Project, provider: String) -> Self {
        Record {
            id: id.to_owned(),
            tenant,
            project,
            secrets: Secrets::Kv,
            dedupe: Dedupe::usual(&provider),
            provider,
            keeps_4xx: false,
            sha256: false,
            label: String::new(),
            created_at: Timestamp::ZERO,
            revoked_at: None,
        }
    }

    /// The operation that its deliveries are claimed under (W4).
    pub fn operation(&self) -> String {
        operation(&self.provider, &self.id)
    }
}

/// What makes two deliveries the same (W5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dedupe {
    /// The sender's identifier.
    Identifier,
    /// What is signed.
    Content,
}

impl Dedupe {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Dedupe::Identifier => "identifier",
            Dedupe::Content => "content",
        }
    }

    /// What is usual for a provider: of Event Streams equal bodies are never genuine, of all others they may be.
    pub fn usual(provider: &str) -> Self {
        match provider {
            "twilio-events" => Dedupe::Content,
            _ => Dedupe::Identifier,
        }
    }
}

/// Where the secrets of a webhook are (W7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// In the registry, the newest first.
    Kept(Vec<Secret>),
    /// In this environment variable of the server.
    Env(String),
    /// In this file of the server, one secret a line.
    File(String),
    /// In the KV store of the installation, at `{tenant}:{project}:{provider}`.
    Kv,
}

impl Secrets {
    /// Where, in a word.
    pub fn place(&self) -> &'static str {
        match self {
            Secrets::Kept(_) => "registry",
            Secrets::Env(_) => "env",
            Secrets::File(_) => "file",
            Secrets::Kv => "kv",
        }
    }
}

/// What is kept. A field that this version does not know could be a restriction, so that such a document is not used.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    version: u8,
    tenant: String,
    project: String,
    provider: String,
    secrets: KeptSecrets,
    dedupe: Dedupe,
    keeps_4xx: bool,
    sha256: bool,
    label: String,
    created_at: i64,
    revoked_at: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum KeptSecrets {
    /// Base64 of the secret, or of its sealed form.
    Kept(Vec<String>),
    Env(String),
    File(String),
    Kv,
}

/// A webhook that is not revoked, as far as it can be told without a seal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InUse {
    /// Who sends.
    pub provider: String,
    /// The operation that its deliveries are claimed under.
    pub operation: String,
}

/// All webhooks of a registry that are not revoked. No secret is opened.
pub async fn in_use<R: Registry>(registry: &R) -> Result<Vec<InUse>, Error> {
    #[derive(Deserialize)]
    struct Part {
        provider: String,
        revoked_at: Option<i64>,
    }
    let (mut in_use, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = registry.list_documents(KIND, after.as_deref(), limits::WEBHOOKS_PAGE).await?;
        let Some(last) = page.last() else { return Ok(in_use) };
        after = Some(last.id.id().to_owned());
        for document in &page {
            let id = document.id.id();
            // Its deliveries are refused, and operators see that; the others go on.
            let Ok(part) = serde_json::from_slice::<Part>(&document.body) else {
                tracing::warn!(webhook = id, "a webhook in the registry cannot be read");
                continue;
            };
            if part.revoked_at.is_none() {
                let operation = operation(&part.provider, id);
                in_use.push(InUse { provider: part.provider, operation });
            }
        }
    }
}

/// The operation of a webhook's deliveries (W4).
fn operation(provider: &str, id: &str) -> String {
    format!("webhook.{provider}.{id}")
}

/// The webhooks of a registry, for those who change them.
#[derive(Clone, Debug)]
pub struct Desk<R> {
    registry: R,
    codec: Codec,
}

impl<R: Registry> Desk<R> {
    /// The webhooks of this registry, whose secrets are sealed with this.
    pub fn new(registry: R, seal: Option<Arc<Seal>>) -> Self {
        Desk { registry, codec: Codec { seal } }
    }

    /// A fresh id. A webhook is made under it by [`Desk::written`] and a put that expects nothing there.
    pub fn fresh_id() -> Result<String, Error> {
        let mut bytes = [0_u8; ID_BYTES];
        getrandom::fill(&mut bytes).map_err(|_| Error::internal("the system gives no random bytes"))?;
        Ok(format!("{PREFIX}{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
    }

    /// The webhook of this id, with the version of its document; `None` where there is none.
    pub async fn get(&self, id: &str) -> Result<Option<(Record, u64)>, Error> {
        let Some(name) = document_id(id) else { return Ok(None) };
        let Some(document) = self.registry.get(&name).await? else { return Ok(None) };
        Ok(Some((self.codec.decode(&document)?, document.version)))
    }

    /// Lists webhooks in the order of their ids, after the given one. The secrets are not opened.
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<Page<Record>, Error> {
        let limit = limit.clamp(1, limits::WEBHOOKS_PAGE);
        let documents = self.registry.list_documents(KIND, after, limit).await?;
        let next = (documents.len() == limit)
            .then(|| documents.last().map(|last| last.id.id().to_owned()))
            .flatten();
        let items = documents.iter().map(|document| self.codec.decode(document)).collect::<Result<_, _>>()?;
        Ok(Page::new(items, next))
    }

    /// A webhook as it is written, and the name of its document.
    pub fn written(&self, record: &Record) -> Result<(DocumentId, Bytes), Error> {
        let name = document_id(&record.id)
            .ok_or_else(|| Error::invalid("the id of a webhook is `wh_` and 32 hexadecimal digits"))?;
        Ok((name, self.codec.encode(record)?))
    }
}

/// The name of a webhook's document; `None` for what is no id.
pub(crate) fn document_id(id: &str) -> Option<DocumentId> {
    let digits = id.strip_prefix(PREFIX)?;
    let is_hex = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (digits.len() == 2 * ID_BYTES && is_hex).then(|| DocumentId::new(KIND, id).ok()).flatten()
}

/// An id that no webhook has: what is no id is looked up as this, so that it costs what others cost.
pub(crate) fn nobodys_id() -> String {
    format!("{PREFIX}{}", "0".repeat(2 * ID_BYTES))
}

/// Reads and writes documents.
#[derive(Clone)]
pub(crate) struct Codec {
    pub(crate) seal: Option<Arc<Seal>>,
}

impl std::fmt::Debug for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Codec").field("sealed", &self.seal.is_some()).finish()
    }
}

/// Where a secret belongs: sealed bytes that were moved to another webhook do not open.
fn context(id: &str) -> Vec<u8> {
    format!("webhook/{id}").into_bytes()
}

impl Codec {
    fn encode(&self, record: &Record) -> Result<Bytes, Error> {
        let secrets = match &record.secrets {
            Secrets::Kept(secrets) => {
                let kept = secrets.iter().map(|secret| match &self.seal {
                    Some(seal) => STANDARD.encode(seal.seal_bytes(&context(&record.id), secret.reveal())),
                    None => STANDARD.encode(secret.reveal()),
                });
                KeptSecrets::Kept(kept.collect())
            }
            Secrets::Env(name) => KeptSecrets::Env(name.clone()),
            Secrets::File(path) => KeptSecrets::File(path.clone()),
            Secrets::Kv => KeptSecrets::Kv,
        };
        let kept = Kept {
            version: 1,
            tenant: record.tenant.as_str().into(),
            project: record.project.as_str().into(),
            provider: record.provider.clone(),
            secrets,
            dedupe: record.dedupe,
            keeps_4xx: record.keeps_4xx,
            sha256: record.sha256,
            label: record.label.clone(),
            created_at: record.created_at.as_micros(),
            revoked_at: record.revoked_at.map(Timestamp::as_micros),
        };
        let bytes = serde_json::to_vec(&kept);
        bytes
            .map(Bytes::from)
            .map_err(|error| Error::internal("a webhook cannot be written").with_detail(error))
    }

    pub(crate) fn decode(&self, document: &Document) -> Result<Record, Error> {
        let id = document.id.id();
        let corrupt = || Error::corrupt("a webhook in the registry cannot be read").with_detail(id);
        let kept: Kept = serde_json::from_slice(&document.body).map_err(|_| corrupt())?;
        if kept.version != 1 {
            return Err(corrupt());
        }
        let secrets = match kept.secrets {
            KeptSecrets::Kept(secrets) => {
                Secrets::Kept(secrets.iter().map(|secret| self.open(id, secret)).collect::<Result<_, _>>()?)
            }
            KeptSecrets::Env(name) => Secrets::Env(name),
            KeptSecrets::File(path) => Secrets::File(path),
            KeptSecrets::Kv => Secrets::Kv,
        };
        Ok(Record {
            id: id.into(),
            tenant: Tenant::new(&kept.tenant).map_err(|_| corrupt())?,
            project: Project::new(&kept.project).map_err(|_| corrupt())?,
            provider: kept.provider,
            secrets,
            dedupe: kept.dedupe,
            keeps_4xx: kept.keeps_4xx,
            sha256: kept.sha256,
            label: kept.label,
            created_at: Timestamp::from_micros(kept.created_at),
            revoked_at: kept.revoked_at.map(Timestamp::from_micros),
        })
    }

    fn open(&self, id: &str, secret: &str) -> Result<Secret, Error> {
        let corrupt = || Error::corrupt("the secret of a webhook cannot be read").with_detail(id);
        let bytes = STANDARD.decode(secret).map_err(|_| corrupt())?;
        match &self.seal {
            Some(seal) if Seal::is_sealed(&bytes) => {
                Ok(Secret::new(seal.open_bytes(&context(id), &bytes)?.to_vec()))
            }
            None if Seal::is_sealed(&bytes) => {
                Err(Error::corrupt("the secret of a webhook is sealed, and no key is set: see [seal]")
                    .with_detail(id))
            }
            _ => Ok(Secret::new(bytes)),
        }
    }
}

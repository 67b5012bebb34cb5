//! Where the secret of a webhook is read from: the registry, a file or an environment variable of the server, or a KV store (W7).

use hapax_core::Error;
use hapax_tower::{Code, Problem};

use super::kv::Kv;
use super::provider::Secret;
use super::record::{Record, Secrets};
use crate::limits;
use crate::settings;

/// Everything outside the registry that has secrets.
pub(super) struct SecretSources {
    kv: Option<Kv>,
}

impl SecretSources {
    pub(super) fn new(kv: Option<&settings::KvStore>) -> Result<Self, Error> {
        Ok(SecretSources { kv: kv.map(Kv::new).transpose()? })
    }

    /// The secrets of a webhook, at least one.
    pub(super) async fn secrets(&self, record: &Record) -> Result<Vec<Secret>, Problem> {
        let missing = |why: String| {
            Problem::new(Code::LedgerUnavailable)
                .detail("what this webhook's deliveries are signed with cannot be had here; nothing was done")
                .owing_to(why)
        };
        let secrets = match &record.secrets {
            Secrets::Kept(secrets) => secrets.clone(),
            Secrets::Env(name) => match std::env::var(name) {
                Ok(text) => vec![Secret::new(text)],
                Err(_) => return Err(missing(format!("the variable {name} of {} is not set", record.id))),
            },
            Secrets::File(path) => match read(path).await {
                Ok(text) => text.lines().filter(|line| !line.is_empty()).map(Secret::new).collect(),
                Err(error) => return Err(missing(format!("the secret of {}: {path}: {error}", record.id))),
            },
            Secrets::Kv => match &self.kv {
                Some(kv) => kv.secrets(record).await.map_err(unanswered)?,
                None => return Err(missing(format!("{} needs [webhooks.kv]", record.id))),
            },
        };
        match secrets.iter().all(|secret| secret.reveal().is_empty()) {
            true => Err(missing(format!("{} has no secret", record.id))),
            false => Ok(secrets),
        }
    }
}

/// Refused as where credentials cannot be checked (A7). The ledger was not asked what became of an earlier try of this delivery (E6).
fn unanswered(why: String) -> Problem {
    Problem::new(Code::UpstreamUnreachable).with("executed", "unknown").owing_to(why)
}

async fn read(path: &str) -> std::io::Result<String> {
    let text = tokio::fs::read_to_string(path).await?;
    match text.len() <= limits::SECRET_FILE {
        true => Ok(text),
        false => Err(std::io::Error::other("the file is too long for a secret")),
    }
}

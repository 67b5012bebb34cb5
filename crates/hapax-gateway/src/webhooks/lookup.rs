//! The webhook of a path, with everything that its deliveries need. It is believed for a few seconds, like an API key.
//!
//! An id that is unknown or revoked, and one of another provider, look the same: same answer, same number of reads (W1).

use std::sync::Arc;

use hapax_core::{Error, Operation, Recipe, Registry, Scope, Subject};
use hapax_exec::Seal;
use hapax_tower::{Code, KeptAnswers, Problem, Rule};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::provider::{self, Provider, Secret};
use super::record::{self, Codec, Dedupe, Record};
use super::secrets::SecretSources;
use crate::auth::remembered::{Digest, Remembered};
use crate::limits;
use crate::settings;

/// A webhook, ready for deliveries.
pub(crate) struct Webhook {
    pub(crate) id: String,
    /// The name of its provider.
    pub(crate) name: Arc<str>,
    pub(crate) provider: Box<dyn Provider>,
    pub(crate) secrets: Vec<Secret>,
    pub(crate) dedupe: Dedupe,
    pub(crate) scope: Scope,
    pub(crate) rule: Arc<Rule>,
}

/// The webhooks of an installation.
pub(crate) struct Webhooks<R> {
    settings: Arc<settings::Webhooks>,
    registry: R,
    codec: Codec,
    sources: SecretSources,
    /// By id; `None` for those that nobody has.
    remembered: Remembered<Option<Arc<Webhook>>>,
    /// A request that looks a webhook up holds the turn of its digest, so that many deliveries look once.
    turns: Box<[Mutex<()>]>,
}

impl<R: Registry> Webhooks<R> {
    pub(crate) fn new(
        settings: Arc<settings::Webhooks>,
        registry: R,
        seal: Option<Arc<Seal>>,
    ) -> Result<Self, Error> {
        Ok(Webhooks {
            sources: SecretSources::new(settings.kv.as_ref())?,
            settings,
            registry,
            codec: Codec { seal },
            remembered: Remembered::new(limits::WEBHOOKS_REMEMBERED),
            turns: (0..limits::LOOK_UPS).map(|_| Mutex::default()).collect(),
        })
    }

    pub(crate) fn settings(&self) -> &Arc<settings::Webhooks> {
        &self.settings
    }

    /// The webhook of this provider and id.
    pub(crate) async fn find(&self, provider: &str, id: &str) -> Result<Arc<Webhook>, Problem> {
        let digest = Digest::of(id);
        let found = match self.remembered.get(&digest) {
            Some(found) => found,
            None => Box::pin(self.look_up(id, digest)).await?,
        };
        found
            .filter(|webhook| *webhook.name == *provider && self.settings.takes(provider))
            .ok_or_else(|| Problem::new(Code::NotFound))
    }

    async fn look_up(&self, id: &str, digest: Digest) -> Result<Option<Arc<Webhook>>, Problem> {
        let late = || unavailable(&Error::unavailable("the registry did not answer in time"));
        let looked = timeout(limits::REGISTRY_WAIT, async {
            let _turn = self.turns[digest.index(self.turns.len())].lock().await;
            if let Some(found) = self.remembered.get(&digest) {
                return Ok(found);
            }
            let before = self.remembered.before();
            let found = self.read(id).await?;
            self.remembered.insert(digest, found.clone(), limits::WEBHOOK_REMEMBERED, before);
            Ok(found)
        });
        looked.await.unwrap_or_else(|_| Err(late()))
    }

    async fn read(&self, id: &str) -> Result<Option<Arc<Webhook>>, Problem> {
        let name = record::document_id(id).or_else(|| record::document_id(&record::nobodys_id()));
        let Some(name) = name else { return Ok(None) };
        let document = self.registry.get(&name).await.map_err(|error| unavailable(&error))?;
        let Some(document) = document.filter(|document| document.id.id() == id) else { return Ok(None) };
        let record = self.codec.decode(&document).map_err(|error| unavailable(&error))?;
        if record.revoked_at.is_some() {
            return Ok(None);
        }
        self.ready(record).await.map(Some)
    }

    async fn ready(&self, record: Record) -> Result<Arc<Webhook>, Problem> {
        let declared = self.settings.providers.get(&record.provider);
        let provider: Box<dyn Provider> = match declared {
            Some(generic) => Box::new(generic.clone()),
            None => provider::built_in(&record.provider, record.sha256)
                // Its declaration was taken out of the configuration.
                .ok_or_else(|| Problem::new(Code::NotFound))?,
        };
        let secrets = self.sources.secrets(&record).await?;
        let internal = |error: Error| Problem::new(Code::Internal).owing_to(format!("{error:#}"));
        let rule = self.rule(&record, &*provider).map_err(internal)?;
        let scope = Scope::new(record.tenant, record.project, Subject::webhook_ingest());
        Ok(Arc::new(Webhook {
            name: record.provider.into(),
            id: record.id,
            provider,
            secrets,
            dedupe: record.dedupe,
            scope,
            rule: Arc::new(rule),
        }))
    }

    /// How deliveries of this webhook are protected (W4, W8, W9).
    fn rule(&self, record: &Record, provider: &dyn Provider) -> Result<Rule, Error> {
        let wait = self.settings.wait.unwrap_or_else(|| provider.wait());
        Ok(Rule {
            operation: Operation::new(record.operation())?,
            recipe: Recipe::none(),
            kept_answers: if record.keeps_4xx { KeptAnswers::Usual } else { KeptAnswers::Successes },
            timeout: wait,
            ..self.settings.rule.clone()
        })
    }
}

fn unavailable(error: &Error) -> Problem {
    Problem::new(Code::LedgerUnavailable).owing_to(format!("webhooks cannot be looked up: {error:#}"))
}

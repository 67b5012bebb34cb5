//! The webhook of a path, with everything that its deliveries need. It is believed for a few seconds, like an API key.
//!
//! An id that is unknown or revoked, and one of another provider, look the same: same answer, same number of reads (W1). Ids are found
//! in the registry; where the settings say so, also in the service that verifies keys (A7), and the secrets then in the KV store.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::{Error, Operation, Recipe, Registry, Scope, Subject};
use hapax_exec::Seal;
use hapax_tower::{Code, KeptAnswers, Problem, Rule};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::provider::{self, Provider, Secret};
use super::record::{self, Codec, Dedupe, Record};
use super::secrets::SecretSources;
use crate::auth::remembered::{Digest, Remembered};
use crate::auth::verify::{Verifier, WebhookOwner};
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

/// Why there is no webhook for a delivery.
pub(crate) struct Unready {
    /// What the sender is told.
    pub(crate) problem: Problem,
    /// The webhook, where it is there and its secrets cannot be had.
    pub(crate) webhook: Option<Box<Known>>,
}

/// What is known of a webhook whose secrets cannot be had.
pub(crate) struct Known {
    pub(crate) id: String,
    /// The name of its provider.
    pub(crate) name: Arc<str>,
    pub(crate) scope: Scope,
}

impl From<Problem> for Unready {
    fn from(problem: Problem) -> Self {
        Unready { problem, webhook: None }
    }
}

/// The webhooks of an installation.
pub(crate) struct Webhooks<R> {
    settings: Arc<settings::Webhooks>,
    registry: R,
    codec: Codec,
    sources: SecretSources,
    /// Knows ids that the registry does not have (A7).
    verifier: Option<Verifier>,
    /// By provider and id; `None` for those that nobody has.
    remembered: Remembered<Option<Arc<Webhook>>>,
    /// A request that looks a webhook up holds the turn of its digest, so that many deliveries look once.
    turns: Box<[Mutex<()>]>,
    /// The longest wait for everybody who is asked about a webhook, one after the other.
    longest: Duration,
}

impl<R: Registry> Webhooks<R> {
    pub(crate) fn new(
        settings: Arc<settings::Webhooks>,
        auth: &settings::Auth,
        registry: R,
        seal: Option<Arc<Seal>>,
    ) -> Result<Self, Error> {
        let asked = auth.verify.as_ref().filter(|_| settings.verify);
        let verifier = asked.map(Verifier::new).transpose()?;
        let outside = [verifier.as_ref().map(Verifier::timeout), settings.kv.as_ref().map(|kv| kv.timeout)];
        Ok(Webhooks {
            sources: SecretSources::new(settings.kv.as_ref())?,
            longest: limits::REGISTRY_WAIT + outside.into_iter().flatten().sum::<Duration>(),
            settings,
            registry,
            codec: Codec { seal },
            verifier,
            remembered: Remembered::new(limits::WEBHOOKS_REMEMBERED),
            turns: (0..limits::LOOK_UPS).map(|_| Mutex::default()).collect(),
        })
    }

    pub(crate) fn settings(&self) -> &Arc<settings::Webhooks> {
        &self.settings
    }

    /// The webhook of this provider and id.
    pub(crate) async fn find(&self, provider: &str, id: &str) -> Result<Arc<Webhook>, Unready> {
        let digest = Digest::of_parts(&[provider.as_bytes(), id.as_bytes()]);
        let found = match self.remembered.get(&digest) {
            Some(found) => found,
            None => Box::pin(self.look_up(provider, id, digest)).await?,
        };
        found.ok_or_else(|| Problem::new(Code::NotFound).into())
    }

    /// Forgets a webhook that was changed, so that its next delivery looks it up again.
    pub(crate) fn forget(&self, id: &str) {
        self.remembered.forget(|known| known.as_ref().is_some_and(|webhook| webhook.id == id));
    }

    async fn look_up(
        &self,
        provider: &str,
        id: &str,
        digest: Digest,
    ) -> Result<Option<Arc<Webhook>>, Unready> {
        let late = || Unready::from(unavailable(&Error::unavailable("the registry did not answer in time")));
        let looked = timeout(self.longest, async {
            let _turn = self.turns[digest.index(self.turns.len())].lock().await;
            if let Some(found) = self.remembered.get(&digest) {
                return Ok(found);
            }
            let before = self.remembered.before();
            let (found, good_for) = self.read(provider, id).await?;
            self.remembered.insert(digest, found.clone(), good_for, before);
            Ok(found)
        });
        looked.await.unwrap_or_else(|_| Err(late()))
    }

    /// The webhook, and how long it is believed. Whoever has none of this provider and id is told so after the same questions,
    /// whatever the reason is, and before anybody is asked for secrets.
    async fn read(&self, provider: &str, id: &str) -> Result<(Option<Arc<Webhook>>, Duration), Unready> {
        let name = record::document_id(id).or_else(|| record::document_id(&record::nobodys_id()));
        let Some(name) = name else { return Ok((None, limits::WEBHOOK_REMEMBERED)) };
        let document = self.registry.get(&name).await.map_err(|error| unavailable(&error))?;
        let document = document.filter(|document| document.id.id() == id);
        let record = document.map(|document| self.codec.decode(&document)).transpose();
        let record = record.map_err(|error| unavailable(&error))?;
        let (is_known, is_taken) = (record.is_some(), self.settings.takes(provider));
        let own = record.filter(|own| own.revoked_at.is_none() && own.provider == provider && is_taken);
        if let Some(own) = own {
            return Ok((self.ready(own).await?, limits::WEBHOOK_REMEMBERED));
        }
        // What the registry knows is asked about, too, so that it costs what others cost.
        let outside = self.ask_outside(id).await?;
        let outside = outside.filter(|(owner, _)| !is_known && owner.provider == provider && is_taken);
        match outside {
            Some((owner, good_for)) => Ok((
                self.ready(Record::from_outside(id, owner.tenant, owner.project, owner.provider)).await?,
                good_for,
            )),
            None => Ok((None, limits::WEBHOOK_REMEMBERED)),
        }
    }

    /// What the verifying service says of an id, where there is one and the id can be one.
    async fn ask_outside(&self, id: &str) -> Result<Option<(WebhookOwner, Duration)>, Problem> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        match &self.verifier {
            Some(verifier) if id.len() <= limits::OUTSIDE_ID && id.bytes().all(is_plain) => {
                verifier.webhook(id).await.map_err(|error| {
                    let why = error.detail().unwrap_or_default().to_owned();
                    Problem::from(&error).owing_to(why)
                })
            }
            _ => Ok(None),
        }
    }

    /// `None` where the declaration of its provider was taken out of the configuration.
    async fn ready(&self, record: Record) -> Result<Option<Arc<Webhook>>, Unready> {
        let declared = self.settings.providers.get(&record.provider).cloned();
        let declared = declared.map(|generic| Box::new(generic) as Box<dyn Provider>);
        let provider = declared.or_else(|| provider::built_in(&record.provider, record.sha256));
        let Some(provider) = provider else { return Ok(None) };
        let secrets = self.sources.secrets(&record).await.map_err(|problem| Unready {
            problem,
            webhook: Some(Box::new(Known {
                id: record.id.clone(),
                name: record.provider.as_str().into(),
                scope: scope(&record),
            })),
        })?;
        let internal = |error: Error| Problem::new(Code::Internal).owing_to(format!("{error:#}"));
        let rule = self.rule(&record, &*provider).map_err(internal)?;
        Ok(Some(Arc::new(Webhook {
            scope: scope(&record),
            name: record.provider.into(),
            id: record.id,
            provider,
            secrets,
            dedupe: record.dedupe,
            rule: Arc::new(rule),
        })))
    }

    /// How deliveries of this webhook are protected (W4, W8, W9).
    fn rule(&self, record: &Record, provider: &dyn Provider) -> Result<Rule, Error> {
        let wait = self.settings.wait.unwrap_or_else(|| provider.wait());
        Ok(Rule {
            operation: Operation::new(record.operation())?,
            recipe: Recipe::none(),
            kept_answers: if record.keeps_4xx {
                KeptAnswers::SuccessesAnd4xx
            } else {
                KeptAnswers::Successes
            },
            timeout: wait,
            ..self.settings.rule.clone()
        })
    }
}

/// Whose deliveries come to a webhook.
fn scope(record: &Record) -> Scope {
    Scope::new(record.tenant.clone(), record.project.clone(), Subject::webhook_ingest())
}

fn unavailable(error: &Error) -> Problem {
    Problem::new(Code::LedgerUnavailable).owing_to(format!("webhooks cannot be looked up: {error:#}"))
}

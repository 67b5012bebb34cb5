//! How long outcomes of a class are kept, as operators have set it while processes run (P5).
//!
//! What is set goes before what a configuration says, in every process on the store that has the class, until it is taken back. It
//! counts for what is settled from then on: when an outcome ends is fixed when it is recorded (L10).

use std::collections::BTreeMap;
use std::sync::Arc;

use hapax_core::claim::audit::Setting;
use hapax_core::registry::{Document, DocumentId};
use hapax_core::{Error, Inspect as _, Kind, Registry as _, Retention, Timestamp};
use hapax_gateway::Gateway;
use hapax_gateway::settings::Settings;
use hapax_store::Store;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, watch};

use crate::admin::{ClassInfo, Reply, RetentionDesk, SetInfo, SetTo};
use crate::config::{Config, parse_retention, retention_text};
use crate::limits;

/// The kind of the registry's documents, one for each class that was set.
const KIND: &str = "retention";

/// What a configuration says about classes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classes {
    /// The class of routes that name none.
    default: String,
    spans: BTreeMap<String, Retention>,
    /// For each route, in order, the class that it has.
    of_routes: Vec<Option<String>>,
}

impl From<&Config> for Classes {
    fn from(config: &Config) -> Self {
        Classes {
            default: config.retention.default.clone(),
            spans: config.retention.classes.clone(),
            of_routes: config.declared.iter().map(|declared| declared.retention_class.clone()).collect(),
        }
    }
}

/// A document as it is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    retention: String,
    by: String,
    reason: String,
}

/// The settings of a node: those of its configuration, with what was set since.
pub(crate) struct Keeping {
    store: Store,
    gateway: Arc<Gateway<Store, Store>>,
    /// As they hold.
    settings: watch::Sender<Settings>,
    known: Mutex<Known>,
}

/// What is known of how long outcomes are kept.
pub(crate) struct Known {
    /// As the configuration has them.
    configured: Settings,
    classes: Classes,
    set: BTreeMap<String, SetInfo>,
}

impl Known {
    /// What a configuration says, and what was set before.
    pub(crate) async fn read(store: &Store, configured: Settings, classes: Classes) -> Result<Known, Error> {
        let known = Known { configured, classes, set: read(store).await? };
        for (class, set) in &known.set {
            tell(class, known.classes.spans.get(class), Some(set));
        }
        Ok(known)
    }

    /// The settings as they hold.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = self.configured.clone();
        for (route, class) in settings.routes.iter_mut().zip(&self.classes.of_routes) {
            let set = class.as_ref().and_then(|class| self.set.get(class));
            if let (Some(rule), Some(set)) = (&mut route.rule, set) {
                Arc::make_mut(rule).retention = set.retention;
            }
        }
        settings
    }

    fn info(&self, class: &str) -> ClassInfo {
        let routes = self.configured.routes.iter().zip(&self.classes.of_routes);
        let its = routes.filter(|(_, of)| of.as_deref() == Some(class));
        ClassInfo {
            class: class.to_owned(),
            configured: self.classes.spans.get(class).copied(),
            is_default: self.classes.default == class,
            set: self.set.get(class).cloned(),
            routes: its.map(|(route, _)| format!("{} {}", route.method, route.path)).collect(),
        }
    }
}

impl Keeping {
    /// For a gateway that was started with these settings.
    pub(crate) fn new(store: Store, gateway: Arc<Gateway<Store, Store>>, known: Known) -> Self {
        let settings = watch::Sender::new(known.settings());
        Keeping { store, gateway, settings, known: Mutex::new(known) }
    }

    /// The settings as they hold.
    pub(crate) fn settings(&self) -> &watch::Sender<Settings> {
        &self.settings
    }

    /// Goes on with another configuration. Where it cannot be used, nothing changes.
    pub(crate) async fn reload(&self, configured: Settings, classes: Classes) -> Result<(), Error> {
        let mut known = self.known.lock().await;
        let next = Known { configured, classes, set: known.set.clone() };
        let settings = next.settings();
        // Before any request can bring an answer of the new length; if the settings cannot be used, more is kept back than need be.
        self.store.reckon_with(settings.largest_kept().unwrap_or(0));
        self.gateway.reload(settings.clone()).await?;
        *known = next;
        self.settings.send_replace(settings);
        Ok(())
    }

    /// Goes on with what operators have set meanwhile, in whichever process.
    pub(crate) async fn follow(&self) -> Result<(), Error> {
        let mut known = self.known.lock().await;
        let set = read(&self.store).await?;
        if set == known.set {
            return Ok(());
        }
        let changed =
            set.keys().chain(known.set.keys()).filter(|class| set.get(*class) != known.set.get(*class));
        for class in changed.collect::<std::collections::BTreeSet<_>>() {
            tell(class, known.classes.spans.get(class), set.get(class));
        }
        known.set = set;
        let settings = known.settings();
        self.gateway.keep_by(settings.clone())?;
        self.settings.send_replace(settings);
        Ok(())
    }

    /// Follows what is set elsewhere.
    pub(crate) async fn watch(&self) {
        loop {
            tokio::time::sleep(limits::RETENTION_EVERY).await;
            // What cannot be asked now is asked again; until then everything stays as it is.
            let _ = self.follow().await;
        }
    }

    /// Writes what is set, with its audit event. Whether there was anything to do.
    async fn write(&self, class: &str, to: &SetTo) -> Result<bool, Error> {
        let id = DocumentId::new(KIND, class)?;
        for _ in 0..limits::RETENTION_ATTEMPTS {
            let present = self.store.get(&id).await?;
            if present.is_none() && to.retention.is_none() {
                return Ok(false);
            }
            let version = present.as_ref().map_or(0, |present| present.version);
            // What cannot be read can be replaced, and taken back: nothing else would mend it.
            let before = present.as_ref().and_then(|present| parse(present).ok());
            let setting = setting(class, before.map(|set| set.retention), to);
            match self.store.decide_setting(&id, version, render(to)?, setting).await {
                Err(error) if error.kind() == Kind::Conflict => {}
                done => {
                    done?;
                    let (actor, reason) = (&to.by, &to.reason);
                    tracing::info!(class, verb = verb(to), actor, reason, "an operator decided");
                    return Ok(true);
                }
            }
        }
        Err(Error::unavailable("others keep setting this class"))
    }
}

fn verb(to: &SetTo) -> &'static str {
    if to.retention.is_some() { "retention-set" } else { "retention-unset" }
}

/// What the audit tells of it.
fn setting(class: &str, before: Option<Retention>, to: &SetTo) -> Setting {
    Setting {
        verb: verb(to).into(),
        actor: to.by.clone(),
        reason: to.reason.clone(),
        name: format!("{KIND}/{class}"),
        before: before.map(retention_text),
        after: to.retention.map(retention_text),
    }
}

/// Whoever reads a log must see why outcomes are kept for other times than the configuration says.
fn tell(class: &str, configured: Option<&Retention>, set: Option<&SetInfo>) {
    let Some(configured) = configured.copied().map(retention_text) else { return };
    match set {
        Some(set) => tracing::warn!(
            class,
            configured,
            set = retention_text(set.retention),
            by = set.by,
            reason = set.reason,
            "outcomes of this class are kept as was set by command"
        ),
        None => tracing::info!(class, configured, "outcomes of this class are kept as configured"),
    }
}

/// The document; none where nothing is set.
fn render(to: &SetTo) -> Result<Option<bytes::Bytes>, Error> {
    let Some(retention) = to.retention else { return Ok(None) };
    let kept = Kept { retention: retention_text(retention), by: to.by.clone(), reason: to.reason.clone() };
    let body = serde_json::to_vec(&kept);
    Ok(Some(body.map_err(|error| Error::internal("a retention has no JSON").with_detail(error))?.into()))
}

async fn read(store: &Store) -> Result<BTreeMap<String, SetInfo>, Error> {
    let mut set = BTreeMap::new();
    loop {
        let after = set.last_key_value().map(|(class, _): (&String, _)| class.clone());
        let page = store.list_documents(KIND, after.as_deref(), hapax_core::limits::MAX_PAGE).await?;
        if page.is_empty() {
            return Ok(set);
        }
        for document in page {
            set.insert(document.id.id().to_owned(), parse(&document)?);
        }
    }
}

fn parse(document: &Document) -> Result<SetInfo, Error> {
    let corrupt = || Error::corrupt("what a retention was set to cannot be read from the registry");
    let kept: Kept = serde_json::from_slice(&document.body).map_err(|_| corrupt())?;
    let retention = parse_retention(&kept.retention).map_err(|_| corrupt())?;
    let at: Timestamp = document.updated_at;
    Ok(SetInfo { retention, by: kept.by, reason: kept.reason, at })
}

impl RetentionDesk for Keeping {
    fn list(&self) -> Reply<'_, Vec<ClassInfo>> {
        Box::pin(async {
            self.follow().await?;
            let known = self.known.lock().await;
            let mut classes: Vec<&String> = known.classes.spans.keys().chain(known.set.keys()).collect();
            classes.sort_unstable();
            classes.dedup();
            Ok(classes.into_iter().map(|class| known.info(class)).collect())
        })
    }

    fn set(&self, class: String, to: SetTo) -> Reply<'_, Option<ClassInfo>> {
        Box::pin(async move {
            let configured = self.known.lock().await.classes.spans.contains_key(&class);
            // What no configuration has any more can still be taken back.
            if to.retention.is_some() && !configured {
                return Ok(None);
            }
            let was_set = self.write(&class, &to).await?;
            self.follow().await?;
            Ok((configured || was_set).then_some(self.known.lock().await.info(&class)))
        })
    }
}

//! How long outcomes of a class are kept, as operators have set it while processes run (P5).
//!
//! What is set goes before what a configuration says, in every process on the store that has the class, until it is taken back. It
//! counts for what is settled from then on: when an outcome ends is fixed when it is recorded (L10).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hapax_api::{RetentionClass, RetentionSet};
use hapax_core::claim::audit::Setting;
use hapax_core::registry::{Document, DocumentId};
use hapax_core::{Error, Identity, Inspect as _, Kind, Registry as _, Retention, Timestamp};
use hapax_gateway::Gateway;
use hapax_gateway::settings::{Settings, Upstream};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, watch};

use crate::Store;
use crate::admin::view;
use crate::config::webhooks::longest_window;
use crate::config::{Config, parse_retention, retention_text};
use crate::limits;

/// The kind of the registry's documents, one for each class that was set.
const KIND: &str = "retention";

/// What a configuration says about classes.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    /// The class of routes that name none.
    default: String,
    spans: BTreeMap<String, Retention>,
    /// For each route, in order, the class that it has.
    of_routes: Vec<Option<String>>,
    /// The class of deliveries.
    of_webhooks: Option<String>,
    /// The provider that may send a delivery again for the longest time, and how long that is (W6).
    longest_window: Option<(String, Duration)>,
}

impl From<&Config> for Classes {
    fn from(config: &Config) -> Self {
        Classes {
            default: config.retention.default.clone(),
            spans: config.retention.classes.clone(),
            of_routes: config.declared.iter().map(|declared| declared.retention_class.clone()).collect(),
            of_webhooks: config.webhook_retention.clone(),
            longest_window: (config.settings.webhooks.as_ref())
                .and_then(|webhooks| longest_window(&webhooks.enabled, &webhooks.providers)),
        }
    }
}

impl Classes {
    /// Outcomes of deliveries outlive the time in which a sender may send one again (W6).
    fn keeps_long_enough(&self, class: &str, retention: Option<Retention>) -> Result<(), Error> {
        let retention = retention.filter(|_| self.of_webhooks.as_deref() == Some(class));
        match retention.and_then(|retention| self.undercut_by(retention)) {
            Some((provider, window)) => Err(Error::invalid(format!(
                "deliveries of webhooks have this class, and {provider} may send one again for {}: keep them at least as long",
                retention_text(Retention::For(window))
            ))),
            None => Ok(()),
        }
    }

    /// The provider that may send a delivery again for longer than this, and for how long.
    fn undercut_by(&self, retention: Retention) -> Option<(&str, Duration)> {
        let (provider, window) = self.longest_window.as_ref()?;
        match retention {
            Retention::For(kept) | Retention::SinceGrant(kept) if kept < *window => Some((provider, *window)),
            _ => None,
        }
    }

    /// What the class of deliveries was set to, with its name.
    fn set_for_deliveries(&self, set: &BTreeMap<String, Set>) -> Option<(&str, Retention)> {
        let class = self.of_webhooks.as_deref()?;
        set.get(class).map(|set| (class, set.retention))
    }

    /// A class may have been set before it was that of deliveries, by a server that takes other providers, or before a provider was
    /// taken: deliveries are then kept for longer than was set (W6).
    fn tell_deliveries(&self, set: &BTreeMap<String, Set>) {
        let Some((class, set)) = self.set_for_deliveries(set) else { return };
        if let Some((provider, window)) = self.undercut_by(set) {
            tracing::warn!(
                class,
                set = retention_text(set),
                kept = retention_text(Retention::For(window)),
                provider,
                "deliveries of webhooks are kept for longer than was set by command: their sender may send one again for so long"
            );
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

/// What a class is to be set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetTo {
    /// How long outcomes are kept; `None` for as long as configured.
    pub(crate) retention: Option<Retention>,
    /// Who sets it.
    pub(crate) by: String,
    /// Why.
    pub(crate) reason: String,
}

/// What a class was set to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Set {
    retention: Retention,
    by: String,
    reason: String,
    at: Timestamp,
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
    set: BTreeMap<String, Set>,
}

impl Known {
    /// What a configuration says, and what was set before.
    pub(crate) async fn read(store: &Store, configured: Settings, classes: Classes) -> Result<Known, Error> {
        let known = Known { configured, classes, set: read(store).await? };
        for (class, set) in &known.set {
            tell(class, known.classes.spans.get(class), Some(set));
        }
        known.classes.tell_deliveries(&known.set);
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
        if let (Some(webhooks), Some((_, set))) =
            (&mut settings.webhooks, self.classes.set_for_deliveries(&self.set))
        {
            let window = self.classes.undercut_by(set).map(|(_, window)| Retention::For(window));
            Arc::make_mut(webhooks).rule.retention = window.unwrap_or(set);
        }
        settings
    }

    fn shown(&self, class: &str) -> RetentionClass {
        let routes = self.configured.routes.iter().zip(&self.classes.of_routes);
        let its = routes.filter(|(_, of)| of.as_deref() == Some(class));
        let (configured, set) = (self.classes.spans.get(class).copied(), self.set.get(class));
        RetentionClass {
            class: class.to_owned(),
            retention: set.map(|set| set.retention).or(configured).map(retention_text),
            configured: configured.map(retention_text),
            default: self.classes.default == class,
            set: set.map(|set| RetentionSet {
                retention: retention_text(set.retention),
                by: set.by.clone(),
                reason: set.reason.clone(),
                at: view::time(set.at),
            }),
            routes: its.map(|(route, _)| format!("{} {}", route.method, route.path)).collect(),
            delegated: Vec::new(),
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

    /// How long what an operator states about a claim is kept: as the service's own answer would be.
    pub(crate) fn retention_of(&self, identity: &Identity) -> Retention {
        let settings = self.settings.borrow();
        let operation = identity.operation().as_str();
        // A delivery's outcome outlives the sender's retries, whoever states it (W6).
        if let Some(webhooks) = settings.webhooks.as_ref().filter(|_| operation.starts_with("webhook.")) {
            return webhooks.rule.retention;
        }
        let mut rules = settings.routes.iter().filter_map(|route| route.rule.as_ref());
        rules
            .find(|rule| rule.operation.as_str() == operation)
            .map_or(Retention::For(limits::SETTLED_RETENTION), |rule| rule.retention_of(identity.source()))
    }

    /// Goes on with another configuration. Where it cannot be used, nothing changes.
    pub(crate) async fn reload(&self, configured: Settings, classes: Classes) -> Result<(), Error> {
        let mut known = self.known.lock().await;
        let next = Known { configured, classes, set: known.set.clone() };
        let settings = next.settings();
        // Before any request can bring an answer of the new length; if the settings cannot be used, more is kept back than need be.
        self.store.reckon_with(settings.largest_kept().unwrap_or(0));
        self.gateway.reload(settings.clone()).await?;
        next.classes.tell_deliveries(&next.set);
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
        known.classes.tell_deliveries(&known.set);
        let settings = known.settings();
        self.gateway.keep_by(settings.clone())?;
        self.settings.send_replace(settings);
        Ok(())
    }

    /// The class of each route, in their order.
    pub(crate) async fn classes_of_routes(&self) -> Vec<Option<String>> {
        self.known.lock().await.classes.of_routes.clone()
    }

    /// The services of clusters whose routes have this class.
    pub(crate) async fn delegated(&self, class: &str) -> Vec<(Arc<Upstream>, String)> {
        let known = self.known.lock().await;
        let (configured, classes) = (&known.configured, &known.classes);
        let routes = configured.routes.iter().zip(&classes.of_routes);
        let routes = routes.filter(|(_, of)| of.as_deref() == Some(class)).map(|(route, _)| route);
        let webhooks = configured.webhooks.as_ref().filter(|_| classes.of_webhooks.as_deref() == Some(class));
        let all = routes.chain(webhooks.map(|webhooks| &*webhooks.route));
        let services = all.filter_map(|route| {
            let handler = route.handler.as_ref()?;
            Some((route.upstream.clone(), handler.service.clone()))
        });
        let mut services: Vec<_> = services.collect();
        services.sort_by(|one, other| (&one.0.name, &one.1).cmp(&(&other.0.name, &other.1)));
        services.dedup_by(|one, other| one.0.name == other.0.name && one.1 == other.1);
        services
    }

    /// Follows what is set elsewhere.
    pub(crate) async fn watch(&self) {
        loop {
            tokio::time::sleep(limits::RETENTION_EVERY).await;
            // What cannot be asked now is asked again; until then everything stays as it is.
            let _ = self.follow().await;
        }
    }

    /// All classes that are configured here or were set.
    pub(crate) async fn list(&self) -> Result<Vec<RetentionClass>, Error> {
        self.follow().await?;
        let known = self.known.lock().await;
        let mut classes: Vec<&String> = known.classes.spans.keys().chain(known.set.keys()).collect();
        classes.sort_unstable();
        classes.dedup();
        Ok(classes.into_iter().map(|class| known.shown(class)).collect())
    }

    /// Sets a class, or takes back what was set, and writes down who wants it so. `None` when there is no such class.
    pub(crate) async fn set(&self, class: &str, to: &SetTo) -> Result<Option<RetentionClass>, Error> {
        let configured = self.known.lock().await.classes.spans.contains_key(class);
        // What no configuration has any more can still be taken back.
        if to.retention.is_some() && !configured {
            return Ok(None);
        }
        self.known.lock().await.classes.keeps_long_enough(class, to.retention)?;
        let was_set = self.write(class, to).await?;
        self.follow().await?;
        Ok((configured || was_set).then_some(self.known.lock().await.shown(class)))
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
fn tell(class: &str, configured: Option<&Retention>, set: Option<&Set>) {
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

async fn read(store: &Store) -> Result<BTreeMap<String, Set>, Error> {
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

fn parse(document: &Document) -> Result<Set, Error> {
    let corrupt = || Error::corrupt("what a retention was set to cannot be read from the registry");
    let kept: Kept = serde_json::from_slice(&document.body).map_err(|_| corrupt())?;
    let retention = parse_retention(&kept.retention).map_err(|_| corrupt())?;
    let at: Timestamp = document.updated_at;
    Ok(Set { retention, by: kept.by, reason: kept.reason, at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_not_set_to_be_kept_shorter_than_a_sender_repeats_them_w6() {
        let week = Duration::from_secs(7 * 86_400);
        let classes = Classes {
            of_webhooks: Some("webhook".into()),
            longest_window: Some(("github".into(), week)),
            ..Classes::default()
        };
        let set = |class: &str, kept: Option<Retention>| classes.keeps_long_enough(class, kept);
        let told = set("webhook", Some(Retention::For(week - Duration::from_secs(1)))).unwrap_err();
        assert!(told.kind() == Kind::Invalid && told.message().contains("github"), "{told}");
        for (class, kept) in [
            ("webhook", Some(Retention::For(week))),
            ("webhook", Some(Retention::Forever)),
            ("webhook", None),
            ("critical", Some(Retention::For(Duration::from_secs(1)))),
        ] {
            assert!(set(class, kept).is_ok(), "{class} {kept:?}");
        }
    }

    /// It may have been set for another class, or before a provider was taken.
    #[test]
    fn what_is_set_already_does_not_keep_deliveries_shorter_than_a_sender_repeats_them_w6() {
        let text = "[upstreams.pay]\nurl = \"http://127.0.0.1:9000\"\n[retention]\nhooks = \"8d\"\n[webhooks]\n\
                    upstream = \"pay\"\npath = \"/in\"\nretention = \"hooks\"\n[[routes]]\nmethod = \"POST\"\n\
                    path = \"/pay\"\noperation = \"pay\"\npolicy = \"ACCEPTED\"\nupstream = \"pay\"\nretention = \"hooks\"\n";
        let read = |enabled: &str| {
            let text = text.replace("path = \"/in\"", &format!("path = \"/in\"\nenabled = [{enabled}]"));
            let file = std::path::Path::new("hapax.toml");
            crate::config::read(&text, file, &|_| None, crate::config::Secrets::Needed)
                .unwrap_or_else(|mistakes| panic!("{mistakes}"))
        };
        let days = |days: u64| Retention::For(Duration::from_secs(days * 86_400));
        let kept = |enabled: &str, set_to: Retention| {
            let config = read(enabled);
            let set = Set { retention: set_to, by: "ops".into(), reason: "r".into(), at: Timestamp::ZERO };
            let classes = Classes::from(&config);
            let known = Known { configured: config.settings, classes, set: [("hooks".into(), set)].into() };
            let settings = known.settings();
            let of_route = settings.routes[0].rule.as_ref().unwrap().retention;
            (settings.webhooks.unwrap().rule.retention, of_route)
        };
        assert_eq!(kept("\"stripe\"", days(4)), (days(4), days(4)), "longer than its window");
        assert_eq!(kept("\"stripe\", \"github\"", days(4)), (days(7), days(4)), "a provider was taken since");
        assert_eq!(kept("\"github\"", Retention::Forever), (Retention::Forever, Retention::Forever));
    }
}

//! The configuration: TOML as people write it, checked, and turned into what is meant (P5).
//!
//! A file is read into a tree with places, each section is read by the file beside this one that is named after it, and
//! the result is a [`Config`]. Reading goes on after a mistake, so that all of them are told at once. Whether the store,
//! an upstream or a key service can be reached is not asked here.

mod actions;
mod admin;
mod auth;
mod cluster;
mod connectors;
mod edge;
mod fields;
mod fixed;
mod handler;
mod keeping;
mod keys;
mod material;
mod mistakes;
mod overlaps;
mod reader;
mod route;
mod rule;
mod schedules;
mod section;
mod show;
#[cfg(test)]
mod tests;
mod traces;
mod tree;
pub(crate) mod units;
mod upstream;
mod url;
pub(crate) mod webhooks;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hapax_core::Operation;
use hapax_gateway::settings::{Edge, Settings};

pub use actions::{ActionSettings, Trust, TrustRule};
pub use admin::{Admin, AdminToken};
pub use connectors::{Connector, HttpConnector, HttpToolSettings, McpConnector, Reached, ToolOverride};
pub use edge::Api;
pub use keeping::{Log, LogFormat, RetentionClasses, SealKey, StoreSettings};
pub use mistakes::{Mistake, Mistakes, Place, Within};
pub use reader::{Secret, Secrets};
pub use route::Declared;
pub use traces::Traces;

pub(crate) use hapax_gateway::pattern::Pattern;
pub(crate) use keeping::retention_text as parse_retention;
pub(crate) use overlaps::{BY_ID, recall_paths};
pub(crate) use reader::{Reader, read as read_file};
pub(crate) use route::{level_of, level_word, policies};
pub(crate) use section::Section;
pub(crate) use show::{retention_text, route_members};
pub(crate) use tree::{Entry, Node, Table, Value};
pub(crate) use upstream::{is_name, name_remedy};

use crate::schedules::Schedule;
use crate::{limits, openapi};
use edge::RouteDefaults;
use route::{Context, Found};
use upstream::Behind;

/// A configuration without mistakes, as meant.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file it was read from.
    pub file: PathBuf,
    /// What the gateway does.
    pub settings: Settings,
    /// For each of the gateway's routes, in the same order, what else is known of it.
    pub declared: Vec<Declared>,
    /// Operations that have no route any more, although claims may rest on them (P5).
    pub retired: Vec<Operation>,
    /// The OpenAPI documents that routes were read from.
    pub documents: Vec<openapi::Source>,
    /// Where claims are kept.
    pub store: StoreSettings,
    /// Where operators are served.
    pub admin: Admin,
    /// Where applications are served.
    pub api: Option<Api>,
    /// Keys for encryption at rest: the first seals, all of them open. Empty where nothing is sealed (B9).
    pub seal: Vec<SealKey>,
    /// The classes of retention.
    pub retention: RetentionClasses,
    /// What is dispatched at planned times (S).
    pub schedules: Vec<Schedule>,
    /// How actions of agents are done (X).
    pub actions: ActionSettings,
    /// The systems that their tools are on, by name.
    pub connectors: BTreeMap<String, Connector>,
    /// What may happen.
    pub trust: Trust,
    /// The class by which deliveries are kept.
    pub webhook_retention: Option<String>,
    /// How the process tells what it does.
    pub log: Log,
    /// Where spans go; none are recorded where it is not said.
    pub traces: Option<Traces>,
    /// What is allowed, but worth telling when a process starts: one sentence each, with its place.
    pub notices: Vec<String>,
    pub(crate) route_defaults: RouteDefaults,
}

/// Reads and checks a configuration. `env` is asked for environment variables.
pub fn load(path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, Mistakes> {
    load_with(path, env, Secrets::Needed)
}

/// The same where secrets may be absent, as in CI. What comes back is for looking at, not for serving (P5).
pub fn load_with(
    path: &Path,
    env: &dyn Fn(&str) -> Option<String>,
    secrets: Secrets,
) -> Result<Config, Mistakes> {
    let file = Arc::new(path.to_owned());
    let text = read_file(path, limits::FILE_BYTES).map_err(|error| {
        let place = Place { file: file.clone(), within: Within::File };
        let (what, remedy) =
            (format!("it cannot be read: {error}"), "name a readable configuration file".into());
        Mistakes::new(vec![Mistake { place, what, remedy }], &file)
    })?;
    read(&text, path, env, secrets)
}

/// Checks the text of a configuration, as [`load_with`] does with what it read from this file.
pub fn read(
    text: &str,
    path: &Path,
    env: &dyn Fn(&str) -> Option<String>,
    secrets: Secrets,
) -> Result<Config, Mistakes> {
    let file = Arc::new(path.to_owned());
    let table = tree::from_toml(text, &file).map_err(|found| Mistakes::new(found, &file))?;
    let reader = Reader::new(file.clone(), env, secrets);
    let config = read_config(&reader, &table, path);
    let (found, notices) = reader.finish();
    match config {
        Some(config) if found.is_empty() => Ok(Config { notices, ..config }),
        _ => Err(Mistakes::new(found, &file)),
    }
}

fn read_config(reader: &Reader<'_>, table: &Table, path: &Path) -> Option<Config> {
    let root = Section::open(reader, Some(table), &fields::ROOT);
    let edge_section = root.section("edge");
    let (edge, route_defaults) = edge::edge(&edge_section, &rule::plain());
    let (admin, api) = listeners(&root, &edge_section, &edge);
    let store = keeping::store(&root.section("store"));
    let retention = keeping::retention(&root.section("retention"));
    let seal = keeping::seal(&root.section("seal"));
    let log = keeping::log(&root.section("log"));
    let traces = traces::traces(&root.section("traces"));
    let tenants = keeping::tenants(&root.section("tenants"));
    let auth_section = root.section("auth");
    let auth = auth::auth(&auth_section);
    auth::keys_can_be_made(&auth_section, &auth, &admin);
    let upstreams = upstream::upstreams(&root.section("upstreams"));
    let context = Context {
        defaults: &route_defaults,
        upstreams: &upstreams,
        retention: &retention,
        max_buffered: edge.max_buffered,
        fixed: &auth.fixed,
    };
    let (found, documents) = routes(&root, &context);
    overlaps::check(reader, &found, &edge);
    auth::lets_in(&auth_section, &auth, &found);
    let schedules = schedules::schedules(&root, &auth_section, &auth, &found);
    let webhooks_section = root.section("webhooks");
    let webhooks = webhooks::webhooks(&webhooks_section, &context);
    handler::check(&webhooks_section, &found, webhooks.as_ref());
    if webhooks_section.exists() {
        webhooks::can_verify(&webhooks_section, webhooks.as_ref(), &auth);
        overlaps::webhooks(&webhooks_section, webhooks.as_ref(), &found, &edge.operations_prefix);
    }
    let retired = retired(&root, &found);
    let (actions, connectors, trust) = agents(&root);
    let (routes, declared) =
        found.into_iter().map(|found| found.meant).collect::<Option<Vec<_>>>()?.into_iter().unzip();
    let (webhooks, webhook_retention) = match webhooks {
        Some(found) => (Some(Arc::new(found.webhooks)), found.retention_class),
        None => (None, None),
    };
    let settings = Settings { edge, upstreams: ready(upstreams), routes, auth, tenants, webhooks };
    Some(Config {
        file: path.to_owned(),
        settings,
        declared,
        retired,
        documents,
        store,
        admin,
        api,
        seal,
        retention,
        schedules,
        actions,
        connectors,
        trust,
        webhook_retention,
        log,
        traces,
        notices: Vec::new(),
        route_defaults,
    })
}

fn listeners(root: &Section<'_>, edge_section: &Section<'_>, edge: &Edge) -> (Admin, Option<Api>) {
    let (admin_section, api_section) = (root.section("admin"), root.section("api"));
    let (admin, api) = (admin::admin(&admin_section), edge::api(&api_section));
    let mut listeners = vec![
        ("edge", edge.listen, edge_section.has("listen").then(|| edge_section.place("listen"))),
        ("admin", admin.listen, admin_section.has("listen").then(|| admin_section.place("listen"))),
    ];
    if let Some(api) = &api {
        listeners.push(("api", api.listen, api_section.has("listen").then(|| api_section.place("listen"))));
    }
    edge::listeners_differ(root.reader(), &listeners);
    (admin, api)
}

/// What agents may do.
fn agents(root: &Section<'_>) -> (ActionSettings, BTreeMap<String, Connector>, Trust) {
    let connectors_section = root.section("connectors");
    let connectors = connectors::connectors(&connectors_section);
    let trust_section = root.section("trust");
    let trust = actions::trust(&trust_section);
    if connectors_section.exists() && !trust_section.exists() {
        let text = "there is no [trust]: every action of an agent is allowed";
        root.reader().notice(&connectors_section.at(), text);
    }
    (actions::actions(&root.section("actions")), connectors, trust)
}

/// The routes of the file, then those of its OpenAPI documents.
fn routes(root: &Section<'_>, context: &Context<'_>) -> (Vec<Found>, Vec<openapi::Source>) {
    let written = root.sections("routes");
    let mut found: Vec<Found> = written.iter().map(|section| route::read(section, context)).collect();
    let mut documents = Vec::new();
    for document in root.sections("openapi") {
        // Also where no route of the document is read, and so none could say it.
        route::upstream(&document, context);
        let Some((source, tables)) = openapi::read::routes(&document) else { continue };
        documents.push(source);
        for table in tables {
            let section = Section::open(root.reader(), Some(&table), &fields::ROUTE);
            found.push(route::read(&section, context));
        }
    }
    // Where some are written, what is wrong with them comes first.
    let written = root.has("routes") || root.has("openapi");
    if found.is_empty() && !root.has("webhooks") && !(written && root.reader().has_mistakes()) {
        let remedy = "write a [[routes]] section, or name a document with policies in an [[openapi]] section";
        root.reader().mistake(&root.reader().whole_file(), "there is no route", remedy);
    }
    if found.len() > limits::ROUTES {
        let what = format!("there are {} routes", found.len());
        root.reader().mistake(&root.reader().whole_file(), what, format!("use at most {}", limits::ROUTES));
        found.truncate(limits::ROUTES);
    }
    (found, documents)
}

/// The operations that have no route any more.
fn retired(root: &Section<'_>, found: &[Found]) -> Vec<Operation> {
    let names = route::names(root, "retired", root.texts("retired").unwrap_or_default());
    overlaps::retired(root.reader(), &names, found);
    names.into_iter().map(|name| name.value).collect()
}

fn ready(upstreams: BTreeMap<String, Behind>) -> BTreeMap<String, Arc<hapax_gateway::settings::Upstream>> {
    let ready = |(name, behind)| match behind {
        Behind::Ready(ready) => Some((name, ready.upstream)),
        Behind::Broken => None,
    };
    upstreams.into_iter().filter_map(ready).collect()
}

/// The names of the fields of a route.
pub(crate) fn route_fields() -> impl Iterator<Item = &'static str> {
    fields::ROUTE.names("")
}

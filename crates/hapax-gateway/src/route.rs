//! Which route, and which of the edge's own pages, a request is for.
//!
//! A request matches exactly one (P2). Beside the configured routes the edge has two kinds of its own: where outcomes are
//! recalled (H7), and the pages about problem codes (H1). What none of them takes goes to the catch-all, if there is one and it is no
//! way around another route.

use std::collections::BTreeMap;
use std::sync::Arc;

use hapax_core::Error;
use hapax_http::head;
use hapax_tower::{Code, Problem};
use http::Method;
use http::header::{ALLOW, HeaderValue};

use crate::pattern::{self, Pattern, Tree};
use crate::settings::{Fixed, Handler, Route, Settings};
use crate::{limits, pages};

/// What a request is for.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A configured route.
    Route(Arc<Route>),
    /// An outcome that is kept (H7).
    Recall(Recall),
    /// A webhook.
    Webhook(WebhookPath),
    /// The page about a problem code.
    Page(Code),
}

/// Which webhook, as its path says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebhookPath {
    pub(crate) provider: String,
    pub(crate) id: String,
}

/// Which outcome is recalled (H7).
#[derive(Clone, Debug)]
pub(crate) struct Recall {
    /// By what it is named.
    pub(crate) by: RecallBy,
    /// Whether to wait for an outcome.
    pub(crate) wait: bool,
}

/// What an outcome is named by.
#[derive(Clone, Debug)]
pub(crate) enum RecallBy {
    /// A key.
    Key {
        /// The routes that share this path; the key may be of any of them.
        routes: Arc<[Arc<Route>]>,
        /// The key, as it stands in the path.
        key: String,
        /// The path that stands before it: what the key was used under.
        path: String,
    },
    /// The public id of an operation, as it stands in the path.
    Operation(String),
}

impl Target {
    /// Whether both are for the same, whatever its parameters are.
    fn is_at(&self, other: &Target) -> bool {
        match (self, other) {
            (Target::Route(own), Target::Route(other)) => Arc::ptr_eq(own, other),
            (Target::Recall(own), Target::Recall(other)) => {
                let is_same = match (&own.by, &other.by) {
                    (RecallBy::Key { routes: own, .. }, RecallBy::Key { routes: other, .. }) => {
                        Arc::ptr_eq(own, other)
                    }
                    (RecallBy::Operation(_), RecallBy::Operation(_)) => true,
                    _ => false,
                };
                is_same && own.wait == other.wait
            }
            (Target::Webhook(_), Target::Webhook(_)) => true,
            (Target::Page(code), Target::Page(other)) => code == other,
            _ => false,
        }
    }
}

/// Why nothing was matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoMatch {
    /// The path is unknown.
    Path,
    /// The path is known with these methods.
    Method(String),
    /// To whoever decodes it first, the path is for something else than to whoever does not.
    Unclear,
}

impl From<NoMatch> for Problem {
    fn from(no_match: NoMatch) -> Self {
        match no_match {
            NoMatch::Path => Problem::new(Code::NotFound),
            NoMatch::Unclear => Problem::new(Code::PathMalformed)
                .detail("encoded, a character of the path makes it another route to some services"),
            NoMatch::Method(methods) => match HeaderValue::try_from(methods) {
                Ok(allow) => Problem::new(Code::MethodNotAllowed).header(ALLOW, allow),
                Err(error) => Problem::new(Code::Internal).owing_to(error.to_string()),
            },
        }
    }
}

/// What is served at a path.
#[derive(Debug)]
enum Place {
    Route(Arc<Route>),
    Key { routes: Arc<[Arc<Route>]>, wait: bool },
    Operation { wait: bool },
    Webhook,
    Page,
}

impl Place {
    /// What a request with this path is for. A key, an id or a code is the last segment, or the last but one.
    fn target(&self, path: &str) -> Option<Target> {
        let from_end = |number: usize| path.rsplit('/').nth(number).unwrap_or_default().to_owned();
        let named = |wait: bool| from_end(usize::from(!wait));
        Some(match self {
            Place::Route(route) => Target::Route(route.clone()),
            Place::Key { routes, wait } => {
                // Behind it come the word, the key, and `output` for who does not wait.
                let before = path.rsplitn(if *wait { 3 } else { 4 }, '/').last().unwrap_or_default();
                let before = if before.is_empty() { "/" } else { before }.to_owned();
                let by = RecallBy::Key { routes: routes.clone(), key: named(*wait), path: before };
                Target::Recall(Recall { by, wait: *wait })
            }
            Place::Operation { wait } => {
                Target::Recall(Recall { by: RecallBy::Operation(named(*wait)), wait: *wait })
            }
            Place::Webhook => Target::Webhook(WebhookPath { provider: from_end(1), id: from_end(0) }),
            Place::Page => Target::Page(pages::code(&from_end(0))?),
        })
    }
}

/// One method of a path.
#[derive(Debug)]
struct Entry {
    method: Method,
    place: Place,
}

/// By shape, where outcomes are recalled by key, and the routes that share the place: how each of them names its parameters does not
/// matter.
type Recalls = BTreeMap<String, (String, Vec<Arc<Route>>)>;

/// All routes of a configuration.
#[derive(Debug)]
pub(crate) struct Table {
    tree: Tree<Entry>,
    /// By the name that claims are kept under, for what is recalled by operation id.
    operations: BTreeMap<String, Arc<Route>>,
    rest: Option<Rest>,
}

impl Table {
    pub(crate) fn new(settings: &Settings) -> Result<Self, Error> {
        let mut table = Table { tree: Tree::default(), operations: BTreeMap::new(), rest: None };
        let mut recalls = Recalls::new();
        let routes: Vec<Arc<Route>> = settings.routes.iter().cloned().map(Arc::new).collect();
        let Fixed { tenant, project } = &settings.auth.fixed;
        if (tenant.is_none() || project.is_none()) && routes.iter().any(|route| route.public) {
            return Err(Error::invalid("public routes need a fixed tenant and project"));
        }
        for route in &routes {
            let pattern = Pattern::of_route(&route.path).map_err(|why| {
                Error::invalid("the path of a route cannot be matched")
                    .with_detail(format_args!("{}: {why}", route.path))
            })?;
            if let Some(rule) = &route.rule {
                table.operations.insert(rule.operation.to_string(), route.clone());
                if route.is_recalled_by_key() {
                    let segment = &settings.edge.recall_segment;
                    let place = format!("{}/{segment}/{{hapax-key}}", route.path.trim_end_matches('/'));
                    let (_, routes) =
                        recalls.entry(own(&place)?.shape()).or_insert_with(|| (place, Vec::new()));
                    routes.push(route.clone());
                }
            }
            match pattern.is_catch_all() {
                true => table.insert_rest(route, &routes)?,
                false => table.insert(route.method.clone(), &pattern, Place::Route(route.clone()))?,
            }
        }
        table.insert_own(settings, recalls)?;
        Ok(table)
    }

    /// What the edge serves itself.
    fn insert_own(&mut self, settings: &Settings, recalls: Recalls) -> Result<(), Error> {
        for (place, routes) in recalls.into_values() {
            let routes: Arc<[_]> = routes.into();
            let at_once = Place::Key { routes: routes.clone(), wait: false };
            self.insert(Method::GET, &own(&format!("{place}/output"))?, at_once)?;
            self.insert(Method::GET, &own(&place)?, Place::Key { routes, wait: true })?;
        }
        if !self.operations.is_empty() {
            let operation = format!("{}/{{id}}", settings.edge.operations_prefix);
            let at_once = own(&format!("{operation}/output"))?;
            self.insert(Method::GET, &at_once, Place::Operation { wait: false })?;
            self.insert(Method::GET, &own(&operation)?, Place::Operation { wait: true })?;
        }
        if let Some(webhooks) = &settings.webhooks {
            let path = format!("{}/{{provider}}/{{webhook_id}}", webhooks.prefix);
            self.insert(Method::POST, &own(&path)?, Place::Webhook)?;
        }
        self.insert(Method::GET, &own(&format!("{}{{code}}", limits::DOCS))?, Place::Page)
    }

    fn insert(&mut self, method: Method, pattern: &Pattern, place: Place) -> Result<(), Error> {
        let entries = self.tree.entry(pattern);
        if entries.iter().any(|entry| entry.method == method) {
            return Err(Error::invalid("two routes match the same requests")
                .with_detail(format_args!("{method} {}", pattern.as_str())));
        }
        entries.push(Entry { method, place });
        Ok(())
    }

    fn insert_rest(&mut self, route: &Arc<Route>, routes: &[Arc<Route>]) -> Result<(), Error> {
        if self.rest.is_some() {
            return Err(Error::invalid("two routes match the same requests").with_detail(&*route.path));
        }
        self.rest = Some(Rest::new(route, routes));
        Ok(())
    }

    /// The route of an operation, by the name that its claims are kept under.
    pub(crate) fn of_operation(&self, operation: &str) -> Option<&Arc<Route>> {
        self.operations.get(operation)
    }

    /// The keyed routes whose claims a cluster keeps, with their handlers and the names that their claims are kept under.
    pub(crate) fn delegated(&self) -> impl Iterator<Item = (&Arc<Route>, &Handler, &str)> {
        self.operations
            .iter()
            .filter_map(|(operation, route)| Some((route, &**route.handler.as_ref()?, operation.as_str())))
    }

    /// What a request with this method and path is for: the path as the service gets to see it, and, where something in it
    /// must be encoded, decoded, too. Some services match the one and some the other (P2).
    pub(crate) fn find(&self, method: &Method, path: &str) -> Result<Target, NoMatch> {
        let found = self.find_as_is(method, path);
        if !path.contains('%') {
            return found;
        }
        let decoded = String::from_utf8(head::unescaped(path, |_| true)).map_err(|_| NoMatch::Unclear)?;
        let is_same = match (&found, &self.find_as_is(method, &decoded)) {
            (Ok(target), Ok(other)) => target.is_at(other),
            (Err(no_match), Err(other)) => no_match == other,
            _ => false,
        };
        if is_same { found } else { Err(NoMatch::Unclear) }
    }

    /// `HEAD` follows `GET` where it has no route of its own (P7). A path that another method has more exactly does not hide this
    /// method's.
    fn find_as_is(&self, method: &Method, path: &str) -> Result<Target, NoMatch> {
        let at = |method: &Method| {
            self.tree.find(path, |entry| (entry.method == *method).then(|| entry.place.target(path))?)
        };
        if let Some(target) = at(method) {
            return Ok(target);
        }
        if *method == Method::HEAD
            && let Some(target) = at(&Method::GET)
        {
            return Ok(target);
        }
        match &self.rest {
            Some(rest) if !self.is_own(path) => rest.take(method, path),
            _ => Err(self.no_match(path)),
        }
    }

    /// Whether the edge itself serves something at this path, whatever the method is.
    fn is_own(&self, path: &str) -> bool {
        let is_own = |entry: &Entry| (!matches!(entry.place, Place::Route(_))).then_some(());
        path.starts_with(limits::OWN) || self.tree.find(path, is_own).is_some()
    }

    fn no_match(&self, path: &str) -> NoMatch {
        match self.methods(path) {
            methods if methods.is_empty() => NoMatch::Path,
            methods => NoMatch::Method(methods),
        }
    }

    /// The methods that this path takes; empty where it is unknown.
    pub(crate) fn methods(&self, path: &str) -> String {
        let mut methods: Vec<&str> = Vec::new();
        let _: Option<()> = self.tree.find(path, |entry| {
            if entry.place.target(path).is_some() {
                methods.push(entry.method.as_str());
            }
            None
        });
        if self.rest.is_some() && !self.is_own(path) {
            methods.extend(REST);
        }
        if methods.is_empty() {
            return String::new();
        }
        methods.sort_unstable();
        methods.dedup();
        for (implied, by) in [("HEAD", Some("GET")), ("OPTIONS", None)] {
            if !methods.contains(&implied) && by.is_none_or(|by| methods.contains(&by)) {
                methods.push(implied);
            }
        }
        methods.join(", ")
    }
}

/// The methods that browsers are told a catch-all takes.
const REST: [&str; 5] = ["DELETE", "GET", "PATCH", "POST", "PUT"];

/// The pattern of something that the edge serves itself.
fn own(path: &str) -> Result<Pattern, Error> {
    Pattern::parse(path).map_err(|why| {
        Error::invalid("a path of the edge itself cannot be matched")
            .with_detail(format_args!("{path}: {why}"))
    })
}

/// The catch-all: it takes what no other route and no path of the edge itself does, and is no way around any of them.
#[derive(Debug)]
struct Rest {
    route: Arc<Route>,
    /// By their folded patterns, those that a service could mean by another spelling of their path.
    guarded: Tree<Pattern>,
}

impl Rest {
    fn new(route: &Arc<Route>, routes: &[Arc<Route>]) -> Self {
        let mut guarded: Tree<Pattern> = Tree::default();
        for other in routes.iter().filter(|other| other.demands_more_than(route)) {
            if let Ok(pattern) = Pattern::parse(&other.path) {
                guarded.entry(&pattern.folded()).push(pattern);
            }
        }
        Rest { route: route.clone(), guarded }
    }

    /// Takes a request, unless it is one of a guarded route in another spelling: its path differs in case or by a slash at the end,
    /// or its method in case. Many services mind neither.
    fn take(&self, method: &Method, path: &str) -> Result<Target, NoMatch> {
        let is_other = |pattern: &Pattern| (!pattern.matches(path)).then_some(());
        let is_plain = !method.as_str().bytes().any(|byte| byte.is_ascii_lowercase());
        match is_plain && self.guarded.find(&pattern::folded(path), is_other).is_none() {
            true => Ok(Target::Route(self.route.clone())),
            false => Err(NoMatch::Path),
        }
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::{Policy, Project, Tenant};
    use hapax_tower::Rule;

    use super::*;
    use crate::settings::{Auth, Edge, Level, TenantLimits, Upstream};

    fn table(routes: &[(&str, &str, Option<&str>)]) -> Result<Table, Error> {
        Table::new(&settings(routes))
    }

    fn settings(routes: &[(&str, &str, Option<&str>)]) -> Settings {
        let upstream = Arc::new(Upstream::new("a", "localhost", 1));
        let routes = routes.iter().map(|(method, path, operation)| Route {
            method: method.parse().unwrap(),
            path: (*path).into(),
            policy: if operation.is_some() { Policy::RequiredA } else { Policy::Prohibited },
            lenient: false,
            public: false,
            recall: true,
            level: Level::Project,
            upstream: upstream.clone(),
            rule: operation.map(|operation| Arc::new(Rule::new(operation).unwrap())),
            reconcile: None,
            handler: None,
        });
        Settings {
            edge: Edge::new(([127, 0, 0, 1], 0).into()),
            upstreams: BTreeMap::new(),
            routes: routes.collect(),
            auth: Auth::default(),
            tenants: TenantLimits::default(),
            webhooks: None,
        }
    }

    fn found(table: &Table, method: &str, path: &str) -> String {
        match table.find(&method.parse().unwrap(), path) {
            Ok(Target::Route(route)) => route.path.to_string(),
            Ok(Target::Recall(Recall { by: RecallBy::Key { key, routes, .. }, wait })) => {
                format!("key {key} {wait} {}", routes.len())
            }
            Ok(Target::Recall(Recall { by: RecallBy::Operation(id), wait })) => {
                format!("operation {id} {wait}")
            }
            Ok(Target::Webhook(webhook)) => format!("webhook {} {}", webhook.provider, webhook.id),
            Ok(Target::Page(code)) => format!("page {}", code.as_str()),
            Err(NoMatch::Path) => "unknown".into(),
            Err(NoMatch::Method(methods)) => methods,
            Err(NoMatch::Unclear) => "unclear".into(),
        }
    }

    #[test]
    fn a_request_matches_exactly_one_route_p2() {
        let table = table(&[
            ("POST", "/a", Some("a.create")),
            ("PUT", "/a", Some("a.replace")),
            ("GET", "/a/{id}", None),
            ("POST", "/a/me", None),
            ("POST", "/a/{order}/notes", Some("notes")),
            ("DELETE", "/a/{any}", None),
        ])
        .unwrap();
        let expected = [
            ("POST", "/a", "/a"),
            ("GET", "/a/7", "/a/{id}"),
            ("HEAD", "/a/7", "/a/{id}"),
            ("GET", "/a/me", "/a/{id}"),
            ("POST", "/a/me", "/a/me"),
            ("DELETE", "/a/me", "/a/{any}"),
            ("POST", "/a/7/notes", "/a/{order}/notes"),
            ("GET", "/a/by-idempotency-key/k", "key k true 2"),
            ("GET", "/a/by-idempotency-key/k/output", "key k false 2"),
            ("GET", "/a/7/notes/by-idempotency-key/k", "key k true 1"),
            ("GET", "/operations/op_1", "operation op_1 true"),
            ("GET", "/operations/op_1/output", "operation op_1 false"),
            ("GET", "/.well-known/hapax/errors/key-missing", "page key-missing"),
            ("GET", "/.well-known/hapax/errors/nonsense", "unknown"),
            ("PATCH", "/a", "POST, PUT, OPTIONS"),
            ("PATCH", "/a/7", "DELETE, GET, HEAD, OPTIONS"),
            ("POST", "/operations/op_1", "GET, HEAD, OPTIONS"),
            ("GET", "/b", "unknown"),
            ("GET", "/a/", "unknown"),
            ("GET", "/A/7", "unknown"),
        ];
        for (method, path, wanted) in expected {
            assert_eq!(found(&table, method, path), wanted, "{method} {path}");
        }
    }

    #[test]
    fn what_would_be_another_route_decoded_matches_none_p2() {
        let table = table(&[
            ("POST", "/a/all:cancel", None),
            ("POST", "/a/{id}", None),
            ("GET", "/b:c/{id}", Some("b.read")),
            ("PUT", "/only,this", None),
        ])
        .unwrap();
        for (method, path, wanted) in [
            ("POST", "/a/all:cancel", "/a/all:cancel"),
            ("POST", "/a/all%3Acancel", "unclear"),
            ("POST", "/a/all%3acancel", "unclear"),
            ("POST", "/a/all%3Acancel%20", "/a/{id}"),
            ("POST", "/a/x%3Acancel", "/a/{id}"),
            ("POST", "/a/%c3%a4", "/a/{id}"),
            ("GET", "/b:c/%20", "/b:c/{id}"),
            ("GET", "/b%3Ac/1", "unclear"),
            ("HEAD", "/b%3Ac/1", "unclear"),
            ("GET", "/b:c/%20/by-idempotency-key/k%21", "key k%21 true 1"),
            ("GET", "/b%3Ac/1/by-idempotency-key/k", "unclear"),
            ("GET", "/operations/op_1%21/output", "operation op_1%21 false"),
            ("GET", "/.well-known/hapax/errors/key%2Dmissing", "unclear"),
            ("PUT", "/only%2Cthis", "unclear"),
            ("PATCH", "/only%2Cthis", "unclear"),
            ("PATCH", "/a/all%3Acancel", "POST, OPTIONS"),
            ("PUT", "/other%2Cone", "unknown"),
        ] {
            assert_eq!(found(&table, method, path), wanted, "{method} {path}");
        }
    }

    #[test]
    fn a_route_with_an_escape_would_match_nothing_and_is_refused_p2() {
        for path in ["/%61", "/a%20b", "/a/%2e%2e", "/a/{b}/%"] {
            assert!(table(&[("GET", path, None)]).is_err(), "{path}");
        }
    }

    #[test]
    fn routes_that_match_the_same_requests_are_refused() {
        assert!(table(&[("GET", "/a/{b}", None), ("GET", "/a/{c}", None)]).is_err());
        assert!(table(&[("GET", "/operations/{x}", Some("x"))]).is_err());
        assert!(table(&[("GET", "/a/{b}", None), ("GET", "/a/c", None)]).is_ok());
    }

    /// Every path, with a catch-all behind the routes.
    fn with_rest(routes: &[(&str, &str, Option<&str>)]) -> Table {
        let mut all = routes.to_vec();
        all.insert(0, ("ANY", "/{*rest}", None));
        table(&all).unwrap()
    }

    #[test]
    fn a_catch_all_yields_to_every_other_route_and_to_the_paths_of_the_edge_p2() {
        let table = with_rest(&[("POST", "/a", Some("a.create")), ("GET", "/a/{id}", None)]);
        for (method, path, wanted) in [
            ("POST", "/a", "/a"),
            ("PUT", "/a", "/{*rest}"),
            ("GET", "/a", "/{*rest}"),
            ("HEAD", "/a", "/{*rest}"),
            ("GET", "/a/7", "/a/{id}"),
            ("HEAD", "/a/7", "/a/{id}"),
            ("OPTIONS", "/a/7", "/{*rest}"),
            ("GET", "/", "/{*rest}"),
            ("PURGE", "/deep/er/still", "/{*rest}"),
            ("GET", "/x%20y", "/{*rest}"),
            ("GET", "/a/by-idempotency-key/k", "key k true 1"),
            ("POST", "/a/by-idempotency-key/k", "GET, HEAD, OPTIONS"),
            ("DELETE", "/operations/op_1", "GET, HEAD, OPTIONS"),
            ("GET", "/operations", "/{*rest}"),
            ("GET", "/.well-known/hapax/errors/key-missing", "page key-missing"),
            ("GET", "/.well-known/hapax/errors/nonsense", "unknown"),
            ("GET", "/.well-known/hapax/other", "unknown"),
            ("GET", "/.well-known/other", "/{*rest}"),
        ] {
            assert_eq!(found(&table, method, path), wanted, "{method} {path}");
        }
        assert_eq!(table.methods("/a"), "DELETE, GET, PATCH, POST, PUT, HEAD, OPTIONS");
    }

    #[test]
    fn a_catch_all_is_no_way_around_a_keyed_route_p2() {
        let table = with_rest(&[
            ("POST", "/pay", Some("pay")),
            ("POST", "/orders/{id}/Refund", Some("refund")),
            ("PUT", "/slash/", Some("slash")),
            ("PUT", "/b:c", Some("colon")),
            ("POST", "/t/{id}", Some("t.one")),
            ("PUT", "/t/me", Some("t.me")),
            ("GET", "/free", None),
        ]);
        for (method, path, wanted) in [
            ("POST", "/Pay", "unknown"),
            ("POST", "/pay/", "unknown"),
            ("GET", "/PAY/", "unknown"),
            ("post", "/pay", "unknown"),
            ("Post", "/pay", "unknown"),
            ("POST", "/orders/7/refund", "unknown"),
            ("POST", "/ORDERS/A/Refund/", "unknown"),
            ("PUT", "/slash", "unknown"),
            ("PUT", "/b%3Ac", "unclear"),
            ("PUT", "/B%3AC", "unclear"),
            ("PUT", "/t/ME", "unknown"),
            // The same path with another method is another operation.
            ("GET", "/pay", "/{*rest}"),
            ("GET", "/t/ME2", "/{*rest}"),
            ("GET", "/orders/7/Refund", "/{*rest}"),
            ("GET", "/FREE/", "/{*rest}"),
            ("GET", "/payments", "/{*rest}"),
        ] {
            assert_eq!(found(&table, method, path), wanted, "{method} {path}");
        }
    }

    #[test]
    fn a_public_catch_all_is_no_way_around_credentials_p2() {
        for (public, wanted) in [(true, "unknown"), (false, "/{*rest}")] {
            let mut settings = settings(&[("GET", "/{*rest}", None), ("GET", "/admin", None)]);
            settings.routes[0].public = public;
            assert_eq!(Table::new(&settings).is_err(), public, "whose the callers are must be said");
            settings.auth.fixed =
                Fixed { tenant: Tenant::new("acme").ok(), project: Project::new("shop").ok() };
            assert_eq!(found(&Table::new(&settings).unwrap(), "GET", "/Admin"), wanted);
        }
    }

    #[test]
    fn the_leftmost_literal_wins_of_two_routes_that_match_p2() {
        let table = table(&[
            ("DELETE", "/issues/{n}/lock", Some("unlock")),
            ("DELETE", "/issues/comments/{id}", Some("comment.delete")),
            ("GET", "/compare/{base}...{head}", None),
            ("GET", "/compare/{any}", None),
        ])
        .unwrap();
        for (method, path, wanted) in [
            ("DELETE", "/issues/comments/lock", "/issues/comments/{id}"),
            ("DELETE", "/issues/7/lock", "/issues/{n}/lock"),
            ("GET", "/compare/main...dev", "/compare/{base}...{head}"),
            ("GET", "/compare/main", "/compare/{any}"),
        ] {
            assert_eq!(found(&table, method, path), wanted, "{method} {path}");
        }
    }

    #[test]
    fn recall_by_key_is_off_or_named_otherwise_where_that_is_said_h7() {
        let mut settings = settings(&[("POST", "/a", Some("a")), ("POST", "/b", Some("b"))]);
        settings.routes[1].recall = false;
        settings.edge.recall_segment = "recall".into();
        let table = Table::new(&settings).unwrap();
        assert_eq!(found(&table, "GET", "/a/recall/k"), "key k true 1");
        assert_eq!(found(&table, "GET", "/a/recall/k/output"), "key k false 1");
        for path in ["/a/by-idempotency-key/k", "/b/recall/k", "/b/by-idempotency-key/k"] {
            assert_eq!(found(&table, "GET", path), "unknown", "{path}");
        }
        assert_eq!(found(&table, "GET", "/operations/op_1"), "operation op_1 true");
    }
}

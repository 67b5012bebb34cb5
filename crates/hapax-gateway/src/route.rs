//! Which route, and which of the edge's own pages, a request is for.
//!
//! A request matches exactly one (P2). Beside the configured routes the edge has two kinds of its own: where outcomes are
//! recalled (H7), and the pages about problem codes (H1).

use std::collections::BTreeMap;
use std::sync::Arc;

use hapax_core::Error;
use hapax_http::head;
use hapax_tower::{Code, Problem};
use http::Method;
use http::header::{ALLOW, HeaderValue};
use matchit::Router;

use crate::settings::{Route, Settings};
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

#[derive(Debug)]
enum Place {
    Route(Arc<Route>),
    Key { routes: Arc<[Arc<Route>]>, wait: bool },
    Operation { wait: bool },
    Webhook,
    Page,
}

/// All routes of a configuration.
///
/// One router for each method: a path that another method has more exactly must not hide this method's.
#[derive(Debug)]
pub(crate) struct Table {
    methods: BTreeMap<String, Router<Place>>,
    /// By the name that claims are kept under, for what is recalled by operation id.
    operations: BTreeMap<String, Arc<Route>>,
}

impl Table {
    pub(crate) fn new(settings: &Settings) -> Result<Self, Error> {
        let mut table = Table { methods: BTreeMap::new(), operations: BTreeMap::new() };
        let mut keyed: BTreeMap<String, Vec<Arc<Route>>> = BTreeMap::new();
        for route in &settings.routes {
            let (route, path) = (Arc::new(route.clone()), plain(&route.path));
            if let Some(rule) = &route.rule {
                table.operations.insert(rule.operation.to_string(), route.clone());
                keyed.entry(path.trim_end_matches('/').to_owned()).or_default().push(route.clone());
            }
            table.insert(route.method.as_str(), &path, Place::Route(route.clone()))?;
        }
        for (path, routes) in keyed {
            let (routes, recall): (Arc<[_]>, _) =
                (routes.into(), format!("{path}/by-idempotency-key/{{key}}"));
            table.insert(
                "GET",
                &format!("{recall}/output"),
                Place::Key { routes: routes.clone(), wait: false },
            )?;
            table.insert("GET", &recall, Place::Key { routes, wait: true })?;
        }
        if !table.operations.is_empty() {
            let operation = format!("{}/{{id}}", settings.edge.operations_prefix);
            table.insert("GET", &format!("{operation}/output"), Place::Operation { wait: false })?;
            table.insert("GET", &operation, Place::Operation { wait: true })?;
        }
        if let Some(webhooks) = &settings.webhooks {
            let path = format!("{}/{{provider}}/{{webhook_id}}", webhooks.prefix);
            table.insert("POST", &path, Place::Webhook)?;
        }
        table.insert("GET", &format!("{}{{code}}", limits::DOCS), Place::Page)?;
        Ok(table)
    }

    fn insert(&mut self, method: &str, path: &str, place: Place) -> Result<(), Error> {
        if path.contains('%') {
            return Err(Error::invalid("the path of a route is written without escapes").with_detail(path));
        }
        self.methods.entry(method.to_owned()).or_default().insert(path, place).map_err(|error| {
            Error::invalid("two routes match the same requests")
                .with_detail(format_args!("{method} {path}: {error}"))
        })
    }

    /// The route of an operation, by the name that its claims are kept under.
    pub(crate) fn of_operation(&self, operation: &str) -> Option<&Arc<Route>> {
        self.operations.get(operation)
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

    /// `HEAD` follows `GET` where it has no route of its own (P7).
    fn find_as_is(&self, method: &Method, path: &str) -> Result<Target, NoMatch> {
        let own = self.at(method.as_str(), path);
        let found = if own.is_none() && *method == Method::HEAD { self.at("GET", path) } else { own };
        found.ok_or_else(|| match self.allowed(path) {
            methods if methods.is_empty() => NoMatch::Path,
            methods => NoMatch::Method(methods),
        })
    }

    fn at(&self, method: &str, path: &str) -> Option<Target> {
        let found = self.methods.get(method)?.at(path).ok()?;
        let parameter = |name: &str| found.params.get(name).unwrap_or_default().to_owned();
        Some(match found.value {
            Place::Route(route) => Target::Route(route.clone()),
            Place::Key { routes, wait } => {
                // Behind it come the word, the key, and `output` for who does not wait.
                let before = path.rsplitn(if *wait { 3 } else { 4 }, '/').last().unwrap_or_default();
                let path = if before.is_empty() { "/" } else { before }.to_owned();
                let by = RecallBy::Key { routes: routes.clone(), key: parameter("key"), path };
                Target::Recall(Recall { by, wait: *wait })
            }
            Place::Operation { wait } => {
                Target::Recall(Recall { by: RecallBy::Operation(parameter("id")), wait: *wait })
            }
            Place::Webhook => {
                let (provider, id) = (parameter("provider"), parameter("webhook_id"));
                Target::Webhook(WebhookPath { provider, id })
            }
            Place::Page => Target::Page(pages::code(&parameter("code"))?),
        })
    }

    /// The methods that this path takes; empty where it is unknown.
    fn allowed(&self, path: &str) -> String {
        let known = self.methods.keys().filter(|method| self.at(method, path).is_some());
        let mut methods: Vec<&str> = known.map(String::as_str).collect();
        if methods.is_empty() {
            return String::new();
        }
        for (implied, by) in [("HEAD", Some("GET")), ("OPTIONS", None)] {
            if !methods.contains(&implied) && by.is_none_or(|by| methods.contains(&by)) {
                methods.push(implied);
            }
        }
        methods.join(", ")
    }
}

/// The path with its parameters numbered: how two routes name the same place does not matter.
fn plain(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    for (number, segment) in path.split('/').enumerate() {
        if number > 0 {
            plain.push('/');
        }
        match segment.starts_with('{') && segment.ends_with('}') {
            true => plain.push_str(&format!("{{p{number}}}")),
            false => plain.push_str(segment),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use hapax_core::Policy;
    use hapax_tower::Rule;

    use super::*;
    use crate::settings::{Auth, Edge, Level, TenantLimits, Upstream};

    fn table(routes: &[(&str, &str, Option<&str>)]) -> Result<Table, Error> {
        let upstream = Arc::new(Upstream::new("a", "localhost", 1));
        let routes = routes.iter().map(|(method, path, operation)| Route {
            method: method.parse().unwrap(),
            path: (*path).into(),
            policy: if operation.is_some() { Policy::RequiredA } else { Policy::Prohibited },
            lenient: false,
            level: Level::Project,
            upstream: upstream.clone(),
            rule: operation.map(|operation| Arc::new(Rule::new(operation).unwrap())),
            reconcile: None,
        });
        let settings = Settings {
            edge: Edge::new(([127, 0, 0, 1], 0).into()),
            upstreams: BTreeMap::new(),
            routes: routes.collect(),
            auth: Auth::default(),
            tenants: TenantLimits::default(),
            webhooks: None,
        };
        Table::new(&settings)
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
}

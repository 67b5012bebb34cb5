//! `hapax doctor` for Restate clusters: what only the cluster itself can tell (D).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use hapax_core::Retention;
use hapax_gateway::restate::{Admin, OLDEST_SERVER, Registered, RegisteredHandler, marks_kept_answers, span};
use hapax_gateway::settings::{Handler, Node, Route, Upstream};

use super::Check;
use crate::admin::admin_of;
use crate::config::{Config, retention_text};

const WHAT: &str = "restate";

/// Checks every cluster that a configuration names.
pub(super) async fn check(config: &Config) -> Vec<Check> {
    let mut checks = Vec::new();
    for upstream in config.settings.upstreams.values().filter(|upstream| upstream.cluster.is_some()) {
        match admin_of(upstream) {
            Ok(admin) => cluster(config, upstream, &admin, &mut checks).await,
            Err(error) => {
                checks.push(Check::fail(WHAT, format!("{}: {error:#}", upstream.name), "mend its addresses"))
            }
        }
    }
    checks
}

async fn cluster(config: &Config, upstream: &Upstream, admin: &Admin, checks: &mut Vec<Check>) {
    let name = &upstream.name;
    match admin.version().await {
        Err(away) => {
            let remedy = "start it, or mend `admin`: retries are not compared without it (503)";
            checks.push(Check::fail(WHAT, format!("{name}: {away}"), remedy));
            return;
        }
        Ok(version) => checks.push(of_version(name, &version)),
    }
    if let Some(cluster) = &upstream.cluster {
        for node in &cluster.ingress {
            checks.push(reached(name, node, cluster.connect_timeout).await);
        }
        for node in cluster.ingress.iter().chain(&cluster.admin) {
            checks.extend(exposed(config, name, node));
        }
    }
    checks.push(marks(upstream).await);
    let services = match admin.services().await {
        Ok(services) => services,
        Err(away) => {
            checks.push(Check::fail(WHAT, format!("{name}: {away}"), "ask it again"));
            return;
        }
    };
    let mut asked: BTreeMap<&str, Vec<Wanted<'_>>> = BTreeMap::new();
    for wanted in wanted(config).into_iter().filter(|wanted| wanted.route.upstream.name == *name) {
        asked.entry(&wanted.handler.service).or_default().push(wanted);
    }
    for (service, wanted) in asked {
        match services.iter().find(|registered| registered.name == service) {
            Some(registered) => of_service(name, registered, &wanted, checks),
            None => checks.push(Check::fail(
                WHAT,
                format!("{name}: no service {service} is registered"),
                "register its deployment, or mend the route",
            )),
        }
    }
}

/// What a route or deliveries need of a service.
struct Wanted<'a> {
    route: &'a Route,
    handler: &'a Handler,
    /// How long outcomes are kept, and the class that says so; `None` where nothing is kept under a key of hapax.
    kept: Option<(Retention, Option<&'a str>)>,
    /// The providers whose names stand for `{provider}`; empty where any may be served.
    providers: &'a [String],
}

/// What all routes to handlers need, those without a key among them, and deliveries.
fn wanted(config: &Config) -> Vec<Wanted<'_>> {
    let routes = config.settings.routes.iter().zip(&config.declared).filter_map(|(route, declared)| {
        let class = declared.retention_class.as_deref();
        let kept = route.rule.as_ref().map(|rule| (rule.retention, class));
        Some(Wanted { route, handler: route.handler.as_ref()?, kept, providers: &[] })
    });
    let webhooks = config.settings.webhooks.as_ref().and_then(|webhooks| {
        let route: &Route = &webhooks.route;
        let kept = Some((webhooks.rule.retention, config.webhook_retention.as_deref()));
        Some(Wanted { route, handler: route.handler.as_ref()?, kept, providers: &webhooks.enabled })
    });
    routes.chain(webhooks).collect()
}

impl Wanted<'_> {
    /// The handlers that are called. Where deliveries of any provider may come, those that are there.
    fn handlers(&self, registered: &Registered) -> Vec<String> {
        match (self.handler.name.as_str(), self.providers) {
            ("{provider}", []) => registered.handlers.iter().map(|found| found.name.clone()).collect(),
            ("{provider}", enabled) => enabled.to_vec(),
            (name, _) => vec![name.to_owned()],
        }
    }
}

fn of_version(name: &str, version: &str) -> Check {
    let mut parts = version.split(['.', '-']).map(|part| part.parse::<u64>().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    let found = (next(), next(), next());
    let (major, minor, patch) = OLDEST_SERVER;
    match found >= OLDEST_SERVER {
        true => Check::ok(WHAT, format!("{name}: version {version}")),
        false => Check::fail(
            WHAT,
            format!("{name}: version {version} does not say where an error comes from"),
            format!("use {major}.{minor}.{patch} or later"),
        ),
    }
}

/// What tells replays apart is not documented anywhere: here it is looked at.
async fn marks(upstream: &Upstream) -> Check {
    let name = &upstream.name;
    match marks_kept_answers(upstream).await {
        Ok(Some(true)) => Check::ok(WHAT, format!("{name}: kept answers say until when")),
        Ok(Some(false)) => Check::fail(
            WHAT,
            format!(
                "{name}: kept answers do not say until when, so that replays would be taken for executions"
            ),
            "use a server that this hapax was tested with",
        ),
        Ok(None) => Check::ok(WHAT, format!("{name}: no outcome is kept yet that could be looked at")),
        Err(away) => Check::fail(WHAT, format!("{name}: {away}"), "ask it again"),
    }
}

async fn reached(name: &str, node: &Node, patience: Duration) -> Check {
    let to = format!("{}:{}", node.host.trim_matches(['[', ']']), node.port);
    match tokio::time::timeout(patience, tokio::net::TcpStream::connect(&to)).await {
        Ok(Ok(_)) => Check::ok(WHAT, format!("{name}: the ingress {node} can be reached")),
        Ok(Err(error)) => Check::fail(
            WHAT,
            format!("{name}: the ingress {node} cannot be reached: {error}"),
            "start it, or mend `ingress`",
        ),
        Err(_) => Check::fail(
            WHAT,
            format!("{name}: the ingress {node} cannot be reached in time"),
            "start it, or mend `ingress`",
        ),
    }
}

/// Whoever reaches ingress or admin API goes around the edge: they ask nobody who he is. Of a name nothing can be told.
fn exposed(config: &Config, name: &str, node: &Node) -> Option<Check> {
    let edge = config.settings.edge.listen.ip();
    let address: IpAddr = node.host.trim_matches(['[', ']']).parse().ok()?;
    if edge.is_loopback() || address.is_loopback() {
        return None;
    }
    Some(Check::warn(
        WHAT,
        format!("{name}: {node} is on a network, and the edge listens on one, too ({edge})"),
        "let nobody but the edge reach it: it asks no caller who it is, and takes any key",
    ))
}

fn of_service(name: &str, registered: &Registered, wanted: &[Wanted<'_>], checks: &mut Vec<Check>) {
    let service = &registered.name;
    let fail = |found: String, remedy: &str| Check::fail(WHAT, format!("{name}: {found}"), remedy);
    let mut spans: Vec<Retention> = Vec::new();
    for (retention, class) in wanted.iter().filter_map(|wanted| wanted.kept) {
        if !spans.contains(&retention) {
            spans.push(retention);
            kept(name, registered, (retention, class), checks);
        }
    }
    if spans.len() > 1 {
        checks.push(fail(format!("{service} has routes of several retentions"), "name one for all of them"));
    }
    let mut told = BTreeSet::new();
    for wanted in wanted {
        let handler = wanted.handler;
        let type_expected = match (&handler.key, handler.workflow) {
            (_, true) => "Workflow",
            (Some(_), false) => "VirtualObject",
            (None, false) => "Service",
        };
        if registered.ty != type_expected {
            let what = format!("{service} is a {}, and its route says {type_expected}", registered.ty);
            checks.push(fail(what, "say `key` for objects and workflows, and `workflow = true` for these"));
        }
        for called in wanted.handlers(registered) {
            match registered.handlers.iter().find(|found| found.name == called) {
                None => checks.push(fail(
                    format!("{service} has no handler {called}"),
                    "mend the route, or register it",
                )),
                Some(found) => {
                    if wanted.kept.is_some()
                        && (found.idempotency_retention.is_some() || found.journal_retention.is_some())
                    {
                        let what =
                            format!("the handler {service}/{called} has a retention of its own, which wins");
                        checks.push(fail(
                            what,
                            "remove it from the handler: `hapax retention set` sets the service's",
                        ));
                    }
                    if told.insert(called) {
                        checks.push(end(name, registered, found));
                    }
                }
            }
        }
    }
}

/// What becomes of a call of this handler that keeps failing.
fn end(name: &str, registered: &Registered, found: &RegisteredHandler) -> Check {
    let (own, of_service) = (found.retry_policy.as_ref(), registered.retry_policy.as_ref());
    let end = own.and_then(|policy| policy.on_max_attempts.as_deref());
    let end = end.or(of_service.and_then(|policy| policy.on_max_attempts.as_deref())).unwrap_or("Pause");
    let most = own.and_then(|policy| policy.max_attempts);
    let most = most.or(of_service.and_then(|policy| policy.max_attempts));
    let after = most.map_or("without end".into(), |most| format!("after {most} attempts"));
    let what = format!("{name}: {}/{} ends {after}: on_max_attempts = {end}", registered.name, found.name);
    match end {
        "Pause" => Check::warn(
            WHAT,
            what,
            "callers of a paused call are told outcome-unknown until an operator decides; kill where nothing has to be compensated",
        ),
        _ => Check::warn(WHAT, what, "a call that is killed runs no compensation: pause where it has some"),
    }
}

/// Outcome and journal are kept together, and as long as the routes say.
fn kept(
    name: &str,
    registered: &Registered,
    (retention, class): (Retention, Option<&str>),
    checks: &mut Vec<Check>,
) {
    let service = &registered.name;
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "nothing".into());
    let (outcome, journal) = (text(&registered.idempotency_retention), text(&registered.journal_retention));
    let spans = (span(&outcome), span(&journal));
    let what = format!("{name}: {service} keeps outcomes for {outcome} and journals for {journal}");
    let asked = retention_text(retention);
    let is_as_asked = matches!((retention, spans.0), (Retention::For(asked), Some(kept)) if asked == kept);
    checks.push(match spans {
        (Some(outcome), Some(journal)) if journal < outcome => {
            Check::fail(WHAT, what, "set both together: without its journal a request cannot be compared")
        }
        (Some(_), Some(_)) if is_as_asked => Check::ok(WHAT, what),
        (Some(_), Some(_)) => Check::warn(WHAT, what, match class {
            Some(class) => {
                format!("its routes say {asked}: `hapax retention set {class} {asked}` tells the cluster")
            }
            None => format!(
                "its routes say {asked} and name no class: give them one of [retention], with which `hapax retention set` tells the cluster"
            ),
        }),
        _ => Check::warn(WHAT, what, "what it says cannot be read"),
    });
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::config::{self, Secrets};

    fn configured(edge: &str, cluster: &str) -> Config {
        let text = format!(
            "[edge]\nlisten = \"{edge}:8080\"\n[auth.api_keys]\n[upstreams.engine]\nkind = \"restate\"\n\
             ingress = \"http://{cluster}:8080\"\nadmin = \"http://{cluster}:9070\"\n\
             [[routes]]\nmethod = \"POST\"\npath = \"/pay\"\noperation = \"pay\"\npolicy = \"REQUIRED_A\"\nupstream = \"engine\"\n\
             restate = {{ service = \"S\", handler = \"h\" }}\n"
        );
        config::read(&text, Path::new("hapax.toml"), &|_| None, Secrets::MayBeAbsent)
            .expect("a configuration")
    }

    /// What is said of a service whose one handler a route leads to.
    fn told(service: serde_json::Value) -> String {
        told_by(&configured("127.0.0.1", "127.0.0.1"), service)
    }

    fn told_by(config: &Config, mut service: serde_json::Value) -> String {
        service["name"] = "S".into();
        let registered: Registered = serde_json::from_value(service).expect("a service");
        let mut checks = Vec::new();
        of_service("engine", &registered, &wanted(config), &mut checks);
        checks.iter().map(|check| format!("{check:?}\n")).collect()
    }

    #[test]
    fn a_server_that_is_too_old_is_refused_m6() {
        for (version, is_old) in [
            ("1.7.4", false),
            ("1.7.12", false),
            ("2.0.0-rc.1", false),
            ("1.7.3", true),
            ("1.6.9", true),
            ("?", true),
        ] {
            let told = format!("{:?}", of_version("engine", version));
            assert_eq!(told.contains("use 1.7.4 or later"), is_old, "{version}: {told}");
        }
    }

    #[test]
    fn a_cluster_that_others_can_reach_is_told_where_that_can_be_seen_m6() {
        for (edge, cluster, is_told) in [
            ("0.0.0.0", "10.0.0.1", true),
            ("192.0.2.1", "192.0.2.2", true),
            ("127.0.0.1", "10.0.0.1", false),
            ("0.0.0.0", "127.0.0.1", false),
            // Of a name nothing can be told.
            ("0.0.0.0", "engine.internal", false),
        ] {
            let config = configured(edge, cluster);
            let node = Node::new(cluster, 8080);
            assert_eq!(exposed(&config, "engine", &node).is_some(), is_told, "{edge} {cluster}");
        }
    }

    #[test]
    fn what_a_handler_says_of_itself_wins_and_is_told_d2() {
        let kept = json!({
            "ty": "Service", "idempotency_retention": "1d", "journal_retention": "1d",
            "handlers": [{"name": "h"}], "retry_policy": {"max_attempts": 3, "on_max_attempts": "Pause"},
        });
        let fine = told(kept.clone());
        assert!(fine.contains("keeps outcomes for 1d and journals for 1d"), "{fine}");
        assert!(fine.contains("after 3 attempts: on_max_attempts = Pause"), "{fine}");
        assert!(!fine.contains("of its own") && !fine.contains("set both together"), "{fine}");
        for (place, value, tells) in [
            ("/handlers/0/idempotency_retention", json!("1h"), "has a retention of its own, which wins"),
            ("/handlers/0/journal_retention", json!("1h"), "has a retention of its own, which wins"),
            (
                "/handlers/0/retry_policy",
                json!({"max_attempts": 1, "on_max_attempts": "Kill"}),
                "on_max_attempts = Kill",
            ),
            ("/handlers/0/name", json!("other"), "S has no handler h"),
            ("/ty", json!("VirtualObject"), "S is a VirtualObject, and its route says Service"),
            ("/journal_retention", json!("1h"), "set both together"),
            ("/idempotency_retention", json!("12h"), "`hapax retention set interactive 24h`"),
            ("/retry_policy", json!(null), "ends without end: on_max_attempts = Pause"),
        ] {
            let mut service = kept.clone();
            let (parent, member) = place.rsplit_once('/').expect("a pointer");
            service.pointer_mut(parent).expect("a place")[member] = value;
            let told = told(service);
            assert!(told.contains(tells), "{place}: {told}");
        }
    }

    const DELIVERIES: &str = "[upstreams.engine]\nkind = \"restate\"\ningress = \"http://127.0.0.1:8080\"\n\
                              admin = \"http://127.0.0.1:9070\"\n[webhooks]\nupstream = \"engine\"\n\
                              restate = { service = \"S\", handler = \"{provider}\" }\n";

    fn read(text: &str) -> Config {
        config::read(text, Path::new("hapax.toml"), &|_| None, Secrets::MayBeAbsent).expect("a configuration")
    }

    #[test]
    fn a_service_for_deliveries_is_looked_at_provider_by_provider_m6() {
        let service = json!({
            "ty": "Service", "idempotency_retention": "1d", "journal_retention": "1h",
            "handlers": [{"name": "github", "idempotency_retention": "1h"}],
        });
        let told =
            told_by(&read(&format!("{DELIVERIES}enabled = [\"github\", \"stripe\"]\n")), service.clone());
        for tells in [
            "S has no handler stripe",
            "the handler S/github has a retention of its own, which wins",
            "S/github ends without end: on_max_attempts = Pause",
            "set both together",
        ] {
            assert!(told.contains(tells), "{tells}: {told}");
        }
        assert!(!told.contains("{provider}"), "{told}");
        // Of any provider: those that are there are looked at, and none is missing.
        let told = told_by(&read(DELIVERIES), service);
        assert!(told.contains("the handler S/github") && !told.contains("has no handler"), "{told}");
        // Kept for a shorter time than deliveries say, who name no class that could be set.
        let short = json!({ "ty": "Service", "idempotency_retention": "1d", "journal_retention": "1d", "handlers": [] });
        let told = told_by(&read(DELIVERIES), short);
        assert!(told.contains("name no class: give them one of [retention]"), "{told}");
    }

    #[test]
    fn a_route_without_a_key_leads_to_a_handler_that_is_there_m6() {
        let text = "[auth.api_keys]\n[upstreams.engine]\nkind = \"restate\"\ningress = \"http://127.0.0.1:8080\"\nadmin = \"http://127.0.0.1:9070\"\n\
                    [[routes]]\nmethod = \"POST\"\npath = \"/a/{id}\"\npolicy = \"PROHIBITED\"\nupstream = \"engine\"\n\
                    restate = { service = \"S\", handler = \"run\", key = \"{id}\", workflow = true }\n\
                    [[routes]]\nmethod = \"POST\"\npath = \"/b\"\npolicy = \"HANDLER_INTERNAL_C\"\nupstream = \"engine\"\n\
                    restate = { service = \"S\", handler = \"x\" }\n";
        let service = json!({ "ty": "Service", "idempotency_retention": "1d", "journal_retention": "1h", "handlers": [{"name": "y"}] });
        let told = told_by(&read(text), service);
        for tells in
            ["S has no handler run", "S has no handler x", "S is a Service, and its route says Workflow"]
        {
            assert!(told.contains(tells), "{tells}: {told}");
        }
        assert!(!told.contains("keeps outcomes"), "nothing is kept under a key of hapax: {told}");
    }
}

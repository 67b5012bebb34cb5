//! `hapax doctor` for Restate clusters: what only the cluster itself can tell (D).

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use hapax_core::Retention;
use hapax_gateway::restate::{Admin, OLDEST_SERVER, Registered, marks_kept_answers, span};
use hapax_gateway::settings::{Handler, Node, Upstream};

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
    let mut asked: BTreeMap<&str, Vec<(&Handler, Retention)>> = BTreeMap::new();
    let routes =
        config.settings.routes.iter().filter_map(|route| {
            Some((&route.upstream, route.handler.as_ref()?, route.rule.as_ref()?.retention))
        });
    let webhooks = config.settings.webhooks.as_ref();
    let deliveries = webhooks.and_then(|webhooks| {
        Some((&webhooks.route.upstream, webhooks.route.handler.as_ref()?, webhooks.rule.retention))
    });
    for (_, handler, retention) in routes.chain(deliveries).filter(|(behind, ..)| behind.name == *name) {
        asked.entry(&handler.service).or_default().push((handler, retention));
    }
    for (service, handlers) in asked {
        match services.iter().find(|registered| registered.name == service) {
            Some(registered) => of_service(name, registered, &handlers, checks),
            None => checks.push(Check::fail(
                WHAT,
                format!("{name}: no service {service} is registered"),
                "register its deployment, or mend the route",
            )),
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

fn of_service(
    name: &str,
    registered: &Registered,
    handlers: &[(&Handler, Retention)],
    checks: &mut Vec<Check>,
) {
    let service = &registered.name;
    let fail = |found: String, remedy: &str| Check::fail(WHAT, format!("{name}: {found}"), remedy);
    let mut wanted: Vec<Retention> = handlers.iter().map(|(_, retention)| *retention).collect();
    wanted.dedup();
    if wanted.len() > 1 {
        checks.push(fail(format!("{service} has routes of several retentions"), "name one for all of them"));
    }
    for (handler, retention) in handlers {
        let Some(found) = registered.handlers.iter().find(|found| found.name == handler.name) else {
            if handler.name != "{provider}" {
                checks.push(fail(format!("{service} has no handler {}", handler.name), "mend the route"));
            }
            continue;
        };
        let type_expected = match (&handler.key, handler.workflow) {
            (_, true) => "Workflow",
            (Some(_), false) => "VirtualObject",
            (None, false) => "Service",
        };
        if registered.ty != type_expected {
            let what = format!("{service} is a {}, and its route says {type_expected}", registered.ty);
            checks.push(fail(what, "say `key` for objects and workflows, and `workflow = true` for these"));
        }
        if found.idempotency_retention.is_some() || found.journal_retention.is_some() {
            let what =
                format!("the handler {service}/{} has a retention of its own, which wins", handler.name);
            checks.push(fail(what, "remove it from the handler: `hapax retention set` sets the service's"));
        }
        let policy = found.retry_policy.as_ref().filter(|policy| policy.on_max_attempts.is_some());
        let policy = policy.or(registered.retry_policy.as_ref());
        let end = policy.and_then(|policy| policy.on_max_attempts.as_deref()).unwrap_or("Pause");
        let most = found.retry_policy.as_ref().and_then(|policy| policy.max_attempts);
        let most = most.or(registered.retry_policy.as_ref().and_then(|policy| policy.max_attempts));
        let after = most.map_or("without end".into(), |most| format!("after {most} attempts"));
        let what = format!("{name}: {service}/{} ends {after}: on_max_attempts = {end}", handler.name);
        checks.push(match end {
            "Pause" => Check::warn(WHAT, what, "callers of a paused call are told outcome-unknown until an operator decides; kill where nothing has to be compensated"),
            _ => Check::warn(WHAT, what, "a call that is killed runs no compensation: pause where it has some"),
        });
        kept(name, registered, *retention, checks);
    }
}

/// Outcome and journal are kept together, and as long as the routes say.
fn kept(name: &str, registered: &Registered, retention: Retention, checks: &mut Vec<Check>) {
    let service = &registered.name;
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "nothing".into());
    let (outcome, journal) = (text(&registered.idempotency_retention), text(&registered.journal_retention));
    let spans = (span(&outcome), span(&journal));
    let what = format!("{name}: {service} keeps outcomes for {outcome} and journals for {journal}");
    let asked = retention_text(retention);
    let is_as_asked = matches!((retention, spans.0), (Retention::For(asked), Some(kept)) if asked == kept);
    let check = match spans {
        (Some(outcome), Some(journal)) if journal < outcome => {
            Check::fail(WHAT, what, "set both together: without its journal a request cannot be compared")
        }
        (Some(_), Some(_)) if is_as_asked => Check::ok(WHAT, what),
        (Some(_), Some(_)) => {
            let remedy =
                format!("its routes say {asked}: `hapax retention set CLASS {asked}` tells the cluster");
            Check::warn(WHAT, what, remedy)
        }
        _ => Check::warn(WHAT, what, "what it says cannot be read"),
    };
    if !checks.iter().any(|known| known.found == check.found) {
        checks.push(check);
    }
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
    fn told(mut service: serde_json::Value) -> String {
        service["name"] = "S".into();
        let registered: Registered = serde_json::from_value(service).expect("a service");
        let config = configured("127.0.0.1", "127.0.0.1");
        let handler = config.settings.routes[0].handler.clone().expect("a handler");
        let mut checks = Vec::new();
        of_service(
            "engine",
            &registered,
            &[(&handler, Retention::For(Duration::from_secs(86_400)))],
            &mut checks,
        );
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
            ("/idempotency_retention", json!("12h"), "`hapax retention set CLASS 24h`"),
            ("/retry_policy", json!(null), "ends without end: on_max_attempts = Pause"),
        ] {
            let mut service = kept.clone();
            let (parent, member) = place.rsplit_once('/').expect("a pointer");
            service.pointer_mut(parent).expect("a place")[member] = value;
            let told = told(service);
            assert!(told.contains(tells), "{place}: {told}");
        }
    }
}

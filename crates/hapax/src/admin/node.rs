//! The process itself, as operators and their tools look at it: alive, ready, metrics, routes, descriptions.

use hapax_agent::actions::lanes_waiting;
use hapax_api::operations as op;
use hapax_api::{
    ADMIN_DOCUMENT, Health, HealthStatus, Markdown, OpenMetrics, Readiness, Route, RouteRetention, Routes,
    UpstreamShown, Upstreams, Written,
};
use hapax_core::fingerprint::BodyRecipe;
use hapax_core::{Ledger as _, Policy, Rerun, Retention, Width};
use hapax_exec::Attach;
use hapax_gateway::metrics::Vitals;
use hapax_gateway::settings;
use hapax_tower::{Keep, Rule};

use super::access::Operator;
use super::{AdminState, view};
use crate::config::retention_text;
use crate::config::units::show_duration;
use crate::listen::mount::Asked;
use crate::listen::refusal::{self, Refusal};
use crate::log;

/// The process lives.
pub(super) async fn health(_: AdminState, _: Asked<op::Health>) -> Result<Health, Refusal> {
    Ok(Health { status: HealthStatus::Ok })
}

/// The process can serve.
pub(super) async fn readiness(state: AdminState, _: Asked<op::Readiness>) -> Result<Readiness, Refusal> {
    let draining = state.gateway.admission().is_draining();
    let ending = draining.then(|| "this instance is about to end".to_owned());
    let reasons: Vec<_> = ending.into_iter().chain(state.health.in_the_way()).collect();
    Ok(Readiness { ready: reasons.is_empty(), reasons })
}

pub(super) async fn metrics(state: AdminState, _: Asked<op::Metrics>) -> Result<OpenMetrics, Refusal> {
    let metrics = state.gateway.metrics();
    metrics.set_log_lines_dropped(log::left_out());
    let (session, tally) = (state.store.session(), state.store.tally());
    metrics.set_vitals(Vitals {
        session_age: session.term.saturating_sub(session.left),
        sweep_lag: tally.sweep_lag(),
        journal_appends: tally.appends(),
        lanes_waiting: lanes_waiting(),
    });
    Ok(OpenMetrics(metrics.render()))
}

/// What a problem's `type` leads to, as at the edge.
pub(super) async fn problem_page(_: AdminState, asked: Asked<op::ProblemPage>) -> Result<Markdown, Refusal> {
    refusal::page(&asked.id).map(Markdown).ok_or_else(|| Refusal::not_found("there is no such code"))
}

pub(super) async fn openapi(_: AdminState, _: Operator, _: Asked<op::Openapi>) -> Result<Written, Refusal> {
    Ok(Written(ADMIN_DOCUMENT))
}

pub(super) async fn routes(state: AdminState, _: Operator, _: Asked<op::Routes>) -> Result<Routes, Refusal> {
    let classes = state.keeping.classes_of_routes().await;
    let settings = state.keeping.settings().borrow();
    let classes = classes.into_iter().chain(std::iter::repeat(None));
    Ok(Routes {
        routes: settings.routes.iter().zip(classes).map(|(route, class)| shown(route, class)).collect(),
    })
}

fn shown(route: &settings::Route, class: Option<String>) -> Route {
    let rule = route.rule.as_deref();
    let attach = |rule: &Rule| match rule.attach {
        Attach::Wait(bound) => format!("waits up to {}", show_duration(bound)),
        Attach::Reject => "is refused".into(),
    };
    let keep = |rule: &Rule| match rule.keep {
        Keep::Full => "full",
        Keep::Head => "head",
        Keep::Fact => "fact",
    };
    let kept = |rule: &Rule| RouteRetention { class: class.clone(), kept: retention_text(rule.retention) };
    // What only the ledger does has no meaning where a cluster keeps the claim.
    let here = rule.filter(|_| route.handler.is_none());
    let ends = |rule: &Rule| (!rule.give_up.is_zero()).then(|| show_duration(rule.give_up));
    Route {
        method: route.method.as_str().to_owned(),
        path: route.path.to_string(),
        policy: route.policy.as_str().to_owned(),
        upstream: route.upstream.name.to_string(),
        operation: rule.map(|rule| rule.name().as_str().to_owned()),
        first_name: rule.map(|rule| rule.operation.as_str().to_owned()),
        scope: rule.map(|rule| rule.width.as_str().to_owned()),
        rerun: here.map(|rule| hapax_api::Rerun::from(rule.rerun).to_string()),
        retention: rule.map(kept),
        fingerprint: rule.map(fingerprint),
        attach: rule.map(attach),
        timeout: show_duration(route.timeout()),
        give_up: here.and_then(ends),
        keep: here.map(|rule| keep(rule).to_owned()),
        mismatch_status: rule.map(|rule| rule.mismatch_status),
        says: says(route, rule.map(attach)),
    }
}

fn fingerprint(rule: &Rule) -> String {
    match rule.recipe.body() {
        BodyRecipe::Json { .. } => "json",
        BodyRecipe::Form => "form",
        BodyRecipe::None => "none",
        _ => "raw",
    }
    .to_owned()
}

/// The policy of a route in plain words, made from what it does.
fn says(route: &settings::Route, attach: Option<String>) -> String {
    let asked = match route.policy {
        Policy::RequiredA => "A key is required.",
        Policy::RequiredB => "The sender's own identifier is the key.",
        Policy::Accepted => {
            "A key is accepted; without one a request is passed on as it is, unless its content is the key."
        }
        Policy::Prohibited if route.lenient => "A key has no effect: requests are passed on as they are.",
        Policy::Prohibited => "No key is accepted: requests are passed on as they are.",
        Policy::HandlerInternalC => {
            "The handler behind tells repeated requests apart by itself; hapax passes them on."
        }
    };
    let Some(rule) = &route.rule else { return asked.to_owned() };
    let who = match rule.width {
        Width::Subject => "the same caller",
        Width::Project => "any caller of the same project",
        Width::Tenant => "any caller of the same tenant",
    };
    let kept = match rule.retention {
        _ if route.handler.is_some() => "as long as the cluster keeps it".to_owned(),
        Retention::Forever => "for ever".to_owned(),
        retention => format!("for {}", retention_text(retention)),
    };
    let doubt = match rule.rerun {
        _ if route.handler.is_some() => "A cluster keeps the claim.",
        Rerun::Safe => "If it is not known whether it ran, it runs again.",
        Rerun::Ask => "If it is not known whether it ran, the service is asked.",
        Rerun::Unsafe => "If it is not known whether it ran, it waits for a person.",
    };
    let second = attach
        .map(|attach| format!(" A second request that comes while the first one runs {attach}."))
        .unwrap_or_default();
    let mismatch = rule.mismatch_status;
    format!(
        "{asked} A retry of {who} gets the first answer {kept}. Another request under the same key is refused with {mismatch}.{second} {doubt}"
    )
}

pub(super) async fn upstreams(
    state: AdminState,
    _: Operator,
    _: Asked<op::Upstreams>,
) -> Result<Upstreams, Refusal> {
    let metrics = state.gateway.metrics();
    let (failures, suspended) = (metrics.upstream_failures(), metrics.circuits_open());
    let settings = state.keeping.settings().borrow();
    let one = |upstream: &settings::Upstream| {
        let failed = failures.get(&upstream.name);
        let by_event = failed.map(|failed| failed.by_event.clone()).unwrap_or_default();
        let scheme = if upstream.https { "https" } else { "http" };
        let url = format!("{scheme}://{}:{}{}", upstream.host, upstream.port, upstream.base);
        let routes = settings.routes.iter().filter(|route| route.upstream.name == upstream.name).count();
        let cluster = upstream.cluster.is_some();
        let nodes = upstream.cluster.iter().flat_map(|cluster| cluster.ingress.iter().chain(&cluster.admin));
        let nodes: Vec<String> = nodes.map(ToString::to_string).collect();
        let kind = if cluster { "restate" } else { "service" };
        UpstreamShown {
            name: upstream.name.clone(),
            kind: kind.into(),
            url: (!cluster).then_some(url),
            routes,
            failures: by_event.into_iter().map(|(event, count)| (event.to_owned(), count)).collect(),
            last_failure: failed.map(|failed| view::time(failed.last_at)),
            suspended: suspended.iter().filter(|node| nodes.contains(node)).cloned().collect(),
        }
    };
    Ok(Upstreams { upstreams: settings.upstreams.values().map(|upstream| one(upstream)).collect() })
}

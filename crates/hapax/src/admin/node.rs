//! The process itself, as operators and their tools look at it: alive, ready, metrics, routes, descriptions.

use hapax_agent::actions::lanes_waiting;
use hapax_api::operations as op;
use hapax_api::{
    ADMIN_DOCUMENT, Health, HealthStatus, Markdown, OpenMetrics, Readiness, Route, Routes, Written,
};

use hapax_core::Ledger as _;
use hapax_gateway::metrics::Vitals;

use super::AdminState;
use super::access::Operator;
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
    let settings = state.keeping.settings().borrow();
    let routes = settings.routes.iter().map(|route| {
        let rule = route.rule.as_ref();
        Route {
            method: route.method.as_str().to_owned(),
            path: route.path.to_string(),
            policy: route.policy.as_str().to_owned(),
            upstream: route.upstream.name.to_string(),
            operation: rule.map(|rule| rule.name().as_str().to_owned()),
            first_name: rule.map(|rule| rule.operation.as_str().to_owned()),
            scope: rule.map(|rule| rule.width.as_str().to_owned()),
        }
    });
    Ok(Routes { routes: routes.collect() })
}

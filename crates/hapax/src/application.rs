//! The application listener: claims and durable executions for programs in any language (M1, J8).
//!
//! Callers authenticate as at the edge, and everything is that of their tenant and project. What a caller holds hangs on a lease of its
//! own, which it renews at any instance; nothing of it hangs on this process. The endpoints and their types are
//! [`hapax_api::APPLICATION`]; what operators decide is at the admin listener alone.

mod access;
mod claims;
mod executions;
mod leases;
mod places;
mod plans;
mod read;
mod steps;
mod told;

use std::sync::Arc;

use axum::Router;
use hapax_api::application as op;
use hapax_api::{APPLICATION_DOCUMENT, Health, HealthStatus, Markdown, Written};
use hapax_core::Error;
use hapax_exec::{Executor, Seal};
use hapax_gateway::Gateway;

use crate::Store;
use crate::actions::Plans;
use crate::listen::host::Hosts;
use crate::listen::mount::{Asked, Mount};
use crate::listen::refusal::{self, Refusal};
pub(crate) use places::Places;

/// What the handlers work with: the parts of a running node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ApplicationState {
    pub(crate) store: Store,
    pub(crate) executor: Executor<Store>,
    pub(crate) seal: Option<Arc<Seal>>,
    pub(crate) plans: Plans,
    pub(crate) gateway: Arc<Gateway<Store, Store>>,
    pub(crate) places: Arc<Places>,
}

/// The listener's service.
pub(crate) fn router(state: ApplicationState, docs: &str, hosts: Hosts) -> Result<Router, Error> {
    let gateway = state.gateway.clone();
    Mount::new(&hapax_api::APPLICATION, state, access::Callers(gateway), docs, hosts)
        .of_one_site()
        .open_to_any_host(health)
        .open(problem_page)
        .open(openapi)
        .on(leases::open)
        .on(leases::renew)
        .on(leases::end)
        .on(claims::ask)
        .on(claims::find)
        .on(claims::show)
        .on(claims::renew)
        .on(claims::settle)
        .on(claims::release)
        .on(plans::run)
        .on(executions::create)
        .on(executions::list)
        .on(executions::read)
        .on(executions::status)
        .on(executions::verify)
        .on(executions::waiting)
        .on(executions::append)
        .on(executions::checkpoint)
        .on(executions::pause)
        .on(executions::complete)
        .on(executions::fail)
        .on(executions::resume)
        .on(steps::plan)
        .on(steps::begin)
        .on(steps::finish)
        .router()
}

async fn health(_: ApplicationState, _: Asked<op::Health>) -> Result<Health, Refusal> {
    Ok(Health { status: HealthStatus::Ok })
}

async fn problem_page(_: ApplicationState, asked: Asked<op::ProblemPage>) -> Result<Markdown, Refusal> {
    refusal::page(&asked.id).map(Markdown).ok_or_else(|| Refusal::not_found("there is no such code"))
}

async fn openapi(_: ApplicationState, _: Asked<op::Openapi>) -> Result<Written, Refusal> {
    Ok(Written(APPLICATION_DOCUMENT))
}

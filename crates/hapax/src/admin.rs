//! The admin listener: what operators ask and decide, over HTTP (M1, L8, L17, M4).
//!
//! It serves its own paths and nothing of the edge or of the application API; only the pages about problems are at both. The
//! endpoints and their types are [`hapax_api::ADMIN`]; here are the handlers and who operators are.

mod access;
mod actions;
mod audit;
mod claims;
mod decide;
mod delegated;
mod deliveries;
mod erase;
mod executions;
mod keys;
mod node;
mod retention;
mod schedules;
pub(crate) mod view;
mod webhooks;

use std::sync::Arc;

use axum::Router;
use hapax_core::Error;
use hapax_gateway::Gateway;
use hapax_gateway::webhooks::record::Desk;
use hapax_store::Store;

use crate::listen::host::Hosts;
use crate::listen::mount::Mount;
use crate::node::{Health, Keeping, KeptAnswers};
use crate::schedules::Dispatcher;

pub use access::AdminTokens;
pub(crate) use claims::{count, list, show};
pub(crate) use delegated::admin_of;
pub use hapax_api::Role;
pub(crate) use keys::{
    checked as checked_key, create as create_key, page as keys_page, revoke as revoke_key,
};

/// What the handlers work with: the parts of a running node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AdminState {
    pub(crate) store: Store,
    pub(crate) gateway: Arc<Gateway<Store, Store>>,
    pub(crate) keeping: Arc<Keeping>,
    pub(crate) health: Arc<Health>,
    pub(crate) answers: KeptAnswers,
    pub(crate) webhooks: Desk<Store>,
    pub(crate) schedules: Arc<Dispatcher>,
}

/// The listener's service.
pub(crate) fn router(state: AdminState, tokens: AdminTokens, hosts: Hosts) -> Result<Router, Error> {
    let docs = state.keeping.settings().borrow().edge.docs.clone();
    Mount::new(&hapax_api::ADMIN, state, tokens, &docs, hosts)
        .open_to_any_host(node::health)
        .open_to_any_host(node::readiness)
        .open(node::metrics)
        .open(node::problem_page)
        .on(node::openapi)
        .on(claims::get_list)
        .on(claims::get_count)
        .on(claims::get_one)
        .on(decide::resolve)
        .on(decide::reopen)
        .on(decide::purge)
        .on(decide::erase)
        .on(erase::subject)
        .on(delegated::get_list)
        .on(delegated::show)
        .on(delegated::purge)
        .on(delegated::kill)
        .on(executions::get_list)
        .on(executions::show)
        .on(executions::events)
        .on(executions::verify)
        .on(executions::waiting)
        .on(executions::decide)
        .on(executions::pause)
        .on(executions::resume)
        .on(executions::cancel)
        .on(executions::archive)
        .on(actions::list_receipts)
        .on(actions::receipts_head)
        .on(actions::verify_receipts)
        .on(actions::list_lanes)
        .on(actions::list_approvals)
        .on(actions::show_approval)
        .on(actions::confirm)
        .on(actions::release)
        .on(actions::list_alerts)
        .on(actions::acknowledge)
        .on(keys::get_list)
        .on(keys::post)
        .on(keys::delete)
        .on(webhooks::get_list)
        .on(webhooks::post)
        .on(deliveries::show)
        .on(deliveries::get_list)
        .on(deliveries::reopen)
        .on(webhooks::rotate)
        .on(webhooks::delete)
        .on(schedules::get_list)
        .on(schedules::show)
        .on(schedules::pause)
        .on(schedules::resume)
        .on(schedules::run)
        .on(retention::get_list)
        .on(retention::set)
        .on(retention::unset)
        .on(audit::get)
        .on(node::routes)
        .router()
}

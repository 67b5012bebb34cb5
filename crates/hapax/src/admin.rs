//! The admin listener: what operators ask and decide, over HTTP (M1, L8, L17, M4).
//!
//! It serves its own paths and nothing of the edge or of the application API; only the pages about problems are at both. The
//! endpoints and their types are [`hapax_api::ADMIN`]; here are the handlers and who operators are.

mod access;
mod actions;
mod attention;
mod audit;
mod claims;
mod console;
mod decide;
mod delegated;
mod deliveries;
mod erase;
mod executions;
mod gate;
mod instances;
mod keys;
mod me;
mod newest;
mod node;
mod pulse;
mod related;
mod retention;
mod schedules;
mod transfer;
pub(crate) mod view;
mod watched;
mod webhooks;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use hapax_core::Error;
use hapax_gateway::Gateway;
use hapax_gateway::settings::Tls;
use hapax_gateway::tls::Certificates;
use hapax_gateway::webhooks::record::Desk;

use crate::Store;
use crate::listen::host::Hosts;
use crate::listen::mount::Mount;
use crate::node::{Health, Keeping, KeptAnswers, Rings};
use crate::schedules::Dispatcher;

pub use access::AdminTokens;
pub(crate) use claims::{count, list, show};
pub use console::Console;
pub(crate) use delegated::admin_of;
use gate::Gate;
pub use hapax_api::Role;
pub(crate) use instances::{Loaded, introduce};
pub(crate) use keys::{
    checked as checked_key, create as create_key, page as keys_page, revoke as revoke_key,
};
pub(crate) use me::About;

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
    pub(crate) about: Arc<About>,
    pub(crate) loaded: Arc<instances::Loaded>,
    pub(crate) rings: Arc<Rings>,
    pub(crate) watched: Arc<watched::Watched>,
}

/// How operators are served.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where the listener is.
    pub listen: SocketAddr,
    /// Who may use it.
    pub tokens: AdminTokens,
    /// Names that it answers to, beside addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Certificate and key, where it speaks TLS.
    pub tls: Option<Tls>,
    /// The pages for people.
    pub console: Console,
    /// What this process is called among others.
    pub name: Option<String>,
    /// What the installation is called.
    pub label: Option<String>,
    /// Other tools that know more, by name: URLs with `{operation_id}` and other places.
    pub links: Vec<(String, String)>,
    /// The configuration as it takes effect, without secrets; null where there is no file.
    pub shown: serde_json::Value,
}

impl Setup {
    /// With nothing but an address and who may use it.
    pub fn new(listen: SocketAddr, tokens: AdminTokens) -> Self {
        let (console, nothing) = (Console::default(), None);
        Setup {
            listen,
            tokens,
            hosts: Vec::new(),
            tls: None,
            console,
            name: nothing.clone(),
            label: nothing,
            links: Vec::new(),
            shown: serde_json::Value::Null,
        }
    }
}

/// What the listener proves its name with, where it speaks TLS.
pub(crate) fn certificates(setup: &Setup) -> Result<Option<Certificates>, Error> {
    let loaded = setup.tls.as_ref().map(Certificates::load).transpose();
    loaded.map_err(|error| Error::invalid(format!("[admin.tls]: {error}")))
}

/// The listener's service.
pub(crate) fn router(state: AdminState, setup: Setup) -> Result<Router, Error> {
    let docs = state.keeping.settings().borrow().edge.docs.clone();
    let hosts = Hosts::new("admin", &setup.hosts, setup.listen.ip());
    let gate = Gate::new(setup.tokens, state.store.clone());
    let mount = Mount::new(&hapax_api::ADMIN, state, gate, &docs, hosts).of_one_site();
    let mount = setup.console.serve(mount);
    looking(deciding(mount)).router()
}

/// What is there to see.
fn looking(mount: Mount<AdminState, Gate>) -> Mount<AdminState, Gate> {
    mount
        .open_to_any_host(node::health)
        .open_to_any_host(node::readiness)
        .open(node::metrics)
        .open(node::problem_page)
        .on(node::openapi)
        .on(me::get)
        .on(pulse::get)
        .on(pulse::traffic)
        .on(related::shelves)
        .on(related::lookup)
        .on(related::related)
        .on(related::timeline)
        .on(attention::get)
        .on(node::upstreams)
        .on(instances::get_list)
        .on(instances::store)
        .on(instances::config)
        .on(claims::get_list)
        .on(claims::get_count)
        .on(claims::get_one)
        .on(delegated::get_list)
        .on(delegated::show)
        .on(executions::get_list)
        .on(executions::show)
        .on(executions::events)
        .on(executions::verify)
        .on(executions::waiting)
        .on(executions::all_waiting)
        .on(transfer::export)
        .on(actions::list_receipts)
        .on(actions::receipts_head)
        .on(actions::verify_receipts)
        .on(actions::list_lanes)
        .on(actions::list_approvals)
        .on(actions::show_approval)
        .on(actions::list_alerts)
        .on(keys::get_list)
        .on(webhooks::get_list)
        .on(deliveries::show)
        .on(deliveries::get_list)
        .on(schedules::get_list)
        .on(schedules::show)
        .on(retention::get_list)
        .on(audit::get)
        .on(node::routes)
}

/// What operators may change.
fn deciding(mount: Mount<AdminState, Gate>) -> Mount<AdminState, Gate> {
    mount
        .on(audit::note)
        .on(attention::acknowledge)
        .on(decide::resolve)
        .on(decide::reopen)
        .on(decide::purge)
        .on(decide::erase)
        .on(erase::subject)
        .on(delegated::purge)
        .on(delegated::kill)
        .on(executions::decide)
        .upload(transfer::import)
        .on(executions::pause)
        .on(executions::resume)
        .on(executions::cancel)
        .on(executions::archive)
        .on(actions::confirm)
        .on(actions::release)
        .on(actions::acknowledge)
        .on(keys::post)
        .on(keys::delete)
        .on(webhooks::post)
        .on(deliveries::reopen)
        .on(webhooks::rotate)
        .on(webhooks::delete)
        .on(schedules::pause)
        .on(schedules::resume)
        .on(schedules::run)
        .on(retention::set)
        .on(retention::unset)
}

//! Leases of callers: opened here, renewed and ended at any instance (M1, L6).

use hapax_api::LeaseId;
use hapax_api::application::{self as op, Lease, LeaseEnded};
use hapax_core::{Leases as _, Scope, limits as core_limits};

use super::{ApplicationState, read, told};
use crate::admin::view::moment;
use crate::limits;
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;

fn view(lease: hapax_core::Lease) -> Lease {
    Lease { lease: LeaseId::from(read::lease_text(lease.id)), until: moment(lease.until) }
}

pub(super) async fn open(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::OpenLease>,
) -> Result<Lease, Refusal> {
    let term = read::span("term", asked.body.term.as_deref(), core_limits::LEASE_TERM)?;
    let opened = state.store.open_lease(&caller, term.unwrap_or(limits::OPEN_LEASE)).await;
    opened.map(view).map_err(told::of_store)
}

pub(super) async fn renew(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::RenewLease>,
) -> Result<Lease, Refusal> {
    let renewed = state.store.renew_lease(&caller, read::lease(&asked.id)?).await;
    renewed.map(view).map_err(told::of_store)
}

pub(super) async fn end(
    state: ApplicationState,
    caller: Scope,
    asked: Asked<op::EndLease>,
) -> Result<LeaseEnded, Refusal> {
    let lease = read::lease(&asked.id)?;
    state.store.end_lease(&caller, lease).await.map_err(told::of_store)?;
    Ok(LeaseEnded { lease: LeaseId::from(read::lease_text(lease)) })
}

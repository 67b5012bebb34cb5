//! What operators did: `GET /v1/audit`, newest first (M4).

use hapax_api::{Audit, operations as op};
use hapax_core::Inspect as _;

use super::access::Operator;
use super::claims::page_size;
use super::{AdminState, view};
use crate::listen::mount::Asked;
use crate::listen::refusal::Refusal;

pub(super) async fn get(state: AdminState, _: Operator, asked: Asked<op::Audit>) -> Result<Audit, Refusal> {
    let page = state.store.audit(asked.query.after.as_deref(), page_size(asked.query.limit)?).await?;
    Ok(Audit { events: page.items.iter().map(view::event).collect(), next: page.next })
}

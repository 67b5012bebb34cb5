//! Who the callers of the application listener are: found out and believed as at the edge (A1–A3, A7).

use std::sync::Arc;

use hapax_api::application::Credentials;
use hapax_core::Scope;
use hapax_gateway::Gateway;
use hapax_tower::{Code, Problem};
use http::request::Parts;

use crate::Store;
use crate::listen::connections::Caller;
use crate::listen::mount::{Authenticator, Of};
use crate::listen::refusal::Refusal;

/// Asks the edge of this process.
pub(super) struct Callers(pub(super) Arc<Gateway<Store, Store>>);

impl Authenticator for Callers {
    type Need = Credentials;
    type Caller = Scope;

    async fn admit(&self, request: &Parts, _: Credentials, _: &Of<'_>) -> Result<Scope, Refusal> {
        let Some(Caller(peer)) = request.extensions.get().copied() else {
            return Err(Problem::new(Code::Internal).owing_to("a request has no peer").into());
        };
        let scope = self.0.scope_of(request, peer).await;
        Ok(scope.inspect_err(|problem| {
            tracing::debug!(cause = problem.cause(), "a caller of the application API was refused");
        })?)
    }
}

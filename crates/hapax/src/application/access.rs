//! Who the callers of the application listener are: found out and believed as at the edge (A1–A3, A7).

use std::sync::Arc;

use hapax_api::application::Credentials;
use hapax_core::Scope;
use hapax_gateway::Gateway;
use hapax_gateway::trace::{Recorded, Value};
use hapax_tower::{Code, Problem};
use http::HeaderMap;
use http::request::Parts;

use crate::Store;
use crate::listen::connections::Caller;
use crate::listen::mount::{Answered, Authenticator, Of};
use crate::listen::refusal::Refusal;

/// What begins something new. While this process is about to end, another instance does that; what is under way is renewed, settled and
/// finished here until the last moment.
const BEGINS: [&str; 6] =
    ["openLease", "askClaim", "runPlan", "createExecution", "resumeExecution", "beginStep"];

/// Asks the edge of this process.
pub(super) struct Callers(pub(super) Arc<Gateway<Store, Store>>);

impl Authenticator for Callers {
    type Need = Credentials;
    type Caller = Scope;

    async fn admit(&self, request: &Parts, _: Credentials, of: &Of<'_>) -> Result<Scope, Refusal> {
        if self.0.admission().is_draining() && BEGINS.contains(&of.operation) {
            return Err(Problem::new(Code::Draining).into());
        }
        let Some(Caller(peer)) = request.extensions.get().copied() else {
            return Err(Problem::new(Code::Internal).owing_to("a request has no peer").into());
        };
        let scope = self.0.scope_of(request, peer).await;
        Ok(scope.inspect_err(|problem| {
            tracing::debug!(cause = problem.cause(), "a caller of the application API was refused");
        })?)
    }

    fn record(&self, headers: &HeaderMap) -> Option<Recorded> {
        self.0.record(headers)
    }

    /// One line and one count for each request, and a span for each that is recorded (O1, O2, O3).
    fn answered(&self, told: &Answered<'_, Scope>) {
        if let Some(recorded) = told.recorded {
            record_span(recorded, told);
        }
        self.0.count_api_answer(told.caller, told.endpoint, (told.event, told.status), told.took);
        macro_rules! line {
            ($say:ident) => {
                tracing::$say!(
                    target: "hapax::api",
                    method = %told.method,
                    endpoint = told.endpoint,
                    status = told.status,
                    event = told.event,
                    took_us = u64::try_from(told.took.as_micros()).unwrap_or(u64::MAX),
                    peer = told.peer.map(tracing::field::display),
                    tenant = told.caller.map(|scope| scope.tenant().as_str()),
                    project = told.caller.and_then(|scope| scope.project()).map(|project| project.as_str()),
                    operation_id = told.operation.map(|id| id.as_str()),
                    trace_id = told.recorded.map(|recorded| tracing::field::display(recorded.id())),
                    "request"
                )
            };
        }
        match told.status {
            500 => line!(error),
            _ => line!(info),
        }
    }
}

/// What the span of an answered request says, under the names of the edge's.
fn record_span(recorded: &Recorded, told: &Answered<'_, Scope>) {
    let text = |text: &str| Some(Value::Text(text.to_owned()));
    let project = told.caller.and_then(|scope| scope.project());
    let attributes = [
        ("http.request.method", text(told.method.as_str())),
        ("http.route", text(told.endpoint)),
        ("http.response.status_code", Some(Value::Number(told.status.into()))),
        ("hapax.event", text(told.event)),
        ("hapax.tenant", told.caller.and_then(|scope| text(scope.tenant().as_str()))),
        ("hapax.project", project.and_then(|project| text(project.as_str()))),
        ("restate_invocation_id", told.operation.and_then(|id| text(id.as_str()))),
    ];
    let attributes = attributes.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    recorded.ended(format!("{} {}", told.method, told.endpoint), attributes, told.status >= 500);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_something_is_an_endpoint_of_the_table() {
        let named =
            |name: &&str| hapax_api::APPLICATION.endpoints.iter().any(|endpoint| endpoint.id == *name);
        assert!(BEGINS.iter().all(named), "{BEGINS:?}");
    }
}

//! Answers that are stated instead of read from the service: they are kept in the same form.

use bytes::Bytes;
use hapax_core::{ClaimId, Ledger, Outcome};
use http::Response;

use super::Protect;
use crate::rule::Rule;
use crate::take;

impl<L: Ledger> Protect<L> {
    /// The outcome that this answer of a handler is kept as: no more of it than the rule says (B9), sealed where outcomes are. A
    /// handler that settles its claim in its own transaction settles with this (L16): other bytes could not be handed out to
    /// anybody.
    pub fn outcome(&self, rule: &Rule, claim: ClaimId, answer: Response<Bytes>) -> Outcome {
        let sealing = self.shared.sealing(claim);
        let is_error = answer.status().is_client_error() || answer.status().is_server_error();
        let settle = if is_error { Outcome::Refused } else { Outcome::Succeeded };
        take::known(answer.map(Some), settle, rule, sealing)
    }
}

//! Answers that are stated instead of read from the service: they are kept in the same form.

use bytes::Bytes;
use hapax_core::{ClaimId, Ledger, Outcome};
use http::{Method, Response};

use super::Protect;
use crate::{answer, take};

impl<L: Ledger> Protect<L> {
    /// The outcome that this answer of a handler is kept as, sealed where outcomes are. A handler that settles its claim in its
    /// own transaction settles with this (L16): other bytes could not be handed out to anybody.
    pub fn outcome(&self, claim: ClaimId, answer: Response<Bytes>) -> Outcome {
        let (mut head, body) = answer.into_parts();
        answer::clean(&mut head.headers);
        let sealing = self.shared.seal.as_deref().map(|seal| (seal, claim));
        let kept = take::kept(&Method::GET, &head, Some(&body), sealing);
        let is_error = head.status.is_client_error() || head.status.is_server_error();
        if is_error { Outcome::Refused(kept) } else { Outcome::Succeeded(kept) }
    }
}

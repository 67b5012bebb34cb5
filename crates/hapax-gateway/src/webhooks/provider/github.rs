//! GitHub: `X-Hub-Signature-256` over the body; `X-GitHub-Delivery` names the delivery and is not signed. The older SHA-1 header is
//! never looked at.

use std::time::Duration;

use aws_lc_rs::hmac::HMAC_SHA256;

use super::{Delivery, Form, Provider, Refused, Secret, all, held, is_signed};
use crate::limits;

/// See the module.
pub(crate) struct GitHub;

impl Provider for GitHub {
    fn verify(&self, delivery: &Delivery<'_>, secrets: &[Secret], _now: u64) -> Result<(), Refused> {
        let shown = delivery.signature("x-hub-signature-256")?;
        let shown =
            shown.strip_prefix("sha256=").ok_or(Refused::Signature("the signature is not `sha256=…`"))?;
        held(is_signed(HMAC_SHA256, Form::Hex, all(secrets), &[delivery.body], &[shown]))
    }

    fn identifier(&self, delivery: &Delivery<'_>) -> Result<String, Refused> {
        delivery.identifying("x-github-delivery").map(str::to_owned)
    }

    fn signs_identifier(&self, _: &Delivery<'_>) -> bool {
        false
    }

    fn kind_header(&self) -> Option<&str> {
        Some("x-github-event")
    }

    fn wait(&self) -> Duration {
        Duration::from_secs(9)
    }

    /// A delivery can be sent again by hand.
    fn window(&self) -> Duration {
        limits::DAY * 7
    }
}

//! Shopify: `X-Shopify-Hmac-Sha256` over the body; `X-Shopify-Event-Id` names the event, `X-Shopify-Topic` what it is about. Neither
//! is signed.

use std::time::Duration;

use aws_lc_rs::hmac::HMAC_SHA256;

use super::{Delivery, Form, Provider, Refused, Secret, all, held, is_signed};

/// See the module.
pub(crate) struct Shopify;

impl Provider for Shopify {
    fn verify(&self, delivery: &Delivery<'_>, secrets: &[Secret], _now: u64) -> Result<(), Refused> {
        let shown = delivery.signature("x-shopify-hmac-sha256")?;
        held(is_signed(HMAC_SHA256, Form::Base64, all(secrets), &[delivery.body], &[shown]))
    }

    fn identifier(&self, delivery: &Delivery<'_>) -> Result<String, Refused> {
        delivery.identifying("x-shopify-event-id").map(str::to_owned)
    }

    fn signs_identifier(&self, _: &Delivery<'_>) -> bool {
        false
    }

    fn kind_header(&self) -> Option<&str> {
        Some("x-shopify-topic")
    }

    fn wait(&self) -> Duration {
        Duration::from_secs(4)
    }

    fn window(&self) -> Duration {
        Duration::from_secs(4 * 60 * 60)
    }
}

//! Slack's Events API: `X-Slack-Signature: v0=…` over `v0:t:body`; the body has `event_id`. A body of the type `url_verification`
//! asks whether the endpoint is its owner's, and is answered with its challenge.

use std::time::Duration;

use aws_lc_rs::hmac::HMAC_SHA256;

use super::{Delivery, Form, Provider, Refused, Secret, all, held, is_recent, is_signed, member};

/// See the module.
pub(crate) struct Slack;

impl Provider for Slack {
    fn verify(&self, delivery: &Delivery<'_>, secrets: &[Secret], now: u64) -> Result<(), Refused> {
        let time = delivery.signature("x-slack-request-timestamp")?;
        is_recent(time, now)?;
        let shown = delivery.signature("x-slack-signature")?;
        let shown = shown.strip_prefix("v0=").ok_or(Refused::Signature("the signature is not `v0=…`"))?;
        let parts = [b"v0:", time.as_bytes(), b":", delivery.body];
        held(is_signed(HMAC_SHA256, Form::Hex, all(secrets), &parts, &[shown]))
    }

    fn identifier(&self, delivery: &Delivery<'_>) -> Result<String, Refused> {
        member(delivery.body, "event_id")
    }

    fn signs_identifier(&self, _: &Delivery<'_>) -> bool {
        true
    }

    fn challenge(&self, delivery: &Delivery<'_>) -> Option<String> {
        if member(delivery.body, "type").ok()? != "url_verification" {
            return None;
        }
        member(delivery.body, "challenge").ok()
    }

    fn wait(&self) -> Duration {
        Duration::from_millis(2_500)
    }
}

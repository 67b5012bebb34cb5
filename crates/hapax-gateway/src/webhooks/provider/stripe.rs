//! Stripe: `Stripe-Signature: t=…,v1=…` over `t.body`; the event's `id` stands in the body.

use std::time::Duration;

use aws_lc_rs::hmac::HMAC_SHA256;

use super::{Delivery, Form, Provider, Refused, Secret, all, held, is_recent, is_signed, member};
use crate::limits;

/// See the module.
pub(crate) struct Stripe;

impl Provider for Stripe {
    fn verify(&self, delivery: &Delivery<'_>, secrets: &[Secret], now: u64) -> Result<(), Refused> {
        let (mut time, mut shown) = (None, Vec::new());
        for part in delivery.signature("stripe-signature")?.split(',') {
            match part.trim().split_once('=') {
                Some(("t", _)) if time.is_some() => {
                    return Err(Refused::Signature("the signature names two times"));
                }
                Some(("t", text)) => time = Some(text),
                // `v0` is for tests of the sender and is never believed.
                Some(("v1", text)) if shown.len() < limits::SIGNATURES => shown.push(text),
                _ => {}
            }
        }
        let time = time.ok_or(Refused::Signature("the signature names no time"))?;
        is_recent(time, now)?;
        let parts = [time.as_bytes(), b".", delivery.body];
        held(is_signed(HMAC_SHA256, Form::Hex, all(secrets), &parts, &shown))
    }

    fn identifier(&self, delivery: &Delivery<'_>) -> Result<String, Refused> {
        member(delivery.body, "id")
    }

    fn signs_identifier(&self, _: &Delivery<'_>) -> bool {
        true
    }

    fn window(&self) -> Duration {
        limits::DAY * 3
    }
}

//! Standard Webhooks 1.0, and Svix, which is the same under other names: `webhook-signature` has `v1,` signatures over
//! `id.timestamp.body`, and the id names the delivery.

use std::time::Duration;

use aws_lc_rs::hmac::HMAC_SHA256;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hapax_core::Error;

use super::{Delivery, Form, Provider, Refused, Secret, held, is_recent, is_signed};
use crate::limits;

/// What secrets of this scheme start with; base64 of the key follows.
const PREFIX: &[u8] = b"whsec_";

/// See the module.
pub(crate) struct Standard;

impl Standard {
    /// The names of the headers that this delivery uses. One that has both sets can be read in two ways.
    fn names(delivery: &Delivery<'_>) -> Result<[&'static str; 3], Refused> {
        let has = |prefix: &str| delivery.headers.contains_key(format!("{prefix}-signature"));
        match (has("webhook"), has("svix")) {
            (true, true) => Err(Refused::Signature("there are two sets of signature headers")),
            (false, true) => Ok(["svix-id", "svix-timestamp", "svix-signature"]),
            _ => Ok(["webhook-id", "webhook-timestamp", "webhook-signature"]),
        }
    }
}

/// The key in a secret.
fn key(secret: &Secret) -> Option<Vec<u8>> {
    let text = secret.reveal();
    STANDARD.decode(text.strip_prefix(PREFIX).unwrap_or(text)).ok().filter(|key| !key.is_empty())
}

impl Provider for Standard {
    fn verify(&self, delivery: &Delivery<'_>, secrets: &[Secret], now: u64) -> Result<(), Refused> {
        let [id, time, signature] = Self::names(delivery)?;
        let (id, time) = (delivery.signature(id)?, delivery.signature(time)?);
        is_recent(time, now)?;
        let listed = delivery.signature(signature)?.split(' ').filter_map(|one| one.strip_prefix("v1,"));
        let shown: Vec<&str> = listed.take(limits::SIGNATURES).collect();
        let keys: Vec<Vec<u8>> = secrets.iter().filter_map(key).collect();
        let parts = [id.as_bytes(), b".", time.as_bytes(), b".", delivery.body];
        held(is_signed(HMAC_SHA256, Form::Base64, keys.iter().map(Vec::as_slice), &parts, &shown))
    }

    fn identifier(&self, delivery: &Delivery<'_>) -> Result<String, Refused> {
        let [id, ..] = Self::names(delivery)?;
        delivery.identifying(id).map(str::to_owned)
    }

    fn signs_identifier(&self, _: &Delivery<'_>) -> bool {
        true
    }

    fn window(&self) -> Duration {
        Duration::from_secs(75 * 60 * 60)
    }

    fn check_secret(&self, secret: &Secret) -> Result<(), Error> {
        let length = key(secret).map_or(0, |key| key.len());
        match (24..=64).contains(&length) {
            true => Ok(()),
            false => Err(Error::invalid("the secret must be `whsec_` and base64 of 24 to 64 bytes")),
        }
    }

    fn make_secret(&self) -> Result<Secret, Error> {
        Secret::random("whsec_")
    }
}

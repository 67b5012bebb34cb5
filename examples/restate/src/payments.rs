//! The example: three ways to be called through hapax.

use restate_sdk::prelude::*;
use serde_json::{Value, json};

use crate::Effects;

/// The header in which hapax says what makes two requests the same.
const FINGERPRINT: &str = "x-hapax-fingerprint";

/// A service that takes payments.
pub struct Payments {
    effects: Effects,
}

impl Payments {
    pub fn new(effects: Effects) -> Self {
        Payments { effects }
    }
}

#[restate_sdk::service(idempotency_retention = "1 day", journal_retention = "1 day")]
impl Payments {
    /// A plain handler: what it returns is the body of an answer of status 200, what it fails with is kept and replayed.
    #[handler]
    async fn charge(&self, ctx: Context<'_>, Json(order): Json<Value>) -> Result<Json<Value>, HandlerError> {
        let amount = order["amount"].as_u64().ok_or(TerminalError::new_with_code(400, "say an `amount`"))?;
        if amount > 1_000 {
            return Err(TerminalError::new_with_code(402, "the card was declined").into());
        }
        let effects = self.effects.clone();
        // Durable: a handler that is run again after a crash does not charge again.
        ctx.run(move || async move {
            effects.happened(&format!("charge {amount}"));
            Ok(())
        })
        .await?;
        Ok(Json(json!({ "charged": amount })))
    }

    /// The same for a route with `envelope = true`: the handler says status and headers, and gives back the fingerprint that it was
    /// called with, so that hapax need not look for it in the journal.
    #[handler]
    async fn book(&self, mut ctx: Context<'_>, Json(order): Json<Value>) -> Result<Json<Value>, HandlerError> {
        let fingerprint = ctx.headers().get(FINGERPRINT).cloned();
        let number = ctx.rand_uuid().to_string();
        let (effects, effect) = (self.effects.clone(), format!("book {number}"));
        ctx.run(move || async move {
            effects.happened(&effect);
            Ok(())
        })
        .await?;
        Ok(Json(json!({
            "fp": fingerprint,
            "status": 201,
            "headers": { "location": format!("/bookings/{number}") },
            "body": { "number": number, "order": order },
        })))
    }

    /// For senders that name nothing a request could be known by (Case C): it runs for every delivery, makes a key out of what it was sent,
    /// and passes that on. The work behind it is done once for each key.
    #[handler]
    async fn settle(&self, ctx: Context<'_>, Json(report): Json<Value>) -> Result<Json<Value>, HandlerError> {
        let day = report["day"].as_str().ok_or(TerminalError::new_with_code(400, "say a `day`"))?;
        let key = format!("settlement-{day}");
        let order = Json(json!({ "amount": report["total"] }));
        let Json(charged) = ctx.service_client::<PaymentsClient>().charge(order).idempotency_key(key).call().await?;
        Ok(Json(json!({ "day": day, "settled": charged })))
    }
}

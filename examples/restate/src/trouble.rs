//! What hapax is tested with: handlers that take long, fail, or never come to an end.

use std::time::Duration;

use restate_sdk::prelude::*;
use serde_json::{Value, json};

use crate::Effects;

/// Handlers in trouble.
pub struct Trouble {
    effects: Effects,
}

impl Trouble {
    pub fn new(effects: Effects) -> Self {
        Trouble { effects }
    }
}

#[restate_sdk::service(idempotency_retention = "1 day", journal_retention = "1 day")]
impl Trouble {
    /// Says what it was called with; `millis` makes it take that long first.
    #[handler]
    async fn echo(&self, ctx: Context<'_>, Json(body): Json<Value>) -> Result<Json<Value>, HandlerError> {
        self.effects.happened(&format!("echo {}", ctx.invocation_id()));
        if let Some(millis) = body["millis"].as_u64() {
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
        let headers: Vec<String> = ctx.headers().keys().map(ToString::to_string).collect();
        Ok(Json(json!({ "body": body, "headers": headers })))
    }

    /// Waits durably: an invocation that is picked up by another node has its effect once.
    #[handler]
    async fn nap(&self, ctx: Context<'_>, Json(body): Json<Value>) -> Result<Json<Value>, HandlerError> {
        let (effects, effect) = (self.effects.clone(), format!("nap {}", body["name"]));
        ctx.run(move || async move {
            effects.happened(&effect);
            Ok(())
        })
        .await?;
        ctx.sleep(Duration::from_millis(body["millis"].as_u64().unwrap_or(0))).await?;
        Ok(Json(json!({ "rested": body["name"] })))
    }

    /// Fails for good with the status and the message that it is sent.
    #[handler]
    async fn refuse(&self, _ctx: Context<'_>, Json(body): Json<Value>) -> Result<Json<Value>, HandlerError> {
        let status = body["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(500);
        self.effects.happened("refuse");
        Err(TerminalError::new_with_code(status, body["message"].as_str().unwrap_or_default()).into())
    }

    /// Never comes to an end by itself, and can be cancelled.
    #[handler]
    async fn never(&self, ctx: Context<'_>) -> Result<(), HandlerError> {
        self.effects.happened("never");
        ctx.sleep(Duration::from_secs(1_000_000)).await?;
        Ok(())
    }

    /// Fails, and is paused for it.
    #[handler(invocation_retry_policy(initial_interval = "10ms", max_attempts = 1, on_max_attempts = "pause"))]
    async fn pause(&self, _ctx: Context<'_>, Json(_): Json<Value>) -> Result<Json<Value>, HandlerError> {
        Err(std::io::Error::other("the printer is on fire").into())
    }

    /// Fails, and is killed for it.
    #[handler(invocation_retry_policy(initial_interval = "10ms", max_attempts = 2, on_max_attempts = "kill"))]
    async fn kill(&self, _ctx: Context<'_>, Json(_): Json<Value>) -> Result<Json<Value>, HandlerError> {
        Err(std::io::Error::other("the printer is on fire").into())
    }

    /// Answers with as many bytes as it is asked for.
    #[handler]
    async fn long(&self, _ctx: Context<'_>, Json(body): Json<Value>) -> Result<Json<Value>, HandlerError> {
        let length = body["bytes"].as_u64().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
        Ok(Json(json!({ "long": "a".repeat(length) })))
    }

    /// An envelope as it is asked for.
    #[handler]
    async fn envelope(&self, ctx: Context<'_>, Json(body): Json<Value>) -> Result<Json<Value>, HandlerError> {
        self.effects.happened("envelope");
        let mut envelope = body["envelope"].clone();
        if let (Some(fingerprint), true) = (ctx.headers().get("x-hapax-fingerprint"), envelope.is_object()) {
            envelope["fp"] = fingerprint.as_str().into();
        }
        Ok(Json(envelope))
    }
}

/// An account by its number, which keeps its balance.
pub struct Account {
    effects: Effects,
}

impl Account {
    pub fn new(effects: Effects) -> Self {
        Account { effects }
    }
}

#[restate_sdk::object]
impl Account {
    /// Adds an amount.
    #[handler]
    async fn add(&self, ctx: ObjectContext<'_>, Json(body): Json<Value>) -> Result<Json<Value>, HandlerError> {
        let balance = ctx.get::<u64>("balance").await?.unwrap_or(0) + body["amount"].as_u64().unwrap_or(0);
        ctx.set("balance", balance);
        self.effects.happened(&format!("add {}", ctx.key()));
        Ok(Json(json!({ "account": ctx.key(), "balance": balance })))
    }
}

/// A workflow, which needs no key.
pub struct Signup;

#[restate_sdk::workflow]
impl Signup {
    /// Runs once for each name.
    #[handler]
    async fn run(&self, ctx: WorkflowContext<'_>, Json(body): Json<Value>) -> Result<Json<Value>, HandlerError> {
        Ok(Json(json!({ "name": ctx.key(), "body": body })))
    }
}

//! A payments service in axum whose charges are safe to retry, in one file.
//!
//! Run it with `cargo run -p hapax-tower --example axum-payments`, then:
//!
//! ```text
//! curl -i localhost:3000/charges -H 'X-User: alice' -H 'Idempotency-Key: order-42' -d '{"amount": 10}'
//! curl -i localhost:3000/charges -H 'X-User: alice' -H 'Idempotency-Key: order-42' -d '{"amount": 10}'   # the same answer
//! curl -i localhost:3000/charges -H 'X-User: alice' -H 'Idempotency-Key: order-42' -d '{"amount": 99}'   # 422
//! curl -i localhost:3000/charges -H 'X-User: bob'   -H 'Idempotency-Key: order-42' -d '{"amount": 10}'   # somebody else's
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use hapax_core::{LeafKey, Project, Recipe, Scope, Subject, SubjectKind, Tenant};
use hapax_exec::{Executor, Settings};
use hapax_sqlite::Embedded;
use hapax_store::{Lifecycle as _, Options};
use hapax_tower::{IdempotencyLayer, Protect, Rule};

static CHARGES: AtomicU64 = AtomicU64::new(0);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Where claims and outcomes are kept, and where outcomes wait while the store is away.
    let folder = std::env::temp_dir().join("hapax-axum-payments");
    let store = Embedded::open(&folder, Options::default())?;
    let settings = Settings { spool: Some(folder.join("spool")), ..Settings::default() };
    let executor = Executor::open(store.clone(), settings).await?;

    // One rule for one operation: what makes two requests the same, and whether the work may run again after a doubt.
    let rule = Rule { recipe: Recipe::json(), ..Rule::new("charges.create")? };
    // Whose request it is. A real application asks whatever authenticated the caller.
    let whose = |head: &axum::http::request::Parts| {
        let user = head.headers.get("x-user")?.to_str().ok()?;
        let subject = Subject::from_credential(SubjectKind::User, user).ok()?;
        Some(Scope::new(Tenant::new("acme").ok()?, Project::new("shop").ok()?, subject))
    };
    // The key explains mismatches; a real application keeps it secret and always the same.
    let protect = Protect::new(executor, LeafKey::new([42; 32]));
    let layer = IdempotencyLayer::new(protect.clone(), rule, whose);

    let app = Router::new().route("/charges", post(charge)).route_layer(layer);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, app)
        .with_graceful_shutdown(async { tokio::signal::ctrl_c().await.unwrap_or(()) })
        .await?;

    // Charges whose caller has gone away are finished, too; and the store hears of those that were given back.
    protect.calls().idle().await;
    let _ = tokio::time::timeout(std::time::Duration::from_secs(2), protect.executor().debts_paid()).await;
    store.close().await?;
    Ok(())
}

/// The work that must not happen twice. It knows nothing about retries.
async fn charge(body: String) -> (StatusCode, String) {
    let number = CHARGES.fetch_add(1, Ordering::SeqCst) + 1;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    (StatusCode::CREATED, format!("{{\"charge\": {number}, \"of\": {body}}}\n"))
}

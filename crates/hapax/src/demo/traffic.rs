//! A little traffic of the demo's own, so that the console has something to show: runs, a replay, a mismatch, and a doubt that waits to
//! be decided.

use std::net::SocketAddr;
use std::time::Duration;

use http::header::CONTENT_TYPE;

/// The longest time for one request.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends it. What goes wrong is no matter: the demo works without.
pub(super) async fn send(edge: SocketAddr, caller: &str) {
    let Ok(client) = reqwest::Client::builder().timeout(PATIENCE).build() else { return };
    for (key, amount, fault) in [
        ("refund-1", 10, ""),
        ("refund-1", 10, ""),
        ("refund-2", 25, ""),
        ("refund-2", 99, ""),
        ("refund-3", 40, "?fault=crash"),
    ] {
        let refund = client.post(format!("http://{edge}/refunds{fault}")).bearer_auth(caller);
        let refund = refund.header("Idempotency-Key", key).header(CONTENT_TYPE, "application/json");
        // Its answer is not needed.
        let _ = refund.body(format!("{{\"amount\": {amount}}}")).send().await;
    }
}

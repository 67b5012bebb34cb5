//! Verified deliveries beside requests with a key (Case B beside Case A), on the same store with the same body, round by round: what
//! a signature, an identifier and a webhook cost in the place of an API key and a header.
//!
//! Stripe signs both time and body, and its identifier stands in the body: the most that a provider asks for. Every delivery is
//! another event with another body. hapax has one core, load and service the other.

use std::path::Path;
use std::time::Duration;

use crate::Failure;
use crate::edge::apart;
use crate::edge::caller::{self, Request, Wanted};
use crate::edge::servers::{Log, Place, Server};
use crate::report::Report;

const SECRET: &str = "whsec_of_this_benchmark";
const CONNECTIONS: usize = 64;
/// What is sent: about 512 bytes of JSON.
const BODY: &str = concat!(
    r#"{"id": "evt-000000000000", "object": "event", "type": "charge.succeeded", "livemode": false, "created": 1763460000, "#,
    r#""pending_webhooks": 1, "data": {"object": {"id": "ch_881723", "object": "charge", "amount": 1299, "currency": "eur", "#,
    r#""customer": "cus_881723", "description": "order-20931", "paid": true, "status": "succeeded", "receipt_email": "#,
    r#""ada@example.org", "shipping": {"name": "Ada Lovelace", "address": {"line1": "12 St James's Square", "city": "London", "#,
    r#""postal_code": "SW1Y 4LE", "country": "GB"}}}}, "request": {"id": "req_x"}}"#,
);

/// How deliveries are measured.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Rounds of each measurement; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// Requests for a second, and the microseconds that the edge was busy for each.
struct Measured {
    rate: f64,
    busy: f64,
}

/// Measures both on a store that forgets and on one that does not.
pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<(), Failure> {
    let folder = tempfile::tempdir_in(".")?;
    let folder = folder.path();
    let (proxy, own) = apart()?;
    let service = Server::service(folder, own)?;
    report.heading(&format!(
        "verified deliveries beside requests with a key, one core, {CONNECTIONS} connections"
    ));
    for (name, store) in [("memory", "memory:"), ("embedded", "embedded:data")] {
        let mut pairs = Vec::new();
        for round in 0..args.rounds {
            pairs.push(pair(args, &folder.join(format!("{name}{round}")), proxy, &service, store).await?);
        }
        let middle = |of: &dyn Fn(&(Measured, Measured)) -> f64| {
            let mut values: Vec<f64> = pairs.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or_default()
        };
        report.figure(&format!("{name}: requests with a key"), middle(&|pair| pair.0.rate), "req/s");
        report.figure(&format!("{name}: deliveries"), middle(&|pair| pair.1.rate), "req/s");
        report.figure(
            &format!("{name}: requests with a key, core time"),
            middle(&|pair| pair.0.busy),
            "µs/req",
        );
        report.figure(&format!("{name}: deliveries, core time"), middle(&|pair| pair.1.busy), "µs/req");
        let core = middle(&|(keyed, delivered)| keyed.busy / delivered.busy);
        let rate = middle(&|(keyed, delivered)| delivered.rate / keyed.rate);
        report.ratio(&format!("{name}: deliveries / requests with a key, core time"), core, 0.8);
        report.ratio(&format!("{name}: deliveries / requests with a key, rate"), rate, 0.8);
    }
    Ok(())
}

/// Each on a server of its own, so that neither has what the other has left in the store.
async fn pair(
    args: &Args,
    folder: &Path,
    place: Place,
    service: &Server,
    store: &str,
) -> Result<(Measured, Measured), Failure> {
    let time = Duration::from_secs(args.seconds);
    let server = Server::hapax(&folder.join("keyed"), place, service.address, store, Log::None)?;
    let keyed = Request::new("POST", "/charges", &server.api_key, BODY).keyed("first", Wanted::Own);
    let keyed = load(&server, &keyed, time).await?;
    drop(server);
    let server = Server::with_webhooks(&folder.join("delivered"), place, service.address, store)?;
    let delivered = Request::delivered(&server.webhook("stripe", SECRET)?, SECRET, BODY)?;
    let delivered = load(&server, &delivered, time).await?;
    Ok((keyed, delivered))
}

async fn load(server: &Server, request: &Request, time: Duration) -> Result<Measured, Failure> {
    let before = server.busy()?;
    let rate = caller::run(server.address, request, CONNECTIONS, time).await?;
    let busy = (server.busy()? - before) * 1e6 / rate.answers.max(1) as f64;
    Ok(Measured { rate: rate.per_second, busy })
}

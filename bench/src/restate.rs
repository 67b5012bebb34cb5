//! Handlers of a Restate server behind the edge beside the same handlers asked directly, round by round: what it costs that the edge says who
//! asks, tells replays apart and compares requests (D3, D4).
//!
//! One server with its handlers; everything has all cores. Both ways are loads on the same server, so what is measured is what the edge
//! adds. Replays of keys that an edge remembers and those for which it looks into the journal are told apart.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use hapax_testkit::restate::Restate;

use crate::Failure;
use crate::edge::caller::{self, Request, Wanted};
use crate::edge::servers::Server;
use crate::report::Report;

const CONNECTIONS: usize = 64;
const BODY: &str = r#"{"order": "o-881723", "amount": 1299, "currency": "eur"}"#;

/// How delegation is measured.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Rounds of each measurement; the median counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// Answers each second of one round.
struct Round {
    direct: (f64, f64),
    marker: (f64, f64),
    exact: (f64, f64),
    journal: f64,
}

/// Measures fresh calls and replays, directly and through edges.
pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<(), Failure> {
    let folder = tempfile::tempdir_in(".")?;
    let restate = tokio::task::spawn_blocking(|| Restate::start(1, "")).await?;
    let place = (restate.ingress()[0], restate.admins()[0]);
    report.heading(&format!("a Restate server behind the edge beside itself, {CONNECTIONS} connections"));
    let mut rounds = Vec::new();
    for number in 0..args.rounds {
        rounds.push(round(args, &folder.path().join(number.to_string()), number, place).await?);
    }
    let middle = |of: &dyn Fn(&Round) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    report.figure("direct: fresh", middle(&|round| round.direct.0), "req/s");
    report.figure("direct: replays", middle(&|round| round.direct.1), "req/s");
    report.figure("marker: fresh", middle(&|round| round.marker.0), "req/s");
    report.figure("marker: replays of remembered keys", middle(&|round| round.marker.1), "req/s");
    report.figure("exact: fresh", middle(&|round| round.exact.0), "req/s");
    report.figure("exact: replays of remembered keys", middle(&|round| round.exact.1), "req/s");
    report.figure("replays that need the journal", middle(&|round| round.journal), "req/s");
    report.ratio("marker / direct, fresh", middle(&|round| round.marker.0 / round.direct.0), 0.85);
    report.ratio("marker / direct, replays", middle(&|round| round.marker.1 / round.direct.1), 0.85);
    report.ratio("exact / direct, fresh", middle(&|round| round.exact.0 / round.direct.0), 0.5);
    report.ratio("exact / direct, replays", middle(&|round| round.exact.1 / round.direct.1), 0.85);
    Ok(())
}

async fn round(
    args: &Args,
    folder: &Path,
    number: usize,
    (ingress, admin): (SocketAddr, SocketAddr),
) -> Result<Round, Failure> {
    let time = Duration::from_secs(args.seconds);
    let load = async |to: SocketAddr, request: Request, time: Duration| {
        caller::run(to, &request, CONNECTIONS, time).await.map(|rate| rate.per_second)
    };
    let direct = || Request::new("POST", "/restate/call/Trouble/echo", "none", BODY);
    let fresh = load(ingress, direct().keyed(&format!("fresh{number}"), Wanted::Own), time).await?;
    let kept = load(ingress, direct().keyed(&format!("kept{number}"), Wanted::Own).repeated(), time).await?;
    let mut edges = Vec::new();
    let mut journal = 0.0;
    for classify in ["marker", "exact"] {
        let start = |name: &str| {
            Server::delegating(&folder.join(format!("{classify}-{name}")), ingress, admin, classify)
        };
        let edge = start("first")?;
        let request = || Request::new("POST", "/charges", &edge.api_key, BODY);
        let keys = format!("{classify}{number}");
        let fresh = load(edge.address, request().keyed(&keys, Wanted::Own), time).await?;
        let kept = load(edge.address, request().keyed(&format!("{keys}-kept"), Wanted::Replay), time).await?;
        edges.push((fresh, kept));
        if classify == "exact" {
            drop(edge);
            // It remembers nothing: each of these keys was used once, at the other one.
            let edge = start("second")?;
            let request = Request::new("POST", "/charges", &edge.api_key, BODY);
            let request = request.keyed(&keys, Wanted::Replay).counting();
            journal = load(edge.address, request, time / 4).await?;
        }
    }
    Ok(Round { direct: (fresh, kept), marker: edges[0], exact: edges[1], journal })
}

//! What safe retries cost a caller: the middleware beside a bare reqwest client, on loopback.
//!
//! The server is a thread of its own that answers every request with the same bytes. Requests alternate in short turns, so that
//! whatever else the machine does meets both alike.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use hapax_client::middleware::SafeRetries;
use reqwest_middleware::ClientWithMiddleware;
use stats_alloc::Region;

use crate::report::Report;
use crate::{ALLOCATOR, Failure};

/// How the client is measured.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Requests of one turn.
    #[arg(long, default_value_t = 500)]
    requests: usize,
    /// Turns of each; the median counts.
    #[arg(long, default_value_t = 21)]
    turns: usize,
}

const ANSWER: &[u8] =
    b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n{\"charged\": 10}";

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<(), Failure> {
    let url = format!("http://{}/charges", start_server()?);
    let client = reqwest::Client::new();
    let safe = reqwest_middleware::ClientBuilder::new(client.clone()).with(SafeRetries::default()).build();
    let (bare, safe) = (Way::Bare(&client), Way::Safe(&safe));
    let (mut without, mut with) = (Vec::new(), Vec::new());
    // The first turns warm up connections and caches.
    for turn in 0..args.turns + WARM {
        let measured =
            (turn_of(&bare, &url, args.requests).await?, turn_of(&safe, &url, args.requests).await?);
        if turn >= WARM {
            without.push(measured.0);
            with.push(measured.1);
        }
    }
    let each = |times| median(times).as_secs_f64() * 1e6 / args.requests as f64;
    let (without, with) = (each(without), each(with));
    report.heading("A POST on loopback, one after the other");
    report.figure("bare reqwest", without, "µs/request");
    report.figure("with the middleware", with, "µs/request");
    report.ratio_at_most("middleware / bare reqwest", with / without, 1.05);
    report.figure("bare reqwest, allocations", allocations(&bare, &url).await?, "per request");
    report.figure("with the middleware, allocations", allocations(&safe, &url).await?, "per request");
    Ok(())
}

/// Turns that are not counted.
const WARM: usize = 2;

/// Whose requests are measured.
enum Way<'a> {
    Bare(&'a reqwest::Client),
    Safe(&'a ClientWithMiddleware),
}

impl Way<'_> {
    /// One request. The bare client sends a key, too, so that both send the same.
    async fn send(&self, url: &str) -> Result<(), Failure> {
        let answer = match self {
            Way::Bare(client) => client.post(url).header("idempotency-key", KEY).body(BODY).send().await?,
            Way::Safe(client) => client.post(url).body(BODY).send().await?,
        };
        answer.bytes().await?;
        Ok(())
    }
}

const BODY: &str = "{\"amount\": 10}";
/// As long as the keys that the middleware makes.
const KEY: &str = "00000000-0000-4000-8000-000000000000";

async fn turn_of(way: &Way<'_>, url: &str, requests: usize) -> Result<Duration, Failure> {
    let began = Instant::now();
    for _ in 0..requests {
        way.send(url).await?;
    }
    Ok(began.elapsed())
}

async fn allocations(way: &Way<'_>, url: &str) -> Result<f64, Failure> {
    const COUNTED: usize = 200;
    way.send(url).await?;
    let region = Region::new(ALLOCATOR);
    for _ in 0..COUNTED {
        way.send(url).await?;
    }
    Ok(region.change().allocations as f64 / COUNTED as f64)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// A server that allocates nothing while it answers.
fn start_server() -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            std::thread::spawn(move || serve(stream));
        }
    });
    Ok(address)
}

fn serve(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut buffer = [0; 4096];
    let mut filled = 0;
    while let Ok(read @ 1..) = stream.read(&mut buffer[filled..]) {
        filled += read;
        // The whole request: its head, and a body of known length.
        if buffer[..filled].ends_with(BODY.as_bytes()) {
            filled = 0;
            if stream.write_all(ANSWER).is_err() {
                return;
            }
        }
    }
}

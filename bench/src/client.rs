//! What safe retries cost a caller: the middleware beside a bare reqwest client, on loopback.
//!
//! The server is a thread of its own that answers every request with the same bytes. Both take short turns, each of them first in
//! every other, so that whatever else the machine does meets both alike; what counts is the median of the ratios of turns
//! that were next to each other. Processor time is the caller's thread only.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use hapax_client::IdempotencyKey;
use hapax_client::middleware::SafeRetries;
use reqwest_middleware::ClientWithMiddleware;
use rustix::time::{ClockId, clock_gettime};
use stats_alloc::Region;

use crate::report::Report;
use crate::{ALLOCATOR, Failure};

/// How the client is measured.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Requests of one turn.
    #[arg(long, default_value_t = 200)]
    requests: usize,
    /// Turns of each.
    #[arg(long, default_value_t = 201)]
    turns: usize,
}

const ANSWER: &[u8] =
    b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n{\"charged\": 10}";

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<(), Failure> {
    let url = format!("http://{}/charges", start_server()?);
    let client = reqwest::Client::new();
    let safe = reqwest_middleware::ClientBuilder::new(client.clone()).with(SafeRetries::default()).build();
    let frame = reqwest_middleware::ClientBuilder::new(client.clone()).build();
    let (bare, safe, frame) = (Way::Bare(&client), Way::Safe(&safe), Way::Frame(&frame));
    report.heading("A POST on loopback, one after the other");
    let pairs = turns(args, &url, &bare, &safe).await?;
    tell(report, "time", &pairs, |turn| turn.took, args.requests);
    tell(report, "processor time", &pairs, |turn| turn.computed, args.requests);
    let (without, with) = (allocations(&bare, &url).await?, allocations(&safe, &url).await?);
    report.figure("bare reqwest, allocations", without, "per request");
    report.figure("with the middleware, allocations", with, "per request");

    report.heading("What of its processor time is not the middleware's own");
    let pairs = turns(args, &url, &bare, &frame).await?;
    let more = |(bare, frame): &(Turn, Turn)| micros(frame, args) - micros(bare, args);
    report.figure(
        "reqwest-middleware with nothing in it",
        quantile(pairs.iter().map(more), 0.5),
        "µs/request more",
    );
    report.figure("making a key", making_a_key(), "µs");
    Ok(())
}

/// The processor time of a request.
fn micros(turn: &Turn, args: &Args) -> f64 {
    turn.computed.as_secs_f64() * 1e6 / args.requests as f64
}

fn making_a_key() -> f64 {
    const KEYS: u32 = 10_000;
    let began = computed();
    for _ in 0..KEYS {
        std::hint::black_box(IdempotencyKey::fresh());
    }
    (computed() - began).as_secs_f64() * 1e6 / f64::from(KEYS)
}

/// Turns of two, next to each other.
async fn turns(args: &Args, url: &str, one: &Way<'_>, other: &Way<'_>) -> Result<Vec<(Turn, Turn)>, Failure> {
    let mut pairs = Vec::new();
    // The first turns warm up connections and caches.
    for turn in 0..args.turns + WARM {
        let pair = if turn % 2 == 0 {
            let first = turn_of(one, url, args.requests).await?;
            (first, turn_of(other, url, args.requests).await?)
        } else {
            let first = turn_of(other, url, args.requests).await?;
            (turn_of(one, url, args.requests).await?, first)
        };
        if turn >= WARM {
            pairs.push(pair);
        }
    }
    Ok(pairs)
}

/// Reports one of the times of the turns of both.
fn tell(
    report: &mut Report,
    what: &str,
    pairs: &[(Turn, Turn)],
    which: fn(&Turn) -> Duration,
    requests: usize,
) {
    let each = |turn: &Turn| which(turn).as_secs_f64() * 1e6 / requests as f64;
    let bare = pairs.iter().map(|(bare, _)| each(bare));
    let safe = pairs.iter().map(|(_, safe)| each(safe));
    report.figure(&format!("bare reqwest, {what}"), quantile(bare, 0.5), "µs/request");
    report.figure(&format!("with the middleware, {what}"), quantile(safe, 0.5), "µs/request");
    let ratios = || pairs.iter().map(|(bare, safe)| each(safe) / each(bare));
    report.ratio_at_most(&format!("middleware / bare reqwest, {what}"), quantile(ratios(), 0.5), 1.05);
    report.figure(&format!("  {what}: a quarter of the turns are below"), quantile(ratios(), 0.25), "×");
    report.figure(&format!("  {what}: and a quarter above"), quantile(ratios(), 0.75), "×");
}

/// Turns that are not counted.
const WARM: usize = 2;

/// Whose requests are measured.
enum Way<'a> {
    Bare(&'a reqwest::Client),
    Safe(&'a ClientWithMiddleware),
    /// What carries middleware, without any.
    Frame(&'a ClientWithMiddleware),
}

impl Way<'_> {
    /// One request. The bare client sends a key, too, so that both send the same.
    async fn send(&self, url: &str) -> Result<(), Failure> {
        let answer = match self {
            Way::Bare(client) => client.post(url).header("idempotency-key", KEY).body(BODY).send().await?,
            Way::Frame(client) => client.post(url).header("idempotency-key", KEY).body(BODY).send().await?,
            Way::Safe(client) => client.post(url).body(BODY).send().await?,
        };
        answer.bytes().await?;
        Ok(())
    }
}

const BODY: &str = "{\"amount\": 10}";
/// As long as the keys that the middleware makes.
const KEY: &str = "00000000-0000-4000-8000-000000000000";

/// What the requests of a turn took.
struct Turn {
    took: Duration,
    /// Of this thread.
    computed: Duration,
}

async fn turn_of(way: &Way<'_>, url: &str, requests: usize) -> Result<Turn, Failure> {
    let (began, computed) = (Instant::now(), computed());
    for _ in 0..requests {
        way.send(url).await?;
    }
    Ok(Turn { took: began.elapsed(), computed: self::computed() - computed })
}

/// The processor time of this thread so far; everything of the client runs on it.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_nanos(time.tv_nsec.unsigned_abs())
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

/// So much of the figures is less than this.
fn quantile(figures: impl Iterator<Item = f64>, part: f64) -> f64 {
    let mut figures: Vec<_> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[((figures.len() - 1) as f64 * part).round() as usize]
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

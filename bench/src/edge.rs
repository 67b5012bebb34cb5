//! The edge beside nginx: called over the same number of connections with the same requests, with the same service behind, round by
//! round. Both as one process on one core, load and service on the other; and both as they are when nobody says anything else,
//! with all cores shared by everybody, as a load test on one machine has it.
//!
//! hapax authenticates every request by an API key, as in production; its log says
//! what is at least a warning, and nginx writes no access log. What a line for each request costs both is measured apart.
//! What the machine takes to hand out memory is kept out of it as far as that goes (`pages`), and printed.

mod burst;
pub(crate) mod caller;
pub(crate) mod counted;
mod pages;
pub(crate) mod servers;

use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, Rlimit};
use rustix::thread::CpuSet;

use crate::Failure;
use crate::report::Report;
use caller::{Rate, Request, Wanted};
use servers::{Log, Place, Server};

/// What is sent: 512 bytes of JSON.
const BODY: &str = concat!(
    r#"{"amount": 1299, "currency": "EUR", "reference": "order-20931", "customer": {"id": "c-881723", "name": "#,
    r#""Ada Lovelace", "email": "ada@example.org"}, "items": [{"sku": "A-1001", "quantity": 2, "price": 450}, "#,
    r#"{"sku": "B-2040", "quantity": 1, "price": 399}], "shipping": {"street": "12 St James's Square", "city": "#,
    r#""London", "postcode": "SW1Y 4LE", "country": "GB"}, "note": "leave it with the neighbours if nobody is at "#,
    r#"home, ring twice before you go; the bell of the upper floor is broken", "tags": ["gift", "web"]}"#,
);
const CONNECTIONS: usize = 64;
const MANY: usize = 512;
/// Files beyond the callers' connections.
const OTHER_FILES: u64 = 500;

/// How the edge is measured.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Rounds of each measurement; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Callers of the burst on one key.
    #[arg(long, default_value_t = 10_000)]
    burst: usize,
    /// Only the measurements whose name contains this: `shared`, `ratios`, `logged`, `latency`, `allocations` or `burst`.
    #[arg(long, default_value = "")]
    only: String,
}

/// Measures it all.
pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<(), Failure> {
    let callers = args.burst.min(usize::try_from(files().saturating_sub(OTHER_FILES))?);
    let folder = tempfile::tempdir_in(".")?;
    let folder = folder.path();
    let wanted = |name: &str| name.contains(&args.only);
    if wanted("shared") {
        let everywhere = Place::Everywhere(cores()?.len());
        let folder = folder.join("shared");
        let service = Server::service(&folder, everywhere)?;
        Bench { args, folder: &folder, proxy: everywhere, service: &service }.ratios(report).await?;
    }
    let (proxy, own) = apart()?;
    let service = Server::service(folder, own)?;
    let bench = Bench { args, folder, proxy, service: &service };
    if wanted("ratios") {
        bench.ratios(report).await?;
    }
    if wanted("logged") {
        bench.logged(report).await?;
    }
    if wanted("latency") {
        bench.latency(report).await?;
    }
    if wanted("allocations") {
        counted::measure(service.address, report).await?;
    }
    if wanted("burst") {
        burst::measure(folder, proxy, callers, report).await?;
    }
    Ok(())
}

/// The cores that this process may use.
fn cores() -> Result<Vec<usize>, Failure> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect())
}

/// One core for the proxies, and another one, which this thread moves to, for everything else.
pub(crate) fn apart() -> Result<(Place, Place), Failure> {
    let cores = cores()?;
    let [proxy, own, ..] = cores[..] else {
        return Err("proxy and load need a core each, and there is one core in all".into());
    };
    let mut set = CpuSet::new();
    set.set(own);
    rustix::thread::sched_setaffinity(None, &set)?;
    Ok((Place::Core(proxy), Place::Core(own)))
}

/// How many files this process and those it starts may open, after asking for as many as there may be.
fn files() -> u64 {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let most = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match rustix::process::setrlimit(Resource::Nofile, most) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(_) => limit.current.unwrap_or(u64::MAX),
    }
}

struct Bench<'a> {
    args: &'a Args,
    folder: &'a Path,
    proxy: Place,
    service: &'a Server,
}

/// A rate, and the microseconds that the proxy's core was busy for each answer.
#[derive(Default)]
struct Measured {
    rate: Rate,
    busy: f64,
    /// How long the machine took to hand out a page of memory before that.
    page: Duration,
}

/// What two programs are compared by.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum By {
    /// Requests for a second of the core's time: load and service together are busier than nginx, so that nginx is never as fast as
    /// it could be.
    #[default]
    Core,
    /// The same, or the rates where those tell less: hapax waits for a disk as well as for its core.
    CoreAndDisk,
    /// The rates alone.
    Rate,
}

/// The same beside each other, one pair for each round.
#[derive(Default)]
struct Pairs {
    pairs: Vec<(Measured, Measured)>,
    by: By,
}

impl Pairs {
    fn report(&self, name: &str, wanted: f64, report: &mut Report) {
        report.figure(&format!("{name}: nginx"), self.middle(|pair| pair.0.rate.per_second), "req/s");
        report.figure(&format!("{name}: hapax"), self.middle(|pair| pair.1.rate.per_second), "req/s");
        if self.by != By::Rate {
            report.figure(&format!("{name}: nginx, core time"), self.middle(|pair| pair.0.busy), "µs/req");
            report.figure(&format!("{name}: hapax, core time"), self.middle(|pair| pair.1.busy), "µs/req");
        }
        let ratios: Vec<f64> = self.pairs.iter().map(|pair| self.ratio(pair)).collect();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let page = self.middle(|pair| pair.1.page.as_secs_f64() * 1e6);
        report.figure(&format!("{name}: a page of free memory, before that"), page, "µs");
        report.figure(&format!("{name}: least ratio of a round"), least, "×");
        let most = ratios.iter().copied().fold(0.0, f64::max);
        report.figure(&format!("{name}: greatest ratio of a round"), most, "×");
        report.ratio(name, self.middle(|pair| self.ratio(pair)), wanted);
    }

    fn middle(&self, of: impl Fn(&(Measured, Measured)) -> f64) -> f64 {
        let mut values: Vec<f64> = self.pairs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    }

    /// hapax to nginx.
    fn ratio(&self, (nginx, hapax): &(Measured, Measured)) -> f64 {
        let (core, rate) = (nginx.busy / hapax.busy, hapax.rate.per_second / nginx.rate.per_second);
        match self.by {
            By::Core => core,
            By::CoreAndDisk => core.min(rate),
            By::Rate => rate,
        }
    }
}

impl Bench<'_> {
    fn time(&self) -> Duration {
        Duration::from_secs(self.args.seconds)
    }

    async fn load(
        &self,
        server: &Server,
        request: &Request,
        connections: usize,
    ) -> Result<Measured, Failure> {
        let page = pages::touch();
        let before = server.busy()?;
        let rate = caller::run(server.address, request, connections, self.time()).await?;
        let busy = (server.busy()? - before) * 1e6 / rate.answers.max(1) as f64;
        Ok(Measured { rate, busy, page })
    }

    fn hapax(&self, name: &str, store: &str, log: Log) -> Result<Server, Failure> {
        Server::hapax(&self.folder.join(name), self.proxy, self.service.address, store, log)
    }

    fn nginx(&self, log: Log) -> Result<Server, Failure> {
        Server::nginx(self.folder, self.proxy, self.service.address, log)
    }

    async fn ratios(&self, report: &mut Report) -> Result<(), Failure> {
        let nginx = self.nginx(Log::None)?;
        let shared = matches!(self.proxy, Place::Everywhere(_));
        let [mut get, mut post, mut replay, mut first, mut durable] = <[Pairs; 5]>::default();
        durable.by = By::CoreAndDisk;
        if shared {
            for pairs in [&mut get, &mut post, &mut replay, &mut first, &mut durable] {
                pairs.by = By::Rate;
            }
        }
        for round in 0..self.args.rounds {
            // A new process each round: what earlier rounds have kept in memory is not this one's.
            let hapax = self.hapax(&format!("memory{round}"), "memory:", Log::None)?;
            let embedded = self.hapax(&format!("embedded{round}"), "embedded:data", Log::None)?;
            get.pairs.push(self.pair(&nginx, &hapax, "GET", "/items/1").await?);
            post.pairs.push(self.pair(&nginx, &hapax, "POST", "/items/1").await?);

            let kept = Request::new("POST", "/kept", &hapax.api_key, BODY);
            let again = keyed(&hapax, "again", Wanted::Replay);
            let beside = self.load(&nginx, &kept, CONNECTIONS).await?;
            replay.pairs.push((beside, self.load(&hapax, &again, CONNECTIONS).await?));

            for (pairs, server) in [(&mut first, &hapax), (&mut durable, &embedded)] {
                let plain = Request::new("POST", "/items/1", &server.api_key, BODY);
                let beside = self.load(&nginx, &plain, CONNECTIONS).await?;
                pairs.pairs.push((
                    beside,
                    self.load(server, &keyed(server, "first", Wanted::Own), CONNECTIONS).await?,
                ));
            }
        }
        let (how, prefix) = match shared {
            true => ("rates, all cores shared with load and service", "shared: "),
            false => ("one core each", ""),
        };
        report.heading(&format!(
            "the edge beside nginx, {how}, {CONNECTIONS} connections, no line for each request"
        ));
        for (name, pairs, wanted) in [
            ("pass-through GET / nginx proxy_pass", get, 0.85),
            ("pass-through POST / nginx proxy_pass", post, 0.85),
            ("replay / nginx return", replay, 0.7),
            ("first execution, memory store / nginx proxy_pass", first, 0.65),
            ("first execution, embedded store / nginx proxy_pass", durable, 0.3),
        ] {
            pairs.report(&format!("{prefix}{name}"), wanted, report);
        }
        Ok(())
    }

    /// nginx and hapax with one unprotected request.
    async fn pair(
        &self,
        nginx: &Server,
        hapax: &Server,
        method: &str,
        path: &str,
    ) -> Result<(Measured, Measured), Failure> {
        let request = Request::new(method, path, &hapax.api_key, BODY);
        let beside = self.load(nginx, &request, CONNECTIONS).await?;
        Ok((beside, self.load(hapax, &request, CONNECTIONS).await?))
    }

    /// The same with a line for each request in both logs.
    async fn logged(&self, report: &mut Report) -> Result<(), Failure> {
        let nginx = self.nginx(Log::Each)?;
        let [mut post, mut replay] = <[Pairs; 2]>::default();
        for round in 0..self.args.rounds {
            let hapax = self.hapax(&format!("logged{round}"), "memory:", Log::Each)?;
            post.pairs.push(self.pair(&nginx, &hapax, "POST", "/items/1").await?);
            let kept = Request::new("POST", "/kept", &hapax.api_key, BODY);
            let beside = self.load(&nginx, &kept, CONNECTIONS).await?;
            let again = keyed(&hapax, "again", Wanted::Replay);
            replay.pairs.push((beside, self.load(&hapax, &again, CONNECTIONS).await?));
        }
        report.heading("the same, both with a line for each request in their log");
        post.report("logged: pass-through POST / nginx proxy_pass", 0.85, report);
        replay.report("logged: replay / nginx return", 0.7, report);
        Ok(())
    }

    async fn latency(&self, report: &mut Report) -> Result<(), Failure> {
        for connections in [CONNECTIONS, MANY] {
            report.heading(&format!("latency and memory at {connections} connections"));
            let nginx = self.nginx(Log::None)?;
            let hapax = self.hapax(&format!("latency{connections}"), "memory:", Log::None)?;
            let plain = Request::new("POST", "/items/1", &hapax.api_key, BODY);
            for (name, server, request) in [
                ("nginx, pass-through POST", &nginx, plain.clone()),
                ("hapax, pass-through POST", &hapax, plain),
                ("hapax, replay", &hapax, keyed(&hapax, "again", Wanted::Replay)),
                ("hapax, first execution", &hapax, keyed(&hapax, "first", Wanted::Own)),
            ] {
                let measured = self.load(server, &request, connections).await?.rate;
                let name = format!("{name}, {connections} connections");
                report.figure(&format!("{name}, p50"), measured.percentile(0.50), "ms");
                report.figure(&format!("{name}, p99"), measured.percentile(0.99), "ms");
                report.figure(&format!("{name}, resident after"), server.resident()?, "MiB");
                report.figure(&format!("{name}, answers"), measured.answers as f64, "");
            }
        }
        Ok(())
    }
}

/// A request to the protected route.
pub(crate) fn keyed(server: &Server, prefix: &str, wanted: Wanted) -> Request {
    Request::new("POST", "/charges", &server.api_key, BODY).keyed(prefix, wanted)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_body_is_as_long_as_it_is_said_to_be() {
        assert_eq!(super::BODY.len(), 512);
    }
}

//! Instructions of one replay and of one first execution through the edge, counted by callgrind, beside those of another commit.
//!
//! A count is the same on a busy machine as on a quiet one, so that a change of a hundredth can be seen. The program runs under
//! valgrind; load and service are processes of their own. A request's count is the difference of two runs, one with twice as
//! many requests, divided by what the second run had more: what starting and ending take is in both. What a thread does by the
//! clock (a heartbeat, a sweep) counts as well, and is little.
//!
//! Not shown: what waits, misses a cache or is done by the kernel.

mod build;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::edge::caller::{self, Wanted};
use crate::edge::keyed;
use crate::edge::servers::{Place, Server};
use crate::report::Report;

/// What one request may come to beside the commit that it is compared with.
const MOST: f64 = 1.03;

/// How instructions are counted.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The commit to compare with; without it, the counts stand alone.
    #[arg(long, value_name = "COMMIT")]
    against: Option<String>,
    /// Requests of the shorter run.
    #[arg(long, default_value_t = 4_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
}

/// Instructions of one request.
struct Counts {
    replay: f64,
    first: f64,
}

/// Builds what is compared, counts, and reports.
pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<(), Failure> {
    let folder = build::folder()?;
    let now = build::checkout(&folder)?;
    let before = args.against.as_ref().map(|commit| build::commit(&folder, commit)).transpose()?;

    let runs = tempfile::tempdir_in(&folder)?;
    let service = Server::service(runs.path(), Place::Everywhere(1))?;
    let bench = Bench { folder: runs.path(), service: service.address, requests: args.requests };
    report.heading(&format!("instructions of one request, memory store ({})", build::MANNER));
    let now = bench.counts("now", &now, report).await?;
    let (Some(commit), Some(before)) = (&args.against, before) else { return Ok(()) };
    let before = bench.counts(commit, &before, report).await?;
    report.ratio_at_most(&format!("replay / {commit}"), now.replay / before.replay, MOST);
    report.ratio_at_most(&format!("first execution / {commit}"), now.first / before.first, MOST);
    Ok(())
}

struct Bench<'a> {
    folder: &'a Path,
    service: SocketAddr,
    requests: u64,
}

impl Bench<'_> {
    async fn counts(&self, name: &str, program: &Path, report: &mut Report) -> Result<Counts, Failure> {
        let replay = self.count(program, &format!("{name}-replay"), Wanted::Replay).await?;
        report.figure(&format!("replay: {name}"), replay, "instructions");
        let first = self.count(program, &format!("{name}-first"), Wanted::Own).await?;
        report.figure(&format!("first execution: {name}"), first, "instructions");
        Ok(Counts { replay, first })
    }

    async fn count(&self, program: &Path, name: &str, wanted: Wanted) -> Result<f64, Failure> {
        let once = self.run(program, &format!("{name}-1"), wanted, self.requests).await?;
        let twice = self.run(program, &format!("{name}-2"), wanted, 2 * self.requests).await?;
        Ok((twice as f64 - once as f64) / self.requests as f64)
    }

    /// All instructions of a process that answers so many requests, which come one after the other on one connection.
    async fn run(&self, program: &Path, name: &str, wanted: Wanted, requests: u64) -> Result<u64, Failure> {
        let folder = self.folder.join(name);
        let server = Server::counted(&folder, program, self.service)?;
        caller::send(server.address, &keyed(&server, "counted", wanted), requests).await?;
        server.end()?;
        total(&folder.join(Server::COUNTS))
    }
}

/// What callgrind says that it has counted in all.
fn total(file: &PathBuf) -> Result<u64, Failure> {
    let written = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let total = written.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok());
    total.ok_or_else(|| format!("{} has no line `totals:`", file.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_from_what_callgrind_writes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("counts");
        fs::write(&file, "version: 1\nevents: Ir\nfn=(1) main\n12 3\n\ntotals: 123456789\n").unwrap();
        assert_eq!(total(&file).unwrap(), 123_456_789);
        fs::write(&file, "version: 1\n").unwrap();
        assert!(total(&file).unwrap_err().to_string().contains("`totals:`"));
    }
}

//! How fast a route is found among ten and among ten thousand, side by side in one process.
//!
//! The same ten paths are looked for in both tables, in turns, so that both find them in the same state of the machine; what is
//! measured is the shortest round of many. How long it takes to find all ten thousand, one after the other, is a figure beside it:
//! that many names do not fit into the fastest memory.

use std::hint::black_box;
use std::time::{Duration, Instant};

use hapax_gateway::pattern::{Pattern, Tree};

use crate::Failure;
use crate::report::Report;

/// How routes are measured.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Routes in the large table.
    #[arg(long, default_value_t = 10_000)]
    routes: usize,
    /// Rounds of each measurement; the shortest counts.
    #[arg(long, default_value_t = 400)]
    rounds: usize,
}

/// Routes in the small table, and paths that are looked for.
const FEW: usize = 10;
/// How often the few paths are looked for in one round.
const REPEATS: usize = 200;

/// Makes a route's path of a number, and a path that it matches.
type Make = fn(usize) -> (String, String);

/// The kinds of paths that are measured.
const KINDS: [(&str, Make); 2] = [
    ("literal", |number| {
        let path = format!("/api/v1/collection-{number:05}/items");
        (path.clone(), path)
    }),
    ("with parameters", |number| {
        let path = format!("/api/v1/collection-{number:05}/{{id}}/items");
        (path.clone(), path.replace("{id}", "4711"))
    }),
];

/// Measures both kinds of paths.
pub(crate) fn measure(args: &Args, report: &mut Report) -> Result<(), Failure> {
    for (kind, make) in KINDS {
        report.heading(&format!("Finding one of {} routes, {kind}", args.routes));
        let (few, paths) = table(FEW, make)?;
        let (many, all) = table(args.routes, make)?;
        let mut shortest = [Duration::MAX; 2];
        for _ in 0..args.rounds {
            for (tree, shortest) in [&few, &many].into_iter().zip(&mut shortest) {
                *shortest = (*shortest).min(round(tree, &paths, REPEATS));
            }
        }
        let each = |time: Duration, count: usize| time.as_secs_f64() * 1e9 / count as f64;
        let of = |index: usize| each(shortest[index], FEW * REPEATS);
        report.figure(&format!("{kind}: among {FEW}"), of(0), "ns");
        report.figure(&format!("{kind}: among {}", args.routes), of(1), "ns");
        let all_of_them = (0..5).map(|_| round(&many, &all, 1)).min().unwrap_or_default();
        report.figure(
            &format!("{kind}: each of {} in turn", args.routes),
            each(all_of_them, all.len()),
            "ns",
        );
        report.ratio_at_most(&format!("{kind}: time among many over time among few"), of(1) / of(0), 1.1);
    }
    Ok(())
}

fn table(count: usize, make: fn(usize) -> (String, String)) -> Result<(Tree<usize>, Vec<String>), Failure> {
    let (mut tree, mut paths) = (Tree::default(), Vec::new());
    for number in 0..count {
        let (pattern, path) = make(number);
        tree.entry(&Pattern::parse(&pattern)?).push(number);
        paths.push(path);
    }
    Ok((tree, paths))
}

/// Looks for all paths so often.
fn round(tree: &Tree<usize>, paths: &[String], repeats: usize) -> Duration {
    let began = Instant::now();
    for _ in 0..repeats {
        for path in paths {
            black_box(tree.find(black_box(path), Some));
        }
    }
    began.elapsed()
}

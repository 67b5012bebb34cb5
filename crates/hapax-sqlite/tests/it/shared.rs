//! What the tests of the embedded store share.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use hapax_core::claim::Terms;
use hapax_core::{ClaimRequest, Ending, Epoch, Ledger as _, Outcome, Report, Retention, Verdict};
use hapax_sqlite::Embedded;
use hapax_store::Options;
use hapax_store::conformance::{DAY, granted, request};
use hapax_testkit::clock::VirtualClock;
use tempfile::TempDir;

/// Options with this clock, and nothing that happens by itself.
pub(crate) fn frozen(clock: &VirtualClock) -> Options {
    Options { heartbeat: false, sweeper: false, clock: Some(Arc::new(clock.clone())), ..Options::default() }
}

/// From now on the index that finds claims is told after a few of them, not after many thousands.
pub(crate) fn merge_soon() {
    fail::cfg("embedded.recent", "return").unwrap();
}

/// A request with default terms.
pub(crate) fn ask(key: &str) -> ClaimRequest {
    request(key, "body", Terms::default())
}

/// Claims and settles.
pub(crate) async fn settle(store: &Embedded, key: &str, outcome: Outcome, retention: Retention) -> Epoch {
    let request = ask(key);
    let grant = granted(store, &request).await;
    let report = Report::Settle(outcome, retention);
    let ending = store.report(request.identity.claim_id(), grant.epoch, report, Vec::new()).await.unwrap();
    assert!(matches!(ending, Ending::Settled(_)), "{ending:?}");
    grant.epoch
}

/// An outcome that can be told from every other one, and is long enough to be found in a file.
pub(crate) fn outcome_of(key: &str) -> Outcome {
    Outcome::Succeeded(format!("<the answer to {key}>").repeat(20).into())
}

/// Settles `key-0`, `key-1`, …
pub(crate) async fn fill(store: &Embedded, keys: std::ops::Range<usize>) {
    for number in keys {
        let key = format!("key-{number}");
        settle(store, &key, outcome_of(&key), DAY).await;
    }
}

/// Claims again: what a retry of a settled key gets.
pub(crate) async fn retried(store: &Embedded, key: &str) -> Result<Outcome, String> {
    match store.claim(ask(key)).await {
        Ok(Verdict::Replay(kept)) => Ok(kept.outcome),
        Ok(other) => panic!("{key}: expected a replay, got {other:?}"),
        Err(error) => Err(format!("{:?}: {error:#}", error.kind())),
    }
}

/// The store's files as a process that is killed now would leave them.
pub(crate) fn snapshot(store: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["hapax.db", "hapax.db-wal", "hapax.mark"] {
        if store.join(name).exists() {
            std::fs::copy(store.join(name), copy.path().join(name)).unwrap();
        }
    }
    copy
}

/// Turns one byte of a file over.
pub(crate) fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 0x10;
    std::fs::write(file, bytes).unwrap();
}

/// The variable that makes a test play a part in another process.
const PART: &str = "HAPAX_TEST_PART";

/// The folder that this process should work in, if it was started to play a part.
pub(crate) fn part() -> Option<std::path::PathBuf> {
    std::env::var_os(PART).map(Into::into)
}

/// The command that plays the part of a test in another process. What `before` does in the shell also holds
/// for it.
pub(crate) fn play(test: &str, folder: &Path, before: &str) -> Command {
    let this = std::env::current_exe().unwrap();
    let script = format!("{before} exec \"$0\" --exact {test} --nocapture --test-threads=1");
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg(this).env(PART, folder).stdout(Stdio::piped());
    command
}

/// A runtime such as the parts in other processes use.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Eight writers settle one key after the other, and say so, until somebody ends this process.
#[expect(clippy::print_stdout, reason = "what whoever ends it reads")]
pub(crate) fn settle_until_killed(store: &Embedded, prefix: &str) {
    runtime().block_on(async {
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..8 {
            let (store, prefix) = (store.clone(), prefix.to_owned());
            writers.spawn(async move {
                for number in 0.. {
                    let key = format!("{prefix}-{writer}-{number}");
                    settle(&store, &key, outcome_of(&key), DAY).await;
                    println!("settled {key}");
                }
            });
        }
        writers.join_all().await;
    });
}

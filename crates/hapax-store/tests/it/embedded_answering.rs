//! Who is woken when a commit of the embedded store has answered many at once.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use hapax_core::{Ledger as _, Verdict};
use hapax_store::Options;
use hapax_store::embedded::Embedded;
use tokio::runtime::{Builder, Runtime};

use super::embedded::ask;

const COMMIT: &str = "embedded.before_commit";

/// Claims, and says when the command was sent.
async fn claim(store: Embedded, key: String, sent: impl FnOnce()) {
    let mut claim = pin!(store.claim(ask(&key)));
    let mut sent = Some(sent);
    let verdict = poll_fn(|cx| {
        let verdict = claim.as_mut().poll(cx);
        if let Some(sent) = sent.take() {
            sent();
        }
        verdict
    });
    assert!(matches!(verdict.await, Ok(Verdict::Granted(_))), "{key}");
}

/// A store whose writer stands still before its first commit, until `COMMIT` is removed.
fn standing(folder: &tempfile::TempDir) -> (Embedded, Runtime) {
    let options = Options { heartbeat: false, sweeper: false, ..Options::default() };
    let store = Embedded::open(folder.path(), options).unwrap();
    fail::cfg(COMMIT, "pause").unwrap();
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let (sent, is_sent) = mpsc::channel();
    runtime.spawn(claim(store.clone(), "first".into(), move || sent.send(()).unwrap()));
    is_sent.recv().unwrap();
    (store, runtime)
}

#[test]
fn everybody_whom_a_commit_answers_is_woken_wherever_they_wait_b3() {
    let folder = tempfile::tempdir().unwrap();
    let (store, several) = standing(&folder);
    let sent = Arc::new(AtomicUsize::new(0));
    let count = |sent: &Arc<AtomicUsize>| {
        let sent = Arc::clone(sent);
        move || {
            sent.fetch_add(1, Ordering::SeqCst);
        }
    };
    let tasks: Vec<_> = (0..20)
        .map(|number| several.spawn(claim(store.clone(), format!("several-{number}"), count(&sent))))
        .collect();
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let (store, sent) = (store.clone(), Arc::clone(&sent));
            std::thread::spawn(move || {
                Builder::new_current_thread().build().unwrap().block_on(async {
                    // In one thread many wait, in the others one.
                    let tasks: Vec<_> = (0..if thread == 0 { 20 } else { 1 })
                        .map(|number| format!("{thread}-{number}"))
                        .map(|key| tokio::spawn(claim(store.clone(), key, count(&sent))))
                        .collect();
                    for task in tasks {
                        task.await.unwrap();
                    }
                });
            })
        })
        .collect();
    while sent.load(Ordering::SeqCst) < 42 {
        std::thread::yield_now();
    }
    fail::remove(COMMIT);
    several.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_runtime_that_stands_still_holds_up_nobody_else_in_its_thread_b3() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _first) = standing(&folder);
    let still = Builder::new_current_thread().build().unwrap();
    let (sent, is_sent) = tokio::sync::oneshot::channel();
    still.spawn(claim(store.clone(), "still".into(), move || sent.send(()).unwrap()));
    still.block_on(is_sent).unwrap();
    // It is answered by the same commit, and comes after the one that is not polled any more.
    let other = Builder::new_current_thread().build().unwrap();
    other.block_on(claim(store, "other".into(), || fail::remove(COMMIT)));
}

//! Who is woken when a commit of the embedded store has answered many at once.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use hapax_core::{Ledger as _, Verdict};
use hapax_sqlite::Embedded;
use hapax_store::Options;
use tokio::runtime::{Builder, Runtime};

use super::shared::ask;

/// Where the writer stands before each commit until it is let go; dropped, it holds up nobody any more.
struct Gate {
    reached: mpsc::Receiver<()>,
    go: mpsc::Sender<()>,
}

impl Gate {
    fn new() -> Gate {
        let ((here, reached), (go, gone)) = (mpsc::channel(), mpsc::channel());
        let gone = Mutex::new(gone);
        let stand = move || {
            // Errors are of a gate that is not there any more.
            let _ = here.send(());
            let _ = gone.lock().unwrap().recv();
        };
        fail::cfg_callback("embedded.before_commit", stand).unwrap();
        Gate { reached, go }
    }

    fn reached(&self) {
        self.reached.recv().unwrap();
    }

    fn go(&self) {
        self.go.send(()).unwrap();
    }
}

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

/// Claims in a runtime that has threads of its own; returns when the command was sent.
fn claim_there(runtime: &Runtime, store: &Embedded, key: &str) {
    let (sent, is_sent) = mpsc::channel();
    runtime.spawn(claim(store.clone(), key.into(), move || sent.send(()).unwrap()));
    is_sent.recv().unwrap();
}

/// A store whose writer stands before its first commit, so that what comes now shares the second.
fn standing(folder: &tempfile::TempDir) -> (Embedded, Runtime, Gate) {
    let options = Options { heartbeat: false, sweeper: false, ..Options::default() };
    let store = Embedded::open(folder.path(), options).unwrap();
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let gate = Gate::new();
    claim_there(&runtime, &store, "first");
    gate.reached();
    (store, runtime, gate)
}

#[test]
fn everybody_whom_a_commit_answers_is_woken_wherever_they_wait_b3() {
    let folder = tempfile::tempdir().unwrap();
    let (store, several, gate) = standing(&folder);
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
    drop(gate);
    several.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A runtime of this thread with a task that has claimed and is not polled any more.
fn still(store: &Embedded) -> Runtime {
    let runtime = Builder::new_current_thread().build().unwrap();
    let (sent, is_sent) = tokio::sync::oneshot::channel();
    runtime.spawn(claim(store.clone(), "still".into(), move || sent.send(()).unwrap()));
    runtime.block_on(is_sent).unwrap();
    runtime
}

/// Claims in another runtime of this thread, and says whether it is woken.
fn other_is_woken(store: &Embedded, sent: impl FnOnce()) -> bool {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let other = claim(store.clone(), "other".into(), sent);
    runtime.block_on(async {
        tokio::select! {
            // First, because whoever is woken by it would find the answer.
            biased;
            () = tokio::time::sleep(Duration::from_secs(30)) => false,
            () = other => true,
        }
    })
}

#[test]
fn a_runtime_that_stands_still_holds_up_nobody_else_in_its_thread_b3() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _first, gate) = standing(&folder);
    let _still = still(&store);
    assert!(other_is_woken(&store, || drop(gate)));
}

#[test]
fn whoever_is_answered_is_woken_before_another_batch_is_carried_out_b3() {
    let folder = tempfile::tempdir().unwrap();
    let (store, several, gate) = standing(&folder);
    let _still = still(&store);
    let woken = other_is_woken(&store, || {
        gate.go();
        gate.reached();
        // As soon as the second batch is committed there is a third, which is not.
        claim_there(&several, &store, "third");
        gate.go();
    });
    drop(gate);
    assert!(woken);
}

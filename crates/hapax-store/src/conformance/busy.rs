//! Thousands of running claims on one session, while every core is busy (L4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hapax_core::{Counts, Ending, Filter, Report, StateName};
use tokio::task::JoinSet;

use super::{AllPorts, DAY, granted, ok, request};
use crate::Options;
use crate::parts::clock;

const CLAIMS: usize = 5_000;
const TERM: Duration = Duration::from_secs(3);

/// Keeps as many threads busy as there are cores, until it is dropped.
struct Busy(Arc<AtomicBool>, Vec<std::thread::JoinHandle<u64>>);

impl Busy {
    fn cores() -> Busy {
        let on = Arc::new(AtomicBool::new(true));
        let cores = std::thread::available_parallelism().expect("the machine has cores").get();
        let threads = (0..cores).map(|_| {
            let on = on.clone();
            std::thread::spawn(move || {
                let mut turns = 0u64;
                while on.load(Ordering::Relaxed) {
                    turns = std::hint::black_box(turns + 1);
                }
                turns
            })
        });
        let threads = threads.collect();
        Busy(on, threads)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
        for thread in self.1.drain(..) {
            assert!(thread.join().expect("it computes") > 0);
        }
    }
}

/// On a store that was opened with [`options`]: ten terms long the request cores do nothing but compute; the store's own threads must renew all the same.
pub async fn none_lapses<S: AllPorts>(store: S) {
    let mut grants = JoinSet::new();
    for number in 0..CLAIMS {
        let store = store.clone();
        grants.spawn(async move {
            let request = request(&format!("busy{number}"), "body", hapax_core::Terms::default());
            (request.identity.claim_id(), granted(&store, &request).await.epoch)
        });
    }
    let grants = grants.join_all().await;
    let (busy, started) = (Busy::cores(), clock::now());
    while started.elapsed() < TERM * 10 {
        // On the request core too: the runtime's thread is blocked for longer than a term.
        std::thread::sleep(TERM + TERM / 4);
        let counts = store.count(&Filter::default()).await.expect("claims are counted");
        assert_eq!(
            counts,
            Counts { held: CLAIMS as u64, ..Counts::default() },
            "after {:?}",
            started.elapsed()
        );
    }
    drop(busy);
    assert!(store.session().left > Duration::ZERO);
    let held = Filter { state: Some(StateName::Held), ..Filter::default() };
    assert_eq!(store.list(&held, None, 1_000).await.expect("claims are listed").items.len(), 1_000);
    let mut settles = JoinSet::new();
    for (claim, epoch) in grants {
        let store = store.clone();
        settles.spawn(async move {
            store
                .report(claim, epoch, Report::Settle(ok("done"), DAY), Vec::new())
                .await
                .expect("it is settled")
        });
    }
    let endings = settles.join_all().await;
    assert!(endings.iter().all(|ending| matches!(ending, Ending::Settled(_))));
    store.close().await.expect("the store closes");
}

/// A short term, and a sweeper: it would write a lapse down, and that would be seen.
pub fn options() -> Options {
    Options { term: TERM, ..Options::default() }
}

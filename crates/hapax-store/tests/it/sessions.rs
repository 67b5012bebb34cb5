//! Thousands of running claims on one session, while every core is busy (L4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hapax_core::{Counts, Ending, Filter, Report, StateName};
use hapax_store::Options;
use hapax_store::conformance::{AllPorts, DAY, granted, ok, request};
use hapax_store::embedded::Embedded;
use tokio::task::JoinSet;

const CLAIMS: usize = 5_000;
const TERM: Duration = Duration::from_secs(3);

/// Keeps as many threads busy as there are cores, until it is dropped.
struct Busy(Arc<AtomicBool>, Vec<std::thread::JoinHandle<u64>>);

impl Busy {
    fn cores() -> Busy {
        let on = Arc::new(AtomicBool::new(true));
        let cores = std::thread::available_parallelism().unwrap().get();
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
            assert!(thread.join().unwrap() > 0);
        }
    }
}

/// Ten terms long the request cores do nothing but compute; the store's own threads must renew all the same.
async fn none_lapses<S: AllPorts>(store: S) {
    let mut grants = JoinSet::new();
    for number in 0..CLAIMS {
        let store = store.clone();
        grants.spawn(async move {
            let request = request(&format!("busy{number}"), "body", hapax_core::Terms::default());
            (request.identity.claim_id(), granted(&store, &request).await.epoch)
        });
    }
    let grants = grants.join_all().await;
    let (busy, started) = (Busy::cores(), Instant::now());
    while started.elapsed() < TERM * 10 {
        // On the request core too: the runtime's thread is blocked for longer than a term.
        std::thread::sleep(TERM + TERM / 4);
        let counts = store.count(&Filter::default()).await.unwrap();
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
    assert_eq!(store.list(&held, None, 1_000).await.unwrap().items.len(), 1_000);
    let mut settles = JoinSet::new();
    for (claim, epoch) in grants {
        let store = store.clone();
        settles.spawn(async move {
            store.report(claim, epoch, Report::Settle(ok("done"), DAY), Vec::new()).await.unwrap()
        });
    }
    let endings = settles.join_all().await;
    assert!(endings.iter().all(|ending| matches!(ending, Ending::Settled(_))));
    store.close().await.unwrap();
}

/// The sweeper runs, so a lapse would be written down and seen.
fn options() -> Options {
    Options { term: TERM, ..Options::default() }
}

#[tokio::test]
async fn five_thousand_claims_outlive_ten_terms_of_busy_cores_on_the_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    none_lapses(Embedded::open(folder.path(), options()).unwrap()).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn five_thousand_claims_outlive_ten_terms_of_busy_cores_on_postgres() {
    let database = crate::server::Database::fresh().await;
    none_lapses(hapax_store::postgres::Postgres::open(database.url(), options()).await.unwrap()).await;
}

//! The limit to compare with: a log that is appended to and synced, with the same group commit and nothing else.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::Failure;

/// What a claim and a settle write besides the outcome: about what a claim's row holds.
const CLAIM_RECORD: usize = 200;
const BATCH: usize = 1_024;

type Append = (Vec<u8>, oneshot::Sender<()>);

/// Pairs of appends each second.
pub(crate) async fn run(
    folder: &Path,
    waiters: usize,
    time: Duration,
    outcome: usize,
) -> Result<f64, Failure> {
    let file = File::create(folder.join("raw.log"))?;
    let (sender, receiver) = mpsc::channel::<Append>(65_536);
    let writer = std::thread::spawn(move || write(file, receiver));
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..waiters {
        let sender = sender.clone();
        callers.spawn(async move {
            let mut pairs = 0u64;
            while started.elapsed() < time {
                for record in [vec![1; CLAIM_RECORD], vec![2; CLAIM_RECORD + outcome]] {
                    let (done, synced) = oneshot::channel();
                    sender.send((record, done)).await.map_err(|_| "the log is closed")?;
                    synced.await.map_err(|_| "the log is closed")?;
                }
                pairs += 1;
            }
            Ok::<_, Failure>(pairs)
        });
    }
    drop(sender);
    let mut pairs = 0;
    while let Some(caller) = callers.join_next().await {
        pairs += caller??;
    }
    let rate = pairs as f64 / started.elapsed().as_secs_f64();
    writer.join().map_err(|_| "the log's writer panicked")??;
    Ok(rate)
}

/// Takes what is queued, appends it, syncs, answers.
fn write(mut file: File, mut queue: mpsc::Receiver<Append>) -> Result<(), Failure> {
    let mut batch = Vec::with_capacity(BATCH);
    while queue.blocking_recv_many(&mut batch, BATCH) > 0 {
        let bytes: Vec<u8> = batch.iter().flat_map(|(record, _)| record.iter().copied()).collect();
        file.write_all(&bytes)?;
        file.sync_data()?;
        for (_, done) in batch.drain(..) {
            // Whoever stopped waiting does not mind.
            let _ = done.send(());
        }
    }
    Ok(())
}

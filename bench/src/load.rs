//! The load: so many callers that claim and settle, each waiting for its answer before the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hapax_core::{
    ClaimRequest, Ending, Fingerprint, Identity, Key, Ledger, Operation, Outcome, Report, Retention, Scope,
    Source, Verdict, Width,
};
use tokio::task::JoinSet;

use crate::Failure;

/// What a load came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rate {
    /// Claim and settle pairs each second.
    pub(crate) pairs: f64,
    /// Microseconds of a claim, sorted.
    claims: Vec<u32>,
}

impl Rate {
    /// A percentile of the claims' latency in milliseconds.
    pub(crate) fn percentile(&self, part: f64) -> f64 {
        if self.claims.is_empty() {
            return 0.0;
        }
        let at = ((self.claims.len() - 1) as f64 * part) as usize;
        f64::from(self.claims[at]) / 1_000.0
    }
}

/// Keys that no load has used before.
static SERIAL: AtomicU64 = AtomicU64::new(0);

/// A request for a claim nobody has made.
pub(crate) fn fresh() -> ClaimRequest {
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let key = Key::new(format!("8e03978e-40d5-43e8-bc93-{serial:012}")).expect("a good key");
    let operation = Operation::new("bench.pair").expect("a good name");
    let identity = Identity::new(Source::Header, Scope::local(), Width::Subject, operation, key);
    ClaimRequest::new(identity, Fingerprint::of_bytes(b"{\"amount\": 10}"))
}

/// One claim and its settle; the time that the claim took.
pub(crate) async fn pair<L: Ledger>(ledger: &L, outcome: &Bytes) -> Result<Duration, Failure> {
    let request = fresh();
    let claim = request.identity.claim_id();
    let started = Instant::now();
    let Verdict::Granted(grant) = ledger.claim(request).await? else {
        return Err("a fresh claim was not granted".into());
    };
    let took = started.elapsed();
    let settle =
        Report::Settle(Outcome::Succeeded(outcome.clone()), Retention::For(Duration::from_secs(86_400)));
    match ledger.report(claim, grant.epoch, settle, Vec::new()).await? {
        Ending::Settled(_) => Ok(took),
        other => Err(format!("a settle was answered with {other:?}").into()),
    }
}

/// So many callers, for so long.
pub(crate) async fn run<L: Ledger>(
    ledger: &L,
    waiters: usize,
    time: Duration,
    outcome: usize,
) -> Result<Rate, Failure> {
    let outcome = Bytes::from(vec![b'x'; outcome]);
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..waiters {
        let (ledger, outcome) = (ledger.clone(), outcome.clone());
        callers.spawn(async move {
            let mut claims = Vec::new();
            while started.elapsed() < time {
                let took = pair(&ledger, &outcome).await?;
                claims.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
            }
            Ok::<_, Failure>(claims)
        });
    }
    let mut claims = Vec::new();
    while let Some(caller) = callers.join_next().await {
        claims.extend(caller??);
    }
    let pairs = claims.len() as f64 / started.elapsed().as_secs_f64();
    claims.sort_unstable();
    Ok(Rate { pairs, claims })
}

/// Makes keys, as fast as it goes, and says how far it is.
pub(crate) async fn fill<L: Ledger>(ledger: &L, number: usize, outcome: usize) -> Result<(), Failure> {
    let (outcome, made) = (Bytes::from(vec![b'x'; outcome]), Arc::new(AtomicU64::new(0)));
    let mut callers = JoinSet::new();
    for _ in 0..1_024 {
        let (ledger, outcome, made) = (ledger.clone(), outcome.clone(), made.clone());
        callers.spawn(async move {
            loop {
                let count = made.fetch_add(1, Ordering::Relaxed);
                if count >= number as u64 {
                    return Ok::<_, Failure>(());
                }
                if count > 0 && count.is_multiple_of(500_000) {
                    eprintln!("  … {count} of {number} keys");
                }
                pair(&ledger, &outcome).await?;
            }
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    Ok(())
}

/// The middle one.
pub(crate) fn median(mut rates: Vec<Rate>) -> Rate {
    rates.sort_by(|a, b| a.pairs.total_cmp(&b.pairs));
    let middle = rates.len() / 2;
    rates.into_iter().nth(middle).unwrap_or_default()
}

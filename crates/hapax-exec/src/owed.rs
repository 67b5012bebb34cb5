//! Reports that must reach the ledger although nobody waits for them any more.
//!
//! One thread with a runtime of its own, started when the first debt is made: the caller's runtime may be busy, or shutting
//! down. Each debt is tried until the ledger confirms it. A process that dies takes its debts along; then the lease lapses,
//! which is what leases are for.

use std::sync::{Arc, Mutex, PoisonError};

use hapax_core::journal::Append;
use hapax_core::{ClaimId, ClaimRequest, Epoch, Error, Kind, Ledger, Ran, Report, Verdict};
use tokio::sync::mpsc;

use crate::limits;
use crate::spool::Entry;

/// Something the ledger must still hear.
#[derive(Debug)]
pub(crate) enum Debt {
    /// A claim whose fate is unknown and that nobody wants any more (L13).
    Abandon(ClaimRequest),
    /// How an attempt ended.
    Report { claim: ClaimId, epoch: Epoch, report: Report, events: Vec<Append>, spooled: Option<Entry> },
}

/// The debts of one executor.
pub(crate) struct Owed<L>(Arc<Debts<L>>);

struct Debts<L> {
    ledger: L,
    sender: Mutex<Option<mpsc::Sender<Debt>>>,
}

impl<L: Ledger> Owed<L> {
    pub(crate) fn new(ledger: L) -> Self {
        Owed(Arc::new(Debts { ledger, sender: Mutex::default() }))
    }

    /// Takes a debt over. Where even that is impossible, the lease lapses instead.
    pub(crate) fn owe(&self, debt: Debt) {
        let mut sender = self.0.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.is_none() {
            *sender = start(self.0.ledger.clone());
        }
        if let Some(sender) = &*sender {
            let _ = sender.try_send(debt);
        }
    }
}

impl<L> Clone for Owed<L> {
    fn clone(&self) -> Self {
        Owed(self.0.clone())
    }
}

fn start<L: Ledger>(ledger: L) -> Option<mpsc::Sender<Debt>> {
    let (sender, receiver) = mpsc::channel(limits::OWED);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().ok()?;
    let thread = std::thread::Builder::new().name("hapax-owed".into());
    thread.spawn(move || runtime.block_on(deliver_all(ledger, receiver))).ok()?;
    Some(sender)
}

/// Ends when the executor is gone and every debt is paid or given up.
async fn deliver_all<L: Ledger>(ledger: L, mut debts: mpsc::Receiver<Debt>) {
    let mut deliveries = tokio::task::JoinSet::new();
    while let Some(debt) = debts.recv().await {
        while deliveries.try_join_next().is_some() {}
        deliveries.spawn(deliver(ledger.clone(), debt));
    }
    while deliveries.join_next().await.is_some() {}
}

async fn deliver<L: Ledger>(ledger: L, mut debt: Debt) {
    let (mut pause, longest) = limits::OWED_PAUSE;
    let give_up = tokio::time::Instant::now() + limits::OWED_FOR;
    while tokio::time::Instant::now() < give_up {
        match pay(&ledger, &mut debt).await {
            Ok(()) => return,
            Err(error) if error.kind() != Kind::Unavailable => return,
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause = (pause * 2).min(longest);
    }
}

async fn pay<L: Ledger>(ledger: &L, debt: &mut Debt) -> Result<(), Error> {
    match debt {
        Debt::Abandon(request) => {
            // Asking again with the same attempt finds out whether the first command arrived. If it is granted now, it is
            // given back, and the tombstone keeps a straggling first command from being granted to nobody.
            if let Verdict::Granted(grant) = ledger.claim(request.clone()).await? {
                let claim = request.identity.claim_id();
                ledger.report(claim, grant.epoch, Report::Release(Ran::No), Vec::new()).await?;
            }
        }
        Debt::Report { claim, epoch, report, events, spooled } => {
            let paid = ledger.report(*claim, *epoch, report.clone(), events.clone()).await;
            if paid.as_ref().is_err_and(|error| error.kind() == Kind::Conflict) {
                events.clear();
                ledger.report(*claim, *epoch, report.clone(), Vec::new()).await?;
            } else {
                paid?;
            }
            if let Some(entry) = spooled.take() {
                entry.settled();
            }
        }
    }
    Ok(())
}

//! What is owed to the ledger if this future stops here.
//!
//! A future can be dropped at any await. [`Asking`] and [`Lease`] know at each of them what the ledger must still hear, and
//! hand it to [`Owed`], which goes on until the ledger has heard it. So a cancelled call is dealt with at once, not when its
//! lease lapses (E3, L13).

use std::pin::pin;
use std::sync::Arc;

use hapax_core::journal::Append;
use hapax_core::{ClaimId, ClaimRequest, Ending, Epoch, Error, Kind, Ledger, Ran, Report};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::owed::{Debt, Owed};
use crate::spool::{self, Entry, Spool};
use crate::{late, limits};

/// A claim that was sent and not answered yet.
pub(crate) struct Asking<'a, L: Ledger> {
    owed: &'a Owed<L>,
    request: Option<ClaimRequest>,
}

impl<'a, L: Ledger> Asking<'a, L> {
    pub(crate) fn new(owed: &'a Owed<L>, request: ClaimRequest) -> Self {
        Asking { owed, request: Some(request) }
    }

    pub(crate) fn answered(mut self) {
        self.request = None;
    }
}

impl<L: Ledger> Drop for Asking<'_, L> {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            self.owed.owe(Debt::Abandon(request));
        }
    }
}

/// The right to run, and the duty to say how it ended.
pub(crate) struct Lease<L: Ledger> {
    owed: Owed<L>,
    claim: ClaimId,
    epoch: Epoch,
    /// What the ledger must hear if this is dropped now.
    due: Option<(Report, Vec<Append>)>,
    spooled: Option<Arc<Entry>>,
}

impl<L: Ledger> Lease<L> {
    /// A fresh lease: nothing has run yet.
    pub(crate) fn new(owed: &Owed<L>, claim: ClaimId, epoch: Epoch) -> Self {
        Lease {
            owed: owed.clone(),
            claim,
            epoch,
            due: Some((Report::Release(Ran::No), Vec::new())),
            spooled: None,
        }
    }

    /// From here on the work may have run.
    pub(crate) fn dispatched(&mut self) {
        self.due = Some((Report::Release(Ran::Perhaps), Vec::new()));
    }

    /// What the ledger must hear, and the journal events that belong to it.
    pub(crate) fn due(&self) -> Option<&(Report, Vec<Append>)> {
        self.due.as_ref()
    }

    /// The outcome's place in the spool, written already or not; whoever delivers the outcome clears it.
    pub(crate) fn spooled(&mut self, entry: Option<Arc<Entry>>) {
        self.spooled = entry;
    }

    /// The place that [`report`](Self::report) has found for the outcome.
    pub(crate) fn place(&self) -> Option<Arc<Entry>> {
        self.spooled.clone()
    }

    /// Sends a report. One that ends the lease stays due until the ledger has confirmed it.
    pub(crate) async fn report(
        &mut self,
        ledger: &L,
        report: Report,
        events: Vec<Append>,
    ) -> Result<Ending, Error> {
        self.tell(ledger, report, events, None).await
    }

    /// Sends a report. An outcome that the ledger takes long to confirm is put into the spool meanwhile (L15).
    pub(crate) async fn tell(
        &mut self,
        ledger: &L,
        report: Report,
        events: Vec<Append>,
        spool: Option<&Spool>,
    ) -> Result<Ending, Error> {
        let ends = !matches!(report, Report::Renew | Report::Cleared);
        if ends {
            self.due = Some((report.clone(), events.clone()));
        }
        let mut ending = {
            let mut telling = pin!(ledger.report(self.claim, self.epoch, report.clone(), events));
            // Without a runtime there is no timer either: what takes long is waited for.
            match spool.filter(|_| Handle::try_current().is_ok()) {
                None => telling.await,
                Some(spool) => match timeout(limits::SPOOL_AFTER, telling.as_mut()).await {
                    Ok(ending) => ending,
                    Err(_) => {
                        self.take_place(spool);
                        telling.await
                    }
                },
            }
        };
        if ending.as_ref().is_err_and(|error| error.kind() == Kind::Conflict) {
            // The journal has moved on without us, but the outcome is true all the same: it is kept without the events.
            self.due = Some((report.clone(), Vec::new()));
            ending = ledger.report(self.claim, self.epoch, report, Vec::new()).await;
        }
        match &ending {
            Ok(Ending::Renewed { .. }) | Err(_) => {}
            Ok(ending) => {
                if let Some(entry) = self.spooled.clone() {
                    // What cannot be found out is taken for refused, and set aside.
                    let of = (self.claim, self.epoch);
                    let settled = spool::is_settled_for_good(ledger, of, ending).await.unwrap_or(false);
                    if settled && !matches!(ending, Ending::Settled(_) | Ending::AlreadySettled(_)) {
                        late::tell_too_late(of);
                    }
                    entry.heard_meanwhile(settled);
                    self.spooled = None;
                }
                self.due = None;
            }
        }
        ending
    }

    /// A spool that is full has no place: then it is as if there were none.
    fn take_place(&mut self, spool: &Spool) {
        let Some((Report::Settle(outcome, retention), events)) = &self.due else { return };
        if let Ok(entry) = spool.reserve(self.claim, self.epoch, outcome, *retention, events) {
            entry.clone().write_meanwhile();
            self.spooled = Some(entry);
        }
    }
}

impl<L: Ledger> Drop for Lease<L> {
    fn drop(&mut self) {
        if let Some((report, events)) = self.due.take() {
            let (claim, epoch, spooled) = (self.claim, self.epoch, self.spooled.take());
            self.owed.owe(Debt::Report { claim, epoch, report, events, spooled });
        }
    }
}

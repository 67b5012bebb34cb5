//! Under which lease a call asks for its claim: this process's own session, or a lease that a holder elsewhere renews by itself (M1).
//!
//! A grant under the process's own session is a [`Held`]: the work is done here. A grant under another lease is [`Lent`]: it is handed
//! to a holder elsewhere, who begins the work, renews the lease and comes back, to any instance, to conclude it
//! ([`Executor::running`]). This process keeps nothing of it and does not give it back: that holder may ask again, and when it does
//! not, its lease lapses. How a claim is asked for and what is told to those who do not get it is the same for both, in `once`.

use hapax_core::{
    AttemptId, ClaimId, ClaimRequest, Epoch, Leases, Ledger, OperationId, SessionId, Timestamp, Verdict,
};

use crate::call::Call;
use crate::error::Error;
use crate::limits;
use crate::once::{Asking, Entered, Executor, Held};

impl<L: Leases> Executor<L> {
    /// Asks for the claim as [`enter`](Self::enter) does, under a lease that a holder elsewhere has opened in the scope of this call.
    /// A lease that is over, or of another scope, is an error with [`Reason::LeaseOver`](crate::Reason::LeaseOver).
    ///
    /// A holder that asks again with the same attempt gets the same grant, for as long as that stands. It may do so only while it has
    /// begun nothing: who asks again has not heard the first answer. An attempt whose grant was given back is used up.
    pub fn enter_under<P>(
        &self,
        lease: SessionId,
        attempt: AttemptId,
        call: Call,
        payload: P,
    ) -> impl Future<Output = Result<Entered<Lent, P>, Error>> {
        self.ask(call, payload, OtherLease { lease, attempt })
    }
}

/// The right to do the work of one call, for a holder elsewhere. What became of the work is told with
/// [`Executor::running`], by claim and epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// The claim.
    pub claim: ClaimId,
    /// The fencing number, to hand downstream and to conclude with.
    pub epoch: Epoch,
    /// The public id.
    pub operation_id: OperationId,
    /// The lease that it hangs on. It must be renewed, or the claim lapses with it (L6).
    pub lease: SessionId,
    /// The end of `max_run`, on the store's clock: no renewal reaches beyond it.
    pub run_until: Timestamp,
    /// An earlier attempt may have run.
    pub earlier_may_have_run: bool,
    /// The holder must find out first whether an earlier attempt happened, and concludes with its outcome if it did; where that cannot
    /// be found out, with a doubt (L6).
    pub must_ask: bool,
}

/// Under which lease a call asks.
pub(crate) trait Under<L: Ledger>: Copy {
    /// What a grant is to its caller.
    type Right;

    /// Whether it is this process's own: then a claim that the caller does not wait for any more is given back behind the scenes (L13).
    const OWN: bool;

    /// How often the claim is asked for, of this many times at most.
    fn asks(self, most: u8) -> u8;

    /// The attempt that asks next.
    fn attempt(self) -> AttemptId;

    /// Asks the ledger.
    fn claim(
        self,
        ledger: &L,
        request: ClaimRequest,
    ) -> impl Future<Output = Result<Verdict, hapax_core::Error>> + Send;

    /// The claim was granted.
    fn granted(asking: &mut Asking<'_, L, Self>) -> Option<Self::Right>;
}

/// The session of this process.
#[derive(Clone, Copy)]
pub(crate) struct OwnSession;

impl<L: Ledger> Under<L> for OwnSession {
    type Right = Held<L>;
    const OWN: bool = true;

    fn asks(self, most: u8) -> u8 {
        most
    }

    fn attempt(self) -> AttemptId {
        AttemptId::random()
    }

    fn claim(
        self,
        ledger: &L,
        request: ClaimRequest,
    ) -> impl Future<Output = Result<Verdict, hapax_core::Error>> + Send {
        ledger.claim(request)
    }

    fn granted(asking: &mut Asking<'_, L, Self>) -> Option<Held<L>> {
        asking.held()
    }
}

/// A lease that a holder elsewhere renews, and the attempt that this holder has named.
#[derive(Clone, Copy)]
struct OtherLease {
    lease: SessionId,
    attempt: AttemptId,
}

impl<L: Leases> Under<L> for OtherLease {
    type Right = Lent;
    const OWN: bool = false;

    fn asks(self, most: u8) -> u8 {
        most.min(limits::ASKS_OF_ONE_ATTEMPT)
    }

    fn attempt(self) -> AttemptId {
        self.attempt
    }

    fn claim(
        self,
        ledger: &L,
        request: ClaimRequest,
    ) -> impl Future<Output = Result<Verdict, hapax_core::Error>> + Send {
        ledger.claim_under(self.lease, request)
    }

    fn granted(asking: &mut Asking<'_, L, Self>) -> Option<Lent> {
        let (claim, grant) = asking.grant()?;
        Some(Lent {
            claim,
            epoch: grant.epoch,
            operation_id: grant.operation_id,
            lease: asking.under.lease,
            run_until: grant.run_until,
            earlier_may_have_run: grant.earlier_may_have_run,
            must_ask: grant.must_ask,
        })
    }
}

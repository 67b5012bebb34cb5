//! A place in a lane: taken, waited for, begun from, and given up whatever happens (X3).
//!
//! A place that is dropped, and one whose taking has an unknown fate, is left behind the scenes until the store has confirmed it (L13).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hapax_core::claim::View;
use hapax_core::lane::{LaneAnswer, LaneId, LaneView};
use hapax_core::{AttemptId, Backoff, ClaimId, Lanes, Ledger, Watch as _};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::connect::BoxFuture;
use super::plan::Refusal;
use crate::clock::left;
use crate::limits;

/// Leaves that the store has not confirmed yet.
#[derive(Clone, Default)]
pub(super) struct OwedLeaves(Arc<(AtomicUsize, Notify)>);

impl OwedLeaves {
    fn owe<S: Lanes>(&self, store: S, lane: LaneId, ticket: AttemptId, confirmed: bool) {
        self.pay(async move {
            let mut backoff = Backoff::default();
            while store.leave(&lane, ticket, confirmed).await.is_err() {
                sleep(backoff.pause(limits::OWED_PAUSE)).await;
            }
        });
    }

    /// Pays something behind the scenes; [`settle`](Self::settle) waits for it, too.
    pub(super) fn pay(&self, paying: impl Future<Output = ()> + Send + 'static) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        self.0.0.fetch_add(1, Ordering::SeqCst);
        let owed = self.clone();
        runtime.spawn(async move {
            paying.await;
            owed.0.0.fetch_sub(1, Ordering::SeqCst);
            owed.0.1.notify_waiters();
        });
    }

    /// Waits until nothing is owed any more, for so long at most.
    pub(super) async fn settle(&self, within: Duration) -> bool {
        let paid = async {
            loop {
                let told = self.0.1.notified();
                if self.0.0.load(Ordering::SeqCst) == 0 {
                    return;
                }
                told.await;
            }
        };
        timeout(within, paid).await.is_ok()
    }
}

/// Actions of this process that wait for their turn, for whoever watches the process (O1).
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// One action that waits.
struct Waiting;

impl Waiting {
    fn begin() -> Self {
        WAITING.fetch_add(1, Ordering::Relaxed);
        Waiting
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many actions of this process wait for their turn in a lane.
pub fn lanes_waiting() -> usize {
    WAITING.load(Ordering::Relaxed)
}

/// A place that was taken, or may have been.
pub(super) struct Place<S: Lanes> {
    store: S,
    owed: OwedLeaves,
    lane: LaneId,
    ticket: AttemptId,
    claim: Option<ClaimId>,
    left: bool,
}

impl<S: Ledger + Lanes> Place<S> {
    /// Takes a place for an action with this claim; a read has none.
    pub(super) async fn take(
        store: &S,
        owed: &OwedLeaves,
        lane: &LaneId,
        claim: Option<ClaimId>,
    ) -> Result<(Self, LaneAnswer), Refusal> {
        let place = Place {
            store: store.clone(),
            owed: owed.clone(),
            lane: lane.clone(),
            ticket: AttemptId::random(),
            claim,
            left: false,
        };
        let answer =
            store.enter(lane, place.ticket, claim).await.map_err(|error| Refusal::of_store(&error))?;
        fail::fail_point!("actions.entered");
        Ok((place, answer))
    }

    /// Waits for the turn: `true` when it has come, `false` when the place has gone and another one must be taken. Reads do not wait for
    /// a doubt to be resolved, and an action that was done meanwhile waits for nothing more: there is nothing left to be done in its turn.
    pub(super) async fn served(
        &self,
        mut answer: LaneAnswer,
        reads: bool,
        until: Instant,
    ) -> Result<bool, Refusal> {
        let mut watch = self.store.watch_lane(&self.lane);
        let mut waiting = None;
        loop {
            let closed_by = match answer {
                LaneAnswer::Served => return Ok(true),
                LaneAnswer::Gone | LaneAnswer::Done => return Ok(false),
                LaneAnswer::Closed { held: false, .. } if reads => return Ok(true),
                LaneAnswer::Full => {
                    return Err(Refusal::new("lane-full", "too many actions wait for this entity"));
                }
                LaneAnswer::Closed { by, held: false } => {
                    let error = format!(
                        "it is unknown whether an earlier action on this entity happened (claim {by})"
                    );
                    return Err(Refusal::new("lane-in-doubt", error));
                }
                LaneAnswer::Closed { by, held: true } => Some(by),
                LaneAnswer::Waiting { .. } if self.is_settled().await => return Ok(true),
                LaneAnswer::Waiting { .. } => None,
            };
            waiting.get_or_insert_with(Waiting::begin);
            let left = left(until);
            if left.is_zero() {
                return Err(Refusal::new("lane-timeout", "other actions on this entity took too long"));
            }
            match answer {
                // Of many who wait, only the next one reacts to every change. The others come back about when it is their turn.
                LaneAnswer::Waiting { ahead } if ahead > 1 => {
                    let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
                    let pause = limits::LANE_STEP.saturating_mul(ahead);
                    sleep(pause.min(limits::LANE_LOOK).min(left)).await;
                }
                _ => self.changed(&mut watch, closed_by, left.min(limits::LANE_LOOK)).await,
            }
            // The watch tells of commands. What time alone has changed, and what a lost notification told, is seen by looking.
            answer = match self.look().await {
                Ok(view) => view.answer(self.ticket),
                Err(refusal) if left.is_zero() => return Err(refusal),
                Err(_) => answer,
            };
        }
    }

    async fn changed(&self, watch: &mut S::LaneWatch, closed_by: Option<ClaimId>, at_most: Duration) {
        match closed_by {
            None => drop(timeout(at_most, watch.changed()).await),
            Some(claim) => {
                let mut claim = self.store.watch(claim);
                tokio::select! {
                    () = watch.changed() => {}
                    () = claim.changed() => {}
                    () = sleep(at_most) => {}
                }
            }
        }
    }

    async fn is_settled(&self) -> bool {
        let Some(claim) = self.claim else { return false };
        matches!(self.store.peek(claim).await, Ok(Some(View::Settled(_))))
    }

    /// The lane as it stands, for the gate.
    pub(super) async fn look(&self) -> Result<LaneView, Refusal> {
        self.store.look(&self.lane).await.map_err(|error| Refusal::of_store(&error))
    }

    /// Asks whether the action may begin now: whether it is still served. The lane records that it begins. What asks owns everything
    /// that it needs, or the compiler does not see that it is `Send`.
    pub(super) fn beginning(
        &self,
        tool: &str,
        max_run: Duration,
    ) -> impl FnMut() -> BoxFuture<'static, bool> + Send + 'static {
        let (store, lane, ticket, tool) =
            (self.store.clone(), self.lane.clone(), self.ticket, tool.to_owned());
        move || {
            let (store, lane, tool) = (store.clone(), lane.clone(), tool.clone());
            Box::pin(async move {
                matches!(store.begin(&lane, ticket, &tool, max_run).await, Ok(LaneAnswer::Served))
            })
        }
    }

    /// Gives the place up. `confirmed`: the ledger has confirmed that the claim is settled or released.
    pub(super) async fn leave(mut self, confirmed: bool) {
        self.left = true;
        // Owed before it is sent: whoever drops this future does not know whether it arrived.
        let unsent = Unsent { place: &self, confirmed, armed: true };
        if self.store.leave(&self.lane, self.ticket, confirmed).await.is_ok() {
            unsent.disarm();
        }
    }
}

/// A leave that is under way.
struct Unsent<'a, S: Lanes> {
    place: &'a Place<S>,
    confirmed: bool,
    armed: bool,
}

impl<S: Lanes> Unsent<'_, S> {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl<S: Lanes> Drop for Unsent<'_, S> {
    fn drop(&mut self) {
        if self.armed {
            let Place { store, owed, lane, ticket, .. } = self.place;
            owed.owe(store.clone(), lane.clone(), *ticket, self.confirmed);
        }
    }
}

impl<S: Lanes> Drop for Place<S> {
    fn drop(&mut self) {
        if !self.left {
            self.owed.owe(self.store.clone(), self.lane.clone(), self.ticket, false);
        }
    }
}

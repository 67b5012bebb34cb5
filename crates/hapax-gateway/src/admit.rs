//! Is there room for this request (H12)?
//!
//! Bytes are counted while they are held, and no request is read beyond the bound: one that says how long it is has its room
//! before any of it is read. The answer to work that was done cannot be refused any more: it is counted, may go beyond the
//! bound (by `max_kept_response` for each call that runs), and keeps new requests out until there is room again. When the work
//! has come to its end its answer is its connection's, and `max_connections` bounds it. One tenant's share is bounded apart, so
//! that one cannot take everybody's.
//!
//! A tenant's claims are counted before they are made, when the ledger does not know yet which of many requests with one key
//! will have it. So what is counted is the claim, once for all requests of this process that may come to have it, and given back
//! with the last of them: whichever of them runs, it runs in the place that was taken for it.
//!
//! Claims in doubt are counted in the ledger now and then; what this process has brought into doubt since then is added at once,
//! or a service that fails would leave hundreds of doubts until the next count.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hapax_core::{ClaimId, Identity, Ledger, Tenant, View};
use hapax_tower::Room;
use hapax_tower::{Calls, Code, Problem};
use tokio::time::Instant;

use crate::clock;
use crate::limits;
use crate::settings::{Edge, TenantLimits};

/// What is let in, by all threads together.
#[derive(Debug, Default)]
pub struct Admission {
    buffered: AtomicU64,
    draining: AtomicBool,
    counted: Mutex<Counted>,
    in_doubt: Mutex<HashMap<Tenant, u64>>,
}

/// The claims that are counted.
#[derive(Debug, Default)]
struct Counted {
    tenants: HashMap<Tenant, Share>,
    places: HashMap<ClaimId, Place>,
}

/// The place of one claim, in its tenant's share.
#[derive(Debug)]
struct Place {
    /// How many requests may come to have the claim, or have it.
    requests: u32,
    /// Whether it was taken from this second's, and no work has begun that used it up.
    unused: bool,
}

#[derive(Debug)]
struct Share {
    held: u32,
    tokens: f64,
    filled_at: Instant,
}

impl Admission {
    /// From now on nothing new is let in.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Whether nothing new is let in any more.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Bytes held at the moment.
    pub fn buffered(&self) -> u64 {
        self.buffered.load(Ordering::Relaxed)
    }

    /// How many claims of each tenant are in doubt, as was counted just now.
    pub fn set_in_doubt(&self, counted: HashMap<Tenant, u64>) {
        *self.in_doubt.lock().unwrap_or_else(PoisonError::into_inner) = counted;
    }

    /// Lets a keyed request in.
    pub(crate) fn enter(self: &Arc<Self>, edge: &Edge, calls: &Calls) -> Result<Admitted, Problem> {
        if self.is_draining() {
            return Err(Problem::new(Code::Draining));
        }
        if self.buffered() >= edge.max_buffered || calls.detached() >= edge.max_detached {
            return Err(Problem::new(Code::Overloaded));
        }
        Ok(Admitted { admission: self.clone(), most: edge.max_buffered, bytes: 0, claim: None })
    }

    fn count(&self, tenant: &Tenant, claim: ClaimId, limits: &TenantLimits) -> Result<(), Problem> {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let Counted { tenants, places } = &mut *counted;
        // Another request with this key was counted before: this one is no new claim, whatever becomes of the two.
        if let Some(place) = places.get_mut(&claim) {
            place.requests += 1;
            return Ok(());
        }
        if limits.in_doubt > 0 {
            let in_doubt = self.in_doubt.lock().unwrap_or_else(PoisonError::into_inner);
            if in_doubt.get(tenant).is_some_and(|count| *count >= u64::from(limits.in_doubt)) {
                return Err(too_many(
                    "too many claims of this tenant are in doubt; somebody has to resolve them",
                ));
            }
        }
        let now = clock::now();
        if tenants.len() > limits::TENANTS {
            tenants.retain(|_, share| share.held > 0 || now - share.filled_at < Duration::from_secs(1));
        }
        let rate = f64::from(limits.claims_per_second);
        let share = tenants.entry(tenant.clone()).or_insert(Share { held: 0, tokens: rate, filled_at: now });
        if limits.held > 0 && share.held >= limits.held {
            return Err(too_many("too many claims of this tenant are held"));
        }
        if limits.claims_per_second > 0 {
            let filled = share.tokens + (now - share.filled_at).as_secs_f64() * rate;
            (share.tokens, share.filled_at) = (filled.min(rate), now);
            if share.tokens < 1.0 {
                return Err(too_many("this tenant makes too many claims per second"));
            }
            share.tokens -= 1.0;
        }
        share.held += 1;
        places.insert(claim, Place { requests: 1, unused: limits.claims_per_second > 0 });
        Ok(())
    }

    /// The work of a claim has left a doubt.
    fn doubt(&self, tenant: &Tenant) {
        let mut in_doubt = self.in_doubt.lock().unwrap_or_else(PoisonError::into_inner);
        *in_doubt.entry(tenant.clone()).or_insert(0) += 1;
    }

    /// One request less that may have this claim; with the last one its place is free. A claim that came to no work has used up
    /// nothing.
    fn give_back(&self, tenant: &Tenant, claim: ClaimId, begun: bool) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let Entry::Occupied(mut place) = counted.places.entry(claim) else { return };
        place.get_mut().unused &= !begun;
        place.get_mut().requests -= 1;
        if place.get().requests > 0 {
            return;
        }
        let unused = place.remove().unused;
        if let Some(share) = counted.tenants.get_mut(tenant) {
            share.held -= 1;
            share.tokens += if unused { 1.0 } else { 0.0 };
        }
    }
}

fn too_many(detail: &str) -> Problem {
    Problem::new(Code::TooMany).detail(detail)
}

/// The room of one request, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    admission: Arc<Admission>,
    /// What all of them together may hold.
    most: u64,
    bytes: u64,
    /// The claim that is counted.
    claim: Option<Counting>,
}

/// A claim that is counted for a request.
#[derive(Debug)]
struct Counting {
    tenant: Tenant,
    claim: ClaimId,
    /// Whether the work of this request has begun.
    begun: bool,
    /// Whether it would leave a doubt that is counted, if it ended now.
    doubts: bool,
    /// Whether claims in doubt have a bound.
    bounded: bool,
}

impl Admitted {
    /// Counts what may become a new claim, once for all requests that may have it. Whether it does is known when its work
    /// begins: until then it has used up nothing.
    fn count(&mut self, identity: &Identity, limits: &TenantLimits) -> Result<(), Problem> {
        if *limits != TenantLimits::default() {
            let (tenant, claim) = (identity.scope().tenant(), identity.claim_id());
            self.admission.count(tenant, claim, limits)?;
            let (tenant, bounded) = (tenant.clone(), limits.in_doubt > 0);
            self.claim = Some(Counting { tenant, claim, begun: false, doubts: false, bounded });
        }
        Ok(())
    }

    /// Counts a claim, if it is a new one of its tenant's. Only new claims count against the limits: retries of an existing claim, and
    /// requests that share a key with one in flight here, are answered from the ledger however many others there are.
    pub(crate) async fn count_new(
        &mut self,
        identity: &Identity,
        limits: &TenantLimits,
        ledger: &impl Ledger,
    ) -> Result<(), Problem> {
        let Err(refused) = self.count(identity, limits) else { return Ok(()) };
        match ledger.peek(identity.claim_id()).await {
            Ok(Some(View::Held { .. } | View::Settled(_) | View::InDoubt { .. })) => Ok(()),
            Ok(Some(View::Released { .. }) | None) | Err(_) => Err(refused),
        }
    }

    /// Takes room for more of a request, if there is.
    pub(crate) fn reserve(&mut self, bytes: u64) -> Result<(), Problem> {
        let held = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= self.most);
        let buffered = &self.admission.buffered;
        buffered
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, held)
            .map_err(|_| Problem::new(Code::Overloaded))?;
        self.bytes += bytes;
        Ok(())
    }
}

/// The place of a claim that an application asks for. Who asks keeps it for as long as the claim is held.
#[derive(Debug)]
pub struct ClaimPlace {
    room: Admitted,
    bounds_held: bool,
}

impl ClaimPlace {
    /// Takes a place for what may become a new claim, if its tenant has one left.
    pub(crate) async fn take(
        admission: &Arc<Admission>,
        identity: &Identity,
        limits: &TenantLimits,
        ledger: &impl Ledger,
    ) -> Result<Self, Problem> {
        let mut room = Admitted { admission: admission.clone(), most: 0, bytes: 0, claim: None };
        room.count_new(identity, limits, ledger).await?;
        let bounds_held = limits.held > 0 && room.claim.is_some();
        Ok(ClaimPlace { room, bounds_held })
    }

    /// The claim was granted. Whether the place counts until the claim is held no more: then it is kept, and dropped otherwise.
    pub fn granted(&mut self) -> bool {
        self.room.begin();
        if !self.bounds_held {
            // What becomes of the claim is heard of when doubts are counted.
            self.room.end();
        }
        self.bounds_held
    }

    /// The claim has come to its end, or others count the doubt that it has left.
    pub fn end(mut self) {
        self.room.end();
    }
}

impl Room for Admitted {
    fn begin(&mut self) {
        if let Some(counting) = &mut self.claim {
            counting.begun = true;
            counting.doubts = counting.bounded;
        }
    }

    fn end(&mut self) {
        if let Some(counting) = &mut self.claim {
            counting.doubts = false;
        }
    }

    /// Of an answer. Its work is done: it may finish, even beyond the bound.
    fn grow(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.admission.buffered.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.admission.buffered.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(Counting { tenant, claim, begun, doubts, .. }) = &self.claim {
            self.admission.give_back(tenant, *claim, *begun);
            if *doubts {
                self.admission.doubt(tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::{Key, Operation, Project, Scope, Source, Subject, Width};

    use super::*;

    /// Lets in a request with a key that nobody else has.
    fn enter(admission: &Arc<Admission>, tenant: &str, limits: &TenantLimits) -> Result<Admitted, Code> {
        static KEYS: AtomicU64 = AtomicU64::new(0);
        let key = KEYS.fetch_add(1, Ordering::Relaxed);
        enter_with(admission, tenant, &format!("key-{key}"), limits)
    }

    fn enter_with(
        admission: &Arc<Admission>,
        tenant: &str,
        key: &str,
        limits: &TenantLimits,
    ) -> Result<Admitted, Code> {
        let scope = Scope::new(
            Tenant::new(tenant).unwrap(),
            Project::new("web").unwrap(),
            Subject::from_credential_text("user:alice").unwrap(),
        );
        let (operation, key) = (Operation::new("charge").unwrap(), Key::new(key).unwrap());
        let identity = Identity::new(Source::Header, scope, Width::Subject, operation, key);
        let edge = Edge { max_buffered: 100, ..Edge::new(([127, 0, 0, 1], 0).into()) };
        let mut entered = admission.enter(&edge, &Calls::default()).map_err(|problem| problem.code())?;
        entered.count(&identity, limits).map_err(|problem| problem.code())?;
        Ok(entered)
    }

    /// A claim whose work has begun and is over.
    fn work(admission: &Arc<Admission>, tenant: &str, limits: &TenantLimits) -> Result<(), Code> {
        enter(admission, tenant, limits).map(|mut entered| {
            entered.begin();
            entered.end();
        })
    }

    #[test]
    fn bytes_beyond_the_bound_keep_new_requests_out_until_they_are_given_back() {
        let admission = Arc::new(Admission::default());
        let mut first = enter(&admission, "acme", &TenantLimits::default()).unwrap();
        first.grow(100);
        assert_eq!(enter(&admission, "globex", &TenantLimits::default()).unwrap_err(), Code::Overloaded);
        drop(first);
        assert_eq!(admission.buffered(), 0);
        enter(&admission, "globex", &TenantLimits::default()).unwrap();
        admission.drain();
        assert_eq!(enter(&admission, "globex", &TenantLimits::default()).unwrap_err(), Code::Draining);
    }

    #[test]
    fn a_request_takes_no_more_room_than_there_is_and_gives_back_what_it_took_h12() {
        let admission = Arc::new(Admission::default());
        let mut first = enter(&admission, "acme", &TenantLimits::default()).unwrap();
        let mut second = enter(&admission, "acme", &TenantLimits::default()).unwrap();
        first.reserve(60).unwrap();
        for beyond in [41, u64::MAX] {
            assert_eq!(second.reserve(beyond).unwrap_err().code(), Code::Overloaded);
        }
        second.reserve(40).unwrap();
        assert_eq!(first.reserve(1).unwrap_err().code(), Code::Overloaded);
        // An answer is not refused.
        first.grow(10);
        assert_eq!(admission.buffered(), 110);
        drop(first);
        assert_eq!(admission.buffered(), 40);
        drop(second);
        assert_eq!(admission.buffered(), 0);
    }

    #[test]
    fn a_tenant_at_its_limit_does_not_keep_another_one_out_h12() {
        let admission = Arc::new(Admission::default());
        let limits = TenantLimits { held: 2, ..TenantLimits::default() };
        let (first, _second) =
            (enter(&admission, "acme", &limits).unwrap(), enter(&admission, "acme", &limits).unwrap());
        assert_eq!(enter(&admission, "acme", &limits).unwrap_err(), Code::TooMany);
        enter(&admission, "globex", &limits).unwrap();
        drop(first);
        enter(&admission, "acme", &limits).unwrap();
    }

    #[test]
    fn claims_per_second_and_claims_in_doubt_have_bounds_of_their_own_h12() {
        let admission = Arc::new(Admission::default());
        let limits = TenantLimits { claims_per_second: 3, ..TenantLimits::default() };
        let began = Instant::now();
        let entered =
            (0..).find(|_| work(&admission, "acme", &limits).is_err_and(|code| code == Code::TooMany));
        let most = 3.0 + 3.0 * began.elapsed().as_secs_f64();
        assert!(
            entered.is_some_and(|entered| entered >= 3 && f64::from(entered) <= most),
            "{entered:?} of {most}"
        );
        enter(&admission, "globex", &limits).unwrap();

        let limits = TenantLimits { in_doubt: 5, ..TenantLimits::default() };
        admission.set_in_doubt([(Tenant::new("acme").unwrap(), 5)].into());
        assert_eq!(enter(&admission, "acme", &limits).unwrap_err(), Code::TooMany);
        enter(&admission, "globex", &limits).unwrap();
    }

    #[test]
    fn a_doubt_counts_at_once_and_not_when_doubts_are_next_counted_h12() {
        let admission = Arc::new(Admission::default());
        let limits = TenantLimits { in_doubt: 2, ..TenantLimits::default() };
        // Neither what came to its end nor what never began is one.
        for _ in 0..3 {
            work(&admission, "acme", &limits).unwrap();
            enter(&admission, "acme", &limits).unwrap();
        }
        for _ in 0..2 {
            enter(&admission, "acme", &limits).unwrap().begin();
        }
        assert_eq!(enter(&admission, "acme", &limits).unwrap_err(), Code::TooMany);
        enter(&admission, "globex", &limits).unwrap();
        admission.set_in_doubt([(Tenant::new("acme").unwrap(), 1)].into());
        enter(&admission, "acme", &limits).unwrap();
        // Where nobody wants them counted, nothing is remembered.
        let unbounded = TenantLimits { held: 9, ..TenantLimits::default() };
        enter(&admission, "globex", &unbounded).unwrap().begin();
        assert_eq!(admission.in_doubt.lock().unwrap().len(), 1);
    }

    #[test]
    fn requests_with_one_key_have_one_place_until_the_last_of_them_is_gone_h12() {
        let admission = Arc::new(Admission::default());
        let limits = TenantLimits { held: 1, claims_per_second: 1, in_doubt: 1 };
        let first = enter_with(&admission, "acme", "k", &limits).unwrap();
        // Whatever limit is reached meanwhile: what is counted already is no new claim.
        admission.set_in_doubt([(Tenant::new("acme").unwrap(), 1)].into());
        let mut second = enter_with(&admission, "acme", "k", &limits).unwrap();
        admission.set_in_doubt(HashMap::new());
        assert_eq!(enter_with(&admission, "acme", "other", &limits).unwrap_err(), Code::TooMany);
        enter_with(&admission, "globex", "k", &limits).unwrap();
        // The first one goes without having run: the other runs in its place.
        drop(first);
        second.begin();
        assert_eq!(enter_with(&admission, "acme", "other", &limits).unwrap_err(), Code::TooMany);
        enter_with(&admission, "acme", "k", &limits).unwrap();
        let began = Instant::now();
        second.end();
        drop(second);
        let held_only = TenantLimits { claims_per_second: 0, ..limits };
        drop(enter_with(&admission, "acme", "other", &held_only).unwrap());
        assert_eq!(admission.counted.lock().unwrap().places.len(), 0);
        // What ran has used up one claim of this second, for all of them together.
        let next = enter_with(&admission, "acme", "next", &limits).err();
        assert!(next == Some(Code::TooMany) || began.elapsed() >= Duration::from_secs(1), "{next:?}");
    }

    #[test]
    fn a_place_is_given_back_by_a_panic_too_and_what_ran_is_used_up_whoever_goes_last_h12() {
        let admission = Arc::new(Admission::default());
        let limits = TenantLimits { held: 1, ..TenantLimits::default() };
        let first = enter_with(&admission, "acme", "k", &limits).unwrap();
        let second = enter_with(&admission, "acme", "k", &limits).unwrap();
        for mut entered in [first, second] {
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                entered.begin();
                panic!("in the midst of it");
            }));
            assert!(panicked.is_err());
        }
        enter_with(&admission, "acme", "other", &limits).unwrap();

        let limits = TenantLimits { claims_per_second: 1, ..TenantLimits::default() };
        let mut first = enter_with(&admission, "globex", "k", &limits).unwrap();
        let second = enter_with(&admission, "globex", "k", &limits).unwrap();
        let began = Instant::now();
        first.begin();
        drop(first);
        drop(second);
        let next = enter_with(&admission, "globex", "next", &limits).err();
        assert!(next == Some(Code::TooMany) || began.elapsed() >= Duration::from_secs(1), "{next:?}");
    }

    #[test]
    fn what_comes_to_no_work_uses_nothing_up_h12() {
        let admission = Arc::new(Admission::default());
        let limits = TenantLimits { claims_per_second: 1, held: 1, ..TenantLimits::default() };
        let began = Instant::now();
        for _ in 0..100 {
            enter(&admission, "acme", &limits).unwrap();
        }
        work(&admission, "acme", &limits).unwrap();
        let refused = enter(&admission, "acme", &limits).err();
        assert!(refused == Some(Code::TooMany) || began.elapsed() >= Duration::from_secs(1), "{refused:?}");
    }
}

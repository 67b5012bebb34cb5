//! Step 4: is there room for this request (H12)?
//!
//! Bytes are counted while they are held, and no request is read beyond the bound: one that says how long it is has its room
//! before any of it is read. The answer to work that was done cannot be refused any more: it is counted, may go beyond the
//! bound (by `max_kept_response` for each call that runs), and keeps new requests out until there is room again. When the work
//! has come to its end its answer is its connection's, and `max_connections` bounds it. One tenant's share is bounded apart, so
//! that one cannot take everybody's.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hapax_core::Tenant;
use hapax_tower::Room;
use hapax_tower::{Calls, Code, Problem};

use crate::limits;
use crate::settings::{Edge, TenantLimits};

/// What is let in, by all threads together.
#[derive(Debug, Default)]
pub struct Admission {
    buffered: AtomicU64,
    draining: AtomicBool,
    tenants: Mutex<HashMap<Tenant, Share>>,
    in_doubt: Mutex<HashMap<Tenant, u64>>,
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

    fn count(&self, tenant: &Tenant, limits: &TenantLimits) -> Result<(), Problem> {
        if limits.in_doubt > 0 {
            let in_doubt = self.in_doubt.lock().unwrap_or_else(PoisonError::into_inner);
            if in_doubt.get(tenant).is_some_and(|count| *count >= u64::from(limits.in_doubt)) {
                return Err(too_many(
                    "too many claims of this tenant are in doubt; somebody has to resolve them",
                ));
            }
        }
        let now = Instant::now();
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
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
        Ok(())
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
    /// Whose new claim is counted, and whether its work has begun.
    claim: Option<(Tenant, bool)>,
}

impl Admitted {
    /// Counts what may become a new claim of this tenant. Whether it does is known when its work begins: until then it has
    /// used up nothing.
    pub(crate) fn count(&mut self, tenant: &Tenant, limits: &TenantLimits) -> Result<(), Problem> {
        if *limits != TenantLimits::default() {
            self.admission.count(tenant, limits)?;
            self.claim = Some((tenant.clone(), false));
        }
        Ok(())
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

impl Room for Admitted {
    fn begin(&mut self) {
        if let Some((_, begun)) = &mut self.claim {
            *begun = true;
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
        if let Some((tenant, begun)) = &self.claim {
            let mut tenants = self.admission.tenants.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(share) = tenants.get_mut(tenant) {
                share.held -= 1;
                share.tokens += if *begun { 0.0 } else { 1.0 };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(admission: &Arc<Admission>, tenant: &str, limits: &TenantLimits) -> Result<Admitted, Code> {
        let edge = Edge { max_buffered: 100, ..Edge::new(([127, 0, 0, 1], 0).into()) };
        let mut entered = admission.enter(&edge, &Calls::default()).map_err(|problem| problem.code())?;
        entered.count(&Tenant::new(tenant).unwrap(), limits).map_err(|problem| problem.code())?;
        Ok(entered)
    }

    /// A claim whose work has begun and is over.
    fn work(admission: &Arc<Admission>, tenant: &str, limits: &TenantLimits) -> Result<(), Code> {
        enter(admission, tenant, limits).map(|mut entered| entered.begin())
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

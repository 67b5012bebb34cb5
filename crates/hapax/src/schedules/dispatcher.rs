//! Walks schedules from tick to tick (S1). Every instance does, and none needs to know of the others.
//!
//! A tick is sent, its claim is looked for in the ledger, and only then the cursor moves, by compare-and-set. An instance that dies in
//! between leaves a tick that the next one sends again under the same key, which finds the claim. What is due is due by the store's
//! clock, and what has ended is read from the ledger: no answer to a request counts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hapax_core::{Backoff, Error, Ledger as _, View};
use hapax_gateway::Gateway;
use hapax_gateway::metrics::Tick;
use hapax_gateway::settings::{Route, Settings};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;

use super::Schedule;
use super::definition::Definition;
use super::desk::Desk;
use super::place::{Place, claim_id, hex, oldest, place};
use super::sender::{Request, Sender};
use super::state::{Increase, Missed, Open, State, Step, Why, may_be_sent, next_send};
use super::when::When;
use crate::Store;
use crate::{clock, limits};

/// A schedule of this process, ready to be walked.
pub(crate) struct Plan {
    pub(crate) id: Arc<str>,
    pub(crate) definition: Definition,
    digest: String,
    /// Whether it was held against the registry. That is done once for each configuration: an instance that merely goes on must not
    /// bring back what another one has changed since.
    adopted: AtomicBool,
}

/// Dispatches the schedules of one process.
pub(crate) struct Dispatcher {
    store: Store,
    desk: Desk,
    gateway: Arc<Gateway<Store, Store>>,
    settings: watch::Receiver<Settings>,
    plans: watch::Sender<Arc<[Plan]>>,
    sender: Arc<Sender>,
    under_way: Arc<Semaphore>,
    /// An operator has changed something.
    nudged: Notify,
}

impl Dispatcher {
    pub(crate) fn new(
        store: Store,
        gateway: Arc<Gateway<Store, Store>>,
        settings: watch::Receiver<Settings>,
        schedules: &[Schedule],
    ) -> Result<Self, Error> {
        let sender = Arc::new(Sender::new(gateway.address(), gateway.own_tls()?)?);
        let plans = watch::Sender::new(plans(schedules, &settings.borrow()));
        Ok(Dispatcher {
            desk: Desk::new(store.clone()),
            store,
            gateway,
            settings,
            plans,
            sender,
            under_way: Arc::new(Semaphore::new(limits::TICKS_UNDER_WAY)),
            nudged: Notify::new(),
        })
    }

    /// Goes on with the schedules of another configuration, whose settings hold already.
    pub(crate) fn reload(&self, schedules: &[Schedule]) {
        let plans = plans(schedules, &self.settings.borrow());
        self.plans.send_replace(plans);
    }

    /// The schedules of this process.
    pub(crate) fn plans(&self) -> Arc<[Plan]> {
        self.plans.borrow().clone()
    }

    /// Looks at the schedules now.
    pub(crate) fn nudge(&self) {
        self.nudged.notify_waiters();
    }

    /// Walks all schedules, until it is ended.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut plans = self.plans.subscribe();
        loop {
            let present = plans.borrow_and_update().clone();
            let mut walks = JoinSet::new();
            for index in 0..present.len() {
                let (dispatcher, present) = (self.clone(), present.clone());
                walks.spawn(async move { dispatcher.walk(&present[index]).await });
            }
            // One that panicked takes the others with it, and all are started again by the supervisor.
            let panicked = async {
                while let Some(ended) = walks.join_next().await {
                    assert!(ended.is_ok(), "the walk of a schedule has ended");
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = panicked => {}
                changed = plans.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn walk(self: &Arc<Self>, plan: &Plan) {
        let mut walk = Walk::new(self.clone(), plan);
        let (mut fails, mut backoff) = (false, Backoff::default());
        loop {
            let pause = match walk.turn().await {
                Ok(pause) => {
                    (fails, backoff) = (false, Backoff::default());
                    pause
                }
                Err(error) => {
                    if !std::mem::replace(&mut fails, true) {
                        tracing::warn!(schedule = &*plan.id, %error, "a schedule cannot go on; it is tried again");
                    }
                    backoff.pause((2 * limits::SCHEDULE_PAUSE, limits::SCHEDULE_PAUSE_MOST))
                }
            };
            if pause.is_zero() {
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = walk.answered.notified() => {}
                () = self.nudged.notified() => {}
            }
        }
    }

    fn count(&self, schedule: &Arc<str>, Increase(gained): Increase) {
        let metrics = self.gateway.metrics();
        for (tick, count) in [
            (Tick::Dispatched, gained.dispatched - gained.late),
            (Tick::DispatchedLate, gained.late),
            (Tick::Missed, gained.missed),
            (Tick::Skipped, gained.skipped),
        ] {
            if count > 0 {
                metrics.ticks(schedule, tick, count);
            }
        }
    }
}

/// The schedules of a configuration with the routes that they call.
fn plans(schedules: &[Schedule], settings: &Settings) -> Arc<[Plan]> {
    let plan = |schedule: &Schedule| {
        let named = |route: &&Route| {
            route.rule.as_ref().is_some_and(|rule| rule.name().as_str() == schedule.operation)
        };
        // A configuration whose schedule has no route is refused.
        let route = settings.routes.iter().find(named)?;
        let definition = Definition {
            timing: schedule.timing.clone(),
            operation: route.rule.as_ref()?.operation.as_str().to_owned(),
            route: format!("{} {}", route.method, route.path),
            tenant: schedule.tenant.as_str().to_owned(),
            project: schedule.project.as_str().to_owned(),
            content_type: schedule.content_type.clone(),
            body: schedule.body.clone(),
            overlap: schedule.overlap,
            catch_up: schedule.catch_up,
        };
        let (id, digest) = (schedule.id.clone(), definition.digest());
        Some(Plan { id, definition, digest, adopted: AtomicBool::new(false) })
    };
    schedules.iter().filter_map(plan).collect()
}

/// One schedule, as one process walks it.
struct Walk<'p> {
    dispatcher: Arc<Dispatcher>,
    plan: &'p Plan,
    whens: HashMap<String, When>,
    /// Keys of ticks whose requests were answered: their claims may have ended.
    answers: Arc<Mutex<BTreeMap<String, Option<u16>>>>,
    answered: Arc<Notify>,
    /// Keys whose claims are to be looked at, whatever their time is.
    look: BTreeSet<String>,
    /// Whether it was told that the definition is not the one in force.
    told: bool,
    /// The tick whose claim did not come about.
    failed: Option<Failed>,
}

/// A tick that was sent and whose claim did not come about: the more often, the later it is sent again.
struct Failed {
    key: String,
    backoff: Backoff,
    until: Instant,
}

impl Failed {
    /// The same tick once more, or another one.
    fn again(former: Option<Failed>, key: &str) -> Failed {
        let same = former.filter(|former| former.key == key);
        let mut backoff = same.map_or(Backoff::default(), |former| former.backoff);
        let pause = backoff.pause((limits::SCHEDULE_PAUSE, limits::SCHEDULE_PAUSE_MOST));
        Failed { key: key.to_owned(), backoff, until: clock::now() + pause }
    }

    /// How long it is not sent.
    fn left(&self) -> Duration {
        self.until.saturating_duration_since(clock::now())
    }
}

impl<'p> Walk<'p> {
    fn new(dispatcher: Arc<Dispatcher>, plan: &'p Plan) -> Self {
        let (answers, answered) = (Arc::default(), Arc::new(Notify::new()));
        Walk {
            dispatcher,
            plan,
            whens: HashMap::new(),
            answers,
            answered,
            look: BTreeSet::new(),
            told: false,
            failed: None,
        }
    }

    fn id(&self) -> &'p str {
        &self.plan.id
    }

    /// Does what is next, and says how long nothing need be done then.
    async fn turn(&mut self) -> Result<Duration, Error> {
        let (desk, dispatcher) = (self.dispatcher.desk.clone(), self.dispatcher.clone());
        let Some((mut state, version)) = self.adopted(&desk).await? else { return Ok(Duration::ZERO) };
        if state.current != self.plan.digest {
            // Another definition is in force: the instances that have it dispatch.
            if !std::mem::replace(&mut self.told, true) {
                tracing::warn!(
                    schedule = self.id(),
                    "the schedule is another one in the registry: this instance dispatches none of its ticks"
                );
            }
            return Ok(limits::SCHEDULE_LOOK_EVERY);
        }
        self.told = false;
        let before = state.clone();
        let now = desk.now().await?;
        let mut gained = self.tend(&mut state, now).await?;
        let mut pause = limits::SCHEDULE_LOOK_EVERY;
        if state.paused.is_none() {
            self.learn(&state);
            let oldest = self.oldest(&state, now);
            let step = state.step(|digest| self.whens.get(digest).cloned(), now, oldest);
            match self.take(&mut state, step, now).await? {
                Progress::Changed(more) => (gained, pause) = (plus(gained, more), Duration::ZERO),
                Progress::Nothing(until) => pause = pause.min(until),
                Progress::Failed => {
                    let left = self.failed.as_ref().map(Failed::left).filter(|left| !left.is_zero());
                    pause = pause.min(left.unwrap_or(limits::SCHEDULE_PAUSE));
                }
            }
        }
        if state != before {
            match desk.put(self.id(), version, &state).await? {
                true => dispatcher.count(&self.plan.id, gained),
                // Another instance was faster. What it has written is looked at next.
                false => return Ok(Duration::ZERO),
            }
        }
        let sent_again = state.open.iter().filter(|open| !state.rests(open));
        let sends = sent_again.map(|open| next_send(open).saturating_sub(now)).min();
        let sends =
            sends.map_or(pause, |until| Duration::from_millis(u64::try_from(until).unwrap_or(0).max(1)));
        Ok(pause.min(sends))
    }

    /// The schedule as it is kept; `None` where it has just been written.
    async fn adopted(&mut self, desk: &Desk) -> Result<Option<(State, u64)>, Error> {
        let found = desk.get(self.id()).await?;
        let (state, version) = match found {
            Some((state, version))
                if self.plan.adopted.load(Ordering::SeqCst) || state.current == self.plan.digest =>
            {
                self.plan.adopted.store(true, Ordering::SeqCst);
                return Ok(Some((state, version)));
            }
            Some((mut state, version)) => {
                state.adopt(&self.plan.definition, desk.now().await?);
                tracing::info!(
                    schedule = self.id(),
                    timing = self.plan.definition.timing.shown(),
                    "the schedule was changed"
                );
                (state, version)
            }
            None => (State::new(&self.plan.definition, desk.now().await?), 0),
        };
        if desk.put(self.id(), version, &state).await? {
            self.plan.adopted.store(true, Ordering::SeqCst);
        }
        Ok(None)
    }

    /// Makes ready what the definitions of the document say.
    fn learn(&mut self, state: &State) {
        self.whens.retain(|digest, _| state.definitions.contains_key(digest));
        for (digest, definition) in &state.definitions {
            if !self.whens.contains_key(digest)
                && let Ok(when) = When::of(&definition.timing)
            {
                self.whens.insert(digest.clone(), when);
            }
        }
    }

    /// Before this, a tick's outcome could have been forgotten: half of the retention is left for the way there.
    fn oldest(&self, state: &State, now: i64) -> i64 {
        let settings = self.dispatcher.settings.borrow();
        // The outcomes of a former definition's ticks are kept as its own route says.
        let (_, definition) = state.walked();
        let place = definition.and_then(|definition| place(&settings, definition, "sched.x.0"));
        oldest(place.map(|place| place.retention), now)
    }

    /// Looks after the open ticks: those that have ended go, others are sent again.
    async fn tend(&mut self, state: &mut State, now: i64) -> Result<Increase, Error> {
        let answered = std::mem::take(&mut *self.answers.lock().unwrap_or_else(PoisonError::into_inner));
        self.look.extend(answered.into_keys());
        self.look.retain(|key| state.open.iter().any(|open| open.key == *key));
        let mut gained = Increase::default();
        for open in state.open.clone() {
            let due = may_be_sent(&open, now);
            if !due && !self.look.contains(&open.key) {
                continue;
            }
            let ledger = match claim_id(&open.claim) {
                Some(claim) => self.dispatcher.store.peek(claim).await?,
                None => None,
            };
            let is_held = match ledger {
                Some(View::Settled(_) | View::InDoubt { .. }) => {
                    state.ended(&open.key);
                    continue;
                }
                Some(View::Held { .. }) => true,
                Some(View::Released { .. }) | None => false,
            };
            if !due {
                continue;
            }
            if state.rests(&open) {
                continue;
            }
            if is_held {
                // It runs; looked at again when another sending would be due.
                state.sent_again(&open.key, now);
                continue;
            }
            let place = self.place_of(state, &open);
            let is_old = open.at < oldest(place.as_ref().map(|place| place.retention), now);
            match place {
                // Under another claim it could run a second time.
                Some(place) if hex(&place.claim) == open.claim && !is_old => {
                    if self.send(state, &place, &open) {
                        state.sent_again(&open.key, now);
                    }
                }
                Some(_) if is_old => gained = plus(gained, self.give_up(state, &open, Why::Old)),
                _ => gained = plus(gained, self.give_up(state, &open, Why::Unroutable)),
            }
        }
        Ok(gained)
    }

    fn give_up(&self, state: &mut State, open: &Open, why: Why) -> Increase {
        tracing::warn!(
            schedule = self.id(),
            key = open.key,
            why = why.as_str(),
            "a tick has not ended and is not sent again"
        );
        state.given_up(&open.key, why)
    }

    fn place_of(&self, state: &State, open: &Open) -> Option<Place> {
        let definition = state.definitions.get(&open.definition)?;
        place(&self.dispatcher.settings.borrow(), definition, &open.key)
    }

    /// Takes the next step, as far as it can be taken now.
    async fn take(&mut self, state: &mut State, step: Step, now: i64) -> Result<Progress, Error> {
        let until = |at: i64| Duration::from_millis(u64::try_from(at.saturating_sub(now)).unwrap_or(0));
        match step {
            Step::Wait(None) => Ok(Progress::Nothing(Duration::MAX)),
            Step::Wait(Some(at)) => Ok(Progress::Nothing(until(at))),
            Step::Hold => Ok(Progress::Nothing(limits::SCHEDULE_PAUSE)),
            Step::Forget => {
                state.forget();
                Ok(Progress::Changed(Increase::default()))
            }
            Step::Skip(at) => {
                tracing::info!(
                    schedule = self.id(),
                    tick = at,
                    "a tick is left out: an earlier one has not ended"
                );
                Ok(Progress::Changed(state.skipped(at)))
            }
            Step::Miss(missed) => {
                // An instance may have sent the first of them, and died before it moved the cursor.
                let digest = state.walked().0.to_owned();
                if let Some((tick, place)) = self.tick(state, missed.at, &digest, now)
                    && self.dispatcher.store.peek(place.claim).await?.is_some()
                {
                    return Ok(Progress::Changed(state.dispatched(tick, true)));
                }
                tracing::warn!(
                    schedule = self.id(),
                    from = missed.at,
                    until = missed.until,
                    count = missed.count,
                    why = missed.why.as_str(),
                    "ticks were missed"
                );
                Ok(Progress::Changed(state.missed(missed)))
            }
            Step::Send { at, definition, late } => {
                let Some((tick, place)) = self.tick(state, at, &definition, now) else {
                    // A former definition's route can be gone, and its ticks must not keep back the later ones.
                    let missed = Missed { at, until: at, count: 1, why: Why::Unroutable };
                    tracing::warn!(schedule = self.id(), tick = at, "a tick is missed: no route takes it");
                    return Ok(Progress::Changed(state.missed(missed)));
                };
                // Whatever woke this up, a tenant that is at its limit is not asked again before its time.
                if let Some(failed) = self.failed.as_ref().filter(|failed| failed.key == tick.key)
                    && !failed.left().is_zero()
                {
                    return Ok(Progress::Failed);
                }
                if !self.claimed(state, &tick, &place).await? {
                    return Ok(Progress::Failed);
                }
                self.failed = None;
                Ok(Progress::Changed(state.dispatched(tick, late)))
            }
        }
    }

    /// A planned tick, and where it goes.
    fn tick(&self, state: &State, at: i64, digest: &str, now: i64) -> Option<(Open, Place)> {
        let key = format!("sched.{}.{at}", self.id());
        let place = place(&self.dispatcher.settings.borrow(), state.definitions.get(digest)?, &key)?;
        let claim = hex(&place.claim);
        Some((Open { key, at, definition: digest.to_owned(), claim, sent_at: now, sends: 1 }, place))
    }

    /// Sends a tick and waits until its claim exists: that, and no answer, says that it was taken.
    async fn claimed(&mut self, state: &State, tick: &Open, place: &Place) -> Result<bool, Error> {
        let store = self.dispatcher.store.clone();
        // Another instance may have been faster, or this one before it was started again.
        if store.peek(place.claim).await?.is_some() {
            return Ok(true);
        }
        if !self.send(state, place, tick) {
            return Ok(false);
        }
        let (mut pause, mut waited) = (*limits::CLAIM_LOOK.start(), Duration::ZERO);
        while waited < limits::CLAIM_WAIT {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.answered.notified() => {}
            }
            let answer = self.answers.lock().unwrap_or_else(PoisonError::into_inner).get(&tick.key).copied();
            if store.peek(place.claim).await?.is_some() {
                return Ok(true);
            }
            if let Some(status) = answer {
                self.answers.lock().unwrap_or_else(PoisonError::into_inner).remove(&tick.key);
                let told = self.failed.as_ref().is_some_and(|failed| failed.key == tick.key);
                if !told {
                    tracing::warn!(
                        schedule = self.id(),
                        key = tick.key,
                        status,
                        "a tick was not taken; it is sent again, the longer the more rarely"
                    );
                }
                self.failed = Some(Failed::again(self.failed.take(), &tick.key));
                return Ok(false);
            }
            waited += pause;
            pause = (pause * 2).min(*limits::CLAIM_LOOK.end());
        }
        Ok(false)
    }

    /// Sends a tick, whose answer is not waited for. Says whether there was room for it.
    fn send(&self, state: &State, place: &Place, tick: &Open) -> bool {
        let dispatcher = &self.dispatcher;
        let Some(definition) = state.definitions.get(&tick.definition) else { return false };
        let Some(secrets) = dispatcher.settings.borrow().auth.schedules.clone() else { return false };
        let Ok(room) = dispatcher.under_way.clone().try_acquire_owned() else { return false };
        let request = Request {
            method: place.route.method.clone(),
            target: place.route.path.to_string(),
            tenant: definition.tenant.clone(),
            project: definition.project.clone(),
            key: tick.key.clone(),
            content_type: definition.content_type.clone(),
            body: Bytes::from(definition.body.clone()),
        };
        let (sender, key) = (dispatcher.sender.clone(), tick.key.clone());
        let (answers, answered) = (self.answers.clone(), self.answered.clone());
        tokio::spawn(async move {
            let _room = room;
            let status = match sender.send(&secrets, request).await {
                Ok(status) => Some(status),
                Err(error) => {
                    tracing::debug!(key, error, "a tick was not answered");
                    None
                }
            };
            answers.lock().unwrap_or_else(PoisonError::into_inner).insert(key, status);
            answered.notify_one();
        });
        true
    }
}

/// What became of a step.
enum Progress {
    /// The document is to be written.
    Changed(Increase),
    /// There is nothing to do for this long.
    Nothing(Duration),
    /// It could not be taken.
    Failed,
}

fn plus(Increase(mut one): Increase, Increase(other): Increase) -> Increase {
    one.dispatched += other.dispatched;
    one.late += other.late;
    one.missed += other.missed;
    one.skipped += other.skipped;
    Increase(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_whose_claim_does_not_come_about_is_sent_more_and_more_rarely_s1() {
        let mut failed = None;
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let before = clock::now();
            let again = Failed::again(failed.take(), "sched.a.1");
            pauses.push(again.until - before);
            failed = Some(again);
        }
        let least = |times: u32| limits::SCHEDULE_PAUSE * times;
        assert!(pauses[..3].iter().zip([1, 2, 4]).all(|(pause, times)| *pause >= least(times)), "{pauses:?}");
        assert!(pauses[0] < pauses[1] && pauses[1] < pauses[2], "{pauses:?}");
        assert!(*pauses.last().unwrap() >= limits::SCHEDULE_PAUSE_MOST, "{pauses:?}");
        assert!(!failed.as_ref().unwrap().left().is_zero());
        let other = Failed::again(failed, "sched.a.2");
        assert!(other.left() <= limits::SCHEDULE_PAUSE, "another tick");
    }
}

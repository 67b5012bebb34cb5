//! Lanes (X3): what closes and opens them with real claims, what wakes a watch, and every answer and state against the rules.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax_core::claim::Terms;
use hapax_core::lane::{
    Lane, LaneAnswer, LaneCommand, LaneId, LaneView, Moment, Standing, Ticket, step, view,
};
use hapax_core::{
    AttemptId, ClaimId, Decision, Ending, Epoch, Grant, Inspect as _, Kind, Lanes, Ledger, Project, Ran,
    Report, SessionId, Tenant, Verb, Verdict, View, Watch as _, limits,
};
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::random::Random;
use super::{AllPorts, DAY, Harness, granted, ok, request};
use crate::{Lifecycle as _, Options};

fn lane(entity: &str) -> LaneId {
    LaneId {
        tenant: Tenant::new("acme").expect("a good name"),
        project: Project::new("prod").expect("a good name"),
        entity: entity.into(),
    }
}

fn ticket(number: u8) -> AttemptId {
    AttemptId::from_bytes([number; 16])
}

const RUN: Duration = Duration::from_secs(600);

async fn enter<S: Lanes>(store: &S, number: u8, claim: Option<ClaimId>) -> LaneAnswer {
    store.enter(&lane("order:7"), ticket(number), claim).await.expect("enter")
}

async fn begin<S: Lanes>(store: &S, number: u8) -> LaneAnswer {
    store.begin(&lane("order:7"), ticket(number), "hold", RUN).await.expect("begin")
}

async fn leave<S: Lanes>(store: &S, number: u8, confirmed: bool) {
    store.leave(&lane("order:7"), ticket(number), confirmed).await.expect("leave");
}

async fn claimed<S: Ledger>(store: &S, key: &str) -> (ClaimId, Grant) {
    let request = request(key, "body", Terms::default());
    (request.identity.claim_id(), granted(store, &request).await)
}

/// X3.
pub async fn lanes_are_served_in_order_and_skip_the_dead<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    assert_eq!(enter(&store, 1, None).await, LaneAnswer::Served);
    assert_eq!(enter(&store, 2, None).await, LaneAnswer::Waiting { ahead: 1 });
    assert_eq!(enter(&store, 2, None).await, LaneAnswer::Waiting { ahead: 1 });
    assert_eq!(begin(&store, 2).await, LaneAnswer::Waiting { ahead: 1 });
    assert_eq!(begin(&store, 3).await, LaneAnswer::Gone, "to begin takes no place");
    leave(&store, 1, true).await;
    assert_eq!(enter(&store, 2, None).await, LaneAnswer::Served);
    if let Some(other) = harness.join(harness.options()).await {
        assert_eq!(enter(&other, 4, None).await, LaneAnswer::Waiting { ahead: 1 });
        harness.advance(store.session().term * 2 / 3);
        other.renew_session().await.expect("renew");
        harness.advance(store.session().term * 2 / 3);
        assert_eq!(enter(&other, 4, None).await, LaneAnswer::Served);
        let seen = other.look(&lane("order:7")).await.expect("look");
        assert_eq!(seen.lane.tickets.len(), 1);
    }
}

/// Operators look at lanes, in pages, whatever their entities are called.
pub async fn lanes_are_listed_in_pages<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let mut entered: Vec<LaneId> = ["order:7", "a/b/c", "größe 1", "z", "0"].map(lane).to_vec();
    entered.push(LaneId { tenant: Tenant::new("umbrella").expect("a good name"), ..lane("order:7") });
    for (number, lane) in (1..).zip(&entered) {
        store.enter(lane, ticket(number), None).await.expect("enter");
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.lanes(after.as_deref(), 4).await.expect("a page");
        assert!(page.items.len() <= 4);
        found.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    found.sort();
    entered.sort();
    assert_eq!(found, entered);
    let error = store.lanes(Some("nonsense"), 4).await.expect_err("no mark");
    assert_eq!(error.kind(), Kind::Invalid);
}

/// X3: a claim closes its lane exactly as long as it is held or in doubt, and nothing else opens it.
pub async fn a_lane_is_closed_while_the_claim_that_closed_it_is_held_or_in_doubt<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let (claim, grant) = claimed(&store, "closing").await;
    let closed = |held| LaneAnswer::Closed { by: claim, held };
    assert_eq!(enter(&store, 1, Some(claim)).await, LaneAnswer::Served);
    leave(&store, 1, false).await;
    assert_eq!(enter(&store, 2, None).await, closed(true));
    assert_eq!(begin(&store, 2).await, closed(true));
    let doubt = Report::Release(Ran::Perhaps);
    let told = store.report(claim, grant.epoch, doubt, Vec::new()).await.expect("report");
    assert_eq!(told, Ending::InDoubt);
    assert_eq!(enter(&store, 2, None).await, closed(false));
    assert_eq!(enter(&store, 3, Some(claim)).await, LaneAnswer::Served, "its own retry may overtake");
    leave(&store, 3, true).await;
    let release = Decision {
        seen: grant.epoch,
        verb: Verb::Release { force: true },
        actor: "ann".into(),
        reason: "checked".into(),
    };
    store.decide(claim, release).await.expect("decide");
    let seen = store.look(&lane("order:7")).await.expect("look");
    assert_eq!((seen.lane.closed_by, seen.answer(ticket(2))), (None, LaneAnswer::Served));
    assert_eq!(begin(&store, 2).await, LaneAnswer::Served, "the place was kept");
}

/// X3: a leave that is not confirmed looks at the claim by itself.
pub async fn a_leave_whose_claim_is_over_leaves_the_lane_open<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let (settled, grant) = claimed(&store, "settled").await;
    let settle = Report::Settle(ok("done"), DAY);
    store.report(settled, grant.epoch, settle, Vec::new()).await.expect("settle");
    let absent = request("absent", "body", Terms::default()).identity.claim_id();
    for (number, claim) in [(1, settled), (2, absent)] {
        assert_eq!(enter(&store, number, Some(claim)).await, LaneAnswer::Served);
        leave(&store, number, false).await;
        assert_eq!(enter(&store, 9, None).await, LaneAnswer::Served);
        leave(&store, 9, true).await;
    }
}

/// X3, L6: kill -9 in the middle of a run.
pub async fn a_lapsed_run_closes_its_lane_until_it_is_resolved<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let Some(other) = harness.join(harness.options()).await else { return };
    let (claim, grant) = claimed(&store, "lapsed").await;
    assert_eq!(enter(&store, 1, Some(claim)).await, LaneAnswer::Served);
    assert_eq!(begin(&store, 1).await, LaneAnswer::Served);
    assert_eq!(enter(&other, 2, None).await, LaneAnswer::Waiting { ahead: 1 });
    harness.advance(store.session().term);
    other.renew_session().await.expect("renew");
    harness.advance(Duration::from_secs(1));
    let closed = LaneAnswer::Closed { by: claim, held: false };
    assert_eq!(enter(&other, 2, None).await, closed);
    // A late truth opens it.
    let settle = Report::Settle(ok("late"), DAY);
    let late = store.report(claim, grant.epoch, settle, Vec::new()).await.expect("settle");
    assert!(matches!(late, Ending::Settled(_)), "{late:?}");
    assert_eq!(enter(&other, 2, None).await, LaneAnswer::Served);
}

/// X6: what `recent` counts is what has begun, in the order of the lane.
pub async fn a_lane_tells_which_actions_began_lately<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    let (hour, minute) = (Duration::from_secs(3600), Duration::from_secs(60));
    for number in 1..=70 {
        assert_eq!(enter(&store, number, None).await, LaneAnswer::Served);
        assert_eq!(begin(&store, number).await, LaneAnswer::Served);
        assert_eq!(begin(&store, number).await, LaneAnswer::Served, "said again it changes nothing");
        leave(&store, number, true).await;
        if number % 10 == 0 {
            harness.advance(minute);
            store.renew_session().await.expect("renew");
        }
    }
    let seen = store.look(&lane("order:7")).await.expect("look");
    assert_eq!(seen.time, harness.now());
    assert_eq!(seen.lane.recent.count("hold", 3 * minute, seen.time), Some(30));
    assert_eq!(seen.lane.recent.count("hold", hour, seen.time), None, "70 began, and 64 are kept");
    assert_eq!(seen.lane.recent.count("release", hour, seen.time), Some(0));
    let other = store.look(&lane("order:8")).await.expect("look");
    assert_eq!(other.lane, Lane::default());
}

/// X1: what cannot be a name is refused.
pub async fn a_lane_refuses_names_that_are_none<H: Harness>(harness: &H) {
    let store = harness.fresh(harness.options()).await;
    for entity in [String::new(), "x".repeat(limits::MAX_NAME_BYTES + 1)] {
        let refused = store.enter(&lane(&entity), ticket(1), None).await.expect_err("refused");
        assert_eq!(refused.kind(), Kind::Invalid);
        assert_eq!(store.look(&lane(&entity)).await.expect_err("refused").kind(), Kind::Invalid);
    }
    let long = "x".repeat(limits::MAX_TOOL_BYTES + 1);
    let refused = store.begin(&lane("order:7"), ticket(1), &long, RUN).await.expect_err("refused");
    assert_eq!(refused.kind(), Kind::Invalid);
    assert_eq!(store.look(&lane("order:7")).await.expect("look").lane, Lane::default());
}

/// X3: nobody has to write in order to wait. Polling is off.
pub async fn a_leave_wakes_a_watch_of_the_lane<H: Harness>(harness: &H) {
    let store = harness.fresh(Options { poll: false, ..harness.options() }).await;
    wakes(&store, &store).await;
}

/// The same across processes.
pub async fn a_leave_elsewhere_wakes_a_watch_by_notification_alone<H: Harness>(harness: &H) {
    let options = || Options { poll: false, ..harness.options() };
    let store = harness.fresh(options()).await;
    let other = harness.join(options()).await.expect("another process");
    wakes(&store, &other).await;
}

/// The same where every notification is lost.
pub async fn a_leave_elsewhere_wakes_a_watch_by_polling_alone<H: Harness>(harness: &H) {
    let options = || Options { notify: false, ..harness.options() };
    let store = harness.fresh(options()).await;
    let other = harness.join(options()).await.expect("another process");
    wakes(&store, &other).await;
}

async fn wakes<S: Lanes>(first: &S, waiter: &S) {
    for round in 0..5 {
        let (served, waiting) = (2 * round + 1, 2 * round + 2);
        assert_eq!(enter(first, served, None).await, LaneAnswer::Served);
        assert_eq!(enter(waiter, waiting, None).await, LaneAnswer::Waiting { ahead: 1 });
        let mut watch = waiter.watch_lane(&lane("order:7"));
        let seen = waiter.look(&lane("order:7")).await.expect("look");
        assert_eq!(seen.answer(ticket(waiting)), LaneAnswer::Waiting { ahead: 1 });
        leave(first, served, true).await;
        let woken = timeout(Duration::from_secs(20), async {
            loop {
                watch.changed().await;
                let seen = waiter.look(&lane("order:7")).await.expect("look");
                if seen.answer(ticket(waiting)) == LaneAnswer::Served {
                    break;
                }
            }
        });
        woken.await.expect("the watch wakes");
        leave(waiter, waiting, true).await;
    }
}

const LANES: usize = 24;
const ROUNDS: usize = 60;
/// Commands of one lane in one round.
const COMMANDS: usize = 14;
const TICKETS: u8 = 7;
const KEYS: usize = 3;

/// One lane and its claims, which nobody else touches.
struct Model {
    lane: Lane,
    /// The latest grant of each claim.
    epochs: [Option<Epoch>; KEYS],
}

struct World<S> {
    stores: Vec<S>,
    models: Vec<AsyncMutex<Model>>,
    /// Until when the session of each store lasts.
    sessions: Mutex<HashMap<SessionId, hapax_core::Timestamp>>,
}

/// L1, for lanes: random commands to many lanes at once, from every process that the store admits, while claims are granted, lapse
/// and are resolved and time passes. Each answer and each state is what the rules say.
#[allow(clippy::print_stderr, reason = "a failure must be repeatable, so its seed is told")]
pub async fn every_answer_and_state_of_a_lane_is_what_the_rules_say<H: Harness>(harness: &H) {
    let seed = super::differential::seed();
    eprintln!("lanes: HAPAX_SEED={seed}");
    let mut random = Random::new(seed);
    let mut stores = vec![harness.fresh(harness.options()).await];
    for _ in 0..2 {
        stores.extend(harness.join(harness.options()).await);
    }
    let until = harness.now().after(stores[0].session().term);
    let model = || AsyncMutex::new(Model { lane: Lane::default(), epochs: [None; KEYS] });
    let world = Arc::new(World {
        sessions: Mutex::new(stores.iter().map(|store| (store.session().id, until)).collect()),
        models: (0..LANES).map(|_| model()).collect(),
        stores,
    });
    for _ in 0..ROUNDS {
        let (mut clients, now) = (JoinSet::new(), harness.now());
        for number in 0..LANES {
            let (world, mut random) = (world.clone(), Random::new(random.number()));
            clients.spawn(async move {
                let mut model = world.models[number].lock().await;
                for _ in 0..COMMANDS {
                    world.command(number, &mut model, &mut random, now).await;
                }
            });
        }
        while let Some(done) = clients.join_next().await {
            done.expect("a client ends well");
        }
        harness.advance(random.of(&[0, 1, 900, 11_000, 31_000, 95_000, 700_000].map(Duration::from_millis)));
        for store in &world.stores {
            if !random.once_in(3) {
                store.renew_session().await.expect("renew");
                let until = harness.now().after(store.session().term);
                world.sessions.lock().expect("nobody panics").insert(store.session().id, until);
            }
        }
    }
}

impl<S: AllPorts> World<S> {
    async fn command(
        &self,
        number: usize,
        model: &mut Model,
        random: &mut Random,
        now: hapax_core::Timestamp,
    ) {
        let store = &self.stores[random.below(self.stores.len())];
        if random.once_in(3) {
            let key = random.below(KEYS);
            return self.claim(store, number, key, &mut model.epochs[key], random).await;
        }
        let id = lane(&format!("entity:{number}"));
        let name = ticket(u8::try_from(random.below(TICKETS.into())).expect("few"));
        let claim = random.of(&[None, Some(0), Some(1), Some(2)]).map(|key| asked(number, key));
        let (command, answer) = match random.below(5) {
            0 | 1 => {
                let term = store.session().term;
                let place = Ticket::new(name, store.session().id, claim, now, term);
                (LaneCommand::Enter(place), store.enter(&id, name, claim).await.expect("enter"))
            }
            2 => {
                let tool = random.of(&["hold", "send"]);
                let begin = LaneCommand::Begin { ticket: name, tool: tool.into(), max_run: RUN };
                (begin, store.begin(&id, name, tool, RUN).await.expect("begin"))
            }
            _ => {
                let confirmed = random.once_in(2);
                store.leave(&id, name, confirmed).await.expect("leave");
                (LaneCommand::Leave { ticket: name, confirmed }, LaneAnswer::Done)
            }
        };
        let mut claims = HashMap::new();
        for key in 0..KEYS {
            let standing = match store.peek(asked(number, key)).await.expect("peek") {
                Some(View::Held { .. }) => Standing::Held,
                Some(View::InDoubt { .. }) => Standing::InDoubt,
                _ => Standing::Over,
            };
            claims.insert(asked(number, key), standing);
        }
        let sessions = self.sessions.lock().expect("nobody panics").clone();
        let moment = Moment {
            time: now,
            lives: |session: SessionId| sessions.get(&session).is_some_and(|until| now < *until),
            standing: |claim: &ClaimId| claims[claim],
        };
        let (after, expected) = step(&model.lane, &command, &moment);
        assert_eq!(answer, expected, "{command:?} to {:?}", model.lane);
        let seen = store.look(&id).await.expect("look");
        let view: LaneView = view(&after, &moment);
        assert_eq!(seen, view, "after {command:?} to {:?}", model.lane);
        model.lane = after;
    }

    /// Something happens to a claim.
    async fn claim(
        &self,
        store: &S,
        number: usize,
        key: usize,
        epoch: &mut Option<Epoch>,
        random: &mut Random,
    ) {
        let claim = asked(number, key);
        let report = match (random.below(6), *epoch) {
            (0 | 1, _) | (_, None) => {
                let rerun = random.terms().rerun;
                let asked = request(&name(number, key), "body", Terms { rerun, ..Terms::default() });
                if let Verdict::Granted(grant) = store.claim(asked).await.expect("the ledger answers") {
                    *epoch = Some(grant.epoch);
                }
                return;
            }
            (2, Some(seen)) => {
                let verb = random.of(&[Verb::Release { force: true }, Verb::Reopen, Verb::Purge]);
                let decision = Decision { seen, verb, actor: "ann".into(), reason: "why not".into() };
                store.decide(claim, decision).await.expect("decide");
                return;
            }
            (3, _) => Report::Settle(ok("done"), DAY),
            (4, _) => Report::Release(Ran::No),
            _ => Report::Release(Ran::Perhaps),
        };
        if let Some(epoch) = *epoch {
            store.report(claim, epoch, report, Vec::new()).await.expect("report");
        }
    }
}

fn name(number: usize, key: usize) -> String {
    format!("lane{number}.{key}")
}

fn asked(number: usize, key: usize) -> ClaimId {
    super::identity("conformance.op", &name(number, key)).claim_id()
}

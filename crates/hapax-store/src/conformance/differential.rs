//! The differential test: a store against the rules (L1).
//!
//! Concurrent clients send random commands; for each claim they take turns, so that the order is known, while the commands
//! on other claims run beside it and share its commits. After each command the answer and the stored claim must be exactly
//! what [`step`] says, and in the end the audit what [`audit`] and [`forgotten`] say. Time moves, sessions lapse and revive,
//! and the sweeper runs, between rounds.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax_core::claim::audit::{AuditEvent, audit, forgotten};
use hapax_core::claim::{current, view};
use hapax_core::{
    Answer, Change, Claim, ClaimRequest, Command, Counts, Decision, Epoch, Filter, Ledger, Now, Operated,
    OperationId, Outcome, Report, SessionId, SetAnswer, Sign, Swept, Timestamp, Verdict, step,
};
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinSet;

use super::random::Random;
use super::{AllPorts, Harness, request};
use crate::parts::filter;

/// Commands in all; the contract asks for 10⁵ at least.
const COMMANDS: usize = 100_000;
const CLIENTS: usize = 64;
const CLAIMS: usize = 256;
const ROUNDS: usize = 125;

/// What the rules say the store holds for one claim.
struct Model {
    claim: Option<Claim>,
    /// The latest request, to be sent again now and then (L13).
    latest: Option<ClaimRequest>,
    /// What the audit tells of it, in order.
    notes: Vec<AuditEvent>,
}

impl Model {
    /// Writes down what was decided, before the claim becomes what it was decided to be.
    fn note(&mut self, command: &Command, change: &Change, answer: &Answer, time: Timestamp) {
        let before = self.claim.as_ref();
        if let Some(operation) = forgotten(before, command, change, answer) {
            let own = self.notes.iter_mut().filter(|event| event.operation_id() == Some(operation));
            own.filter_map(|event| event.outcome.as_mut()).for_each(|outcome| *outcome = Outcome::Erased);
        }
        self.notes.extend(audit(before, command, change, answer, time));
    }
}

struct World<S> {
    /// One handle for each process that the store admits.
    stores: Vec<S>,
    models: Vec<AsyncMutex<Model>>,
    /// What is known of each store's session, in the order of `stores`.
    sessions: Mutex<Vec<(SessionId, Sign)>>,
    /// Every epoch that was ever granted.
    epochs: Mutex<HashSet<Epoch>>,
    term: Duration,
}

/// The check.
#[allow(clippy::print_stderr, reason = "a failure must be repeatable, so its seed is told")]
pub async fn every_answer_and_state_is_what_the_rules_say<H: Harness>(harness: &H) {
    let seed = seed();
    eprintln!("differential: HAPAX_SEED={seed}");
    let options = harness.options();
    let mut stores = vec![harness.fresh(options.clone()).await];
    for _ in 0..2 {
        stores.extend(harness.join(options.clone()).await);
    }
    let started = harness.now();
    let sign = Sign { last: started, until: started.after(options.term) };
    let world = Arc::new(World {
        sessions: Mutex::new(stores.iter().map(|store| (store.session().id, sign)).collect()),
        models: (0..CLAIMS)
            .map(|_| AsyncMutex::new(Model { claim: None, latest: None, notes: Vec::new() }))
            .collect(),
        epochs: Mutex::default(),
        term: options.term,
        stores,
    });
    let mut random = Random::new(seed);
    for _ in 0..ROUNDS {
        run_clients(&world, &mut random, harness.now()).await;
        harness.advance(random.duration());
        renew_some(&world, &mut random, harness.now()).await;
        if random.once_in(3) {
            sweep(&world, harness.now()).await;
        }
    }
    for number in 0..CLAIMS {
        compare_state(&world, number, world.models[number].lock().await.claim.as_ref(), harness.now()).await;
    }
    compare_audit(&world).await;
}

/// The claims' entries lie among each other in an order that nobody knows, those of one claim do not.
async fn compare_audit<S: AllPorts>(world: &World<S>) {
    let mut stored: HashMap<OperationId, Vec<AuditEvent>> = HashMap::new();
    let mut after = None;
    loop {
        let page = world.stores[0].audit(after.as_deref(), 100).await.expect("audit");
        for event in page.items {
            let operation = event.operation_id().expect("nobody sets anything here");
            stored.entry(operation).or_default().push(event);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    stored.values_mut().for_each(|newest_first| newest_first.reverse());
    let mut expected: HashMap<OperationId, Vec<AuditEvent>> = HashMap::new();
    for model in &world.models {
        for event in model.lock().await.notes.drain(..) {
            let operation = event.operation_id().expect("a claim's");
            expected.entry(operation).or_default().push(event);
        }
    }
    for (operation, told) in &expected {
        assert_eq!(stored.remove(operation).as_ref(), Some(told), "the audit of {operation}");
    }
    assert!(stored.is_empty(), "the audit tells of what did not happen: {stored:?}");
}

pub(super) fn seed() -> u64 {
    std::env::var("HAPAX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_115)
}

async fn run_clients<S: AllPorts>(world: &Arc<World<S>>, random: &mut Random, time: Timestamp) {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (world, mut random) = (world.clone(), Random::new(random.number()));
        clients.spawn(async move {
            for _ in 0..COMMANDS.div_ceil(CLIENTS * ROUNDS) {
                one_command(&world, &mut random, client, time).await;
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.expect("no client found a difference");
    }
}

async fn one_command<S: AllPorts>(world: &World<S>, random: &mut Random, client: usize, time: Timestamp) {
    let number = random.below(CLAIMS);
    let at = client % world.stores.len();
    let mut model = world.models[number].lock().await;
    let id = request(&key(number), "", super::Terms::default()).identity.claim_id();
    let (mut command, again) = command(random, &mut model, number, world.stores[at].session().id);
    if let Command::Hold(epoch, Report::Renew) = command
        && world.sessions.lock().expect("no poison")[at].1 != renewed(time, world.term)
    {
        // It would revive the session under the other clients' feet, and nobody could say what they should see.
        command = Command::Hold(epoch, Report::Cleared);
    }
    let answer = match &command {
        Command::Claim(_) => Answer::Verdict(
            world.stores[at].claim(again.clone().expect("a claim has a request")).await.expect("claim"),
        ),
        Command::Set(_, outcome, retention) => {
            let request = again.clone().expect("a set has a request");
            Answer::Set(world.stores[at].set(request, outcome.clone(), *retention).await.expect("set"))
        }
        Command::Hold(epoch, report) => Answer::Ending(
            world.stores[at].report(id, *epoch, report.clone(), Vec::new()).await.expect("report"),
        ),
        Command::Operate(decision) => {
            Answer::Operated(world.stores[at].decide(id, decision.clone()).await.expect("decide"))
        }
        Command::Sweep(_) => unreachable!("sweeping happens between rounds"),
    };
    let now = moment(world, model.claim.as_ref(), time, new_epoch(&answer, model.claim.as_ref()));
    let (change, expected) = step(model.claim.as_ref(), &command, &now);
    assert_eq!(answer, expected, "claim {number}: {command:?} on {:?} at {now:?}", model.claim);
    model.note(&command, &change, &expected, time);
    apply(&mut model.claim, change, &world.epochs);
    compare_state(world, number, model.claim.as_ref(), time).await;
}

fn key(number: usize) -> String {
    format!("k{number}")
}

/// Picks a command that has a chance of doing something.
fn command(
    random: &mut Random,
    model: &mut Model,
    number: usize,
    session: SessionId,
) -> (Command, Option<ClaimRequest>) {
    let epoch = model.claim.as_ref().map_or(Epoch::from_packed(7), |claim| claim.epoch);
    match random.below(20) {
        0..=7 => {
            let request = match &model.latest {
                Some(latest) if random.once_in(5) => latest.clone(),
                _ => fresh_request(random, number),
            };
            model.latest = Some(request.clone());
            (Command::Claim(request.ask(session)), Some(request))
        }
        8 => {
            let request = fresh_request(random, number);
            (Command::Set(request.ask(session), random.outcome(), random.retention()), Some(request))
        }
        9..=16 => (Command::Hold(random.epoch_near(epoch), random.report()), None),
        _ => {
            let seen = random.epoch_near(epoch);
            let decision =
                Decision { seen, verb: random.verb(), actor: "op".into(), reason: "because".into() };
            (Command::Operate(decision), None)
        }
    }
}

fn fresh_request(random: &mut Random, number: usize) -> ClaimRequest {
    let body = if random.once_in(8) { "other" } else { "body" };
    request(&key(number), body, random.terms())
}

fn moment<S>(world: &World<S>, claim: Option<&Claim>, time: Timestamp, next: Option<Epoch>) -> Now {
    let sessions = world.sessions.lock().expect("no poison");
    let known = claim.and_then(|claim| sessions.iter().find(|(id, _)| *id == claim.session));
    // An epoch that no store could have given out shows up at once if the rules use it and the store did not.
    let next_epoch = next.unwrap_or(Epoch::from_packed(u64::MAX >> 1));
    Now { time, next_epoch, holder: known.map_or(Sign::UNKNOWN, |(_, sign)| *sign) }
}

/// The epoch that the store drew for this answer. Whether it should have drawn one is for the rules to say.
fn new_epoch(answer: &Answer, before: Option<&Claim>) -> Option<Epoch> {
    let epoch = match answer {
        Answer::Verdict(Verdict::Granted(grant)) => grant.epoch,
        Answer::Set(SetAnswer::Stored(kept)) => kept.epoch,
        Answer::Operated(Operated::Done(Some(epoch))) => *epoch,
        _ => return None,
    };
    before.is_none_or(|claim| claim.epoch < epoch).then_some(epoch)
}

fn apply(claim: &mut Option<Claim>, change: Change, epochs: &Mutex<HashSet<Epoch>>) {
    match change {
        Change::None => {}
        Change::Remove => *claim = None,
        Change::Put(after) => {
            let moved = claim.as_ref().is_none_or(|before| before.epoch != after.epoch);
            if moved {
                assert!(
                    epochs.lock().expect("no poison").insert(after.epoch),
                    "epoch {} was given out twice",
                    after.epoch
                );
            }
            *claim = Some(after);
        }
    }
}

async fn compare_state<S: AllPorts>(world: &World<S>, number: usize, model: Option<&Claim>, time: Timestamp) {
    let identity = request(&key(number), "", super::Terms::default()).identity;
    let store = &world.stores[number % world.stores.len()];
    let now = moment(world, model, time, None);
    let expected = current(model, &now).map(std::borrow::Cow::into_owned);
    let stored = store.record(identity.claim_id()).await.expect("record");
    assert_eq!(
        stored.as_ref().map(|record| &record.claim),
        expected.as_ref(),
        "claim {number} is stored otherwise"
    );
    if let Some(record) = stored {
        assert_eq!(record.identity, identity);
    }
    let seen = store.peek(identity.claim_id()).await.expect("peek");
    assert_eq!(seen, view(model, &now), "claim {number} is seen otherwise");
}

async fn renew_some<S: AllPorts>(world: &World<S>, random: &mut Random, time: Timestamp) {
    for (at, store) in world.stores.iter().enumerate() {
        if random.once_in(2) {
            store.renew_session().await.expect("renew");
            world.sessions.lock().expect("no poison")[at].1 = renewed(time, world.term);
        }
    }
}

fn renewed(time: Timestamp, term: Duration) -> Sign {
    Sign { last: time, until: time.after(term) }
}

/// Sweeps until nothing is due; then every claim must stand as if the rules had swept it.
async fn sweep<S: AllPorts>(world: &World<S>, time: Timestamp) {
    let mut expected = Counts::default();
    for model in &world.models {
        let mut model = model.lock().await;
        sweep_model(world, &mut model, time);
        if let Some(claim) = &model.claim {
            filter::add(&mut expected, claim.state.name(), 1);
        }
    }
    // A sweep may pass over what another transaction has not let go of yet; the next one finds it.
    let mut counted = Counts::default();
    for _ in 0..500 {
        while world.stores[0].sweep(50).await.expect("sweep").more {}
        counted = world.stores[0].count(&Filter::default()).await.expect("count");
        if counted == expected {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(counted, expected, "the store swept something else than the rules");
    for (number, model) in world.models.iter().enumerate() {
        compare_state(world, number, model.lock().await.claim.as_ref(), time).await;
    }
}

/// Visits a claim until nothing is due: what one visit releases, the next one may forget.
fn sweep_model<S>(world: &World<S>, model: &mut Model, time: Timestamp) {
    while let Some(epoch) = model.claim.as_ref().map(|claim| claim.epoch) {
        let now = moment(world, model.claim.as_ref(), time, None);
        let command = Command::Sweep(epoch);
        let (change, answer) = step(model.claim.as_ref(), &command, &now);
        if answer == Answer::Swept(Swept::Kept) {
            return;
        }
        model.note(&command, &change, &answer, time);
        apply(&mut model.claim, change, &world.epochs);
    }
}

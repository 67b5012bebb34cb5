//! Concurrent commands on one claim must look as if they had been decided one after the other by the rules.
//!
//! Small histories, many of them, each searched for an order that explains every answer. A claim that is told `Held` is
//! excused: a store may call a claim held while another command is at work on it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hapax_core::claim::Terms;
use hapax_core::{
    Answer, Change, Claim, Command, Decision, Epoch, Ledger, Now, Operated, SessionId, Sign, Verdict, step,
};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::random::Random;
use super::{AllPorts, DAY, Harness, granted, ok, request};

const HISTORIES: usize = 300;
const CLIENTS: usize = 4;
const COMMANDS: usize = 4;

/// One command with its answer, and the times between which it was decided.
#[derive(Clone, Debug)]
struct Call {
    command: Command,
    answer: Answer,
    sent: usize,
    answered: usize,
}

/// The check.
pub async fn concurrent_commands_on_one_claim_have_an_order<H: Harness>(harness: &H) {
    let options = harness.options();
    let mut stores = vec![harness.fresh(options.clone()).await];
    stores.extend(harness.join(options.clone()).await);
    let sign = Sign { last: harness.now(), until: harness.now().after(options.term) };
    let mut random = Random::new(7);
    for number in 0..HISTORIES {
        let calls = history(&stores, &format!("h{number}"), random.number()).await;
        let now = Now { time: harness.now(), next_epoch: Epoch::from_packed(u64::MAX >> 1), holder: sign };
        let explained = explain(&calls, &now);
        assert!(explained, "no order of these commands explains their answers:\n{}", told(&calls));
    }
}

/// Lets several clients loose on one claim. Epochs are learnt from each other's answers, so stale ones occur.
async fn history<S: AllPorts>(stores: &[S], key: &str, seed: u64) -> Vec<Call> {
    let (clock, latest) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Epoch::from_packed(1))));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (clock, latest, key) = (clock.clone(), latest.clone(), key.to_owned());
        let (store, mut random) = (stores[client % stores.len()].clone(), Random::new(seed ^ client as u64));
        clients.spawn(async move {
            let mut calls = Vec::new();
            for _ in 0..COMMANDS {
                let epoch = *latest.lock().await;
                let command = command(&mut random, &key, epoch, store.session().id);
                let sent = clock.fetch_add(1, Ordering::SeqCst);
                let answer = send(&store, &key, &command).await;
                let answered = clock.fetch_add(1, Ordering::SeqCst);
                if let Some(epoch) = drawn(&answer) {
                    *latest.lock().await = epoch;
                }
                calls.push(Call { command, answer, sent, answered });
            }
            calls
        });
    }
    clients.join_all().await.into_iter().flatten().collect()
}

fn command(random: &mut Random, key: &str, epoch: Epoch, session: SessionId) -> Command {
    match random.below(10) {
        0..=3 => Command::Claim(request(key, "body", random.terms()).ask(session)),
        4..=8 => Command::Hold(epoch, random.report()),
        _ => Command::Operate(Decision {
            seen: epoch,
            verb: random.verb(),
            actor: "op".into(),
            reason: "r".into(),
        }),
    }
}

async fn send<S: AllPorts>(store: &S, key: &str, command: &Command) -> Answer {
    let identity = request(key, "body", Terms::default()).identity;
    let id = identity.claim_id();
    match command {
        Command::Claim(ask) => {
            let mut request = request(key, "body", ask.terms.clone());
            (request.attempt, request.operation_id) = (ask.attempt, ask.operation_id);
            Answer::Verdict(store.claim(request).await.expect("claim"))
        }
        Command::Hold(epoch, report) => {
            Answer::Ending(store.report(id, *epoch, report.clone(), Vec::new()).await.expect("report"))
        }
        Command::Operate(decision) => {
            Answer::Operated(store.decide(id, decision.clone()).await.expect("decide"))
        }
        _ => unreachable!("not sent here"),
    }
}

fn drawn(answer: &Answer) -> Option<Epoch> {
    match answer {
        Answer::Verdict(Verdict::Granted(grant)) => Some(grant.epoch),
        Answer::Operated(Operated::Done(epoch)) => *epoch,
        _ => None,
    }
}

/// Searches for an order that respects real time and the rules.
fn explain(calls: &[Call], now: &Now) -> bool {
    let mut seen = HashSet::new();
    search(calls, 0, None, now, &mut seen)
}

fn search(
    calls: &[Call],
    done: u32,
    claim: Option<Claim>,
    now: &Now,
    seen: &mut HashSet<(u32, String)>,
) -> bool {
    if done.count_ones() as usize == calls.len() {
        return true;
    }
    if !seen.insert((done, format!("{claim:?}"))) {
        return false;
    }
    let open = || calls.iter().enumerate().filter(|(at, _)| done & (1 << at) == 0);
    // Whatever was answered before another was sent must come first.
    let first_answer = open().map(|(_, call)| call.answered).min().unwrap_or(0);
    open().filter(|(_, call)| call.sent < first_answer).any(|(at, call)| {
        let next_epoch = drawn(&call.answer)
            .filter(|epoch| claim.as_ref().is_none_or(|claim| claim.epoch < *epoch))
            .unwrap_or(now.next_epoch);
        let (change, expected) = step(claim.as_ref(), &call.command, &Now { next_epoch, ..*now });
        let busy = matches!(call.answer, Answer::Verdict(Verdict::Held { .. }));
        let after = match change {
            _ if busy => claim.clone(),
            Change::None => claim.clone(),
            Change::Put(after) => Some(after),
            Change::Remove => None,
        };
        (busy || expected == call.answer) && search(calls, done | (1 << at), after, now, seen)
    })
}

/// The burst, at the level of the ledger: one grant, and everybody else is told that it is held.
pub async fn of_two_hundred_claims_one_is_granted<H: Harness>(harness: &H) {
    let mut stores = vec![harness.fresh(harness.options()).await];
    for _ in 0..2 {
        stores.extend(harness.join(harness.options()).await);
    }
    for burst in 0..5 {
        let mut callers = JoinSet::new();
        for caller in 0..200 {
            let store = stores[caller % stores.len()].clone();
            let request = request(&format!("burst{burst}"), "body", Terms::default());
            callers.spawn(async move { store.claim(request).await.expect("claim") });
        }
        let verdicts = callers.join_all().await;
        let granted = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Granted(_))).count();
        let held = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Held { .. })).count();
        assert_eq!((granted, held), (1, 199));
    }
    let after = request("burst-settled", "body", Terms::default());
    let grant = granted_once(&stores[0], &after).await;
    assert!(
        matches!(stores[0].claim(request("burst-settled", "body", Terms::default())).await, Ok(Verdict::Replay(kept)) if kept.epoch == grant)
    );
}

async fn granted_once<S: AllPorts>(store: &S, request: &hapax_core::ClaimRequest) -> Epoch {
    let grant = granted(store, request).await;
    let report = hapax_core::Report::Settle(ok("done"), DAY);
    store.report(request.identity.claim_id(), grant.epoch, report, Vec::new()).await.expect("settle");
    grant.epoch
}

/// One call per line, in the order in which they were sent.
fn told(calls: &[Call]) -> String {
    let mut calls: Vec<&Call> = calls.iter().collect();
    calls.sort_by_key(|call| call.sent);
    let lines = calls.iter().map(|call| {
        format!("{:>3}..{:<3} {:?}\n         -> {:?}\n", call.sent, call.answered, call.command, call.answer)
    });
    lines.collect()
}

//! What the edge tries again before its caller hears of it, and what becomes of the claim when nothing worked (P6).

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hapax_core::claim::{DoubtEnds, DoubtThen};
use hapax_core::{
    Decision, Doubt, Filter, Inspect as _, Operated, Ran, Record, Rerun, State, StateName, Verb,
};
use hapax_gateway::settings::{OnExhausted, Retrying, Upstream};
use hapax_testkit::port::Port;
use hapax_testkit::raw::{self, until};
use hapax_tower::Keep;

use crate::world::{Got, Service, World, change_rule};

const KEY: &str = "idempotency-key";
const BACKOFF: Duration = Duration::from_millis(20);

/// A service that takes requests and breaks off, as long as it is told to; then it answers.
#[derive(Clone)]
struct Flaky {
    /// How many requests are yet to be broken off.
    breaks: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
    port: u16,
}

impl Flaky {
    async fn start(breaks: usize) -> Self {
        let listener = raw::listener().await;
        let port = listener.local_addr().unwrap().port();
        let flaky = Flaky { breaks: Arc::new(AtomicUsize::new(breaks)), heads: Arc::default(), port };
        let serving = flaky.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let head = raw::head(&mut stream).await;
                serving.heads.lock().unwrap().push(head);
                let broken = serving.breaks.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
                if !broken {
                    raw::write(
                        &mut stream,
                        "HTTP/1.1 201 Created\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
                    )
                    .await;
                }
            }
        });
        flaky
    }

    fn asked(&self) -> usize {
        self.heads.lock().unwrap().len()
    }
}

fn retry(max_attempts: u32, on_exhausted: OnExhausted) -> Retrying {
    Retrying { max_attempts, backoff: BACKOFF, on_exhausted }
}

/// An edge before whatever is on this port; the operation `raw` may be run again as is said.
async fn world(port: u16, rerun: Rerun, retry: Retrying) -> World {
    World::with(|settings| {
        let upstream = Arc::new(Upstream { retry, ..Upstream::new("flaky", "127.0.0.1", port) });
        settings.routes.iter_mut().for_each(|route| route.upstream = upstream.clone());
        change_rule(settings, "raw", |rule| rule.rerun = rerun);
    })
    .await
}

async fn ask(world: &World) -> Got {
    world.ask("POST /raw", &world.alice, &[(KEY, "k-1")], "").await
}

/// The only claim there is.
async fn claim(world: &World) -> Option<Record> {
    let page = world.store.list(&Filter::default(), None, 10).await.unwrap();
    assert!(page.items.len() <= 1, "{page:?}");
    page.items.into_iter().next()
}

async fn doubt(world: &World) -> Option<Doubt> {
    match claim(world).await?.claim.state {
        State::InDoubt { reason, .. } => Some(reason),
        _ => None,
    }
}

async fn release(world: &World) {
    let record = claim(world).await.unwrap();
    let decision = Decision {
        seen: record.claim.epoch,
        verb: Verb::Release { force: true },
        actor: "ann".into(),
        reason: "the service is back".into(),
    };
    let done = world.store.decide(record.identity.claim_id(), decision).await.unwrap();
    assert!(matches!(done, Operated::Done(_)), "{done:?}");
}

#[tokio::test]
async fn a_service_that_cannot_be_reached_at_first_is_tried_again_and_asked_once_p6() {
    for rerun in [Rerun::Unsafe, Rerun::Ask, Rerun::Safe] {
        let port = Port::reserve().unwrap();
        let world = world(port.number(), rerun, retry(10, OnExhausted::Kill)).await;
        let back = async {
            let held = Filter { state: Some(StateName::Held), ..Filter::default() };
            while world.store.list(&held, None, 1).await.unwrap().items.is_empty() {
                tokio::task::yield_now().await;
            }
            // Longer than the first pauses, much shorter than all of them.
            tokio::time::sleep(BACKOFF * 5).await;
            Service::at(port.address()).await
        };
        let (got, service) = tokio::join!(ask(&world), back);
        assert_eq!((got.status, service.count()), (201, 1), "{rerun:?}: {}", got.text());
        assert!(ask(&world).await.is_replay());
        assert_eq!(service.count(), 1);
    }
}

#[tokio::test]
async fn a_request_that_was_broken_off_is_tried_again_only_where_that_is_safe_p6_l7() {
    for rerun in [Rerun::Unsafe, Rerun::Ask] {
        for on_exhausted in [OnExhausted::Kill, OnExhausted::Pause] {
            let flaky = Flaky::start(1).await;
            let world = world(flaky.port, rerun, retry(5, on_exhausted)).await;
            let got = ask(&world).await;
            assert_eq!((got.status, got.code().as_str()), (409, "outcome-unknown"), "{}", got.text());
            assert_eq!(flaky.asked(), 1, "{rerun:?}: it may have run");
            let reason = if on_exhausted == OnExhausted::Pause { Doubt::Paused } else { Doubt::Failed };
            assert_eq!(doubt(&world).await, Some(reason), "{rerun:?}: it was the only attempt there may be");
        }
    }
    let flaky = Flaky::start(2).await;
    let world = world(flaky.port, Rerun::Safe, retry(5, OnExhausted::Kill)).await;
    let began = Instant::now();
    let got = ask(&world).await;
    assert_eq!((got.status, got.is_replay()), (201, false), "{}", got.text());
    assert!(began.elapsed() >= BACKOFF * 3, "one pause, and one twice as long: {:?}", began.elapsed());
    assert!(ask(&world).await.is_replay());
    let heads = flaky.heads.lock().unwrap().clone();
    assert_eq!(heads.len(), 3);
    assert!(heads.iter().all(|head| *head == heads[0]), "one key, one operation, one epoch: {heads:?}");
    assert!(heads[0].contains("x-operation-epoch: ") && heads[0].contains("k-1"), "{}", heads[0]);
}

#[tokio::test]
async fn used_up_attempts_give_the_key_back_unless_the_service_pauses_p6() {
    let flaky = Flaky::start(3).await;
    let broken = world(flaky.port, Rerun::Safe, retry(3, OnExhausted::Kill)).await;
    let got = ask(&broken).await;
    assert_eq!((got.status, got.code().as_str()), (503, "attempt-failed"), "{}", got.text());
    assert_eq!((flaky.asked(), doubt(&broken).await), (3, None), "as many attempts as allowed");
    assert_eq!((ask(&broken).await.status, flaky.asked()), (201, 4));

    let port = Port::reserve().unwrap();
    let away = world(port.number(), Rerun::Unsafe, retry(3, OnExhausted::Kill)).await;
    let began = Instant::now();
    let got = ask(&away).await;
    assert_eq!((got.status, got.code().as_str()), (502, "upstream-unreachable"), "{}", got.text());
    assert!(began.elapsed() >= BACKOFF * 3, "three attempts, two pauses: {:?}", began.elapsed());
    assert_eq!(claim(&away).await.unwrap().claim.state.name(), StateName::Released);
    let service = Service::at(port.address()).await;
    assert_eq!((ask(&away).await.status, service.count()), (201, 1));
}

#[tokio::test]
async fn a_service_that_pauses_leaves_the_claim_to_an_operator_whatever_its_rerun_p6() {
    for attempts in [1, 3] {
        for rerun in [Rerun::Unsafe, Rerun::Ask, Rerun::Safe] {
            let port = Port::reserve().unwrap();
            let world = world(port.number(), rerun, retry(attempts, OnExhausted::Pause)).await;
            paused(&world, &format!("{rerun:?}, {attempts} attempts")).await;
            let service = Service::at(port.address()).await;
            refused_until_released(&world, || service.count()).await;
        }
        let flaky = Flaky::start(attempts as usize).await;
        let world = world(flaky.port, Rerun::Safe, retry(attempts, OnExhausted::Pause)).await;
        paused(&world, &format!("broken off, {attempts} attempts")).await;
        let before = flaky.asked();
        assert_eq!(before, attempts as usize);
        refused_until_released(&world, || flaky.asked() - before).await;
    }
}

#[tokio::test]
async fn where_runs_must_not_overlap_the_edge_tries_again_only_what_did_not_arrive_l6_p6() {
    let quiet = |port, retry: Retrying| async move {
        World::with(|settings| {
            let upstream = Arc::new(Upstream { retry, ..Upstream::new("flaky", "127.0.0.1", port) });
            settings.routes.iter_mut().for_each(|route| route.upstream = upstream.clone());
            change_rule(settings, "raw", |rule| {
                (rule.rerun, rule.quiet) = (Rerun::Safe, Duration::from_secs(3600));
            });
        })
        .await
    };
    let flaky = Flaky::start(1).await;
    let broken = quiet(flaky.port, retry(5, OnExhausted::Kill)).await;
    let got = ask(&broken).await;
    assert_eq!((got.status, got.code().as_str()), (503, "attempt-failed"), "{}", got.text());
    assert_eq!(flaky.asked(), 1, "its work may still go on");
    // Nor does a caller's retry run beside it.
    let hurried: &[(&str, &str)] = &[(KEY, "k-1"), ("prefer", "wait=0")];
    let got = broken.ask("POST /raw", &broken.alice, hurried, "").await;
    assert_ne!(got.status, 201, "{}", got.text());
    assert_eq!(flaky.asked(), 1);

    let port = Port::reserve().unwrap();
    let away = quiet(port.number(), retry(10, OnExhausted::Kill)).await;
    let back = async {
        // Longer than the first pauses, much shorter than all of them.
        tokio::time::sleep(BACKOFF * 5).await;
        Service::at(port.address()).await
    };
    let (got, service) = tokio::join!(ask(&away), back);
    assert_eq!((got.status, service.count()), (201, 1), "what did not arrive runs nowhere: {}", got.text());
}

#[tokio::test]
async fn a_service_that_pauses_does_so_too_when_it_answers_too_late_or_by_half_p6_l7() {
    for (does, give_up) in [("hold", Duration::from_millis(100)), ("half", Duration::from_secs(60))] {
        for rerun in [Rerun::Unsafe, Rerun::Ask, Rerun::Safe] {
            let world = World::with(|settings| {
                for route in &mut settings.routes {
                    let retry = retry(1, OnExhausted::Pause);
                    route.upstream = Arc::new(Upstream { retry, ..(*route.upstream).clone() });
                }
                change_rule(settings, "raw", |rule| (rule.rerun, rule.give_up) = (rerun, give_up));
            })
            .await;
            let got = world.ask("POST /raw", &world.alice, &[(KEY, "k-1"), ("x-do", does)], "").await;
            let what = format!("{does}, {rerun:?}: {}", got.text());
            assert_eq!((got.status, got.code().as_str()), (409, "outcome-unknown"), "{what}");
            assert_eq!(doubt(&world).await, Some(Doubt::Paused), "{what}");
            let before = world.service.count();
            refused_until_released(&world, || world.service.count() - before).await;
        }
    }
}

/// The caller is told, and does not hang.
async fn paused(world: &World, what: &str) {
    let got = ask(world).await;
    assert_eq!((got.status, got.code().as_str()), (409, "outcome-unknown"), "{what}: {}", got.text());
    assert_eq!(doubt(world).await, Some(Doubt::Paused), "{what}");
}

/// The service is back, and still nothing runs before somebody has decided.
async fn refused_until_released(world: &World, runs: impl Fn() -> usize) {
    let got = ask(world).await;
    assert_eq!((got.code().as_str(), runs()), ("outcome-unknown", 0));
    release(world).await;
    assert_eq!((ask(world).await.status, runs()), (201, 1));
    assert!(ask(world).await.is_replay());
    until("it ran once", || runs() == 1).await;
}

#[tokio::test]
async fn without_a_key_too_a_connection_is_tried_for_again_p6() {
    let body = "x".repeat(100_000);
    let streamed: &[(&str, &str)] = &[("expect", "100-continue")];
    for (line, headers, body) in
        [("GET /charges", &[][..], ""), ("POST /open", &[], "short"), ("POST /open", streamed, &body)]
    {
        let port = Port::reserve().unwrap();
        let world = world(port.number(), Rerun::Unsafe, retry(10, OnExhausted::Kill)).await;
        let back = async {
            // Longer than the first pauses, much shorter than all of them.
            tokio::time::sleep(BACKOFF * 5).await;
            Service::at(port.address()).await
        };
        let (got, service) = tokio::join!(world.ask(line, &world.alice, headers, body), back);
        assert_eq!((got.status, service.count()), (201, 1), "{line}: {}", got.text());
        assert!(service.arrived()[0].body == body.as_bytes(), "{line}: all of it, once");
    }
}

#[tokio::test]
async fn without_a_key_what_may_have_arrived_is_never_sent_again_p6() {
    let flaky = Flaky::start(1).await;
    let world = world(flaky.port, Rerun::Unsafe, retry(10, OnExhausted::Kill)).await;
    let got = world.ask("POST /open", &world.alice, &[], "x").await;
    assert_eq!((got.status, got.json()["executed"].as_str()), (502, Some("unknown")), "{}", got.text());
    assert_eq!(flaky.asked(), 1);
}

#[tokio::test]
async fn without_a_key_trying_ends_with_the_attempts_or_with_the_callers_time_p6() {
    let port = Port::reserve().unwrap();
    let edge = async |attempts: u32, timeout: Duration| {
        World::with(|settings| {
            let retry = retry(attempts, OnExhausted::Kill);
            let upstream = Upstream { retry, timeout, ..Upstream::new("gone", "127.0.0.1", port.number()) };
            let upstream = Arc::new(upstream);
            settings.routes.iter_mut().for_each(|route| route.upstream = upstream.clone());
        })
        .await
    };
    let world = edge(3, Duration::from_secs(30)).await;
    let began = Instant::now();
    let got = world.ask("POST /open", &world.alice, &[], "x").await;
    assert_eq!((got.status, got.json()["executed"].as_str()), (502, Some("no")), "{}", got.text());
    assert!(began.elapsed() >= BACKOFF * 3, "two pauses, the second twice as long");
    // All ten attempts would take longer than that.
    let world = edge(10, BACKOFF * 10).await;
    let got = world.ask("POST /open", &world.alice, &[], "x").await;
    assert_eq!((got.status, got.code().as_str()), (504, "upstream-timeout"), "{}", got.text());
    assert_eq!((&got.json()["executed"], &got.json()["retryable"]), (&"no".into(), &true.into()));
}

#[tokio::test]
async fn after_a_waived_doubt_a_service_that_is_away_does_not_mean_that_nothing_ran_e6() {
    let at_once = DoubtEnds { after: Duration::ZERO, then: DoubtThen::Release };
    for ends in [None, Some(at_once)] {
        let port = Port::reserve().unwrap();
        let flaky = tokio::net::TcpListener::bind(port.address()).await.unwrap();
        let world = World::with(|settings| {
            let upstream = Arc::new(Upstream::new("flaky", "127.0.0.1", port.number()));
            settings.routes.iter_mut().for_each(|route| route.upstream = upstream.clone());
            change_rule(settings, "raw", |rule| (rule.rerun, rule.doubt) = (Rerun::Unsafe, ends));
        })
        .await;
        // It takes the request, and is gone before it has answered: the work may have run.
        let breaks_off = async {
            let (mut stream, _) = flaky.accept().await.unwrap();
            raw::head(&mut stream).await;
            drop((stream, flaky));
        };
        let (first, ()) = tokio::join!(ask(&world), breaks_off);
        assert_eq!((first.status, first.code().as_str()), (409, "outcome-unknown"), "{}", first.text());
        if ends.is_none() {
            release(&world).await;
        }
        for _ in 0..2 {
            let got = ask(&world).await;
            assert_eq!((got.status, got.code().as_str()), (503, "attempt-failed"), "{}", got.text());
            assert_eq!(got.json()["executed"], "unknown", "{}", got.text());
        }
        // Of a key that was never used before, it is certain.
        let got = world.ask("POST /raw", &world.alice, &[(KEY, "k-2")], "").await;
        assert_eq!((got.status, got.code().as_str()), (502, "upstream-unreachable"), "{}", got.text());
        assert_eq!(got.json()["executed"], "no", "{}", got.text());
    }
}

/// A service that takes one request and breaks off; from then on it answers so, or cannot be reached.
async fn breaking_off_and_then(answer: Option<&'static str>) -> u16 {
    let listener = raw::listener().await;
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        raw::head(&mut stream).await;
        let Some(answer) = answer else { return };
        drop(stream);
        while let Ok((mut stream, _)) = listener.accept().await {
            raw::head(&mut stream).await;
            raw::write(&mut stream, answer).await;
        }
    });
    port
}

/// Whether the work may have run, where the only claim was given back.
async fn ran(world: &World) -> Option<Ran> {
    match claim(world).await.unwrap().claim.state {
        State::Released { ran, .. } => Some(ran),
        _ => None,
    }
}

#[tokio::test]
async fn a_later_try_that_found_no_service_does_not_speak_for_one_that_may_have_run_e6_p6() {
    let port = breaking_off_and_then(None).await;
    let world = world(port, Rerun::Safe, retry(2, OnExhausted::Kill)).await;
    let got = ask(&world).await;
    assert_eq!((got.status, got.code().as_str()), (503, "attempt-failed"), "{}", got.text());
    assert_eq!(got.json()["executed"], "unknown");
    assert_eq!(ran(&world).await, Some(Ran::Perhaps));
}

#[tokio::test]
async fn an_answer_that_nothing_was_done_does_not_speak_for_an_earlier_try_e6_p6() {
    for refused in ["503 Service Unavailable", "429 Too Many Requests"] {
        let answer = format!("HTTP/1.1 {refused}\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno");
        let port = breaking_off_and_then(Some(answer.leak())).await;
        let world = world(port, Rerun::Safe, retry(2, OnExhausted::Kill)).await;
        let got = ask(&world).await;
        assert_eq!((got.status.to_string(), &*got.text()), (refused[..3].to_owned(), "no"));
        assert_eq!(ran(&world).await, Some(Ran::Perhaps), "{refused}");
    }
}

#[tokio::test]
async fn a_refusal_of_which_nothing_else_is_kept_does_not_speak_for_an_earlier_try_e6_p6() {
    let answer = "HTTP/1.1 422 Unprocessable Content\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno";
    let port = breaking_off_and_then(Some(answer)).await;
    let world = World::with(|settings| {
        let retry = retry(2, OnExhausted::Kill);
        let upstream = Arc::new(Upstream { retry, ..Upstream::new("flaky", "127.0.0.1", port) });
        settings.routes.iter_mut().for_each(|route| route.upstream = upstream.clone());
        change_rule(settings, "raw", |rule| (rule.rerun, rule.keep) = (Rerun::Safe, Keep::Fact));
    })
    .await;
    let got = ask(&world).await;
    assert_eq!((got.status, &*got.text()), (422, "no"));
    assert_eq!(ran(&world).await, Some(Ran::Perhaps));
}

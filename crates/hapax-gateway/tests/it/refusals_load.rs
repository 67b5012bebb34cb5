//! Every problem that comes from outside of a request: limits, the ledger, the service, the end of the process (H2).

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hapax_core::Tenant;
use hapax_exec::{Executor, Settings as Executing};
use hapax_gateway::settings::Upstream;
use hapax_sqlite::Embedded;
use hapax_store::Options;
use hapax_store::memory::Memory;
use hapax_testkit::faulty::Faulty;
use hapax_testkit::port::Port;
use hapax_testkit::raw::{self, PATIENCE, until};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::edge_h2;
use crate::refusals::check;
use crate::world::client::read_answer;
use crate::world::{Service, World, change_rule};

const KEY: &str = "idempotency-key";

#[tokio::test]
async fn each_limit_of_a_tenant_refuses_and_no_other_tenant_h12() {
    let world = World::with(|settings| settings.tenants.held = 1).await;
    let slow = world.ask("POST /raw", &world.alice, &[(KEY, "k-1"), ("x-do", "hold")], "x");
    let others = async {
        world.service.reached(1).await;
        let same = world.ask("POST /raw", &world.bob, &[(KEY, "k-2")], "x").await;
        check(&world, &same, 429, "too-many").await;
        assert_eq!(world.service.count(), 1);
        assert_eq!(world.ask("POST /raw", &world.eve, &[(KEY, "k-2")], "x").await.status, 201);
        assert_eq!(world.ask("POST /open", &world.bob, &[], "x").await.status, 201, "not a claim");
        world.service.let_go();
    };
    assert_eq!(tokio::join!(slow, others).0.status, 201);
    assert_eq!(world.ask("POST /raw", &world.bob, &[(KEY, "k-2")], "x").await.status, 201, "given back");

    let world = World::with(|settings| settings.tenants.claims_per_second = 2).await;
    let ask = |number: usize| {
        let key = format!("k-{number}");
        let world = &world;
        async move { world.ask("POST /raw", &world.alice, &[(KEY, &key)], "x").await }
    };
    let answers = futures_util::future::join_all((0..12).map(ask)).await;
    let refused = answers.iter().find(|got| got.status == 429).expect("twelve at once are too many");
    check(&world, refused, 429, "too-many").await;
    let done = answers.iter().filter(|got| got.status == 201).count();
    assert_eq!((world.service.count(), done > 0), (done, true));
    assert_eq!(world.ask("POST /raw", &world.eve, &[(KEY, "k-2")], "x").await.status, 201);

    let world = World::with(|settings| settings.tenants.in_doubt = 3).await;
    world.gateway.admission().set_in_doubt([(Tenant::new("acme").unwrap(), 3)].into());
    check(&world, &world.ask("POST /raw", &world.alice, &[(KEY, "k")], "x").await, 429, "too-many").await;
    assert_eq!(world.service.count(), 0);
    assert_eq!(world.ask("POST /raw", &world.eve, &[(KEY, "k")], "x").await.status, 201);
}

#[tokio::test]
async fn a_service_that_leaves_doubts_is_held_to_the_bound_at_once_h12() {
    let world = World::with(|settings| settings.tenants.in_doubt = 2).await;
    for number in 0..6 {
        let key = format!("k-{number}");
        let got = world.ask("POST /raw", &world.alice, &[(KEY, &key), ("x-do", "cut")], "x").await;
        let wanted = if number < 2 { (409, "outcome-unknown") } else { (429, "too-many") };
        assert_eq!((got.status, &*got.code()), wanted, "{key}");
    }
    assert_eq!(world.service.count(), 2);
    // What is in doubt is still answered, and counts once.
    let again = world.ask("POST /raw", &world.alice, &[(KEY, "k-0"), ("x-do", "cut")], "x").await;
    assert_eq!(again.code(), "outcome-unknown");
}

#[tokio::test]
async fn work_that_is_done_has_used_up_a_claim_of_its_second_h12() {
    let world = World::with(|settings| settings.tenants.claims_per_second = 1).await;
    let (began, mut done) = (tokio::time::Instant::now(), 0);
    for number in 0..20 {
        let key = format!("k-{number}");
        done += usize::from(world.ask("POST /raw", &world.alice, &[(KEY, &key)], "x").await.status == 201);
    }
    let most = 1.0 + began.elapsed().as_secs_f64();
    assert!(done >= 1 && done as f64 <= most, "{done} of {most}");
    assert_eq!(world.service.count(), done);
}

#[tokio::test]
async fn a_retry_is_answered_whatever_limit_its_tenant_has_reached_h12() {
    let doubt = |world: &World| {
        world.gateway.admission().set_in_doubt([(Tenant::new("acme").unwrap(), 1)].into());
    };
    for limit in ["held", "claims_per_second", "in_doubt"] {
        let world = World::with(|settings| match limit {
            "held" => settings.tenants.held = 1,
            "claims_per_second" => settings.tenants.claims_per_second = 1,
            _ => settings.tenants.in_doubt = 1,
        })
        .await;
        let ask = async |key: &str, told: &str| {
            world.ask("POST /raw", &world.alice, &[(KEY, key), ("x-do", told)], "x").await
        };
        let first = ask("k-1", "").await;
        assert_eq!(first.status, 201, "{limit}");
        // One is reached by what is under way, one by what was claimed just now, one by what was counted.
        let slow = async {
            match limit {
                "held" => {
                    Some(world.ask("POST /raw", &world.bob, &[(KEY, "k-2"), ("x-do", "hold")], "x").await)
                }
                _ => None,
            }
        };
        let others = async {
            match limit {
                "held" => world.service.reached(2).await,
                "in_doubt" => doubt(&world),
                _ => {}
            }
            for _ in 0..5 {
                let again = ask("k-1", "").await;
                assert_eq!((again.status, again.is_replay()), (201, true), "{limit}: {}", again.text());
            }
            if limit == "held" {
                let mut waits = std::pin::pin!(world.ask("POST /raw", &world.bob, &[(KEY, "k-2")], "x"));
                assert!(timeout(Duration::from_millis(100), &mut waits).await.is_err(), "it is waited for");
                check(&world, &ask("k-3", "").await, 429, "too-many").await;
                world.service.let_go();
                assert_eq!(waits.await.status, 201);
            }
            if limit == "in_doubt" {
                check(&world, &ask("k-3", "").await, 429, "too-many").await;
            }
        };
        tokio::join!(slow, others);
    }
}

#[tokio::test]
async fn many_with_one_new_key_are_one_claim_and_none_is_refused_h12() {
    let folder = tempfile::tempdir().unwrap();
    let keys = Memory::open(Options::default());
    // A disk takes a while to take a claim: until then nobody can see it there.
    let claims = Executor::new(Embedded::open(folder.path(), Options::default()).unwrap());
    let world = World::run(Service::start().await, keys, claims, |settings| {
        (settings.tenants.held, settings.tenants.claims_per_second) = (1, 1000);
    })
    .await;
    for key in 0..10 {
        let key = format!("k-{key}");
        let headers = [(KEY, key.as_str())];
        let ask = |_| world.ask("POST /raw", &world.alice, &headers, "x");
        let answers = futures_util::future::join_all((0..20).map(ask)).await;
        let statuses: Vec<u16> = answers.iter().map(|got| got.status).collect();
        assert_eq!(statuses, [201; 20], "{key}");
    }
    assert_eq!(world.service.count(), 10);
}

#[tokio::test]
async fn more_than_the_edge_can_hold_is_refused_before_it_is_read_h5_h12() {
    let world = World::with(|settings| settings.edge.max_buffered = 10).await;
    let slow = world.ask("POST /raw", &world.alice, &[(KEY, "k-1"), ("x-do", "hold")], "0123456789");
    let others = async {
        world.service.reached(1).await;
        assert_eq!(world.gateway.admission().buffered(), 10);
        let second = world.ask("POST /raw", &world.eve, &[(KEY, "k-2")], "x").await;
        check(&world, &second, 503, "overloaded").await;
        assert_eq!(world.service.count(), 1);
        world.service.let_go();
    };
    assert_eq!(tokio::join!(slow, others).0.status, 201);
    assert_eq!(world.gateway.admission().buffered(), 0);

    let world = World::with(|settings| {
        settings.edge.max_detached = 1;
        change_rule(settings, "raw", |rule| rule.timeout = Duration::from_millis(500));
    })
    .await;
    let slow = world.ask("POST /raw", &world.alice, &[(KEY, "k-1"), ("x-do", "hold")], "x").await;
    check(&world, &slow, 504, "upstream-timeout").await;
    let second = world.ask("POST /raw", &world.alice, &[(KEY, "k-2")], "x").await;
    check(&world, &second, 503, "overloaded").await;
    assert_eq!(world.service.count(), 1);
    world.service.let_go();
    let second = async {
        loop {
            let got = world.ask("POST /raw", &world.alice, &[(KEY, "k-2")], "x").await;
            if got.code() != "overloaded" {
                return got;
            }
        }
    };
    assert_eq!(timeout(PATIENCE, second).await.expect("there is room again").status, 201);
    let first = world.ask("POST /raw", &world.alice, &[(KEY, "k-1")], "x").await;
    assert_eq!((first.is_replay(), world.service.count()), (true, 2), "the call went on");
}

/// The room of an edge, and a body of which it holds one.
const ROOM: u64 = 1 << 20;
const LENGTH: usize = 600_000;

async fn narrow() -> World {
    World::with(|settings| settings.edge.max_buffered = ROOM).await
}

#[tokio::test]
async fn bodies_that_come_at_once_are_let_in_only_as_far_as_there_is_room_h12() {
    const CALLERS: usize = 24;
    let world = narrow().await;
    let length = LENGTH.to_string();
    let mut callers = Vec::new();
    for number in 0..CALLERS {
        let mut stream = world.connect().await;
        let key = format!("k-{number}");
        let headers = [(KEY, key.as_str()), ("x-do", "hold"), ("content-length", &length)];
        raw::write(&mut stream, &world.request("POST /raw", &world.alice, &headers, "")).await;
        callers.push(stream);
    }
    let (body, refused) = ("x".repeat(LENGTH), Notify::new());
    let (body, refused) = (&body, &refused);
    let send = |mut stream: TcpStream| async move {
        tokio::select! {
            got = read_answer(&mut stream, false) => return got.expect("an answer"),
            () = refused.notified() => {}
        }
        raw::write(&mut stream, body).await;
        read_answer(&mut stream, false).await.expect("an answer")
    };
    let mut answers: FuturesUnordered<_> = callers.into_iter().map(send).collect();
    for _ in 1..CALLERS {
        let got = answers.next().await.unwrap();
        check(&world, &got, 503, "overloaded").await;
        assert_eq!(got.header("connection"), Some("close"), "the rest of the body is not waited for");
        assert_eq!(world.gateway.admission().buffered(), LENGTH as u64, "there is room for one");
    }
    refused.notify_waiters();
    world.service.let_go();
    assert_eq!(answers.next().await.unwrap().status, 201);
    assert_eq!((world.service.count(), world.gateway.admission().buffered()), (1, 0));
}

#[tokio::test]
async fn a_body_without_room_is_refused_before_it_is_asked_for_or_when_it_grows_beyond_h12() {
    let world = narrow().await;
    let (body, length) = ("x".repeat(LENGTH), LENGTH.to_string());
    let slow = world.ask("POST /raw", &world.alice, &[(KEY, "k-1"), ("x-do", "hold")], &body);
    let others = async {
        world.service.reached(1).await;
        let mut stream = world.connect().await;
        let headers = [(KEY, "k-2"), ("content-length", &length), ("expect", "100-continue")];
        raw::write(&mut stream, &world.request("POST /raw", &world.alice, &headers, "")).await;
        let head = raw::head(&mut stream).await;
        assert!(head.starts_with("HTTP/1.1 503"), "not asked for: {head}");

        let headers = [(KEY, "k-3"), ("transfer-encoding", "chunked")];
        let head = world.request("POST /raw", &world.alice, &headers, "");
        let chunks = format!("{:x}\r\n{}\r\n", 1000, "x".repeat(1000)).repeat(LENGTH / 1000);
        let got = world.send(format!("{head}{chunks}0\r\n\r\n")).await.unwrap();
        check(&world, &got, 503, "overloaded").await;

        // Nothing is held of what only passes through, and a little has room.
        assert_eq!(world.ask("POST /open", &world.alice, &[], &body).await.status, 201);
        assert_eq!(world.ask("POST /raw", &world.alice, &[(KEY, "k-4")], "x").await.status, 201);
        assert_eq!(world.gateway.admission().buffered(), LENGTH as u64, "what was refused is given back");
        world.service.let_go();
    };
    assert_eq!(tokio::join!(slow, others).0.status, 201);
    assert_eq!((world.service.count(), world.gateway.admission().buffered()), (3, 0));
    assert_eq!(
        world.ask("POST /raw", &world.alice, &[(KEY, "k-2")], &body).await.status,
        201,
        "now there is"
    );
}

#[tokio::test]
async fn a_body_that_is_refused_for_want_of_room_leaves_its_connection_usable_when_it_has_come_h11() {
    let world = World::with(|settings| settings.edge.max_buffered = 10).await;
    let slow = world.ask("POST /raw", &world.alice, &[(KEY, "k-1"), ("x-do", "hold")], "012345");
    let others = async {
        world.service.reached(1).await;
        let mut stream = world.connect().await;
        for (key, body, status) in [("k-2", "56789", 503), ("k-3", "6789", 201), ("k-4", "56789", 503)] {
            let request = world.request("POST /raw", &world.alice, &[(KEY, key)], body);
            raw::write(&mut stream, &request).await;
            let got = read_answer(&mut stream, false).await.unwrap();
            assert_eq!((got.status, got.header("connection")), (status, None), "{key}");
        }
        world.service.let_go();
    };
    assert_eq!(tokio::join!(slow, others).0.status, 201);
    // What could never be held is not worth another try.
    let got = world.ask("POST /raw", &world.alice, &[(KEY, "k-5")], "01234567890").await;
    check(&world, &got, 413, "body-too-large").await;
    assert_eq!(got.json()["limit"], 10);
}

#[tokio::test]
async fn an_answer_is_counted_while_it_is_read_and_holds_new_requests_back_h12() {
    let world = narrow().await;
    let listener = raw::listener().await;
    let port = listener.local_addr().unwrap().port();
    let mut settings = crate::world::settings(&world.service);
    settings.edge.max_buffered = 1000;
    let upstream = Arc::new(Upstream::new("raw", "127.0.0.1", port));
    settings.routes.iter_mut().for_each(|route| route.upstream = upstream.clone());
    world.gateway.reload(settings).await.unwrap();
    let first = world.ask("POST /raw", &world.alice, &[(KEY, "k-1")], "x");
    let others = async {
        let mut service = raw::accept(&listener).await;
        raw::head(&mut service).await;
        let half = "x".repeat(1500);
        raw::write(&mut service, &format!("HTTP/1.1 201 Created\r\ncontent-length: 3000\r\n\r\n{half}"))
            .await;
        until("half of the answer is counted", || world.gateway.admission().buffered() == 1501).await;
        let second = world.ask("POST /raw", &world.alice, &[(KEY, "k-2")], "").await;
        check(&world, &second, 503, "overloaded").await;
        raw::write(&mut service, &half).await;
        service
    };
    let (first, _service) = tokio::join!(first, others);
    assert_eq!((first.status, first.body.len()), (201, 3000), "what is in already comes to its end");
    assert_eq!(world.gateway.admission().buffered(), 0);
}

#[tokio::test]
async fn an_edge_that_is_about_to_end_takes_nothing_new_h11() {
    let world = World::with(|settings| {
        change_rule(settings, "raw", |rule| rule.timeout = Duration::from_millis(50));
    })
    .await;
    let slow = world.ask("POST /raw", &world.alice, &[(KEY, "k-1"), ("x-do", "hold")], "x").await;
    assert_eq!(slow.status, 504);
    // A connection that is idle, one on which a request has begun to come, and one of HTTP/2.
    let mut idle = world.connect().await;
    let ask = world.request("GET /nowhere", &world.alice, &[], "");
    idle.write_all(ask.as_bytes()).await.unwrap();
    assert_eq!(read_answer(&mut idle, false).await.unwrap().status, 404);
    let mut begun = world.connect().await;
    begun.write_all(ask.as_bytes()).await.unwrap();
    assert_eq!(read_answer(&mut begun, false).await.unwrap().status, 404);
    let ask = world.request("POST /raw", &world.alice, &[(KEY, "k-2")], "x");
    let (now, later) = ask.split_at(30);
    begun.write_all(now.as_bytes()).await.unwrap();
    let mut sender = edge_h2::client(world.connect().await).await;
    let charge = |key| edge_h2::charge(&world.alice, key, "{}");
    assert_eq!(edge_h2::ask(&mut sender, charge("k-3")).await.status(), 201);
    let arrived = world.service.count();
    let asks = async {
        assert_eq!(raw::rest(&mut idle).await, "", "it is closed at once");
        begun.write_all(later.as_bytes()).await.unwrap();
        let got = read_answer(&mut begun, false).await.unwrap();
        check(&world, &got, 503, "draining").await;
        assert_eq!(got.header("connection"), Some("close"));
        // Each thread closes its own listener.
        until("nothing is accepted", || std::net::TcpStream::connect(world.gateway.address()).is_err()).await;
        until("HTTP/2 is told to go", || sender.is_closed()).await;
        world.service.let_go();
    };
    let (clean, ()) = tokio::join!(world.gateway.drain(PATIENCE), asks);
    assert!(clean, "what went on without a caller came to its end");
    assert_eq!(world.service.count(), arrived);
}

#[tokio::test]
async fn a_service_that_is_away_was_not_reached_and_the_key_stays_free_l7_h2() {
    let port = Port::reserve().unwrap();
    let world = World::with(|settings| {
        let away = Arc::new(Upstream::new("away", "127.0.0.1", port.number()));
        settings.routes.iter_mut().for_each(|route| route.upstream = away.clone());
    })
    .await;
    for (line, headers) in [
        ("POST /raw", &[(KEY, "k-1")][..]),
        ("POST /orders/1/notes", &[(KEY, "k-1")]),
        ("POST /open", &[]),
        ("GET /charges", &[]),
    ] {
        let got = world.ask(line, &world.alice, headers, "").await;
        check(&world, &got, 502, "upstream-unreachable").await;
        assert_eq!(got.header("x-operation-id").is_some(), line.contains("raw") || line.contains("notes"));
        assert!(!got.text().contains("127.0.0.1"), "nothing shows what stands behind: {}", got.text());
    }
    let back = Service::at(port.address()).await;
    assert_eq!(world.ask("POST /raw", &world.alice, &[(KEY, "k-1")], "").await.status, 201);
    assert!(world.ask("POST /raw", &world.alice, &[(KEY, "k-1")], "").await.is_replay());
    assert_eq!(back.count(), 1);
}

#[tokio::test]
async fn a_service_that_takes_too_long_ends_the_wait_on_open_routes_too_h5() {
    let world = World::with(|settings| {
        let upstream =
            Upstream { timeout: Duration::from_millis(500), ..(*settings.upstreams["service"]).clone() };
        let upstream = Arc::new(upstream);
        settings.routes.iter_mut().for_each(|route| route.upstream = upstream.clone());
    })
    .await;
    for line in ["POST /open", "GET /charges"] {
        let got = world.ask(line, &world.alice, &[("x-do", "hold")], "x").await;
        check(&world, &got, 504, "upstream-timeout").await;
    }
    assert_eq!(world.ask("POST /open", &world.alice, &[], "x").await.status, 201);
}

#[tokio::test]
async fn a_routes_time_out_ends_the_wait_without_a_key_too_h5() {
    let world = World::with(|settings| {
        change_rule(settings, "note", |rule| rule.timeout = Duration::from_millis(300));
    })
    .await;
    for headers in [&[("x-do", "hold")][..], &[("x-do", "hold"), (KEY, "k-1")]] {
        let asked = world.ask("POST /orders/1/notes", &world.alice, headers, "x");
        let got = timeout(Duration::from_secs(5), asked).await.expect("the route's, not the service's");
        check(&world, &got, 504, "upstream-timeout").await;
    }
}

/// A gateway on a ledger that fails when it is told to.
pub(crate) async fn faulty(
    change: impl Fn(&mut hapax_gateway::settings::Settings),
    spool: bool,
) -> (World<Faulty<Memory>>, Faulty<Memory>, tempfile::TempDir) {
    let store = Memory::open(Options::default());
    let ledger = Faulty::new(store.clone());
    let folder = tempfile::tempdir().unwrap();
    let settings = Executing { spool: spool.then(|| folder.path().join("spool")), ..Executing::default() };
    let executor = Executor::open(ledger.clone(), settings).await.unwrap();
    let world = World::run(Service::start().await, store, executor, change).await;
    (world, ledger, folder)
}

#[tokio::test]
async fn without_a_ledger_nothing_keyed_happens_l14() {
    let (world, ledger, _folder) = faulty(|_| {}, false).await;
    assert_eq!(world.charge("k-1", "{}", &[]).await.status, 201);
    ledger.set_away(true);
    for key in ["k-1", "k-2"] {
        check(&world, &world.charge(key, "{}", &[]).await, 503, "ledger-unavailable").await;
    }
    let note = world.ask("POST /orders/1/notes", &world.alice, &[(KEY, "k-3")], "x").await;
    check(&world, &note, 503, "ledger-unavailable").await;
    let recall = world.ask("GET /charges/by-idempotency-key/k-1", &world.alice, &[], "").await;
    check(&world, &recall, 503, "ledger-unavailable").await;
    assert_eq!(world.service.count(), 1);
    assert_eq!(world.ask("POST /orders/1/notes", &world.alice, &[], "x").await.status, 201, "without a key");
    ledger.set_away(false);
    assert!(world.charge("k-1", "{}", &[]).await.is_replay());
    assert_eq!(world.charge("k-2", "{}", &[]).await.status, 201);
}

#[tokio::test]
async fn an_outcome_that_cannot_be_recorded_yet_is_pending_and_then_there_l15() {
    for spool in [true, false] {
        let (world, ledger, _folder) = faulty(|_| {}, spool).await;
        let away = async {
            world.service.reached(1).await;
            ledger.set_away(true);
            world.service.let_go();
        };
        let (got, ()) = tokio::join!(world.charge("k-1", "{}", &[("x-do", "hold")]), away);
        let (status, code) = if spool { (503, "outcome-pending") } else { (409, "outcome-unknown") };
        check(&world, &got, status, code).await;
        assert!(got.header("x-operation-id").is_some());
        ledger.set_away(false);
        let again = world.charge("k-1", "{}", &[("prefer", "wait=10")]).await;
        assert_eq!((again.status, world.service.count()), (201, 1), "{}", again.text());
    }
}

#[tokio::test]
async fn who_waits_for_an_attempt_that_fails_is_told_so_l9() {
    let (world, ledger, _folder) = faulty(|_| {}, false).await;
    let key = [(KEY, "k-1"), ("x-do", "hold;cut")];
    let waits = async {
        world.service.reached(1).await;
        world.ask("POST /orders/1/notes", &world.alice, &key[..1], "x").await
    };
    let let_go = async {
        // Whoever is told that it is held reads, and then waits.
        until("the second one waits", || ledger.peeks() > 0).await;
        world.service.let_go();
    };
    let (first, second, ()) =
        tokio::join!(world.ask("POST /orders/1/notes", &world.alice, &key, "x"), waits, let_go);
    check(&world, &first, 503, "attempt-failed").await;
    check(&world, &second, 503, "attempt-failed").await;
    assert_eq!(world.service.count(), 1, "who waits never becomes an attempt");
    assert_eq!(world.ask("POST /orders/1/notes", &world.alice, &key[..1], "x").await.status, 201);
}

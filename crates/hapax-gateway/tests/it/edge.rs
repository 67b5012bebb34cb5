//! What callers of the edge see: a key's whole life over real sockets.

use std::sync::Arc;
use std::time::Duration;

use hapax_core::{
    Decision, Doubt, Filter, Inspect as _, Ledger as _, Outcome, Report, Retention, StateName, Verb,
};
use hapax_exec::Executor;
use hapax_gateway::settings::UpstreamKey;
use hapax_store::memory::Memory;
use hapax_store::{Lifecycle as _, Options};
use hapax_testkit::faulty::Faulty;
use hapax_testkit::raw::PATIENCE;

use crate::world::{Got, Service, World, change_rule};

#[tokio::test]
async fn a_retry_gets_the_first_answer_byte_for_byte_h3() {
    let world = World::start().await;
    let first = world.charge("k-1", "{\"amount\":5}", &[]).await;
    let again = world.charge("\"k-1\"", "{\"amount\":5}", &[]).await;
    assert_eq!((first.status, first.text()), (201, "answer 1 to {\"amount\":5}".into()));
    assert_eq!((first.is_replay(), again.is_replay()), (false, true));
    assert_eq!(first.header("set-cookie"), Some("session=1"));
    assert_eq!(again.header("set-cookie"), None);
    assert_eq!((again.header("location"), again.header("etag")), (Some("/charges/1"), Some("\"abc\"")));
    assert_eq!(again.all("x-custom"), ["one", "two"]);
    for got in [&first, &again] {
        assert!(got.header("x-operation-id").unwrap().starts_with("op_"), "never the service's own");
        assert!(got.header("idempotency-expires").unwrap().ends_with("GMT"));
        assert_eq!((got.header("keep-alive"), got.header("x-hop")), (None, None));
    }
    assert_eq!(first.without_marks(), again.without_marks());
    assert_eq!(world.service.count(), 1);
}

#[tokio::test]
async fn a_retry_gets_the_first_status_line_h3() {
    let world = World::start().await;
    let mut lines = Vec::new();
    for _ in 0..2 {
        let mut stream = world.connect().await;
        let request = world.request("POST /charges", &world.alice, &[("idempotency-key", "k-1")], "{}");
        hapax_testkit::raw::write(&mut stream, &request).await;
        lines.push(hapax_testkit::raw::head(&mut stream).await.lines().next().unwrap().to_owned());
    }
    assert_eq!(lines, ["HTTP/1.1 201 Created"; 2], "the service itself says Whatever");
}

#[tokio::test]
async fn the_service_sees_who_asks_and_a_key_that_only_the_edge_can_write_k4_a5() {
    let world = World::start().await;
    let forged = [
        ("x-tenant-id", "globex"),
        ("x-project-id", "other"),
        ("x-subject", "user:root"),
        ("x-operation-id", "op_1"),
        ("x-operation-epoch", "99"),
        ("x-restate-id", "1"),
        ("idempotent-replayed", "true"),
        ("x-forwarded-for", "6.6.6.6"),
        ("x-forwarded-proto", "https"),
        ("connection", "idempotency-key, x-private"),
        ("x-private", "1"),
        ("accept-encoding", "gzip"),
    ];
    assert_eq!(world.charge("k-1", "{}", &forged).await.status, 201);
    let arrived = world.service.last();
    assert_eq!(arrived.line(), "POST /charges HTTP/1.1");
    assert_eq!(arrived.header("idempotency-key").unwrap(), "t-acme:web:user:alice:k-1");
    assert_eq!(arrived.header("x-tenant-id").unwrap(), "acme");
    assert_eq!(arrived.header("x-project-id").unwrap(), "web");
    assert_eq!(arrived.header("x-subject").unwrap(), "user:alice");
    assert!(arrived.header("x-operation-id").unwrap().starts_with("op_"));
    assert_ne!(arrived.header("x-operation-epoch").unwrap(), "99");
    assert_eq!(arrived.header("x-forwarded-for").unwrap(), "127.0.0.1");
    assert_eq!(arrived.header("x-forwarded-proto").unwrap(), "http");
    assert_eq!(arrived.header("x-forwarded-host").unwrap(), "edge.example");
    assert_eq!(arrived.header("accept-encoding").unwrap(), "identity");
    assert_eq!(arrived.header("host").unwrap(), world.service.address().to_string());
    for gone in ["x-restate-id", "idempotent-replayed", "x-private", "authorization"] {
        assert_eq!(arrived.header(gone), None, "{gone}");
    }
}

/// What the service gets as `Idempotency-Key` when its upstream says this, once for each caller.
async fn keys_as(upstream_key: UpstreamKey) -> Vec<Option<String>> {
    let world = World::with(|settings| {
        for route in &mut settings.routes {
            Arc::make_mut(&mut route.upstream).key = upstream_key;
        }
        settings.upstreams = [("service".to_owned(), settings.routes[0].upstream.clone())].into();
    })
    .await;
    let mut keys = Vec::new();
    for who in [&world.alice, &world.bob, &world.carol, &world.eve] {
        // Quoted, to see that what goes on is the key and not the field.
        let got = world.ask("POST /charges", who, &[("idempotency-key", "\"k-1\"")], "{}").await;
        assert_eq!((got.status, got.is_replay()), (201, false));
        keys.push(world.service.last().header("idempotency-key"));
        let again = world.ask("POST /charges", who, &[("idempotency-key", "k-1")], "{}").await;
        assert!(again.is_replay(), "what the service sees changes nothing for the caller");
    }
    assert_eq!(world.service.count(), 4);
    keys
}

#[tokio::test]
async fn the_service_gets_the_key_in_the_form_that_its_upstream_says_k4() {
    let shown = |text: &str| Some(text.to_owned());
    assert_eq!(
        keys_as(UpstreamKey::Namespaced).await,
        [
            shown("t-acme:web:user:alice:k-1"),
            shown("t-acme:web:user:bob:k-1"),
            shown("t-acme:app:user:alice:k-1"),
            shown("t-globex:web:user:alice:k-1"),
        ]
    );
    assert_eq!(keys_as(UpstreamKey::Raw).await, vec![shown("k-1"); 4]);
    assert_eq!(keys_as(UpstreamKey::None).await, vec![None; 4]);
    let whole: Vec<_> = keys_as(UpstreamKey::Digest(64)).await.into_iter().flatten().collect();
    for (number, digest) in whole.iter().enumerate() {
        assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
        assert!(!whole[..number].contains(digest), "callers with one key have digests of their own");
    }
    for digits in [32, 40] {
        let short: Vec<_> = keys_as(UpstreamKey::Digest(digits)).await.into_iter().flatten().collect();
        let cut: Vec<_> = whole.iter().map(|digest| digest[..digits].to_owned()).collect();
        assert_eq!(short, cut, "the same identity, and its beginning");
    }
}

#[tokio::test]
async fn of_two_hundred_simultaneous_requests_one_runs_and_all_have_its_answer() {
    let world = World::start().await;
    let asks = (0..200).map(|_| world.charge("k-1", "{}", &[("x-do", "hold")]));
    let let_go = async {
        world.service.reached(1).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        world.service.let_go();
    };
    let (answers, ()): (Vec<Got>, ()) = tokio::join!(futures_util::future::join_all(asks), let_go);
    assert_eq!(world.service.count(), 1);
    let first = answers[0].clone().without_marks();
    assert!(answers.into_iter().all(|answer| answer.without_marks() == first));
}

#[tokio::test]
async fn callers_never_see_each_others_answer() {
    let world = World::start().await;
    let headers = [("idempotency-key", "k-1")];
    let callers = [&world.alice, &world.bob, &world.carol, &world.eve];
    for (number, who) in callers.iter().enumerate() {
        let got = world.ask("POST /charges", who, &headers, "{}").await;
        assert_eq!((got.status, got.is_replay()), (201, false));
        assert_eq!(got.text(), format!("answer {} to {{}}", number + 1));
    }
    // H7: and each can recall its own.
    for (number, who) in callers.iter().enumerate() {
        let got = world.ask("GET /charges/by-idempotency-key/k-1", who, &[], "").await;
        assert_eq!((got.status, got.text()), (201, format!("answer {} to {{}}", number + 1)));
    }
    assert_eq!(world.service.count(), 4);
}

#[tokio::test]
async fn absent_foreign_and_expired_outcomes_are_the_same_404_h7() {
    let world = World::with(|settings| {
        change_rule(settings, "raw", |rule| {
            rule.retention = hapax_core::Retention::For(Duration::from_millis(50));
        });
    })
    .await;
    let mine = world.charge("k-1", "{}", &[]).await;
    let operation = mine.header("x-operation-id").unwrap().to_owned();
    let expired = world.ask("POST /raw", &world.alice, &[("idempotency-key", "old")], "x").await;
    tokio::time::sleep(Duration::from_millis(80)).await;
    let expired_id = expired.header("x-operation-id").unwrap();
    let nowhere = [
        ("GET /charges/by-idempotency-key/never".to_owned(), &world.alice),
        ("GET /charges/by-idempotency-key/k-1".to_owned(), &world.eve),
        ("GET /charges/by-idempotency-key/k-1/output".to_owned(), &world.bob),
        ("GET /raw/by-idempotency-key/old".to_owned(), &world.alice),
        (format!("GET /operations/{operation}"), &world.eve),
        (format!("GET /operations/{operation}"), &world.bob),
        (format!("GET /operations/{operation}/output"), &world.carol),
        (format!("GET /operations/{expired_id}"), &world.alice),
        ("GET /operations/op_00000000000000000000000000000000".to_owned(), &world.alice),
        ("GET /operations/nonsense".to_owned(), &world.alice),
        // The id of a call whose claim is kept elsewhere.
        (format!("GET /operations/{}", "aZ09-._~".repeat(64)), &world.alice),
        (format!("GET /operations/{}/output", "aZ09-._~".repeat(64)), &world.alice),
    ];
    let mut answers = Vec::new();
    for (line, who) in &nowhere {
        let got = world.ask(line, who, &[], "").await;
        assert_eq!((got.status, got.code().as_str()), (404, "not-found"), "{line}");
        answers.push(got.without_marks());
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");
    let own = world.ask(&format!("GET /operations/{operation}"), &world.alice, &[], "").await;
    assert_eq!((own.status, own.is_replay()), (201, true));
}

#[tokio::test]
async fn absent_foreign_and_expired_outcomes_cost_the_same_reads_h7() {
    let store = Memory::open(Options::default());
    let ledger = Faulty::new(store.clone());
    let service = Service::start().await;
    let world = World::run(service, store, Executor::new(ledger.clone()), |settings| {
        change_rule(settings, "raw", |rule| {
            rule.retention = hapax_core::Retention::For(Duration::from_millis(50));
        });
    })
    .await;
    let mine = world.ask("POST /charges", &world.alice, &[("idempotency-key", "k")], "{}").await;
    let mine = mine.header("x-operation-id").unwrap();
    let old = world.ask("POST /raw", &world.alice, &[("idempotency-key", "k")], "x").await;
    let old = old.header("x-operation-id").unwrap();
    tokio::time::sleep(Duration::from_millis(80)).await;
    let never = "op_00000000000000000000000000000000";
    let absent_foreign_expired = [
        [
            ("GET /charges/by-idempotency-key/never".to_owned(), &world.alice),
            ("GET /charges/by-idempotency-key/k".to_owned(), &world.bob),
            ("GET /raw/by-idempotency-key/k".to_owned(), &world.alice),
        ],
        [
            (format!("GET /operations/{never}"), &world.alice),
            (format!("GET /operations/{mine}"), &world.bob),
            (format!("GET /operations/{old}"), &world.alice),
        ],
        // Somebody of another tenant, and somebody of the tenant without a project.
        [
            (format!("GET /operations/{mine}"), &world.eve),
            (format!("GET /operations/{mine}"), &world.mia),
            (format!("GET /operations/{old}"), &world.mia),
        ],
    ];
    for same in absent_foreign_expired {
        let mut costs = Vec::new();
        for (line, who) in same {
            let (peeks, locates) = (ledger.peeks(), ledger.locates());
            assert_eq!(world.ask(&line, who, &[], "").await.status, 404, "{line}");
            costs.push((ledger.peeks() - peeks, ledger.locates() - locates));
        }
        assert!(costs.iter().all(|cost| *cost == costs[0]) && costs[0] != (0, 0), "{costs:?}");
    }
    let (peeks, locates) = (ledger.peeks(), ledger.locates());
    assert_eq!(world.ask(&format!("GET /operations/{mine}"), &world.alice, &[], "").await.status, 201);
    assert_ne!((ledger.peeks(), ledger.locates()), (peeks, locates), "the control: reads are counted");
}

#[tokio::test]
async fn a_recall_waits_for_the_outcome_and_its_output_does_not_h7() {
    let world = World::start().await;
    let slow = world.charge("k-1", "{}", &[("x-do", "hold")]);
    let asks = async {
        world.service.reached(1).await;
        let output = world.ask("GET /charges/by-idempotency-key/k-1/output", &world.alice, &[], "").await;
        assert_eq!((output.status, output.code().as_str()), (409, "in-progress"));
        let operation = output.header("x-operation-id").unwrap().to_owned();
        let asked = format!("GET /operations/{operation}");
        let mut waits = std::pin::pin!(world.ask(&asked, &world.alice, &[], ""));
        assert!(tokio::time::timeout(Duration::from_millis(100), &mut waits).await.is_err(), "it waits");
        world.service.let_go();
        assert_eq!(waits.await.status, 201);
    };
    let (first, ()) = tokio::join!(slow, asks);
    assert_eq!(first.status, 201);
}

#[tokio::test]
async fn an_answer_can_be_fetched_later_h6() {
    let world = World::start().await;
    let accepted = world.charge("k-1", "{}", &[("prefer", "respond-async"), ("x-do", "hold")]).await;
    assert_eq!((accepted.status, accepted.header("preference-applied")), (202, Some("respond-async")));
    let place = accepted.header("location").unwrap().to_owned();
    let asked = format!("GET {place}");
    let (fetched, ()) =
        tokio::join!(world.ask(&asked, &world.alice, &[], ""), async { world.service.let_go() });
    assert_eq!((fetched.status, fetched.text()), (201, "answer 1 to {}".into()));
    let again = world.charge("k-1", "{}", &[("prefer", "respond-async")]).await;
    assert_eq!((again.status, again.is_replay()), (201, true), "what is there is handed out at once");
}

#[tokio::test]
async fn who_retries_what_is_under_way_can_fetch_its_answer_later_too_h6() {
    let world = World::start().await;
    let slow = world.charge("k-1", "{}", &[("x-do", "hold")]);
    let others = async {
        world.service.reached(1).await;
        let accepted = world.charge("k-1", "{}", &[("prefer", "respond-async")]).await;
        assert_eq!((accepted.status, accepted.header("preference-applied")), (202, Some("respond-async")));
        let place = accepted.header("location").unwrap().to_owned();
        let other = world.charge("k-1", r#"{"other": 1}"#, &[("prefer", "respond-async")]).await;
        assert_eq!((other.status, other.code().as_str()), (422, "key-reused"));
        world.service.let_go();
        world.ask(&format!("GET {place}"), &world.alice, &[], "").await
    };
    let (first, fetched) = tokio::join!(slow, others);
    assert_eq!((first.status, fetched.status, world.service.count()), (201, 201, 1));
    assert_eq!(first.text(), fetched.text());
}

#[tokio::test]
async fn a_client_that_hangs_up_does_not_cancel_the_work_h5() {
    let world = World::start().await;
    let request =
        world.request("POST /charges", &world.alice, &[("idempotency-key", "k-1"), ("x-do", "hold")], "{}");
    let mut stream = world.connect().await;
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
    world.service.reached(1).await;
    drop(stream);
    let (again, ()) = tokio::join!(world.charge("k-1", "{}", &[]), async { world.service.let_go() });
    assert_eq!((again.status, again.is_replay(), world.service.count()), (201, true, 1));
}

#[tokio::test]
async fn a_client_that_sends_no_more_is_answered_with_a_key_and_without_h5() {
    let world = World::start().await;
    for (number, (line, headers)) in [
        ("POST /charges", &[("idempotency-key", "k-1"), ("x-do", "hold")][..]),
        ("POST /charges", &[("idempotency-key", "k-1")]),
        ("POST /open", &[("x-do", "chunked")]),
    ]
    .into_iter()
    .enumerate()
    {
        let mut stream = world.connect().await;
        let request = world.request(line, &world.alice, headers, "{}");
        tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
        tokio::io::AsyncWriteExt::shutdown(&mut stream).await.unwrap();
        world.service.reached(1).await;
        world.service.let_go();
        let got = crate::world::client::read_answer(&mut stream, false).await.expect("an answer");
        assert_eq!((got.status, got.is_replay()), (201, number == 1), "{line}");
    }
    assert_eq!(world.service.count(), 2);
}

#[tokio::test]
async fn the_callers_wait_ends_and_the_call_goes_on_h5() {
    let world = World::with(|settings| {
        change_rule(settings, "charge", |rule| rule.timeout = Duration::from_millis(100));
    })
    .await;
    let first = world.charge("k-1", "{}", &[("x-do", "hold")]).await;
    assert_eq!((first.status, first.code().as_str()), (504, "upstream-timeout"));
    assert_eq!(first.json()["executed"], "unknown");
    let (again, ()) = tokio::join!(world.charge("k-1", "{}", &[]), async { world.service.let_go() });
    assert_eq!((again.status, world.service.count()), (201, 1));
}

#[tokio::test]
async fn a_drain_finishes_what_is_running_and_takes_nothing_new() {
    let world = World::start().await;
    let request =
        world.request("POST /charges", &world.alice, &[("idempotency-key", "k-1"), ("x-do", "hold")], "{}");
    let mut stream = world.connect().await;
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
    world.service.reached(1).await;
    let (clean, answered, ()) = tokio::join!(
        world.gateway.drain(PATIENCE),
        crate::world::client::read_answer(&mut stream, false),
        async { world.service.let_go() }
    );
    assert!(clean);
    assert_eq!(answered.expect("the running request is answered").status, 201);
    assert!(tokio::net::TcpStream::connect(world.gateway.address()).await.is_err());
}

#[tokio::test]
async fn a_drain_tells_the_ledger_what_is_owed_before_the_session_ends_l13() {
    // Nothing was run: the claim must be free, and in no doubt, when this process is gone.
    let store = Memory::open(Options::default());
    let ledger = Faulty::new(store.clone());
    let executor = Executor::new(ledger.clone());
    let world = World::run(Service::start().await, store, executor, |_| {}).await;
    let slow = ledger.clone();
    ledger.lose_claims(1);
    ledger.after_next_claim(move || async move {
        slow.after_next_claim(|| tokio::time::sleep(Duration::from_millis(200)));
    });
    let got = world.charge("k-1", "{}", &[]).await;
    assert_eq!((got.status, got.code().as_str()), (503, "ledger-unavailable"), "{}", got.text());
    assert!(world.gateway.drain(PATIENCE).await);
    world.store.close().await.unwrap();
    let page = world.store.list(&Filter::default(), None, 10).await.unwrap();
    assert_eq!(page.items[0].claim.state.name(), StateName::Released, "{page:?}");
    assert_eq!(world.service.count(), 0);
}

#[tokio::test]
async fn a_trusted_peer_names_the_scope_in_the_key_and_nobody_speaks_for_others_through_it_k3() {
    let world = World::with(|settings| settings.auth.trusted = vec!["127.0.0.1/32".parse().unwrap()]).await;
    let key = [("idempotency-key", "t-globex:web:user:eve:k-1")];
    let told = world.ask("POST /charges", "", &key, "{}").await;
    assert_eq!((told.status, world.service.last().header("x-tenant-id").unwrap()), (201, "globex".into()));
    assert!(world.ask("POST /charges", "", &key, "{}").await.is_replay());
    let forged = world.ask("POST /charges", &world.alice, &key, "{}").await;
    assert_eq!((forged.status, forged.code().as_str()), (403, "forbidden"));
    let own = [("idempotency-key", "t-acme:web:user:alice:k-1")];
    assert_eq!(world.ask("POST /charges", &world.alice, &own, "{}").await.status, 201);
    assert_eq!(
        world.ask("POST /charges", "", &[("idempotency-key", "k-1")], "{}").await.code(),
        "unauthenticated"
    );
    assert_eq!(world.service.count(), 2);
}

#[tokio::test]
async fn an_answer_that_comes_after_an_operator_has_settled_otherwise_is_counted_l8() {
    let world = World::start().await;
    let counted = |number: u64| {
        let metrics = world.gateway.metrics().render();
        assert!(metrics.contains(&format!("hapax_settles_refused_total {number}\n")), "{metrics}");
    };
    let slow = world.charge("k-1", "{}", &[("x-do", "hold")]);
    let operator = async {
        world.service.reached(1).await;
        let found = world.store.list(&Filter::default(), None, 1).await.unwrap().items.remove(0);
        let (claim, seen) = (found.identity.claim_id(), found.claim.epoch);
        world.store.report(claim, seen, Report::Doubt(Doubt::Lapsed), vec![]).await.unwrap();
        let verb = Verb::Settle(Outcome::NotKept { status: 200 }, Retention::Forever);
        let decision = Decision { seen, verb, actor: "ann".into(), reason: "asked the bank".into() };
        world.store.decide(claim, decision).await.unwrap();
        counted(0);
        world.service.let_go();
    };
    let (answer, ()) = tokio::join!(slow, operator);
    assert_eq!(answer.code(), "outcome-not-kept", "the operator's stands");
    counted(1);
}

//! Services that break off, talk nonsense, stall or flood: each ends as the contract says, on a route where running again is
//! safe and on one where it is not; and then a retry (L7, H4).

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hapax_gateway::settings::Upstream;
use hapax_testkit::raw;
use hapax_tower::{Keep, Rule};

use crate::world::{World, change_rule};

const KEY: &str = "idempotency-key";
const GOOD: &str = "HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\nok";

/// A service that says what it is told to, byte by byte, and hangs up.
#[derive(Clone)]
struct Odd {
    says: Arc<Mutex<Vec<u8>>>,
    asked: Arc<AtomicUsize>,
    port: u16,
}

impl Odd {
    async fn start() -> Self {
        let listener = raw::listener().await;
        let port = listener.local_addr().unwrap().port();
        let odd = Odd { says: Arc::default(), asked: Arc::default(), port };
        let serving = odd.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let odd = serving.clone();
                tokio::spawn(async move {
                    raw::head(&mut stream).await;
                    odd.asked.fetch_add(1, SeqCst);
                    let says = odd.says.lock().unwrap().clone();
                    let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, &says).await;
                    let _ = tokio::io::AsyncWriteExt::shutdown(&mut stream).await;
                    raw::rest(&mut stream).await;
                });
            }
        });
        odd
    }

    fn say(&self, bytes: impl AsRef<[u8]>) {
        *self.says.lock().unwrap() = bytes.as_ref().to_vec();
    }

    /// An edge before it.
    async fn world(&self) -> World {
        World::with(|settings| {
            let odd = Arc::new(Upstream::new("odd", "127.0.0.1", self.port));
            settings.routes.iter_mut().for_each(|route| route.upstream = odd.clone());
        })
        .await
    }
}

#[tokio::test]
async fn an_answer_that_is_none_leaves_doubt_where_running_again_is_not_safe_l7() {
    let odd = Odd::start().await;
    let world = odd.world().await;
    let fields = "x: y\r\n".repeat(200);
    for (number, says) in [
        "",
        "HTTP/1.1 20",
        "HTTP/1.1 200 OK\r\nx: y",
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx y: z\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 99 Low\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 abc OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/3.7 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "SSH-2.0-OpenSSH_9.6\r\n",
        "\0\u{1}\u{2}\u{3}",
        &format!("HTTP/1.1 200 OK\r\n{fields}content-length: 0\r\n\r\n"),
        &format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 0\r\n\r\n", "y".repeat(100 << 10)),
    ]
    .into_iter()
    .enumerate()
    {
        let what = format!("{:?}", &says[..says.len().min(80)]);
        let key = format!("k-{number}");
        let headers = [(KEY, key.as_str())];
        odd.say(says);
        odd.asked.store(0, SeqCst);
        let first = world.ask("POST /raw", &world.alice, &headers, "").await;
        assert_eq!((first.status, first.code().as_str()), (409, "outcome-unknown"), "{what}");
        odd.say(GOOD);
        let again = world.ask("POST /raw", &world.alice, &headers, "").await;
        assert_eq!((again.status, again.code().as_str()), (409, "outcome-unknown"), "{what}");
        assert_eq!(odd.asked.load(SeqCst), 1, "{what}: nothing runs until somebody decides");

        odd.say(says);
        let first = world.ask("POST /orders/1/notes", &world.alice, &headers, "").await;
        assert_eq!((first.status, first.code().as_str()), (503, "attempt-failed"), "{what}");
        odd.say(GOOD);
        let again = world.ask("POST /orders/1/notes", &world.alice, &headers, "").await;
        let third = world.ask("POST /orders/1/notes", &world.alice, &headers, "").await;
        assert_eq!((again.status, again.is_replay(), third.is_replay()), (201, false, true), "{what}");
        assert_eq!(odd.asked.load(SeqCst), 3, "{what}: once more, and never again");
    }
}

#[tokio::test]
async fn every_status_is_kept_given_back_or_doubted_and_so_is_its_retry_h4() {
    /// What becomes of a key, and of its retry.
    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Then {
        Kept,
        Freed,
        Doubted,
    }
    use Then::{Doubted, Freed, Kept};
    let world = World::start().await;
    for (told, status, on_unsafe, on_safe) in [
        ("status=200", 200, Kept, Kept),
        ("status=204", 204, Kept, Kept),
        ("status=302", 302, Kept, Kept),
        ("status=304", 304, Kept, Kept),
        ("status=400", 400, Kept, Kept),
        ("status=404", 404, Kept, Kept),
        ("status=422", 422, Kept, Kept),
        ("status=401", 401, Freed, Freed),
        ("status=403", 403, Freed, Freed),
        ("status=408", 408, Freed, Freed),
        ("status=409", 409, Freed, Freed),
        ("status=423", 423, Freed, Freed),
        ("status=425", 425, Freed, Freed),
        ("status=429", 429, Freed, Freed),
        ("status=500", 500, Kept, Freed),
        ("status=501", 501, Kept, Freed),
        ("status=505", 505, Kept, Freed),
        ("status=599", 599, Kept, Freed),
        ("status=503", 503, Freed, Freed),
        ("status=502", 502, Doubted, Freed),
        ("status=504", 504, Doubted, Freed),
        ("status=500;outcome=release", 500, Freed, Freed),
        ("status=503;outcome=keep", 503, Kept, Kept),
        ("status=201;outcome=release", 201, Freed, Freed),
        ("status=201;outcome=doubt", 201, Doubted, Doubted),
        ("status=429;outcome=keep", 429, Kept, Kept),
    ] {
        for (line, then) in [("POST /raw", on_unsafe), ("POST /orders/1/notes", on_safe)] {
            let (what, before) = (format!("{line} {told}"), world.service.count());
            let key = told.replace(['=', ';'], "-");
            let headers = [(KEY, key.as_str()), ("x-do", told)];
            let first = world.ask(line, &world.alice, &headers, "").await;
            let again = world.ask(line, &world.alice, &headers[..1], "").await;
            let runs = world.service.count() - before;
            assert_eq!(first.header("idempotency-outcome"), None, "{what}");
            assert!(first.header("x-operation-id").unwrap().starts_with("op_"), "{what}");
            match then {
                Kept => {
                    assert_eq!((first.status, runs, again.is_replay()), (status, 1, true), "{what}");
                    assert_eq!(first.without_marks(), again.without_marks(), "{what}");
                }
                Freed => {
                    assert_eq!((first.status, runs), (status, 2), "{what}");
                    assert_eq!((again.status, again.is_replay()), (201, false), "{what}");
                    assert_eq!(first.header("idempotency-expires"), None, "{what}: nothing is kept");
                }
                Doubted => {
                    assert_eq!((first.code().as_str(), runs), ("outcome-unknown", 1), "{what}");
                    assert_eq!((again.status, again.code().as_str()), (409, "outcome-unknown"), "{what}");
                }
            }
        }
    }
}

#[tokio::test]
async fn an_answer_too_long_to_keep_is_given_whole_to_the_first_caller_alone_h3() {
    let world = World::start().await;
    for (told, length) in [("length=3000000", 3_000_000), ("length=3000000;chunked", 3_000_000)] {
        for line in ["POST /raw", "POST /orders/1/notes"] {
            let before = world.service.count();
            let headers = [(KEY, &told.replace(['=', ';'], "-")[..]), ("x-do", told)];
            let first = world.ask(line, &world.alice, &headers, "").await;
            assert_eq!((first.status, first.body.len()), (201, length), "{line} {told}");
            assert!(first.body.ends_with(b"..."));
            let again = world.ask(line, &world.alice, &headers[..1], "").await;
            assert_eq!((again.status, again.code().as_str()), (409, "outcome-not-kept"), "{line} {told}");
            assert_eq!(world.service.count() - before, 1, "{line} {told}");
        }
    }
    // On an open route it is nobody's business how long it is.
    let open = world.ask("POST /open", &world.alice, &[("x-do", "length=20000000")], "").await;
    assert_eq!((open.status, open.body.len()), (201, 20_000_000));
}

#[tokio::test]
async fn a_service_that_never_answers_is_given_up_h5() {
    let world = World::with(|settings| {
        for operation in ["raw", "note"] {
            change_rule(settings, operation, |rule| {
                // So far apart that a retry comes in between, and so long that what is answered at once is in time.
                rule.timeout = Duration::from_millis(500);
                rule.give_up = Duration::from_secs(2);
            });
        }
    })
    .await;
    for (line, code, runs) in
        [("POST /raw", "outcome-unknown", 1), ("POST /orders/1/notes", "attempt-failed", 2)]
    {
        let before = world.service.count();
        let headers = [(KEY, "k-1"), ("x-do", "hold")];
        let first = world.ask(line, &world.alice, &headers, "").await;
        assert_eq!((first.status, first.code().as_str()), (504, "upstream-timeout"), "{line}");
        // A retry waits for the call that goes on, and hears how it ended.
        let second = world.ask(line, &world.alice, &headers[..1], "").await;
        assert_eq!(second.code(), code, "{line}");
        let third = world.ask(line, &world.alice, &headers[..1], "").await;
        assert_eq!(third.status == 201, runs == 2, "{line}: {}", third.text());
        assert_eq!(world.service.count() - before, runs, "{line}");
    }
}

#[tokio::test]
async fn an_answer_before_the_body_was_read_is_an_answer_h11() {
    let odd = Odd::start().await;
    let world = odd.world().await;
    let body = "x".repeat(500_000);
    for says in [GOOD, "HTTP/1.1 413 Too Long\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno"] {
        odd.say(says);
        odd.asked.store(0, SeqCst);
        let key = format!("k-{}", says.len());
        let first = world.ask("POST /raw", &world.alice, &[(KEY, &key)], &body).await;
        let again = world.ask("POST /raw", &world.alice, &[(KEY, &key)], &body).await;
        assert_eq!((first.status, again.is_replay()), (says[9..12].parse().unwrap(), true), "{says}");
        assert_eq!(odd.asked.load(SeqCst), 1);
        let open = world.ask("POST /open", &world.alice, &[], &body).await;
        assert_eq!(open.status, first.status, "{says}");
    }
}

#[tokio::test]
async fn half_an_answer_on_an_open_route_never_looks_whole_h11() {
    let odd = Odd::start().await;
    let world = odd.world().await;
    for says in [
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ] {
        odd.say(says);
        let heard = world.hear_out(world.request("GET /charges", &world.alice, &[], "")).await;
        assert!(!heard.text.ends_with("0\r\n\r\n"), "{says:?}: {heard:?}");
    }
    odd.say("");
    let got = world.ask("GET /charges", &world.alice, &[], "").await;
    assert_eq!((got.status, got.code().as_str()), (502, "upstream-unreachable"));
    assert_eq!(got.json()["executed"], "unknown");
}

/// Ends the caller's wait; long enough for whatever happens at once.
const HASTE: Duration = Duration::from_millis(1_500);

#[tokio::test]
async fn an_answer_of_which_nothing_comes_any_more_comes_to_its_end_h5() {
    type Change = fn(&mut Rule);
    let cases: [(&str, Change); 5] = [
        ("status=409;stall", |_| {}),
        ("status=503;stall", |_| {}),
        ("stall", |rule| rule.keep = Keep::Head),
        ("stall", |rule| rule.keep = Keep::Fact),
        ("length=1000;stall", |rule| rule.max_kept_response = 100),
    ];
    let mut running = tokio::task::JoinSet::new();
    for (told, change) in cases {
        running.spawn(async move {
            let world = World::with(|settings| {
                change_rule(settings, "raw", |rule| {
                    rule.timeout = HASTE;
                    change(rule);
                });
            })
            .await;
            let headers = [(KEY, "k-1"), ("x-do", told)];
            let heard = world.hear_out(world.request("POST /raw", &world.alice, &headers, "x")).await;
            assert_eq!(heard.statuses.len(), 1, "{told}: {}", heard.text);
            let body = heard.text.split_once("\r\n\r\n").unwrap().1;
            assert!(body.starts_with("answer"), "{told}: {}", heard.text);
        });
    }
    running.join_all().await;
}

#[tokio::test]
async fn an_answer_that_takes_longer_than_the_wait_and_keeps_coming_is_whole_h5() {
    let listener = raw::listener().await;
    let port = listener.local_addr().unwrap().port();
    let world = World::with(|settings| {
        change_rule(settings, "raw", |rule| (rule.timeout, rule.keep) = (HASTE, Keep::Fact));
        let upstream = Arc::new(Upstream::new("s", "127.0.0.1", port));
        settings.routes.iter_mut().for_each(|route| route.upstream = upstream.clone());
    })
    .await;
    let mut client = world.connect().await;
    raw::write(&mut client, &world.request("POST /raw", &world.alice, &[(KEY, "k-1")], "")).await;
    let mut service = raw::accept(&listener).await;
    raw::head(&mut service).await;
    raw::write(&mut service, "HTTP/1.1 201 Created\r\ncontent-length: 9\r\n\r\n").await;
    raw::head(&mut client).await;
    for piece in ["one", "two", "end"] {
        tokio::time::sleep(HASTE / 2).await;
        raw::write(&mut service, piece).await;
        assert_eq!(raw::exactly(&mut client, 3).await, piece);
    }
}

#[tokio::test]
async fn a_body_that_there_was_none_of_is_not_said_to_be_missing_b9() {
    let world = World::with(|settings| change_rule(settings, "raw", |rule| rule.keep = Keep::Head)).await;
    for (does, said) in [
        ("status=204", None),
        ("status=200;length=0", None),
        ("status=200;length=1", Some("true")),
        ("status=200;length=2000;chunked", Some("true")),
    ] {
        let key = does.replace(['=', ';'], "-");
        let headers = [("idempotency-key", &*key), ("x-do", does)];
        let first = world.ask("POST /raw", &world.alice, &headers, "").await;
        assert_eq!(first.header("idempotency-body-not-kept"), None, "{does}");
        let again = world.ask("POST /raw", &world.alice, &headers, "").await;
        assert!(again.is_replay() && again.status == first.status, "{does}: {}", again.text());
        assert_eq!(
            (again.text(), again.header("idempotency-body-not-kept")),
            (String::new(), said),
            "{does}"
        );
    }
}

/// A service that answers one request on each connection and does not say so. What comes behind is lost, as if it had crossed
/// the close on its way.
async fn one_answer_each() -> (u16, Arc<AtomicUsize>) {
    let listener = raw::listener().await;
    let (port, lost) = (listener.local_addr().unwrap().port(), Arc::<AtomicUsize>::default());
    let counter = lost.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let lost = counter.clone();
            tokio::spawn(async move {
                raw::head(&mut stream).await;
                raw::write(&mut stream, GOOD).await;
                if tokio::io::AsyncReadExt::read_u8(&mut stream).await.is_ok() {
                    lost.fetch_add(1, SeqCst);
                }
            });
        }
    });
    (port, lost)
}

/// How many of 800 keyed requests by 8 callers end in doubt, before such a service.
async fn doubts_before_one_answer_each(reuse: bool) -> (usize, usize) {
    let (port, lost) = one_answer_each().await;
    let world = World::with(|settings| {
        let service = Arc::new(Upstream { reuse, ..Upstream::new("one", "127.0.0.1", port) });
        settings.routes.iter_mut().for_each(|route| route.upstream = service.clone());
    })
    .await;
    let caller = |caller: usize| {
        let world = &world;
        async move {
            let mut doubts = 0;
            for number in 0..100 {
                let key = format!("k-{caller}-{number}");
                let got = world.ask("POST /raw", &world.alice, &[(KEY, key.as_str())], "").await;
                match (got.status, got.code().as_str()) {
                    (201, _) => {}
                    (409, "outcome-unknown") => doubts += 1,
                    other => panic!("{other:?}"),
                }
            }
            doubts
        }
    };
    let doubts = futures_util::future::join_all((0..8).map(caller)).await;
    (doubts.into_iter().sum(), lost.load(SeqCst))
}

#[tokio::test]
async fn a_service_that_closes_without_a_word_leaves_no_doubt_where_connections_are_not_reused_l7() {
    assert_eq!(doubts_before_one_answer_each(false).await, (0, 0));
    let (doubts, lost) = doubts_before_one_answer_each(true).await;
    assert!(
        doubts > 0 && doubts == lost,
        "{doubts} doubts, {lost} requests lost: the risk that is documented"
    );
}

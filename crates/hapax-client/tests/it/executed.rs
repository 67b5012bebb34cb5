//! What an error says about the work: `executed()` and `retry()` answer for every attempt of the call (C4).

use std::time::Duration;

use hapax_client::{Client, Executed, IdempotencyKey, Kind, Retry, RetryPolicy};

use crate::server::{Do, Server, WHOLE};

const PROBLEM: &str = "content-type: application/problem+json\r\n";

fn client(server: &Server) -> Client {
    let quick = RetryPolicy::new(3, Duration::from_millis(1), Duration::from_millis(5), 0.1).unwrap();
    Client::builder(server.url()).policy(quick).build().unwrap()
}

fn problem(status: u16, code: &str) -> Do {
    Do::Answer(status, PROBLEM, format!("{{\"code\":\"{code}\"}}").leak())
}

#[tokio::test]
async fn what_an_earlier_attempt_showed_is_not_undone_by_a_last_one_that_was_turned_away_c4() {
    let done = "{\"code\":\"outcome-pending\",\"executed\":\"yes\"}";
    let pending = || Do::Answer(503, PROBLEM, done);
    let refusals = [
        problem(503, "ledger-unavailable"),
        problem(503, "draining"),
        problem(503, "overloaded"),
        problem(502, "upstream-unreachable"),
        problem(429, "too-many"),
        problem(401, "unauthenticated"),
        problem(422, "key-reused"),
    ];
    for last in refusals {
        for (first, executed) in [
            (pending(), Executed::Yes),
            (Do::Cut(0), Executed::Unknown),
            (Do::Answer(504, "", ""), Executed::Unknown),
            // The key is the caller's own: the server does not know what was done with it before (E6).
            (problem(503, "draining"), Executed::Unknown),
        ] {
            let told = format!("{first:?}, then {last:?}");
            let server = Server::start([first, last.clone(), last.clone()]).await;
            let error = client(&server).post("/charges").key("order-42").send().await.unwrap_err();
            assert!(error.attempts() >= 2, "{told}");
            assert_eq!(error.executed(), executed, "{told}");
            // What may be done next is what the last one says.
            let again = ![Kind::Invalid, Kind::Mismatch].contains(&error.kind());
            assert_eq!(matches!(error.retry(), Retry::SameKey(_)), again, "{told}");
        }
    }
}

#[tokio::test]
async fn what_may_have_been_done_was_done_once_an_attempt_shows_it_c4() {
    let pending = Do::Answer(503, PROBLEM, "{\"code\":\"outcome-pending\",\"executed\":\"yes\"}");
    let server = Server::start([Do::Cut(0), pending, problem(503, "ledger-unavailable")]).await;
    let error = client(&server).post("/charges").send().await.unwrap_err();
    assert_eq!((error.code(), error.executed()), (Some("ledger-unavailable"), Executed::Yes));
}

#[tokio::test]
async fn a_caller_that_is_turned_away_is_not_told_that_earlier_calls_with_its_key_did_nothing_e6() {
    // A process that was started again has the key of what it was about to do, and a token that has expired meanwhile.
    let turned_away = || {
        vec![
            (problem(401, "unauthenticated"), 1),
            (problem(403, "forbidden"), 1),
            (Do::Answer(401, "", ""), 1),
            (Do::Answer(423, "", ""), 1),
            (Do::Answer(429, "", ""), 3),
            // The route has moved, or a bound of the server has changed: its ledger was not asked.
            (problem(404, "not-found"), 1),
            (problem(413, "body-too-large"), 1),
            (problem(400, "path-malformed"), 1),
            (Do::Answer(404, "", ""), 1),
        ]
    };
    for (given, executed) in [(true, Executed::Unknown), (false, Executed::No)] {
        for (answer, times) in turned_away() {
            let told = format!("{answer:?}, given: {given}");
            let server = Server::start(vec![answer; times]).await;
            let call = client(&server).post("/charges");
            let call = if given { call.key("order-42") } else { call };
            assert_eq!(call.send().await.unwrap_err().executed(), executed, "{told}");
        }
    }
}

#[tokio::test]
async fn a_recall_that_fails_does_not_say_that_nothing_was_done_c6() {
    let key = IdempotencyKey::new("order-42").unwrap();
    for (fault, again) in [
        (problem(503, "ledger-unavailable"), true),
        (problem(429, "too-many"), true),
        (problem(401, "unauthenticated"), false),
        (Do::Answer(200, "", "a page of its own"), false),
        (Do::Cut(0), true),
    ] {
        let told = format!("{fault:?}");
        let server = Server::start(vec![fault; 3]).await;
        let error = client(&server).recall("/charges", &key).await.unwrap_err();
        assert_eq!((error.executed(), error.key()), (Executed::Unknown, Some("order-42")), "{told}");
        assert_eq!(matches!(error.retry(), Retry::SameKey(_)), again, "{told}");
    }
    for (member, executed) in [(",\"executed\":\"yes\"", Executed::Yes), ("", Executed::Unknown)] {
        let body: &'static str = format!("{{\"code\":\"outcome-not-kept\"{member}}}").leak();
        let server = Server::start(vec![Do::Answer(409, PROBLEM, body)]).await;
        let error = client(&server).recall("/charges", &key).await.unwrap_err();
        assert_eq!(error.executed(), executed, "{body}");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_what_was_expected_says_whether_the_work_was_done_c4() {
    let id = "x-operation-id: op_1\r\n";
    for (status, executed) in [(200, Executed::Yes), (201, Executed::Yes), (202, Executed::Unknown)] {
        let server = Server::start([Do::Answer(status, id, "{\"charge\":7}")]).await;
        let answer = client(&server).post("/charges").key("order-42").send().await.unwrap();
        let error = answer.json::<Vec<u64>>().unwrap_err();
        assert_eq!(
            (error.kind(), error.executed(), error.retry()),
            (Kind::Unreadable, executed, Retry::Never)
        );
        assert_eq!((error.status(), error.key()), (Some(status), Some("order-42")));
        assert_eq!((error.request_id(), &error.body()[..]), (Some("op_1"), &b"{\"charge\":7}"[..]));
    }
    let kept = "idempotent-replayed: true\r\n";
    let server = Server::start([Do::Answer(402, kept, "declined")]).await;
    let key = IdempotencyKey::new("order-42").unwrap();
    let refused = client(&server).recall("/charges", &key).await.unwrap().unwrap();
    let error = refused.json::<Vec<u64>>().unwrap_err();
    assert_eq!((error.kind(), error.executed()), (Kind::Unreadable, Executed::No), "it was refused");
}

#[tokio::test]
async fn an_answer_that_is_too_long_says_whether_the_work_was_done_c4() {
    let long: &'static str = "x".repeat((64 << 20) + 1).leak();
    for (status, executed) in [(201, Executed::Yes), (404, Executed::No), (500, Executed::Unknown)] {
        let server = Server::start([Do::Answer(status, "", long)]).await;
        let error = client(&server).post("/charges").send().await.unwrap_err();
        assert_eq!((error.kind(), error.status()), (Kind::Unreadable, Some(status)));
        assert_eq!((error.executed(), error.retry(), error.attempts()), (executed, Retry::Never, 1));
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_after_its_status_has_shown_what_that_says_c4() {
    let head = WHOLE.find("\r\n\r\n").unwrap() + 4;
    for (cut, executed) in [(head - 1, Executed::Unknown), (head, Executed::Yes), (head + 3, Executed::Yes)] {
        let server = Server::start([Do::Cut(cut), problem(429, "too-many"), problem(429, "too-many")]).await;
        let error = client(&server).post("/charges").send().await.unwrap_err();
        assert_eq!((error.kind(), error.executed()), (Kind::RateLimited, executed), "cut after {cut} bytes");
        let server = Server::start(vec![Do::Cut(cut); 3]).await;
        let error = client(&server).post("/charges").send().await.unwrap_err();
        assert_eq!((error.kind(), error.executed()), (Kind::Network, executed), "cut after {cut} bytes");
    }
}

#[tokio::test]
async fn what_a_problem_says_itself_goes_before_what_its_code_means_c4() {
    for (status, code, without) in [
        (502, "upstream-unreachable", Executed::No),
        (429, "too-many", Executed::No),
        (422, "declined", Executed::No),
        (409, "outcome-not-kept", Executed::Unknown),
        (500, "internal", Executed::Unknown),
    ] {
        for (member, executed) in [
            (",\"executed\":\"yes\"", Executed::Yes),
            (",\"executed\":\"no\"", Executed::No),
            (",\"executed\":\"unknown\"", Executed::Unknown),
            (",\"executed\":7", without),
            ("", without),
        ] {
            let body: &'static str = format!("{{\"code\":\"{code}\"{member}}}").leak();
            let server = Server::start([Do::Answer(status, PROBLEM, body)]).await;
            let error = client(&server).post("/charges").no_key().send().await.unwrap_err();
            assert_eq!((error.code(), error.executed()), (Some(code), executed), "{body}");
        }
    }
    let plain = Do::Answer(400, "content-type: application/json\r\n", "{\"executed\":\"yes\"}");
    let server = Server::start([plain]).await;
    let error = client(&server).post("/charges").send().await.unwrap_err();
    assert_eq!(error.executed(), Executed::No, "a body that is no problem says nothing");
}

#[tokio::test]
async fn what_the_client_itself_repeats_may_be_repeated_and_nothing_else_without_a_key_c2_c4() {
    use http::Method;
    let wish = "retry-after: 7\r\n";
    for method in
        [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE, Method::POST, Method::PATCH]
    {
        for fault in
            [Do::Answer(429, wish, ""), Do::Answer(503, wish, ""), Do::Cut(0), Do::Answer(500, "", "")]
        {
            let told = format!("{method}: {fault:?}");
            let server = Server::start([fault.clone()]).await;
            let one = client(&server).call(method.clone(), "/a").no_key().policy(RetryPolicy::none());
            let error = one.send().await.unwrap_err();
            let can_help = !matches!(fault, Do::Answer(500, ..));
            let wanted = match &fault {
                _ if matches!(method, Method::POST | Method::PATCH) || !can_help => Retry::Never,
                Do::Answer(..) => Retry::SameKey(Duration::from_secs(7)),
                Do::Cut(_) => Retry::SameKey(Duration::from_secs(1)),
            };
            assert_eq!(error.retry(), wanted, "{told}");
            let server = Server::start([Do::Cut(0), Do::Answer(200, "", "")]).await;
            let repeated = client(&server).call(method.clone(), "/a").no_key().send().await.is_ok();
            assert_eq!(repeated, !matches!(method, Method::POST | Method::PATCH), "{told}");
        }
    }
}

#[tokio::test]
async fn a_problem_that_says_it_may_be_sent_again_may_be_c4() {
    let slow = Do::Answer(408, PROBLEM, "{\"code\":\"request-timeout\",\"retryable\":true}");
    let server = Server::start([slow.clone(), slow]).await;
    let error = client(&server).post("/charges").send().await.unwrap_err();
    assert_eq!(
        (error.attempts(), error.executed()),
        (1, Executed::No),
        "by itself the client repeats what C2 lists"
    );
    assert!(matches!(error.retry(), Retry::SameKey(_)));
    let error = client(&server).post("/charges").no_key().send().await.unwrap_err();
    assert_eq!(error.retry(), Retry::Never);
}

#[tokio::test]
async fn a_refusal_where_a_redirection_led_does_not_say_that_nothing_was_done_c4() {
    for status in [303, 307] {
        let there = Do::Answer(status, "location: /charges/7\r\n", "");
        let server = Server::start([there, Do::Answer(404, "", "")]).await;
        let error = client(&server).post("/charges?a=ä b").send().await.unwrap_err();
        assert_eq!(
            (error.status(), error.executed(), server.came().len()),
            (Some(404), Executed::Unknown, 2)
        );
    }
    let server = Server::start(vec![Do::Answer(404, "", ""); 2]).await;
    for url in [server.url().to_owned(), server.url().replace("http://", "http://ann:secret@")] {
        let client = Client::builder(url).build().unwrap();
        let error = client.post("/charges?a=ä b").send().await.unwrap_err();
        assert_eq!(error.executed(), Executed::No, "it was refused where it was sent");
    }
}

#[tokio::test]
async fn who_is_turned_away_with_a_key_of_its_own_is_not_told_that_nothing_was_done_e6() {
    for (status, code) in
        [(503, "ledger-unavailable"), (503, "overloaded"), (503, "draining"), (429, "too-many")]
    {
        let turned_away = || vec![problem(status, code); 3];
        let server = Server::start(turned_away()).await;
        let fresh = client(&server).post("/charges").send().await.unwrap_err();
        assert_eq!(fresh.executed(), Executed::No, "{code}: the key was made for this very call");
        let server = Server::start(turned_away()).await;
        let given = client(&server).post("/charges").key("order-42").send().await.unwrap_err();
        assert_eq!(given.executed(), Executed::Unknown, "{code}: an earlier call may have used the key");
        let body: &'static str = format!("{{\"code\":\"{code}\",\"executed\":\"no\"}}").leak();
        let server = Server::start(vec![Do::Answer(status, PROBLEM, body); 3]).await;
        let vouched = client(&server).post("/charges").key("order-42").send().await.unwrap_err();
        assert_eq!(vouched.executed(), Executed::No, "{code}: the ledger vouches for it");
    }
}

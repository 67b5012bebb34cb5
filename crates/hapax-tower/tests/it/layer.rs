//! What a caller of a protected application sees.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::routing::post;
use hapax_core::json::Pointer;
use hapax_core::{LeafKey, Policy, Recipe, Rerun, Scope, Width};
use hapax_exec::{Attach, Executor};
use hapax_store::{Options, memory::Memory};
use hapax_testkit::clock::VirtualClock;
use hapax_testkit::lines::Lines;
use hapax_tower::{IdempotencyLayer, IdentifierPlace, Keep, KeyPlace, Keys, On5xx, Protect, Rule};
use http_body_util::{BodyExt as _, Limited};
use tower::ServiceExt as _;

use crate::app::{Got, app, app_at, app_with, request};

fn rule() -> Rule {
    Rule::new("charges.create").unwrap()
}

/// What two answers to one request have in common, byte for byte.
fn without_marks(mut got: Got) -> Got {
    for name in ["idempotent-replayed", "set-cookie"] {
        got.headers.remove(name);
    }
    got
}

#[tokio::test]
async fn a_retry_gets_the_first_answer_byte_for_byte_h3() {
    let app = app(rule());
    let first = app.post("k-1", "{\"amount\":5}", &[]).await;
    let again = app.post("\"k-1\"", "{\"amount\":5}", &[]).await;
    assert_eq!((first.status, &first.body[..]), (201, &b"charge 1 of {\"amount\":5}"[..]));
    assert_eq!((first.is_replay(), again.is_replay()), (false, true));
    assert_eq!(first.header("set-cookie"), Some("a=b"));
    assert_eq!(again.header("set-cookie"), None, "a cookie is for the first caller alone");
    assert_eq!(again.header("location"), Some("/charges/1"));
    assert_eq!(again.headers.get_all("x-custom").iter().count(), 2);
    assert!(first.header("x-operation-id").unwrap().starts_with("op_"));
    assert!(first.header("idempotency-expires").unwrap().ends_with(" GMT"));
    assert_eq!(without_marks(first), without_marks(again));
    assert_eq!(app.effects.count(), 1);
}

#[tokio::test]
async fn the_application_sees_no_key_but_the_fencing_number_a5_l4() {
    let app = app(rule());
    let first = app.post("k-1", "", &[("x-operation-epoch", "999999999999999999")]).await;
    assert_eq!(first.header("x-saw-key"), Some("none"));
    let epoch: u64 = first.header("x-saw-epoch").unwrap().parse().unwrap();
    let second = app.post("k-2", "", &[]).await;
    assert!(second.header("x-saw-epoch").unwrap().parse::<u64>().unwrap() > epoch);
}

#[tokio::test]
async fn an_answer_is_kept_in_a_form_that_every_retry_can_read_h3() {
    let app = app(Rule { policy: Policy::Accepted, ..rule() });
    for encodings in ["gzip, br", "identity"] {
        let got = app.post("k-1", "10", &[("accept-encoding", encodings)]).await;
        assert_eq!((got.status, got.header("x-saw-encodings")), (201, Some("identity")), "{encodings}");
    }
    let without = app.post("", "10", &[("accept-encoding", "gzip, br")]).await;
    assert_eq!(without.header("x-saw-encodings"), Some("gzip, br"), "nobody else gets this answer");
}

#[tokio::test]
async fn without_a_key_nobody_says_what_only_hapax_may_say_either_a5() {
    let forged = [("x-operation-epoch", "99"), ("x-operation-id", "op_1"), ("x-outcome", "keep")];
    let ignoring = Rule { policy: Policy::Prohibited, lenient: true, ..rule() };
    for (rule, key) in [(Rule { policy: Policy::Accepted, ..rule() }, ""), (ignoring, "k-1")] {
        let got = app(rule.clone()).post(key, "x", &forged).await;
        assert_eq!(
            (got.status, got.header("x-saw-epoch"), got.header("x-saw-id")),
            (201, Some(""), Some(""))
        );
        assert_eq!((got.header("idempotency-outcome"), got.header("idempotent-replayed")), (None, None));
        assert_eq!(got.header("idempotency-key-ignored").is_some(), !key.is_empty());
        // An edge in front is hapax, and what it says stays.
        let behind = app_with(rule, |layer| layer.behind_an_edge(), |protect| protect);
        assert_eq!(behind.post(key, "x", &forged).await.header("x-saw-epoch"), Some("99"));
    }
    let keyed = app(rule()).post("k-1", "x", &forged).await;
    assert!(keyed.header("x-saw-id").unwrap().len() > 10, "its own");
}

#[tokio::test]
async fn of_two_hundred_simultaneous_requests_one_runs_and_all_have_its_answer() {
    let app = app(rule());
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let app = app.clone();
        callers.spawn(async move { app.post("k-1", "x", &[("x-pause", "100")]).await });
    }
    let answers: Vec<Got> = callers.join_all().await.into_iter().map(without_marks).collect();
    assert_eq!(app.effects.count(), 1);
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer.status == 201));
}

#[tokio::test]
async fn another_body_is_a_mismatch_that_explains_itself_at_rest_and_in_flight_h10() {
    let app = app(Rule { recipe: Recipe::json(), ..rule() });
    let slow = {
        let app = app.clone();
        tokio::spawn(async move { app.post("k-1", "{\"amount\":5,\"to\":\"b\"}", &[("x-hold", "1")]).await })
    };
    app.effects.begun().await;
    let in_flight = app.post("k-1", "{\"amount\":6,\"to\":\"b\",\"new\":1}", &[]).await;
    app.effects.go_on();
    let first = slow.await.unwrap();
    assert_eq!(first.status, 201);
    let at_rest = app.post("k-1", "{\"amount\":6,\"to\":\"b\",\"new\":1}", &[]).await;
    // Until when the key is used up is known as soon as there is an outcome (H3).
    assert_eq!(at_rest.header("idempotency-expires"), first.header("idempotency-expires"));
    assert!(at_rest.header("idempotency-expires").is_some());
    assert_eq!(in_flight.header("idempotency-expires"), None);
    for got in [in_flight, at_rest] {
        assert_eq!((got.status, got.code().as_str()), (422, "key-reused"));
        assert_eq!(got.header("content-type"), Some("application/problem+json"));
        assert!(got.header("link").unwrap().contains("rel=\"describedby\""));
        let differences = &got.json()["differences"];
        assert_eq!(differences["changed"], serde_json::json!(["/amount"]));
        assert_eq!(differences["added"], serde_json::json!(["/new"]));
    }
    let same = app.post("k-1", " { \"to\":\"b\", \"amount\":5.0 }", &[]).await;
    assert!(same.is_replay(), "member order and white space do not matter");
    assert_eq!(app.effects.count(), 1);
}

#[tokio::test]
async fn a_mismatch_under_a_recipe_that_is_not_known_may_be_a_true_retry_e6() {
    let theirs = app(Rule { recipe: Recipe::raw().with_headers(["x-kind"]).unwrap(), ..rule() });
    assert_eq!(theirs.post("k-1", "x", &[]).await.status, 201);
    let ours = app_with(rule(), |layer| layer, |_| theirs.protect.clone());
    let got = ours.post("k-1", "x", &[]).await;
    assert_eq!((got.code().as_str(), &got.json()["executed"]), ("key-reused", &"unknown".into()));
    assert_eq!(ours.effects.count(), 0);
}

/// The claim was made when nothing was ignored; to this process, a part of the body does not matter any more.
#[tokio::test]
async fn a_mismatch_is_explained_by_the_recipe_that_it_was_found_by_h10_k7() {
    let before = app(Rule { recipe: Recipe::json(), ..rule() });
    assert_eq!(before.post("k-1", r#"{"amount":5,"at":1}"#, &[]).await.status, 201);
    let ignoring = Recipe::json_ignoring([Pointer::new("/at").unwrap()]).unwrap();
    let now = app_with(Rule { recipe: ignoring, ..rule() }, |layer| layer, |_| before.protect.clone());
    assert!(now.post("k-1", r#"{"at":1,"amount":5}"#, &[]).await.is_replay());
    for (body, changed) in
        [(r#"{"amount":5,"at":2}"#, vec!["/at"]), (r#"{"amount":6,"at":2}"#, vec!["/amount", "/at"])]
    {
        let got = now.post("k-1", body, &[]).await;
        let differences = &got.json()["differences"];
        assert_eq!(
            (got.code().as_str(), &differences["changed"]),
            ("key-reused", &serde_json::json!(changed))
        );
        assert_eq!((&differences["missing"], &differences["complete"]), (&0.into(), &true.into()), "{body}");
    }
    assert_eq!(now.effects.count(), 0);
}

#[tokio::test]
async fn a_layer_takes_the_senders_identifier_for_the_key_p1() {
    let identifier = Some(IdentifierPlace::Json(Pointer::new("/id").unwrap()));
    let keys = Keys { identifier, ..Keys::default() };
    let app = app(Rule { keys, policy: Policy::RequiredB, ..rule() });
    let first = app.post("", r#"{"id":"e-1"}"#, &[]).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    let again = app.post("a key", r#"{"id":"e-1"}"#, &[]).await;
    assert_eq!((again.is_replay(), again.header("idempotency-key-ignored")), (true, Some("true")));
    for body in ["", "{}", r#"{"id":7}"#, r#"{"id":"a b"}"#, r#"{"id":"a","id":"a"}"#] {
        let got = app.post("k", body, &[]).await;
        assert_eq!((got.status, got.code().as_str()), (400, "translation-failed"), "{body}");
        assert_eq!(got.header("idempotency-key-ignored"), Some("true"), "{body}");
    }
    assert_eq!(app.effects.count(), 1);
}

/// The handler's word about its own token is for the edge; without one in front it would be the caller's to read.
#[tokio::test]
async fn a_handlers_hit_passes_a_layer_behind_an_edge_and_no_other_p1() {
    let hit = |got: &Got| got.header("idempotency-handler-hit").map(str::to_owned);
    let told = [("x-hit", "true")];
    let internal = || Rule { policy: Policy::HandlerInternalC, ..rule() };
    let behind = app_with(internal(), IdempotencyLayer::behind_an_edge, |protect| protect);
    assert_eq!(hit(&behind.post("", "x", &told).await).as_deref(), Some("true"));
    assert_eq!(hit(&behind.post("", "x", &[("x-hit", "yes")]).await), None);
    assert_eq!(hit(&app(internal()).post("", "x", &told).await), None);
    let keyed = app_with(rule(), IdempotencyLayer::behind_an_edge, |protect| protect);
    for _ in 0..2 {
        assert_eq!(hit(&keyed.post("t-acme:web:user:alice:k", "x", &told).await), None);
    }
}

#[tokio::test]
async fn a_layer_reads_keys_where_its_rule_says_k1() {
    let place = KeyPlace::Json(Pointer::new("/key").unwrap());
    let keys = Keys { places: vec![place], ..Keys::default() };
    let app = app(Rule { keys, policy: Policy::Accepted, ..rule() });
    let first = app.post("", "{\"key\":\"k-1\"}", &[]).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    for key in ["", "k-1"] {
        assert!(app.post(key, "{\"key\":\"k-1\"}", &[]).await.is_replay(), "{key:?}");
    }
    let differs = app.post("k-2", "{\"key\":\"k-1\"}", &[]).await;
    assert_eq!((differs.status, differs.code().as_str()), (400, "key-duplicated"));
    assert_eq!(app.effects.count(), 1);
    let plain = app.post("", "{}", &[]).await;
    assert_eq!((plain.status, plain.header("x-operation-id")), (201, None), "no key is demanded");
}

#[tokio::test]
async fn a_mismatch_is_not_explained_to_another_subject_h10() {
    let app = app(Rule { recipe: Recipe::json(), width: Width::Project, mismatch_status: 409, ..rule() });
    app.post("k-1", "{\"amount\":5}", &[]).await;
    let other = app.post("k-1", "{\"amount\":6}", &[("x-who", "acme/web/user:bob")]).await;
    assert_eq!((other.status, other.code().as_str()), (409, "key-reused"));
    assert!(other.json().get("differences").is_none());
    let shared = app.post("k-1", "{\"amount\":5}", &[("x-who", "acme/web/user:bob")]).await;
    assert!(shared.is_replay(), "K8: subjects of a project share their keys");
}

#[tokio::test]
async fn three_callers_with_one_key_never_see_each_others_answer() {
    let app = app(rule());
    for (number, who) in
        ["acme/web/user:alice", "globex/web/user:alice", "acme/app/user:alice", "acme/web/user:bob"]
            .iter()
            .enumerate()
    {
        let got = app.post("k-1", "x", &[("x-who", who)]).await;
        assert!(!got.is_replay(), "{who}");
        assert_eq!(got.body, format!("charge {} of x", number + 1));
    }
    assert_eq!(app.post("k-1", "x", &[("x-who", "nobody")]).await.code(), "unauthenticated");
}

#[tokio::test]
async fn an_answer_that_says_not_now_is_passed_on_and_frees_the_key_h4() {
    let app = app(rule());
    for status in ["401", "403", "408", "409", "423", "425", "429", "503"] {
        let got = app.post("k-1", "x", &[("x-status", status)]).await;
        assert_eq!(got.status.to_string(), status);
        assert!(got.body.starts_with(b"charge "), "the application's own answer");
        assert!(got.header("x-operation-id").is_some());
    }
    assert_eq!(app.post("k-1", "x", &[]).await.status, 201);
    assert_eq!(app.effects.count(), 9);
}

#[tokio::test]
async fn terminal_errors_are_kept_and_gateway_errors_leave_doubt_h4() {
    let app = app(rule());
    for (key, status) in [("a", "404"), ("b", "422"), ("c", "500"), ("d", "501"), ("e", "302")] {
        let first = app.post(key, "x", &[("x-status", status)]).await;
        let again = app.post(key, "x", &[]).await;
        assert_eq!((first.status.to_string().as_str(), again.is_replay()), (status, true));
        assert_eq!(without_marks(first), without_marks(again));
    }
    for (key, status) in [("f", "502"), ("g", "504")] {
        let first = app.post(key, "x", &[("x-status", status)]).await;
        assert_eq!((first.status, first.code().as_str()), (409, "outcome-unknown"));
        let again = app.post(key, "x", &[]).await;
        assert_eq!((again.status, again.code().as_str()), (409, "outcome-unknown"));
        assert!(again.header("retry-after").is_some());
    }
    assert_eq!(app.effects.count(), 7);
}

#[tokio::test]
async fn safe_work_runs_again_after_any_5xx_and_a_rule_can_say_otherwise_h4() {
    let app_safe = app(Rule { rerun: Rerun::Safe, ..rule() });
    assert_eq!(app_safe.post("k", "x", &[("x-status", "500")]).await.status, 500);
    assert_eq!(app_safe.post("k", "x", &[]).await.status, 201);
    let app_keep = app(Rule { rerun: Rerun::Safe, on_5xx: Some(On5xx::Keep), ..rule() });
    assert_eq!(app_keep.post("k", "x", &[("x-status", "503")]).await.status, 503);
    assert!(app_keep.post("k", "x", &[]).await.is_replay());
    let app_doubt = app(Rule { rerun: Rerun::Safe, on_5xx: Some(On5xx::Doubt), ..rule() });
    assert_eq!(app_doubt.post("k", "x", &[("x-status", "500")]).await.code(), "outcome-unknown");
    assert_eq!(app_doubt.post("k", "x", &[]).await.code(), "outcome-unknown");
}

#[tokio::test]
async fn the_application_has_the_first_word_and_nobody_else_hears_it_h4() {
    let app = app(rule());
    let kept = app.post("a", "x", &[("x-status", "503"), ("x-outcome", "keep")]).await;
    assert_eq!((kept.status, kept.header("idempotency-outcome")), (503, None));
    assert!(app.post("a", "x", &[]).await.is_replay());
    app.post("b", "x", &[("x-outcome", "release")]).await;
    assert!(!app.post("b", "x", &[]).await.is_replay());
    assert_eq!(app.post("c", "x", &[("x-outcome", "doubt")]).await.code(), "outcome-unknown");
}

#[tokio::test]
async fn a_panic_leaves_doubt_where_running_again_is_unsafe_l7() {
    let app = app(rule());
    assert_eq!(app.post("k", "x", &[("x-panic", "1")]).await.code(), "outcome-unknown");
    assert_eq!(app.post("k", "x", &[]).await.code(), "outcome-unknown");
    assert_eq!(app.effects.count(), 1);
}

#[tokio::test]
async fn an_answer_that_is_too_long_to_keep_reaches_its_first_caller_whole_h3() {
    let app = app(Rule { max_kept_response: 1000, ..rule() });
    let first = app.post("k", "x", &[("x-length", "200000")]).await;
    assert_eq!((first.status, first.body.len()), (201, 200_000 + "charge 1 of x".len()));
    let again = app.post("k", "x", &[]).await;
    assert_eq!((again.status, again.code().as_str()), (409, "outcome-not-kept"));
    assert_eq!(again.json()["first_status"], 201);
    assert_eq!(app.effects.count(), 1);
}

#[tokio::test]
async fn only_the_head_or_only_the_fact_can_be_kept_b9() {
    let heads = app(Rule { keep: Keep::Head, ..rule() });
    assert_eq!(heads.post("k", "x", &[]).await.body, "charge 1 of x");
    let again = heads.post("k", "x", &[]).await;
    assert_eq!((again.status, again.body.len(), again.header("location")), (201, 0, Some("/charges/1")));
    assert_eq!(again.header("idempotency-body-not-kept"), Some("true"));
    let facts = app(Rule { keep: Keep::Fact, ..rule() });
    assert_eq!(facts.post("k", "x", &[]).await.body, "charge 1 of x");
    assert_eq!(facts.post("k", "x", &[]).await.code(), "outcome-not-kept");
    assert_eq!((heads.effects.count(), facts.effects.count()), (1, 1));
}

#[tokio::test]
async fn the_callers_wait_ends_and_the_call_goes_on_h5() {
    let app = app(Rule { timeout: Duration::from_millis(80), ..rule() });
    let first = app.post("k", "x", &[("x-hold", "1")]).await;
    assert_eq!((first.status, first.code().as_str()), (504, "upstream-timeout"));
    assert_eq!(first.json()["retryable"], true);
    assert_eq!(app.protect.calls().detached(), 1);
    let (again, ()) = tokio::join!(app.post("k", "x", &[]), async { app.effects.go_on() });
    assert_eq!((again.status, &again.body[..]), (201, &b"charge 1 of x"[..]));
    app.protect.calls().idle().await;
    assert_eq!((app.effects.count(), app.protect.calls().detached()), (1, 0));
}

#[tokio::test]
async fn why_a_call_failed_after_its_caller_had_gone_is_in_the_log_h5() {
    let (lines, _guard) = Lines::listen();
    let app = app(Rule { timeout: Duration::from_millis(80), ..rule() });
    let first = app.post("order-42", "secret", &[("x-hold", "1"), ("x-panic", "1")]).await;
    assert_eq!(first.code(), "upstream-timeout");
    assert!(!lines.told().contains("without its caller"), "it goes on: {}", lines.told());
    app.effects.go_on();
    app.protect.calls().idle().await;
    let told = lines.told();
    assert!(told.contains("WARN") && told.contains("outcome-unknown") && told.contains("panicked"), "{told}");
    assert!(told.contains(first.header("x-operation-id").unwrap()), "{told}");
    assert!(!told.contains("order-42") && !told.contains("secret"), "{told}");
}

#[tokio::test]
async fn a_caller_who_hangs_up_does_not_cancel_the_work_h5() {
    let app = app(rule());
    let caller = {
        let app = app.clone();
        tokio::spawn(async move { app.post("k", "x", &[("x-hold", "1")]).await })
    };
    app.effects.begun().await;
    caller.abort();
    assert!(caller.await.is_err());
    let (again, ()) = tokio::join!(app.post("k", "x", &[]), async { app.effects.go_on() });
    assert_eq!((again.status, again.is_replay(), app.effects.count()), (201, true, 1));
}

#[tokio::test]
async fn the_work_ends_when_it_is_given_up_l7() {
    // Long enough to begin, and for what ends at once.
    let give_up = Duration::from_millis(500);
    let unsafe_ = app(Rule { give_up, ..rule() });
    assert_eq!(unsafe_.post("k", "x", &[("x-pause", "60000")]).await.code(), "outcome-unknown");
    let safe = app(Rule { give_up, rerun: Rerun::Safe, ..rule() });
    assert_eq!(safe.post("k", "x", &[("x-pause", "60000")]).await.code(), "attempt-failed");
    assert_eq!(safe.post("k", "x", &[]).await.status, 201);
}

#[tokio::test]
async fn a_second_caller_waits_as_long_as_it_prefers_or_is_refused_at_once_h6_l9() {
    let app_wait = app(rule());
    let slow = {
        let app = app_wait.clone();
        tokio::spawn(async move { app.post("k", "x", &[("x-hold", "1")]).await })
    };
    app_wait.effects.begun().await;
    let hasty = app_wait.post("k", "x", &[("prefer", "wait=0")]).await;
    assert_eq!((hasty.status, hasty.code().as_str()), (409, "in-progress"));
    assert!(hasty.header("retry-after").is_some());
    assert_eq!(hasty.json()["operation_id"].as_str(), hasty.header("x-operation-id"));
    app_wait.effects.go_on();
    assert_eq!(slow.await.unwrap().status, 201);

    let app_reject = app(Rule { attach: Attach::Reject, ..rule() });
    let slow = {
        let app = app_reject.clone();
        tokio::spawn(async move { app.post("k", "x", &[("x-hold", "1")]).await })
    };
    app_reject.effects.begun().await;
    assert_eq!(app_reject.post("k", "x", &[]).await.code(), "in-progress");
    app_reject.effects.go_on();
    assert_eq!(slow.await.unwrap().status, 201);
}

#[tokio::test]
async fn a_request_without_a_key_is_refused_passed_or_derived_as_its_policy_says_p1_h9() {
    let required = app(rule());
    let got = required.post("", "x", &[]).await;
    assert_eq!((got.status, got.code().as_str(), required.effects.count()), (400, "key-missing", 0));
    let accepted = app(Rule { policy: Policy::Accepted, ..rule() });
    assert_eq!(accepted.post("", "x", &[]).await.header("x-operation-id"), None);
    accepted.post("", "x", &[]).await;
    assert_eq!(accepted.effects.count(), 2);
    let window = Some(Duration::from_secs(60));
    let derived = app(Rule { policy: Policy::Accepted, derived: window, rerun: Rerun::Safe, ..rule() });
    let first = derived.post("", "x", &[]).await;
    let again = derived.post("", "x", &[]).await;
    assert_eq!(first.header("idempotency-key-derived"), Some("true"));
    assert_eq!((again.is_replay(), again.header("idempotency-key-derived")), (true, Some("true")));
    assert!(!derived.post("", "y", &[]).await.is_replay());
    assert!(!derived.post("", "x", &[("x-who", "globex/web/user:alice")]).await.is_replay());
    let prohibited = app(Rule { policy: Policy::Prohibited, ..rule() });
    assert_eq!(prohibited.post("k", "x", &[]).await.code(), "key-prohibited");
    assert_eq!(prohibited.post("", "x", &[]).await.status, 201);
    let lenient = app(Rule { policy: Policy::Prohibited, lenient: true, ..rule() });
    let got = lenient.post("k", "x", &[]).await;
    assert_eq!((got.status, got.header("idempotency-key-ignored")), (201, Some("true")));
    let internal = app(Rule { policy: Policy::HandlerInternalC, ..rule() });
    let got = internal.post("not a key", "x", &[]).await;
    assert_eq!((got.status, got.header("x-saw-key")), (201, Some("none")));
    assert_eq!(got.header("idempotency-key-ignored"), Some("true"));
}

#[tokio::test]
async fn a_derived_key_ends_with_its_window_in_doubt_too_h9() {
    let (clock, window) = (VirtualClock::new(), Duration::from_secs(10));
    let rule = Rule { policy: Policy::Accepted, derived: Some(window), rerun: Rerun::Unsafe, ..rule() };
    let app = app_at(&clock, rule);
    assert_eq!(app.post("", "x", &[("x-status", "502")]).await.code(), "outcome-unknown");
    assert_eq!(app.post("", "x", &[]).await.code(), "outcome-unknown");
    clock.advance(window);
    assert_eq!(app.post("", "x", &[]).await.status, 201);
}

#[tokio::test]
async fn a_derived_key_protects_after_an_outage_longer_than_its_window_h9() {
    let (clock, window) = (VirtualClock::new(), Duration::from_secs(5));
    let rule = Rule { policy: Policy::Accepted, derived: Some(window), rerun: Rerun::Unsafe, ..rule() };
    let app = app_at(&clock, rule);
    for _ in 0..4 {
        assert_eq!(app.post("", "x", &[("x-status", "503")]).await.status, 503);
        clock.advance(Duration::from_secs(2));
    }
    assert_eq!(app.post("", "x", &[]).await.status, 201);
    assert!(app.post("", "x", &[]).await.is_replay());
    clock.advance(window);
    assert!(!app.post("", "x", &[]).await.is_replay());
}

#[tokio::test]
async fn a_body_beyond_the_bound_is_refused_before_anything_runs() {
    let app = app(Rule { max_request_body: 3, ..rule() });
    let got = app.post("k", "four", &[]).await;
    assert_eq!((got.status, got.code().as_str(), app.effects.count()), (413, "body-too-large", 0));
    assert_eq!(app.post("k", "abc", &[]).await.status, 201);
}

#[tokio::test]
async fn a_body_beyond_the_applications_own_bound_is_too_large_as_well_h2() {
    let app = app(rule());
    // As a layer outside leaves it that bounds bodies whose length is not told.
    let bounded = request("k-1", "0123456789", &[]).map(|body| Body::new(Limited::new(body, 5)));
    let got = app.send(bounded).await;
    assert_eq!((got.status, got.code().as_str(), app.effects.count()), (413, "body-too-large", 0));
}

#[tokio::test]
async fn behind_an_edge_the_scope_is_in_the_key_and_elsewhere_it_is_refused_k3() {
    let namespaced = "t-acme:web:user:alice:k-1";
    let behind = app_with(rule(), |layer| layer.behind_an_edge(), |protect| protect);
    assert_eq!(behind.send(request(namespaced, "x", &[("x-who", "nobody")])).await.status, 201);
    assert!(behind.send(request(namespaced, "x", &[])).await.is_replay());
    let other = behind.send(request("t-globex:web:user:alice:k-1", "x", &[])).await;
    assert!(!other.is_replay());
    let open = app(rule());
    assert_eq!(open.post(namespaced, "x", &[]).await.status, 400);
    assert_eq!(open.effects.count(), 0);
}

/// A layer on a route whose account is in a prefix that the router takes away.
fn nested(
    layered: impl FnOnce(IdempotencyLayer<Memory>) -> IdempotencyLayer<Memory>,
) -> impl AsyncFn(&str) -> Got {
    let protect = Protect::new(Executor::new(Memory::open(Options::default())), LeafKey::new([7; 32]));
    let layer = layered(IdempotencyLayer::new(protect, rule(), |_| Some(Scope::local())));
    let charge = |Path(account): Path<String>| async move { format!("charged {account}") };
    let charges = Router::new().route("/charges", post(charge)).layer(layer);
    let router = Router::new().nest("/accounts/{account}", charges);
    async move |path: &str| {
        let request = http::Request::post(path).header("idempotency-key", "k-1").body(Body::empty()).unwrap();
        let (head, body) = router.clone().oneshot(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Got { status: head.status.as_u16(), headers: head.headers, body }
    }
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn what_a_nested_router_took_away_is_part_of_the_request_k7_l2() {
    let ask = nested(|layer| layer);
    assert_eq!(&ask("/accounts/alice/charges").await.body[..], b"charged alice");
    let bob = ask("/accounts/bob/charges").await;
    assert_eq!((bob.status, bob.is_replay()), (422, false), "{:?}", bob.body);
    assert_eq!(bob.code(), "key-reused");
    let again = ask("/accounts/alice/charges").await;
    assert_eq!((&again.body[..], again.is_replay()), (&b"charged alice"[..], true));
    assert_eq!(ask("/accounts/alice/charges?now").await.code(), "key-reused");
}

/// A layer below a nested router, and below something that puts who asks into the path, or the query.
#[cfg(feature = "axum")]
fn rewritten(template: &'static str) -> impl AsyncFn(&str, &str) -> Got {
    let protect = Protect::new(Executor::new(Memory::open(Options::default())), LeafKey::new([7; 32]));
    let layer = IdempotencyLayer::new(protect, rule(), |_| Some(Scope::local()));
    let charge = |uri: http::Uri| async move { format!("charged {uri}") };
    let charges = Router::new().fallback(charge).layer(layer);
    let rewriting = tower::util::MapRequestLayer::new(move |mut request: axum::extract::Request| {
        let who = request.headers()["x-who"].to_str().unwrap();
        *request.uri_mut() = template.replace('*', who).parse().unwrap();
        request
    });
    let inner = tower::Layer::layer(&rewriting, charges);
    let router = Router::new().nest_service("/accounts/{account}", inner);
    async move |path: &str, who: &str| {
        let request = http::Request::post(path).header("idempotency-key", "k-1").header("x-who", who);
        let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (head, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Got { status: head.status.as_u16(), headers: head.headers, body }
    }
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn what_a_rewriting_put_there_is_part_of_the_request_too_k7_l2() {
    for template in ["/*/charges", "/charges?for=*", "/?for=*"] {
        let ask = rewritten(template);
        let first = ask("/accounts/web/charges", "alice").await;
        assert_eq!(first.body, format!("charged {}", template.replace('*', "alice")));
        let bob = ask("/accounts/web/charges", "bob").await;
        assert_eq!((bob.status, bob.code()), (422, "key-reused".into()), "{template}");
        let elsewhere = ask("/accounts/shop/charges", "alice").await;
        assert_eq!((elsewhere.status, elsewhere.code()), (422, "key-reused".into()), "{template}");
        let again = ask("/accounts/web/charges", "alice").await;
        assert_eq!((&again.body, again.is_replay()), (&first.body, true), "{template}");
    }
}

#[tokio::test]
async fn where_nothing_is_left_behind_a_prefix_it_is_part_of_the_request_k7() {
    let protect = Protect::new(Executor::new(Memory::open(Options::default())), LeafKey::new([7; 32]));
    let layer = IdempotencyLayer::new(protect, rule(), |_| Some(Scope::local()));
    let charges = Router::new().route("/", post(async || "charged")).layer(layer);
    let router = Router::new().nest("/accounts/{account}", charges);
    let ask = async |path: &str| {
        let request = http::Request::post(path).header("idempotency-key", "k-1").body(Body::empty()).unwrap();
        router.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    assert_eq!((ask("/accounts/alice").await, ask("/accounts/bob").await), (200, 422));
}

#[tokio::test]
async fn where_the_path_is_from_can_be_said_k7() {
    let ask = nested(|layer| layer.target(|head| head.uri.clone()));
    assert_eq!(&ask("/accounts/alice/charges").await.body[..], b"charged alice");
    let bob = ask("/accounts/bob/charges").await;
    assert_eq!((&bob.body[..], bob.is_replay()), (&b"charged alice"[..], true), "as it was said");
}

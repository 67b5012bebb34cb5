//! Asking the service whether an earlier attempt happened (L6).

use std::sync::Arc;

use hapax_core::Rerun;
use hapax_gateway::settings::{Settings, Upstream};
use hapax_tower::Keep;

use crate::world::{Got, World, change_rule};

/// A service that must be asked, below a path of its own.
fn must_be_asked(settings: &mut Settings) {
    change_rule(settings, "raw", |rule| rule.rerun = Rerun::Ask);
    for route in settings.routes.iter_mut().filter(|route| &*route.path == "/raw") {
        route.upstream = Arc::new(Upstream { base: "/v1".into(), ..(*route.upstream).clone() });
        route.reconcile = Some("/known?by=key".into());
    }
}

/// A first attempt of which nobody knows whether it happened, and a retry; the service answers the question about it as told.
async fn in_doubt_and_again(world: &World, told: &str) -> (Got, Got) {
    let headers = [("idempotency-key", "k-1"), ("x-do", "cut")];
    let first = world.ask("POST /raw", &world.alice, &headers, "x").await;
    let headers = [("idempotency-key", "k-1"), ("x-ask", told)];
    (first, world.ask("POST /raw", &world.alice, &headers, "x").await)
}

#[tokio::test]
async fn what_the_service_knows_is_asked_for_below_its_own_path_and_is_the_outcome_l6() {
    let world = World::with(must_be_asked).await;
    let (first, again) = in_doubt_and_again(&world, "status=200").await;
    assert_eq!((first.status, first.code().as_str()), (409, "outcome-unknown"));
    assert_eq!((again.status, again.is_replay(), again.text()), (200, true, "answer 2 to ".into()));
    let [attempt, question] = &world.service.arrived()[..] else { panic!("{:?}", world.service.arrived()) };
    assert_eq!(attempt.line(), "POST /v1/raw HTTP/1.1");
    assert_eq!(question.line(), "GET /v1/known?by=key HTTP/1.1");
    for name in ["idempotency-key", "x-operation-id", "x-tenant-id"] {
        assert!(question.header(name).is_some() && question.header(name) == attempt.header(name), "{name}");
    }
    let epochs =
        [attempt, question].map(|one| one.header("x-operation-epoch").unwrap().parse::<u64>().unwrap());
    assert!(epochs[0] < epochs[1], "what was sent before can be told from what comes after: {epochs:?}");
    let third = world.ask("POST /raw", &world.alice, &[("idempotency-key", "k-1")], "x").await;
    assert_eq!((third.without_marks(), world.service.count()), (again.without_marks(), 2));
}

#[tokio::test]
async fn never_lets_the_work_run_again_l6() {
    let world = World::with(must_be_asked).await;
    let (_, again) = in_doubt_and_again(&world, "status=404;outcome=never").await;
    assert_eq!((again.status, again.is_replay(), again.text()), (201, false, "answer 3 to x".into()));
    let world = World::with(must_be_asked).await;
    let (_, again) = in_doubt_and_again(&world, "status=404;outcome=Never").await;
    assert_eq!((again.status, again.is_replay()), (201, false), "in whatever case: {}", again.text());
}

#[tokio::test]
async fn any_other_answer_leaves_it_in_doubt_l6() {
    for told in [
        "status=404",
        "status=404;outcome=keep",
        "status=404;outcome=never, doubt",
        "status=404;outcome=never;outcome=keep",
        "status=410;outcome=never",
        "status=302",
        "status=500",
        "cut",
        "half",
        "status=200;stall",
    ] {
        let world = World::with(must_be_asked).await;
        let (_, again) = in_doubt_and_again(&world, told).await;
        assert_eq!((again.status, again.code().as_str()), (409, "outcome-unknown"), "{told}");
        let attempts =
            world.service.arrived().iter().filter(|arrived| arrived.line().starts_with("POST")).count();
        assert_eq!(attempts, 1, "{told}");
    }
}

#[tokio::test]
async fn no_more_is_kept_of_what_the_service_knows_than_of_an_answer_b9_l6() {
    let kept = |keep: Keep| {
        World::with(move |settings| {
            must_be_asked(settings);
            change_rule(settings, "raw", |rule| (rule.keep, rule.max_kept_response) = (keep, 100));
        })
    };
    let (_, again) = in_doubt_and_again(&kept(Keep::Full).await, "status=200;length=100").await;
    assert_eq!((again.status, again.body.len()), (200, 100));
    let (_, again) = in_doubt_and_again(&kept(Keep::Head).await, "status=200").await;
    assert_eq!((again.status, again.text(), again.header("x-custom")), (200, String::new(), Some("one")));
    assert_eq!(again.header("idempotency-body-not-kept"), Some("true"));
    let (_, again) = in_doubt_and_again(&kept(Keep::Head).await, "status=200;length=0").await;
    assert_eq!((again.status, again.header("idempotency-body-not-kept")), (200, None), "there was none");
    // That it is too long to be read does not make it undone.
    for (keep, told) in [
        (Keep::Fact, "status=202"),
        (Keep::Fact, "status=202;length=2000000"),
        (Keep::Full, "status=202;length=101"),
        (Keep::Full, "status=202;length=2000000"),
    ] {
        let world = kept(keep).await;
        let (_, again) = in_doubt_and_again(&world, told).await;
        assert_eq!((again.status, again.code().as_str()), (409, "outcome-not-kept"), "{keep:?} {told}");
        assert_eq!(again.json()["first_status"], 202, "{keep:?} {told}");
        assert_eq!(world.service.count(), 2, "{keep:?} {told}");
    }
}

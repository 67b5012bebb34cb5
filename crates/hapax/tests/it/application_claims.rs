//! `/v1/claims` of a real server: every verdict, leases that lapse, and what is refused (L2, L5, L6, L9, E6, M1).

use serde_json::{Value, json};

use crate::application::{App, one};
use crate::rig::Who;
use crate::rig::process::eventually;

fn asked(lease: &Value, attempt: &str, key: &str, more: Value) -> Value {
    let mut body = json!({"lease": lease, "attempt": attempt, "operation": "mail.send", "key": key, "body": {"to": "a"}});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    body
}

async fn ask(app: &App, lease: &Value, attempt: &str, key: &str, more: Value) -> Value {
    app.post("/v1/claims", asked(lease, attempt, key, more)).await
}

fn path(claim: &Value, verb: &str) -> String {
    format!("/v1/claims/{}{verb}", claim["operation_id"].as_str().unwrap())
}

async fn end(app: &App, lease: &Value) {
    let got = app.ask("DELETE", &format!("/v1/leases/{}", lease.as_str().unwrap()), "").await;
    assert_eq!(got.status, 200, "{}", got.text());
}

pub(crate) async fn each_verdict_is_told(here: &App, elsewhere: &App) {
    let lease = here.lease().await;
    let granted = ask(here, &lease, "1", "k", json!({})).await;
    assert_eq!((&granted["verdict"], &granted["earlier_may_have_run"]), (&json!("granted"), &json!(false)));
    // Asked again it is the same grant; another attempt is told that it is held.
    assert_eq!(ask(elsewhere, &lease, "1", "k", json!({})).await, granted);
    let held = ask(elsewhere, &lease, "2", "k", json!({})).await;
    assert_eq!(held, json!({"verdict": "held", "operation_id": granted["operation_id"]}));
    assert_eq!(ask(here, &lease, "2", "k", json!({"body": {"to": "b"}})).await["verdict"], "mismatch");
    let renewed =
        elsewhere.post(&path(&granted, "/renew"), json!({"lease": lease, "epoch": granted["epoch"]})).await;
    assert_eq!(renewed["operation_id"], granted["operation_id"]);
    // One waits while another instance settles.
    let waiter = *here;
    let waiting = {
        let lease = lease.clone();
        tokio::spawn(async move { ask(&waiter, &lease, "3", "k", json!({"wait": "30s"})).await })
    };
    let outcome = json!({"epoch": granted["epoch"], "result": {"id": 1}, "retention": "1h"});
    let settled = elsewhere.post(&path(&granted, "/settle"), outcome.clone()).await;
    assert_eq!((&settled["replayed"], &settled["outcome"]["result"]), (&json!(false), &json!({"id": 1})));
    let attached = waiting.await.unwrap();
    assert_eq!((&attached["verdict"], &attached["outcome"]), (&json!("replay"), &settled["outcome"]));
    // Told again it is the same; another outcome comes too late.
    assert_eq!(here.post(&path(&granted, "/settle"), outcome).await["replayed"], true);
    let other = json!({"epoch": granted["epoch"], "result": {"id": 2}});
    assert_eq!(here.refused(&path(&granted, "/settle"), other).await.1, "already-settled");
    let replay = ask(elsewhere, &lease, "4", "k", json!({"body": {"to": "a"}})).await;
    assert_eq!((&replay["verdict"], &replay["executed"]), (&json!("replay"), &json!("yes")));
    assert_eq!(replay["outcome"], json!({"kind": "succeeded", "result": {"id": 1}}));
    let seen = here.get(&path(&granted, "")).await;
    assert_eq!((&seen["state"], &seen["outcome"]), (&json!("settled"), &settled["outcome"]));
    assert_eq!(elsewhere.get("/v1/claims?operation=mail.send&key=k").await, seen);

    // A refusal is kept as well, and so is the mere fact.
    for (key, said, kept) in [
        ("no", json!({"error": "no such box"}), json!({"kind": "refused", "error": "no such box"})),
        ("fact", json!({"not_kept": true}), json!({"kind": "not_kept"})),
    ] {
        let granted = ask(here, &lease, "1", key, json!({"fingerprint": "0".repeat(64), "body": null})).await;
        let mut said = said;
        said["epoch"] = granted["epoch"].clone();
        assert_eq!(elsewhere.post(&path(&granted, "/settle"), said).await["outcome"], kept);
    }

    // Given back: the attempt is used up, and the next one runs.
    let first = ask(here, &lease, "1", "back", json!({})).await;
    let back = elsewhere
        .post(&path(&first, "/release"), json!({"epoch": first["epoch"], "ran": "no", "cause": "busy"}))
        .await;
    assert_eq!(back["state"], "released");
    assert_eq!(ask(here, &lease, "1", "back", json!({})).await["verdict"], "released");
    let second = ask(elsewhere, &lease, "2", "back", json!({})).await;
    assert_eq!(second["verdict"], "granted");
    // The former epoch counts for nothing.
    for (verb, body) in [
        ("/settle", json!({"epoch": first["epoch"], "result": 1})),
        ("/release", json!({"epoch": first["epoch"], "ran": "no"})),
        ("/renew", json!({"epoch": first["epoch"], "lease": lease})),
    ] {
        let (status, code, _) = here.refused(&path(&first, verb), body).await;
        assert_eq!((status, code.as_str()), (409, "epoch-stale"), "{verb}");
    }
    // It may have run, and must not twice.
    let doubt =
        here.post(&path(&second, "/release"), json!({"epoch": second["epoch"], "ran": "perhaps"})).await;
    assert_eq!(doubt["state"], "in_doubt");
    let told = ask(elsewhere, &lease, "3", "back", json!({})).await;
    assert_eq!((&told["verdict"], &told["reason"]), (&json!("in_doubt"), &json!("failed")));

    // The caller dies: unsafe work is in doubt, safe work runs again.
    let unsure = ask(here, &lease, "1", "dies", json!({})).await;
    let safe = ask(here, &lease, "1", "safe", json!({"rerun": "safe"})).await;
    end(elsewhere, &lease).await;
    let next = elsewhere.lease().await;
    assert_eq!(here.refused("/v1/claims", asked(&lease, "5", "new", json!({}))).await.1, "lease-over");
    assert_eq!(ask(here, &next, "1", "dies", json!({})).await["reason"], "lapsed");
    let taken = ask(elsewhere, &next, "1", "safe", json!({"rerun": "safe"})).await;
    assert_eq!((&taken["verdict"], &taken["earlier_may_have_run"]), (&json!("granted"), &json!(true)));
    assert_eq!(
        here.refused(&path(&safe, "/settle"), json!({"epoch": safe["epoch"], "result": 1})).await.1,
        "epoch-stale"
    );
    // A true outcome is never thrown away.
    let late =
        here.post(&path(&unsure, "/settle"), json!({"epoch": unsure["epoch"], "result": "sent"})).await;
    assert_eq!(late["outcome"]["result"], "sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_verdict_is_told_as_json_l2_l6_l9() {
    let (_ground, _hapax, app) = one().await;
    each_verdict_is_told(&app, &app).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_not_renewed_lapses_by_itself_l6() {
    let (_ground, _hapax, app) = one().await;
    let lease = app.post("/v1/leases", json!({"term": "1s"})).await["lease"].clone();
    let other = app.lease().await;
    ask(&app, &lease, "1", "k", json!({})).await;
    eventually("the lease lapses", async || {
        ask(&app, &other, "2", "k", json!({})).await["verdict"] == "in_doubt"
    })
    .await;
    let renew = format!("/v1/leases/{}/renew", lease.as_str().unwrap());
    assert_eq!(app.refused(&renew, json!({})).await.1, "lease-over");
    app.post(&format!("/v1/leases/{}/renew", other.as_str().unwrap()), json!({})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settle_that_comes_after_an_operators_is_in_the_audit_l8() {
    let (_ground, hapax, app) = one().await;
    let lease = app.lease().await;
    let granted = ask(&app, &lease, "1", "k", json!({})).await;
    end(&app, &lease).await;
    let claim = hapax.ask(&format!("GET {}", path(&granted, "")), "").await.json();
    let body = json!({"epoch": claim["epoch"], "reason": "a guess", "settle": {"status": 201}});
    let resolved = hapax.ask(&format!("POST {}", path(&granted, "/resolve")), &body.to_string()).await;
    assert_eq!(resolved.status, 200, "{}", resolved.text());
    let late = json!({"epoch": granted["epoch"], "result": "the truth"});
    assert_eq!(app.refused(&path(&granted, "/settle"), late).await.1, "epoch-stale");
    let audit = hapax.ask("GET /v1/audit?verb=settle-refused", "").await.json();
    assert_eq!(audit["events"][0]["operation_id"], granted["operation_id"], "{audit}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_other_callers_and_of_hapax_itself_are_not_there_m1() {
    let (_ground, hapax, app) = one().await;
    let lease = app.lease().await;
    let own = ask(&app, &lease, "1", "k", json!({})).await;
    let shared = ask(&app, &lease, "1", "s", json!({"scope": "project"})).await;
    let bob = app.by(Who("acme", "web", "user:bob"));
    let eve = app.by(Who("globex", "web", "user:alice"));
    let (bobs, eves) = (bob.lease().await, eve.lease().await);
    // The same key of another subject is another claim; a project's is shared.
    assert_eq!(ask(&bob, &bobs, "1", "k", json!({})).await["verdict"], "granted");
    assert_eq!(ask(&bob, &bobs, "1", "s", json!({"scope": "project"})).await["verdict"], "held");
    assert_eq!(ask(&eve, &eves, "1", "s", json!({"scope": "project"})).await["verdict"], "granted");
    let absent = app.ask("GET", "/v1/claims/op_00000000000000000000000000000000", "").await;
    for (who, claim) in [(&bob, &own), (&eve, &own), (&eve, &shared)] {
        let got = who.ask("GET", &path(claim, ""), "").await;
        assert_eq!((got.status, &got.body), (404, &absent.body));
        let body = json!({"epoch": claim["epoch"], "result": 1});
        assert_eq!(who.refused(&path(claim, "/settle"), body).await.0, 404);
    }
    // Nobody renews what another caller holds.
    for lease in [&bobs, &lease] {
        let body = json!({"epoch": shared["epoch"], "lease": lease});
        assert_eq!(bob.refused(&path(&shared, "/renew"), body).await.1, "lease-over");
    }
    // A claim of the edge, and a step's, are none of an application's.
    let charge = hapax.post("/charges", "order-1", "{}", "").await;
    let id = charge.header("x-operation-id").unwrap();
    assert_eq!(app.ask("GET", &format!("/v1/claims/{id}"), "").await.status, 404);
    for operation in ["step.pay", "action"] {
        let body = asked(&lease, "1", "k", json!({"operation": operation}));
        assert_eq!(app.refused("/v1/claims", body).await.0, 400, "{operation}");
    }
    let settle = json!({"epoch": own["epoch"], "result": 1});
    let verb = path(&own, "/resolve");
    assert_eq!(app.ask("POST", &verb, &settle.to_string()).await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_claims_are_refused_by_name_and_nothing_is_written_m1() {
    let (_ground, hapax, app) = one().await;
    let lease = app.lease().await;
    let large = format!("\"{}\"", "x".repeat(5 * 1024 * 1024));
    let with = |more: Value| asked(&lease, "1", "k", more).to_string();
    for (status, code, names, body) in [
        (400, "request-malformed", "JSON", "{".to_owned()),
        (400, "request-malformed", "key", with(json!({"key": ""}))),
        (400, "request-malformed", "key", with(json!({"key": "a\nb"}))),
        (400, "request-malformed", "operation", with(json!({"operation": "-"}))),
        (400, "request-malformed", "body", with(json!({"body": 9_007_199_254_740_993_u64}))),
        (400, "request-malformed", "not both", with(json!({"fingerprint": "0".repeat(64)}))),
        (400, "request-malformed", "fingerprint", with(json!({"fingerprint": "0", "body": null}))),
        (400, "request-malformed", "rerun", with(json!({"rerun": "maybe"}))),
        (400, "request-malformed", "wait", with(json!({"wait": "1h"}))),
        (400, "request-malformed", "max_run", with(json!({"max_run": "31d"}))),
        (400, "request-malformed", "attempt", with(json!({"attempt": ""}))),
        (400, "request-malformed", "lease", with(json!({"lease": "1"}))),
        (409, "lease-over", "lease", with(json!({"lease": "ls_00000000000fffff"}))),
        (413, "body-too-large", "4.5 MiB", large.clone()),
    ] {
        let got = app.ask("POST", "/v1/claims", &body).await;
        let short = &body[..body.len().min(200)];
        assert_eq!(got.problem(), (status, code.to_owned()), "{short}: {}", got.text());
        assert!(got.text().contains(names), "{short}: {}", got.text());
    }
    for state in ["held", "settled", "in_doubt", "released"] {
        assert_eq!(hapax.claims(state).await.len(), 0, "{state}");
    }
    for term in ["10ms", "2h", "long"] {
        assert_eq!(app.refused("/v1/leases", json!({"term": term})).await.0, 400, "{term}");
    }
    let granted = ask(&app, &lease, "1", "k", json!({})).await;
    let epoch = &granted["epoch"];
    for body in [
        json!({"epoch": epoch}),
        json!({"epoch": epoch, "result": 1, "error": 2}),
        json!({"epoch": "x", "result": 1}),
        json!({"epoch": epoch, "result": 1, "retention": "long"}),
        json!({"epoch": epoch, "result": "x".repeat(1024 * 1024)}),
    ] {
        assert_eq!(app.refused(&path(&granted, "/settle"), body).await.0, 400);
    }
    assert_eq!(app.get(&path(&granted, "")).await["state"], "held");
}

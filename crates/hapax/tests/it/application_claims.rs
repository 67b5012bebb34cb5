//! `/v1/claims` of a real server: every verdict, leases that lapse, and what is refused (L2, L5, L6, L9, E6, M1).

use serde_json::{Value, json};

use crate::application::{App, one};
use crate::rig::caller::ALICE;
use crate::rig::process::eventually;
use crate::rig::{Ground, Kind, Who};

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

/// A grant that cannot be renewed any more has the claim's epoch all the same: what comes of it counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_is_over_is_not_renewed_and_its_settle_counts_l5() {
    let (_ground, _hapax, app) = one().await;
    let lease = app.lease().await;
    let short = ask(&app, &lease, "1", "short", json!({"max_run": "1s"})).await;
    eventually("its time is over", async || app.get(&path(&short, "")).await["state"] == "in_doubt").await;
    let doubtful = ask(&app, &lease, "1", "doubtful", json!({})).await;
    app.post(&path(&doubtful, "/release"), json!({"epoch": doubtful["epoch"], "ran": "perhaps"})).await;
    let released = ask(&app, &lease, "1", "released", json!({})).await;
    app.post(&path(&released, "/release"), json!({"epoch": released["epoch"], "ran": "no"})).await;
    for claim in [&short, &doubtful, &released] {
        let body = json!({"epoch": claim["epoch"], "lease": lease});
        let (status, code, problem) = app.refused(&path(claim, "/renew"), body).await;
        assert_eq!((status, code.as_str()), (409, "grant-over"), "{problem}");
        assert_eq!(problem["error"]["code"], "grant-over", "{problem}");
        assert_eq!(problem["error"]["message"], problem["detail"], "{problem}");
    }
    for claim in [&short, &doubtful] {
        let settled = app.post(&path(claim, "/settle"), json!({"epoch": claim["epoch"], "result": 1})).await;
        assert_eq!((&settled["replayed"], &settled["outcome"]["result"]), (&json!(false), &json!(1)));
        let body = json!({"epoch": claim["epoch"], "lease": lease});
        assert_eq!(app.refused(&path(claim, "/renew"), body).await.1, "already-settled");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_holds_and_asks_for_no_more_claims_than_it_may_h12() {
    let mut ground = Ground::new(Kind::Embedded).await;
    ground.sections.push_str("[tenants]\nheld = 3\n");
    let hapax = ground.serve().await;
    let app = App::new(&hapax, ALICE);
    let (lease, short) =
        (app.lease().await, app.post("/v1/leases", json!({"term": "1s"})).await["lease"].clone());
    let mut held = Vec::new();
    for key in ["1", "2"] {
        held.push(ask(&app, &lease, "1", key, json!({})).await);
    }
    assert_eq!(ask(&app, &short, "1", "lapses", json!({})).await["verdict"], "granted");
    let too_many = async |key: &str| {
        let got = app.ask("POST", "/v1/claims", &asked(&lease, "1", key, json!({})).to_string()).await;
        match got.status {
            200 => None,
            status => Some((status, got.problem().1, got.header("retry-after").map(str::to_owned))),
        }
    };
    let refused = Some((429, "too-many".to_owned(), Some("1".to_owned())));
    // The third one may have lapsed by now, which is found out when its place is needed.
    eventually("the one that lapsed gives its place to another", async || too_many("3").await.is_none())
        .await;
    assert_eq!(too_many("4").await, refused);
    // A grant that is asked for again is no new claim, and another tenant has its own share.
    assert_eq!(ask(&app, &lease, "1", "1", json!({})).await, held[0]);
    assert_eq!(ask(&app, &lease, "2", "1", json!({})).await["verdict"], "held");
    let eve = app.by(Who("globex", "web", "user:alice"));
    let eves = eve.lease().await;
    assert_eq!(ask(&eve, &eves, "1", "k", json!({})).await["verdict"], "granted");
    // Each that is settled or released makes room.
    app.post(&path(&held[0], "/settle"), json!({"epoch": held[0]["epoch"], "result": 1})).await;
    assert_eq!(too_many("5").await, None);
    assert_eq!(too_many("6").await, refused);
    app.post(&path(&held[1], "/release"), json!({"epoch": held[1]["epoch"], "ran": "no"})).await;
    assert_eq!(too_many("6").await, None);
    assert_eq!(too_many("7").await, refused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_makes_so_many_claims_per_second_and_no_more_h12() {
    let mut ground = Ground::new(Kind::Embedded).await;
    ground.sections.push_str("[tenants]\nclaims_per_second = 2\n");
    let hapax = ground.serve().await;
    let app = App::new(&hapax, ALICE);
    let lease = app.lease().await;
    let mut refused = 0;
    for key in 0..200 {
        let body = asked(&lease, "1", &key.to_string(), json!({})).to_string();
        refused += usize::from(app.ask("POST", "/v1/claims", &body).await.status == 429);
    }
    assert!(refused > 0, "two hundred claims at once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_opens_too_many_leases_is_told_so_and_no_other_one_h12() {
    let (_ground, _hapax, app) = one().await;
    let mut last = Value::Null;
    for _ in 0..1_000 {
        last = app.lease().await;
    }
    let got = app.ask("POST", "/v1/leases", "{}").await;
    assert_eq!(got.problem(), (429, "too-many".to_owned()), "{}", got.text());
    assert!(got.header("retry-after").is_some() && got.text().contains("leases"), "{}", got.text());
    let bob = app.by(Who("acme", "other", "user:bob"));
    assert_eq!(bob.refused("/v1/leases", json!({})).await.1, "too-many", "a tenant has one share");
    app.by(Who("globex", "web", "user:alice")).lease().await;
    end(&app, &last).await;
    bob.lease().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_has_a_line_in_the_log_and_is_counted_o1_o2() {
    let (_ground, hapax, app) = one().await;
    let lease = app.lease().await;
    let granted = ask(&app, &lease, "1", "canary-key", json!({"body": "canary-body"})).await;
    let done = json!({"epoch": granted["epoch"], "result": "canary-result"});
    app.post(&path(&granted, "/settle"), done).await;
    for _ in 0..2 {
        assert_eq!(
            ask(&app, &lease, "2", "canary-key", json!({"body": "canary-body"})).await["verdict"],
            "replay"
        );
    }
    app.refused(&path(&granted, "/settle"), json!({"epoch": granted["epoch"], "result": 2})).await;
    app.ask("GET", "/v1/claims?operation=mail.send&key=canary-absent", "").await;
    app.ask("GET", "/v1/canary-path", "").await;
    assert_eq!(app.ask("GET", "/healthz", "").await.status, 200);
    let text = hapax.ask("GET /metrics", "").await.text();
    for (whose, endpoint, event, status, count) in [
        ("acme web", "/v1/leases", "done", 201, 1),
        ("acme web", "/v1/claims", "granted", 200, 1),
        ("acme web", "/v1/claims", "replay", 200, 2),
        ("acme web", "/v1/claims", "not-found", 404, 1),
        ("acme web", "/v1/claims/{operation_id}/settle", "done", 200, 1),
        ("acme web", "/v1/claims/{operation_id}/settle", "already-settled", 409, 1),
        ("_none _none", "_none", "not-found", 404, 1),
    ] {
        let (tenant, project) = whose.split_once(' ').unwrap();
        let labels = format!(
            "tenant=\"{tenant}\",project=\"{project}\",endpoint=\"{endpoint}\",event=\"{event}\",status=\"{status}\""
        );
        let line = format!("hapax_api_requests_total{{{labels}}} {count}\n");
        assert!(text.contains(&line), "{line} in {text}");
    }
    assert!(
        text.contains("hapax_api_request_seconds_count{endpoint=\"/v1/claims\",event=\"replay\"} 2\n"),
        "{text}"
    );
    assert!(!text.contains("/healthz"), "{text}");
    let id = granted["operation_id"].as_str().unwrap();
    eventually("the log has it", async || {
        let told = hapax.told();
        let lines: Vec<_> = told.lines().filter(|line| line.contains("hapax::api")).collect();
        let of_claim = lines.iter().filter(|line| line.contains(id) && line.contains("acme")).count();
        lines.len() == 8 && of_claim == 5
    })
    .await;
    assert!(!hapax.told().contains("canary"), "{}", hapax.told());
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
        (400, "request-malformed", "quiet", with(json!({"quiet": "1s"}))),
        (400, "request-malformed", "quiet", with(json!({"quiet": "1s", "rerun": "ask"}))),
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

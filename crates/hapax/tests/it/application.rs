//! Durable executions over the application listener of a real server: whose they are, one life, the next one, and what is refused
//! (J1–J5, J8, M1).

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::described;
use crate::rig::caller::{ALICE, Got, request, send};
use crate::rig::{Ground, Hapax, Kind, Who};

/// A caller of the application listener of one instance.
#[derive(Clone, Copy)]
pub(crate) struct App {
    pub(crate) address: SocketAddr,
    who: Who,
}

impl App {
    pub(crate) fn new(hapax: &Hapax, who: Who) -> App {
        App { address: hapax.api(), who }
    }

    /// The same at another address.
    pub(crate) fn at(address: SocketAddr, who: Who) -> App {
        App { address, who }
    }

    pub(crate) fn by(self, who: Who) -> App {
        App { who, ..self }
    }

    /// Asks, and holds the answer against the description.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &str) -> Got {
        let line = format!("{method} {path}");
        let text = request(self.who, &line, &[("content-type", "application/json")], body);
        let text = text.replace("host: edge.example", "host: localhost");
        let got = send(self.address, text.as_bytes()).await.expect("an answer");
        let kind = got.header("content-type").unwrap_or_default().to_owned();
        described::check_application(method, path, got.status, &kind, &got.text());
        assert_eq!(got.header("hapax-listener"), Some("application"), "{path}");
        got
    }

    /// Posts, and must be answered as a success.
    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let got = self.ask("POST", path, &body.to_string()).await;
        assert!(matches!(got.status, 200 | 201), "{path}: {}", got.text());
        got.json()
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let got = self.ask("GET", path, "").await;
        assert_eq!(got.status, 200, "{path}: {}", got.text());
        got.json()
    }

    /// Posts, and must be refused: status, code, and the whole.
    pub(crate) async fn refused(&self, path: &str, body: Value) -> (u16, String, Value) {
        let got = self.ask("POST", path, &body.to_string()).await;
        let (status, code) = got.problem();
        assert!(status >= 400, "{path}: {}", got.text());
        (status, code, got.json())
    }

    pub(crate) async fn lease(&self) -> Value {
        self.post("/v1/leases", json!({})).await["lease"].clone()
    }

    async fn length(&self, id: &str) -> u64 {
        self.get(&format!("/v1/executions/{id}/status")).await["length"].as_u64().unwrap()
    }
}

pub(crate) async fn one() -> (Ground, Hapax, App) {
    let ground = Ground::new(Kind::Embedded).await;
    let hapax = ground.serve().await;
    let app = App::new(&hapax, ALICE);
    (ground, hapax, app)
}

fn path(id: &str, verb: &str) -> String {
    format!("/v1/executions/{id}/{verb}")
}

/// An execution with a plan of one call; its runner.
async fn planned(app: &App, id: &str, lease: &Value) -> Value {
    let new = json!({"executionId": id, "agentId": "clerk", "lease": lease, "input": {"order": 7}});
    let runner = app.post("/v1/executions", new).await["runner"].clone();
    let calls = json!([{"tool": "pay", "args": {"amount": 10}}]);
    app.post(&path(id, "plan"), json!({"runner": runner, "calls": calls})).await;
    runner
}

fn begin(runner: &Value, lease: &Value, attempt: &str) -> Value {
    json!({"runner": runner, "lease": lease, "attempt": attempt, "iteration": 0, "call": 0,
           "declaration": "NON_IDEMPOTENT"})
}

fn finish(epoch: &Value, more: Value) -> Value {
    let mut body = json!({"iteration": 0, "call": 0, "epoch": epoch});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// One whole life of an execution; every other request goes to another instance where there is one.
pub(crate) async fn walks_through(here: &App, elsewhere: &App) {
    let lease = here.lease().await;
    let new = json!({"executionId": "e-1", "agentId": "clerk", "lease": lease, "input": {"order": 7}, "attempt": "a"});
    let made = here.post("/v1/executions", new.clone()).await;
    assert_eq!((&made["iteration"], &made["state"]["order"]), (&json!(0), &json!(7)));
    // A caller that has not heard it asks again, and has the same right.
    let again = elsewhere.post("/v1/executions", new.clone()).await;
    assert_eq!(again["runner"], made["runner"]);
    let mut other = new.clone();
    other["attempt"] = json!("b");
    assert_eq!(here.refused("/v1/executions", other).await.1, "already-exists");
    let runner = &made["runner"];

    let calls =
        json!([{"tool": "pay", "args": {"amount": 10}}, {"tool": "mail", "args": [], "effectKey": "m:7"}]);
    let plan = here.post(&path("e-1", "plan"), json!({"runner": runner, "calls": calls})).await;
    assert_eq!((&plan["calls"], &plan["parallel"]), (&calls, &json!(false)));
    // Another plan of the same iteration changes nothing.
    let replanned = elsewhere.post(&path("e-1", "plan"), json!({"runner": runner, "calls": []})).await;
    assert_eq!(replanned, plan);

    let granted = here.post(&path("e-1", "begin"), begin(runner, &lease, "1")).await;
    assert_eq!((&granted["step"], &granted["tool"]), (&json!("granted"), &json!("pay")));
    assert_eq!(granted["key"].as_str().unwrap().len(), 32);
    assert_eq!(elsewhere.post(&path("e-1", "begin"), begin(runner, &lease, "1")).await, granted);
    assert_eq!(elsewhere.post(&path("e-1", "begin"), begin(runner, &lease, "2")).await["step"], "held");
    let result = json!({"result": {"receipt": "r-1"}});
    let done = elsewhere.post(&path("e-1", "finish"), finish(&granted["epoch"], result.clone())).await;
    assert_eq!(done["result"], json!({"kind": "answered", "value": {"receipt": "r-1"}}));
    // Told again, and asked for again, it is what is recorded.
    assert_eq!(here.post(&path("e-1", "finish"), finish(&granted["epoch"], result)).await, done);
    assert_eq!(here.post(&path("e-1", "begin"), begin(runner, &lease, "3")).await, done);

    let mut second = begin(runner, &lease, "1");
    second["call"] = json!(1);
    let mail = elsewhere.post(&path("e-1", "begin"), second).await;
    assert_eq!((&mail["effectKey"], &mail["step"]), (&json!("m:7"), &json!("granted")));
    // An iteration with a step that has no result is not complete.
    let checkpoint = json!({"runner": runner, "iteration": 0, "checkpoint": {"paid": true}});
    let early = here.refused(&path("e-1", "checkpoint"), checkpoint.clone()).await;
    assert_eq!((early.0, early.1.as_str()), (409, "execution-not-applicable"));
    let mut refused = finish(&mail["epoch"], json!({"refused": "no such address"}));
    refused["call"] = json!(1);
    let refused = here.post(&path("e-1", "finish"), refused).await;
    assert_eq!(refused["result"], json!({"kind": "refused", "error": "no such address"}));
    let written = here.post(&path("e-1", "checkpoint"), checkpoint.clone()).await;
    assert_eq!(elsewhere.post(&path("e-1", "checkpoint"), checkpoint).await, written, "sent again");

    let event = json!({"runner": runner, "eventType": "NOTE", "payload": {"seen": 1}, "attempt": "n"});
    let noted = here.post(&path("e-1", "events"), event.clone()).await;
    let length = here.length("e-1").await;
    elsewhere.post(&path("e-1", "events"), event).await;
    assert_eq!(here.length("e-1").await, length, "an event that is sent again is appended once");
    let other = json!({"runner": runner, "eventType": "OTHER", "payload": {"seen": 1}, "attempt": "n"});
    assert_eq!(here.refused(&path("e-1", "events"), other).await.1, "execution-not-applicable");
    // A plan that arrives late is not that of the next iteration.
    let late = json!({"runner": runner, "calls": calls, "iteration": 0});
    assert_eq!(here.refused(&path("e-1", "plan"), late).await.1, "wrong-iteration");
    let expecting = json!({"runner": runner, "eventType": "NOTE", "payload": 1, "version": 1});
    let (status, code, conflict) = here.refused(&path("e-1", "events"), expecting).await;
    assert_eq!((status, code.as_str()), (409, "version-conflict"));
    assert_eq!((&conflict["expected"], &conflict["found"]), (&json!(1), &noted["version"]));

    let complete = json!({"runner": runner, "output": "paid"});
    let completed = here.post(&path("e-1", "complete"), complete.clone()).await;
    assert_eq!(elsewhere.post(&path("e-1", "complete"), complete).await, completed, "sent again");
    assert_eq!(
        here.refused(&path("e-1", "complete"), json!({"runner": runner, "output": "owed"})).await.1,
        "ended"
    );
    let event = json!({"runner": runner, "eventType": "N", "payload": 1});
    assert_eq!(elsewhere.refused(&path("e-1", "events"), event).await.1, "ended");
    let resume = json!({"lease": lease});
    assert_eq!(here.refused(&path("e-1", "resume"), resume).await.1, "ended", "and not fenced");
    let read = elsewhere.get("/v1/executions/e-1?limit=3").await;
    assert_eq!((&read["status"], &read["checkpoint"]), (&json!("COMPLETED"), &json!({"paid": true})));
    assert_eq!((&read["events"][0]["eventType"], &read["next"]), (&json!("EXECUTION_CREATED"), &json!(3)));
    for member in ["seq", "eventType", "timestamp", "payload", "hash", "schemaVersion"] {
        assert!(!read["events"][0][member].is_null(), "{member}");
    }
    let listed = here.get("/v1/executions?status=COMPLETED&agent=clerk").await;
    assert_eq!(listed["executions"][0]["executionId"], "e-1");
    let checked = elsewhere.get("/v1/executions/e-1/verify").await;
    assert_eq!((&checked["broken"], &checked["next"]), (&Value::Null, &Value::Null));
}

/// The runner dies in the midst of a step: another one goes on, and the step's end is told late.
pub(crate) async fn is_resumed(here: &App, elsewhere: &App) {
    let lease = here.lease().await;
    let runner = planned(here, "e-2", &lease).await;
    let granted = here.post(&path("e-2", "begin"), begin(&runner, &lease, "1")).await;
    let next = elsewhere.lease().await;
    let early = elsewhere.refused(&path("e-2", "resume"), json!({"lease": next})).await;
    assert_eq!((early.0, early.1.as_str()), (409, "fenced"), "its runner lives");
    assert_eq!(here.ask("DELETE", &format!("/v1/leases/{}", lease.as_str().unwrap()), "").await.status, 200);
    let resume = json!({"lease": next, "attempt": "r"});
    let resumed = elsewhere.post(&path("e-2", "resume"), resume.clone()).await;
    assert_eq!(here.post(&path("e-2", "resume"), resume).await, resumed, "sent again");
    assert_eq!(
        here.refused(&path("e-2", "resume"), json!({"lease": next, "attempt": "s"})).await.1,
        "fenced"
    );
    assert_eq!(
        (&resumed["plan"]["calls"][0]["tool"], &resumed["steps"][0]["result"]),
        (&json!("pay"), &Value::Null)
    );
    // The former runner writes nothing any more.
    let late = here
        .refused(&path("e-2", "checkpoint"), json!({"runner": runner, "iteration": 0, "checkpoint": 1}))
        .await;
    assert_eq!(late.1, "fenced");
    assert_eq!(here.refused(&path("e-2", "begin"), begin(&runner, &next, "9")).await.1, "fenced");
    // Nobody knows whether the step ran.
    let begun = elsewhere.post(&path("e-2", "begin"), begin(&resumed["runner"], &next, "1")).await;
    assert_eq!(begun, json!({"step": "waits", "reason": "lapsed"}));
    let waiting = here.get("/v1/executions/e-2/waiting").await["waiting"].clone();
    assert_eq!((&waiting[0]["why"], &waiting[0]["reason"]), (&json!("in-doubt"), &json!("lapsed")));
    assert_eq!((&waiting[0]["tool"], &waiting[1]), (&json!("pay"), &Value::Null));
    // Its holder was slow, and tells the truth in the end.
    let done = elsewhere.post(&path("e-2", "finish"), finish(&granted["epoch"], json!({"result": 1}))).await;
    assert_eq!(done["step"], "done");
    let begun = here.post(&path("e-2", "begin"), begin(&resumed["runner"], &next, "2")).await;
    assert_eq!(begun, done);
    let checkpoint = json!({"runner": resumed["runner"], "iteration": 0, "checkpoint": {}});
    elsewhere.post(&path("e-2", "checkpoint"), checkpoint).await;
    assert_eq!(here.get("/v1/executions/e-2/waiting").await["waiting"], json!([]));
    here.post(&path("e-2", "fail"), json!({"runner": resumed["runner"], "reason": "cancelled"})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execution_is_made_planned_stepped_checkpointed_and_read_j1_j8() {
    let (_ground, _hapax, app) = one().await;
    walks_through(&app, &app).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execution_goes_on_under_another_runner_and_a_late_finish_counts_j4_l5() {
    let (_ground, _hapax, app) = one().await;
    is_resumed(&app, &app).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_are_known_as_at_the_edge_and_see_their_project_alone_m1_a6() {
    let (_ground, hapax, app) = one().await;
    let lease = app.lease().await;
    let runner = planned(&app, "e-1", &lease).await;
    // Another subject of the project sees it; other projects and tenants do not.
    let bob = app.by(Who("acme", "web", "user:bob"));
    assert_eq!(bob.get("/v1/executions/e-1/status").await["subject"], "user:alice");
    let absent = app.ask("GET", "/v1/executions/none/status", "").await;
    for who in [Who("acme", "app", "user:alice"), Who("globex", "web", "user:alice")] {
        let foreign = app.by(who);
        let got = foreign.ask("GET", "/v1/executions/e-1/status", "").await;
        assert_eq!((got.status, &got.body), (absent.status, &absent.body));
        for verb in ["plan", "begin", "finish", "checkpoint", "resume", "pause", "complete", "fail", "events"]
        {
            let body = match verb {
                "plan" => json!({"runner": runner, "calls": []}),
                "begin" => begin(&runner, &foreign.lease().await, "1"),
                "finish" => finish(&json!("1.1"), json!({"result": 1})),
                "checkpoint" => json!({"runner": runner, "iteration": 0, "checkpoint": 1}),
                "resume" => json!({"lease": foreign.lease().await}),
                "events" => json!({"runner": runner, "eventType": "N", "payload": 1}),
                "complete" => json!({"runner": runner}),
                _ => json!({"runner": runner, "reason": "no"}),
            };
            assert_eq!(foreign.refused(&path("e-1", verb), body).await.0, 404, "{verb}");
        }
        assert_eq!(foreign.get("/v1/executions").await["executions"], json!([]));
    }
    // A lease is its caller's alone.
    for (who, path) in [(bob, "/v1/executions/e-1/begin")] {
        assert_eq!(who.refused(path, begin(&runner, &lease, "1")).await.1, "lease-over");
    }
    // Without a project, without credentials, with wrong ones.
    let bytes = |headers: &str| {
        format!("GET /v1/executions HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: 0\r\n\r\n")
            .into_bytes()
    };
    for (headers, status) in [
        ("", 401),
        ("authorization: Bearer hpx_0000000000000000_none\r\n", 401),
        ("x-tenant-id: acme\r\nx-subject: user:alice\r\n", 403),
        ("x-tenant-id: acme\r\nx-project-id: web\r\nx-subject: service:scheduler\r\n", 401),
    ] {
        let got = send(app.address, &bytes(headers)).await.unwrap();
        assert_eq!(got.status, status, "{headers}: {}", got.text());
        if status == 401 {
            assert!(got.header("www-authenticate").unwrap().starts_with("Bearer"), "{got:?}");
        }
    }
    // An API key that an operator makes counts here as it does at the edge, and no operator's token does.
    let key = hapax.ask("POST /v1/keys", r#"{"tenant":"acme","project":"web","subject":"service:ci"}"#).await;
    let key = key.json()["key"].as_str().unwrap().to_owned();
    let got = send(app.address, &bytes(&format!("authorization: Bearer {key}\r\n"))).await.unwrap();
    assert_eq!((got.status, &got.json()["executions"][0]["executionId"]), (200, &json!("e-1")));
    let token = format!("authorization: Bearer {}\r\n", crate::rig::TOKEN);
    assert_eq!(send(app.address, &bytes(&token)).await.unwrap().status, 401);
    // Another name in `Host` is refused, and what tells of nobody is open.
    let strange = "GET /openapi.json HTTP/1.1\r\nhost: evil.example\r\n\r\n";
    assert_eq!(send(app.address, strange.as_bytes()).await.unwrap().status, 421);
    assert_eq!(app.get("/healthz").await["status"], "ok");
    assert_eq!(app.get("/openapi.json").await["info"]["title"], "hapax application API");
    assert_eq!(app.ask("GET", "/.well-known/hapax/errors/lease-over", "").await.status, 200);
    // None of the other listeners' paths.
    for path in ["/metrics", "/v1/keys", "/v1/audit", "/charges"] {
        assert_eq!(app.ask("GET", path, "").await.status, 404, "{path}");
    }
}

/// Status and code, what the refusal names, and the request.
type Bad = (u16, &'static str, &'static str, (String, String));

fn bad_cases(lease: &Value, runner: &Value, granted: &Value) -> Vec<Bad> {
    let new = |more: Value| {
        let mut body = json!({"executionId": "e-2", "agentId": "clerk", "lease": lease});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body.to_string()
    };
    let post = |verb: &str, body: Value| (path("e-1", verb), body.to_string());
    let create = |body: String| ("/v1/executions".to_owned(), body);
    let wrong_step = |epoch: &str| finish(&json!(epoch), json!({"result": 1}));
    vec![
        (400, "request-malformed", "JSON", create("{not json".into())),
        (400, "request-malformed", "executionId", create(new(json!({"executionId": "a:b"})))),
        (400, "request-malformed", "agentId", create(new(json!({"agentId": ""})))),
        (400, "request-malformed", "input", create(new(json!({"input": 9_007_199_254_740_993_u64})))),
        (
            400,
            "request-malformed",
            "input",
            create(new(json!({})).replace("}", ",\"input\":18446744073709551617}")),
        ),
        (
            400,
            "request-malformed",
            "input",
            create(new(json!({})).replace("}", ",\"input\":{\"a\":1,\"a\":2}}")),
        ),
        (400, "request-malformed", "unknown field", create(new(json!({"force": true})))),
        (400, "request-malformed", "lease", create(new(json!({"lease": "ls_1"})))),
        (409, "unsupported-schema-version", "version 3", create(new(json!({"schemaVersion": 3})))),
        (409, "lease-over", "lease", create(new(json!({"lease": "ls_00000000000fffff"})))),
        (409, "already-exists", "used up", create(new(json!({"executionId": "e-1"})))),
        (404, "not-found", "", (path("none", "plan"), json!({"runner": runner, "calls": []}).to_string())),
        (404, "not-found", "", (path("a%3Ab", "resume"), json!({"lease": lease}).to_string())),
        (
            409,
            "version-conflict",
            "version",
            post("events", json!({"runner": runner, "eventType": "N", "payload": 1, "version": 1})),
        ),
        (
            400,
            "request-malformed",
            "eventType",
            post("events", json!({"runner": runner, "eventType": "TOOL_CALL_RESULT", "payload": 1})),
        ),
        (
            400,
            "request-malformed",
            "type",
            post("events", json!({"runner": runner, "eventType": "X".repeat(51), "payload": 1})),
        ),
        (400, "request-malformed", "runner", post("plan", json!({"runner": "me", "calls": []}))),
        (
            409,
            "fenced",
            "runner",
            post("plan", json!({"runner": format!("ru_{}", "0".repeat(32)), "calls": []})),
        ),
        (
            409,
            "wrong-iteration",
            "iteration 7",
            post("checkpoint", json!({"runner": runner, "iteration": 7, "checkpoint": {}})),
        ),
        (
            400,
            "request-malformed",
            "counted from 0",
            post("begin", {
                let mut body = begin(runner, lease, "x");
                body["call"] = json!(1);
                body
            }),
        ),
        (400, "request-malformed", "attempt", post("begin", begin(runner, lease, "not one"))),
        (409, "lease-over", "lease", post("begin", begin(runner, &json!("ls_00000000000fffff"), "2"))),
        (409, "epoch-stale", "epoch", post("finish", wrong_step("1.999"))),
        (409, "epoch-stale", "epoch", post("finish", wrong_step("2.1"))),
        (400, "request-malformed", "epoch", post("finish", wrong_step("seven"))),
        (
            400,
            "request-malformed",
            "exactly one",
            post("finish", finish(&granted["epoch"], json!({"result": 1, "unknown": "x"}))),
        ),
        (
            400,
            "request-malformed",
            "at most 1046528 bytes",
            post("finish", finish(&granted["epoch"], json!({"result": "x".repeat(1024 * 1024)}))),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_refused_by_name_and_nothing_is_written_j1_j5() {
    let (_ground, _hapax, app) = one().await;
    let lease = app.lease().await;
    let runner = planned(&app, "e-1", &lease).await;
    let granted = app.post(&path("e-1", "begin"), begin(&runner, &lease, "1")).await;
    let before = app.get("/v1/executions/e-1").await;
    let cases = bad_cases(&lease, &runner, &granted);
    for (status, code, names, (path, body)) in cases {
        let got = app.ask("POST", &path, &body).await;
        assert_eq!(got.problem(), (status, code.to_owned()), "{path} {body}: {}", got.text());
        assert!(got.text().contains(names), "{path} {body}: {}", got.text());
    }
    let large = format!("{{\"pad\": \"{}\"}}", "x".repeat(5 * 1024 * 1024));
    for verb in ["checkpoint", "events", "begin"] {
        assert_eq!(
            app.ask("POST", &path("e-1", verb), &large).await.problem(),
            (413, "body-too-large".into())
        );
    }
    assert_eq!(app.get("/v1/executions/e-1").await, before, "something was written");
    assert_eq!(app.get("/v1/executions").await["executions"].as_array().unwrap().len(), 1);
    // An attempt that was given back is used up, and its caller is told to take another one.
    let failed = finish(&granted["epoch"], json!({"notRun": "no route"}));
    assert_eq!(app.post(&path("e-1", "finish"), failed).await["step"], "failed");
    assert_eq!(app.post(&path("e-1", "begin"), begin(&runner, &lease, "1")).await["step"], "failed");
    assert_eq!(app.post(&path("e-1", "begin"), begin(&runner, &lease, "2")).await["step"], "granted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_checkpoint_fits_and_other_work_than_is_recorded_pauses_j4() {
    let (_ground, _hapax, app) = one().await;
    let lease = app.lease().await;
    let runner = planned(&app, "e-1", &lease).await;
    let granted = app.post(&path("e-1", "begin"), begin(&runner, &lease, "1")).await;
    app.post(&path("e-1", "finish"), finish(&granted["epoch"], json!({"result": 1}))).await;
    let state = "x".repeat(4 * 1024 * 1024 - 128);
    app.post(&path("e-1", "checkpoint"), json!({"runner": runner, "iteration": 0, "checkpoint": state}))
        .await;
    // Other work than is recorded pauses it.
    app.post(&path("e-1", "plan"), json!({"runner": runner, "calls": [{"tool": "pay", "args": 1}]})).await;
    let mut other = begin(&runner, &lease, "3");
    other["iteration"] = json!(1);
    (other["tool"], other["args"]) = (json!("pay"), json!(2));
    let (status, code, told) = app.refused(&path("e-1", "begin"), other).await;
    assert_eq!((status, code.as_str(), &told["iteration"]), (409, "plan-diverged", &json!(1)));
    assert_eq!(app.get("/v1/executions/e-1/status").await["status"], "PAUSED");
}

//! Schedules through the real program: ticks that fire at the edge, and what operators do about them (S, M2).

use std::time::Duration;

use hapax_testkit::port::Port;
use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;

use crate::office::carried_out;
use crate::rig::process::eventually;
use crate::rig::{Ground, Hapax, Kind};
use crate::webhooks_cli::{json_of, run};

/// What every configuration here has.
pub(crate) const AUTH: &str = "
[auth.schedules]
secret_env = \"HAPAX_SCHEDULE_SECRET\"
";

pub(crate) const SECRET: (&str, &str) = ("HAPAX_SCHEDULE_SECRET", "a secret of schedules");

/// A schedule of charges.
pub(crate) fn schedule(id: &str, when: &str, more: &str) -> String {
    format!(
        "[[schedules]]\nid = \"{id}\"\n{when}\nroute = \"charge\"\nbody = {{ kind = \"report\" }}\n\
         as = {{ tenant = \"acme\", project = \"web\" }}\n{more}\n"
    )
}

pub(crate) async fn ground(kind: Kind, schedules: &str) -> Ground {
    let mut ground = Ground::new(kind).await;
    ground.sections = AUTH.into();
    ground.routes = schedules.into();
    ground
}

pub(crate) async fn serve(ground: &Ground, name: &str) -> Hapax {
    Hapax::start(&ground.write(name), &[SECRET]).await
}

pub(crate) async fn shown(edge: &Hapax, id: &str) -> Value {
    edge.ask(&format!("GET /v1/schedules/{id}"), "").await.json()
}

/// The raw keys of everything that was done, without whose they are.
pub(crate) fn keys(ground: &Ground) -> Vec<String> {
    let key = |header: &str| header.rsplit_once(':').unwrap().1.to_owned();
    ground.service.done().iter().map(|done| key(done.header("idempotency-key").unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interval_fires_through_the_edge_once_for_each_tick_s1() {
    let ground = ground(Kind::Embedded, &schedule("report", "every = \"200ms\"", "catch_up = 50")).await;
    let edge = serve(&ground, "hapax").await;
    ground.service.reached(5).await;
    let told = run(&edge, "", &["schedules", "pause", "report", "--reason", "enough"]).await;
    assert_eq!((told.code, told.out.as_str()), (0, "report paused\n"), "{}", told.err);
    eventually("all of them have ended", async || {
        shown(&edge, "report").await["open"].as_array().unwrap().is_empty()
    })
    .await;
    let keys = keys(&ground);
    let mut distinct = keys.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), keys.len(), "each tick was done once: {keys:?}");
    for done in ground.service.done() {
        assert_eq!(done.header("x-subject"), Some("service:scheduler"));
        assert_eq!((done.header("x-tenant-id"), done.header("x-project-id")), (Some("acme"), Some("web")));
        assert_eq!(
            (done.body.as_str(), done.header("content-type")),
            ("{\"kind\":\"report\"}", Some("application/json"))
        );
        let key = done.header("idempotency-key").unwrap();
        let at: u64 = key.rsplit_once('.').unwrap().1.parse().unwrap();
        assert!(key.contains(":sched.report.") && at.is_multiple_of(200), "multiples since the epoch: {key}");
    }
    let listed = json_of(&run(&edge, "", &["schedules", "list", "--json"]).await);
    let schedule = &listed["schedules"][0];
    assert_eq!(schedule["dispatched"], keys.len(), "{schedule}");
    let last = &schedule["last"];
    let (key, id) = (last["key"].as_str().unwrap(), last["operation_id"].as_str().unwrap());
    assert!(keys.iter().any(|sent| sent.ends_with(key)), "{last} {keys:?}");
    assert_eq!(edge.ask(&format!("GET /v1/claims/{id}"), "").await.status, 200);
    assert_eq!(
        (&schedule["state"], &schedule["here"], &schedule["every"]),
        (&"paused".into(), &"dispatched".into(), &"200ms".into())
    );
    assert_eq!(schedule["paused"]["reason"], "enough");
    assert!(schedule["next"].as_array().unwrap().is_empty(), "none while it is paused");
    let metrics = edge.ask("GET /metrics", "").await.text();
    assert!(
        metrics.contains(&format!("hapax_ticks_dispatched_total{{schedule=\"report\"}} {}\n", keys.len())),
        "{metrics}"
    );
    let claims = edge.claims("settled").await;
    assert!(claims.iter().all(|claim| claim["subject"] == "service:scheduler") && claims.len() == keys.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_schedule_runs_when_it_is_told_and_resumes_at_now_s1() {
    let ground = ground(Kind::Embedded, &schedule("report", "every = \"100ms\"", "catch_up = 1000")).await;
    let edge = serve(&ground, "hapax").await;
    ground.service.reached(1).await;
    assert_eq!(run(&edge, "", &["schedules", "pause", "report"]).await.code, 0);
    eventually("nothing is open", async || {
        shown(&edge, "report").await["open"].as_array().unwrap().is_empty()
    })
    .await;
    let before = keys(&ground).len();
    // The same run twice is one.
    for _ in 0..2 {
        let told =
            run(&edge, "", &["schedules", "run", "report", "--run-id", "by-hand", "--reason", "now"]).await;
        assert_eq!((told.code, told.out.as_str()), (0, "sched.report.now.by-hand\n"), "{}", told.err);
    }
    ground.service.reached(before + 1).await;
    eventually("it has ended", async || shown(&edge, "report").await["open"].as_array().unwrap().is_empty())
        .await;
    assert_eq!(keys(&ground)[before..], ["sched.report.now.by-hand"]);
    let another = run(&edge, "", &["schedules", "run", "report", "--json"]).await;
    assert!(json_of(&another)["key"].as_str().unwrap().starts_with("sched.report.now."), "{}", another.out);
    ground.service.reached(before + 2).await;
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let last = || keys(&ground)[..before].iter().filter_map(|key| key.rsplit_once('.')?.1.parse().ok()).max();
    let last: u64 = last().unwrap();
    eventually("five ticks of the pause would be due", async || now() > last + 600).await;
    let resumed_at = now();
    assert_eq!(run(&edge, "", &["schedules", "resume", "report"]).await.out, "report running\n");
    ground.service.reached(before + 4).await;
    for key in &keys(&ground)[before + 2..] {
        let at: u64 = key.rsplit_once('.').unwrap().1.parse().unwrap();
        assert!(at + 100 > resumed_at, "nothing of the pause is caught up: {key}, resumed at {resumed_at}");
    }
    for (args, code) in [
        (["schedules", "pause", "nightly"], 1),
        (["schedules", "run", "nightly"], 1),
        (["schedules", "stop", "report"], 2),
    ] {
        assert_eq!(run(&edge, "", &args).await.code, code, "{args:?}");
    }
    let bad = run(&edge, "", &["schedules", "run", "report", "--run-id", "a.b"]).await;
    assert_eq!(bad.code, 2, "{}", bad.err);
    let audit = edge.ask("GET /v1/audit", "").await.json();
    let decided = carried_out(&audit);
    let verbs: Vec<_> = decided.iter().map(|event| event["verb"].as_str().unwrap()).collect();
    assert_eq!(
        verbs,
        ["schedule-resume", "schedule-run", "schedule-run", "schedule-run", "schedule-pause"],
        "{audit}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_are_sent_to_an_edge_that_speaks_tls_s2() {
    let mut ground = ground(Kind::Embedded, &schedule("report", "every = \"300ms\"", "")).await;
    // Signed by itself, for another name: nothing but being the edge's own makes it believed.
    let issue = |folder: &std::path::Path| {
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(vec!["edge.example".into()]).unwrap().self_signed(&key).unwrap();
        std::fs::write(folder.join("edge.crt"), cert.pem()).unwrap();
        std::fs::write(folder.join("edge.key"), key.serialize_pem()).unwrap();
    };
    issue(ground.folder.path());
    ground.sections = format!("{AUTH}[edge.tls]\ncert = \"edge.crt\"\nkey = \"edge.key\"\n");
    let path = ground.write("hapax");
    let edge = Hapax::start(&path, &[SECRET]).await;
    ground.service.reached(2).await;
    // A new certificate is believed as soon as it is shown.
    issue(ground.folder.path());
    edge.reload();
    edge.tells("the configuration was reloaded").await;
    let before = ground.service.count();
    ground.service.reached(before + 3).await;
    // The service is reached before the document says so.
    eventually("five ticks are told", async || {
        shown(&edge, "report").await["dispatched"].as_u64().unwrap() >= 5
    })
    .await;
    assert_eq!(shown(&edge, "report").await["missed"], 0);
}

/// A schedule whose service is not there: nothing listens at this port.
async fn ground_away(port: &Port, when: &str) -> Ground {
    let mut ground = ground(Kind::Embedded, "").await;
    ground.sections = format!("{AUTH}[upstreams.away]\nurl = \"http://127.0.0.1:{}\"\n", port.number());
    ground.routes = format!(
        "[[routes]]\nmethod = \"POST\"\npath = \"/away\"\noperation = \"away\"\npolicy = \"REQUIRED_A\"\nupstream = \"away\"\n{}",
        schedule("report", when, "").replace("\"charge\"", "\"away\"")
    );
    ground
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_paused_schedule_no_planned_tick_is_sent_again_until_it_is_resumed_s1() {
    let port = Port::reserve().unwrap();
    let ground = ground_away(&port, "every = \"500ms\"").await;
    let edge = serve(&ground, "hapax").await;
    let sends = async |of: &str| {
        let status = shown(&edge, "report").await;
        let open = status["open"].as_array().into_iter().flatten();
        let own = open.filter(|tick| tick["key"].as_str().unwrap().contains(".now.") == (of == "run"));
        own.map(|tick| tick["sends"].as_u64().unwrap()).sum::<u64>()
    };
    eventually("one is open", async || sends("planned").await >= 1).await;
    assert_eq!(run(&edge, "", &["schedules", "pause", "report"]).await.code, 0);
    let before = sends("planned").await;
    assert!(before >= 1);
    // A run that is asked for is sent, and sent again as planned ticks were.
    assert_eq!(run(&edge, "", &["schedules", "run", "report", "--run-id", "x"]).await.code, 0);
    eventually("the run is sent again", async || sends("run").await >= 4).await;
    assert_eq!(sends("planned").await, before, "nothing of the plan is sent");
    assert_eq!(run(&edge, "", &["schedules", "resume", "report"]).await.code, 0);
    eventually("it goes on", async || sends("planned").await > before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_that_the_service_does_not_take_is_sent_again_under_its_key_s1() {
    let port = Port::reserve().unwrap();
    let ground = ground_away(&port, "every = \"1h\"").await;
    let edge = serve(&ground, "hapax").await;
    eventually("it is known", async || shown(&edge, "report").await["id"] == "report").await;
    assert_eq!(run(&edge, "", &["schedules", "run", "report", "--run-id", "x"]).await.code, 0);
    let sends = async || shown(&edge, "report").await["open"][0]["sends"].as_u64().unwrap_or(0);
    eventually("it is sent again", async || sends().await >= 2).await;
    // Between two sendings its claim is given back.
    let is_released = async || shown(&edge, "report").await["open"][0]["claim"] == "released";
    eventually("it is given back", is_released).await;
    let open = shown(&edge, "report").await["open"][0].clone();
    assert_eq!((&open["key"], &open["claim"]), (&"sched.report.now.x".into(), &"released".into()), "{open}");
    // As soon as the service is there, it gets the tick.
    let there = tokio::net::TcpListener::bind(port.address()).await.unwrap();
    let taken = tokio::time::timeout(Duration::from_secs(20), there.accept()).await;
    assert!(taken.is_ok(), "the tick comes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_of_the_time_without_a_process_are_counted_as_late_or_missed_s1_o1() {
    let ground = ground(Kind::Embedded, &schedule("report", "every = \"200ms\"", "catch_up = 2")).await;
    let edge = serve(&ground, "hapax").await;
    ground.service.reached(1).await;
    edge.kill();
    let killed = std::time::Instant::now();
    eventually("ten ticks were due", async || killed.elapsed().as_millis() > 2_000).await;
    let edge = serve(&ground, "hapax").await;
    eventually("they are counted", async || {
        let metrics = edge.ask("GET /metrics", "").await.text();
        let counted = |name: &str| {
            let start = format!("hapax_ticks_{name}_total{{schedule=\"report\"}} ");
            metrics.lines().find_map(|line| line.strip_prefix(&start)?.parse::<u64>().ok()).unwrap_or(0)
        };
        counted("missed") >= 5 && counted("late") >= 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_overlaps_is_left_out_and_what_is_open_is_shown_s1() {
    let ground = ground(Kind::Embedded, &schedule("report", "every = \"300ms\"", "overlap = \"skip\"")).await;
    ground.service.hold();
    let edge = serve(&ground, "hapax").await;
    ground.service.reached(1).await;
    eventually("some are left out", async || shown(&edge, "report").await["skipped"].as_u64() >= Some(3))
        .await;
    let status = shown(&edge, "report").await;
    assert_eq!((status["dispatched"].as_u64(), ground.service.count()), (Some(1), 1), "{status}");
    let metrics = edge.ask("GET /metrics", "").await.text();
    let skipped =
        metrics.lines().find_map(|line| line.strip_prefix("hapax_ticks_skipped_total{schedule=\"report\"} "));
    assert!(skipped.is_some_and(|count| count.parse::<u64>().is_ok_and(|count| count >= 3)), "{metrics}");
    let told = run(&edge, "", &["schedules", "show", "report"]).await;
    for part in
        ["every 300ms", "acme/web", "POST /charges", "1 dispatched", "OPEN TICK", "sched.report.", "held"]
    {
        assert!(told.code == 0 && told.out.contains(part), "{part}: {} {}", told.out, told.err);
    }
    assert_eq!(json_of(&run(&edge, "", &["schedules", "show", "report", "--json"]).await)["id"], "report");
    assert_eq!(run(&edge, "", &["schedules", "show", "nightly"]).await.code, 1);
    let open = &status["open"][0];
    assert!(open["claim"] == "held" && open["operation_id"].as_str().unwrap().starts_with("op_"), "{status}");
    ground.service.let_go();
    ground.service.reached(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_with_another_definition_dispatches_nothing_and_a_reload_takes_over_s1() {
    let mut ground = ground(Kind::Embedded, &schedule("report", "every = \"400ms\"", "catch_up = 100")).await;
    let edge = serve(&ground, "hapax").await;
    ground.service.reached(1).await;
    ground.routes = schedule("report", "every = \"300ms\"", "catch_up = 100");
    ground.write("hapax");
    edge.reload();
    edge.tells("the configuration was reloaded").await;
    eventually("it is changed", async || shown(&edge, "report").await["every"] == "300ms").await;
    let before = ground.service.count();
    ground.service.reached(before + 3).await;
    assert_eq!(shown(&edge, "report").await["here"], "dispatched");
    // Taken out of the configuration, it is kept and does nothing.
    ground.routes = String::new();
    ground.write("hapax");
    edge.reload();
    eventually("it is gone", async || shown(&edge, "report").await["here"] == "absent").await;
    assert!(shown(&edge, "report").await["next"].as_array().unwrap().is_empty(), "none will come");
    let listed = run(&edge, "", &["schedules", "list"]).await;
    assert!(listed.err.contains("report: this server's configuration does not have it"), "{}", listed.err);
    // A run would wait for a server that has it, and start some day unasked.
    let open = shown(&edge, "report").await["open"].clone();
    let refused = run(&edge, "", &["schedules", "run", "report"]).await;
    assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{}", refused.err);
    assert!(refused.err.contains("does not have the schedule"), "{}", refused.err);
    assert_eq!(shown(&edge, "report").await["open"], open);
}

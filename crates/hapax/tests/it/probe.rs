//! `hapax probe`, run as a user would run it: against hapax's own edge, against servers with one planted fault each, and
//! against nothing. Nothing is sent anywhere but to this machine.

mod asked;
mod edge;
mod peers;
mod planted;

use std::process::{Command, Output, Stdio};

use planted::{Fault, Planted};
use serde_json::Value;

use crate::demo::Demo;

/// Runs the probe to its end.
fn probe(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hapax"))
        .arg("probe")
        .args(args)
        .stdin(Stdio::null())
        .env("http_proxy", "http://127.0.0.1:1")
        .output()
        .unwrap()
}

/// Runs it and reads its JSON.
fn probed(args: &[&str]) -> (Option<i32>, Value) {
    let done = probe(&[args, &["--json"]].concat());
    let told = String::from_utf8(done.stdout).unwrap();
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    (done.status.code(), serde_json::from_str(&told).unwrap_or_else(|_| panic!("{told}\n{errors}")))
}

/// The rows of this level.
fn rows(report: &Value, level: &str) -> Vec<String> {
    let rows = report["rows"].as_array().unwrap().iter();
    rows.filter(|row| row["level"] == level).map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

fn seen<'a>(report: &'a Value, id: &str) -> &'a str {
    let row = report["rows"].as_array().unwrap().iter().find(|row| row["id"] == id).unwrap();
    row["seen"].as_str().unwrap()
}

/// Probes again where the probe says that it could not bring two requests together: a machine that stalls for a while is
/// too slow for that.
fn steadily(mut probe: impl FnMut() -> (Option<i32>, Value)) -> (Option<i32>, Value) {
    for _ in 0..4 {
        let (code, report) = probe();
        if !seen(&report, "other-body-in-flight").contains("too fast") {
            return (code, report);
        }
    }
    probe()
}

/// The usual probe of a planted server.
fn probe_planted(server: &Planted) -> (Option<i32>, Value) {
    probed(&[
        &server.url("/charges"),
        "--body-json",
        r#"{"amount": 10}"#,
        "--header",
        "Authorization: alice",
        "--other-header",
        "Authorization: bob",
        "--other-path",
        "/refunds",
        "--race",
        "10",
    ])
}

#[test]
fn a_sound_server_passes_and_gets_no_more_requests_than_was_said_m5() {
    let mut server = None;
    let (code, report) = steadily(|| probe_planted(server.insert(Planted::start(Fault::None))));
    let server = server.unwrap();
    assert_eq!((code, &report["verdict"]), (Some(0), &Value::from("pass")), "{report:#}");
    assert_eq!(rows(&report, "not-tested"), Vec::<String>::new(), "{report:#}");
    assert_eq!(report["requests"]["sent"], server.requests(), "what is sent is what is counted");
    assert!(server.requests() <= report["requests"]["at_most"].as_u64().unwrap());
    assert_eq!(report["schema"], 1);
    assert_eq!(report["executions_told_apart"], true);
}

#[test]
fn keys_are_probed_in_another_header_and_in_a_body_m5() {
    let places = [
        (Fault::OtherHeader, "--key-header", "PayPal-Request-Id"),
        (Fault::InBody, "--key-json", "/request_id"),
    ];
    for (planted, option, place) in places {
        let body = ["--body-json", r#"{"amount": 10}"#, "--race", "10", option, place];
        let (code, report) = steadily(|| {
            let server = Planted::start(planted);
            probed(&[&[server.url("/charges").as_str()], &body[..]].concat())
        });
        assert_eq!((code, rows(&report, "fail")), (Some(0), Vec::new()), "{report:#}");
        let not_tested = rows(&report, "not-tested");
        assert!(
            not_tested.contains(&"forms".into()) && not_tested.contains(&"malformed".into()),
            "{report:#}"
        );
        for row in ["replay", "other-body", "missing", "duplicated", "empty", "too-long", "race"] {
            assert!(rows(&report, "pass").contains(&row.to_owned()), "{row}: {report:#}");
        }
    }
    let server = Planted::start(Fault::InBodyLastWins);
    let body = ["--body-json", r#"{"amount": 10}"#, "--race", "2", "--key-json", "/request_id"];
    let (_, report) = probed(&[&[server.url("/charges").as_str()], &body[..]].concat());
    assert_eq!(rows(&report, "fail"), ["duplicated"], "{report:#}");
}

#[test]
fn a_place_for_keys_that_there_is_not_is_misuse_m5() {
    for (option, place, body) in [
        ("--key-header", "a b", "{}"),
        ("--key-json", "key", "{}"),
        ("--key-json", "/key", "[]"),
        ("--key-json", "/a/key", "{}"),
    ] {
        let done = probe(&["http://127.0.0.1:1/charges", "--body-json", body, option, place]);
        assert_eq!(done.status.code(), Some(2), "{option} {place} {body}");
        assert!(String::from_utf8_lossy(&done.stderr).contains(option), "{option} is named");
    }
}

#[test]
fn each_planted_fault_fails_on_its_own_row_m5() {
    for (fault, row) in [
        (Fault::OldAnswer, "other-body"),
        (Fault::LeaksToOthers, "other-caller"),
        (Fault::IgnoresPath, "other-path"),
        (Fault::EmptySuccess, "race"),
        (Fault::EmptyIsShared, "empty"),
        (Fault::FirstLineWins, "duplicated"),
        (Fault::LongIs500, "too-long"),
        (Fault::QuotesAreKept, "forms"),
    ] {
        let server = Planted::start(fault);
        let (code, report) = probe_planted(&server);
        assert_eq!((code, rows(&report, "fail")), (Some(1), vec![row.to_owned()]), "{fault:?}: {report:#}");
        assert_eq!(report["verdict"], "fail");
    }
}

#[test]
fn a_server_that_runs_always_fails_wherever_a_key_should_have_mattered_m5() {
    let server = Planted::start(Fault::RunsAlways);
    let (code, report) = probe_planted(&server);
    assert_eq!(code, Some(1));
    let wanted =
        ["replay", "other-body", "other-body-in-flight", "malformed", "forms", "duplicated", "too-long"];
    let failed = rows(&report, "fail");
    assert!(wanted.iter().all(|row| failed.contains(&(*row).to_owned())), "{report:#}");
    assert!(seen(&report, "race").starts_with("10 different answers"), "{report:#}");
}

#[test]
fn answers_that_are_all_alike_prove_little_and_the_probe_says_so_m5() {
    let server = Planted::start(Fault::SaysNothing);
    let (code, report) = probe_planted(&server);
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(report["executions_told_apart"], false);
    let warned = rows(&report, "warn");
    for row in ["distinct", "replay", "race", "forms", "other-caller"] {
        assert!(warned.contains(&row.to_owned()), "{row}: {report:#}");
    }
}

#[test]
fn without_an_accepted_request_nothing_is_claimed_m5() {
    let server = Planted::start(Fault::None);
    let (code, report) = probed(&[&server.url("/nowhere")]);
    assert_eq!((code, rows(&report, "fail")), (Some(1), vec!["first".to_owned()]), "{report:#}");
    assert_eq!(rows(&report, "not-tested").len(), report["rows"].as_array().unwrap().len() - 1);
    assert_eq!(server.requests(), 2, "the quoted form and the bare one");
}

#[test]
fn people_get_a_table_and_ci_gets_junit_m5() {
    let server = Planted::start(Fault::OldAnswer);
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("probe.xml");
    let secret = "Authorization: very-secret";
    let args = ["--body-json", r#"{"amount": 10}"#, "--race", "2", "--header", secret, "--junit"];
    let done = probe(&[&[server.url("/charges").as_str()], &args[..], &[junit.to_str().unwrap()]].concat());
    let (table, errors) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    let xml = std::fs::read_to_string(junit).unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert!(table.contains("fail        the key with another body"), "{table}");
    assert!(table.contains("not-tested  another caller's key"), "{table}");
    assert!(table.lines().last().unwrap().starts_with("verdict: fail (1 fail"), "{table}");
    assert!(errors.starts_with("This sends at most "), "{errors}");
    assert!(xml.contains("failures=\"1\"") && xml.matches("<testcase").count() == 19, "{xml}");
    assert!(xml.contains("probe.other-caller") && xml.matches("<skipped").count() == 2, "{xml}");
    for told in [table, errors, xml] {
        assert!(!told.contains("very-secret"), "{told}");
    }
}

#[test]
fn an_api_that_is_not_there_is_unavailable_m5() {
    let nobody = hapax_testkit::port::Port::reserve().unwrap();
    let done = probe(&[&format!("http://{}/charges", nobody.address()), "--json"]);
    assert_eq!(done.status.code(), Some(3));
    assert!(String::from_utf8(done.stderr).unwrap().contains("cannot be reached"));
    assert!(done.stdout.is_empty());
}

#[test]
fn misuse_is_told_before_anything_is_sent_m5() {
    let server = Planted::start(Fault::None);
    let url = server.url("/charges");
    for args in [
        &["--race", "201"][..],
        &["--race", "1"],
        &["--timeout", "soon"],
        &["--timeout", "2h"],
        &["--method", "GET"],
        &["--body-json", "{"],
        &["--other-body-json", "{"],
        &["--body", "/no/such/file"],
        &["--header", "no colon"],
        &["--header", "Idempotency-Key: mine"],
        &["--other-path", "http://example.com/"],
        &["--other-path", "//example.com/"],
    ] {
        let done = probe(&[&[url.as_str()], args].concat());
        assert_eq!(done.status.code(), Some(2), "{args:?}");
    }
    for url in ["charges", "ftp://127.0.0.1/", "http://me:secret@127.0.0.1/"] {
        assert_eq!(probe(&[url]).status.code(), Some(2), "{url}");
    }
    assert_eq!(server.requests(), 0);
}

#[test]
fn the_edge_passes_with_no_warning_m5() {
    let demo = Demo::start(None);
    let caller = |variable: &str| format!("Authorization: Bearer {}", demo.after(&format!("{variable}=")));
    let args = [
        &format!("{}/charges", demo.after("edge ")),
        "--body-json",
        r#"{"amount": 10}"#,
        "--header",
        &caller("ALICE"),
        "--other-header",
        &caller("BOB"),
    ];
    let (code, report) = steadily(|| probed(&args));
    assert_eq!((code, &report["verdict"]), (Some(0), &Value::from("pass")), "{report:#}");
    // The edge answers everybody in a race, so that there is no 409 to look at; and the demo has one operation.
    assert_eq!(rows(&report, "not-tested"), ["other-path", "retry-after"], "{report:#}");
}

//! `hapax claims`, run as an operator would run it (M2).

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use hapax_exec::How;
use serde_json::{Value, json};

use crate::office::{OPERATOR, Office, READER, call};

/// A command line against this listener.
pub(crate) fn hapax(office: &Office, token: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    command.args(args).args(["--admin", &format!("http://{}", office.address)]);
    command.env("HAPAX_ADMIN_TOKEN", token).env("USER", "alice").stdin(Stdio::null());
    command
}

/// Runs it beside the listener, which lives on this test's runtime.
pub(crate) async fn output(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

pub(crate) struct Told {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) async fn told(command: Command) -> Told {
    let output = output(command).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Told { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

async fn run(office: &Office, args: &[&str]) -> Told {
    told(hapax(office, OPERATOR, args)).await
}

fn json_of(told: &Told) -> Value {
    serde_json::from_str(&told.out).unwrap_or_else(|_| panic!("{} {}", told.out, told.err))
}

#[tokio::test]
async fn claims_in_doubt_are_listed_as_json_in_the_fixed_form_m2() {
    let office = Office::in_memory().await;
    let id = office.doubt("order-1").await;
    office.settled("order-2", "x").await;
    let listed = told(hapax(&office, READER, &["claims", "list", "--state", "in_doubt", "--json"])).await;
    assert_eq!(listed.code, 0, "{}", listed.err);
    let page = json_of(&listed);
    assert_eq!(page["next"], Value::Null);
    let claims = page["claims"].as_array().unwrap();
    assert_eq!(claims.len(), 1);
    for (name, value) in [
        ("operation_id", id.as_str()),
        ("tenant", "acme"),
        ("project", "prod"),
        ("subject", "service:ci"),
        ("operation", "payments.create"),
        ("key", "order-1"),
        ("state", "in_doubt"),
    ] {
        assert_eq!(claims[0][name], value, "{name}");
    }
    assert!(claims[0]["epoch"].as_str().unwrap().contains('.'));
}

#[tokio::test]
async fn lists_end_at_the_limit_and_can_be_gone_on_with_m2() {
    let office = Office::in_memory().await;
    for number in 0..7 {
        office.settled(&format!("order-{number}"), "x").await;
    }
    let first = json_of(&run(&office, &["claims", "list", "--limit", "3", "--json"]).await);
    assert_eq!(first["claims"].as_array().unwrap().len(), 3);
    let mark = first["next"].as_str().unwrap();
    let rest = json_of(&run(&office, &["claims", "list", "--after", mark, "--json"]).await);
    let keys: Vec<_> =
        rest["claims"].as_array().unwrap().iter().map(|claim| claim["key"].as_str().unwrap()).collect();
    assert_eq!((keys, &rest["next"]), (vec!["order-3", "order-4", "order-5", "order-6"], &Value::Null));
    let people = run(&office, &["claims", "list", "--limit", "3"]).await;
    assert_eq!(people.out.lines().count(), 4);
    assert!(
        people.out.starts_with("OPERATION ID") && people.err.contains("--after"),
        "{} {}",
        people.out,
        people.err
    );
}

#[tokio::test]
async fn a_list_that_is_longer_than_a_page_is_gathered_m2() {
    let office = Office::in_memory().await;
    for number in 0..1_100 {
        office.settled(&format!("order-{number}"), "x").await;
    }
    let gathered = json_of(&run(&office, &["claims", "list", "--limit", "1050", "--json"]).await);
    let claims = gathered["claims"].as_array().unwrap();
    assert_eq!((claims.len(), &claims[1_049]["key"]), (1_050, &json!("order-1049")));
    assert!(gathered["next"].is_string());
}

#[tokio::test]
async fn people_are_told_what_there_is_and_what_can_be_done_m2() {
    let office = Office::in_memory().await;
    let nothing = run(&office, &["claims", "list", "--state", "in_doubt"]).await;
    assert_eq!((nothing.code, nothing.out.as_str(), nothing.err.as_str()), (0, "", "nothing in doubt\n"));
    let id = office.doubt_with(call("order-1").give_up(Duration::from_secs(900))).await;
    let shown = run(&office, &["claims", "show", &id]).await;
    for part in [
        "1.1 (x-operation-epoch: 281474976710657)",
        "in_doubt since",
        "UTC (",
        "the call failed after the work may have been reached",
        "service:ci",
        "order-1 (header)",
    ] {
        assert!(shown.out.contains(part), "{part}: {}", shown.out);
    }
    assert!(shown.err.contains("resolve") && shown.err.contains("a release waits for that"), "{}", shown.err);
    let counted = run(&office, &["claims", "count"]).await;
    assert!(counted.out.contains("in_doubt  1"), "{}", counted.out);
}

#[tokio::test]
async fn a_doubt_is_released_from_the_command_line_l8() {
    let office = Office::in_memory().await;
    let id = office.doubt_with(call("order-1").give_up(Duration::from_secs(900))).await;
    let args = ["claims", "resolve", &id, "--release", "--reason", "the bank has no such charge"];
    let refused = run(&office, &args).await;
    assert_eq!((refused.code, refused.out.as_str()), (1, ""));
    assert!(
        refused.err.contains("deciding about that") && refused.err.contains("release by force"),
        "{}",
        refused.err
    );
    let done = run(&office, &[&args[..], &["--force", "--json"]].concat()).await;
    assert_eq!(done.code, 0, "{}", done.err);
    assert_eq!(json_of(&done)["claim"]["state"], "released");
    assert_eq!(office.retry("order-1").await.unwrap().how, How::Executed);
    assert_eq!(office.get("/v1/audit").await.json()["events"][0]["actor"], "ops/alice");
}

#[tokio::test]
async fn a_doubt_is_settled_with_an_answer_from_a_file_l8() {
    let office = Office::in_memory().await;
    let id = office.doubt("order-1").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("answer.json");
    std::fs::write(&file, r#"{"charged": 10}"#).unwrap();
    let file = file.display().to_string();
    let args = [
        "claims",
        "resolve",
        &id,
        "--settle-status",
        "201",
        "--settle-body",
        &file,
        "--settle-header",
        "Content-Type: application/json",
        "--settle-header",
        "X-Tag: a",
        "--settle-header",
        "x-tag: b",
        "--reason",
        "the bank has it",
    ];
    let done = run(&office, &args).await;
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.out.contains("settled: its callers get this answer"), "{}", done.out);
    assert_eq!(office.retry("order-1").await.unwrap().how, How::Replayed);
    let shown = run(&office, &["claims", "show", &id, "--outcome"]).await;
    for part in [
        "by the operator, status 201",
        "content-type: application/json",
        r#"x-tag: ["a","b"]"#,
        r#"{"charged": 10}"#,
    ] {
        assert!(shown.out.contains(part), "{part}: {}", shown.out);
    }
    let again = run(&office, &args).await;
    assert_eq!(again.code, 1, "it is settled by now: {}", again.err);
}

#[tokio::test]
async fn settled_claims_are_purged_reopened_and_erased_from_the_command_line_l8() {
    let office = Office::embedded().await;
    let id = office.settled("order-1", "x").await;
    let stale = run(&office, &["claims", "purge", &id, "--reason", "test", "--epoch", "1.1000000"]).await;
    assert_eq!(stale.code, 1);
    assert!(stale.err.contains("look again"), "{}", stale.err);
    let erased = run(&office, &["claims", "erase", &id, "--reason", "asked to"]).await;
    assert!(erased.code == 0 && erased.out.contains("its key stays used up"), "{}", erased.err);
    let purged = run(&office, &["claims", "purge", &id, "--reason", "test", "--json"]).await;
    assert_eq!(json_of(&purged)["claim"], Value::Null);
    let gone = run(&office, &["claims", "purge", &id, "--reason", "test"]).await;
    assert_eq!(gone.code, 1);
    assert!(gone.err.contains("no claim"), "{}", gone.err);
    let id = office.settled("order-2", "x").await;
    assert_eq!(run(&office, &["claims", "reopen", &id, "--reason", "resend"]).await.code, 0);
    let erased = run(&office, &["claims", "erase", &id, "--reason", "asked to"]).await;
    assert_eq!(erased.code, 0, "{}", erased.err);
    assert!(erased.out.contains("its key is free") && !erased.out.contains("used up"), "{}", erased.out);
    // One that never had an answer: nobody is told that one was destroyed.
    let id = office.doubt("never").await;
    let release = ["claims", "resolve", &id, "--release", "--force", "--reason", "not done"];
    assert_eq!(run(&office, &release).await.code, 0);
    let erased = run(&office, &["claims", "erase", &id, "--reason", "asked to"]).await;
    assert!(erased.code == 0 && erased.out.contains("if any"), "{}{}", erased.out, erased.err);
    assert_eq!(office.retry("order-2").await.unwrap().how, How::Executed);
}

#[tokio::test]
async fn misuse_is_told_apart_from_no_and_from_unavailable_m2() {
    let office = Office::in_memory().await;
    let id = office.doubt("order-1").await;
    for args in [
        &["claims", "resolve", id.as_str(), "--reason", "r"][..],
        &["claims", "resolve", &id, "--release", "--settle-status", "201", "--reason", "r"],
        &["claims", "resolve", &id, "--settle-status", "201", "--force", "--reason", "r"],
        &["claims", "resolve", &id, "--release"],
        &["claims", "resolve", &id, "--release", "--settle-body", "no-such-file", "--reason", "r"],
        &["claims", "resolve", &id, "--release", "--retention", "7d", "--reason", "r"],
        &[
            "claims",
            "resolve",
            &id,
            "--settle-status",
            "201",
            "--settle-body",
            "no-such-file",
            "--reason",
            "r",
        ],
        &["claims", "resolve", &id, "--settle-status", "201", "--settle-header", "nonsense", "--reason", "r"],
        &["claims", "resolve", &id, "--release", "--reason", " "],
        &["claims", "purge", &id, "--reason", "r", "--epoch", "now"],
        &["claims", "erase", &id, "--tenant", "globex", "--reason", "r"],
        &["claims", "erase", &id, "--project", "prod", "--reason", "r"],
        &["claims", "erase", &id, "--tenant", "acme", "--subject", "user:a", "--reason", "r"],
        &["claims", "erase", "--subject", "user:a", "--reason", "r"],
        &["claims", "erase", "--tenant", "acme", "--subject", "user:a", "--epoch", "1.1", "--reason", "r"],
        &["claims", "show", "op_7"],
        &["claims", "show", ""],
        &["claims", "purge", "", "--reason", "r", "--epoch", "1.1"],
        &["claims", "list", "--subject", "al"],
        &["claims", "list", "--tenant", "NOPE!"],
        &["claims", "list", "--project", "_none"],
        &["claims", "count", "--operation", ""],
        &["keys", "revoke", ""],
        &["claims", "list", "--state", "lost"],
        &["claims", "list", "--age", "long"],
        &["claims", "list", "--limit", "0"],
        &["claims", "lost"],
    ] {
        let refused = run(&office, args).await;
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{args:?}: {}", refused.err);
    }
    let formless = run(&office, &["claims", "list", "--subject", "al"]).await;
    assert!(formless.err.contains("user:ID"), "{}", formless.err);
    let nameless = run(&office, &["claims", "show", ""]).await;
    assert!(nameless.err.contains("an operation id is `op_`"), "{}", nameless.err);
    assert_eq!(run(&office, &["claims", "list", "--project", "_tenant", "--subject", "_any"]).await.code, 0);
    let absent = run(&office, &["claims", "show", "op_00000000000000000000000000000000"]).await;
    assert_eq!((absent.code, absent.out.as_str()), (1, ""));
    let wrong = told(hapax(&office, "wrong", &["claims", "list"])).await;
    assert!(wrong.code == 2 && wrong.err.contains("HAPAX_ADMIN_TOKEN"), "{}", wrong.err);
    let none = told(hapax(&office, "", &["claims", "list"])).await;
    assert!(none.code == 2 && none.err.contains("set HAPAX_ADMIN_TOKEN"), "{}", none.err);
    let reader =
        told(hapax(&office, READER, &["claims", "resolve", &id, "--release", "--reason", "r"])).await;
    assert!(reader.code == 1 && reader.err.contains("role read"), "{}", reader.err);
    assert_eq!(office.claim(&id).await["state"], "in_doubt");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_to_be_with_how_to_start_it_m2() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    command.args(["claims", "list", "--admin", "http://127.0.0.1:1"]).env("HAPAX_ADMIN_TOKEN", "t");
    let away = told(command).await;
    assert_eq!((away.code, away.out.as_str()), (3, ""));
    assert!(
        away.err.contains("http://127.0.0.1:1") && away.err.contains("hapax serve --config"),
        "{}",
        away.err
    );
    for url in ["127.0.0.1:8081", "ftp://a", "http://", "http://u:p@a:1", "http://a:1/?b"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
        command.args(["claims", "list", "--admin", url]).env("HAPAX_ADMIN_TOKEN", "t");
        let refused = told(command).await;
        assert!(refused.code == 2 && refused.err.contains("--admin"), "{url}: {}", refused.err);
    }
}

#[tokio::test]
async fn an_embedded_store_is_read_beside_its_server_b8() {
    let office = Office::embedded().await;
    let id = office.doubt("order-1").await;
    office.settled("order-2", "x").await;
    let store = format!("embedded:{}", office.folder());
    let beside = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
        command.args(args).args(["--store", &store]).env_remove("HAPAX_ADMIN_TOKEN");
        told(command)
    };
    let listed = beside(&["claims", "list", "--state", "in_doubt", "--json"]).await;
    assert_eq!(json_of(&listed)["claims"], json!([office.claim(&id).await]), "{}", listed.err);
    let shown = beside(&["claims", "show", &id, "--json"]).await;
    assert_eq!(json_of(&shown), office.claim(&id).await);
    let counted = beside(&["claims", "count", "--json"]).await;
    assert_eq!(json_of(&counted), json!({"held": 0, "settled": 1, "in_doubt": 1, "released": 0}));
    let absent = beside(&["claims", "show", "op_00000000000000000000000000000000"]).await;
    assert_eq!(absent.code, 1, "{}", absent.err);
    let both = told(hapax(&office, OPERATOR, &["claims", "list", "--store", &store])).await;
    assert_eq!(both.code, 2, "a store and a server: {}", both.err);
}

#[tokio::test]
async fn a_store_that_cannot_be_read_is_refused_clearly_b8() {
    let folder = tempfile::tempdir().unwrap();
    let empty = format!("embedded:{}", folder.path().display());
    for (store, code, why) in [
        (empty.as_str(), 3, "there is no store"),
        ("memory:", 2, "ask the server"),
        ("sqlite:x", 2, "--store takes"),
        ("embedded:", 2, "--store takes"),
        ("postgres://nobody@127.0.0.1:1/x", 3, "cannot be reached"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
        command.args(["claims", "list", "--store", store]);
        let refused = told(command).await;
        assert_eq!(refused.code, code, "{store}: {}", refused.err);
        assert!(refused.err.contains(why), "{store}: {}", refused.err);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is made");
}

#[tokio::test]
async fn claims_that_cannot_be_told_are_no_success_m2() {
    let office = Office::in_memory().await;
    let id = office.settled("order-1", "x").await;
    for args in [
        &["claims", "list"][..],
        &["claims", "list", "--json"],
        &["claims", "show", &id],
        &["claims", "count"],
        &["claims", "purge", &id, "--reason", "r"],
    ] {
        let mut unseen = hapax(&office, OPERATOR, args);
        unseen.stdout(std::fs::File::create("/dev/full").unwrap());
        let unseen = told(unseen).await;
        assert_eq!(unseen.code, 3, "{args:?}: {}", unseen.err);
        assert_eq!(unseen.err.contains("the decision was carried out"), args[1] == "purge", "{}", unseen.err);
    }
}

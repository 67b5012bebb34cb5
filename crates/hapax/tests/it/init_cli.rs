//! `hapax init`, as it is called: with options, on a terminal, and where a file is there already.

use std::process::Command;

use crate::claims_cli::told;
use crate::rig::hapax;

const OPTIONS: [&str; 8] = [
    "--upstream",
    "http://127.0.0.1:9000",
    "--route",
    "POST /payments",
    "--credentials",
    "api-keys",
    "--store",
    "memory:",
];

#[tokio::test]
async fn init_writes_what_config_check_accepts_and_replaces_nothing_unless_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hapax.toml").display().to_string();
    let init = |more: &[&str]| hapax(&[&["init", &file][..], &OPTIONS, more].concat());
    let first = told(init(&[])).await;
    assert_eq!(first.code, 0, "{}", first.err);
    for part in ["is written", "hapax serve --config", "hapax keys create"] {
        assert!(first.out.contains(part), "{}", first.out);
    }
    let again = told(init(&["--force", "--json"])).await;
    let again: serde_json::Value =
        serde_json::from_str(&again.out).unwrap_or_else(|_| panic!("{}", again.err));
    assert_eq!(
        (again["file"].as_str(), again["next"].as_array().unwrap().len()),
        (Some(&*file), 4),
        "{again}"
    );
    let checked = told(hapax(&["config", "check", &file])).await;
    assert!(
        checked.code == 0 && checked.out.contains("ok, 2 routes (1 keyed)"),
        "{} {}",
        checked.out,
        checked.err
    );
    std::fs::write(&file, "mine").unwrap();
    let refused = told(init(&[])).await;
    assert!(refused.code == 1 && refused.err.contains("--force"), "{}", refused.err);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(told(init(&["--force"])).await.code, 0);
    assert!(std::fs::read_to_string(&file).unwrap().contains("[[routes]]"));
}

#[tokio::test]
async fn init_without_a_terminal_says_what_is_missing_and_writes_nothing_that_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hapax.toml");
    let name = file.display().to_string();
    let missing = told(hapax(&["init", &name])).await;
    assert!(missing.code == 2 && missing.err.contains("--upstream is missing"), "{}", missing.err);
    let mut wrong = OPTIONS;
    wrong[3] = "post payments";
    let wrong = told(hapax(&[&["init", &name][..], &wrong].concat())).await;
    assert!(wrong.code == 2 && wrong.err.contains("`path` cannot be"), "{}", wrong.err);
    assert!(!file.exists());
}

#[tokio::test]
async fn init_asks_on_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    // `script` gives the program a terminal, and types what it reads.
    let line = format!("{} init hapax.toml --store memory:", env!("CARGO_BIN_EXE_hapax"));
    let mut shell = Command::new("bash");
    let typed = r"printf 'no url\nhttp://127.0.0.1:9000\nPOST /orders/{id}/pay\nservice\n'";
    shell.args(["-c", &format!("{typed} | script -qec '{line}' /dev/null")]).current_dir(&folder);
    let asked = told(shell).await;
    for part in [
        "Where is the service?",
        "`url` cannot be",
        "must not run twice?",
        "Who checks callers",
        "is written",
    ] {
        assert!(asked.out.contains(part), "{} {}", asked.out, asked.err);
    }
    let text = std::fs::read_to_string(folder.path().join("hapax.toml")).unwrap();
    assert!(text.contains("path = \"/orders/{id}/pay\"") && text.contains("orders.pay.post"), "{text}");
}

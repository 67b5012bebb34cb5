//! The question before the probe writes to something that is not this machine: at a terminal, without one, and with `--yes`.
//!
//! The address 0.0.0.0 stands for another machine: the probe does not take it for this one, and what is sent to it comes here.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use super::planted::{Fault, Planted};

fn elsewhere(server: &Planted) -> String {
    server.url("/charges").replace("127.0.0.1", "0.0.0.0")
}

/// Runs the probe at a terminal of its own, where somebody types this; what it says comes as one text.
fn at_a_terminal(url: &str, typed: &str) -> (Option<i32>, String) {
    let line = format!("{} probe {url} --race 2", env!("CARGO_BIN_EXE_hapax"));
    let mut script = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("no_proxy", "*")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("util-linux has `script`");
    script.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let Output { status, stdout, .. } = script.wait_with_output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap())
}

#[test]
fn at_a_terminal_it_asks_and_only_yes_is_yes_m5() {
    let server = Planted::start(Fault::None);
    for no in ["n\n", "\n", "no\n", "yesterday\n", ""] {
        let (code, told) = at_a_terminal(&elsewhere(&server), no);
        assert_eq!(code, Some(2), "{no:?}: {told}");
        assert!(told.contains("0.0.0.0 is not this machine. Send these writes to it? [y/N]"), "{told}");
        assert!(told.contains("nothing was sent") && server.requests() == 0, "{no:?}: {told}");
    }
    for yes in ["y\n", "YES\n"] {
        let before = server.requests();
        let (code, told) = at_a_terminal(&elsewhere(&server), yes);
        assert!(told.contains("[y/N]") && told.contains("verdict: pass"), "{yes:?}: {told}");
        assert_eq!((code, server.requests() > before), (Some(0), true), "{yes:?}: {told}");
    }
}

#[test]
fn at_a_terminal_this_machine_is_no_question_m5() {
    let server = Planted::start(Fault::None);
    let (code, told) = at_a_terminal(&server.url("/charges"), "");
    assert_eq!((code, told.contains("[y/N]")), (Some(0), false), "{told}");
}

#[test]
fn without_a_terminal_nothing_is_sent_unless_it_is_told_to_m5() {
    let server = Planted::start(Fault::None);
    let url = elsewhere(&server);
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
        command.args(["probe", &url, "--race", "2"]).args(args).env("no_proxy", "*");
        let mut child =
            command.stdin(Stdio::piped()).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // What a pipe says is nobody's answer. The probe may have ended by then.
        let _ = child.stdin.take().unwrap().write_all(b"y\n");
        let done = child.wait_with_output().unwrap();
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    let (code, told) = run(&[]);
    assert_eq!((code, server.requests()), (Some(2), 0), "{told}");
    assert!(told.contains("--yes") && told.contains("nothing was sent"), "{told}");
    let (code, told) = run(&["--yes"]);
    assert_eq!((code, server.requests() > 0), (Some(0), true), "{told}");
}

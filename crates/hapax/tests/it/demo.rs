//! `hapax demo`: what it prints is what happens. The lines of its guide are run as they are printed, in a shell, with curl.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// A running demo; killed when the test ends.
pub(crate) struct Demo {
    process: Child,
    guide: String,
}

impl Demo {
    pub(crate) fn start(data: Option<&Path>) -> Demo {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
        command.args(["demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(data) = data {
            command.arg("--data").arg(data);
        }
        let mut process = command.spawn().unwrap();
        let (sender, receiver) = mpsc::channel();
        let output = process.stdout.take().unwrap();
        std::thread::spawn(move || {
            let mut guide = String::new();
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                guide.push_str(&line);
                guide.push('\n');
                if line.starts_with("Ctrl-C") {
                    let _ = sender.send(std::mem::take(&mut guide));
                }
            }
        });
        let guide = receiver.recv_timeout(Duration::from_secs(60)).expect("the demo says what to try");
        Demo { process, guide }
    }

    /// What follows this word in the guide.
    pub(crate) fn after(&self, word: &str) -> &str {
        let at = self.guide.find(word).unwrap() + word.len();
        self.guide[at..].split_whitespace().next().unwrap()
    }

    /// What is to be pasted first.
    fn preparation(&self) -> String {
        let lines: Vec<_> = self.guide.lines().skip_while(|line| !line.starts_with("   ALICE=")).collect();
        lines
            .iter()
            .take_while(|line| line.starts_with("   "))
            .map(|line| format!("{}\n", line.trim()))
            .collect()
    }

    /// The commands of a step, as they are printed: lines that a shell can run.
    fn step(&self, number: usize) -> Vec<&str> {
        let start = format!("{number}. ");
        let step = self.guide.lines().skip_while(|line| !line.starts_with(&start)).skip(1);
        let commands = ["charge ", "for ", "curl ", "export ", "hapax ", "ID=", "echo "];
        step.take_while(|line| line.starts_with("   "))
            .map(str::trim)
            .filter(|line| commands.iter().any(|command| line.starts_with(command)))
            .collect()
    }

    /// Runs these lines in a shell that was prepared as the guide says, in an empty folder, and with nothing else.
    fn paste(&self, lines: &[&str]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("{}{}", self.preparation(), lines.join("\n"));
        let output = Command::new("bash")
            .args(["-c", &script])
            .current_dir(folder.path())
            .output()
            .expect("bash and curl are needed for the guide of the demo");
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (out, err) = (text(output.stdout), text(output.stderr));
        assert!(!err.contains("not found"), "the guide needs something that is not there: {err}");
        format!("{out}{err}").to_lowercase()
    }

    fn run(&self, step: usize) -> String {
        let lines = self.step(step);
        assert!(!lines.is_empty(), "step {step} of the guide has no command: {}", self.guide);
        self.paste(&lines)
    }

    /// How often somebody was charged, as the last line of the guide counts it.
    fn charges(&self) -> usize {
        let asks = |line: &&str| line.starts_with("curl -s http://");
        let line = self.guide.lines().map(str::trim).find(asks).expect("the guide says how to count");
        self.paste(&[line]).split(' ').next().unwrap().parse().unwrap()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer}")).1
}

/// The first line leads to a console that has something to see: a replay, a mismatch and a doubt.
#[test]
fn the_first_line_leads_to_a_console_with_something_to_see() {
    let demo = Demo::start(None);
    let first = demo.guide.lines().next().unwrap();
    assert!(first.starts_with("Open http://"), "{first}");
    let (url, token) = (demo.after("Open "), demo.after("(token: ").trim_end_matches([')', '.']));
    let page = demo.paste(&[&format!("curl -si {url}")]);
    assert!(page.starts_with("http/1.1 200") && page.contains("<div id=\"app\""), "{page}");
    let ask = |path: &str| -> serde_json::Value {
        let told = demo.paste(&[&format!("curl -s '{url}{path}' -H 'Authorization: Bearer {token}'")]);
        serde_json::from_str(&told).unwrap_or_else(|_| panic!("{told}"))
    };
    let traffic = ask("v1/traffic");
    let sum = |name: &str| -> u64 {
        traffic["rows"].as_array().unwrap().iter().map(|row| row[name].as_u64().unwrap()).sum()
    };
    assert!(sum("executed") > 0 && sum("replayed") > 0 && sum("mismatch") > 0, "{traffic}");
    assert_eq!(ask("v1/claims?state=in_doubt")["claims"].as_array().unwrap().len(), 1);
}

#[test]
fn every_step_of_the_guide_does_what_it_says() {
    let demo = Demo::start(None);
    let first = demo.run(1);
    assert!(first.starts_with("http/1.1 201") && first.contains("x-operation-id: op_"), "{first}");
    assert!(!first.contains("idempotent-replayed"), "{first}");
    let again = demo.run(2);
    assert!(again.starts_with("http/1.1 201") && again.contains("idempotent-replayed: true"), "{again}");
    assert_eq!(body(&again), body(&first));
    let other = demo.run(3);
    assert!(
        other.starts_with("http/1.1 422") && other.contains("key-reused") && other.contains("/amount"),
        "{other}"
    );
    assert_eq!(demo.charges(), 1);

    let others = demo.run(4);
    assert_eq!(others.matches("http/1.1 201").count(), 2, "{others}");
    assert!(!others.contains("idempotent-replayed"), "{others}");
    assert_eq!(demo.charges(), 3);

    let twenty = demo.run(5);
    let answers: Vec<_> = twenty.lines().filter(|line| line.contains("charged")).collect();
    assert_eq!(answers.len(), 20, "{twenty}");
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{twenty}");
    assert_eq!(demo.charges(), 4);

    let recalled = demo.run(6);
    assert!(recalled.starts_with("http/1.1 201"), "{recalled}");
    assert_eq!(body(&recalled).trim(), body(&first).trim());
    let foreign = demo.step(6)[0].replace("$ALICE", "$EVE").replace("order-42", "order-43");
    assert!(demo.paste(&[&foreign]).starts_with("http/1.1 404"), "only Alice can");

    for _ in 0..2 {
        let lost = demo.run(7);
        assert!(lost.starts_with("http/1.1 409") && lost.contains("outcome-unknown"), "{lost}");
    }
    assert_eq!(demo.charges(), 5, "charged once, and nobody heard");

    let resolved = demo.run(8);
    assert!(resolved.contains("operation id") && resolved.contains("settled"), "{resolved}");
    let stated = demo.run(7);
    assert!(stated.starts_with("http/1.1 201") && stated.contains("as the books say"), "{stated}");
    assert_eq!(demo.charges(), 5);

    for replayed in [false, true] {
        let declined = demo.run(9);
        assert!(declined.starts_with("http/1.1 402"), "{declined}");
        assert_eq!(declined.contains("idempotent-replayed: true"), replayed, "{declined}");
    }
    assert_eq!(demo.charges(), 5);
}

#[test]
fn a_killed_demo_remembers_what_it_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(Some(folder.path()));
    let first = demo.run(1);
    demo.process.kill().unwrap();
    demo.process.wait().unwrap();
    let former = demo.preparation();
    let demo = Demo::start(Some(folder.path()));
    let again = demo.run(2);
    assert!(again.contains("idempotent-replayed: true"), "{again}");
    assert_eq!(body(&again), body(&first));
    assert_eq!(demo.charges(), 1);
    // The keys of an earlier demo stop working.
    let key = former.lines().find_map(|line| line.strip_prefix("ALICE=")).unwrap().split(' ').next().unwrap();
    let stale = demo.paste(&[&format!("ALICE={key}"), demo.step(1)[0]]);
    assert!(stale.starts_with("http/1.1 401"), "{stale}");
}

#[test]
fn a_folder_that_is_in_use_is_refused_clearly() {
    let folder = tempfile::tempdir().unwrap();
    let _demo = Demo::start(Some(folder.path()));
    let second = Command::new(env!("CARGO_BIN_EXE_hapax"))
        .args(["demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(3));
    let told = String::from_utf8(second.stderr).unwrap();
    assert!(told.contains("another process"), "{told}");
}

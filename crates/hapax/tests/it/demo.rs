//! `hapax demo`, used with nothing but HTTP: what it prints is what happens.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// A running demo; killed when the test ends.
struct Demo {
    process: Child,
    address: String,
    guide: String,
}

impl Demo {
    fn start(data: Option<&Path>) -> Demo {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
        command.args(["demo", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::null());
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
        let at = guide.find("http://").unwrap() + "http://".len();
        let address = guide[at..].split('/').next().unwrap().to_owned();
        Demo { process, address, guide }
    }

    fn send(&self, head: &str, body: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(stream, "{head}\r\nHost: demo\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), head.to_lowercase(), body.to_owned())
    }

    fn charge(&self, key: &str, body: &str, fault: &str) -> (u16, String, String) {
        self.send(&format!("POST /charges{fault} HTTP/1.1\r\nIdempotency-Key: {key}"), body)
    }

    fn charges(&self) -> usize {
        let (_, _, body) = self.send("GET /charges HTTP/1.1", "");
        body.split(' ').next().unwrap().parse().unwrap()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_demo_does_what_it_says() {
    let demo = Demo::start(None);
    assert!(demo.guide.contains("curl -i http://"), "{}", demo.guide);
    let first = demo.charge("order-42", "10", "");
    assert_eq!(first.0, 201);
    assert!(
        first.1.contains("x-operation-id: op_") && !first.1.contains("idempotent-replayed"),
        "{}",
        first.1
    );
    let again = demo.charge("\"order-42\"", "10", "");
    assert_eq!((again.0, &again.2), (201, &first.2));
    assert!(again.1.contains("idempotent-replayed: true"), "{}", again.1);
    let other = demo.charge("order-42", "99", "");
    assert_eq!(other.0, 422);
    assert!(other.2.contains("key-reused"));
    assert_eq!(demo.charges(), 1);

    let lost = demo.charge("order-44", "10", "?fault=lost-answer");
    assert_eq!(lost.0, 409);
    assert!(lost.2.contains("outcome-unknown") && lost.1.contains("retry-after"), "{}", lost.1);
    assert_eq!(demo.charge("order-44", "10", "").0, 409, "a retry charges nobody");
    assert_eq!(demo.charges(), 2);

    assert_eq!(demo.charge("order-45", "10", "?fault=declined").0, 402);
    assert_eq!(demo.charge("order-45", "10", "").0, 402, "a refusal is kept");
    assert_eq!(demo.charges(), 2);
}

#[test]
fn twenty_at_once_charge_once() {
    let demo = Demo::start(None);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..20).map(|_| scope.spawn(|| demo.charge("order-43", "10", ""))).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| answer.0 == 201 && answer.2 == answers[0].2));
    assert_eq!(demo.charges(), 1);
}

#[test]
fn bad_keys_are_refused_and_charge_nobody() {
    let demo = Demo::start(None);
    let long = "k".repeat(256);
    for key in ["", "a:b", "t-acme", "caf\u{e9}", "\"open", long.as_str(), "..."] {
        let (status, _, body) = demo.charge(key, "10", "");
        assert_eq!(status, 400, "{key:?}: {body}");
    }
    let (status, _, body) = demo.send("POST /charges HTTP/1.1", "10");
    assert_eq!(status, 400);
    assert!(body.contains("key-missing"));
    let twice = demo.send("POST /charges HTTP/1.1\r\nIdempotency-Key: a\r\nIdempotency-Key: a", "10");
    assert_eq!(twice.0, 400);
    assert_eq!(demo.charges(), 0);
}

#[test]
fn a_killed_demo_remembers_what_it_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(Some(folder.path()));
    let first = demo.charge("order-42", "10", "");
    assert_eq!(first.0, 201);
    demo.process.kill().unwrap();
    demo.process.wait().unwrap();
    let demo = Demo::start(Some(folder.path()));
    let again = demo.charge("order-42", "10", "");
    assert_eq!((again.0, &again.2), (201, &first.2));
    assert!(again.1.contains("idempotent-replayed: true"));
    assert_eq!(demo.charges(), 1);
}

#[test]
fn a_folder_that_is_in_use_is_refused_clearly() {
    let folder = tempfile::tempdir().unwrap();
    let _demo = Demo::start(Some(folder.path()));
    let second = Command::new(env!("CARGO_BIN_EXE_hapax"))
        .args(["demo", "--listen", "127.0.0.1:0", "--data"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(3));
    let told = String::from_utf8(second.stderr).unwrap();
    assert!(told.contains("another process"), "{told}");
}

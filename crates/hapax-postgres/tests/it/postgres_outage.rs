//! PostgreSQL goes away and comes back: what was acknowledged is there, nothing is granted twice (L13, L14).

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hapax_core::journal::{Append, Author, NewEvent, Stream};
use hapax_core::{
    ClaimId, Decision, Doubt, Ending, Epoch, Inspect as _, Journal as _, Kind, Ledger as _, Ran, Report,
    StateName, Terms, Verb, Verdict, View,
};
use hapax_postgres::Postgres;
use hapax_store::conformance::{DAY, ok, request};
use hapax_store::{Lifecycle as _, Options};
use hapax_testkit::clock::VirtualClock;
use hapax_testkit::port::Port;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::postgres::{SOON, ask, by_hand, connect, hold, open, replayed};
use crate::server::{Database, is_alone, run_alone, until};

const CLIENTS: usize = 64;

fn patient() -> Options {
    Options { sweeper: false, patience: Duration::from_secs(60), ..Options::default() }
}

/// What happened to one key: who was granted it, and what was acknowledged.
#[derive(Debug, Default)]
struct Fate {
    grants: Vec<Epoch>,
    acknowledged: Option<Vec<u8>>,
}

/// Clients that claim and settle until they are told to stop; two of them always want the same key.
async fn clients(store: &Postgres, stop: &Arc<AtomicBool>) -> HashMap<String, Fate> {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (store, stop) = (store.clone(), stop.clone());
        clients.spawn(async move {
            let mut fates = Vec::new();
            let mut number = 0;
            while !stop.load(Ordering::SeqCst) {
                let key = format!("{}-{number}", client / 2);
                number += 1;
                let wanted = request(&key, "body", Terms::default());
                let id = wanted.identity.claim_id();
                match store.claim(wanted).await.expect("claim") {
                    Verdict::Granted(grant) => {
                        let text = format!("{client}-{number}");
                        let settle = Report::Settle(ok(&text), DAY);
                        let ending = store.report(id, grant.epoch, settle, vec![]).await.expect("settle");
                        assert!(
                            matches!(ending, Ending::Settled(_) | Ending::AlreadySettled(_)),
                            "the lease is lost to nobody: {ending:?}"
                        );
                        fates.push((key, grant.epoch, text.into_bytes()));
                    }
                    Verdict::Held { .. } | Verdict::Replay(_) => {}
                    other => panic!("{other:?}"),
                }
            }
            fates
        });
    }
    let mut by_key: HashMap<String, Fate> = HashMap::new();
    for (key, epoch, text) in clients.join_all().await.into_iter().flatten() {
        let fate = by_key.entry(key).or_default();
        fate.grants.push(epoch);
        fate.acknowledged = Some(text);
    }
    by_key
}

async fn check(store: &Postgres, fates: HashMap<String, Fate>) {
    assert!(!fates.is_empty());
    for (key, fate) in fates {
        assert_eq!(fate.grants.len(), 1, "{key} was granted twice: {fate:?}");
        assert_eq!(replayed(&ask(store, &key).await), fate.acknowledged.as_deref(), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_cut_again_and_again_lose_nothing_and_grant_nothing_twice_l13() {
    let database = Database::fresh().await;
    let store = open(&database, patient()).await;
    let client = connect(database.url()).await;
    let stop = Arc::new(AtomicBool::new(false));
    let cutting = {
        let stop = stop.clone();
        tokio::spawn(async move {
            let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                       WHERE datname = current_database() AND pid <> pg_backend_pid()";
            for _ in 0..60 {
                tokio::time::sleep(Duration::from_millis(50)).await;
                client.batch_execute(cut).await.unwrap();
            }
            stop.store(true, Ordering::SeqCst);
        })
    };
    let fates = clients(&store, &stop).await;
    cutting.await.unwrap();
    check(&store, fates).await;
}

/// A server of the test's own, to be stopped and started.
struct Server {
    dir: TempDir,
    bin: PathBuf,
    port: Port,
    account: Option<(u32, u32)>,
    running: Option<Child>,
}

impl Server {
    fn start(settings: &[&str]) -> Server {
        let bin = std::env::var_os("HAPAX_TEST_PG_BIN").expect(
            "this test needs PostgreSQL's programs: run `cargo xtask test`, or `cargo xtask postgres -- cargo test …`",
        );
        let dir = tempfile::Builder::new().prefix("hapax-outage-").tempdir_in("/tmp").unwrap();
        let account = account();
        if let Some((uid, gid)) = account {
            chown(dir.path(), Some(uid), Some(gid)).unwrap();
        }
        let port = Port::reserve().unwrap();
        let mut server = Server { dir, bin: bin.into(), port, account, running: None };
        let mut initdb = server.command("initdb");
        initdb.args(["--username=postgres", "--auth=trust", "--no-sync", "--no-locale", "--encoding=UTF8"]);
        assert!(initdb.status().unwrap().success());
        server.resume(settings);
        server
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.arg("-D").arg(self.dir.path().join("data")).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some((uid, gid)) = self.account {
            command.uid(uid).gid(gid);
        }
        command
    }

    fn resume(&mut self, settings: &[&str]) {
        let mut postgres = self.command("postgres");
        let socket = format!("unix_socket_directories={}", self.dir.path().display());
        postgres.args([
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            &format!("port={}", self.port.number()),
            "-c",
            &socket,
        ]);
        for setting in settings {
            postgres.args(["-c", setting]);
        }
        self.running = Some(postgres.spawn().unwrap());
        for _ in 0..600 {
            let state = fs::read_to_string(self.dir.path().join("data/postmaster.pid")).unwrap_or_default();
            if state.lines().nth(7).is_some_and(|line| matches!(line.trim(), "ready" | "standby")) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the server does not start");
    }

    /// The file that makes a replica of it; it follows nobody.
    fn standby(&self) -> PathBuf {
        self.dir.path().join("data/standby.signal")
    }

    /// Ends the server at once, as a crash of the machine would leave it.
    fn crash(&mut self) {
        let mut child = self.running.take().unwrap();
        let stop = self.command("pg_ctl").args(["stop", "-m", "immediate", "-w"]).status().unwrap();
        assert!(stop.success());
        child.wait().unwrap();
    }

    fn url(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.port.address())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.running.is_some() {
            self.crash();
        }
    }
}

/// PostgreSQL refuses to run as root.
fn account() -> Option<(u32, u32)> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    if uid.split_whitespace().nth(1) != Some("0") {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let user = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    Some(user("postgres").or_else(|| user("nobody")).expect("a user that can run PostgreSQL"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crashed_postgres_comes_back_with_everything_it_had_acknowledged_l13() {
    let mut server = Server::start(&[]);
    let store = Postgres::open(&server.url(), patient()).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let crashing = {
        let stop = stop.clone();
        tokio::task::spawn_blocking(move || {
            for _ in 0..2 {
                std::thread::sleep(Duration::from_millis(700));
                server.crash();
                std::thread::sleep(Duration::from_millis(200));
                server.resume(&[]);
            }
            std::thread::sleep(Duration::from_millis(700));
            stop.store(true, Ordering::SeqCst);
            server
        })
    };
    let fates = clients(&store, &stop).await;
    let _server = crashing.await.unwrap();
    check(&store, fates).await;
}

#[tokio::test]
async fn without_postgres_commands_are_refused_when_patience_ends_l14() {
    let mut server = Server::start(&[]);
    let options = Options { patience: Duration::from_millis(300), ..by_hand() };
    let store = Postgres::open(&server.url(), options).await.unwrap();
    let (id, epoch) = hold(&store, "k").await;
    server.crash();
    let claim =
        timeout(SOON, store.claim(request("new", "body", Terms::default()))).await.expect("an answer");
    assert_eq!(claim.unwrap_err().kind(), Kind::Unavailable);
    let report = store.report(id, epoch, Report::Settle(ok("done"), DAY), vec![]);
    assert_eq!(timeout(SOON, report).await.expect("an answer").unwrap_err().kind(), Kind::Unavailable);
    assert_eq!(
        timeout(SOON, store.record(id)).await.expect("an answer").unwrap_err().kind(),
        Kind::Unavailable
    );
    server.resume(&[]);
    settle_at_last(&store, id, epoch).await;
}

/// Settles as soon as the database lets it.
async fn settle_at_last(store: &Postgres, id: ClaimId, epoch: Epoch) {
    let settled = timeout(SOON, async {
        loop {
            let report = store.report(id, epoch, Report::Settle(ok("done"), DAY), vec![]);
            if let Ok(ending) = report.await {
                return ending;
            }
        }
    });
    assert!(matches!(settled.await.expect("it comes back"), Ending::Settled(_)));
}

#[tokio::test]
async fn a_server_that_has_become_a_replica_is_refused_and_named_l4() {
    let mut server = Server::start(&[]);
    let options = Options { patience: Duration::from_millis(300), ..by_hand() };
    let store = Postgres::open(&server.url(), options.clone()).await.unwrap();
    let (id, epoch) = hold(&store, "k").await;
    server.crash();
    fs::write(server.standby(), "").unwrap();
    server.resume(&[]);
    let connected = store.claim(request("new", "body", Terms::default())).await.unwrap_err();
    let opened = Postgres::open(&server.url(), options).await.unwrap_err();
    for error in [connected, opened] {
        assert_eq!(error.kind(), Kind::Unavailable);
        assert!(format!("{error:#}").contains("is a replica"), "{error:#}");
    }
    server.crash();
    fs::remove_file(server.standby()).unwrap();
    server.resume(&[]);
    settle_at_last(&store, id, epoch).await;
}

#[tokio::test]
async fn a_database_that_takes_no_writes_for_a_while_is_unavailable_l14() {
    let (database, options) =
        (Database::fresh().await, Options { patience: Duration::from_millis(300), ..by_hand() });
    let store = open(&database, options).await;
    let (id, epoch) = hold(&store, "k").await;
    database.takes_writes(false).await;
    let error = store.claim(request("new", "body", Terms::default())).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error:#}");
    database.takes_writes(true).await;
    settle_at_last(&store, id, epoch).await;
}

#[tokio::test]
async fn a_database_that_takes_no_writes_is_not_connected_to_without_pause_l14() {
    let patience = Duration::from_secs(2);
    let (database, options) = (Database::fresh().await, Options { patience, notify: false, ..by_hand() });
    let store = open(&database, options).await;
    let (id, epoch) = hold(&store, "k").await;
    database.takes_writes(false).await;
    let before = database.connections().await;
    // The batches, the desk and the heart: each has connections of its own.
    let settle = store.report(id, epoch, Report::Settle(ok("done"), DAY), vec![]);
    let doubt = store.report(id, epoch, Report::Doubt(Doubt::Stated), vec![]);
    let (settled, doubted, renewed) = tokio::join!(settle, doubt, store.renew_session());
    for error in [settled.unwrap_err(), doubted.unwrap_err(), renewed.unwrap_err()] {
        assert_eq!(error.kind(), Kind::Unavailable, "{error:#}");
    }
    let made = database.connections().await - before;
    assert!(made < 60, "{made} connections were made in {patience:?}, each for nothing");
    database.takes_writes(true).await;
    settle_at_last(&store, id, epoch).await;
}

/// As in production, but the heart comes by only every ten seconds, and a term ends when the test says so.
fn seldom_beating(clock: &VirtualClock) -> Options {
    Options { sweeper: false, table_entries: 0, clock: Some(Arc::new(clock.clone())), ..Options::default() }
}

#[tokio::test]
async fn what_is_granted_after_an_outage_longer_than_the_term_has_a_lease_l4() {
    let (database, clock) = (Database::fresh().await, VirtualClock::new());
    let (store, other) =
        (open(&database, seldom_beating(&clock)).await, open(&database, seldom_beating(&clock)).await);
    clock.advance(store.session().term);
    let (alone, _) = hold(&store, "alone").await;
    // Claims that share a statement, two for the same key among them.
    clock.advance(store.session().term);
    let mut together = JoinSet::new();
    for number in 0..16 {
        let store = store.clone();
        together.spawn(async move { ask(&store, &format!("together-{}", number / 2)).await });
    }
    let verdicts = together.join_all().await;
    let granted = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Granted(_))).count();
    let held = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Held { .. })).count();
    assert_eq!((granted, held), (8, 8), "{verdicts:?}");
    for key in (0..8).map(|number| format!("together-{number}")).chain(["alone".to_owned()]) {
        let told = ask(&other, &key).await;
        assert!(matches!(told, Verdict::Held { .. }), "nobody has asked for {key} before: {told:?}");
    }
    assert!(matches!(other.peek(alone).await.unwrap(), Some(View::Held { .. })));
}

#[tokio::test]
async fn what_is_taken_over_after_an_outage_longer_than_the_term_has_a_lease_l4() {
    let (database, clock) = (Database::fresh().await, VirtualClock::new());
    let (store, other) =
        (open(&database, seldom_beating(&clock)).await, open(&database, seldom_beating(&clock)).await);
    let mut locking = connect(database.url()).await;
    let (id, epoch) = hold(&store, "k").await;
    store.report(id, epoch, Report::Release(Ran::No), vec![]).await.unwrap();
    let lock = locking.transaction().await.unwrap();
    lock.query("SELECT FROM hapax.claims WHERE digest = $1 FOR UPDATE", &[&&id.as_bytes()[..]])
        .await
        .unwrap();
    // It waits for the row, and its session's term ends meanwhile.
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { ask(&store, "k").await }
    });
    let client = connect(database.url()).await;
    let drawn = async || -> i64 {
        client.query_one("SELECT last_value FROM hapax.epochs", &[]).await.unwrap().get(0)
    };
    // Each look at the locked row draws an epoch.
    let before = drawn().await;
    until(async || drawn().await > before).await;
    clock.advance(store.session().term);
    lock.rollback().await.unwrap();
    let taken = waiting.await.unwrap();
    assert!(matches!(taken, Verdict::Granted(_)), "{taken:?}");
    assert!(matches!(ask(&other, "k").await, Verdict::Held { .. }));
}

#[tokio::test]
async fn a_postgres_that_would_lose_commits_is_refused_m6() {
    for setting in ["fsync", "full_page_writes"] {
        let server = Server::start(&[&format!("{setting}=off")]);
        let error = Postgres::open(&server.url(), by_hand()).await.expect_err("it must be refused");
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(error.message().contains(setting), "{error}");
    }
    let server = Server::start(&["synchronous_commit=off"]);
    let store = Postgres::open(&server.url(), by_hand()).await.expect("the store switches it on for itself");
    hold(&store, "k").await;
}

/// Runs in a process of its own, because fail points are the whole process's.
async fn with_fail_points() {
    let database = Database::fresh().await;
    let store = open(&database, patient()).await;
    // Only now: opening a store is not tried again by itself.
    let scenario = fail::FailScenario::setup();
    let mut clients = JoinSet::new();
    for client in 0..8 {
        let store = store.clone();
        clients.spawn(async move {
            for number in 0..40 {
                let (id, epoch) = hold(&store, &format!("{client}-{number}")).await;
                let report = if number % 4 == 0 {
                    Report::Release(hapax_core::Ran::No)
                } else {
                    Report::Settle(ok("done"), DAY)
                };
                let expected = if number % 4 == 0 { StateName::Released } else { StateName::Settled };
                let ending = store.report(id, epoch, report, vec![]).await.expect("report");
                assert_ne!(ending, Ending::LostLease, "nobody else wants it");
                assert_eq!(store.record(id).await.unwrap().unwrap().claim.state.name(), expected);
            }
        });
    }
    clients.join_all().await;
    drop(store);
    scenario.teardown();
}

#[tokio::test]
async fn commits_of_unknown_fate_are_found_out_l13() {
    if is_alone() {
        return with_fail_points().await;
    }
    for point in ["postgres.cut_after_send", "postgres.before_commit", "postgres.after_commit"] {
        let test = "postgres_outage::commits_of_unknown_fate_are_found_out_l13";
        run_alone(test, &[("FAILPOINTS", &format!("{point}=10%return"))]);
    }
}

/// In a process of its own: the first commit of unknown fate was carried out, or was not.
async fn append_of_unknown_fate() {
    let database = Database::fresh().await;
    let store = open(&database, patient()).await;
    let stream = Stream::new("receipts/acme").unwrap();
    for (round, point) in ["postgres.after_commit", "postgres.before_commit"].into_iter().enumerate() {
        fail::cfg(point, "1*return").unwrap();
        let write = Append::new(stream.clone(), Author::Anyone { version: Some(round as u64) });
        let head = store.append(write.with(vec![NewEvent::new("PAID", "{}")])).await.unwrap();
        assert_eq!(head.length, round as u64 + 1, "it answers the head that it made");
        assert_eq!(store.read(&stream, 0, 10).await.unwrap().len(), round + 1, "it was written once");
    }
    decision_of_unknown_fate(&store).await;
}

/// Sent again, it would find the claim changed, and blame another operator for it.
async fn decision_of_unknown_fate(store: &Postgres) {
    let (id, seen) = hold(store, "k").await;
    store.report(id, seen, Report::Doubt(Doubt::Stated), vec![]).await.unwrap();
    fail::cfg("postgres.after_commit", "1*return").unwrap();
    let (actor, reason) = ("ann".to_owned(), "called the bank".to_owned());
    let verb = Verb::Settle(ok("by hand"), DAY);
    let told = store.decide(id, Decision { seen, verb, actor, reason }).await;
    assert_eq!(told.unwrap_err().kind(), Kind::Unavailable, "nobody can say whether it was decided");
    assert_eq!(store.audit(None, 10).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn an_append_of_unknown_fate_is_sent_again_and_a_decision_is_not_l13() {
    if is_alone() {
        return append_of_unknown_fate().await;
    }
    run_alone("postgres_outage::an_append_of_unknown_fate_is_sent_again_and_a_decision_is_not_l13", &[]);
}

/// In a process of its own: this one stands still for longer than the server bears with a transaction in which nothing happens.
async fn stand_still() {
    let database = Database::fresh().await;
    let store = open(&database, patient()).await;
    let (id, epoch) = hold(&store, "k").await;
    fail::cfg("postgres.before_commit", "1*sleep(6000)").unwrap();
    let released = store.report(id, epoch, Report::Release(Ran::No), vec![]).await;
    assert_eq!(released.unwrap(), Ending::Released);
}

#[tokio::test]
async fn a_connection_that_the_server_ended_because_we_stood_still_is_made_again_l13() {
    if is_alone() {
        return stand_still().await;
    }
    run_alone(
        "postgres_outage::a_connection_that_the_server_ended_because_we_stood_still_is_made_again_l13",
        &[],
    );
}

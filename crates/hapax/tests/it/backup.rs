//! `hapax backup` and `hapax restore`, as an operator uses them (B8, B9, L4, M6).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use hapax_core::{
    ClaimRequest, Fingerprint, Identity, Key, Ledger as _, Operation, Outcome, Retention, Scope, Source,
    Width,
};
use hapax_sqlite::Embedded;
use hapax_store::Options;
use serde_json::{Value, json};

use crate::claims_cli::{Told, told};
use crate::rig::{Ground, Hapax, Kind, hapax, holds};

const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const OTHER: &str = "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const SEALED: &str = "[seal]\nkey_env = \"HAPAX_SEAL_KEY\"\n";
const WINDOW: &str = "keys may run again that were first used between";

/// A command line with a key to seal with.
fn with_key(args: &[&str], key: Option<&str>) -> Command {
    let mut command = hapax(args);
    // Of the secrets of a configuration only those of [seal] are needed.
    command.env_remove("HAPAX_ADMIN_TOKEN");
    command.envs(key.map(|key| ("HAPAX_SEAL_KEY", key)));
    command
}

fn backup(config: &Path, to: &Path) -> Command {
    with_key(
        &["backup", "--config", &config.display().to_string(), "--to", &to.display().to_string()],
        Some(KEY),
    )
}

fn restore(config: &Path, from: &Path, more: &[&str]) -> Command {
    let (config, from) = (config.display().to_string(), from.display().to_string());
    with_key(&[&["restore", "--config", &config, "--from", &from], more].concat(), Some(KEY))
}

async fn serve(config: &Path) -> Hapax {
    Hapax::start(config, &[("HAPAX_SEAL_KEY", KEY)]).await
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        match entry.path().is_dir() {
            true => copy_folder(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// The greatest epoch that the service was told.
fn epoch(ground: &Ground) -> u64 {
    let epochs = ground.service.done();
    epochs.iter().filter_map(|done| done.header("x-operation-epoch")?.parse().ok()).max().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_backup_goes_into_the_folder_of_its_own_store_b8() {
    let ground = Ground::new(Kind::Embedded).await;
    let config = ground.write("hapax");
    let server = serve(&config).await;
    assert_eq!(server.post("/charges", "k", "{}", "").await.status, 201);
    for place in ["data/copy", "data/spool/copy", "data/../data/not/there/copy"] {
        let refused = told(backup(&config, &ground.folder.path().join(place))).await;
        assert_ne!(refused.code, 0, "{place}");
        assert!(refused.err.contains("is in the folder of the store"), "{place}: {}", refused.err);
        assert!(!ground.folder.path().join(place).exists(), "{place}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_restore_was_cut_off_no_server_begins_with_an_empty_store_b8() {
    let ground = Ground::new(Kind::Embedded).await;
    let at = |name: &str| ground.folder.path().join(name);
    let config = ground.write("hapax");
    let server = serve(&config).await;
    let kept = server.post("/charges", "k", "{}", "").await;
    assert_eq!(told(backup(&config, &at("copy"))).await.code, 0);
    server.kill();
    std::fs::remove_dir_all(at("data")).unwrap();
    std::fs::create_dir(at("data")).unwrap();
    std::fs::write(at("data/hapax.restoring"), "half of it").unwrap();
    let config_named = config.display().to_string();
    for command in ["serve", "doctor"] {
        let refused = told(hapax(&[command, "--config", &config_named])).await;
        assert_ne!(refused.code, 0, "{command}: {}", refused.out);
        let text = refused.out + &refused.err;
        assert!(text.contains("was cut off: run `hapax restore` again"), "{command}: {text}");
    }
    assert!(!at("data/hapax.db").exists());
    let restored = told(restore(&config, &at("copy"), &["--accept-gap"])).await;
    assert_eq!(restored.code, 0, "{}", restored.err);
    let server = serve(&config).await;
    assert_eq!(server.post("/charges", "k", "{}", "").await.kept(), kept.kept());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_before_a_backup_is_replayed_from_it_under_greater_epochs_b8_b9_l4() {
    for sections in [SEALED, ""] {
        let mut ground = Ground::new(Kind::Embedded).await;
        ground.sections = sections.to_owned();
        let at = |name: &str| ground.folder.path().join(name);
        let config = ground.write("hapax");
        let server = serve(&config).await;
        let mut answers = Vec::new();
        for number in 0..20 {
            let key = format!("before-{number}");
            answers.push((server.post("/charges", &key, "{}", "").await, key));
        }
        let _running = server.begin("/charges", "running", "{}", "pause=600000");
        ground.service.reached(21).await;
        std::fs::create_dir_all(at("data/spool")).unwrap();
        std::fs::write(at("data/spool/kept.refused"), "waits for an operator").unwrap();
        let taking = tokio::spawn(told(backup(&config, &at("copy"))));
        let mut meanwhile = 0;
        while !taking.is_finished() {
            server.post("/charges", &format!("meanwhile-{meanwhile}"), "{}", "").await;
            meanwhile += 1;
        }
        let taken = taking.await.unwrap();
        assert_eq!(taken.code, 0, "{}", taken.err);
        let is_sealed = !sections.is_empty();
        assert!(
            taken.out.contains(if is_sealed { " MiB, sealed" } else { " MiB, not sealed" }),
            "{}",
            taken.out
        );
        for plain in ["before-7", "user:alice", "payments", "waits for an operator"] {
            let is_in_the_clear = holds(&at("copy"), plain.as_bytes());
            assert!(!is_sealed || !is_in_the_clear, "{plain}");
        }
        assert!(holds(&at("data"), b"before-7"), "in the store it is");
        server.kill();
        std::fs::rename(at("data"), at("lost")).unwrap();

        let checked = told(restore(&config, &at("copy"), &[])).await;
        assert_eq!((checked.code, checked.out.contains(WINDOW)), (1, true), "{}{}", checked.out, checked.err);
        assert!(checked.err.contains("--accept-gap") && !at("data").exists(), "{}", checked.err);
        let mut greatest = epoch(&ground);
        for round in ["first", "again"] {
            let restored = told(restore(&config, &at("copy"), &["--accept-gap", "--json"])).await;
            assert_eq!(restored.code, 0, "{}", restored.err);
            let told: Value = serde_json::from_str(&restored.out).unwrap();
            assert_eq!((&told["restored"], &told["incarnation"]), (&json!(true), &json!(2)), "{told}");
            assert_eq!(
                std::fs::read_to_string(at("data/spool/kept.refused")).unwrap(),
                "waits for an operator"
            );
            let server = serve(&config).await;
            let done = ground.service.count();
            for (answer, key) in &answers {
                let replayed = server.post("/charges", key, "{}", "").await;
                assert!(replayed.is_replay(), "{key}: {replayed:?}");
                assert_eq!(replayed.kept(), answer.clone().kept(), "{key}");
            }
            let doubt = server.post("/charges", "running", "{}", "").await;
            assert_eq!(doubt.problem(), (409, "outcome-unknown".into()), "it ran when the backup was taken");
            assert_eq!(ground.service.count(), done, "nothing of it ran again");
            server.post("/charges", round, "{}", "").await;
            let new = epoch(&ground);
            assert!(new > greatest && new >> 48 == 2, "{new} after {greatest}");
            greatest = new;
            server.kill();
            std::fs::rename(at("data"), at(round)).unwrap();
        }
    }
}

/// A backup of a small store, and what may be wrong with where it is restored.
struct Bad {
    ground: Ground,
    number: usize,
}

impl Bad {
    async fn new() -> Bad {
        let mut ground = Ground::new(Kind::Embedded).await;
        ground.sections = SEALED.to_owned();
        let bad = Bad { ground, number: 0 };
        let config = bad.ground.write("hapax");
        let server = serve(&config).await;
        server.post("/charges", "one", "{}", "").await;
        server.kill();
        std::fs::write(bad.at("data/spool/kept.unreadable"), "x").unwrap();
        let taken = told(backup(&config, &bad.at("copy"))).await;
        assert_eq!(taken.code, 0, "{}", taken.err);
        bad
    }

    fn at(&self, name: &str) -> PathBuf {
        self.ground.folder.path().join(name)
    }

    /// A configuration whose store is somewhere else.
    fn elsewhere(&mut self) -> (PathBuf, PathBuf) {
        self.number += 1;
        let place = self.at(&format!("place-{}", self.number));
        let former = std::mem::replace(&mut self.ground.store, format!("embedded:{}", place.display()));
        let config = self.ground.write(&format!("hapax-{}", self.number));
        self.ground.store = former;
        (config, place)
    }

    /// Restores a copy of the backup that was spoilt like this: refused with these words, and nothing is there.
    async fn refused(&mut self, words: &str, key: Option<&str>, spoil: impl FnOnce(&Path)) {
        let (config, place) = self.elsewhere();
        let copy = self.at(&format!("copy-{}", self.number));
        copy_folder(&self.at("copy"), &copy);
        spoil(&copy);
        for more in [&[][..], &["--accept-gap"]] {
            let mut command = restore(&config, &copy, more);
            command.env_remove("HAPAX_SEAL_KEY").envs(key.map(|key| ("HAPAX_SEAL_KEY", key)));
            let refused = told(command).await;
            assert_eq!((refused.code, refused.out.as_str()), (1, ""), "{words}: {}", refused.err);
            assert!(refused.err.contains(words), "{words}: {}", refused.err);
            assert!(!place.join("hapax.db").exists(), "{words}");
        }
    }
}

/// Changes the text of a file.
fn edit(path: &Path, change: impl FnOnce(String) -> String) {
    std::fs::write(path, change(std::fs::read_to_string(path).unwrap())).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_is_not_whole_not_ours_or_of_a_newer_hapax_is_refused_b8_b9() {
    let mut bad = Bad::new().await;
    let database = |copy: &Path| copy.join("hapax.db");
    let manifest = |copy: &Path| copy.join("manifest.json");
    bad.refused("there is no backup at", Some(KEY), |copy| std::fs::remove_dir_all(copy).unwrap()).await;
    bad.refused("cut short", Some(KEY), |copy| std::fs::remove_file(manifest(copy)).unwrap()).await;
    bad.refused("cut short: hapax.db is not there", Some(KEY), |copy| {
        std::fs::remove_file(database(copy)).unwrap()
    })
    .await;
    bad.refused("cut short or changed: hapax.db has", Some(KEY), |copy| {
        let file = std::fs::File::options().write(true).open(database(copy)).unwrap();
        file.set_len(1_000).unwrap();
    })
    .await;
    bad.refused("cut short: spool/kept.unreadable", Some(KEY), |copy| {
        std::fs::remove_dir_all(copy.join("spool")).unwrap();
    })
    .await;
    bad.refused("changed: hapax.db is not what was written", Some(KEY), |copy| {
        let mut bytes = std::fs::read(database(copy)).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(database(copy), bytes).unwrap();
    })
    .await;
    bad.refused("made by a newer hapax (9.0", Some(KEY), |copy| {
        edit(&manifest(copy), |text| {
            text.replace("\"format\": 1", "\"format\": 2, \"more\": []")
                .replace(env!("CARGO_PKG_VERSION"), "9.0")
        });
    })
    .await;
    bad.refused("manifest is damaged", Some(KEY), |copy| {
        edit(&manifest(copy), |text| text.replace("\"incarnation\": 1", "\"incarnation\": 7"));
    })
    .await;
    bad.refused("manifest is damaged", Some(KEY), |copy| {
        edit(&manifest(copy), |text| text[..100].to_owned())
    })
    .await;
    bad.refused("manifest is damaged", Some(KEY), |copy| {
        edit(&manifest(copy), |text| text.replace("\"sealed\": true", "\"sealed\": false"));
    })
    .await;
    bad.refused("the keys of [seal] do not open the backup", Some(OTHER), |_| {}).await;
    bad.refused("a key of [seal] is not there", None, |_| {}).await;
    bad.ground.sections.clear();
    bad.refused("the backup is sealed, and the configuration has no [seal]", None, |_| {}).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_over_what_is_there_and_a_backup_to_what_is_there_change_nothing_b8() {
    let mut bad = Bad::new().await;
    let copy = bad.at("copy");
    let config = bad.at("hapax.toml");
    let refused = async |command: Command, code: i32, words: &str| {
        let refused = told(command).await;
        assert_eq!((refused.code, refused.out.as_str()), (code, ""), "{words}: {}", refused.err);
        assert!(refused.err.contains(words), "{words}: {}", refused.err);
    };
    // Over the store that was backed up: while nothing has it open, and while a server has.
    refused(restore(&config, &copy, &["--accept-gap"]), 1, "there is a store in").await;
    let server = serve(&config).await;
    refused(restore(&config, &copy, &["--accept-gap"]), 1, "there is a store in").await;
    assert!(server.post("/charges", "one", "{}", "").await.is_replay());
    refused(backup(&config, &copy), 1, "is there already: a backup goes to a new place").await;
    // In a folder with something else, and beside a spool with another store's outcomes.
    let (elsewhere, place) = bad.elsewhere();
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("notes.txt"), "mine").unwrap();
    refused(restore(&elsewhere, &copy, &["--accept-gap"]), 1, "notes.txt is there").await;
    let (elsewhere, place) = bad.elsewhere();
    std::fs::create_dir_all(place.join("spool")).unwrap();
    std::fs::write(place.join("spool/another.outcome"), "theirs").unwrap();
    refused(restore(&elsewhere, &copy, &["--accept-gap"]), 1, "another.outcome is there").await;
    assert_eq!(std::fs::read_to_string(place.join("spool/another.outcome")).unwrap(), "theirs");
    // Without a key there is no backup in the clear where one is wanted sealed.
    let mut keyless = backup(&config, &bad.at("keyless"));
    keyless.env_remove("HAPAX_SEAL_KEY");
    refused(keyless, 1, "a key of [seal] is not there").await;
    // No store, and stores that cannot be copied like this.
    let (elsewhere, _) = bad.elsewhere();
    refused(backup(&elsewhere, &bad.at("none")), 3, "there is no store in").await;
    bad.ground.store = "memory:".into();
    let memory = bad.ground.write("memory");
    refused(backup(&memory, &bad.at("none")), 2, "a memory store forgets").await;
    bad.ground.store = "postgres://hapax@localhost/hapax".into();
    let postgres = bad.ground.write("postgres");
    refused(backup(&postgres, &bad.at("none")), 2, "pg_dump").await;
    refused(restore(&postgres, &copy, &["--accept-gap"]), 2, "docs/operating/backup.md").await;
    for absent in ["keyless", "none"] {
        assert!(!bad.at(absent).exists(), "{absent}");
    }
}

/// A store of some size, which nothing has open.
async fn large(folder: &Path) {
    let store = Embedded::open(folder, Options::default()).unwrap();
    for number in 0..300 {
        let (operation, key) =
            (Operation::new("charge").unwrap(), Key::new(format!("key-{number}")).unwrap());
        let identity = Identity::new(Source::Header, Scope::local(), Width::Subject, operation, key);
        let request = ClaimRequest::new(identity, Fingerprint::of_bytes(b"10"));
        let outcome = Outcome::Succeeded(Bytes::from(vec![number as u8; 40_000]));
        store.set(request, outcome, Retention::Forever).await.unwrap();
    }
    hapax_store::Lifecycle::close(&store).await.unwrap();
}

/// Runs a command and kills it after some time, unless it has ended by itself before; whether it had.
async fn killed_after(mut command: Command, time: Duration) -> Option<Told> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    tokio::time::sleep(time).await;
    let ended = child.try_wait().unwrap().is_some();
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    ended.then(|| Told {
        code: output.status.code().unwrap(),
        out: text(output.stdout),
        err: text(output.stderr),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_moment_there_is_no_backup_or_a_whole_one_and_no_store_or_a_whole_one_b8() {
    let mut ground = Ground::new(Kind::Embedded).await;
    ground.sections = SEALED.to_owned();
    let (config, at) = (ground.write("hapax"), |name: &str| ground.folder.path().join(name));
    large(&at("data")).await;
    let mut time = Duration::from_millis(4);
    let mut kills = 0;
    let taken = loop {
        let ended = killed_after(backup(&config, &at("copy")), time).await;
        match ended {
            Some(ended) => break ended,
            None => kills += 1,
        }
        if at("copy").exists() {
            // It had its name before it was killed.
            break told(hapax(&["--version"])).await;
        }
        time = time.mul_f64(1.5);
    };
    assert_eq!((taken.code, kills > 2), (0, true), "{kills} kills: {}", taken.err);
    assert!(!at("copy.writing").exists(), "what those that were killed have left is gone");
    std::fs::rename(at("data"), at("lost")).unwrap();
    let (mut time, mut kills) = (Duration::from_millis(4), 0);
    let code = loop {
        let ended = killed_after(restore(&config, &at("copy"), &["--accept-gap"]), time).await;
        match ended {
            Some(ended) => break ended.code,
            None => kills += 1,
        }
        if at("data/hapax.db").exists() {
            break 0;
        }
        time = time.mul_f64(1.5);
    };
    assert_eq!((code, kills > 2), (0, true), "{kills} kills");
    let store = Embedded::open(at("data"), Options::default()).unwrap();
    let found = store.verify().await.unwrap();
    assert!(found.is_sound() && found.records > 300, "{found:?}");
}

/// What a command tells a person at a terminal. It is stopped for a moment once this is there, because progress is told after a while
/// only; nothing where it had ended before.
async fn at_a_terminal(command: &Command, stopped_at: &Path, folder: &Path) -> Option<String> {
    use rustix::process::{Pid, Signal, kill_process};

    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words: Vec<_> = words.map(|word| format!("'{}'", word.to_str().unwrap())).collect();
    let pid = folder.join("pid");
    let _ = std::fs::remove_file(&pid);
    let line = format!("echo $$ > '{}'; exec {}", pid.display(), words.join(" "));
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &line, "/dev/null"]).env("SHELL", "/bin/sh").stdin(Stdio::null());
    let mut running = terminal.stdout(Stdio::piped()).spawn().unwrap();
    while !stopped_at.exists() && running.try_wait().unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let number = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    let process = Pid::from_raw(number).unwrap();
    let is_stopped = running.try_wait().unwrap().is_none() && kill_process(process, Signal::STOP).is_ok();
    if is_stopped {
        tokio::time::sleep(Duration::from_millis(1_100)).await;
    }
    // `script` stops with what it runs. Either may have ended by now.
    while running.try_wait().unwrap().is_none() {
        let _ = kill_process(Pid::from_child(&running), Signal::CONT);
        let _ = kill_process(process, Signal::CONT);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    is_stopped.then(|| String::from_utf8(output.stdout).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_at_a_terminal_hears_how_far_it_is_and_a_pipe_does_not_b8() {
    let ground = Ground::new(Kind::Embedded).await;
    let (config, at) = (ground.write("hapax"), |name: &str| ground.folder.path().join(name));
    large(&at("data")).await;
    let tells = |told: Option<String>, what: &str| {
        told.is_some_and(|told| told.lines().any(|line| line.contains(what) && line.contains(" % of ")))
    };
    let mut number = 0;
    loop {
        number += 1;
        assert!(number < 50, "no progress of a backup is told");
        let (copy, writing) = (at(&format!("copy-{number}")), at(&format!("copy-{number}.writing")));
        if tells(at_a_terminal(&backup(&config, &copy), &writing, ground.folder.path()).await, "copied ") {
            break;
        }
    }
    let piped = told(backup(&config, &at("piped"))).await;
    assert!(piped.code == 0 && !piped.err.contains(" % of "), "{}", piped.err);
    loop {
        number += 1;
        assert!(number < 100, "no progress of a restore is told");
        std::fs::remove_dir_all(at("data")).unwrap();
        let restoring = restore(&config, &at("piped"), &["--accept-gap"]);
        if tells(at_a_terminal(&restoring, &at("data/hapax.restoring"), ground.folder.path()).await, "read ")
        {
            break;
        }
    }
}

//! `hapax doctor` on stores that need no server (M6).

use std::process::Command;

use serde_json::Value;

use crate::claims_cli::{Told, told};
use crate::office::Office;

pub(crate) async fn doctor(args: &[&str]) -> Told {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hapax"));
    command.arg("doctor").args(args);
    told(command).await
}

/// The level of one check.
pub(crate) fn level(told: &Told, what: &str) -> String {
    let report: Value =
        serde_json::from_str(&told.out).unwrap_or_else(|_| panic!("{} {}", told.out, told.err));
    let checks = report["checks"].as_array().unwrap();
    let found = checks
        .iter()
        .find(|check| check["what"] == what)
        .unwrap_or_else(|| panic!("no {what} in {report:#}"));
    assert_eq!(found["remedy"].is_null(), found["level"] == "ok", "a remedy where one is needed: {found}");
    found["level"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_sound_store_is_said_to_be_beside_its_server_m6() {
    let office = Office::embedded().await;
    office.settled("order-1", "x").await;
    let store = format!("embedded:{}", office.folder());
    let sound = doctor(&["--store", &store, "--json"]).await;
    assert_eq!(sound.code, 0, "{} {}", sound.out, sound.err);
    for what in ["store", "records", "claims"] {
        assert_eq!(level(&sound, what), "ok", "{what}");
    }
    level(&sound, "free disk space");
    level(&sound, "file descriptors");
    office.doubt("order-2").await;
    let doubtful = doctor(&["--store", &store]).await;
    assert_eq!(doubtful.code, 0, "somebody should look, and it works");
    let line = doubtful.out.lines().find(|line| line.contains("in doubt")).unwrap();
    assert!(
        line.starts_with("warn  claims") && line.contains(" – `hapax claims list --state in_doubt`"),
        "{line}"
    );
}

#[tokio::test]
async fn a_damaged_store_fails_m6() {
    let office = Office::embedded().await;
    for number in 0..50 {
        office.settled(&format!("order-{number}"), &"x".repeat(500)).await;
    }
    let folder = office.folder();
    use hapax_store::Lifecycle as _;
    office.store.close().await.unwrap();
    let file = std::path::Path::new(&folder).join("hapax.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.windows(100).rposition(|window| window == [b'x'; 100]).unwrap();
    bytes[at + 50] = b'y';
    std::fs::write(&file, bytes).unwrap();
    let damaged = doctor(&["--store", &format!("embedded:{folder}"), "--json"]).await;
    assert_eq!(damaged.code, 1, "{}", damaged.out);
    assert_eq!(level(&damaged, "records"), "fail");
    let report: Value = serde_json::from_str(&damaged.out).unwrap();
    assert_eq!(report["ok"], false);
    assert!(damaged.err.contains("failed"), "{}", damaged.err);
}

#[tokio::test]
async fn a_store_that_is_not_there_is_not_made_m6() {
    let folder = tempfile::tempdir().unwrap();
    let absent = format!("embedded:{}", folder.path().join("data").display());
    let told = doctor(&["--store", &absent, "--json"]).await;
    assert_eq!((told.code, level(&told, "store").as_str()), (0, "warn"));
    assert!(!folder.path().join("data").exists());
    // A folder with something else in it is not one where a store is yet to be made.
    std::fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    let other = doctor(&["--store", &format!("embedded:{}", folder.path().display()), "--json"]).await;
    assert_eq!((other.code, level(&other, "store").as_str()), (1, "fail"));
}

#[tokio::test]
async fn what_cannot_be_examined_is_misuse_m6() {
    for args in [
        &[][..],
        &["--store", "sqlite:x"],
        &["--store", "embedded:"],
        &["--store", "postgres://a:port/x"],
        &["--store", "memory:", "--config", "x"],
    ] {
        let refused = doctor(args).await;
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{args:?}: {}", refused.err);
    }
    let memory = doctor(&["--store", "memory:", "--json"]).await;
    assert_eq!((memory.code, level(&memory, "store").as_str()), (0, "warn"));
    let away = doctor(&["--store", "postgres://nobody:secret@127.0.0.1:1/x", "--json"]).await;
    assert_eq!((away.code, level(&away, "server").as_str()), (1, "fail"));
    assert!(!away.out.contains("secret") && !away.err.contains("secret"), "{}", away.out);
}

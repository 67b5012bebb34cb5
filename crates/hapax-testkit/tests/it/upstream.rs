//! The counting upstream, from several threads and several processes.

use std::process::Command;

use hapax_testkit::upstream::CountingFile;

/// Tells the child process of this test where to count.
const CHILD: &str = "HAPAX_TESTKIT_COUNT_IN";

#[test]
fn a_file_that_does_not_exist_counts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(CountingFile::new(dir.path().join("effects")).count("k").unwrap(), 0);
}

#[test]
fn every_effect_of_every_process_is_counted() {
    if let Some(path) = std::env::var_os(CHILD) {
        return count_to(50, &CountingFile::new(path));
    }
    let dir = tempfile::tempdir().unwrap();
    let file = CountingFile::new(dir.path().join("effects"));
    let this = std::env::current_exe().unwrap();
    let child = || {
        let mut command = Command::new(&this);
        command
            .args(["upstream::every_effect_of_every_process_is_counted", "--exact"])
            .env(CHILD, file.path());
        command.stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let children = [child(), child()];
    count_to(50, &file);
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!((file.count("a").unwrap(), file.count("b").unwrap(), file.count("c").unwrap()), (150, 150, 0));
    let processes: std::collections::BTreeSet<u32> =
        file.effects().unwrap().iter().map(|effect| effect.process).collect();
    assert_eq!(processes.len(), 3);
}

fn count_to(end: u32, file: &CountingFile) {
    for number in 0..end {
        file.record("a", &number.to_string()).expect("effects can be written");
        file.record("b", &number.to_string()).expect("effects can be written");
    }
}

#[test]
fn a_line_that_was_cut_off_is_no_effect() {
    let dir = tempfile::tempdir().unwrap();
    let file = CountingFile::new(dir.path().join("effects"));
    file.record("k", "1.1").unwrap();
    let text = std::fs::read_to_string(file.path()).unwrap();
    std::fs::write(file.path(), format!("{text}k\t1.")).unwrap();
    assert_eq!(file.count("k").unwrap(), 1);
}

#[test]
fn a_key_that_would_break_the_line_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = CountingFile::new(dir.path().join("effects"));
    assert!(file.record("a\tb", "1.1").is_err());
    assert_eq!(file.effects().unwrap(), []);
}

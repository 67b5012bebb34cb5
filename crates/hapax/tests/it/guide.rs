//! The guide *Put hapax in front of an existing API in ten minutes*, followed word for word: its files are written, its commands run in
//! one shell, and what it says they print is looked for. Only ports are others.

use std::path::Path;
use std::process::Command;

use hapax_testkit::port::Port;

use crate::claims_cli::told;
use crate::pages::{Step, blocks, script, steps};
use crate::rig::Service;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guide_to_an_existing_api_is_right_word_for_word() {
    let service = Service::start().await;
    let ports = (Port::reserve().unwrap(), Port::reserve().unwrap());
    let (edge, admin) = (ports.0.number(), ports.1.number());
    let page = include_str!("../../../../docs/guides/existing-api.md")
        .replace("127.0.0.1:9000", &service.address().to_string())
        .replace("127.0.0.1:8080", &format!("127.0.0.1:{edge}"))
        .replace("127.0.0.1:8081", &format!("127.0.0.1:{admin}"));
    let blocks = blocks(&page);
    let folder = tempfile::tempdir().unwrap();
    for block in blocks.iter().filter(|block| block.kind == "toml") {
        let name = block.lines[0].strip_prefix("# ").expect("a file is named in its first line");
        // The page relies on the usual ports, which a test cannot have.
        let ports = format!("[edge]\nlisten = \"127.0.0.1:{edge}\"\n");
        let text =
            block.lines.join("\n").replace("[admin]", &format!("[admin]\nlisten = \"127.0.0.1:{admin}\""));
        std::fs::write(folder.path().join(name), format!("{ports}{text}\n")).unwrap();
    }
    let steps = steps(&blocks);
    assert!(
        steps.len() > 8 && blocks.iter().any(|block| block.kind == "toml"),
        "the page has lost its commands"
    );
    let mut shell = Command::new("bash");
    let program = Path::new(env!("CARGO_BIN_EXE_hapax")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    shell.args(["-c", &script(&steps)]).current_dir(&folder).env("PATH", path).env_remove("HAPAX_STORE");
    let ran = told(shell).await;
    for (number, Step { command, prints }) in steps.iter().enumerate() {
        let out = std::fs::read_to_string(folder.path().join(format!("out.{number}"))).unwrap();
        for line in prints {
            let why = || format!("{command}\nprints\n{out}\nand the page says\n{line}\n{}", ran.err);
            assert!(out.contains(line.as_str()), "{}", why());
        }
    }
    let paid: Vec<_> = service.done().into_iter().filter(|done| done.is_on("/payments")).collect();
    assert_eq!(paid.len(), 2, "once under the key, and once without one");
}

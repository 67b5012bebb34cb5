//! Guides that are followed word for word: *Put hapax in front of an existing API in ten minutes*, and those to webhooks. Their files are
//! written, their commands run in one shell, and what they say is printed is looked for. Only ports, ids and times are others.

use std::path::Path;
use std::process::Command;

use hapax_testkit::port::Port;

use crate::claims_cli::told;
use crate::pages::{Step, blocks, script, steps};
use crate::rig::{Ground, Hapax, Kind, Service, TOKEN};

/// Ids and times are others each time.
fn masked(text: &str) -> String {
    let other = regex::Regex::new(r"(op|wh)_[0-9a-f]{32}|[0-9-]{10}T[0-9:.]{15}Z").unwrap();
    other.replace_all(text, "…").into_owned()
}

fn each_printed_what_the_page_says(steps: &[Step], folder: &Path, complaints: &str) {
    for (number, Step { command, prints }) in steps.iter().enumerate() {
        let out = std::fs::read_to_string(folder.join(format!("out.{number}"))).unwrap();
        for line in prints {
            let why = || format!("{command}\nprints\n{out}\nand the page says\n{line}\n{complaints}");
            assert!(masked(&out).contains(&masked(line)), "{}", why());
        }
    }
}

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
    each_printed_what_the_page_says(&steps, folder.path(), &ran.err);
    let paid: Vec<_> = service.done().into_iter().filter(|done| done.is_on("/payments")).collect();
    assert_eq!(paid.len(), 2, "once under the key, and once without one");
}

/// Follows the commands of a page about webhooks, at a server that has the sections of these pages.
async fn follow(page: &str, pages: &[&str]) -> Ground {
    let mut ground = Ground::new(Kind::Embedded).await;
    let sections = pages.iter().flat_map(|page| blocks(page)).filter(|block| block.kind == "toml");
    let sections: Vec<_> = sections.map(|block| block.lines.join("\n")).collect();
    ground.sections = sections.join("\n").replace("upstream = \"payments\"", "upstream = \"service\"");
    let edge: Hapax = ground.serve().await;
    let steps = steps(&blocks(&page.replace("localhost:8080", &edge.edge.to_string())));
    // Operators' commands find the server at its usual place, which a test cannot have.
    let program = env!("CARGO_BIN_EXE_hapax");
    let with_place = format!(
        "hapax() {{ case $1 in webhooks) {program} \"$@\" --admin http://{} ;; *) {program} \"$@\" ;; esac; }}\n",
        edge.admin
    );
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("{with_place}{}", script(&steps))]).current_dir(&ground.folder);
    shell.env_remove("HAPAX_STORE").env("HAPAX_ADMIN_TOKEN", TOKEN);
    let ran = told(shell).await;
    each_printed_what_the_page_says(&steps, ground.folder.path(), &ran.err);
    ground
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guides_to_webhooks_are_right_word_for_word_w2_w4() {
    let guide = include_str!("../../../../docs/guides/webhooks.md");
    let ground = follow(guide, &[guide]).await;
    assert_eq!(ground.service.count(), 1, "one delivery is done once");
    let own = include_str!("../../../../docs/guides/webhooks/generic.md");
    let beginning = guide.split("[webhooks.providers.acme]").next().unwrap();
    let beginning = format!("{}```", beginning.rsplit_once("```toml").unwrap().0);
    let ground = follow(own, &[&beginning, own]).await;
    assert_eq!(ground.service.count(), 1, "one delivery is done once");
}

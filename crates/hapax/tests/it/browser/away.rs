//! What the console says when something is away: its server, the ledger behind that, a file of its own; and when another version is
//! served meanwhile.

use std::path::Path;

use hapax_testkit::browser::Page;
use hapax_testkit::port::Port;

use super::{Console, go, pictures};
use crate::rig::postgres::Server;
use crate::rig::{Ground, Hapax};

const STALE: &str = "document.querySelector('main .stale h1') !== null";

/// T14: the ledger is away; the page says so within seconds, greys what it shows, and forgets it when the ledger is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_that_is_away_is_told_and_so_is_its_return_postgres_m3() {
    let mut server = Server::start(&[]);
    let console = Console::on(Ground::at(server.url()).await, &[]).await;
    let page = console.at("#/");
    page.shows("The ledger answers.");
    assert_eq!(page.eval(STALE), false);
    server.fall();
    page.shows("The ledger does not answer");
    page.wait(STALE);
    assert_eq!(page.eval("document.querySelector('main').innerText.includes('The ledger answers.')"), false);
    // A pulse waits for nothing: the clock that it tells is the server's now.
    assert_eq!(page.eval("document.querySelector('.banners').innerText.includes('clock differs')"), false);
    pictures(&page, "ledger-away");
    server.rise(&[]);
    page.wait("!document.querySelector('.banners').innerText.includes('The ledger does not answer')");
    page.shows("The ledger answers.");
    assert_eq!(page.eval(STALE), false);
}

/// On a port that is the same after a restart.
async fn on_a_port() -> (Console, String, Port) {
    let port = Port::reserve().unwrap();
    let mut console = Console::new().await;
    let config = console.ground.configuration().replacen(
        "[admin]\nlisten = \"127.0.0.1:0\"",
        &format!("[admin]\nlisten = \"{}\"", port.address()),
        1,
    );
    let file = console.ground.folder.path().join("fixed.toml");
    std::fs::write(&file, config).unwrap();
    console.edge.terminate();
    console.edge.ended().await;
    console.edge = Hapax::start(&file, &[]).await;
    (console, file.display().to_string(), port)
}

async fn stop(console: &mut Console) {
    console.edge.terminate();
    console.edge.ended().await;
}

fn updated(page: &Page) -> bool {
    page.eval("document.querySelector('.banners').innerText.includes('hapax was updated')") == true
}

/// A screen whose file does not come is asked for again when the server is back; nobody is told of an update that was none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_screen_that_did_not_come_comes_when_the_server_is_back_m3() {
    let (mut console, config, _port) = on_a_port().await;
    let page = console.at("#/");
    page.shows("The ledger answers.");
    stop(&mut console).await;
    go(&page, "#/retention");
    page.shows("A file of this page could not be fetched.");
    assert!(!updated(&page));
    page.shows("No answer from");
    go(&page, "#/");
    page.shows("Not known since");
    page.wait(STALE);
    pictures(&page, "server-away");
    go(&page, "#/retention");
    console.edge = Hapax::start(Path::new(&config), &[]).await;
    page.wait(
        "document.querySelector('h1')?.innerText === 'Retention' && document.querySelector('main table')",
    );
    assert!(!updated(&page));
    // The same place with other files.
    stop(&mut console).await;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/console");
    console.edge = Hapax::start_with(Path::new(&config), &["--console-dir", folder]).await;
    page.shows("hapax was updated");
    page.click_text("Reload");
    page.wait("document.querySelector('h1')?.innerText === 'Retention' && !document.querySelector('.banners').innerText.includes('updated')");
}

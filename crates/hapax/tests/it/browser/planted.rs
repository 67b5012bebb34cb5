//! The tests of the console are tested: files with a fault are served, and what looks for that fault must find it.

use std::path::{Path, PathBuf};

use hapax_testkit::browser::Page;
use serde_json::json;

use super::{Console, fill, go};
use crate::rig::{Ground, Kind, Who};

/// A copy of the console's files, with one text of one file replaced.
fn planted(folder: &Path, file: &str, right: &str, wrong: &str) -> PathBuf {
    let (from, to) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("console"), folder.join("console"));
    copy(&from, &to);
    let text = std::fs::read_to_string(to.join(file)).unwrap();
    assert_eq!(text.matches(right).count(), 1, "{file} has {right:?} once");
    std::fs::write(to.join(file), text.replace(right, wrong)).unwrap();
    to
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// Whether the console whose files these are keeps what this looks for.
async fn keeps(fault: Option<(&str, &str, &str)>, check: impl AsyncFn(&Console, &Page) -> bool) -> bool {
    let ground = Ground::new(Kind::Embedded).await;
    let (file, right, wrong) = fault.unwrap_or(("index.html", "<!doctype html>", "<!doctype html>"));
    let folder = planted(ground.folder.path(), file, right, wrong);
    let console = Console::on(ground, &["--console-dir", &folder.display().to_string()]).await;
    let page = console.at("#/");
    check(&console, &page).await
}

/// A check passes the console as it is, and fails the one with the fault.
async fn finds(file: &str, right: &str, wrong: &str, check: impl AsyncFn(&Console, &Page) -> bool) {
    assert!(keeps(None, &check).await, "{file} as it is");
    assert!(!keeps(Some((file, right, wrong)), &check).await, "{file} with {wrong:?}");
}

/// What was decided about another epoch than the one on the screen is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_epoch_that_is_read_anew_at_submit_is_found_m3() {
    let right = "verb === \"note\" ? body : { epoch: claim.epoch, ...body }";
    let wrong = "verb === \"note\" ? body : { epoch: (await read(claim.operation_id)).epoch, ...body }";
    finds("data.js", right, wrong, async |console, page| {
        let id = console.doubt("/brief", "twice").await;
        go(page, &format!("#/attention/in-doubt?op={id}"));
        page.wait("document.querySelector('#c-key')?.innerText === 'twice' && document.querySelector('#reason')");
        // Nothing is fetched by itself, and so nothing warns.
        page.click_text("Live");
        page.wait("document.querySelector('.live').innerText === 'Stopped'");
        let seen = console.edge.ask(&format!("GET /v1/claims/{id}"), "").await.json();
        let release = json!({"epoch": seen["epoch"], "reason": "gone", "release": true, "force": true});
        assert_eq!(console.edge.ask(&format!("POST /v1/claims/{id}/resolve"), &release.to_string()).await.status, 200);
        assert_eq!(console.edge.post("/brief", "twice", "{\"of\":\"twice\"}", "cut").await.status, 409);
        fill(page, "#body", "{}");
        fill(page, "#reason", "as I saw it");
        page.press("Ctrl+Enter");
        page.wait("document.querySelector('.card .note.mismatch, .card .note.error') || document.querySelector('.said').innerText.includes('settled')");
        console.edge.ask(&format!("GET /v1/claims/{id}"), "").await.json()["state"] == "in_doubt"
    })
    .await;
}

/// A caller's text that becomes markup is stopped by the browser, which says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_becomes_markup_is_found_m3() {
    let right = "title=${all.length > most ? all : undefined}>${shorter(all, most)}</bdi>";
    let wrong = "title=${all.length > most ? all : undefined} dangerouslySetInnerHTML=${{ __html: shorter(all, most) }}></bdi>";
    finds("ui.js", right, wrong, async |console, page| {
        let headers = [("idempotency-key", "<img/src=x>"), ("x-do", "cut")];
        let told = console.edge.send(Who("acme", "web", "user:eve"), "POST /printable", &headers, "{}").await;
        assert_eq!(told.status, 409);
        go(page, "#/claims");
        page.wait("document.querySelector('tbody bdi') || document.querySelector('main .note.error')");
        let shown = page
            .eval("[...document.querySelectorAll('tbody bdi')].some(one => one.innerText === '<img/src=x>')");
        shown == true && page.complaints().is_empty()
    })
    .await;
}

/// A page that nobody sees asks nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poll_that_goes_on_while_hidden_is_found_m3() {
    finds("pulse.js", " && !document.hidden;", ";", async |_, page| {
        page.shows("The ledger answers.");
        page.eval("Object.defineProperty(document, 'hidden', {value: true, configurable: true}); document.dispatchEvent(new Event('visibilitychange')); new Promise(done => setTimeout(done, 500))");
        let sent = || page.events("Network.requestWillBeSent").len();
        let before = sent();
        page.eval("new Promise(done => setTimeout(done, 6000))");
        sent() == before
    })
    .await;
}

/// Ages are the server's, whatever this machine's clock shows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ages_from_the_browsers_clock_are_found_m3() {
    finds("time.js", "() => Date.now() + current().skew;", "() => Date.now();", async |console, page| {
        let id = console.doubt("/charges", "young").await;
        page.eval("const now = Date.now; Date.now = () => now() + 3600000; 0");
        // It is told once the server's clock was heard again.
        page.shows("clock differs");
        go(page, &format!("#/claims/{id}"));
        page.wait(
            "document.querySelector('h1.key')?.innerText === 'young' && document.querySelector('dl.kv time')",
        );
        !page.text("document.querySelector('dl.kv').innerText").contains(" h ")
    })
    .await;
}

/// What may still run cannot be released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_offered_too_early_is_found_m3() {
    finds("screens/desk.js", "return from ? left(from) : 0; };", "return from ? 0 : 0; };", async |console, page| {
        // The usual service may take five minutes.
        let id = console.doubt("/charges", "early").await;
        go(page, &format!("#/attention/in-doubt?op={id}"));
        page.wait("document.querySelector('#c-key')?.innerText === 'early' && document.querySelector('input[value=release]')");
        page.eval("document.querySelector('input[value=release]').disabled") == true
    })
    .await;
}

/// Every field has a name for those who do not see it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_label_is_found_m3() {
    finds("ui.js", "<input id=${id} type=\"text\" aria-label=${label} placeholder", "<input id=${id} type=\"text\" placeholder", async |_, page| {
        go(page, "#/claims");
        page.wait("document.querySelector('#f-key')");
        let bare = "[...document.querySelectorAll('main input, main select, main textarea')].filter(one => !one.ariaLabel && !one.labels?.length).length";
        page.eval(bare) == 0
    })
    .await;
}

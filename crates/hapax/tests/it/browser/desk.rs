//! Signing in, finding a claim, and deciding: by keyboard, too early, by two at once, about many.

use super::{Console, fill, go, pictures};
use crate::rig::TOKEN;
use hapax_testkit::browser::Page;
use serde_json::json;

/// T1: a wrong token gets the server's words; the right one is in no place where it could be read later.
fn signs_in(console: &Console) -> Page {
    let page = console.browser.page();
    page.open(&console.url(""));
    page.wait("document.activeElement.id === 'token'");
    page.type_text("not-the-token");
    page.press("Enter");
    page.wait("document.querySelector('[role=alert]')?.innerText.includes('admin token')");
    pictures(&page, "sign-in");
    page.wait("document.querySelector('#token').selectionEnd > 0");
    page.type_text(TOKEN);
    page.click("#by");
    page.type_text("night-shift");
    page.press("Enter");
    page.wait("document.querySelector('h1')?.innerText === 'Overview'");
    let kept = "location.href + document.title + JSON.stringify(Object.entries(localStorage))";
    assert!(!page.text(kept).contains(TOKEN));
    for request in page.events("Network.requestWillBeSent") {
        assert!(!request["request"]["url"].as_str().unwrap().contains(TOKEN));
    }
    assert!(!console.edge.told().contains(TOKEN), "the log does not have it");
    let other = page.tab();
    other.open(&console.url("#/audit"));
    other.wait("document.querySelector('h1')?.innerText === 'Audit'");
    page
}

/// T2: the search decides by the form of what is typed.
async fn finds(console: &Console, page: &Page) {
    let done = console.edge.post("/charges", "order-88207", "{}", "").await;
    let id = done.header("x-operation-id").unwrap().to_owned();
    let search = |text: &str| {
        page.eval("document.activeElement.blur()");
        page.press("/");
        page.wait("document.activeElement.id === 'q'");
        page.type_text(text);
        page.wait("document.querySelectorAll('#leads li').length > 0");
        page.press("Enter");
    };
    search(&id);
    page.wait(&format!(
        "location.hash === '#/claims/{id}' && document.querySelector('h1.key')?.innerText === 'order-88207'"
    ));
    search("order-88207");
    page.wait("document.querySelectorAll('tbody tr').length === 1 && document.querySelector('tbody').innerText.includes('order-88207')");
    search("a-key-that-is-nowhere");
    page.shows("No such claim: looked at all");
}

/// T4: settled with the keyboard alone, and what the callers get then.
async fn settles_by_keyboard(console: &Console, page: &Page) {
    let id = console.doubt("/charges", "order-88213").await;
    go(page, &format!("#/attention/in-doubt?op={id}"));
    page.wait(
        "document.querySelector('#c-key')?.innerText === 'order-88213' && document.querySelector('#body')",
    );
    pictures(page, "in-doubt");
    page.eval("document.activeElement.blur()");
    page.press("d");
    page.eval("document.querySelector('#status').focus(); document.querySelector('#status').select()");
    page.type_text("202");
    // Status, type, "start from", body.
    for _ in 0..3 {
        page.press("Tab");
    }
    page.wait("document.activeElement.id === 'body'");
    page.type_text("{\"id\": \"ch_88213\"}");
    page.press("Tab");
    page.wait("document.activeElement.id === 'reason'");
    page.type_text("it is in the books");
    page.wait("document.querySelector('.cli code').innerText.includes('--settle-status 202')");
    page.press("Ctrl+Enter");
    page.shows("Nothing in doubt");
    let stated = console.edge.post("/charges", "order-88213", "{\"of\":\"order-88213\"}", "").await;
    assert_eq!(
        (stated.status, stated.is_replay(), stated.text()),
        (202, true, "{\"id\": \"ch_88213\"}".into())
    );
    assert_eq!(stated.header("content-type"), Some("application/json"));
    let audit = console.edge.ask("GET /v1/audit", "").await.json();
    let last = &audit["events"][0];
    assert_eq!((&last["verb"], &last["reason"]), (&json!("resolve-settle"), &json!("it is in the books")));
    assert!(last["actor"].as_str().unwrap().ends_with("/night-shift"), "{last}");
}

/// T5: a release waits until the former run is over; by force only with two boxes and the key.
async fn releases_when_it_can(console: &Console, page: &Page) {
    let done = console.ground.service.count();
    let id = console.doubt("/brief", "brief-1").await;
    go(page, &format!("#/attention/in-doubt?op={id}"));
    page.wait("document.querySelector('#c-key')?.innerText === 'brief-1'");
    page.wait("document.querySelector('input[value=release]').disabled");
    page.click_text("Release by force");
    page.wait("document.querySelector('dialog[open] .danger').disabled");
    pictures(page, "force");
    page.press("Escape");
    page.wait("!document.querySelector('dialog[open]')");
    page.wait("!document.querySelector('input[value=release]').disabled");
    page.click("input[value=release]");
    fill(page, "#reason", "not in the books");
    page.click_text("Release brief-1");
    page.shows("Nothing in doubt");
    assert_eq!(console.edge.post("/brief", "brief-1", "{\"of\":\"brief-1\"}", "").await.status, 201);
    assert_eq!(console.ground.service.count(), done + 2, "it ran");

    let id = console.doubt("/charges", "forced-1").await;
    go(page, &format!("#/attention/in-doubt?op={id}"));
    page.wait("document.querySelector('#c-key')?.innerText === 'forced-1'");
    page.click_text("Release by force");
    let ready = "!document.querySelector('dialog[open] .danger').disabled";
    page.click("dialog label:nth-of-type(1) input");
    fill(page, "#force-key", "forced-1");
    assert_eq!(page.eval(ready), false, "both boxes");
    page.click("dialog label:nth-of-type(2) input");
    page.wait(ready);
    page.click("dialog .danger");
    fill(page, "#reason", "the run is dead");
    page.click_text("Release forced-1");
    page.shows("Nothing in doubt");
    assert_eq!(console.edge.post("/charges", "forced-1", "{\"of\":\"forced-1\"}", "").await.status, 201);
}

/// T6: the epoch on the screen is what is sent: who comes second sees what it is now, and loses nothing that was typed.
async fn second_operator_sees_the_first(console: &Console, page: &Page) {
    let id = console.doubt("/charges", "order-both").await;
    let place = format!("#/attention/in-doubt?op={id}");
    let other = console.at(&place);
    go(page, &place);
    for page in [page, &other] {
        page.wait("document.querySelector('#c-key')?.innerText === 'order-both' && document.querySelector('#reason')");
    }
    // The second one looks at what stands still.
    other.click_text("Live");
    other.wait("document.querySelector('.live').innerText === 'Stopped'");
    fill(&other, "#body", "{\"second\": true}");
    fill(&other, "#reason", "second");
    fill(page, "#body", "{\"first\": true}");
    fill(page, "#reason", "first");
    page.press("Ctrl+Enter");
    page.shows("Nothing in doubt");
    other.press("Ctrl+Enter");
    other.wait("[...document.querySelectorAll('[role=alert]')].some(one => one.innerText.includes('you saw') && one.innerText.includes('Settled'))");
    assert_eq!(other.text("document.querySelector('#body').value"), "{\"second\": true}");
    pictures(&other, "conflict");
    let kept = console.edge.post("/charges", "order-both", "{\"of\":\"order-both\"}", "").await;
    assert_eq!(kept.text(), "{\"first\": true}");
    let audit = console.edge.ask("GET /v1/audit", "").await.json();
    let settled = audit["events"].as_array().unwrap().iter();
    let settled = settled.filter(|event| {
        event["operation_id"] == *id && event["verb"] == "resolve-settle" && event["refused"].is_null()
    });
    assert_eq!(settled.count(), 1);
}

/// T15, small: many are released with one reason; the one that changed meanwhile is shown, the others are done.
async fn many_are_decided_and_the_changed_one_is_told(console: &Console, page: &Page) {
    // A page behind another one asks nothing.
    page.call("Page.bringToFront", json!({}));
    let mut ids = Vec::new();
    for number in 0..12 {
        ids.push(console.doubt("/charges", &format!("many-{number}")).await);
    }
    go(page, "#/attention/in-doubt");
    page.wait("document.querySelectorAll('.item').length === 12");
    page.click("input[aria-label='Select all']");
    page.click_text("Settle");
    fill(page, "#b-reason", "all of them are in the books");
    pictures(page, "batch");
    // One changes after it was seen and before it is sent.
    let claim = console.edge.ask(&format!("GET /v1/claims/{}", ids[3]), "").await.json();
    let release = json!({"epoch": claim["epoch"], "reason": "meanwhile", "release": true, "force": true});
    assert_eq!(
        console.edge.ask(&format!("POST /v1/claims/{}/resolve", ids[3]), &release.to_string()).await.status,
        200
    );
    page.click_text("Settle 12 claims");
    page.shows("11 done · 1 not · of 12");
    page.shows("claim-not-applicable");
    page.click_text("Close");
    page.shows("Nothing in doubt");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_signs_in_finds_and_decides_m3() {
    let console = Console::new().await;
    let page = signs_in(&console);
    finds(&console, &page).await;
    settles_by_keyboard(&console, &page).await;
    releases_when_it_can(&console, &page).await;
    second_operator_sees_the_first(&console, &page).await;
    many_are_decided_and_the_changed_one_is_told(&console, &page).await;
    assert_eq!(page.complaints(), Vec::<String>::new());
}

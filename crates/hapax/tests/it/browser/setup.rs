//! What is set up in the console: API keys, webhooks, retention; each made, told once, and taken back with a reason.

use super::{Console, fill, go, pictures};
use crate::rig::caller;
use hapax_testkit::browser::Page;
use serde_json::json;

/// G10: a key is told once, found by being pasted, and revoked; the secret part stays in the field.
async fn keys_are_made_and_revoked(console: &Console, page: &Page) {
    go(page, "#/keys");
    page.click_text("Create");
    fill(page, "#k-tenant", "acme");
    fill(page, "#k-project", "web");
    fill(page, "#k-subject", "service:ci");
    page.click_text("Create the key");
    page.wait("document.querySelector('dialog .whole')?.innerText.startsWith('hpx_')");
    let key = page.text("document.querySelector('dialog .whole').innerText");
    page.click_text("Done");
    let ask = async || {
        let request = format!(
            "POST /charges HTTP/1.1\r\nhost: edge\r\nauthorization: Bearer {key}\r\nidempotency-key: k\r\ncontent-length: 2\r\n\r\n{{}}"
        );
        caller::send(console.edge.edge, request.as_bytes()).await.unwrap().status
    };
    assert_eq!(ask().await, 201);
    page.press("/");
    page.wait("document.activeElement.id === 'q'");
    page.type_text(&key);
    page.wait("document.querySelectorAll('#leads li').length === 1");
    page.press("Enter");
    page.wait("document.querySelectorAll('tbody tr').length === 1 && document.querySelector('#f-id').value.startsWith('hpx_')");
    let id = page.text("document.querySelector('tbody code').innerText");
    assert!(key.starts_with(&id) && id.len() < key.len());
    page.click(&format!("button[aria-label='Revoke {id}']"));
    fill(page, "#again", &id);
    fill(page, "#why", "it leaked");
    pictures(page, "revoke");
    page.click("dialog .danger");
    page.shows("No such key");
    assert_eq!(ask().await, 401);
    let secret = &key[id.len()..];
    for request in page.events("Network.requestWillBeSent") {
        assert!(!request["request"]["url"].as_str().unwrap().contains(secret));
    }
    assert!(!page.text("location.href + JSON.stringify(Object.entries(sessionStorage)) + JSON.stringify(Object.entries(localStorage))").contains(secret));
}

/// G4: a delivery that was refused says why.
async fn a_refused_delivery_says_why(console: &Console, page: &Page) {
    go(page, "#/webhooks");
    page.click_text("Create");
    page.eval("const one = document.querySelector('#w-provider'); one.value = 'github'; one.dispatchEvent(new Event('change', {bubbles: true}))");
    fill(page, "#w-tenant", "acme");
    fill(page, "#w-project", "web");
    fill(page, "#w-secret", "a-secret-of-the-sender");
    page.click_text("Create the webhook");
    page.wait("document.querySelector('dialog #hook-url')");
    let path = page.text("document.querySelector('dialog #hook-url').innerText");
    page.click_text("Done");
    let body = "{}";
    let delivery = format!(
        "POST {path} HTTP/1.1\r\nhost: edge\r\nx-github-delivery: d-1\r\nx-github-event: push\r\nx-hub-signature-256: sha256={}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        "0".repeat(64),
        body.len()
    );
    let refused = caller::send(console.edge.edge, delivery.as_bytes()).await.unwrap();
    assert_eq!(refused.status, 401, "{refused:?}");
    page.click("tbody a");
    page.wait("document.querySelector('h1')?.innerText.startsWith('github')");
    page.shows(&refused.problem().1);
    pictures(page, "webhook");
}

/// Retention is changed with a reason, and taken back.
async fn retention_is_set_and_taken_back(console: &Console, page: &Page) {
    go(page, "#/retention");
    page.click("button[aria-label='Change interactive']");
    fill(page, "#kept", "48h");
    fill(page, "#why", "callers retry on Mondays");
    page.wait(
        "document.querySelector('dialog .cli code').innerText.includes('retention set interactive 48h')",
    );
    page.click_text("Set interactive");
    page.wait("document.querySelector('tbody').innerText.includes('Mondays')");
    let told = console.edge.ask("GET /v1/retention", "").await.json();
    let class = told["classes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|class| class["class"] == "interactive")
        .unwrap()
        .clone();
    assert_eq!(class["set"]["reason"], json!("callers retry on Mondays"));
    page.click("button[aria-label='interactive as configured']");
    fill(page, "#why", "no more");
    page.click_text("Take back");
    page.wait("!document.querySelector('tbody').innerText.includes('Mondays')");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_webhooks_and_retention_are_set_up_m3() {
    let console = Console::new().await;
    let page = console.at("#/");
    keys_are_made_and_revoked(&console, &page).await;
    a_refused_delivery_says_why(&console, &page).await;
    retention_is_set_and_taken_back(&console, &page).await;
    assert_eq!(page.complaints(), Vec::<String>::new());
}

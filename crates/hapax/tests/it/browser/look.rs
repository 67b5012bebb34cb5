//! How it looks, and who can use it: every screen in both themes under axe-core, at three widths, with pictures; and the states of failing.

use std::path::Path;

use super::safe::every_screen;
use super::{Console, go, picture, pictures};
use hapax_testkit::browser::Page;
use serde_json::{Value, json};

/// axe-core, to be put into a page by the driver: the page's own policy lets nothing in.
fn axe() -> String {
    let folder =
        std::env::var("HAPAX_TEST_NPM").expect("this test needs axe-core from npm: run `cargo xtask test`");
    std::fs::read_to_string(Path::new(&folder).join("node_modules/axe-core/axe.min.js")).unwrap()
}

/// What axe finds wrong, in both themes.
fn violations(page: &Page, axe: &str) -> Vec<String> {
    let mut found = Vec::new();
    for theme in ["light", "dark"] {
        page.theme(theme);
        page.eval(&format!("{}; 0", if page.eval("'axe' in window") == true { "" } else { axe }));
        let told = page.eval("axe.run(document, {resultTypes: ['violations']}).then(told => told.violations.map(one => [one.id, one.nodes.map(node => node.html.slice(0, 160) + ' ' + (node.any[0]?.message ?? ''))]))");
        found.extend(told.as_array().unwrap().iter().map(|one: &Value| format!("{theme}: {one}")));
    }
    page.theme("light");
    found
}

/// Fields and choices that nobody can read or hit, by their ids.
const NARROW: &str = "[...document.querySelectorAll('main input:not([type=checkbox]):not([type=radio]), main select, main textarea, .top select, .top input[type=text]')].filter(one => one.offsetParent && one.getBoundingClientRect().width < 80).map(one => one.id || one.ariaLabel)";

fn name_of(place: &str) -> String {
    let name = place.trim_start_matches("#/").split('?').next().unwrap_or_default().replace('/', "-");
    if name.is_empty() { "start".into() } else { name }
}

/// T18, T19: no violation on any screen in either theme; nothing is wider than a telephone.
fn every_screen_can_be_used(page: &Page, axe: &str) {
    let mut wrong = Vec::new();
    every_screen(page, |place| {
        wrong.extend(violations(page, axe).into_iter().map(|one| format!("{place} {one}")));
        pictures(page, &format!("screen-{}", name_of(place)));
        for width in [1024, 390] {
            page.size(width, 900);
            let over = page
                .eval("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                .as_f64()
                .unwrap();
            if over > 0.0 {
                wrong.push(format!("{place} is {over} px too wide for {width}"));
            }
            if width == 390 {
                let narrow = page.eval(NARROW);
                if narrow != json!([]) {
                    wrong.push(format!("{place} has fields that are too narrow: {narrow}"));
                }
                page.screenshot(&picture(&format!("screen-{}-390", name_of(place))));
            }
        }
        page.size(1440, 1000);
    });
    go(page, "#/keys");
    page.click_text("Create");
    page.wait("document.querySelector('dialog[open]')");
    wrong.extend(violations(page, axe).into_iter().map(|one| format!("dialog {one}")));
    pictures(page, "dialog");
    page.press("Escape");
    page.wait("!document.querySelector('dialog[open]')");
    page.press("?");
    page.wait("document.querySelector('dialog[open]')");
    wrong.extend(violations(page, axe).into_iter().map(|one| format!("help {one}")));
    page.press("Escape");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// T23: each screen says what it is when nothing answers, or the server fails.
fn failing_is_said(page: &Page) {
    page.eval("window.true_ = window.fetch; 0");
    for (how, shown) in [
        (
            "new Response(JSON.stringify({title: 'Planted', detail: 'a planted failure', code: 'internal', status: 500}), {status: 500})",
            "Planted",
        ),
        ("new Response('{\"claims\": [', {status: 200})", "Half an answer"),
    ] {
        page.eval(&format!("window.fetch = async path => {how}; 0"));
        for place in [
            "#/claims",
            "#/audit",
            "#/routes",
            "#/keys",
            "#/retention",
            "#/executions",
            "#/requests",
            "#/schedules",
        ] {
            go(page, "#/nowhere");
            page.shows("No such page");
            go(page, place);
            page.shows(shown);
        }
    }
    pictures(page, "failing");
    page.eval("window.fetch = window.true_; 0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_screen_can_be_used_by_everybody_npm_m3() {
    let axe = axe();
    let console = Console::new().await;
    let page = console.browser.page();
    page.open(&console.url(""));
    page.wait("document.activeElement.id === 'token'");
    assert_eq!(violations(&page, &axe), Vec::<String>::new(), "sign-in");
    let page = console.at("#/");
    // An empty store first.
    every_screen(&page, |place| pictures(&page, &format!("empty-{}", name_of(place))));
    for number in 0..6 {
        console
            .edge
            .post(
                "/charges",
                &format!("order-8820{number}"),
                &json!({"amount": 100 * number}).to_string(),
                "",
            )
            .await;
        console
            .edge
            .post(
                "/charges",
                &format!("order-8820{number}"),
                &json!({"amount": 100 * number}).to_string(),
                "",
            )
            .await;
    }
    console.edge.post("/charges", "order-88201", "{\"amount\":7}", "").await;
    for key in ["order-88213", "order-88214", "order-88219"] {
        console.doubt("/charges", key).await;
    }
    console.doubt("/brief", "invite-51c9-7e").await;
    let key = json!({"tenant": "acme", "project": "web", "subject": "service:ci", "label": "build server", "expires": "90d"});
    assert_eq!(console.edge.ask("POST /v1/keys", &key.to_string()).await.status, 201);
    every_screen_can_be_used(&page, &axe);
    failing_is_said(&page);
}

//! What a hostile text, another origin, a lesser token and another token can do to an operator: nothing.

use super::{Console, READER, fill, go, pictures};
use crate::rig::{TOKEN, Who, caller};
use hapax_testkit::browser::Page;
use serde_json::json;

/// The policy, word for word.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Texts that do harm where they are taken for more than text.
const HOSTILE: [&str; 5] = [
    "<img/src=x/onerror=alert(1)>",
    "'><script>alert(1)</script>",
    "javascript:alert(1)",
    "{{7*7}}${7*7}",
    "=HYPERLINK(1)",
];

const SCREENS: [&str; 19] = [
    "#/",
    "#/attention/in-doubt",
    "#/attention/approvals",
    "#/attention/alerts",
    "#/attention/late",
    "#/attention/damaged",
    "#/claims",
    "#/requests",
    "#/executions",
    "#/receipts/acme",
    "#/lanes",
    "#/webhooks",
    "#/schedules",
    "#/routes",
    "#/keys",
    "#/retention",
    "#/audit",
    "#/instance",
    "#/delegated?tenant=acme",
];

/// Opens every screen, and waits until it stands.
pub(super) fn every_screen(page: &Page, mut look: impl FnMut(&str)) {
    for place in SCREENS {
        go(page, place);
        page.wait("document.querySelectorAll('main h1').length === 1 && !document.querySelector('[aria-busy=true]')");
        look(place);
    }
}

/// T9: hostile keys, bodies and reasons are text on every screen and in exports.
async fn hostile_texts_stay_text(console: &Console, page: &Page) {
    page.eval("window.alert = () => { window.harmed = true; }; 0");
    for text in HOSTILE {
        let headers = [("idempotency-key", text), ("x-do", "cut")];
        let told = console.edge.send(Who("acme", "web", "user:eve"), "POST /printable", &headers, "{}").await;
        assert_eq!(told.problem(), (409, "outcome-unknown".into()), "{text}");
    }
    let claims = console.edge.claims("in_doubt").await;
    for claim in &claims {
        let id = claim["operation_id"].as_str().unwrap();
        let svg = "PHN2ZyBvbmxvYWQ9YWxlcnQoMSk+"; // <svg onload=alert(1)>
        let settle = json!({"status": 200, "headers": {"content-type": "text/html", "x-shown": "<b>bold</b>"}, "body_base64": svg});
        let body = json!({"epoch": claim["epoch"], "reason": format!("{} \u{202e}", claim["key"].as_str().unwrap()), "by": "<i>eve</i>", "settle": settle});
        // One stays in doubt, for the desk.
        if claim["key"] != HOSTILE[0] {
            assert_eq!(
                console.edge.ask(&format!("POST /v1/claims/{id}/resolve"), &body.to_string()).await.status,
                200
            );
        }
    }
    every_screen(page, |place| {
        let strange = "document.querySelectorAll('main img, main script, main svg[onload], main iframe, main [onerror], main b b, main a[href^=\"javascript\"]').length";
        assert_eq!(page.eval(strange), 0, "{place}");
    });
    go(page, "#/claims");
    for text in HOSTILE {
        page.wait(&format!(
            "[...document.querySelectorAll('tbody bdi')].some(one => one.innerText === {})",
            json!(text)
        ));
    }
    go(page, "#/audit");
    page.shows("\\u202E");
    let settled =
        claims.iter().find(|claim| claim["key"] == HOSTILE[1]).unwrap()["operation_id"].as_str().unwrap();
    go(page, &format!("#/claims/{settled}"));
    page.click_text("Show");
    page.shows("<svg onload=alert(1)>");
    page.shows("<b>bold</b>");
    pictures(page, "hostile");
    assert_eq!(page.eval("window.harmed === undefined"), true);
    assert_eq!(page.complaints(), Vec::<String>::new());
}

/// T21: what is exported reads back, and is no formula.
fn exports_are_text(page: &Page) {
    let csv = "const {csv, jsonLines, cell} = await import([...document.scripts].find(one => one.type === 'module').src.replace('main.js', 'export.js'));";
    let run = format!(
        "(async () => {{ {csv} return [csv([['key', one => one.key]], [{{key: '=HYPERLINK(\"x\")'}}, {{key: 'a,b'}}, {{key: '-1'}}]), jsonLines([{{key: '=1'}}], false)]; }})()"
    );
    let told = page.eval(&run);
    assert_eq!(told[0], "key\r\n\"'=HYPERLINK(\"\"x\"\")\"\r\n\"a,b\"\r\n'-1\r\n");
    assert_eq!(told[1], "{\"key\":\"=1\"}\n{\"rows\":1,\"complete\":false}\n");
}

/// T10: the policy is exact, stops what a hole would let in, and nothing is asked of any other origin.
async fn policy_is_exact(console: &Console, page: &Page) {
    for path in ["/", "/v1/me"] {
        let told = console.edge.ask(&format!("GET {path}"), "").await;
        let policy = told.header("content-security-policy").unwrap_or_default();
        assert_eq!(
            policy,
            if path == "/" { POLICY } else { "default-src 'none'; frame-ancestors 'none'; sandbox" },
            "{path}"
        );
        assert_eq!(told.header("x-content-type-options"), Some("nosniff"));
    }
    let stopped =
        "(() => { try { document.body.innerHTML = '<p>'; return false; } catch { return true; } })()";
    assert_eq!(page.eval(stopped), true, "a text becomes no markup");
    let inline = "(() => { const one = document.createElement('script'); try { one.text = 'window.inline = 1'; } catch { } document.head.append(one); return window.inline === undefined; })()";
    assert_eq!(page.eval(inline), true, "an inline script does not run");
    let own = console.url("");
    for request in page.events("Network.requestWillBeSent") {
        let url = request["request"]["url"].as_str().unwrap();
        assert!(url.starts_with(&own) || url.starts_with("blob:") || url == "about:blank", "{url}");
    }
}

/// T11: another origin can neither read nor frame, and another name is refused.
async fn other_origins_are_refused(console: &Console) {
    let strange = |name: &str, value: &str, path: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\n{name}: {value}\r\nauthorization: Bearer {TOKEN}\r\n\r\n",
            console.edge.admin
        )
    };
    for path in ["/", "/v1/me", "/metrics", "/openapi.json"] {
        let renamed =
            format!("GET {path} HTTP/1.1\r\nhost: evil.example\r\nauthorization: Bearer {TOKEN}\r\n\r\n");
        assert_eq!(caller::send(console.edge.admin, renamed.as_bytes()).await.unwrap().status, 421, "{path}");
    }
    let crossed =
        caller::send(console.edge.admin, strange("sec-fetch-site", "cross-site", "/v1/me").as_bytes())
            .await
            .unwrap();
    assert_eq!(crossed.status, 403);
    let linked = caller::send(console.edge.admin, strange("sec-fetch-site", "cross-site", "/").as_bytes())
        .await
        .unwrap();
    assert_eq!(linked.status, 200, "a link in a chat works");
    assert_eq!(
        (linked.header("x-frame-options"), linked.header("access-control-allow-origin")),
        (Some("DENY"), None)
    );
}

/// T12: a token that only reads sees every screen, and each decision says why it is not for this token.
fn reader_decides_nothing(console: &Console) -> Page {
    let page = console.browser.page();
    console.sign_in(&page, "#/", READER);
    every_screen(&page, |place| {
        let decisions = "[...document.querySelectorAll('main button')].filter(one => /Settle|Release|Revoke|Create|Change|Reopen|Purge|Erase/.test(one.innerText) && !one.disabled).map(one => one.innerText)";
        assert_eq!(page.eval(decisions), json!([]), "{place}");
    });
    // What the page does not offer the server refuses, in words.
    let forced = "(async () => { const {post, get} = await import([...document.scripts].find(one => one.type === 'module').src.replace('main.js', 'api.js')); const id = (await get('/v1/claims', {state: 'in_doubt'})).claims[0].operation_id; try { await post(`/v1/claims/${id}/resolve`, {epoch: '1.1', release: true, reason: 'x'}); return 'done'; } catch (problem) { return `${problem.status} ${problem.code} ${problem.detail}`; } })()";
    let told = page.text(forced);
    assert!(told.starts_with("403 forbidden") && told.contains("operate"), "{told}");
    go(&page, "#/claims?state=settled");
    page.click("tbody a");
    page.wait("document.querySelector('h1.key')");
    for request in page.events("Network.requestWillBeSent") {
        assert!(
            !request["request"]["url"].as_str().unwrap().contains("outcome=true"),
            "a kept answer is not fetched"
        );
    }
    go(&page, "#/attention/in-doubt");
    page.shows("Decisions need the role operate");
    page.wait("document.querySelector('input[name=happened]').disabled");
    page.wait("document.querySelector('.btn.primary').title.includes('needs operate')");
    pictures(&page, "reader");
    page
}

/// T13: a token that counts no more leads to the sign-in over the page, and what was typed stays.
fn another_token_is_asked_for_over_the_page(console: &Console, page: &Page) {
    go(page, "#/attention/in-doubt");
    page.wait("document.querySelector('#reason')");
    fill(page, "#reason", "half a sente");
    let place = page.text("location.href");
    std::fs::write(console.ground.folder.path().join("reader.token"), "another-0123456789").unwrap();
    console.edge.reload();
    page.wait("document.querySelector('dialog.sign-in-page[open]')");
    pictures(page, "signed-out");
    page.wait("document.activeElement.id === 'token'");
    page.type_text("another-0123456789");
    page.press("Enter");
    page.wait("!document.querySelector('dialog.sign-in-page[open]')");
    assert_eq!(page.text("location.href"), place);
    assert_eq!(page.text("document.querySelector('#reason').value"), "half a sente");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_texts_other_origins_and_lesser_tokens_do_nothing_m3() {
    let console = Console::new().await;
    let page = console.at("#/");
    hostile_texts_stay_text(&console, &page).await;
    exports_are_text(&page);
    policy_is_exact(&console, &page).await;
    other_origins_are_refused(&console).await;
    let reader = reader_decides_nothing(&console);
    another_token_is_asked_for_over_the_page(&console, &reader);
}

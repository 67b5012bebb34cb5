//! What lives: the chart moves, lists refresh under a person's hands, links lead back to the same place, times are the server's.

use super::{Console, fill, go, pictures};
use crate::rig::Who;
use hapax_testkit::browser::Page;

/// T8: focus, selection, scroll and typed text survive refreshes; stopped or hidden, nothing is sent.
async fn refreshes_leave_hands_alone(console: &Console, page: &Page) {
    for number in 0..4 {
        console.doubt("/charges", &format!("hands-{number}")).await;
    }
    go(page, "#/attention/in-doubt");
    page.wait("document.querySelectorAll('.item').length === 4 && document.querySelector('#body')");
    fill(page, "#body", "{\"half\": ");
    page.click(".item:nth-child(3) input");
    page.eval(
        "document.querySelector('#body').focus(); document.querySelector('#body').setSelectionRange(2, 5)",
    );
    let epoch = page.text("document.querySelector('[data-epoch]').dataset.epoch");
    for number in 4..8 {
        console.doubt("/charges", &format!("hands-{number}")).await;
        page.wait(&format!("document.querySelectorAll('.item').length === {}", number + 1));
    }
    let state = "const body = document.querySelector('#body'); document.activeElement === body && body.value === '{\"half\": ' && body.selectionStart === 2 && body.selectionEnd === 5 && document.querySelectorAll('.item input:checked').length === 1";
    assert_eq!(
        page.eval(&format!("(() => {{ {} }})()", state.replace("; document", "; return document"))),
        true
    );
    assert_eq!(page.text("document.querySelector('[data-epoch]').dataset.epoch"), epoch);

    page.click_text("Live");
    page.wait("document.querySelector('.live').innerText === 'Stopped'");
    let sent = |page: &Page| page.events("Network.requestWillBeSent").len();
    // What was under way comes to its end first.
    page.eval("new Promise(done => setTimeout(done, 300))");
    let before = sent(page);
    page.eval("window.dispatchEvent(new Event('focus')); new Promise(done => setTimeout(done, 10000))");
    assert_eq!(sent(page), before, "stopped means stopped");
    page.click_text("Stopped");
    page.wait("document.querySelector('.live').innerText === 'Live'");
    page.eval("Object.defineProperty(document, 'hidden', {value: true, configurable: true}); document.dispatchEvent(new Event('visibilitychange')); new Promise(done => setTimeout(done, 300))");
    let before = sent(page);
    page.eval("new Promise(done => setTimeout(done, 4500))");
    assert_eq!(sent(page), before, "a hidden page asks nothing");
    page.eval("delete document.hidden; document.dispatchEvent(new Event('visibilitychange')); 0");
}

/// A claim that did not run, and one of which that is not known, are not said to have run.
async fn what_did_not_run_is_not_said_to_have_run(console: &Console, page: &Page) {
    let body = "{\"amount\":77}";
    let mut last = String::new();
    for (key, told, says) in [
        ("sibling-1", "status=503;outcome=release", ""),
        ("sibling-2", "status=503;outcome=release", "and did not run"),
        ("sibling-3", "cut", "and did not run"),
        ("sibling-4", "", "not known to have run"),
    ] {
        let got = console.edge.post("/charges", key, body, told).await;
        let id = got.header("x-operation-id").unwrap_or_else(|| panic!("{got:?}")).to_owned();
        if !says.is_empty() {
            go(page, &format!("#/claims/{id}"));
            page.shows("Two keys are two intents.");
            page.shows(says);
            assert_eq!(
                page.eval("document.querySelector('main').innerText.includes('hapax ran both')"),
                false,
                "{key}"
            );
        }
        last = id;
    }
    assert!(!last.is_empty());
}

/// An open console where nothing happens asks for little: over two samples of the counters, the pulse and nothing else.
fn an_idle_console_asks_for_little(page: &Page) {
    go(page, "#/");
    page.wait("document.querySelector('.chart .column') && !document.querySelector('[aria-busy=true]')");
    page.eval("new Promise(done => setTimeout(done, 12000))");
    let sent = || -> Vec<String> {
        let asked = page.events("Network.requestWillBeSent");
        asked.iter().map(|one| one["request"]["url"].as_str().unwrap().to_owned()).collect()
    };
    let before = sent().len();
    page.eval("new Promise(done => setTimeout(done, 24000))");
    let asked = sent().split_off(before);
    assert!(asked.len() <= 12, "{asked:?}");
    assert!(asked.iter().all(|url| url.contains("/v1/pulse?") && url.contains("after=")), "{asked:?}");
}

/// More shelves than are merged: the list and the search go by shelf, and say so.
async fn many_shelves_are_listed_and_searched(console: &Console, page: &Page) {
    for number in 0..=1_000 {
        let tenant: &'static str = format!("t{number}").leak();
        let who = Who(tenant, "web", "user:alice");
        let headers = [("idempotency-key", format!("many-{number}"))];
        let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        assert_eq!(console.edge.send(who, "POST /charges", &headers, "{}").await.status, 201);
    }
    go(page, "#/claims?key=many-500");
    page.shows("Oldest first: there are more than 1,000 shelves");
    page.wait("document.querySelectorAll('tbody tr').length === 1 && document.querySelector('tbody').innerText.includes('many-500')");
    go(page, "#/claims");
    page.wait("document.querySelectorAll('tbody tr').length >= 50");
    pictures(page, "many-shelves");
    go(page, "#/claims?tenant=t999");
    page.wait("document.querySelectorAll('tbody tr').length === 1 && !document.querySelector('main').innerText.includes('Oldest first')");
    page.wait("document.querySelectorAll('select[aria-label=Tenant] option').length > 1000");
    go(page, "#/instance");
    page.wait("document.querySelector('table caption')?.innerText && document.querySelectorAll('main tbody tr').length > 50");
    assert!(page.eval("document.querySelectorAll('main *').length").as_u64().unwrap() < 2_500);
}

/// T20: every link leads to the same place in a new tab; Back and Forward work; a reload keeps the filters.
fn links_lead_to_the_same_place(page: &Page) {
    let tab = page.tab();
    for (place, shown) in [
        (
            "#/claims?state=settled&operation=charge",
            "document.querySelector('#f-state').value === 'settled' && document.querySelector('#f-operation').value === 'charge'",
        ),
        ("#/audit?verb=purge", "document.querySelector('#f-verb').value === 'purge'"),
        ("#/requests?event=replayed", "document.querySelector('#f-event').value === 'replayed'"),
        ("#/routes/charge", "document.querySelector('h1').innerText === 'charge'"),
        ("#/webhooks", "document.querySelector('h1').innerText === 'Webhooks'"),
        ("#/executions", "document.querySelector('h1').innerText === 'Executions'"),
        ("#/receipts/acme", "document.querySelector('h1').innerText.includes('eceipts')"),
        ("#/instance", "document.querySelector('h1').innerText === 'Instance and store'"),
        ("#/attention/late", "document.querySelector('.tabs [aria-current]').innerText.includes('Late')"),
    ] {
        let url = page.text("location.href.split('#')[0]") + place;
        tab.open("about:blank");
        tab.open(&url);
        tab.wait(shown);
        assert_eq!(tab.text("location.href"), url);
        tab.call("Page.reload", serde_json::json!({}));
        tab.wait(&format!("performance.getEntriesByType('navigation')[0].type === 'reload' && {shown}"));
    }
    go(&tab, "#/keys");
    tab.wait("document.querySelector('h1').innerText === 'API keys'");
    tab.eval("history.back()");
    tab.wait("location.hash === '#/attention/late' && document.querySelector('.tabs')");
    tab.eval("history.forward()");
    tab.wait("document.querySelector('h1').innerText === 'API keys'");
}

/// T3: the same request under another key is named on the claim's page; a true retry is not.
async fn charged_twice_is_seen(console: &Console, page: &Page) {
    let body = "{\"amount\":4990}";
    let first = console.edge.post("/charges", "order-7", body, "").await;
    assert!(console.edge.post("/charges", "order-7", body, "").await.is_replay());
    let id = first.header("x-operation-id").unwrap();
    go(page, &format!("#/claims/{id}"));
    page.shows("it ran under this key alone");
    assert_eq!(console.edge.post("/charges", "order-7-again", body, "").await.status, 201);
    page.eval("location.hash = '#/claims'");
    page.wait("document.querySelector('h1')?.innerText === 'Claims'");
    go(page, &format!("#/claims/{id}"));
    page.shows("The same request came under another key.");
    page.shows("order-7-again");
    page.shows("and was executed too (201)");
    page.shows("hapax ran both");
    page.shows("Settled by the holder: 201");
    // The kept answer is told when it is asked for.
    page.click_text("Show");
    page.shows("to {\"amount\":4990}");
    pictures(page, "claim");
}

/// T7: what is sent shows in the columns and lanes, and agrees with the metrics.
async fn chart_moves(console: &Console, page: &Page) {
    go(page, "#/");
    page.wait("document.querySelector('.chart .column')");
    let sum = "[...document.querySelectorAll('.chart .column')].reduce((all, one) => all + Number(one.dataset.executed ?? 0), 0)";
    let lane = "Number(document.querySelector('[data-lane=mismatch]').dataset.sum)";
    let before = (page.eval(sum).as_f64().unwrap(), page.eval(lane).as_f64().unwrap());
    for number in 0..20 {
        assert_eq!(console.edge.post("/charges", &format!("moves-{number}"), "{}", "").await.status, 201);
    }
    for _ in 0..5 {
        assert_eq!(console.edge.post("/charges", "moves-0", "{\"other\":1}", "").await.status, 422);
    }
    page.wait(&format!("{sum} >= {} && {lane} >= {}", before.0 + 20.0, before.1 + 5.0));
    page.wait(
        "[...document.querySelectorAll('.card table')].some(one => one.innerText.includes('/charges'))",
    );
    page.eval("document.querySelector('.chart[tabindex]').focus()");
    page.press("ArrowLeft");
    page.wait("document.querySelector('.chart .tip')");
    pictures(page, "overview");
    // A step leads to the claims that it opened, a tile to the callers behind it.
    let busy = "[...document.querySelectorAll('.chart .column')].findLastIndex(one => Number(one.dataset.executed) > 0)";
    page.eval(&format!("document.querySelectorAll('.chart .hit')[{busy}].dispatchEvent(new MouseEvent('click', {{bubbles: true}})); 0"));
    page.wait("location.hash.startsWith('#/claims?opened_after=') && document.querySelector('tbody tr[data-operation-id]')");
    go(page, "#/requests?event=mismatch");
    page.shows("the key was used for another request");
    page.wait("[...document.querySelectorAll('tbody tr')].some(row => row.innerText.includes('/charges'))");
}

/// T17: times by the server's clock, and in the zone that was chosen.
fn times_are_the_servers(page: &Page) {
    page.call("Emulation.setTimezoneOverride", serde_json::json!({"timezoneId": "Asia/Kathmandu"}));
    go(page, "#/claims");
    page.wait("document.querySelector('tbody time')");
    let offset = "(() => { const time = document.querySelector('tbody time'); return [time.innerText.slice(-8), time.dateTime.slice(11, 19)]; })()";
    let told = page.eval(offset);
    assert_eq!(told[0], told[1], "UTC first");
    page.press("z");
    page.wait("document.querySelector('.seg [aria-pressed=true]').innerText === 'Local'");
    // A row that has just come hears of the zone a moment later.
    page.wait("(() => { const time = document.querySelector('tbody time'); return time.innerText.slice(-8) !== time.dateTime.slice(11, 19); })()");
    let minutes =
        |text: &str| -> i32 { text[..2].parse::<i32>().unwrap() * 60 + text[3..5].parse::<i32>().unwrap() };
    let told = page.eval(offset);
    let (shown, utc) = (minutes(told[0].as_str().unwrap()), minutes(told[1].as_str().unwrap()));
    assert_eq!((shown - utc).rem_euclid(24 * 60), 5 * 60 + 45);
    page.press("z");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_lives_under_an_operators_hands_m3() {
    let console = Console::new().await;
    let page = console.at("#/");
    refreshes_leave_hands_alone(&console, &page).await;
    charged_twice_is_seen(&console, &page).await;
    chart_moves(&console, &page).await;
    links_lead_to_the_same_place(&page);
    times_are_the_servers(&page);
    what_did_not_run_is_not_said_to_have_run(&console, &page).await;
    an_idle_console_asks_for_little(&page);
    many_shelves_are_listed_and_searched(&console, &page).await;
    assert_eq!(page.complaints(), Vec::<String>::new());
}

//! Upstreams of kind `restate` and routes to their handlers: what they mean, what is shown, and what is refused (D1).

use hapax_gateway::settings::{Classify, ObjectKey};

use super::{Folder, loaded};

const CLUSTER: &str = "[upstreams.engine]\nkind = \"restate\"\ningress = [\"http://10.0.0.1:8080\", \"http://10.0.0.2:8080\"]\n\
                       admin = \"http://10.0.0.1:9070\"\n";

fn route(path: &str, name: &str, more: &str) -> String {
    format!(
        "[[routes]]\nmethod = \"POST\"\npath = \"{path}\"\noperation = \"{name}\"\npolicy = \"REQUIRED_A\"\nupstream = \"engine\"\n{more}\n"
    )
}

fn told(text: &str) -> String {
    Folder::new(&[]).load_as_is(text).unwrap_err().to_string()
}

#[test]
fn a_route_to_a_handler_is_read_and_shown_as_it_was_written_d1() {
    let handler = "restate = { service = \"Payments\", handler = \"charge\", envelope = true }";
    let account = "restate = { service = \"Account\", handler = \"add\", key = \"{id}\" }";
    let text =
        format!("{CLUSTER}{}{}", route("/pay", "pay", handler), route("/accounts/{id}/add", "add", account));
    let config = loaded(&text);
    let [pay, add] = &config.settings.routes[..] else { panic!("two routes") };
    let cluster = pay.upstream.cluster.as_ref().unwrap();
    assert_eq!((cluster.ingress.len(), cluster.admin.len(), cluster.classify), (2, 1, Classify::Exact));
    let handler = pay.handler.as_ref().unwrap();
    assert_eq!(
        (handler.service.as_str(), handler.name.as_str(), handler.envelope),
        ("Payments", "charge", true)
    );
    let key = add.handler.as_ref().unwrap().key.clone();
    assert_eq!(key, Some(ObjectKey::Segment { number: 1, name: "id".into() }));
    let shown = config.to_toml();
    for part in [
        "kind = \"restate\"",
        "classify = \"exact\"",
        "handler = \"charge\"",
        "key = \"{id}\"",
        "suspend_after = 5",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert!(!shown.contains("rerun"), "{shown}");
}

#[test]
fn what_a_cluster_cannot_do_is_refused_where_it_is_written_d1() {
    let handler = "restate = { service = \"S\", handler = \"h\" }";
    for (more, tells) in [
        ("", "`restate` is missing"),
        ("restate = { service = \"S\" }", "`handler` is missing"),
        ("restate = { service = \"a/b\", handler = \"h\" }", "`service` cannot be"),
        ("restate = { service = \"S\", handler = \"h?delay=1s\" }", "`handler` cannot be"),
        ("restate = { service = \"S\", handler = \"h\", key = \"{other}\" }", "no segment of the path"),
        ("restate = { service = \"S\", handler = \"h\", key = \"id\" }", "`key` cannot be"),
        ("restate = { service = \"S\", handler = \"h\", key = \"/id\", input = \"none\" }", "without a body"),
        ("restate = { service = \"S\", handler = \"run\", key = \"{id}\", workflow = true }", "takes no key"),
        ("restate = { service = \"S\", handler = \"h\", workflow = true }", "`key` is missing"),
        (&format!("{handler}\nrerun = \"safe\""), "`rerun` has no effect on a route to a cluster"),
        (&format!("{handler}\nkeep = \"fact\""), "`keep` has no effect"),
        (&format!("{handler}\ngive_up = \"1h\""), "`give_up` has no effect"),
        (&format!("{handler}\ncolour = 1"), "is no field"),
    ] {
        let text = told(&format!("{CLUSTER}{}", route("/a/{id}", "a", more)));
        assert!(text.contains(tells), "{tells}: {text}");
    }
    let one = route("/a", "a", handler);
    let text = told(&format!("{CLUSTER}{one}{}", route("/b", "b", handler)));
    assert!(text.contains("is the handler of `a`, too"), "{text}");
    let other = route("/b", "b", "restate = { service = \"S\", handler = \"other\" }\nretention = \"3d\"");
    assert!(told(&format!("{CLUSTER}{one}{other}")).contains("the service S is kept as"));
    let http = "[upstreams.engine]\nurl = \"http://h\"\n";
    assert!(told(&format!("{http}{one}")).contains("`restate` has no effect"));
    let marker = format!(
        "{CLUSTER}classify = \"marker\"\n{}",
        route("/a", "a", &format!("{handler}\nattach = \"reject\""))
    );
    assert!(told(&marker).contains("`attach = \"reject\"` needs"));
    for more in ["retention = \"forever\"", "retention = \"kept\""] {
        let text = told(&format!(
            "[retention]\nkept = \"forever\"\n{CLUSTER}{}",
            route("/a", "a", &format!("{handler}\n{more}"))
        ));
        assert!(text.contains("a cluster keeps nothing for ever"), "{text}");
    }
    for (more, tells) in [
        ("headers = [\"Authorization\"]\n", "would be kept in the journal"),
        ("headers = [\"X-Restate-Id\"]\n", "is written by hapax itself"),
        ("headers = [\"Idempotency-Key\"]\n", "is written by hapax itself"),
        ("retry = { max_attempts = 2, on_exhausted = \"pause\" }\n", "`on_exhausted` has no effect"),
        ("url = \"http://h\"\n", "`url` is no field"),
        ("suspend_after = 0\n", "`suspend_after` cannot be 0"),
    ] {
        let text = told(&format!("{CLUSTER}{more}{one}"));
        assert!(text.contains(tells), "{tells}: {text}");
    }
    assert!(told(&format!("[upstreams.engine]\nkind = \"restate\"\n{one}")).contains("`ingress` is missing"));
}

#[test]
fn deliveries_go_to_a_handler_in_place_of_a_path_w5() {
    let to =
        "[webhooks]\nupstream = \"engine\"\nrestate = { service = \"Hooks\", handler = \"{provider}\" }\n";
    let config = loaded(&format!("{CLUSTER}{to}"));
    let webhooks = config.settings.webhooks.as_ref().unwrap();
    assert_eq!(webhooks.route.handler.as_ref().unwrap().name, "{provider}");
    assert!(config.to_toml().contains("handler = \"{provider}\""));
    for field in ["path = \"/in\"", "rerun = \"unsafe\"", "keep = \"fact\""] {
        assert!(told(&format!("{CLUSTER}{to}{field}\n")).contains("has no effect on deliveries"), "{field}");
    }
    // What a service keeps is one span, whoever leads to it.
    let one = route("/a", "a", "restate = { service = \"Hooks\", handler = \"h\" }\nretention = \"7d\"");
    loaded(&format!("{CLUSTER}{to}{one}"));
    let other = one.replace("7d", "8d");
    assert!(told(&format!("{CLUSTER}{to}{other}")).contains("the service Hooks is kept as"));
    let forever = told(&format!("{CLUSTER}{to}retention = \"forever\"\n"));
    assert!(forever.contains("a cluster keeps nothing for ever"), "{forever}");
    let none = "[webhooks]\nupstream = \"engine\"\n";
    assert!(told(&format!("{CLUSTER}{none}")).contains("`restate` is missing"));
}

/// Whoever runs handlers decides whether they are told who asks, and hapax says it.
#[test]
fn handlers_may_be_told_who_asks_a5() {
    let one = route("/a", "a", "restate = { service = \"S\", handler = \"h\" }");
    let named = "headers = [\"X-Tenant-Id\", \"x-project-id\", \"x-subject\"]\n";
    let config = loaded(&format!("{CLUSTER}{named}{one}"));
    let cluster = config.settings.routes[0].upstream.cluster.as_ref().unwrap();
    let names: Vec<_> = cluster.headers.iter().map(|name| name.as_str()).collect();
    assert_eq!(names, ["x-tenant-id", "x-project-id", "x-subject"]);
    // The level is nothing that a handler is told.
    assert!(told(&format!("{CLUSTER}headers = [\"x-level\"]\n{one}")).contains("is written by hapax itself"));
}

#[test]
fn one_round_trip_is_told_of_when_a_configuration_is_checked_d4() {
    let handler = "restate = { service = \"S\", handler = \"h\" }";
    let config = loaded(&format!("{CLUSTER}classify = \"marker\"\n{}", route("/a", "a", handler)));
    assert!(
        config.notices.iter().any(|notice| notice.contains("may get one answer")),
        "{:?}",
        config.notices
    );
}

//! `[webhooks]`: what it means, what is shown of it, and what is refused (W).

use super::{Folder, loaded};

const PLAIN: &str =
    "[upstreams.pay]\nurl = \"http://h\"\n[webhooks]\nupstream = \"pay\"\npath = \"/in/{provider}\"\n";

fn told(text: &str) -> String {
    Folder::new(&[]).load_as_is(text).unwrap_err().to_string()
}

#[test]
fn deliveries_are_kept_for_a_week_and_may_run_again_unless_said_otherwise_w6() {
    let config = loaded(PLAIN);
    let webhooks = config.settings.webhooks.as_ref().unwrap();
    assert_eq!(
        (webhooks.prefix.as_str(), &*webhooks.route.path),
        ("/webhooks", "/webhooks/{provider}/{webhook_id}")
    );
    assert_eq!(webhooks.rule.rerun, hapax_core::Rerun::Safe);
    let shown = config.to_toml();
    for line in
        ["[webhooks]", "retention = \"7d\"", "rerun = \"safe\"", "give_up = \"15m\"", "upstream = \"pay\""]
    {
        assert!(shown.contains(line), "{line} in {shown}");
    }
}

#[test]
fn a_retention_shorter_than_a_providers_window_is_a_mistake_w6() {
    let short = format!("{PLAIN}retention = \"6d\"\n");
    let mistake = told(&short);
    assert!(
        mistake.contains("github") && mistake.contains("7d") && mistake.contains("`enabled`"),
        "{mistake}"
    );
    loaded(&format!("{short}enabled = [\"stripe\", \"slack\"]\n"));
    assert!(told(&format!("{PLAIN}retention = \"2d\"\nenabled = [\"stripe\"]\n")).contains("stripe"));
    let declared =
        "[webhooks.providers.acme]\nheader = \"X-S\"\nidentifier = { header = \"X-Id\" }\nwindow = \"30d\"\n";
    assert!(told(&format!("{PLAIN}{declared}")).contains("acme"));
}

#[test]
fn a_declared_provider_is_checked_and_shown_w2() {
    let declared = "[webhooks.providers.acme]\nheader = \"X-Acme-Signature\"\nsigned = \"{timestamp}.{body}\"\n\
                    timestamp_header = \"X-Time\"\nidentifier = { json = \"/id\" }\nidentifier_signed = true\n";
    let shown = loaded(&format!("{PLAIN}{declared}")).to_toml();
    assert!(shown.contains("signed = \"{timestamp}.{body}\"") && shown.contains("json = \"/id\""), "{shown}");
    for (from, to, tells) in [
        ("timestamp_header = \"X-Time\"\n", "", "`timestamp_header` go together"),
        ("identifier_signed = true\n", "", "identifier_signed"),
        ("{ json = \"/id\" }", "{ json = \"/id\", form = \"id\" }", "one of `header`, `json` and `form`"),
        ("{ json = \"/id\" }", "{ json = \"id\" }", "`json`"),
        ("providers.acme", "providers.stripe", "built in"),
        ("providers.acme", "providers.Acme", "is no name of a provider"),
        ("\"X-Time\"", "\"a b\"", "`timestamp_header`"),
    ] {
        let mistake = told(&format!("{PLAIN}{}", declared.replace(from, to)));
        assert!(mistake.contains(tells), "{tells}: {mistake}");
    }
}

#[test]
fn deliveries_come_where_nothing_else_does_p2() {
    let route = "[[routes]]\nmethod = \"POST\"\npath = \"/webhooks/{a}/{b}\"\npolicy = \"PROHIBITED\"\nupstream = \"pay\"\n";
    assert!(told(&format!("{PLAIN}{route}")).contains("overlaps POST /webhooks/{a}/{b}"));
    loaded(&format!("{PLAIN}{}", route.replace("POST", "GET")));
    assert!(told(&PLAIN.replace("{provider}", "{tenant}")).contains("only {provider} and {webhook_id}"));
    assert!(told(&format!("{PLAIN}public_url = \"https://h/x\"\n")).contains("`public_url`"));
    assert!(told(&format!("{PLAIN}enabled = [\"acme\"]\n")).contains("there is no provider \"acme\""));
    assert!(told(&format!("{PLAIN}wait = \"20m\"\n")).contains("`give_up`"));
}

#[test]
fn ids_that_another_service_knows_need_that_service_and_a_store_of_secrets_a7() {
    let mistake = told(&format!("{PLAIN}verify = true\n"));
    assert!(mistake.contains("[auth.verify]") && mistake.contains("[webhooks.kv]"), "{mistake}");
    let kv = "[webhooks.kv]\nurl = \"http://127.0.0.1:8200\"\ntoken_file = \"token\"\n";
    let mistake = told(&format!("{PLAIN}verify = true\n{kv}"));
    assert!(mistake.contains("[auth.verify]") && !mistake.contains("[webhooks.kv]"), "{mistake}");
    assert!(loaded(PLAIN).to_toml().contains("verify = false"));
}

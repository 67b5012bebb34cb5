//! `[actions]`, `[connectors]` and `[trust]`: what they mean, what is shown of them, and what is refused, with its line (X, P5).

use hapax_agent::actions::receipts::Args;
use hapax_agent::actions::{Decision, KeyDialect};

use super::{Folder, PLAIN_ROUTE, Rerun, environment, load, loaded};
use crate::config::{Config, Connector, Reached};

const SHOP: &str = "[connectors.shop]\nkind = \"http\"\nurl = \"http://127.0.0.1:9\"\n\
                    [connectors.shop.tools.\"orders.hold\"]\nmethod = \"POST\"\npath = \"/orders/{order}/hold\"\n";
const RULE: &str =
    "[trust]\n[[trust.rules]]\nname = \"holds\"\nwhen = 'tool == \"orders.hold\"'\ndecision = \"ALERT\"\n";

/// The mistakes, without the folder's name.
fn told(text: &str) -> Vec<String> {
    let mistakes =
        Folder::new(&[]).load_as_is(&format!("{text}\n{PLAIN_ROUTE}")).map(|_| ()).expect_err(text);
    mistakes
        .iter()
        .map(|mistake| mistake.to_string().rsplit_once("hapax.toml:").unwrap().1.to_owned())
        .collect()
}

#[track_caller]
fn one(text: &str, place: &str, parts: &[&str]) {
    let told = told(text);
    assert_eq!(told.len(), 1, "{text}\n{told:#?}");
    assert!(told[0].starts_with(&format!("{place}: ")), "{text}\n{told:#?}");
    parts.iter().for_each(|part| assert!(told[0].contains(part), "{part:?}: {told:#?}"));
    assert!(told[0].contains("; "), "there is no remedy: {told:#?}");
}

#[track_caller]
fn instead(text: &str, from: &str, to: &str, place: &str, parts: &[&str]) {
    assert!(text.contains(from), "{from}");
    one(&text.replace(from, to), place, parts);
}

#[test]
fn a_configuration_with_every_section_loads_as_it_stands_and_is_shown_so_that_it_means_the_same() {
    let folder = Folder::new(&[]);
    let path = folder.0.path().join("hapax.toml");
    std::fs::write(&path, include_str!("whole.toml")).unwrap();
    let env = |name: &str| match name {
        "HAPAX_SCHEDULE_SECRET" => Some("a secret of the tests, long enough".to_owned()),
        name => environment(name),
    };
    let config = load(&path, &env).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let (tenant, project) = config.actions.whose.clone().unwrap();
    assert_eq!((tenant.as_str(), project.as_str()), ("acme", "health-prod"));
    let Connector::Http(magento) = &config.connectors["magento"] else { panic!("{:?}", config.connectors) };
    assert_eq!(
        (magento.url.as_str(), magento.key, magento.tools.len()),
        ("http://127.0.0.1:9000", KeyDialect::Chars64, 2)
    );
    let (hold, get) = (&magento.tools["orders.hold"], &magento.tools["orders.get"]);
    assert_eq!(
        (hold.tool.rerun, hold.tool.read_only, hold.path.as_str()),
        (Rerun::Unsafe, false, "/orders/{order}/hold")
    );
    assert!(get.tool.read_only);
    let decided: Vec<_> = config.trust.rules.iter().map(|rule| (rule.name.as_str(), rule.decision)).collect();
    assert_eq!(
        decided,
        [("large refunds are blocked", Decision::Block), ("holds are watched", Decision::Alert)]
    );
    assert_eq!(config.trust.default, Decision::Allow);
    let shown = config.to_toml();
    assert!(shown.contains("[connectors.magento.tools.\"orders.hold\"]"), "{shown}");
    // What is shown of these sections means the same.
    let own = shown.split_once("[actions]").unwrap().1;
    let again = loaded(&format!("[actions]{own}"));
    let agents = |config: &Config| {
        let json = config.to_json();
        ["actions", "connectors", "trust"].map(|section| json[section].clone())
    };
    assert_eq!(agents(&again), agents(&config));
    assert_eq!((&again.connectors, &again.trust.rules), (&config.connectors, &config.trust.rules));
}

#[test]
fn a_connector_says_how_its_tools_are_called() {
    let config = loaded(&format!(
        "{SHOP}vendor_key = true\ngive_up = \"90s\"\n[connectors.shop.headers]\nX-Shop = \"web\"\n\
         [connectors.crm]\nkind = \"http\"\nurl = \"https://crm.example/v1\"\nupstream_key = \"digest\"\ndigest_chars = 40\ntoken_env = \"SECRET\"\n\
         [connectors.crm.tools.note]\nmethod = \"PUT\"\npath = \"/notes\"\nrerun = \"safe\"\ndestructive = false\n\
         [connectors.git]\nkind = \"mcp\"\ncommand = \"uvx\"\nargs = [\"mcp-server-git\"]\npass_env = [\"HOME\"]\nenv = {{ TOKEN = \"a secret\" }}\n\
         [connectors.git.tools.git_commit]\nrerun = \"unsafe\"\n\
         [connectors.web]\nkind = \"mcp\"\nurl = \"https://mcp.example/mcp\"\ntrusted = true\n\
         [actions]\nreceipts = \"full\"\ninclude_result = true\n[trust]\ndefault = \"BLOCK\""
    ));
    let Connector::Http(shop) = &config.connectors["shop"] else { panic!("{:?}", config.connectors) };
    let hold = &shop.tools["orders.hold"];
    assert_eq!((hold.tool.rerun, hold.vendor_key, hold.tool.give_up.as_secs()), (Rerun::Safe, true, 90));
    let Connector::Http(crm) = &config.connectors["crm"] else { panic!("{:?}", config.connectors) };
    assert_eq!((crm.key, crm.tools["note"].tool.destructive), (KeyDialect::Chars40, false));
    assert_eq!(crm.token.as_ref().unwrap().reveal(), environment("SECRET").unwrap());
    let Connector::Mcp(git) = &config.connectors["git"] else { panic!("{:?}", config.connectors) };
    assert!(matches!(&git.reached, Reached::Command { command, .. } if command == "uvx"));
    assert_eq!((git.trusted, git.tools["git_commit"].rerun), (false, Some(Rerun::Unsafe)));
    let Connector::Mcp(web) = &config.connectors["web"] else { panic!("{:?}", config.connectors) };
    assert!(web.trusted && matches!(&web.reached, Reached::Url { .. }));
    assert_eq!((config.actions.receipts, config.actions.include_result), (Args::Full, true));
    let shown = config.to_toml();
    assert!(!shown.contains("a secret"), "{shown}");
    assert_eq!(config.trust.gate.default_decision(), Decision::Block);
}

#[test]
fn tools_without_a_gate_are_told_of() {
    let notices = loaded(SHOP).notices;
    assert!(notices.iter().any(|notice| notice.contains("there is no [trust]")), "{notices:?}");
    assert!(loaded(&format!("{SHOP}{RULE}")).notices.iter().all(|notice| !notice.contains("[trust]")));
}

#[test]
fn what_a_connector_cannot_be_is_told_with_its_line() {
    instead(SHOP, "\"http\"", "\"soap\"", "2:8", &["`kind`"]);
    instead(SHOP, "kind = \"http\"\n", "", "1:1", &["`kind` is missing"]);
    instead(SHOP, "url = \"http://127.0.0.1:9\"\n", "", "1:1", &["`url` is missing"]);
    instead(SHOP, "http://127", "ftp://127", "3:7", &["`url`"]);
    instead(SHOP, "\"POST\"", "\"post\"", "5:10", &["`method`", "use GET"]);
    instead(SHOP, "{order}", "{order", "6:8", &["`path`", "{name}"]);
    instead(SHOP, "path = \"/orders/{order}/hold\"\n", "", "4:1", &["`path` is missing"]);
    instead(SHOP, "path =", "rerun = \"maybe\"\npath =", "6:9", &["`rerun`"]);
    instead(SHOP, "path =", "read_only = true\nrerun = \"safe\"\npath =", "7:9", &["`rerun` has no effect"]);
    instead(SHOP, "path =", "vendor_key = true\nrerun = \"unsafe\"\npath =", "7:9", &["`vendor_key` makes"]);
    instead(SHOP, "path =", "colour = 1\npath =", "6:1", &["`colour` is no field"]);
    instead(SHOP, "kind =", "digest_chars = 12\nkind =", "2:16", &["`digest_chars` cannot be 12"]);
    instead(
        SHOP,
        "kind =",
        "headers = { Idempotency-Key = \"x\" }\nkind =",
        "2:13",
        &["written by hapax itself"],
    );
    instead(SHOP, "kind =", "headers = { Authorization = \"x\" }\nkind =", "2:13", &["`token_env`"]);
    instead(SHOP, "kind =", "token_env = \"NOT_SET\"\nkind =", "2:13", &["NOT_SET is not set"]);
    one("[connectors.shop]\nkind = \"http\"\nurl = \"http://h\"\n", "1:1", &["has no tools"]);
    one("[connectors.Shop]\nkind = \"mcp\"\nurl = \"http://h\"\n", "1:13", &["is no name of a connector"]);
    one("[connectors.git]\nkind = \"mcp\"\n", "1:1", &["nothing says how"]);
    one("[connectors.git]\nkind = \"mcp\"\ncommand = \"a\"\nurl = \"http://h\"\n", "4:7", &["both written"]);
    one(
        "[connectors.git]\nkind = \"mcp\"\nurl = \"http://h\"\nargs = [\"a\"]\n",
        "4:8",
        &["no effect on a URL"],
    );
    one("[actions]\nas = { tenant = \"acme\" }\n", "2:6", &["`project` is missing"]);
    one("[actions]\nreceipts = \"all\"\n", "2:12", &["`receipts`"]);
}

#[test]
fn a_rule_that_does_not_compile_is_told_with_its_place_x6() {
    instead(RULE, "'tool == \"orders.hold\"'", "'tool == '", "4:8", &["line 1, column 9 of the rule", "CEL"]);
    instead(RULE, "'tool ==", "'tol ==", "4:8", &["no variable is called \"tol\""]);
    let deep = format!("'{}true{}'", "(".repeat(10_000), ")".repeat(10_000));
    instead(RULE, "'tool == \"orders.hold\"'", &deep, "4:8", &["at most 4 KiB"]);
    let deep = format!("'{}true{}'", "(".repeat(2_000), ")".repeat(2_000));
    instead(RULE, "'tool == \"orders.hold\"'", &deep, "4:8", &["column 33 of the rule", "at most 32 deep"]);
    instead(RULE, "\"ALERT\"", "\"WARN\"", "5:12", &["`decision`", "\"ALERT\""]);
    instead(RULE, "name = \"holds\"\n", "", "2:1", &["`name` is missing"]);
    one(&format!("{RULE}{}", RULE.replace("[trust]\n", "")), "7:8", &["two rules are called"]);
    one("[trust]\ndefault = \"allow\"\n", "2:11", &["`default`"]);
}

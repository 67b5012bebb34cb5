//! Configurations that are right, and every kind of mistake.

use std::path::Path;
use std::time::Duration;

use hapax_core::json::Pointer;
use hapax_core::{Grammar, Policy, Recipe, Rerun, Retention, Width};
use hapax_exec::Attach;
use hapax_gateway::settings::{JwtAlgorithm, JwtKeys, Level, OnExhausted, UpstreamKey};
use hapax_tower::{IdentifierPlace, KeyPlace, Keys};
use http::HeaderName;

use super::fields::{self, Fields, Of};
use super::*;

mod actions;
mod cluster;
mod mistakes;
mod page;
mod rows;
mod schedules;
mod webhooks;

/// Environment variables of the tests.
fn environment(name: &str) -> Option<String> {
    let value = match name {
        "SECRET" => "a secret of the tests, more than 32 bytes long",
        "SHORT" => "short",
        "SEAL" => "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "OLD_SEAL" => "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHi8=",
        "HEADERS" => "a=1",
        "OTHER_HEADERS" => "a=2",
        "EMPTY" => "",
        "BROKEN" => "one\ntwo",
        "HAPAX_JWT_SECRET" | "HAPAX_ADMIN_TOKEN" => "given",
        _ => return None,
    };
    Some(value.to_owned())
}

/// A JWKS with one public key for ES256 (RFC 7517, A.1).
const JWKS: &str = r#"{"keys": [{"kty": "EC", "crv": "P-256", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
    "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM", "use": "sig"}]}"#;

/// A certificate and its key, as PEM.
fn certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

/// A folder with a configuration and whatever lies beside it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Folder(folder)
    }

    /// Loads a configuration; one that is about something else than routes gets one of those behind it.
    fn load(&self, text: &str) -> Result<Config, Mistakes> {
        match ["routes", "openapi"].iter().any(|section| text.contains(section)) {
            true => self.load_as_is(text),
            false => self.load_as_is(&format!("{text}\n{PLAIN_ROUTE}")),
        }
    }

    fn load_as_is(&self, text: &str) -> Result<Config, Mistakes> {
        let path = self.0.path().join("hapax.toml");
        std::fs::write(&path, text).unwrap();
        load(&path, &environment)
    }
}

/// A route that takes no keys.
const PLAIN_ROUTE: &str = "[[routes]]\nmethod = \"GET\"\npath = \"/of-the-tests\"\npolicy = \"PROHIBITED\"\n\
                           upstream = \"of-the-tests\"\n[upstreams.of-the-tests]\nurl = \"http://127.0.0.1:9\"\n";

fn loaded(text: &str) -> Config {
    Folder::new(&[]).load(text).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// A configuration with one keyed route that has these fields, too.
fn with_route(more: &str) -> String {
    format!(
        "[upstreams.pay]\nurl = \"http://127.0.0.1:9000\"\n\
         [[routes]]\nmethod = \"POST\"\npath = \"/pay\"\nupstream = \"pay\"\noperation = \"pay\"\n{more}\n"
    )
}

fn rule(more: &str) -> hapax_tower::Rule {
    let config = loaded(&with_route(&format!("policy = \"ACCEPTED\"\n{more}")));
    config.settings.routes[0].rule.as_deref().unwrap().clone()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hapax.toml");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_example_loads_and_means_what_it_says_p5() {
    let config = loaded(&example());
    let Settings { edge, routes, auth, upstreams, tenants, webhooks: _ } = &config.settings;
    assert_eq!(edge.listen.to_string(), "127.0.0.1:8080");
    assert_eq!((routes.len(), upstreams.len(), tenants.held), (4, 1, 1000));
    let jwt = auth.jwt.as_ref().unwrap();
    assert!(matches!(&jwt.keys, JwtKeys::Secret(secret) if secret == b"given"));
    assert_eq!(jwt.algorithms, [JwtAlgorithm::Hs256]);
    assert!(auth.api_keys && auth.trusted.is_empty());
    let pay = routes[0].rule.as_ref().unwrap();
    assert_eq!((routes[0].policy, pay.rerun), (Policy::RequiredA, Rerun::Unsafe));
    assert_eq!(pay.retention, Retention::For(seconds(7 * 86_400)));
    assert_eq!((pay.timeout, pay.give_up, pay.max_run), (seconds(10), seconds(900), seconds(3600)));
    assert_eq!(routes[1].rule.as_ref().unwrap().retention, Retention::For(seconds(86_400)));
    assert_eq!(routes[2].reconcile.as_deref(), Some("/internal/refunds/reconcile"));
    assert!(routes[3].rule.is_none());
    assert_eq!(config.declared[0].retention_class.as_deref(), Some("critical"));
    assert!(
        config.store.url.ends_with("/data") && config.store.url.starts_with("embedded:/"),
        "{}",
        config.store.url
    );
    assert_eq!(config.admin.tokens[0].token.as_ref().unwrap().reveal(), "given");
}

#[test]
fn a_configuration_that_says_nothing_else_lets_nobody_in() {
    let config = loaded("");
    assert_eq!(config.settings.edge.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:8081");
    assert_eq!(config.api, None);
    assert!(config.admin.tokens.is_empty() && config.seal.is_empty());
    assert!(config.notices[0].contains("lets nobody in"), "{:?}", config.notices);
}

#[test]
fn keys_that_nobody_could_make_while_it_serves_are_told_a2() {
    let told = |text: &str| loaded(text).notices.iter().any(|notice| notice.contains("no admin token"));
    assert!(told("[auth.api_keys]"));
    assert!(!told("[admin]\ntoken_env = \"SHORT\"\n[auth.api_keys]"));
    assert!(!told("[auth.api_keys]\nenabled = false"), "there are no keys to make");
}

#[test]
fn defaults_are_those_of_the_rules_h5_k8_l10() {
    let unsafe_route = rule("");
    assert_eq!((unsafe_route.rerun, unsafe_route.width), (Rerun::Unsafe, Width::Subject));
    assert_eq!((unsafe_route.timeout, unsafe_route.give_up), (seconds(10), seconds(900)));
    assert_eq!(unsafe_route.retention, Retention::For(seconds(86_400)));
    assert_eq!(unsafe_route.attach, Attach::Wait(seconds(30)));
    assert_eq!(unsafe_route.mismatch_status, 422);
    assert_eq!(unsafe_route.derived, None);
    let safe = rule("rerun = \"safe\"\ntimeout = \"4s\"");
    assert_eq!((safe.timeout, safe.give_up), (seconds(4), seconds(4)), "a safe call ends with the wait");
    let slow = rule("timeout = \"20m\"");
    assert_eq!((slow.timeout, slow.give_up), (seconds(1200), seconds(1200)));
    let long = rule("give_up = \"3h\"");
    assert_eq!(long.max_run, seconds(3 * 3600), "the lease outlives the call");
}

#[test]
fn a_route_says_everything_else() {
    let rule = rule(
        "scope = \"tenant\"\nrerun = \"safe\"\nquiet = \"30s\"\nmax_run = \"2h\"\ndoubt = { after = \"7d\", then = \"forget\" }\n\
         fingerprint = \"json\"\nignore = [\"/a\"]\nfingerprint_headers = [\"X-Kind\"]\nretention = \"forever\"\nkeep = \"head\"\n\
         on_5xx = \"doubt\"\nattach = \"reject\"\nmismatch_status = 409\ntimeout = \"1s\"\ngive_up = \"1m\"\n\
         max_request_body = \"64KiB\"\nmax_kept_response = \"2MiB\"\nkey_from = \"fingerprint\"\nwindow = \"5m\"",
    );
    assert_eq!((rule.width, rule.quiet, rule.max_run), (Width::Tenant, seconds(30), seconds(7200)));
    assert_eq!(rule.recipe.id(), {
        let pointer = hapax_core::json::Pointer::new("/a").unwrap();
        Recipe::json_ignoring([pointer]).unwrap().with_headers(["x-kind"]).unwrap().id()
    });
    assert_eq!((rule.retention, rule.attach), (Retention::Forever, Attach::Reject));
    assert_eq!((rule.keep, rule.on_5xx), (hapax_tower::Keep::Head, Some(hapax_tower::On5xx::Doubt)));
    assert_eq!((rule.max_request_body, rule.max_kept_response), (65_536, 2 << 20));
    assert_eq!((rule.mismatch_status, rule.derived), (409, Some(seconds(300))));
    assert_eq!(rule.doubt.unwrap().after, seconds(7 * 86_400));
}

#[test]
fn routes_take_what_the_edge_and_the_upstream_say() {
    let text = format!(
        "[edge]\nattach_timeout = \"7s\"\nmax_request_body = \"2KiB\"\nmismatch_status = 409\n{}",
        with_route("policy = \"REQUIRED_A\"")
            .replace("[[routes]]", "timeout = \"3s\"\ngive_up = \"2m\"\n[[routes]]")
    );
    let config = loaded(&text);
    let rule = config.settings.routes[0].rule.as_ref().unwrap();
    assert_eq!((rule.attach, rule.max_request_body), (Attach::Wait(seconds(7)), 2048));
    assert_eq!((rule.mismatch_status, rule.timeout, rule.give_up), (409, seconds(3), seconds(120)));
}

#[test]
fn routes_of_a_tenant_or_of_the_platform_prohibit_keys_unless_they_say_otherwise_p1() {
    for level in ["tenant", "platform"] {
        let text = with_route(&format!("level = \"{level}\""));
        let route = &loaded(&text).settings.routes[0];
        assert_eq!(route.policy, Policy::Prohibited);
        assert_ne!(route.level, Level::Project);
        assert!(route.rule.is_none());
    }
    let said = loaded(&with_route("level = \"tenant\"\npolicy = \"REQUIRED_A\""));
    assert!(said.settings.routes[0].rule.is_some());
}

#[test]
fn a_route_says_where_its_keys_stand_k1_k2() {
    let keys = |more: &str| {
        let route = &loaded(&with_route(&format!("policy = \"REQUIRED_A\"\n{more}"))).settings.routes[0];
        route.rule.as_ref().unwrap().keys.clone()
    };
    let header = |name| KeyPlace::Header(HeaderName::from_static(name));
    let json = |text: &str| KeyPlace::Json(Pointer::new(text).unwrap());
    assert_eq!(keys(""), Keys::default());
    assert_eq!(keys("key = { header = \"X-Idempotency-Key\" }").places, [header("x-idempotency-key")]);
    assert_eq!(keys("key = { json = \"/idempotency_key\" }").places, [json("/idempotency_key")]);
    let several = keys(
        "key = [{ header = \"PayPal-Request-Id\" }, { header = \"Idempotency-Key\" }, { json = \"/a/key\" }]\n\
         key_grammar = \"printable\"",
    );
    assert_eq!(
        several.places,
        [header("paypal-request-id"), json("/a/key")],
        "its own header is read anyway"
    );
    assert_eq!(several.grammar, Grammar::Printable);
}

#[test]
fn an_upstream_says_how_it_is_called_k4_p6() {
    let config = loaded(
        "[upstreams.a]\nkind = \"http\"\nurl = \"https://pay.example/v1/\"\nupstream_key = \"digest\"\ndigest_chars = 40\n\
         retry = { max_attempts = 3, backoff = \"1s\", on_exhausted = \"pause\" }\nconnect_timeout = \"1s\"\nmax_connections = 7\n",
    );
    let upstream = &config.settings.upstreams["a"];
    assert!(upstream.https);
    assert_eq!((upstream.host.as_str(), upstream.port, upstream.base.as_str()), ("pay.example", 443, "/v1"));
    assert_eq!((upstream.key, upstream.max_connections), (UpstreamKey::Digest(40), 7));
    assert_eq!((upstream.retry.max_attempts, upstream.retry.on_exhausted), (3, OnExhausted::Pause));
    assert!(upstream.reuse);
    let alone = loaded("[upstreams.a]\nurl = \"http://pay.example\"\nreuse = false\n");
    assert!(!alone.settings.upstreams["a"].reuse);
    assert!(alone.to_toml().contains("\nreuse = false\n"), "{}", alone.to_toml());
}

#[test]
fn secrets_come_from_variables_and_files_and_are_not_shown_b9() {
    let folder = Folder::new(&[("token", "from-a-file\n"), ("jwks.json", JWKS)]);
    let config = folder
        .load(
            "[admin]\ntoken_file = \"token\"\n[seal]\nkey_env = [\"SEAL\", \"OLD_SEAL\"]\n\
             [auth.jwt]\nalgorithms = [\"ES256\", \"EdDSA\"]\njwks_file = \"jwks.json\"\n\
             [auth.verify]\nurl = \"https://keys.example/verify\"\ntoken_env = \"SECRET\"\n\
             [auth.trusted_headers]\nfrom = [\"10.0.0.0/8\", \"::1\"]\n",
        )
        .unwrap();
    assert_eq!(config.admin.tokens[0].token.as_ref().unwrap().reveal(), "from-a-file");
    assert_eq!((config.seal.len(), config.seal[0].0[31], config.seal[1].0[31]), (2, 0x1f, 0x2f));
    assert!(
        matches!(&config.settings.auth.jwt.as_ref().unwrap().keys, JwtKeys::File(path) if path.is_absolute())
    );
    assert_eq!(config.settings.auth.trusted[1].to_string(), "::1/128");
    let shown = format!("{config:?}{}{}", config.to_toml(), config.to_json());
    for secret in ["from-a-file", "a secret of the tests", "000102", "AAECAw"] {
        assert!(!shown.contains(secret), "{secret}");
    }
    assert!(config.to_toml().contains("token = \"(set)\""), "{}", config.to_toml());
}

#[test]
fn the_environment_names_the_store_before_the_file_does_b1() {
    let folder = Folder::new(&[]);
    let path = folder.0.path().join("hapax.toml");
    let text = format!("[store]\nurl = \"embedded:./data\"\nlease = \"5s\"\n{PLAIN_ROUTE}");
    std::fs::write(&path, text).unwrap();
    let env = |name: &str| (name == "HAPAX_STORE").then(|| "postgres://u:p@h/d".to_owned());
    let config = load(&path, &env).unwrap();
    assert_eq!((config.store.url.as_str(), config.store.lease), ("postgres://u:p@h/d", seconds(5)));
    assert!(config.to_toml().contains("postgres://u:(set)@h/d"));
    let wrong = |name: &str| (name == "HAPAX_STORE").then(|| "redis://h".to_owned());
    let mistakes = load(&path, &wrong).unwrap_err().to_string();
    assert!(mistakes.contains("HAPAX_STORE") && !mistakes.contains("redis"), "{mistakes}");
}

#[test]
fn a_spool_lies_where_the_file_says_or_beside_its_store_or_beside_the_file_l15() {
    let folder = Folder::new(&[]);
    for (store, expected) in [
        ("url = \"embedded:./data\"", "data/spool"),
        ("url = \"postgres://u@h/d\"", "hapax-spool"),
        ("url = \"postgres://u@h/d\"\nspool = \"waiting/here\"", "waiting/here"),
        ("url = \"embedded:./data\"\nspool = \"waiting\"", "waiting"),
    ] {
        let config = folder
            .load(&format!("[store]\n{store}\n{PLAIN_ROUTE}"))
            .unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let spool = config.store.spool(&config.file);
        assert_eq!(spool, folder.0.path().join(expected), "{store}");
        assert!(
            config.to_toml().contains(&format!("spool = \"{}\"", spool.display())),
            "{}",
            config.to_toml()
        );
    }
    let mistakes = folder.load(&format!("[store]\nspool = \"\"\n{PLAIN_ROUTE}")).unwrap_err().to_string();
    assert!(mistakes.contains("`spool` is empty"), "{mistakes}");
}

#[test]
fn what_is_shown_reads_back_as_the_same() {
    let folder = Folder::new(&[("ca.pem", ""), ("c", ""), ("k", "")]);
    let text = format!(
        "retired = [\"gone\"]\n[store]\nurl = \"memory:\"\n[admin]\ntoken_env = \"SHORT\"\n[edge]\nthreads = 3\ncors = {{ origins = [\"https://a.example\"], credentials = true }}\n{}",
        with_route(
            "policy = \"REQUIRED_A\"\nrerun = \"ask\"\nreconcile = \"/r\"\nretention = \"90m\"\nwas = [\"newer\", \"old\"]\n\
             doubt = { after = \"1d\", then = \"release\" }\nfingerprint_headers = [\"b\", \"a\"]\n\
             key = [{ header = \"X-Key\" }, { json = \"/key\" }]\nkey_grammar = \"printable\"\n\
             [[routes]]\nmethod = \"GET\"\npath = \"/x\"\npolicy = \"PROHIBITED\"\nlenient = true\nupstream = \"pay\"\n\
             [upstreams.more]\nurl = \"http://[::1]/b\"\nupstream_key = \"digest\"\n\
             [auth.api_keys]\n[auth.trusted_headers]\nfrom = [\"127.0.0.1\"]"
        )
    );
    let first = folder.load(&text).unwrap();
    let written = first.to_toml().replace("token = \"(set)\"", "token_env = \"SHORT\"");
    let again = folder.load(&written).unwrap_or_else(|mistakes| panic!("{mistakes}\n{}", first.to_toml()));
    assert_eq!(first.to_toml(), again.to_toml());
    assert_eq!(first.to_json(), again.to_json());
    assert!(again.settings.edge.cors.as_ref().unwrap().credentials);
    let identity = |config: &Config| {
        let rule = config.settings.routes[0].rule.as_ref().unwrap();
        (rule.operation.clone(), rule.width, rule.recipe.id())
    };
    assert_eq!(identity(&again), identity(&first));
    assert_eq!((again.retired[0].as_str(), identity(&again).0.as_str()), ("gone", "old"));
}

#[test]
fn what_a_reload_cannot_change_is_known_by_name_p5() {
    let (cert, key) = certificate();
    let folder = Folder::new(&[("c", &cert), ("k", &key)]);
    let plain = folder.load("").unwrap();
    let key = "0101010101010101010101010101010101010101010101010101010101010101";
    std::fs::write(folder.0.path().join("seal"), key).unwrap();
    for (text, names) in [
        (
            "[edge]\nlisten = \"127.0.0.1:1\"\nthreads = 77\nmax_connections = 7",
            "edge.listen, edge.threads, edge.max_connections",
        ),
        (
            "[edge]\nheader_timeout = \"7s\"\nidle_timeout = \"7s\"\ndocs = \"https://d.example/\"",
            "edge.header_timeout, edge.idle_timeout, edge.docs",
        ),
        ("[edge]\nmax_connections_per_address = 7", "edge.max_connections_per_address"),
        ("[edge.tls]\ncert = \"c\"\nkey = \"k\"", "edge.tls"),
        ("[admin]\nlisten = \"127.0.0.1:1\"\ntoken_env = \"SHORT\"", "admin.listen"),
        ("[admin]\nhosts = [\"hapax.internal\"]\ntoken_env = \"SHORT\"", "admin.hosts"),
        ("[api]\nlisten = \"127.0.0.1:2\"", "api"),
        ("[store]\nurl = \"memory:\"\nlease = \"7s\"\nspool = \"s\"", "store.url, store.lease, store.spool"),
        ("[seal]\nkey_file = \"seal\"", "seal"),
        ("[log]\nformat = \"text\"\nlevel = \"warn\"", "log.format, log.level"),
        ("[traces]\nendpoint = \"http://127.0.0.1:4318\"", "traces"),
        // What a reload does change.
        ("[edge]\ndrain_timeout = \"7s\"\nbody_rate = \"7B\"\nmax_buffered = \"7MiB\"\nmax_detached = 7", ""),
        ("[edge]\noperations_prefix = \"/o\"\nmax_request_body = \"7B\"\n[edge.cors]\norigins = [\"*\"]", ""),
        ("[admin]\ntoken_env = \"SHORT\"\n[auth.api_keys]\n[tenants]\nheld = 7\n[retention]\nx = \"1h\"", ""),
        (&with_route("policy = \"REQUIRED_A\""), ""),
    ] {
        let changed = folder.load(text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!(changed.fixed_since(&plain).join(", "), names, "{text}");
        assert_eq!(changed.fixed_since(&changed), [""; 0], "{text}");
    }
}

#[test]
fn applications_are_served_where_the_section_for_them_is_m1() {
    let api = |text: &str| loaded(text).api.unwrap();
    assert_eq!(api("[api]\n").listen.to_string(), "127.0.0.1:8082");
    let said = api("[api]\nlisten = \"127.0.0.1:7\"\nhosts = [\"hapax.internal\"]\n");
    assert_eq!((said.listen.to_string(), said.hosts), ("127.0.0.1:7".into(), vec!["hapax.internal".into()]));
    let notices = loaded("[api]\n").notices;
    assert!(!notices.iter().any(|notice| notice.contains("[api]")), "{notices:?}");
}

#[test]
fn an_identifier_is_the_key_of_a_route_that_is_required_b_p1() {
    for (written, place, shown) in [
        (
            "{ header = \"X-Delivery-Id\" }",
            IdentifierPlace::Header("x-delivery-id".into()),
            "header = \"x-delivery-id\"",
        ),
        (
            "{ json = \"/event/id\" }",
            IdentifierPlace::Json(Pointer::new("/event/id").unwrap()),
            "json = \"/event/id\"",
        ),
        ("{ form = \"EventId\" }", IdentifierPlace::Form("EventId".into()), "form = \"EventId\""),
    ] {
        let config = loaded(&with_route(&format!("policy = \"REQUIRED_B\"\nidentifier = {written}")));
        let rule = config.settings.routes[0].rule.as_ref().unwrap();
        assert_eq!(rule.keys.identifier.as_ref(), Some(&place));
        assert_eq!(rule.source(), hapax_core::Source::Transport);
        let toml = config.to_toml();
        assert!(
            toml.contains(&format!("identifier = {{ {shown} }}")) && !toml.contains("key_grammar"),
            "{toml}"
        );
    }
}

#[test]
fn every_known_field_is_read() {
    let mut sections = Vec::new();
    page::all(&fields::ROOT, &mut sections);
    for section in sections {
        // Of two kinds, each has fields that the other one has not.
        let mut kinds: Vec<_> = section.rows.iter().filter_map(|row| only(row.of)).collect();
        kinds.extend(kinds.is_empty().then_some(""));
        if section.section == "connectors.<name>.tools.<name>" {
            kinds.push("mcp");
        }
        for (kind, field) in
            kinds.iter().flat_map(|kind| section.names(kind).map(move |field| (*kind, field)))
        {
            let text = document_with(section, kind, field);
            let mistakes = Folder::new(&[]).load_as_is(&text).expect_err(&text);
            let told = mistakes.iter().any(|mistake| {
                mistake.what.contains(&format!("`{field}`")) && mistake.what.contains("a date or time")
            });
            assert!(told, "{}.{field} is not read:\n{text}\n{mistakes}", section.section);
        }
    }
}

fn only(of: Of) -> Option<&'static str> {
    match of {
        Of::Only(kind) => Some(kind),
        _ => None,
    }
}

/// A configuration in which one field of something of this kind has a value that none can have.
fn document_with(section: &Fields, kind: &str, field: &str) -> String {
    let value = "1979-05-27";
    let (parent, name) = section.section.rsplit_once('.').unwrap_or(("", section.section));
    match section.section {
        "" => format!("{field} = {value}\n"),
        "routes" => format!("[[routes]]\npolicy = \"ACCEPTED\"\n{field} = {value}\n")
            .replace(if field == "policy" { "policy = \"ACCEPTED\"\n" } else { "never" }, ""),
        "routes.doubt" => format!("[[routes]]\npolicy = \"ACCEPTED\"\ndoubt = {{ {field} = {value} }}\n"),
        "routes.identifier" => {
            format!("[[routes]]\npolicy = \"REQUIRED_B\"\nidentifier = {{ {field} = {value} }}\n")
        }
        "routes.key" => format!("[[routes]]\npolicy = \"ACCEPTED\"\nkey = {{ {field} = {value} }}\n"),
        "routes.restate" => format!(
            "[upstreams.a]\nkind = \"restate\"\ningress = \"http://h\"\nadmin = \"http://h\"\n\
             [[routes]]\npolicy = \"ACCEPTED\"\nupstream = \"a\"\nrestate = {{ {field} = {value} }}\n"
        ),
        "upstreams.<name>" if kind == "restate" && field != "kind" => {
            format!("[upstreams.a]\nkind = \"restate\"\n{field} = {value}\n")
        }
        "connectors.<name>" if kind == "mcp" && field != "kind" => {
            format!("[connectors.a]\nkind = \"mcp\"\n{}{field} = {value}\n", mcp_beside(field))
        }
        "connectors.<name>.tools.<name>" => {
            format!(
                "[connectors.a]\nkind = \"{kind}\"\nurl = \"http://h\"\n[connectors.a.tools.a]\n{field} = {value}\n"
            )
        }
        "trust.rules" => format!("[[trust.rules]]\n{field} = {value}\n"),
        "openapi" => format!("[[openapi]]\n{field} = {value}\n"),
        "schedules" => format!("[[schedules]]\n{field} = {value}\n"),
        "schedules.as" => format!("[[schedules]]\nas = {{ {field} = {value} }}\n"),
        _ if parent.is_empty() => format!("[{name}]\n{field} = {value}\n"),
        _ => format!("[{}]\n{field} = {value}\n", section.section.replace("<name>", "a")),
    }
}

/// What makes a server of tools that is reached as this field wants it.
fn mcp_beside(field: &str) -> &'static str {
    match field {
        "args" | "env" | "pass_env" => "command = \"c\"\n",
        "headers" | "token_env" | "token_file" => "url = \"http://h\"\n",
        _ => "",
    }
}

#[test]
fn a_fingerprint_of_nothing_on_a_path_with_a_parameter_gives_a_notice_k7() {
    let told = |path: &str, fingerprint: &str| {
        let text = with_route(&format!("policy = \"REQUIRED_A\"\nfingerprint = \"{fingerprint}\""));
        let notices = loaded(&text.replace("/pay\"", &format!("{path}\""))).notices;
        notices.into_iter().filter(|notice| notice.contains("fingerprint")).collect::<Vec<_>>()
    };
    let notices = told("/orders/{id}/refund", "none");
    assert!(notices.len() == 1 && notices[0].contains("hapax.toml:9:15: "), "{notices:?}");
    assert!(notices[0].contains("/orders/{id}/refund"), "{notices:?}");
    assert!(told("/orders", "none").is_empty());
    assert!(told("/orders/{id}/refund", "raw").is_empty());
}

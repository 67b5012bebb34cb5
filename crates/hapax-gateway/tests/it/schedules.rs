//! Requests that are signed as a schedule's (A4, K9, S2): whose they are, and everything that does not make them so.

use std::time::UNIX_EPOCH;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use hapax_core::{Inspect as _, Policy};
use hapax_gateway::auth::scheduled::{Secrets, SigningInput};
use hapax_gateway::settings::{Fixed, Route, Settings, UpstreamKey};
use http::Method;

use crate::world::{Got, World, change_rule};

const SECRET: &str = "a secret of schedules";
const OLD: &str = "the secret before it";

fn take(settings: &mut Settings) {
    settings.auth.schedules = Some(Secrets::new([SECRET.as_bytes(), OLD.as_bytes()]).unwrap());
}

fn now() -> u64 {
    UNIX_EPOCH.elapsed().unwrap().as_secs()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A request as its sender signs it, and as it is sent: what is signed may be something else.
#[derive(Clone)]
struct Tick {
    secret: String,
    time: u64,
    method: &'static str,
    path: &'static str,
    tenant: &'static str,
    project: &'static str,
    key: String,
    body: &'static str,
}

impl Default for Tick {
    fn default() -> Self {
        Tick {
            secret: SECRET.into(),
            time: now(),
            method: "POST",
            path: "/charges",
            tenant: "acme",
            project: "web",
            key: "sched.nightly.1700000000000".into(),
            body: "{\"amount\":1}",
        }
    }
}

impl Tick {
    /// Written from the specification, not by the code under test.
    fn signature(&self) -> String {
        let body = hex(digest(&SHA256, self.body.as_bytes()).as_ref());
        let Tick { time, method, path, tenant, project, key, .. } = self;
        let text = format!("v1\n{time}\n{method}\n{path}\n{tenant}\n{project}\n{key}\n{body}");
        let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, self.secret.as_bytes()), text.as_bytes());
        format!("t={time},d={body},v1={}", hex(mac.as_ref()))
    }
}

impl World {
    /// Sends this request under that signature.
    async fn tick(&self, tick: &Tick, signature: &str, more: &[(&str, &str)]) -> Got {
        let mut headers = vec![
            ("idempotency-key", tick.key.as_str()),
            ("x-tenant-id", tick.tenant),
            ("x-project-id", tick.project),
            ("x-schedule-signature", signature),
            ("content-type", "application/json"),
        ];
        headers.extend(more);
        self.ask(&format!("{} {}", tick.method, tick.path), "", &headers, tick.body).await
    }

    async fn signed(&self, tick: &Tick) -> Got {
        self.tick(tick, &tick.signature(), &[]).await
    }

    async fn claims(&self) -> Vec<hapax_core::Record> {
        self.store.list(&Default::default(), None, 100).await.unwrap().items
    }
}

#[tokio::test]
async fn a_signed_tick_comes_in_as_the_scheduler_runs_once_and_is_answered_again_a4() {
    let world = World::with(take).await;
    let tick = Tick::default();
    let first = world.signed(&tick).await;
    assert_eq!((first.status, first.is_replay()), (201, false), "{}", first.text());
    let again = world.signed(&Tick { time: now() - 299, ..tick.clone() }).await;
    assert_eq!((again.status, again.is_replay(), again.text()), (201, true, first.text()));
    assert_eq!(world.service.count(), 1);
    let arrived = world.service.last();
    assert_eq!(
        arrived.header("idempotency-key").as_deref(),
        Some("t-acme:web:service:scheduler:sched.nightly.1700000000000")
    );
    assert_eq!(arrived.header("x-subject").as_deref(), Some("service:scheduler"));
    assert_eq!(arrived.header("x-schedule-signature"), None, "it is good for five minutes more");
    let claims = world.claims().await;
    assert_eq!((claims.len(), claims[0].identity.key().as_str()), (1, tick.key.as_str()));
    // Another body under the key is another request, signed or not.
    let other = world.signed(&Tick { body: "{\"amount\":2}", ..tick }).await;
    assert_eq!((other.status, other.code().as_str()), (422, "key-reused"));
}

#[tokio::test]
async fn what_the_program_signs_is_what_the_specification_says_s2() {
    let tick = Tick::default();
    let method = Method::POST;
    let unsigned = SigningInput {
        method: &method,
        target: tick.path,
        tenant: tick.tenant,
        project: tick.project,
        key: &tick.key,
        body: tick.body.as_bytes(),
    };
    let one = Secrets::new([SECRET.as_bytes()]).unwrap();
    assert_eq!(one.sign(&unsigned, tick.time), tick.signature());
    let both = Secrets::new([SECRET.as_bytes(), OLD.as_bytes()]).unwrap().sign(&unsigned, tick.time);
    let old = Tick { secret: OLD.into(), ..tick.clone() }.signature();
    assert_eq!(both, format!("{},v1={}", tick.signature(), old.rsplit_once("v1=").unwrap().1));
    assert!(
        Secrets::new([b"".as_slice()]).is_err() && Secrets::new([]).is_err(),
        "an empty secret signs nothing"
    );
    // While a secret is changed, each of several signatures is looked at, and the secret before is believed.
    let world = World::with(take).await;
    assert_eq!(world.tick(&tick, &old, &[]).await.status, 201);
    let unknown = Tick { secret: "unknown".into(), ..tick.clone() }.signature();
    let several = format!("{unknown},v1={}", tick.signature().rsplit_once("v1=").unwrap().1);
    assert!(world.tick(&tick, &several, &[]).await.is_replay());
}

#[tokio::test]
async fn the_colon_form_counts_with_a_signature_alone_and_is_the_same_key_k9() {
    let world = World::with(take).await;
    let plain = Tick::default();
    let colons = Tick { key: "sched:nightly:1700000000000".into(), ..plain.clone() };
    assert_eq!(world.signed(&colons).await.status, 201);
    assert!(world.signed(&plain).await.is_replay());
    let quoted = world
        .tick(&Tick { key: format!("\"{}\"", plain.key), ..plain.clone() }, &plain.signature(), &[])
        .await;
    assert!(quoted.is_replay(), "quotes do not belong to the key: {}", quoted.text());
    assert_eq!(world.service.count(), 1);
    for key in [
        "nightly.1",
        "sched.",
        "sched:nightly",
        "sched:nightly:x",
        "t-acme:web:user:a:sched.x.1",
        "sched.a b",
    ] {
        let bad = world.signed(&Tick { key: key.into(), ..plain.clone() }).await;
        assert_eq!((bad.status, bad.code().as_str()), (400, "key-malformed"), "{key}");
    }
    assert_eq!((world.service.count(), world.claims().await.len()), (1, 1));
}

/// Wherever a key is read from, none of a caller is taken for a tick's (K9).
#[tokio::test]
async fn unsigned_keys_of_ticks_are_refused_on_every_route_and_in_every_place_k9() {
    let world = World::with(|settings| {
        take(settings);
        settings.auth.trusted = vec!["127.0.0.0/8".parse().unwrap()];
        settings.auth.fixed = Fixed {
            tenant: Some(hapax_core::Tenant::new("acme").unwrap()),
            project: Some(hapax_core::Project::new("web").unwrap()),
        };
        change_rule(settings, "raw", |rule| {
            let json = hapax_tower::KeyPlace::Json(hapax_core::json::Pointer::new("/key").unwrap());
            let header = hapax_tower::KeyPlace::Header(http::HeaderName::from_static("x-other-key"));
            rule.keys = hapax_tower::key::Keys {
                places: vec![header, json],
                grammar: hapax_core::Grammar::Printable,
                ..Default::default()
            };
        });
        let open = settings.routes.iter().find(|route| &*route.path == "/charges").unwrap();
        settings.routes.push(Route { path: "/public".into(), public: true, recall: false, ..open.clone() });
        let rule = settings.routes.last_mut().unwrap().rule.as_mut().unwrap();
        std::sync::Arc::make_mut(rule).operation = hapax_core::Operation::new("public").unwrap();
        // Where an Idempotency-Key has no effect.
        let open = settings.routes.iter().find(|route| &*route.path == "/charges").unwrap().clone();
        for (path, policy) in [
            ("/lenient", Policy::Prohibited),
            ("/own", Policy::HandlerInternalC),
            ("/identified", Policy::RequiredB),
        ] {
            let route =
                Route { path: path.into(), policy, lenient: true, recall: false, rule: None, ..open.clone() };
            settings.routes.push(route);
        }
    })
    .await;
    let who = [("x-tenant-id", "acme"), ("x-project-id", "web"), ("x-subject", "user:alice")];
    for key in ["sched.nightly.1", "\"sched.nightly.1\"", "sched:nightly:1"] {
        for line in [
            "POST /charges",
            "POST /raw",
            "POST /orders/1/notes",
            "POST /public",
            "POST /lenient",
            "POST /own",
            "POST /identified",
        ] {
            let own = [&who[..], &[("idempotency-key", key)]].concat();
            let got = world.ask(line, "", &own, "{}").await;
            assert_eq!(
                (got.status, got.code().as_str()),
                (400, "key-reserved"),
                "{line} {key}: {}",
                got.text()
            );
        }
        let elsewhere = [&who[..], &[("x-other-key", key)]].concat();
        assert_eq!(world.ask("POST /raw", "", &elsewhere, "{}").await.code(), "key-reserved");
        if !key.starts_with('"') {
            let body = format!("{{\"key\": \"{key}\"}}");
            assert_eq!(world.ask("POST /raw", "", &who, &body).await.code(), "key-reserved", "{body}");
        }
    }
    // A peer that may speak for others does not sign for a schedule either.
    for key in [
        "t-acme:web:user:alice:sched.nightly.1",
        "t-acme:web:service:scheduler:sched.nightly.1",
        "t-acme:web:_any:sched.nightly.1",
    ] {
        let got = world.ask("POST /charges", "", &[("idempotency-key", key)], "{}").await;
        assert_eq!((got.status, got.code().as_str()), (400, "key-reserved"), "{key}: {}", got.text());
    }
    // On a public route no credentials are looked at, a signature neither.
    let public = Tick { path: "/public", ..Tick::default() };
    assert_eq!(world.signed(&public).await.code(), "key-reserved");
    // Nor is there such a key to be recalled.
    let recalled = world.ask("GET /charges/by-idempotency-key/sched.nightly.1", "", &who, "").await;
    assert_eq!(recalled.status, 404);
    assert_eq!((world.service.count(), world.claims().await.len()), (0, 0));
    // Behind a trusted address a signed tick is still the scheduler's.
    assert_eq!(world.signed(&Tick::default()).await.status, 201);
    assert_eq!(world.service.last().header("x-subject").as_deref(), Some("service:scheduler"));
}

#[tokio::test]
async fn every_bad_signature_is_refused_alike_counted_and_goes_nowhere_s2() {
    let world = World::with(take).await;
    let good = Tick::default();
    let signature = good.signature();
    let mut bad: Vec<(String, Tick, String)> = Vec::new();
    let mut add = |what: &str, tick: Tick, signature: String| bad.push((what.to_owned(), tick, signature));
    add("another body", Tick { body: "{\"amount\":2}", ..good.clone() }, signature.clone());
    add("no body", Tick { body: "", ..good.clone() }, signature.clone());
    add("another path", Tick { path: "/raw", ..good.clone() }, signature.clone());
    add("another query", Tick { path: "/charges?a=1", ..good.clone() }, signature.clone());
    add("another method", Tick { method: "PUT", path: "/charges", ..good.clone() }, signature.clone());
    add("another tenant", Tick { tenant: "globex", ..good.clone() }, signature.clone());
    add("another project", Tick { project: "app", ..good.clone() }, signature.clone());
    add("another key", Tick { key: "sched.nightly.1700000000001".into(), ..good.clone() }, signature.clone());
    add("another secret", good.clone(), Tick { secret: "other".into(), ..good.clone() }.signature());
    add("an empty secret", good.clone(), Tick { secret: String::new(), ..good.clone() }.signature());
    add("stale", good.clone(), Tick { time: now() - 310, ..good.clone() }.signature());
    add("from the future", good.clone(), Tick { time: now() + 310, ..good.clone() }.signature());
    add(
        "another time",
        good.clone(),
        signature.replacen(&format!("t={}", good.time), &format!("t={}", good.time + 1), 1),
    );
    add("no time", good.clone(), signature.split_once(',').unwrap().1.to_owned());
    add("two times", good.clone(), format!("t={},{signature}", good.time));
    add("no signature", good.clone(), signature.rsplit_once(',').unwrap().0.to_owned());
    add("no digest", good.clone(), format!("t={},v1={}", good.time, signature.rsplit_once("v1=").unwrap().1));
    add("nothing", good.clone(), String::new());
    add("an upper-case signature", good.clone(), signature.to_uppercase());
    add(
        "a tenant that is none",
        Tick { tenant: "Acme!", ..good.clone() },
        Tick { tenant: "Acme!", ..good.clone() }.signature(),
    );
    add(
        "a level for a project",
        Tick { project: "_tenant", ..good.clone() },
        Tick { project: "_tenant", ..good.clone() }.signature(),
    );
    // Every hexadecimal digit of digest and signature, changed.
    for (at, byte) in signature.bytes().enumerate().filter(|(at, _)| *at > 13) {
        if byte.is_ascii_hexdigit() && !signature[..at].ends_with('v') {
            let other = if byte == b'0' { '1' } else { '0' };
            let changed = format!("{}{other}{}", &signature[..at], &signature[at + 1..]);
            add(&format!("digit {at}"), good.clone(), changed);
        }
    }
    let mut told = None;
    for (what, tick, signature) in &bad {
        let got = world.tick(tick, signature, &[]).await;
        if tick.method == "PUT" {
            assert_eq!(got.status, 405, "the edge has no such route");
            continue;
        }
        assert_eq!((got.status, got.code().as_str()), (401, "signature-invalid"), "{what}: {}", got.text());
        let shape = (got.body.clone(), got.all("www-authenticate").len());
        assert_eq!(told.get_or_insert(shape.clone()), &shape, "{what}: one shape");
    }
    // Two credentials are none.
    let bearer = format!("Bearer {}", world.alice);
    let got = world.tick(&good, &signature, &[("authorization", &bearer)]).await;
    assert_eq!(got.code(), "signature-invalid");
    let got = world.tick(&good, &signature, &[("x-schedule-signature", &signature)]).await;
    assert_eq!(got.code(), "signature-invalid", "two signatures in two lines");
    let counted = bad.len() - 1 + 2;
    let line = format!("hapax_schedule_signatures_refused_total {counted}\n");
    let metrics = world.gateway.metrics().render();
    assert!(metrics.contains(&line), "{line} {metrics}");
    assert_eq!((world.service.count(), world.claims().await.len()), (0, 0));
    assert_eq!(world.signed(&good).await.status, 201, "what is good comes in still");
}

#[tokio::test]
async fn a_tick_needs_a_route_of_its_project_that_takes_keys_p1() {
    let world = World::with(take).await;
    for (path, method, code) in [
        ("/open", "POST", "key-prohibited"),
        ("/internal", "POST", "key-prohibited"),
        ("/tenant", "POST", "forbidden"),
        ("/nowhere", "POST", "not-found"),
    ] {
        let got = world.signed(&Tick { path, method, ..Tick::default() }).await;
        assert_eq!(got.code(), code, "{path}: {}", got.text());
    }
    assert_eq!((world.service.count(), world.claims().await.len()), (0, 0));
}

#[tokio::test]
async fn without_a_secret_no_signature_holds_a4() {
    let world = World::start().await;
    let got = world.signed(&Tick::default()).await;
    assert_eq!((got.status, got.code().as_str()), (401, "signature-invalid"));
    let unsigned = world.charge("sched.nightly.1", "{}", &[]).await;
    assert_eq!(unsigned.code(), "key-reserved", "also where there are no schedules");
}

#[tokio::test]
async fn the_service_gets_the_key_as_its_upstream_says_k4() {
    let world = World::with(|settings| {
        take(settings);
        let mut upstream = (*settings.routes[0].upstream).clone();
        upstream.key = UpstreamKey::Raw;
        settings.routes[0].upstream = std::sync::Arc::new(upstream);
    })
    .await;
    let tick = Tick { key: "sched:nightly:1700000000000".into(), ..Tick::default() };
    assert_eq!(world.signed(&tick).await.status, 201);
    assert_eq!(
        world.service.last().header("idempotency-key").as_deref(),
        Some("sched.nightly.1700000000000")
    );
}

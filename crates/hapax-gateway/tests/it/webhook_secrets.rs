//! Where webhooks and their secrets come from besides the registry: variables and files of the server, a KV store (W7), and a service
//! that knows ids (W1, A7); and what is told of webhooks that nobody has.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hapax_core::registry::{Document, DocumentId};
use hapax_core::{Error, LeafKey, Registry, Timestamp};
use hapax_exec::Executor;
use hapax_gateway::Gateway;
use hapax_gateway::settings::{KvStore, Settings, VerifyService};
use hapax_gateway::webhooks::record::Secrets;
use hapax_store::Options;
use hapax_store::memory::Memory;
use hapax_testkit::kv::Kv;
use hapax_testkit::port::Port;
use hapax_testkit::raw::PATIENCE;
use hapax_tower::Protect;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;

use crate::auth::outside::Outside;
use crate::webhooks::{SECRET, github_signature_with, take, webhook};
use crate::world::client::read_answer;
use crate::world::{Got, Service, World, settings};

const TOKEN: &str = "kv-token";
/// Where the secret of acme's webhooks of GitHub is.
const PLACE: &str = "acme:web:github";

/// A KV store, and the file with the token for it.
struct Vault {
    kv: Kv,
    folder: TempDir,
}

impl Vault {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("token"), format!("{TOKEN}\n")).unwrap();
        Vault { kv: Kv::start(TOKEN).await.unwrap(), folder }
    }

    fn settings(&self) -> KvStore {
        KvStore {
            url: self.kv.url(),
            mount: "secret".into(),
            token_file: self.folder.path().join("token"),
            timeout: PATIENCE,
        }
    }
}

/// Takes webhooks, with secrets in this store.
fn with_kv(settings: &mut Settings, kv: KvStore) {
    take(settings);
    Arc::make_mut(settings.webhooks.as_mut().unwrap()).kv = Some(kv);
}

/// GitHub delivers, signed with this secret.
async fn deliver(world: &World, id: &str, delivery: &str, secret: &str) -> Got {
    let signature = github_signature_with(secret, "{}");
    let headers = [("x-hub-signature-256", signature.as_str()), ("x-github-delivery", delivery)];
    world.ask(&format!("POST /hooks/github/{id}"), "", &headers, "{}").await
}

#[tokio::test]
async fn secrets_come_from_a_variable_or_a_file_of_the_server_w7() {
    let world = World::with(take).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secrets");
    std::fs::write(&file, format!("{SECRET}\n\nthe former one\n")).unwrap();
    // Every process has this one, and nobody changes it: a test must not set variables.
    let path = std::env::var("PATH").unwrap();
    let by_env = webhook(&world.store, "github", |record| record.secrets = Secrets::Env("PATH".into())).await;
    let in_file = Secrets::File(file.display().to_string());
    let by_file = webhook(&world.store, "github", |record| record.secrets = in_file.clone()).await;
    assert_eq!(deliver(&world, &by_env, "a", &path).await.status, 201);
    assert_eq!(deliver(&world, &by_env, "b", SECRET).await.code(), "signature-invalid");
    for (delivery, secret) in [("a", SECRET), ("b", "the former one")] {
        assert_eq!(deliver(&world, &by_file, delivery, secret).await.status, 201, "{secret}");
    }
    assert_eq!(
        deliver(&world, &by_file, "c", "").await.code(),
        "signature-invalid",
        "an empty line is no secret"
    );
    // A file that is changed counts as soon as the webhook is looked up again.
    std::fs::write(&file, "another").unwrap();
    world.gateway.look_up_webhook_again(&by_file);
    assert_eq!(deliver(&world, &by_file, "d", SECRET).await.code(), "signature-invalid");
    assert_eq!(deliver(&world, &by_file, "d", "another").await.status, 201);
    let reached = world.service.count();
    std::fs::write(&file, "\n").unwrap();
    world.gateway.look_up_webhook_again(&by_file);
    for secrets in [
        in_file,
        Secrets::Env("HAPAX_TEST_NO_SUCH_VARIABLE".into()),
        Secrets::File(folder.path().join("none").display().to_string()),
        Secrets::Kv,
        Secrets::Kept(Vec::new()),
    ] {
        let id = webhook(&world.store, "github", |record| record.secrets = secrets.clone()).await;
        let refused = deliver(&world, &id, "x", "").await;
        assert_eq!((refused.status, refused.code().as_str()), (503, "ledger-unavailable"), "{secrets:?}");
        let detail = refused.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert!(detail.contains("cannot be had"), "{detail}");
        let tally = world.gateway.refusals(&id).unwrap();
        assert_eq!(tally.refused["ledger-unavailable"], 1, "{secrets:?}");
        assert!(tally.last[0].why.contains(&id), "{:?}", tally.last);
    }
    let counted = "hapax_deliveries_refused_total{provider=\"github\",cause=\"ledger-unavailable\"} 5\n";
    assert!(world.gateway.metrics().render().contains(counted), "{}", world.gateway.metrics().render());
    assert!(
        world.gateway.metrics().render().contains("hapax_ledger_failures_total 0\n"),
        "{}",
        world.gateway.metrics().render()
    );
    assert_eq!(world.service.count(), reached);
}

#[tokio::test]
async fn secrets_of_a_kv_store_count_with_the_former_one_and_are_remembered_w7() {
    let vault = Vault::start().await;
    vault.kv.write(PLACE, json!({ "secret": SECRET, "previous": "the former one" }));
    let world = World::with(|settings| with_kv(settings, vault.settings())).await;
    let id = webhook(&world.store, "github", |record| record.secrets = Secrets::Kv).await;
    for (delivery, secret, status) in [("a", SECRET, 201), ("b", "the former one", 201), ("c", "", 401)] {
        assert_eq!(deliver(&world, &id, delivery, secret).await.status, status, "{secret}");
    }
    world.gateway.look_up_webhook_again(&id);
    assert_eq!(deliver(&world, &id, "d", SECRET).await.status, 201);
    assert_eq!(vault.kv.asked(), 1);
}

#[tokio::test]
async fn a_kv_store_that_is_away_sealed_or_says_no_lets_no_delivery_in_and_its_token_is_read_again_w7() {
    let vault = Vault::start().await;
    let world = World::with(|settings| with_kv(settings, vault.settings())).await;
    let id = webhook(&world.store, "github", |record| record.secrets = Secrets::Kv).await;
    let refused = async |what: &str| {
        let refused = deliver(&world, &id, "a", SECRET).await;
        assert_eq!((refused.status, refused.code().as_str()), (502, "upstream-unreachable"), "{what}");
        assert_eq!(refused.json()["executed"], "unknown", "{what}");
        assert!(!refused.text().contains(TOKEN) && !refused.text().contains(PLACE), "{}", refused.text());
    };
    refused("nothing is there").await;
    vault.kv.write(PLACE, json!({ "other": SECRET }));
    refused("there is no field `secret`").await;
    vault.kv.write(PLACE, json!({ "secret": SECRET }));
    vault.kv.delete(PLACE);
    refused("the newest version was deleted").await;
    vault.kv.write(PLACE, json!({ "secret": SECRET }));
    vault.kv.seal(true);
    refused("sealed").await;
    vault.kv.seal(false);
    vault.kv.set_token("rotated");
    refused("403").await;
    assert_eq!(world.gateway.refusals(&id).unwrap().refused["upstream-unreachable"], 5, "operators see it");
    let asked = vault.kv.asked();
    std::fs::write(vault.folder.path().join("token"), "rotated").unwrap();
    assert_eq!(deliver(&world, &id, "a", SECRET).await.status, 201, "the token file is read again");
    assert_eq!(vault.kv.asked(), asked + 1, "a failure is not remembered");
    // Where nobody listens at all.
    let nobody = Port::reserve().unwrap();
    let url = format!("http://{}", nobody.address());
    let away = World::with(|settings| with_kv(settings, KvStore { url, ..vault.settings() })).await;
    let id = webhook(&away.store, "github", |record| record.secrets = Secrets::Kv).await;
    let refused = deliver(&away, &id, "a", SECRET).await;
    assert_eq!((refused.status, refused.code().as_str()), (502, "upstream-unreachable"));
    assert_eq!((world.service.count(), away.service.count()), (1, 0));
}

/// A registry that counts how often it is read.
#[derive(Clone)]
struct Counted {
    store: Memory,
    reads: Arc<AtomicUsize>,
}

macro_rules! behind {
    ($self:ident, $registry:ident => $call:expr) => {{
        let $registry = &$self.store;
        $call
    }};
}

impl Registry for Counted {
    hapax_core::forward!(behind => put, delete, list_documents);

    async fn get(&self, id: &DocumentId) -> Result<Option<Document>, Error> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.store.get(id).await
    }
}

#[tokio::test]
async fn what_is_told_of_a_webhook_that_nobody_has_costs_the_same_whatever_the_reason_is_w1() {
    let (vault, knower) = (Vault::start().await, Outside::start().await);
    knower.say(200, json!({ "valid": false }));
    let store = Memory::open(Options::default());
    let (service, reads) = (Service::start().await, Arc::new(AtomicUsize::new(0)));
    let mut settings = settings(&service);
    with_kv(&mut settings, vault.settings());
    Arc::make_mut(settings.webhooks.as_mut().unwrap()).verify = true;
    settings.auth.verify = Some(verify(&knower));
    let registry = Counted { store: store.clone(), reads: reads.clone() };
    let protect = Protect::new(Executor::new(store.clone()), LeafKey::new([7; 32]));
    let gateway = Gateway::start(settings, protect, registry).await.unwrap();
    // Its secret cannot be had, which nobody may learn under another provider's name.
    let id = webhook(&store, "github", |record| record.secrets = Secrets::Kv).await;
    let revoked = webhook(&store, "github", |record| record.revoked_at = Some(Timestamp::ZERO)).await;
    let mut answers = Vec::new();
    for path in [
        format!("/hooks/github/wh_{}", "1".repeat(32)),
        format!("/hooks/github/{revoked}"),
        format!("/hooks/stripe/{id}"),
        "/hooks/github/nothing".to_owned(),
        format!("/hooks/acme/{id}"),
    ] {
        let before = (reads.load(Ordering::SeqCst), knower.asked(), vault.kv.asked());
        let mut stream = tokio::net::TcpStream::connect(gateway.address()).await.unwrap();
        // The body never comes: the answer does.
        let head = format!("POST {path} HTTP/1.1\r\nhost: edge.example\r\ncontent-length: 1000\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let answer = read_answer(&mut stream, false).await.expect("an answer");
        assert_eq!((answer.status, answer.code().as_str()), (404, "not-found"), "{path}");
        let after = (reads.load(Ordering::SeqCst), knower.asked(), vault.kv.asked());
        assert_eq!((after.0 - before.0, after.1 - before.1, after.2 - before.2), (1, 1, 0), "{path}");
        answers.push(answer.without_marks());
    }
    assert!(answers.windows(2).all(|two| two[0] == two[1]), "{answers:?}");
    assert_eq!(service.count(), 0);
}

#[tokio::test]
async fn a_webhook_is_looked_up_once_for_many_deliveries_w1() {
    let store = Memory::open(Options::default());
    let (service, reads) = (Service::start().await, Arc::new(AtomicUsize::new(0)));
    let mut settings = settings(&service);
    take(&mut settings);
    let registry = Counted { store: store.clone(), reads: reads.clone() };
    let protect = Protect::new(Executor::new(store.clone()), LeafKey::new([7; 32]));
    let gateway = Gateway::start(settings, protect, registry).await.unwrap();
    let id = webhook(&store, "github", |_| {}).await;
    let signature = github_signature_with(SECRET, "{}");
    for delivery in ["a", "b", "a", "c"] {
        let mut stream = tokio::net::TcpStream::connect(gateway.address()).await.unwrap();
        let request = format!(
            "POST /hooks/github/{id} HTTP/1.1\r\nhost: edge.example\r\nx-hub-signature-256: {signature}\r\n\
             x-github-delivery: {delivery}\r\ncontent-length: 2\r\n\r\n{{}}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(read_answer(&mut stream, false).await.expect("an answer").status, 201);
    }
    assert_eq!((reads.load(Ordering::SeqCst), service.count()), (1, 3));
}

fn verify(knower: &Outside) -> VerifyService {
    VerifyService {
        url: knower.url(),
        token: "unkey_root".into(),
        remember: Duration::from_secs(30),
        timeout: PATIENCE,
    }
}

fn known() -> serde_json::Value {
    let meta = json!({ "tenant_id": "acme", "project_id": "web", "provider": "github" });
    json!({ "data": { "valid": true, "keyId": "k", "identity": { "externalId": "acme" }, "meta": meta } })
}

/// An edge that asks about ids, and a store that has acme's secret.
async fn asking(vault: &Vault, knower: &Outside) -> World {
    vault.kv.write(PLACE, json!({ "secret": SECRET }));
    World::with(|settings| {
        with_kv(settings, vault.settings());
        Arc::make_mut(settings.webhooks.as_mut().unwrap()).verify = true;
        settings.auth.verify = Some(verify(knower));
    })
    .await
}

#[tokio::test]
async fn ids_are_known_by_the_verifying_service_and_their_secrets_by_the_kv_store_a7_w1() {
    let (vault, knower) = (Vault::start().await, Outside::start().await);
    let world = asking(&vault, &knower).await;
    knower.say(200, known());
    let first = deliver(&world, "wh_01JABC", "a", SECRET).await;
    assert_eq!(first.status, 201, "{}", first.text());
    assert!(deliver(&world, "wh_01JABC", "a", SECRET).await.is_replay());
    let arrived = world.service.last();
    assert_eq!(
        arrived.header("idempotency-key").as_deref(),
        Some("t-acme:web:service:webhook-ingest:github-a")
    );
    assert_eq!(knower.asked(), 1, "remembered as keys are");
    let (headers, body) = knower.last();
    assert_eq!(headers["authorization"], "Bearer unkey_root");
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&body).unwrap(), json!({ "key": "wh_01JABC" }));
    assert_eq!(deliver(&world, "wh_01JABC", "b", "wrong").await.code(), "signature-invalid");
    knower.say(200, json!({ "valid": false }));
    assert_eq!(deliver(&world, "wh_01JABD", "c", SECRET).await.code(), "not-found");
    // What the registry has is not asked about, and what it has revoked stays so whatever others say.
    let own = webhook(&world.store, "github", |_| {}).await;
    let revoked = webhook(&world.store, "github", |record| record.revoked_at = Some(Timestamp::ZERO)).await;
    let asked = knower.asked();
    assert_eq!((deliver(&world, &own, "a", SECRET).await.status, knower.asked()), (201, asked));
    knower.say(200, known());
    assert_eq!(deliver(&world, &revoked, "a", SECRET).await.code(), "not-found");
    assert_eq!(world.service.count(), 2);
}

#[tokio::test]
async fn without_an_answer_about_an_id_no_delivery_comes_in_a7() {
    let (vault, knower) = (Vault::start().await, Outside::start().await);
    let world = asking(&vault, &knower).await;
    for (number, (status, says)) in [
        (500, known().to_string()),
        (403, String::new()),
        (200, "not JSON".into()),
        (200, json!({ "data": {} }).to_string()),
    ]
    .into_iter()
    .enumerate()
    {
        knower.say(status, &says);
        let refused = deliver(&world, &format!("id-{number}"), "a", SECRET).await;
        assert_eq!((refused.status, refused.code().as_str()), (502, "upstream-unreachable"), "{says}");
        assert_eq!(refused.json()["executed"], "unknown", "{says}");
    }
    for (number, (name, value)) in [
        ("provider", json!(null)),
        ("provider", json!("stripe")),
        ("tenant_id", json!(null)),
        ("tenant_id", json!("Not A Slug")),
        ("project_id", json!(null)),
        ("project_id", json!("_tenant")),
    ]
    .into_iter()
    .enumerate()
    {
        let mut says = known();
        says["data"]["meta"][name] = value;
        knower.say(200, &says);
        let refused = deliver(&world, &format!("unfit-{number}"), "a", SECRET).await;
        assert_eq!((refused.status, refused.code().as_str()), (404, "not-found"), "{says}");
    }
    let asked = knower.asked();
    for id in ["x".repeat(65), "a%20b".into()] {
        assert_eq!(deliver(&world, &id, "a", SECRET).await.status, 404);
    }
    assert_eq!((knower.asked(), world.service.count()), (asked, 0), "what can be no id is not asked about");
}

//! Configurations held against what a store keeps about operations (K6, P5).

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use hapax_core::registry::{RECIPE_KIND, recipe_of};
use hapax_core::{
    ClaimRequest, Fingerprint, Identity, Key, Ledger, Outcome, Retention, Scope, Source, Timestamp,
};
use hapax_store::Options;
use hapax_store::memory::Memory;

use super::documents::{ENDPOINTS, NAMES};
use super::*;

mod many;

/// Whether there are other processes: as said, or as many times as said not yet.
#[derive(Debug)]
struct Others {
    are_there: AtomicBool,
    not_yet: AtomicU32,
}

const fn others(are_there: bool, not_yet: u32) -> Others {
    Others { are_there: AtomicBool::new(are_there), not_yet: AtomicU32::new(not_yet) }
}

static NOBODY: Others = others(false, 0);
static SOMEBODY: Others = others(true, 0);

impl Lifecycle for Others {
    async fn renew_session(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn is_shared(&self) -> Result<bool, Error> {
        let waits = self.not_yet.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        Ok(waits.is_err() && self.are_there.load(Ordering::SeqCst))
    }

    async fn time(&self) -> Result<Timestamp, Error> {
        Ok(Timestamp::ZERO)
    }

    async fn close(&self) -> Result<(), Error> {
        Ok(())
    }
}

const ALONE: Moment<'_, Others> = Moment::Start(&NOBODY);
const BESIDE: Moment<'_, Others> = Moment::Start(&SOMEBODY);
const AGAIN: Moment<'_, Others> = Moment::Again;

/// A configuration with one keyed route that has these fields, and whatever else.
fn config(operation: &str, more: &str) -> Config {
    top("", operation, more)
}

fn top(top: &str, operation: &str, more: &str) -> Config {
    let policy = if more.starts_with("policy = ") { "" } else { "policy = \"ACCEPTED\"\n" };
    let text = format!(
        "{top}\n[upstreams.pay]\nurl = \"http://127.0.0.1:9000\"\n[[routes]]\nmethod = \"POST\"\npath = \"/pay/{{id}}\"\n\
         upstream = \"pay\"\noperation = \"{operation}\"\n{policy}{more}\n"
    );
    crate::config::read(&text, Path::new("hapax.toml"), &|_| None, crate::config::Secrets::Needed)
        .unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

async fn tried(
    store: &Memory,
    moment: &Moment<'_, Others>,
    config: &Config,
) -> Result<(Config, Vec<String>), Disagreement> {
    let agreed = agree(store, store, moment, &Operations::of(config)).await?;
    let mut config = config.clone();
    agreed.apply(&mut config);
    Ok((config, agreed.notices))
}

/// The names that the claims of the routes are kept under, and what is told.
async fn taken(store: &Memory, moment: &Moment<'_, Others>, config: &Config) -> (Vec<String>, String) {
    let (config, notices) =
        tried(store, moment, config).await.unwrap_or_else(|disagreement| panic!("{disagreement}"));
    let rules = config.settings.routes.iter().filter_map(|route| route.rule.as_ref());
    (rules.map(|rule| rule.operation.as_str().to_owned()).collect(), notices.join("\n"))
}

async fn refused(store: &Memory, moment: &Moment<'_, Others>, config: &Config) -> String {
    match tried(store, moment, config).await {
        Err(Disagreement::Refused(mistakes)) => mistakes.to_string(),
        other => panic!("{other:?}"),
    }
}

/// The first name of the only route, with nothing to tell.
async fn first(store: &Memory, moment: &Moment<'_, Others>, config: &Config) -> String {
    let (mut firsts, told) = taken(store, moment, config).await;
    assert_eq!((firsts.len(), told.as_str()), (1, ""));
    firsts.remove(0)
}

/// Keeps an outcome of this operation.
async fn settle(store: &Memory, operation: &str) {
    let operation = Operation::new(operation).unwrap();
    let identity =
        Identity::new(Source::Header, Scope::local(), Width::Subject, operation, Key::new("k").unwrap());
    let request = ClaimRequest::new(identity, Fingerprint::none());
    store.set(request, Outcome::NotKept { status: 200 }, Retention::Forever).await.unwrap();
}

/// A store that knows the operation `pay`, with an outcome or without.
async fn knowing(with_claim: bool) -> Memory {
    let store = Memory::open(Options::default());
    assert_eq!(first(&store, &ALONE, &config("pay", "")).await, "pay");
    if with_claim {
        settle(&store, "pay").await;
    }
    store
}

#[tokio::test]
async fn claims_are_kept_under_the_first_name_whatever_a_process_calls_the_operation_k6() {
    let store = knowing(true).await;
    let served = [Operation::new("pay").unwrap()];
    for moment in [&ALONE, &BESIDE, &AGAIN, &Moment::Reload(&served)] {
        for (name, more) in [
            ("pay.v2", "was = \"pay\""),
            ("pay.v4", "was = [\"pay.v3\", \"pay.v2\"]"),
            // Whoever removes the line, or goes back, knows less than the registry.
            ("pay.v3", ""),
            ("pay.v2", ""),
            ("pay", ""),
        ] {
            assert_eq!(first(&store, moment, &config(name, more)).await, "pay", "{name} {more} {moment:?}");
        }
    }
}

#[tokio::test]
async fn on_a_store_that_knows_none_of_its_names_an_operation_has_the_oldest_k6() {
    let store = Memory::open(Options::default());
    let renamed = config("pay.v3", "was = [\"pay.v2\", \"pay\"]");
    let (firsts, told) = taken(&store, &ALONE, &renamed).await;
    assert_eq!(firsts, ["pay"]);
    assert!(told.contains("hapax.toml:4:") && told.contains("knows no operation \"pay\""), "{told}");
    for name in ["pay", "pay.v2", "pay.v3"] {
        assert_eq!(first(&store, &BESIDE, &config(name, "")).await, "pay", "{name}");
    }
}

#[tokio::test]
async fn another_name_on_a_known_method_and_path_says_what_it_was_or_that_its_keys_are_new_k6() {
    let store = knowing(true).await;
    let other = |more: &str| config("charge", more);
    for moment in [&ALONE, &BESIDE, &AGAIN] {
        // How a parameter is called does not make another path, and a name that never was does not lead to the present one.
        for more in ["", "was = \"pey\""] {
            let told = refused(&store, moment, &other(more)).await;
            assert!(told.contains("hapax.toml:4:") && told.contains("claims: 1"), "{told}");
            assert!(told.contains("`was = \"pay\"`") && told.contains("`was = []`"), "{told}");
        }
    }
    assert_eq!(first(&store, &BESIDE, &config("pay", "")).await, "pay", "nothing was written");
    assert_eq!(taken(&store, &BESIDE, &other("was = []")).await.0, ["charge"]);
    // From then on it is the operation there, also without the words.
    assert_eq!(taken(&store, &BESIDE, &other("")).await.0, ["charge"]);
    let told = refused(&store, &BESIDE, &config("pay", "")).await;
    assert!(told.contains("is the operation \"charge\"") && told.contains("another process"), "{told}");
}

#[tokio::test]
async fn without_claims_and_without_others_another_name_is_a_new_operation_k6() {
    let store = knowing(false).await;
    for (moment, why) in [(&BESIDE, "another process is there"), (&AGAIN, "this process serves it")] {
        let told = refused(&store, moment, &config("charge", "")).await;
        assert!(told.contains(why), "{told}");
    }
    assert_eq!(first(&store, &ALONE, &config("charge", "")).await, "charge");
}

/// A configuration with a keyed route for each of these methods, paths and operations.
fn with_routes(routes: &[(&str, &str, &str)]) -> Config {
    of_text(&text_of(routes))
}

fn of_text(text: &str) -> Config {
    crate::config::read(text, Path::new("hapax.toml"), &|_| None, crate::config::Secrets::Needed)
        .unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

fn text_of(routes: &[(&str, &str, &str)]) -> String {
    let route = |(method, path, operation): &(&str, &str, &str)| {
        format!(
            "[[routes]]\nmethod = \"{method}\"\npath = \"{path}\"\nupstream = \"pay\"\noperation = \"{operation}\"\n\
             policy = \"ACCEPTED\"\nrecall = false\n"
        )
    };
    let routes: String = routes.iter().map(route).collect();
    format!("[upstreams.pay]\nurl = \"http://127.0.0.1:9000\"\n{routes}")
}

/// What is protected by a wider route first, and named later, would forget its keys.
#[tokio::test]
async fn a_route_beside_a_wider_one_with_claims_has_new_keys_only_where_it_is_said_k6() {
    for (method, wide, narrow) in [
        ("*", "/{*rest}", "/refunds/{id}/items"),
        ("POST", "/k/{kind}", "/k/refunds"),
        ("POST", "/v{n}/pay", "/v1/pay"),
    ] {
        let before = with_routes(&[(method, wide, "rest")]);
        let both = text_of(&[(method, wide, "rest"), ("POST", narrow, "refunds")]);
        let new = both.replace("operation = \"refunds\"", "operation = \"refunds\"\nwas = []");
        let served = [Operation::new("rest").unwrap()];
        for moment in [&ALONE, &BESIDE, &AGAIN, &Moment::Reload(&served)] {
            let store = Memory::open(Options::default());
            taken(&store, &ALONE, &before).await;
            settle(&store, "rest").await;
            let told = refused(&store, moment, &of_text(&both)).await;
            for part in ["\"refunds\": requests of POST ", "operation \"rest\"", "claims: 1", "`was = []`"] {
                assert!(told.contains(part), "{moment:?} {wide}: {told}");
            }
            assert!(store.get(&DocumentId::new(NAMES, "refunds").unwrap()).await.unwrap().is_none());
            assert_eq!(taken(&store, moment, &of_text(&new)).await.0, ["rest", "refunds"]);
            // From then on it is an operation there, also without the words.
            assert_eq!(taken(&store, moment, &of_text(&both)).await.0, ["rest", "refunds"]);
        }
        // Without claims, nothing was used; and what lies elsewhere is not around it.
        let store = Memory::open(Options::default());
        taken(&store, &ALONE, &before).await;
        assert_eq!(taken(&store, &ALONE, &of_text(&both)).await.0, ["rest", "refunds"]);
    }
    let store = Memory::open(Options::default());
    taken(&store, &ALONE, &with_routes(&[("POST", "/k/{kind}", "kinds")])).await;
    settle(&store, "kinds").await;
    let elsewhere = [("POST", "/k/{kind}", "kinds"), ("PUT", "/k/a", "put"), ("POST", "/k/a/b", "deeper")];
    assert_eq!(taken(&store, &ALONE, &with_routes(&elsewhere)).await.0.len(), 3);
}

/// Keeps an outcome of the operation `pay` for this caller.
async fn settle_for(store: &Memory, tenant: &str, project: &str, subject: &str) {
    let scope = Scope::new(
        hapax_core::Tenant::new(tenant).unwrap(),
        hapax_core::Project::new(project).unwrap(),
        if subject.is_empty() {
            hapax_core::Subject::anonymous()
        } else {
            hapax_core::Subject::parse(subject).unwrap()
        },
    );
    let operation = Operation::new("pay").unwrap();
    let identity = Identity::new(Source::Header, scope, Width::Subject, operation, Key::new("k").unwrap());
    let request = ClaimRequest::new(identity, Fingerprint::none());
    store.set(request, Outcome::NotKept { status: 200 }, Retention::Forever).await.unwrap();
}

fn assumed(tenant: &str, project: &str, more: &str) -> Config {
    let line = |name: &str, value: &str| match value {
        "" => String::new(),
        value => format!("{name} = \"{value}\"\n"),
    };
    top(&format!("[auth]\n{}{}", line("tenant", tenant), line("project", project)), "pay", more)
}

#[tokio::test]
async fn whose_requests_are_where_credentials_do_not_say_changes_as_the_scope_does_k6() {
    for (changed, told) in [
        (assumed("acme", "web", ""), "`tenant` of [auth] (from \"main\" to \"acme\")"),
        (assumed("main", "shop", ""), "`project` of [auth] (from \"web\" to \"shop\")"),
    ] {
        let store = Memory::open(Options::default());
        first(&store, &ALONE, &assumed("main", "web", "")).await;
        // What nobody's claims rest on changes at a start alone.
        settle_for(&store, "other", "web", "user:a").await;
        for moment in [&BESIDE, &AGAIN] {
            assert!(refused(&store, moment, &changed).await.contains(told));
        }
        settle_for(&store, "main", "web", "user:a").await;
        for moment in [&ALONE, &BESIDE, &AGAIN] {
            let said = refused(&store, moment, &changed).await;
            assert!(
                said.contains(told) && said.contains("claims: 1") && said.contains("`retired`"),
                "{said}"
            );
        }
        // Without one, such callers do not come in; afterwards the former one counts still.
        first(&store, &ALONE, &assumed("", "", "")).await;
        refused(&store, &ALONE, &changed).await;
        first(&store, &ALONE, &assumed("main", "web", "")).await;
    }
    // Shared by all callers of a tenant, the project is no part of it.
    let store = Memory::open(Options::default());
    first(&store, &ALONE, &assumed("main", "web", "scope = \"tenant\"")).await;
    first(&store, &BESIDE, &assumed("main", "shop", "scope = \"tenant\"")).await;
}

#[tokio::test]
async fn a_route_that_was_public_is_not_closed_while_claims_of_its_callers_rest_on_it_k6() {
    let public = assumed("main", "web", "public = \"shared-keys\"");
    let closed = assumed("main", "web", "");
    let store = Memory::open(Options::default());
    first(&store, &ALONE, &public).await;
    settle_for(&store, "main", "web", "").await;
    for moment in [&ALONE, &BESIDE, &AGAIN] {
        let told = refused(&store, moment, &closed).await;
        assert!(
            told.contains("`public`, by which all callers were one,") && told.contains("claims: 1"),
            "{told}"
        );
    }
    let store = Memory::open(Options::default());
    first(&store, &ALONE, &closed).await;
    settle_for(&store, "main", "web", "user:a").await;
    assert!(refused(&store, &ALONE, &public).await.contains("`public`, by which all callers are one,"));
    // What was kept before this was says nothing of it.
    let id = DocumentId::new(NAMES, "pay").unwrap();
    let kept = store.get(&id).await.unwrap().unwrap();
    let mut body: serde_json::Value = serde_json::from_slice(&kept.body).unwrap();
    for field in ["public", "tenant", "project"] {
        body.as_object_mut().unwrap().remove(field).unwrap();
    }
    store.put(&id, kept.version, body.to_string().into()).await.unwrap();
    assert_eq!(first(&store, &ALONE, &public).await, "pay");
}

#[tokio::test]
async fn paths_that_differ_within_a_segment_are_operations_of_their_own_k6() {
    let routes = [
        ("POST", "/orders/{id}", "orders.update"),
        ("POST", "/orders/{id}:cancel", "orders.cancel"),
        ("POST", "/orders/{id}:refund", "orders.refund"),
        ("POST", "/{base}...{head}", "compare"),
        ("POST", "/{id}", "root"),
    ];
    let rest = with_routes(&[&routes[..], &[("*", "/{*rest}", "rest")]].concat());
    let store = Memory::open(Options::default());
    let names: Vec<&str> = routes.iter().map(|(.., operation)| *operation).chain(["rest"]).collect();
    assert_eq!(taken(&store, &ALONE, &rest).await.0, names);
    for name in &names {
        settle(&store, name).await;
    }
    let served: Vec<Operation> = names.iter().map(|name| Operation::new(*name).unwrap()).collect();
    for moment in [&ALONE, &BESIDE, &AGAIN, &Moment::Reload(&served)] {
        assert_eq!(taken(&store, moment, &rest).await.0, names, "the same once more: {moment:?}");
    }
}

/// How a parameter is called says nothing about the requests that come.
#[tokio::test]
async fn a_parameter_within_a_segment_gets_another_name_without_the_operation_k6() {
    for (path, other) in [("/v{n}/pay", "/v{version}/pay"), ("/{id}:go", "/{key}:go")] {
        let store = Memory::open(Options::default());
        assert_eq!(taken(&store, &ALONE, &with_routes(&[("POST", path, "pay")])).await.0, ["pay"]);
        settle(&store, "pay").await;
        let told = refused(&store, &ALONE, &with_routes(&[("POST", other, "charge")])).await;
        assert!(told.contains("is the operation \"pay\"") && told.contains("claims: 1"), "{told}");
        assert_eq!(taken(&store, &ALONE, &with_routes(&[("POST", other, "pay")])).await.0, ["pay"]);
    }
}

#[tokio::test]
async fn a_first_name_is_never_given_to_another_operation_k6() {
    let store = knowing(true).await;
    let second = "[[routes]]\nmethod = \"PUT\"\npath = \"/b\"\nupstream = \"pay\"\npolicy = \"ACCEPTED\"\n";
    taken(&store, &ALONE, &config("charge", "was = \"pay\"")).await;
    // Neither beside the operation that had it ...
    let both = config("charge", &format!("{second}operation = \"pay\""));
    let told = refused(&store, &ALONE, &both).await;
    assert!(told.contains("the same operation as \"charge\""), "{told}");
    // ... nor as a name of one that has claims of its own ...
    taken(&store, &ALONE, &config("pay", &format!("{second}operation = \"own\""))).await;
    for (name, was) in [("own", "pay"), ("charge", "own")] {
        let told = refused(&store, &ALONE, &config(name, &format!("was = \"{was}\""))).await;
        assert!(told.contains("two operations"), "{told}");
    }
    // ... nor is a label an operation of its own.
    let told = refused(&store, &ALONE, &config("charge", "was = []")).await;
    assert!(told.contains("it was \"pay\" before"), "{told}");
}

#[tokio::test]
async fn scope_and_level_change_only_at_a_start_without_claims_and_without_others_k6() {
    let changes = [
        ("scope = \"tenant\"", "`scope` (from \"subject\" to \"tenant\")"),
        ("level = \"tenant\"", "`level` (from \"project\" to \"tenant\")"),
        (
            "policy = \"REQUIRED_B\"\nidentifier = { header = \"X-Id\" }",
            "`policy`, which says where keys come from (\"header\", now \"transport\")",
        ),
    ];
    for (change, named) in changes {
        let changed = config("pay", change);
        for (with_claim, moment, remedy) in [
            (true, &ALONE, "was = []"),
            (true, &BESIDE, "was = []"),
            (false, &BESIDE, "stop them first"),
            (false, &AGAIN, "restart"),
        ] {
            let store = knowing(with_claim).await;
            for config in [&changed, &config("pay.v2", &format!("{change}\nwas = \"pay\""))] {
                let told = refused(&store, moment, config).await;
                assert!(told.contains("hapax.toml:4:") && told.contains(named), "{told}");
                assert!(told.contains(remedy) && !told.contains("say `was = \"pay\"`"), "{told}");
                assert_eq!(told.contains("claims: 1"), with_claim, "{told}");
            }
            assert_eq!(first(&store, moment, &config("pay", "")).await, "pay", "nothing was written");
        }
        let store = knowing(false).await;
        assert_eq!(first(&store, &ALONE, &changed).await, "pay");
        refused(&store, &AGAIN, &config("pay", "")).await;
    }
}

#[tokio::test]
async fn a_fingerprint_changes_at_any_time_unless_it_is_the_key_k6_h9() {
    let derived =
        |more: &str| config("pay", &format!("key_from = \"fingerprint\"\nrerun = \"unsafe\"\n{more}"));
    let store = knowing(true).await;
    for moment in [&BESIDE, &AGAIN] {
        for more in ["fingerprint = \"json\"", "fingerprint_headers = [\"x-kind\"]", ""] {
            first(&store, moment, &config("pay", more)).await;
        }
    }
    // The first recipe that is the key is the one that counts, also after a while in which none was.
    first(&store, &BESIDE, &derived("")).await;
    first(&store, &BESIDE, &config("pay", "fingerprint = \"json\"")).await;
    for moment in [&ALONE, &BESIDE, &AGAIN] {
        let told = refused(&store, moment, &derived("fingerprint = \"json\"")).await;
        assert!(told.contains("`fingerprint`, which is the key"), "{told}");
    }
    first(&store, &BESIDE, &derived("")).await;
}

#[tokio::test]
async fn a_process_that_comes_back_while_another_starts_finds_everything_as_it_was_k6() {
    for changed in [config("pay", "scope = \"tenant\""), config("charge", "")] {
        let store = knowing(false).await;
        let body = async |kind: &str| store.list_documents(kind, None, 10).await.unwrap()[0].body.clone();
        let before = (body(NAMES).await, body(ENDPOINTS).await);
        let back = others(true, 1);
        let told = refused(&store, &Moment::Start(&back), &changed).await;
        assert!(told.contains("another process is there"), "{told}");
        assert_eq!((body(NAMES).await, body(ENDPOINTS).await), before);
        assert_eq!(first(&store, &AGAIN, &config("pay", "")).await, "pay");
    }
}

#[tokio::test]
async fn a_process_that_was_gone_finds_out_what_was_changed_meanwhile_k6() {
    let identifier = "policy = \"REQUIRED_B\"\nidentifier = { json = \"/id\" }";
    for changed in ["scope = \"tenant\"", "level = \"tenant\"", identifier] {
        let store = knowing(false).await;
        first(&store, &ALONE, &config("pay", changed)).await;
        refused(&store, &AGAIN, &config("pay", "")).await;
    }
    let store = knowing(false).await;
    first(&store, &ALONE, &config("charge", "")).await;
    refused(&store, &AGAIN, &config("pay", "")).await;
}

#[tokio::test]
async fn a_reload_does_not_drop_a_route_on_which_claims_rest_unless_it_is_retired_p5() {
    let second = "[[routes]]\nmethod = \"PUT\"\npath = \"/b\"\nupstream = \"pay\"\npolicy = \"ACCEPTED\"\noperation = \"b\"";
    let store = Memory::open(Options::default());
    taken(&store, &ALONE, &config("pay", second)).await;
    taken(&store, &ALONE, &config("pay.v2", &format!("was = \"pay\"\n{second}"))).await;
    let served = ["pay", "b"].map(|name| Operation::new(name).unwrap());
    let only = |retired: &str| {
        let text = format!(
            "{retired}\n[upstreams.pay]\nurl = \"http://127.0.0.1:9000\"\n{}",
            second.replace("PUT", "PATCH")
        );
        crate::config::read(&text, Path::new("hapax.toml"), &|_| None, crate::config::Secrets::Needed)
            .unwrap()
    };
    taken(&store, &Moment::Reload(&served), &only("")).await;
    settle(&store, "pay").await;
    let told = refused(&store, &Moment::Reload(&served), &only("")).await;
    assert!(told.contains("hapax.toml: ") && told.contains("\"pay\" has no route any more"), "{told}");
    assert!(told.contains("claims: 1") && told.contains("retired = [\"pay\"]"), "{told}");
    // What another process serves is not this one's to drop.
    assert_eq!(taken(&store, &Moment::Reload(&served[1..]), &only("")).await.1, "");
    // A start tells it.
    let told = taken(&store, &ALONE, &only("")).await.1;
    assert!(told.contains("\"pay\" (claims: 1)") && told.contains("`retired`"), "{told}");
    for retired in ["retired = [\"pay\"]", "retired = [\"x\", \"pay.v2\"]"] {
        assert_eq!(taken(&store, &Moment::Reload(&served), &only(retired)).await.1, "");
        assert_eq!(taken(&store, &ALONE, &only(retired)).await.1, "");
    }
}

#[tokio::test]
async fn a_fingerprint_recipe_is_found_by_its_id_after_the_configuration_has_another_one_k6() {
    let store = Memory::open(Options::default());
    let with = config("pay", "fingerprint_headers = [\"X-Kind\"]");
    let recipe = with.settings.routes[0].rule.as_ref().unwrap().recipe.clone();
    assert_eq!(recipe_of(&store, recipe.id()).await.unwrap(), None);
    for config in [with.clone(), with, config("pay", "")] {
        first(&store, &ALONE, &config).await;
        assert_eq!(recipe_of(&store, recipe.id()).await.unwrap().as_ref(), Some(&recipe));
    }
    let id = DocumentId::new(RECIPE_KIND, format!("{:016x}", recipe.id().0)).unwrap();
    assert_eq!(store.get(&id).await.unwrap().unwrap().version, 1, "it is written once");
    store.put(&id, 1, Recipe::raw().definition().into()).await.unwrap();
    assert_eq!(recipe_of(&store, recipe.id()).await.unwrap_err().kind(), Kind::Corrupt);
}

#[tokio::test]
async fn what_is_kept_already_is_not_written_again_k6() {
    let store = knowing(false).await;
    first(&store, &ALONE, &config("pay", "scope = \"project\"")).await;
    let id = DocumentId::new(NAMES, "pay").unwrap();
    assert_eq!(store.get(&id).await.unwrap().unwrap().version, 2);
    first(&store, &ALONE, &config("pay", "scope = \"project\"")).await;
    assert_eq!(store.get(&id).await.unwrap().unwrap().version, 2, "nothing new, nothing written");
    // What was kept before levels were gets to know its own.
    let kept = store.get(&id).await.unwrap().unwrap();
    let mut body: serde_json::Value = serde_json::from_slice(&kept.body).unwrap();
    body.as_object_mut().unwrap().remove("level").unwrap();
    store.put(&id, kept.version, body.to_string().into()).await.unwrap();
    first(&store, &AGAIN, &config("pay", "scope = \"project\"")).await;
    assert_eq!(store.get(&id).await.unwrap().unwrap().body, kept.body);
}

#[tokio::test]
async fn where_one_operation_is_refused_nothing_is_written_k6() {
    let store = knowing(true).await;
    let two = "scope = \"tenant\"\n[[routes]]\nmethod = \"PUT\"\npath = \"/pay\"\noperation = \"new\"\n\
               policy = \"REQUIRED_A\"\nupstream = \"pay\"";
    refused(&store, &ALONE, &config("pay", two)).await;
    assert!(store.get(&DocumentId::new(NAMES, "new").unwrap()).await.unwrap().is_none());
    assert_eq!(store.list_documents(ENDPOINTS, None, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_document_that_cannot_be_read_is_not_taken_for_absent_k6() {
    for kind in [NAMES, ENDPOINTS] {
        let store = Memory::open(Options::default());
        store.put(&DocumentId::new(kind, "pay").unwrap(), 0, "{}".into()).await.unwrap();
        let error = tried(&store, &ALONE, &config("pay", "")).await.unwrap_err();
        assert!(
            matches!(&error, Disagreement::Store(error) if error.kind() == Kind::Corrupt),
            "{kind}: {error:?}"
        );
    }
}

/// Each reads every operation before it writes one, so that with many operations they get in each other's way.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_that_start_together_agree_k6() {
    let more: String = (0..2000)
        .map(|index| {
            format!(
                "[[routes]]\nmethod = \"PUT\"\npath = \"/pay/{index}\"\noperation = \"o{index}\"\n\
                 policy = \"REQUIRED_A\"\nupstream = \"pay\"\n"
            )
        })
        .collect();
    let config = config("pay", &more);
    for _ in 0..5 {
        let store = Memory::open(Options::default());
        let together = Arc::new(tokio::sync::Barrier::new(4));
        let starts = (0..4).map(|_| {
            let (store, config, together) = (store.clone(), config.clone(), together.clone());
            tokio::spawn(async move {
                together.wait().await;
                tried(&store, &BESIDE, &config).await.map(drop)
            })
        });
        for start in starts.collect::<Vec<_>>() {
            start.await.unwrap().unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_processes_that_start_together_with_two_names_on_one_path_one_is_refused_k6() {
    for _ in 0..200 {
        let store = Memory::open(Options::default());
        let together = Arc::new(tokio::sync::Barrier::new(2));
        let starts = ["pay", "charge"].map(|name| {
            let (store, config, together) = (store.clone(), config(name, ""), together.clone());
            tokio::spawn(async move {
                together.wait().await;
                tried(&store, &BESIDE, &config).await.is_ok()
            })
        });
        let mut served = 0;
        for start in starts {
            served += u32::from(start.await.unwrap());
        }
        assert_eq!(served, 1);
    }
}

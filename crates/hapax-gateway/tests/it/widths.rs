//! Routes whose answers are shared within a project or a tenant (K8): who gets them, what the service sees, and what another width or
//! name hands out afterwards.

use hapax_core::{Ledger, Operation, Width};
use hapax_exec::Executor;
use hapax_gateway::settings::Level;
use hapax_store::Options;
use hapax_store::memory::Memory;
use hapax_testkit::faulty::Faulty;

use crate::world::{Got, Service, World, change_rule, key_of_level, settings};

const KEY: [(&str, &str); 1] = [("idempotency-key", "k-1")];

async fn with_width(width: Width) -> World {
    World::with(|settings| change_rule(settings, "charge", |rule| rule.width = width)).await
}

/// A charge under the one key of these tests.
async fn charge<L: Ledger>(world: &World<L>, who: &str) -> Got {
    world.ask("POST /charges", who, &KEY, "{}").await
}

/// The three ways to the outcome of this operation.
fn recalls(operation: &str) -> [String; 3] {
    [
        "GET /charges/by-idempotency-key/k-1".into(),
        "GET /charges/by-idempotency-key/k-1/output".into(),
        format!("GET /operations/{operation}"),
    ]
}

async fn can_recall<L: Ledger>(world: &World<L>, who: &str, first: &Got) {
    for line in recalls(first.header("x-operation-id").unwrap()) {
        let got = world.ask(&line, who, &[], "").await;
        assert_eq!((got.status, got.is_replay(), &got.body), (201, true, &first.body), "{line}");
    }
}

async fn cannot_recall(world: &World, who: &str, first: &Got) {
    let operation = first.header("x-operation-id").unwrap();
    let got = world.ask(&format!("GET /operations/{operation}"), who, &[], "").await;
    assert_eq!((got.status, got.code().as_str()), (404, "not-found"));
    let got = world.ask("GET /charges/by-idempotency-key/k-1", who, &[], "").await;
    assert_ne!(got.header("x-operation-id"), Some(operation), "another's answer: {}", got.text());
}

#[tokio::test]
async fn within_a_project_subjects_share_an_answer_and_projects_do_not_k8() {
    let world = with_width(Width::Project).await;
    let first = charge(&world, &world.alice).await;
    assert_eq!((first.status, first.is_replay()), (201, false));
    let arrived = world.service.last();
    assert_eq!(arrived.header("idempotency-key").unwrap(), "t-acme:web:_any:k-1");
    assert_eq!(arrived.header("x-subject").unwrap(), "user:alice", "who asked first is known all the same");
    let shared = charge(&world, &world.bob).await;
    assert!(shared.is_replay());
    assert_eq!(shared.without_marks(), first.clone().without_marks());
    assert_eq!(world.service.count(), 1);
    for who in [&world.alice, &world.bob] {
        can_recall(&world, who, &first).await;
    }
    for (who, key) in [(&world.carol, "t-acme:app:_any:k-1"), (&world.eve, "t-globex:web:_any:k-1")] {
        cannot_recall(&world, who, &first).await;
        let own = charge(&world, who).await;
        assert_eq!((own.status, own.is_replay()), (201, false), "{key}");
        assert_eq!(world.service.last().header("idempotency-key").unwrap(), key);
        cannot_recall(&world, who, &first).await;
    }
    assert_eq!(world.service.count(), 3);
}

#[tokio::test]
async fn within_a_tenant_projects_share_an_answer_and_tenants_do_not_k8() {
    let world = with_width(Width::Tenant).await;
    let first = charge(&world, &world.alice).await;
    assert_eq!(world.service.last().header("idempotency-key").unwrap(), "t-acme:_any:_any:k-1");
    for who in [&world.bob, &world.carol] {
        let shared = charge(&world, who).await;
        assert!(shared.is_replay());
        assert_eq!(shared.without_marks(), first.clone().without_marks());
        can_recall(&world, who, &first).await;
    }
    assert_eq!(world.service.count(), 1);
    cannot_recall(&world, &world.eve, &first).await;
    assert!(!charge(&world, &world.eve).await.is_replay());
    assert_eq!(world.service.count(), 2);
}

#[tokio::test]
async fn whoever_shares_an_answer_is_not_told_what_the_first_one_asked_for_h10() {
    let world = with_width(Width::Project).await;
    assert_eq!(charge(&world, &world.alice).await.status, 201);
    let other = world.ask("POST /charges", &world.bob, &KEY, "{\"amount\":1}").await;
    assert_eq!((other.status, other.code().as_str()), (422, "key-reused"));
    assert!(other.json().get("differences").is_none(), "{}", other.text());
    assert_eq!(world.service.count(), 1);
}

#[tokio::test]
async fn a_route_that_was_narrowed_does_not_hand_out_what_was_shared_before_k8() {
    for (before, now, refused) in [
        (Width::Tenant, Width::Project, ["carol", "eve"].as_slice()),
        (Width::Tenant, Width::Subject, &["bob", "carol", "eve"]),
        (Width::Project, Width::Subject, &["bob", "carol", "eve"]),
    ] {
        let world = with_width(before).await;
        let first = charge(&world, &world.alice).await;
        let mut narrowed = settings(&world.service);
        change_rule(&mut narrowed, "charge", |rule| rule.width = now);
        world.gateway.reload(narrowed).await.unwrap();
        let named = [("bob", &world.bob), ("carol", &world.carol), ("eve", &world.eve)];
        for (_, who) in named.iter().filter(|(name, _)| refused.contains(name)) {
            cannot_recall(&world, who, &first).await;
            let own = charge(&world, who).await;
            assert_eq!((own.status, own.is_replay()), (201, false), "{before:?} {now:?}");
            cannot_recall(&world, who, &first).await;
        }
    }
}

#[tokio::test]
async fn what_a_narrowed_route_hides_costs_as_many_reads_as_what_is_not_there_h7_k8() {
    let store = Memory::open(Options::default());
    let ledger = Faulty::new(store.clone());
    let world = World::run(Service::start().await, store, Executor::new(ledger.clone()), |settings| {
        change_rule(settings, "charge", |rule| rule.width = Width::Project);
    })
    .await;
    // Looks in two places: what belongs to the project, and what belongs to the tenant.
    let chief = key_of_level(&world.store, "acme", "web", "user:chief", Level::Tenant).await;
    let first = world.ask("POST /charges", &world.alice, &KEY, "{}").await;
    let operation = first.header("x-operation-id").unwrap();
    assert!(world.ask(&format!("GET /operations/{operation}"), &chief, &[], "").await.is_replay());
    let mut narrowed = settings(&world.service);
    change_rule(&mut narrowed, "charge", |rule| rule.width = Width::Subject);
    world.gateway.reload(narrowed).await.unwrap();
    let mut costs = Vec::new();
    for id in [operation, "op_00000000000000000000000000000000"] {
        let (peeks, locates) = (ledger.peeks(), ledger.locates());
        assert_eq!(world.ask(&format!("GET /operations/{id}"), &chief, &[], "").await.status, 404);
        costs.push((ledger.peeks() - peeks, ledger.locates() - locates));
    }
    assert_eq!(costs, [(0, 2); 2]);
}

#[tokio::test]
async fn a_route_that_was_widened_does_not_hand_out_what_was_kept_for_one_k8() {
    let world = with_width(Width::Subject).await;
    let first = charge(&world, &world.alice).await;
    let mut widened = settings(&world.service);
    change_rule(&mut widened, "charge", |rule| rule.width = Width::Tenant);
    world.gateway.reload(widened).await.unwrap();
    for who in [&world.bob, &world.carol, &world.eve] {
        cannot_recall(&world, who, &first).await;
    }
    let operation = first.header("x-operation-id").unwrap();
    let own = world.ask(&format!("GET /operations/{operation}"), &world.alice, &[], "").await;
    assert_eq!((own.status, own.is_replay()), (201, true), "its own caller still gets it");
}

#[tokio::test]
async fn under_another_name_an_operation_has_the_claims_that_it_had_k6_h7() {
    for width in [Width::Subject, Width::Tenant] {
        let store = Memory::open(Options::default());
        let ledger = Faulty::new(store.clone());
        let world = World::run(Service::start().await, store, Executor::new(ledger.clone()), |settings| {
            change_rule(settings, "charge", |rule| rule.width = width);
        })
        .await;
        let reads = || (ledger.peeks(), ledger.locates());
        let first = charge(&world, &world.alice).await;
        let before = reads();
        assert!(charge(&world, &world.alice).await.is_replay());
        let cost = (reads().0 - before.0, reads().1 - before.1);
        let mut renamed = settings(&world.service);
        change_rule(&mut renamed, "charge", |rule| {
            rule.width = width;
            rule.label = Some(Operation::new("charge.v2").unwrap());
        });
        world.gateway.reload(renamed).await.unwrap();
        let before = reads();
        let again = charge(&world, &world.alice).await;
        assert_eq!((again.is_replay(), &again.body), (true, &first.body));
        assert_eq!((reads().0 - before.0, reads().1 - before.1), cost, "nothing more is looked up");
        can_recall(&world, &world.alice, &first).await;
        assert_eq!(world.service.count(), 1);
    }
}

//! The source's walkthrough and what follows from it, on every store: two runs and one hold; one process and three.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hapax::Store;
use hapax_agent::actions::gate::Decision;
use hapax_agent::actions::receipts::Args;
use hapax_agent::actions::{
    Actions, Connectors, Disposition, Gate, Invocation, Invoked, Local, Origin, PlannedAction, Rules, Tool,
    lanes_waiting, receipts,
};
use hapax_core::claim::{State, Verb};
use hapax_core::{Inspect as _, Journal as _, Project, Tenant, Timestamp};
use hapax_exec::Executor;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::world::{World, on_each_store};

fn origin() -> Origin {
    Origin { tenant: Tenant::new("acme").unwrap(), project: Project::new("prod").unwrap(), traceparent: None }
}

fn action(tool: &str, key: &str, args: &Value) -> PlannedAction {
    PlannedAction {
        connector: "magento".into(),
        tool: tool.into(),
        args: RawValue::from_string(args.to_string()).unwrap(),
        entity_key: "ship-risk:SO-10884".into(),
        idempotency_key: Some(key.into()),
    }
}

fn hold() -> PlannedAction {
    let args = json!({ "order": "SO-10884", "reason": "ship-risk-review" });
    action("orders.hold", "ship-risk:SO-10884:hold", &args)
}

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

/// What the order system has seen.
#[derive(Clone, Default)]
struct Orders {
    holds: Arc<AtomicUsize>,
    at_once: Arc<AtomicUsize>,
    most_at_once: Arc<AtomicUsize>,
}

impl Orders {
    async fn hold(self, call: Invocation, takes: Duration) -> Invoked {
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_once.fetch_max(now, Ordering::SeqCst);
        assert_eq!(call.key.as_ref().map(String::len), Some(64), "an effect has a key downstream");
        tokio::time::sleep(takes).await;
        self.holds.fetch_add(1, Ordering::SeqCst);
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        Invoked::Done(raw(&json!({ "status": "holded", "order": "SO-10884" })))
    }

    fn connectors(&self, takes: Duration) -> Connectors {
        let orders = self.clone();
        let local = Local::default()
            .tool("orders.hold", Tool::default(), move |call| orders.clone().hold(call, takes))
            .tool("orders.get", Tool::reads(), |call: Invocation| async move {
                assert_eq!(call.key, None, "a read has no key");
                Invoked::Done(raw(&json!({ "status": "open" })))
            })
            .tool("orders.refuse", Tool::default(), |_| async { Invoked::NotRun("404".into()) })
            .tool("orders.lose", Tool::default(), |_| async { Invoked::Unknown("reset".into()) });
        Connectors::default().local("magento", local)
    }

    fn actions(&self, store: &Store) -> Actions<Store> {
        let gate = Gate::new(Decision::Allow);
        let rules = Rules::new(self.connectors(Duration::from_millis(50)), gate);
        Actions::new(Executor::new(store.clone()), rules, None)
    }
}

on_each_store! {
    two_runs_that_propose_one_hold_place_one_hold_and_keep_its_key_for_ever_x9,
    a_plan_with_an_action_twice_is_told_as_the_source_tells_it_x5,
    the_same_key_with_other_args_or_another_tool_is_refused_x4,
    only_success_burns_the_key,
    a_doubt_closes_the_lane_to_writes_and_not_to_reads_until_it_is_resolved,
    what_cannot_be_done_says_why_and_leaves_a_receipt,
    actions_on_one_entity_never_overlap,
    a_name_of_any_length_leaves_a_receipt_that_can_be_written_x8,
}

async fn two_runs_that_propose_one_hold_place_one_hold_and_keep_its_key_for_ever_x9(world: World) {
    let store = world.store.clone();
    let orders = Orders::default();
    let actions = orders.actions(&store);
    let (plan, origin) = (vec![hold()], origin());
    let (a, b) = tokio::join!(actions.run(&origin, plan.clone()), actions.run(&origin, plan.clone()));
    let mut decisions = [a[0].decision, b[0].decision];
    decisions.sort_by_key(|decision| decision.as_str());
    assert_eq!(decisions, [Disposition::Allow, Disposition::Dedup]);
    assert!(a[0].ok && b[0].ok);
    assert_eq!(orders.holds.load(Ordering::SeqCst), 1);
    let held = hapax_core::Filter { key: Some("ship-risk:SO-10884:hold".into()), ..Default::default() };
    let record = store.list(&held, None, 10).await.unwrap().items.remove(0);
    let State::Settled { keep_until, .. } = record.claim.state else { panic!("{:?}", record.claim.state) };
    assert_eq!(keep_until, Timestamp::NEVER);
}

async fn a_plan_with_an_action_twice_is_told_as_the_source_tells_it_x5(world: World) {
    let store = world.store.clone();
    let results = Orders::default().actions(&store).run(&origin(), vec![hold(), hold()]).await;
    let action = json!({
        "connector": "magento",
        "tool": "orders.hold",
        "args": { "order": "SO-10884", "reason": "ship-risk-review" },
        "entity_key": "ship-risk:SO-10884",
        "idempotency_key": "ship-risk:SO-10884:hold"
    });
    let told = json!([
        {
            "action": action, "decision": "ALLOW", "ok": true,
            "result": { "status": "holded", "order": "SO-10884" }
        },
        { "action": action, "decision": "DEDUP", "ok": true }
    ]);
    assert_eq!(serde_json::to_value(&results).unwrap(), told);
}

async fn the_same_key_with_other_args_or_another_tool_is_refused_x4(world: World) {
    let store = world.store.clone();
    let orders = Orders::default();
    let actions = orders.actions(&store);
    actions.run(&origin(), vec![hold()]).await;
    for other in [
        action("orders.hold", "ship-risk:SO-10884:hold", &json!({ "order": "SO-10885" })),
        action(
            "orders.refuse",
            "ship-risk:SO-10884:hold",
            &json!({ "order": "SO-10884", "reason": "ship-risk-review" }),
        ),
    ] {
        let told = actions.act(&origin(), other).await;
        assert_eq!((told.decision, told.ok, told.code), (Disposition::Block, false, Some("key-reused")));
    }
    assert_eq!(orders.holds.load(Ordering::SeqCst), 1);
}

async fn only_success_burns_the_key(world: World) {
    let store = world.store.clone();
    let actions = Orders::default().actions(&store);
    let refused = action("orders.refuse", "r", &json!({}));
    for _ in 0..2 {
        let told = actions.act(&origin(), refused.clone()).await;
        assert_eq!((told.decision, told.ok, told.error.as_deref()), (Disposition::Allow, false, Some("404")));
    }
    let told = actions.act(&origin(), hold()).await;
    assert!(told.ok, "the lane is open: {told:?}");
}

async fn a_doubt_closes_the_lane_to_writes_and_not_to_reads_until_it_is_resolved(world: World) {
    let store = world.store.clone();
    let orders = Orders::default();
    let actions = orders.actions(&store);
    let lost = action("orders.lose", "lost", &json!({}));
    let told = actions.act(&origin(), lost.clone()).await;
    assert_eq!((told.decision, told.ok, told.code), (Disposition::Allow, false, Some("outcome-unknown")));
    let events = store.read(&receipts::stream(&origin().tenant).unwrap(), 0, 1).await.unwrap();
    let receipt: Value = serde_json::from_slice(events[0].payload.bytes().unwrap()).unwrap();
    assert_eq!(receipt["code"], "outcome-unknown", "as its caller was told");
    let told = actions.act(&origin(), hold()).await;
    assert_eq!((told.decision, told.code), (Disposition::Block, Some("lane-in-doubt")));
    let again = actions.act(&origin(), lost).await;
    assert_eq!((again.decision, again.code), (Disposition::Block, Some("outcome-unknown")));
    let read = PlannedAction { idempotency_key: None, ..action("orders.get", "", &json!({})) };
    assert!(actions.act(&origin(), read).await.ok, "a read goes on");
    let elsewhere = PlannedAction { entity_key: "other".into(), ..hold() };
    assert!(actions.act(&origin(), elsewhere).await.ok, "so does another entity");

    let filter = hapax_core::Filter { key: Some("lost".into()), ..Default::default() };
    let record = store.list(&filter, None, 10).await.unwrap().items.remove(0);
    let decision = hapax_core::Decision {
        seen: record.claim.epoch,
        verb: Verb::Release { force: true },
        actor: "ann".into(),
        reason: "it was not done".into(),
    };
    store.decide(record.identity.claim_id(), decision).await.unwrap();
    let other = action("orders.hold", "second", &json!({ "order": "SO-10884" }));
    assert!(actions.act(&origin(), other).await.ok, "nothing but the claim was resolved");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_657_flood_is_one_message_and_657_receipts() {
    for world in [World::memory().await, World::embedded().await] {
        let store = world.store.clone();
        flood([store.clone(), store.clone(), store]).await;
    }
}

/// 657 times the same, from three processes.
async fn flood(stores: [Store; 3]) {
    let orders = Orders::default();
    let mut flood = JoinSet::new();
    for (process, store) in stores.iter().enumerate() {
        // Three executors with a queue of callers each, as three processes have.
        let actions = orders.actions(store);
        for _ in 0..219 {
            let actions = actions.clone();
            flood.spawn(async move { (process, actions.act(&origin(), hold()).await) });
        }
    }
    let (mut allowed, mut repeated) = (0, 0);
    while let Some(done) = flood.join_next().await {
        let (_, told) = done.unwrap();
        assert!(told.ok, "{told:?}");
        match told.decision {
            Disposition::Allow => allowed += 1,
            Disposition::Dedup => repeated += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((allowed, repeated, orders.holds.load(Ordering::SeqCst)), (1, 656, 1));
    let stream = receipts::stream(&origin().tenant).unwrap();
    let head = stores[0].head(&stream).await.unwrap().unwrap();
    assert_eq!(head.length, 657);
    // What a store notes of its own work (O1): each process sees its own appends.
    let appends = stores.iter().map(|store| store.tally().appends()).max().unwrap();
    assert!(appends >= 219, "{appends}");
}

async fn actions_on_one_entity_never_overlap(world: World) {
    let store = world.store.clone();
    overlap([store.clone(), store.clone(), store]).await;
}

/// Sixty actions on one entity, from three processes.
async fn overlap(stores: [Store; 3]) {
    let orders = Orders::default();
    let mut runs = JoinSet::new();
    for (process, store) in stores.iter().enumerate() {
        let connectors = orders.connectors(Duration::from_millis(2));
        let actions = Actions::new(
            Executor::new(store.clone()),
            Rules::new(connectors, Gate::new(Decision::Allow)),
            None,
        );
        for n in 0..20 {
            let actions = actions.clone();
            let key = format!("{process}.{n}");
            runs.spawn(async move { actions.act(&origin(), action("orders.hold", &key, &json!({}))).await });
        }
    }
    // Those that wait for their turn are seen (O1).
    let mut waiting = 0;
    while let Some(done) = runs.join_next().await {
        let told = done.unwrap();
        assert!(told.ok, "{told:?}");
        waiting = waiting.max(lanes_waiting());
    }
    assert!(waiting > 0, "sixty actions in one lane, and none was seen to wait");
    let most = orders.most_at_once.load(Ordering::SeqCst);
    assert_eq!((orders.holds.load(Ordering::SeqCst), most), (60, 1));
}

mod three_on_postgres {
    use super::*;
    use crate::world::processes;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_657_flood_is_one_message_over_three_processes() {
        flood(processes().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn actions_on_one_entity_never_overlap_over_three_processes() {
        overlap(processes().await).await;
    }
}

async fn what_cannot_be_done_says_why_and_leaves_a_receipt(world: World) {
    let store = world.store.clone();
    let blocking = Orders::default();
    let actions = blocking.actions(&store);
    let unkeyed = PlannedAction { idempotency_key: None, ..hold() };
    let large = json!({ "text": "x".repeat(70_000) });
    let refused = [
        (PlannedAction { connector: "none".into(), ..hold() }, "connector-unknown"),
        (action("none", "k", &json!({})), "tool-unknown"),
        (unkeyed, "key-missing"),
        (action("orders.hold", &"k".repeat(1025), &json!({})), "key-malformed"),
        (action("orders.hold", "k", &large), "args-malformed"),
        (PlannedAction { entity_key: String::new(), ..hold() }, "entity-malformed"),
    ];
    let many = refused.len() as u64;
    for (action, code) in refused {
        let told = actions.act(&origin(), action).await;
        assert_eq!((told.decision, told.ok, told.code), (Disposition::Block, false, Some(code)));
    }
    let closed = Actions::new(
        Executor::new(store.clone()),
        Rules::new(blocking.connectors(Duration::ZERO), Gate::new(Decision::Block)),
        None,
    );
    let told = serde_json::to_value(closed.act(&origin(), hold()).await).unwrap();
    assert_eq!((&told["error"], told.get("code")), (&json!("blocked by trust policy"), None));
    assert_eq!(blocking.holds.load(Ordering::SeqCst), 0);
    let stream = receipts::stream(&origin().tenant).unwrap();
    assert_eq!(store.head(&stream).await.unwrap().unwrap().length, many + 1);
    let events = store.read(&stream, many, 1).await.unwrap();
    let receipt: Value = serde_json::from_slice(events[0].payload.bytes().unwrap()).unwrap();
    assert_eq!((&receipt["decision"], receipt.get("args")), (&json!("BLOCK"), None));
    assert_eq!(receipt["argsDigest"].as_str().map(str::len), Some(64));
    assert!(actions.act(&origin(), hold()).await.ok, "no key was burned");
}

async fn a_name_of_any_length_leaves_a_receipt_that_can_be_written_x8(world: World) {
    let store = world.store.clone();
    let orders = Orders::default();
    let rules = Rules::new(orders.connectors(Duration::ZERO), Gate::new(Decision::Allow));
    let actions = Actions::new(Executor::new(store.clone()), Rules { args: Args::Full, ..rules }, None);
    let long = "n".repeat(2_200_000);
    let actions_of_any_size = [
        PlannedAction { connector: long.clone(), ..hold() },
        action(&long, "k", &json!({})),
        action("orders.hold", &long, &json!({})),
        PlannedAction { entity_key: long.clone(), ..hold() },
        action("orders.hold", "k", &json!({ "text": long })),
        PlannedAction { connector: "n".repeat(513), ..hold() },
    ];
    let many = actions_of_any_size.len();
    for action in actions_of_any_size {
        assert_eq!(actions.act(&origin(), action).await.decision, Disposition::Block);
    }
    let stream = receipts::stream(&origin().tenant).unwrap();
    let events = store.read(&stream, 0, 100).await.unwrap();
    assert_eq!(events.len(), many, "every one has its receipt");
    for event in &events {
        let payload = event.payload.bytes().unwrap();
        assert!(payload.len() < 4_096, "{} bytes", payload.len());
        let receipt: Value = serde_json::from_slice(payload).unwrap();
        assert_eq!(
            (&receipt["decision"], receipt.get("args").is_some()),
            (&json!("BLOCK"), receipt["code"] != "args-malformed")
        );
    }
    let receipt: Value = serde_json::from_slice(events[2].payload.bytes().unwrap()).unwrap();
    let key = receipt["idempotencyKey"].as_str().unwrap();
    assert!(key.starts_with("nnnn") && key.contains("2200000 bytes, SHA-256 "), "{key}");
}

//! The gate and what it raises, with real lanes and claims: alerts are there before the tool is called, counts cannot be raced past (X6).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use hapax::Store;
use hapax_agent::actions::gate::Decision;
use hapax_agent::actions::{
    Actions, Connectors, Disposition, Gate, Invoked, Local, Origin, PlannedAction, Rule, Rules, Tool, alerts,
};
use hapax_core::lane::LaneId;
use hapax_core::{Lanes as _, Project, Tenant};
use hapax_exec::{Executor, Seal};
use hapax_store::memory::Memory;
use hapax_store::{Lifecycle as _, Options};
use serde_json::value::RawValue;
use tokio::task::JoinSet;

fn origin() -> Origin {
    Origin { tenant: Tenant::new("acme").unwrap(), project: Project::new("prod").unwrap(), traceparent: None }
}

fn message(number: usize) -> PlannedAction {
    PlannedAction {
        connector: "chat".into(),
        tool: "send".into(),
        args: RawValue::from_string(format!("{{\"text\":\"secret {number}\"}}")).unwrap(),
        entity_key: "customer:kim".into(),
        idempotency_key: Some(format!("customer:kim:{number}")),
    }
}

fn gate(when: &str, decision: Decision) -> Gate {
    Gate::new(Decision::Allow).rules(vec![Rule::compile("the rule", when, decision).unwrap()])
}

async fn on_each<F: AsyncFn(Store)>(check: F) {
    check(Store::Memory(Memory::open(Options::default()))).await;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("embedded:{}", folder.path().display());
    let store = Store::open(&url, Options::default()).await.unwrap();
    check(store.clone()).await;
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alert_is_there_when_the_tool_is_called_and_a_repeated_action_raises_none() {
    on_each(async |store| {
        let seen = Arc::new(AtomicUsize::new(0));
        let (watched, calls) = (store.clone(), seen.clone());
        let chat = Local::default().tool("send", Tool::default(), move |_| {
            let (watched, calls) = (watched.clone(), calls.clone());
            async move {
                let (raised, _) = alerts::list(&watched, None, None, None, 10).await.unwrap();
                calls.fetch_add(raised.len(), Ordering::SeqCst);
                Invoked::Done(RawValue::from_string("{}".into()).unwrap())
            }
        });
        let rules =
            Rules::new(Connectors::default().local("chat", chat), gate("tool == 'send'", Decision::Alert));
        let actions = Actions::new(Executor::new(store.clone()), rules, None);
        for decision in [Disposition::Alert, Disposition::Dedup, Disposition::Dedup] {
            let told = actions.act(&origin(), message(1)).await;
            assert_eq!((told.decision, told.ok), (decision, true), "{told:?}");
        }
        assert_eq!(seen.load(Ordering::SeqCst), 1, "it was raised before the tool was called");
        let (raised, _) = alerts::list(&store, None, Some("acme"), None, 10).await.unwrap();
        let alert = raised[0].alert.as_ref().unwrap();
        assert_eq!((raised.len(), alert.rule.as_deref(), alert.tool.as_str()), (1, Some("the rule"), "send"));
        assert!(alert.args.is_none(), "arguments are kept as a digest");
        assert!(alerts::list(&store, None, Some("umbrella"), None, 10).await.unwrap().0.is_empty());
        let seen = alerts::acknowledge(&store, None, &raised[0].id, "kim", "looked").await.unwrap();
        assert!(seen.is_some());
        assert!(alerts::acknowledge(&store, None, &raised[0].id, "kim", "looked").await.unwrap().is_none());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_twenty_messages_to_one_customer_five_are_sent_whoever_sends_them() {
    on_each(async |store| race([store.clone(), store.clone(), store]).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_of_twenty_messages_from_three_processes_five_are_sent() {
    race(crate::world::processes().await).await;
}

/// Twenty messages to one customer, from three processes.
async fn race(stores: [Store; 3]) {
    let sent = Arc::new(AtomicUsize::new(0));
    let mut senders = JoinSet::new();
    for number in 0..20 {
        let (store, sent) = (stores[number % 3].clone(), sent.clone());
        senders.spawn(async move {
            let chat = Local::default().tool("send", Tool::default(), move |_| {
                sent.fetch_add(1, Ordering::SeqCst);
                async { Invoked::Done(RawValue::from_string("{}".into()).unwrap()) }
            });
            let gate = gate("recent(tool, '1h') >= 5", Decision::Block);
            let rules = Rules::new(Connectors::default().local("chat", chat), gate);
            // Each of them is a process of its own, as far as rules know.
            let actions = Actions::new(Executor::new(store), rules, None);
            actions.act(&origin(), message(number)).await.decision
        });
    }
    let decisions = senders.join_all().await;
    let blocked = decisions.iter().filter(|decision| **decision == Disposition::Block).count();
    assert_eq!((sent.load(Ordering::SeqCst), blocked), (5, 15));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_rules_hold_for_the_next_action() {
    let store = Store::Memory(Memory::open(Options::default()));
    let connectors = || {
        let chat = Local::default().tool("send", Tool::default(), |_| async {
            Invoked::Done(RawValue::from_string("{}".into()).unwrap())
        });
        Connectors::default().local("chat", chat)
    };
    let actions =
        Actions::new(Executor::new(store), Rules::new(connectors(), Gate::new(Decision::Block)), None);
    assert_eq!(actions.act(&origin(), message(1)).await.decision, Disposition::Block);
    actions.reload(Rules::new(connectors(), Gate::new(Decision::Allow)));
    assert_eq!(actions.act(&origin(), message(1)).await.decision, Disposition::Allow);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_of_an_action_is_sealed_and_told_all_the_same_b9() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("embedded:{}", folder.path().display());
    let store = Store::open(&url, Options::default()).await.unwrap();
    let chat = Local::default().tool("send", Tool::default(), |_| async {
        Invoked::Done(RawValue::from_string("{\"answer\":\"hush-hush\"}".into()).unwrap())
    });
    let rules = Rules {
        include_result: true,
        args: hapax_agent::actions::receipts::Args::Full,
        ..Rules::new(Connectors::default().local("chat", chat), Gate::new(Decision::Alert))
    };
    let seal = Some(Arc::new(Seal::new(vec![[7; 32]]).unwrap()));
    let actions = Actions::new(Executor::new(store.clone()), rules, seal.clone());
    actions.act(&origin(), message(1)).await;
    let again = actions.act(&origin(), message(1)).await;
    assert_eq!(
        (again.decision, again.result.unwrap().get()),
        (Disposition::Dedup, "{\"answer\":\"hush-hush\"}")
    );
    let sought = hapax_agent::actions::read::Sought::default();
    let page = hapax_agent::actions::read::read(&store, seal.clone(), &origin().tenant, &sought, None, 10)
        .await
        .unwrap();
    let args = page.receipts[1].receipt.as_ref().unwrap().args.as_ref().unwrap();
    assert_eq!((page.receipts.len(), &args["text"]), (2, &serde_json::json!("secret 1")));
    let (raised, _) = alerts::list(&store, seal, None, None, 10).await.unwrap();
    assert!(raised[0].alert.is_some());
    assert!(
        alerts::list(&store, None, None, None, 10).await.unwrap().0[0].alert.is_none(),
        "without the key"
    );
    store.close().await.unwrap();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let Ok(bytes) = std::fs::read(file.unwrap().path()) else { continue };
        for plain in ["hush-hush", "secret 1"] {
            assert!(
                !bytes.windows(plain.len()).any(|window| window == plain.as_bytes()),
                "{plain} is in the clear"
            );
        }
    }
}

#[cfg(feature = "failpoints")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_that_loses_its_place_before_it_begins_takes_another_one_and_raises_one_alert_x2_x6() {
    let store = Store::Memory(Memory::open(Options::default()));
    let lane = LaneId { tenant: origin().tenant, project: origin().project, entity: "customer:kim".into() };
    let taken = Arc::new(AtomicUsize::new(0));
    let (places, memory, of) = (taken.clone(), store.clone(), lane.clone());
    // The place goes after it was told to be served, and before the action begins.
    fail::cfg_callback("actions.entered", move || {
        let view = memory.look(&of).now_or_never().unwrap().unwrap();
        // Other tests of this process have stores of their own.
        let Some(ticket) = view.served() else { return };
        if places.fetch_add(1, Ordering::SeqCst) == 0 {
            memory.leave(&of, ticket.id, true).now_or_never().unwrap().unwrap();
        }
    })
    .unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let called = calls.clone();
    let chat = Local::default().tool("send", Tool::default(), move |_| {
        called.fetch_add(1, Ordering::SeqCst);
        async { Invoked::Done(RawValue::from_string("{}".into()).unwrap()) }
    });
    let rules =
        Rules::new(Connectors::default().local("chat", chat), gate("tool == 'send'", Decision::Alert));
    let actions = Actions::new(Executor::new(store.clone()), rules, None);
    let told = actions.act(&origin(), message(1)).await;
    fail::remove("actions.entered");
    assert_eq!((told.decision, told.ok), (Disposition::Alert, true), "{told:?}");
    assert_eq!((taken.load(Ordering::SeqCst), calls.load(Ordering::SeqCst)), (2, 1), "two places, one call");
    assert!(actions.settle(Duration::from_secs(30)).await);
    let (raised, _) = alerts::list(&store, None, None, None, 10).await.unwrap();
    assert_eq!(raised.len(), 1, "the first attempt's is taken back");
    let view = store.look(&lane).await.unwrap();
    assert!(view.lane.tickets.is_empty() && view.lane.closed_by.is_none(), "{view:?}");
}

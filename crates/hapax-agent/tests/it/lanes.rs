//! How long an action waits for others on its entity.

use std::sync::Arc;
use std::time::Duration;

use hapax::Store;
use hapax_agent::actions::gate::Decision;
use hapax_agent::actions::{
    Actions, Connectors, Disposition, Gate, Invoked, Local, Origin, PlannedAction, Rules, Tool, receipts,
};
use hapax_core::lane::LaneId;
use hapax_core::limits::MAX_LANE_TICKETS;
use hapax_core::{AttemptId, Journal as _, Lanes as _, Project, Tenant};
use hapax_exec::Executor;
use hapax_store::Options;
use hapax_store::memory::Memory;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::time::Instant;

fn action(tool: &str, key: Option<&str>) -> PlannedAction {
    PlannedAction {
        connector: "slow".into(),
        tool: tool.into(),
        args: RawValue::from_string("{}".into()).unwrap(),
        entity_key: "e".into(),
        idempotency_key: key.map(str::to_owned),
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_lane_ends_after_a_minute_and_burns_nothing_x3() {
    let began = Arc::new(Notify::new());
    let begins = Arc::clone(&began);
    let done = || Invoked::Done(RawValue::from_string("1".into()).unwrap());
    let local = Local::default()
        .tool("hold", Tool::default(), move |_| {
            let begins = Arc::clone(&begins);
            async move {
                begins.notify_one();
                tokio::time::sleep(Duration::from_secs(300)).await;
                done()
            }
        })
        .tool("read", Tool::reads(), move |_| std::future::ready(done()));
    let rules = Rules::new(Connectors::default().local("slow", local), Gate::new(Decision::Allow));
    let store = Store::Memory(Memory::open(Options::default()));
    let actions = Actions::new(Executor::new(store), rules, None);
    let origin = Origin {
        tenant: Tenant::new("acme").unwrap(),
        project: Project::new("prod").unwrap(),
        traceparent: None,
    };
    let (first, whose) = (actions.clone(), origin.clone());
    let first = tokio::spawn(async move { first.act(&whose, action("hold", Some("first"))).await });
    began.notified().await;
    for waiting in [action("hold", Some("second")), action("read", None)] {
        let since = Instant::now();
        let told = actions.act(&origin, waiting).await;
        assert_eq!((told.decision, told.code), (Disposition::Block, Some("lane-timeout")));
        let waited = since.elapsed().as_secs();
        assert!((60..65).contains(&waited), "it waited {waited} s");
    }
    let first = first.await.unwrap();
    assert!(first.ok, "{:?}", first.error);
    let told = actions.act(&origin, action("hold", Some("second"))).await;
    assert_eq!((told.decision, told.ok), (Disposition::Allow, true), "{:?}", told.error);
}

#[tokio::test]
async fn an_action_for_which_there_is_no_room_in_its_lane_is_told_so_and_burns_nothing_x3() {
    let done = || Invoked::Done(RawValue::from_string("1".into()).unwrap());
    let local = Local::default().tool("hold", Tool::default(), move |_| std::future::ready(done()));
    let rules = Rules::new(Connectors::default().local("slow", local), Gate::new(Decision::Allow));
    let store = Store::Memory(Memory::open(Options::default()));
    let actions = Actions::new(Executor::new(store.clone()), rules, None);
    let origin = Origin {
        tenant: Tenant::new("acme").unwrap(),
        project: Project::new("prod").unwrap(),
        traceparent: None,
    };
    let lane = lane(&origin);
    let tickets: Vec<_> = (0..MAX_LANE_TICKETS).map(|_| AttemptId::random()).collect();
    for ticket in &tickets {
        store.enter(&lane, *ticket, None).await.unwrap();
    }
    let told = actions.act(&origin, action("hold", Some("k"))).await;
    assert_eq!((told.decision, told.ok, told.code), (Disposition::Block, false, Some("lane-full")));
    let events = store.read(&receipts::stream(&origin.tenant).unwrap(), 0, 10).await.unwrap();
    let receipt: serde_json::Value = serde_json::from_slice(events[0].payload.bytes().unwrap()).unwrap();
    assert_eq!((events.len(), &receipt["code"]), (1, &serde_json::json!("lane-full")));
    for ticket in tickets {
        store.leave(&lane, ticket, true).await.unwrap();
    }
    let told = actions.act(&origin, action("hold", Some("k"))).await;
    assert_eq!((told.decision, told.ok), (Disposition::Allow, true), "{:?}", told.error);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_lets_what_runs_end_and_begins_nothing_more_x1() {
    let (began, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, goes) = (Arc::clone(&began), Arc::clone(&go));
    let done = || Invoked::Done(RawValue::from_string("1".into()).unwrap());
    let local = Local::default().tool("hold", Tool::default(), move |_| {
        let (begins, goes) = (Arc::clone(&begins), Arc::clone(&goes));
        async move {
            begins.notify_one();
            goes.notified().await;
            done()
        }
    });
    let rules = Rules::new(Connectors::default().local("slow", local), Gate::new(Decision::Allow));
    let store = Store::Memory(Memory::open(Options::default()));
    let actions = Actions::new(Executor::new(store.clone()), rules, None);
    let origin = Origin {
        tenant: Tenant::new("acme").unwrap(),
        project: Project::new("prod").unwrap(),
        traceparent: None,
    };
    let plan = |keys: &[&str]| keys.iter().map(|key| action("hold", Some(key))).collect::<Vec<_>>();
    let (running, whose) = (actions.clone(), origin.clone());
    let first = plan(&["1", "2", "3"]);
    let first = tokio::spawn(async move { running.run(&whose, first).await });
    began.notified().await;
    // Another plan waits for its turn on the same entity.
    let (waiting, whose) = (actions.clone(), origin.clone());
    let second = plan(&["4"]);
    let second = tokio::spawn(async move { waiting.run(&whose, second).await });
    while store.look(&lane(&origin)).await.unwrap().lane.tickets.len() < 2 {
        tokio::task::yield_now().await;
    }
    actions.stop();
    let second = second.await.unwrap();
    assert_eq!((second[0].decision, second[0].code), (Disposition::Block, Some("stopping")));
    go.notify_one();
    let told: Vec<_> = first.await.unwrap().iter().map(|result| (result.ok, result.code)).collect();
    assert_eq!(told, [(true, None), (false, Some("stopping")), (false, Some("stopping"))]);
    let events = store.read(&receipts::stream(&origin.tenant).unwrap(), 0, 10).await.unwrap();
    assert_eq!(events.len(), 4, "each has its receipt");
    assert!(actions.settle(Duration::from_secs(60)).await);
    assert!(store.look(&lane(&origin)).await.unwrap().lane.tickets.is_empty(), "every place is left");
}

fn lane(origin: &Origin) -> LaneId {
    LaneId { tenant: origin.tenant.clone(), project: origin.project.clone(), entity: "e".to_owned() }
}

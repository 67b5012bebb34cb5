//! How long an action waits for others on its entity.

use std::sync::Arc;
use std::time::Duration;

use hapax::Store;
use hapax_agent::actions::gate::Decision;
use hapax_agent::actions::{
    Actions, Connectors, Disposition, Gate, Invoked, Local, Origin, PlannedAction, Rules, Tool,
};
use hapax_core::{Project, Tenant};
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
    let origin = Origin { tenant: Tenant::new("acme").unwrap(), project: Project::new("prod").unwrap() };
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

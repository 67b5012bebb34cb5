//! The scenarios of the project, played on a store.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::time::Duration;

use hapax_core::{
    Decision, Ending, Epoch, Error, Inspect, Ledger, Operated, Outcome, Report, Retention, SetAnswer,
    SweepReport, Verdict, View,
};

use super::{Driver, ScenarioAsk, Who, all, run};

/// The processes that use one store, which come and go, on a clock that stands still until it is moved.
pub trait Processes {
    /// A process's handle on the store. It renews its session only when it is told to.
    type Store: Ledger + Inspect;

    /// The first process on a new, empty store.
    fn first(&self) -> impl Future<Output = Self::Store>;

    /// Another process on the same store; `None` where it admits only one.
    fn another(&self) -> impl Future<Output = Option<Self::Store>>;

    /// Renews a process's session.
    fn renew(&self, store: &Self::Store) -> impl Future<Output = Result<(), Error>>;

    /// Ends the process that has this handle and starts another.
    fn restart(&self, old: Self::Store) -> impl Future<Output = Self::Store>;

    /// Moves the clock.
    fn pass(&self, by: Duration);
}

/// The world in which the claims of a scenario live: each has a store of its own.
const WORLD: &str = "scenario";
/// The one session of a store that admits one process.
const ONLY: &str = "everyone";

/// Plays every scenario on a fresh store; at least half of them must be playable.
pub async fn play_all<P: Processes>(processes: impl Fn() -> P) {
    let scenarios = all().unwrap_or_else(|failure| panic!("{failure}"));
    let mut played = 0;
    for scenario in &scenarios {
        let mut driver = StoreDriver::new(processes()).await;
        if scenario.needs_sessions && !driver.has_sessions() {
            continue;
        }
        run(scenario, &mut driver).await.unwrap_or_else(|failure| panic!("{failure}"));
        played += 1;
    }
    assert!(
        played * 2 >= scenarios.len() && played > 10,
        "only {played} of {} scenarios were played",
        scenarios.len()
    );
}

struct StoreDriver<P: Processes> {
    processes: P,
    shared: bool,
    stores: HashMap<String, P::Store>,
    lapsed: HashSet<String>,
}

impl<P: Processes> StoreDriver<P> {
    async fn new(processes: P) -> Self {
        let first = processes.first().await;
        let shared = processes.another().await.is_some();
        StoreDriver {
            processes,
            shared,
            stores: HashMap::from([(ONLY.to_owned(), first)]),
            lapsed: HashSet::new(),
        }
    }

    fn name<'a>(&self, actor: &'a str) -> &'a str {
        if self.shared { actor } else { ONLY }
    }

    async fn store(&mut self, actor: &str) -> P::Store {
        let name = self.name(actor);
        if !self.stores.contains_key(name) {
            let store = self.processes.another().await.expect("a store that is shared lets another one in");
            self.stores.insert(name.to_owned(), store);
        }
        self.stores[name].clone()
    }

    /// Time passes, and whoever is alive is heard of before anybody can ask.
    async fn pass(&self, by: Duration) -> Result<(), Error> {
        self.processes.pass(by);
        for (name, store) in &self.stores {
            if !self.lapsed.contains(name) {
                self.processes.renew(store).await?;
            }
        }
        Ok(())
    }
}

impl<P: Processes> Driver for StoreDriver<P> {
    fn has_sessions(&self) -> bool {
        self.shared
    }

    async fn claim(&mut self, actor: &str, ask: &ScenarioAsk) -> Result<Verdict, Error> {
        self.store(actor).await.claim(ask.request(WORLD)).await
    }

    async fn set(
        &mut self,
        actor: &str,
        ask: &ScenarioAsk,
        outcome: Outcome,
        retention: Retention,
    ) -> Result<SetAnswer, Error> {
        self.store(actor).await.set(ask.request(WORLD), outcome, retention).await
    }

    async fn report(
        &mut self,
        actor: &str,
        key: &str,
        epoch: Epoch,
        report: Report,
    ) -> Result<Ending, Error> {
        let claim = ScenarioAsk::claim_id(WORLD, key);
        self.store(actor).await.report(claim, epoch, report, Vec::new()).await
    }

    async fn peek(&mut self, actor: &str, key: &str) -> Result<Option<View>, Error> {
        self.store(actor).await.peek(ScenarioAsk::claim_id(WORLD, key)).await
    }

    async fn look(&mut self, key: &str) -> Result<Option<Epoch>, Error> {
        let record = self.store(ONLY).await.record(ScenarioAsk::claim_id(WORLD, key)).await?;
        Ok(record.map(|record| record.claim.epoch))
    }

    async fn decide(&mut self, key: &str, decision: Decision) -> Result<Operated, Error> {
        self.store(ONLY).await.decide(ScenarioAsk::claim_id(WORLD, key), decision).await
    }

    async fn sweep(&mut self) -> Result<SweepReport, Error> {
        let (store, mut total) = (self.store(ONLY).await, SweepReport::default());
        loop {
            let report = store.sweep(10).await?;
            total.forgotten += report.forgotten;
            total.released += report.released;
            total.in_doubt += report.in_doubt;
            if !report.more {
                return Ok(total);
            }
        }
    }

    async fn advance(&mut self, by: Duration) -> Result<(), Error> {
        self.pass(by).await
    }

    async fn lapse(&mut self, who: &Who) -> Result<(), Error> {
        match who {
            Who::Actor(actor) => {
                self.store(actor).await;
                self.lapsed.insert(self.name(actor).to_owned());
            }
            Who::Everyone => {
                self.lapsed.extend(self.stores.keys().filter(|name| !self.shared || *name != ONLY).cloned())
            }
        }
        self.pass(Duration::from_secs(45)).await
    }

    async fn revive(&mut self, actor: &str) -> Result<(), Error> {
        self.lapsed.remove(self.name(actor));
        let store = self.store(actor).await;
        self.processes.renew(&store).await
    }

    async fn restart(&mut self, actor: &str) -> Result<(), Error> {
        let name = self.name(actor).to_owned();
        if !self.lapsed.remove(&name) && !self.shared {
            return Ok(());
        }
        let old = self.store(actor).await;
        self.stores.remove(&name);
        let new = self.processes.restart(old).await;
        self.stores.insert(name, new);
        Ok(())
    }
}

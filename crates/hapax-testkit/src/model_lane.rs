//! A lane beside the claims of its actions, checked exhaustively: up to three processes, crashes, lapsing and reviving sessions,
//! commands whose answer is lost or that arrive late, time and operators.
//!
//! Every transition of a claim is the product's own [`hapax_core::step`], every one of the lane its own [`hapax_core::lane::step`];
//! modelled are the processes around them, in the order of X2: enter, claim, the look at the lease with its renewals, begin, invoke,
//! report, leave. What must always hold is a [`Rule`]; what must be seen at least once a [`Sighting`]. A [`Flaw`] is a broken rule that
//! is planted, among them those of the lane's first design; a checker that does not find it proves nothing.
//!
//! `world` is the state with its ledger and its lane, `process` what can happen next.

mod process;
mod world;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use hapax_core::Rerun;
use stateright::{Checker as _, HasDiscoveries, Model, Property};

pub use process::Action;
pub use world::World;

/// What always holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// No two invokes of one lane overlap, unless the claim of the former is safe to run again and its session lapsed.
    OneAtATime,
    /// Nothing begins in a lane in which another action has begun whose claim is in doubt.
    DoubtCloses,
    /// A lane is not closed by a claim that is neither held nor in doubt, for who asks next.
    NotShutForEver,
    /// An action that is not safe to run again is invoked once.
    OneEffect,
    /// A lane counts every action that was invoked in it.
    AllCounted,
}

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 5] =
        [Rule::OneAtATime, Rule::DoubtCloses, Rule::NotShutForEver, Rule::OneEffect, Rule::AllCounted];

    fn name(self) -> &'static str {
        match self {
            Rule::OneAtATime => "one at a time",
            Rule::DoubtCloses => "a doubt closes",
            Rule::NotShutForEver => "not shut for ever",
            Rule::OneEffect => "one effect",
            Rule::AllCounted => "all counted",
        }
    }
}

/// What happens at least once, in one configuration or another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sighting {
    /// An action waited for another one and ran after it.
    WaitedAndRan,
    /// A ticket was told that the lane is closed by a doubt.
    ToldClosed,
    /// A lane that was closed opened, and who had waited ran.
    OpenedAndRan,
    /// A retry of the closing claim overtook.
    Overtook,
    /// A ticket went because its session lapsed.
    Skipped,
    /// A ticket went by the clock.
    TimedOut,
    /// A process was told at its begin that it is not served any more.
    NotServedAtBegin,
    /// A process whose session had lapsed renewed it and asked the lane again.
    AskedAgain,
    /// A command that was lost arrived late and changed the lane.
    LateArrival,
    /// A process left without knowing what became of its claim.
    LeftUnconfirmed,
    /// Two invokes overlapped where that is allowed.
    SafeOverlap,
    /// An operator released a claim that closed the lane.
    Released,
}

impl Sighting {
    /// All of them.
    pub const ALL: [Sighting; 12] = [
        Sighting::WaitedAndRan,
        Sighting::ToldClosed,
        Sighting::OpenedAndRan,
        Sighting::Overtook,
        Sighting::Skipped,
        Sighting::TimedOut,
        Sighting::NotServedAtBegin,
        Sighting::AskedAgain,
        Sighting::LateArrival,
        Sighting::LeftUnconfirmed,
        Sighting::SafeOverlap,
        Sighting::Released,
    ];
}

/// What can be done wrong on purpose, by the processes or around the lane, never in the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// A process that was served when it entered invokes without asking again.
    NeverBegins,
    /// A process asks whether it is served, renews its lease, and invokes without asking once more.
    BeginsBeforeItRenews,
    /// The ticket of a process that died just goes, and closes nothing.
    TheDeadCloseNothing,
    /// A process leaves without its claim, whatever became of that.
    LeavesAsIfConfirmed,
    /// The lane opens by a message of whoever resolved the claim, which can be lost.
    OpensByMessage,
    /// The claim is read before the lane, and what was decided is written whatever the lane is by then.
    LooksBeforeTheLane,
    /// A lane that is in doubt lets the next one in.
    OnlyHeldCloses,
    /// Begin gives a place to a ticket that has gone.
    BeginTakesAPlace,
}

/// A configuration.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Its name.
    pub name: &'static str,
    /// Which claim the action of each process has.
    pub claims: &'static [u8],
    /// May they run again?
    pub rerun: Rerun,
    /// How many processes may die.
    pub crashes: u8,
    /// How many answers may be lost.
    pub losses: u8,
    /// How often sessions may lapse.
    pub lapses: u8,
    /// How many decisions operators may make.
    pub decisions: u8,
    /// Whether time may pass all bounds.
    pub time: bool,
    /// What is done wrong on purpose.
    pub flaw: Option<Flaw>,
}

impl Config {
    /// Two actions on one entity: a death, lapsing sessions, an operator, time.
    pub const TWO: Config = Config {
        name: "two",
        claims: &[0, 1],
        rerun: Rerun::Unsafe,
        crashes: 1,
        losses: 0,
        lapses: 2,
        decisions: 1,
        time: true,
        flaw: None,
    };
    /// Two actions whose commands get lost or arrive late.
    pub const LOSSES: Config =
        Config { name: "losses", crashes: 0, losses: 1, lapses: 1, decisions: 0, time: false, ..Config::TWO };
    /// Two actions and a retry of the first one.
    pub const RETRY: Config = Config {
        name: "retry",
        claims: &[0, 1, 0],
        crashes: 0,
        lapses: 1,
        time: false,
        decisions: 0,
        ..Config::TWO
    };
    /// The same where it is safe to run them again.
    pub const SAFE: Config = Config { name: "safe", rerun: Rerun::Safe, ..Config::RETRY };
    /// Three actions.
    pub const THREE: Config = Config { name: "three", claims: &[0, 1, 2], ..Config::RETRY };
    /// What is checked.
    pub const ALL: [Config; 5] = [Config::TWO, Config::LOSSES, Config::RETRY, Config::SAFE, Config::THREE];

    /// With something wrong in it.
    #[must_use]
    pub const fn with(self, flaw: Flaw) -> Config {
        Config { flaw: Some(flaw), ..self }
    }
}

/// A lane under one configuration.
#[derive(Clone, Debug)]
struct Actions {
    config: Config,
    seen: Arc<AtomicU32>,
}

impl Model for Actions {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.config)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        process::possible(&self.config, world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        let happened = process::act(&self.config, &mut next, action);
        self.seen.fetch_or(next.take_seen(), Ordering::Relaxed);
        (happened && next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        macro_rules! always {
            ($($rule:ident)+) => {
                vec![$(Property::always(Rule::$rule.name(), |model: &Self, world: &World| {
                    !world.breaks(&model.config, Rule::$rule)
                }),)+]
            };
        }
        always!(OneAtATime DoubtCloses NotShutForEver OneEffect AllCounted)
    }
}

/// What a run of the checker found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Different states.
    pub states: usize,
    /// Every broken rule, with what led to it.
    pub broken: Vec<(Rule, Vec<Action>)>,
    /// What was seen.
    pub seen: BTreeSet<Sighting>,
}

impl Checked {
    /// Whether this rule was broken.
    pub fn breaks(&self, rule: Rule) -> bool {
        self.broken.iter().any(|(broken, _)| *broken == rule)
    }
}

/// Checks a configuration to its end.
pub fn check(config: Config) -> Checked {
    explore(config, HasDiscoveries::All)
}

/// Checks a configuration until this rule is broken, or to its end.
pub fn find(config: Config, rule: Rule) -> Checked {
    explore(config, HasDiscoveries::AnyOf([rule.name()].into()))
}

fn explore(config: Config, until: HasDiscoveries) -> Checked {
    let seen = Arc::new(AtomicU32::new(0));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let model = Actions { config, seen: seen.clone() };
    let checker = model.checker().threads(threads).finish_when(until).spawn_bfs().join();
    let discoveries = checker.discoveries();
    let broken = Rule::ALL.iter().filter_map(|rule| {
        let path = discoveries.get(rule.name())?;
        Some((*rule, path.clone().into_actions()))
    });
    let bits = seen.load(Ordering::Relaxed);
    Checked {
        states: checker.unique_state_count(),
        broken: broken.collect(),
        seen: Sighting::ALL.into_iter().filter(|sighting| bits & (1 << *sighting as u32) != 0).collect(),
    }
}

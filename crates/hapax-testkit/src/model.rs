//! The protocol, checked exhaustively: up to three processes, crashes, lost commands, lapsing sessions,
//! operators, time.
//!
//! Every transition of the ledger is the product's own [`hapax_core::step`], every call is driven by the product's own
//! [`hapax_core::turn`], and what its caller is told comes from there, too. Modelled is what is around them: what reaches whom and
//! when, what the work does, and time. Time is coarse: a session lapses whenever the checker likes, and a day is longer than every
//! other term; the arithmetic of [`Deadline`](hapax_core::turn::Deadline) is the simulation's. What must always hold is a [`Rule`];
//! what must be seen at least once is a [`Sighting`], so that a model in which too little happens does not pass. A [`Flaw`] can be
//! planted: a checker that does not find it proves nothing.
//!
//! `world` is the state, `ledger` calls the rules, `process` carries out the commands of a call, `work` is what is done in between,
//! `debts` what is left when a call is over, `told` holds against the history what callers are told, `possible` is what can happen
//! next and `actions` how it changes the world.

mod actions;
mod config;
mod debts;
pub(crate) mod flaw;
mod ledger;
mod possible;
mod process;
mod properties;
mod told;
mod work;
mod world;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use stateright::{Checker, HasDiscoveries, Model, Property};

pub use actions::{Action, Decides};
pub use config::{Config, Switch, Switches, Work};
pub use flaw::Flaw;
pub use properties::{Broken, Rule, Sighting, Sightings};
pub use work::{End, Reply};
pub use world::World;

use ledger::Step;

/// The protocol under one configuration.
#[derive(Clone, Debug)]
pub struct Protocol {
    config: Config,
    seen: Arc<Sightings>,
}

impl Protocol {
    fn step(&self, world: &World) -> Step<'_> {
        Step { config: &self.config, seen: &self.seen, world: world.clone() }
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.config.processes, self.config.embedded)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        possible::possible(&self.step(world), actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut step = self.step(world);
        step.act(action).then_some(step.world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        macro_rules! always {
            ($($rule:ident)+) => {
                vec![$(Property::always(Rule::$rule.as_str(), |_, world: &World| !world.broken.has(Rule::$rule)),)+]
            };
        }
        always!(
            OneEffect OneOutcome AcknowledgedIsRecorded NothingInvented OneHolder BegunUnderLease EpochsIncrease ReleasedIsOver
            TrueOutcomeIsKept ReturnedIsSeen SetAsideStays OneOperatorWins NoMeansNone YesMeansOne
        )
    }
}

/// What a run of the checker found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The configuration's name.
    pub name: &'static str,
    /// Different states.
    pub states: usize,
    /// The length of the longest of the shortest paths.
    pub depth: usize,
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

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} states, {} steps deep", self.name, self.states, self.depth)?;
        for (rule, path) in &self.broken {
            write!(f, "\n  broken: {rule}")?;
            for action in path {
                write!(f, "\n    {action:?}")?;
            }
        }
        Ok(())
    }
}

/// Checks a configuration to its end.
pub fn check(config: Config) -> Checked {
    explore(config, HasDiscoveries::All)
}

/// Checks a configuration until this rule is broken, or to its end.
pub fn find(config: Config, rule: Rule) -> Checked {
    explore(config, HasDiscoveries::AnyOf([rule.as_str()].into()))
}

fn explore(config: Config, until: HasDiscoveries) -> Checked {
    let seen = Arc::new(Sightings::default());
    let model = Protocol { config, seen: seen.clone() };
    let checker = model.checker().threads(threads()).finish_when(until).spawn_bfs().join();
    let discoveries = checker.discoveries();
    let broken = Rule::ALL.iter().filter_map(|rule| {
        let path = discoveries.get(rule.as_str())?;
        Some((*rule, path.clone().into_actions()))
    });
    Checked {
        name: config.name,
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        broken: broken.collect(),
        seen: seen.seen().into_iter().collect(),
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

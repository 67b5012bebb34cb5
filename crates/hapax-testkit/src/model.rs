//! The protocol, checked exhaustively: up to three processes, crashes, lost commands, lapsing sessions,
//! operators, time.
//!
//! Every transition of the ledger is the product's own [`hapax_core::step`]; modelled are the processes
//! around it, as L and B have them. Time is coarse: a session lapses whenever the checker likes, and
//! a day is longer than every other term. What must always hold is a [`Rule`]; what must be seen at least
//! once is a [`Sighting`], so that a model in which too little happens does not pass. A [`Flaw`] can be
//! planted: a checker that does not find it proves nothing.
//!
//! `world` is the state, `ledger` calls the rules, `process` is what a process does, `actions` what can happen next.

mod actions;
mod config;
pub(crate) mod flaw;
mod ledger;
mod process;
mod properties;
mod world;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use stateright::{Checker, HasDiscoveries, Model, Property};

pub use actions::{Action, Decides};
pub use config::{Config, Switch, Switches, Work};
pub use flaw::Flaw;
pub use process::{End, Reply};
pub use properties::{Broken, Rule, Sighting, Sightings};
pub use world::World;

use ledger::Turn;

/// The protocol under one configuration.
#[derive(Clone, Debug)]
pub struct Protocol {
    config: Config,
    seen: Arc<Sightings>,
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.config.processes, self.config.embedded)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        actions::possible(&self.config, world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut turn = Turn { config: &self.config, seen: &self.seen, world: world.clone() };
        turn.act(action).then_some(turn.world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        macro_rules! always {
            ($($rule:ident)+) => {
                vec![$(Property::always(Rule::$rule.as_str(), |_, world: &World| !world.broken.has(Rule::$rule)),)+]
            };
        }
        always!(
            OneEffect OneOutcome AcknowledgedIsRecorded NothingInvented OneHolder EpochsIncrease ReleasedIsOver
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

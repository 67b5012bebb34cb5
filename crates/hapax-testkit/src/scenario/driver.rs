//! What a scenario is played on.

use std::future::Future;
use std::time::Duration;

use hapax_core::{
    AttemptId, ClaimId, ClaimRequest, Decision, Ending, Epoch, Error, Fingerprint, Identity, Key, Operated,
    Operation, OperationId, Outcome, Report, Retention, Scope, SetAnswer, Source, SweepReport, Terms,
    Verdict, View, Width,
};

/// Whose session is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// One actor's.
    Actor(String),
    /// Everybody's.
    Everyone,
}

/// A claim as a scenario words it.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioAsk {
    /// The key.
    pub key: String,
    /// What is asked; other text is another fingerprint.
    pub body: String,
    /// The attempt that asks.
    pub attempt: AttemptId,
    /// What the grant should be made under.
    pub terms: Terms,
}

impl ScenarioAsk {
    /// The request to a store. `world` keeps the keys of scenarios apart that share one.
    pub fn request(&self, world: &str) -> ClaimRequest {
        let identity = identity(world, &self.key);
        ClaimRequest {
            operation_id: OperationId::mint(&identity.claim_id()),
            identity,
            attempt: self.attempt,
            fingerprint: Fingerprint::of_bytes(self.body.as_bytes()),
            leaves: None,
            terms: self.terms.clone(),
        }
    }

    /// The identity of a key's claim in this world.
    pub fn claim_id(world: &str, key: &str) -> ClaimId {
        identity(world, key).claim_id()
    }
}

fn identity(world: &str, key: &str) -> Identity {
    let operation = Operation::new(world).expect("a world is named like an operation");
    let key = Key::new(key).expect("the parser lets only usable keys pass");
    Identity::new(Source::Header, Scope::local(), Width::Subject, operation, key)
}

/// What a scenario is played on: the rules, a store, or something that stands above one.
///
/// The player keeps the actors' memory (attempt ids, epochs); a driver keeps sessions and claims. Every actor
/// has a live session from the beginning; a driver may start it when the actor is first named, unless
/// everyone has lapsed by then: in that case [`Driver::restart`] comes before the actor's first claim.
pub trait Driver {
    /// Whether every actor has a session of its own. If not, scenarios that need it are left out, and only
    /// [`Who::Everyone`] ever lapses.
    fn has_sessions(&self) -> bool;

    /// Asks for a grant.
    fn claim(&mut self, actor: &str, ask: &ScenarioAsk) -> impl Future<Output = Result<Verdict, Error>>;

    /// Keeps an outcome where nothing is.
    fn set(
        &mut self,
        actor: &str,
        ask: &ScenarioAsk,
        outcome: Outcome,
        retention: Retention,
    ) -> impl Future<Output = Result<SetAnswer, Error>>;

    /// Reports as the holder of an epoch. A renewal renews the actor's session as well.
    fn report(
        &mut self,
        actor: &str,
        key: &str,
        epoch: Epoch,
        report: Report,
    ) -> impl Future<Output = Result<Ending, Error>>;

    /// Reads a claim.
    fn peek(&mut self, actor: &str, key: &str) -> impl Future<Output = Result<Option<View>, Error>>;

    /// The epoch that an operator sees; `None` when the claim is absent.
    fn look(&mut self, key: &str) -> impl Future<Output = Result<Option<Epoch>, Error>>;

    /// Decides as an operator.
    fn decide(&mut self, key: &str, decision: Decision) -> impl Future<Output = Result<Operated, Error>>;

    /// Sweeps all claims of the scenario that are due.
    fn sweep(&mut self) -> impl Future<Output = Result<SweepReport, Error>>;

    /// Lets time pass. Afterwards the sessions that were alive are alive.
    fn advance(&mut self, by: Duration) -> impl Future<Output = Result<(), Error>>;

    /// Lets time pass until the session's term is over, at most a minute. Sessions of others stay alive.
    fn lapse(&mut self, who: &Who) -> impl Future<Output = Result<(), Error>>;

    /// Renews the session that lapsed.
    fn revive(&mut self, actor: &str) -> impl Future<Output = Result<(), Error>>;

    /// Gives an actor whose session lapsed a new one.
    fn restart(&mut self, actor: &str) -> impl Future<Output = Result<(), Error>>;
}

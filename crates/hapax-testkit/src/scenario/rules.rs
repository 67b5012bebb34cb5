//! Scenarios on the rules alone: a map of claims, and [`step`] for everything that happens to them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hapax_core::claim::{current, view};
use hapax_core::{
    Answer, Ask, Change, Claim, Command, Decision, Ending, Epoch, Error, Fingerprint, Now, Operated,
    OperationId, Outcome, Report, Retention, SessionId, SetAnswer, Sign, SweepReport, Swept, Timestamp,
    Verdict, View, step,
};

use super::{Driver, ScenarioAsk, Who};
use crate::clock::START;

/// How long a session lasts without renewal.
const TERM: Duration = Duration::from_secs(30);
/// The world in which the rules' claims live.
const WORLD: &str = "rules";

/// Claims, sessions and a clock; everything else is decided by [`step`].
#[derive(Clone, Debug)]
pub struct RulesDriver {
    time: Timestamp,
    grants: u64,
    claims: BTreeMap<String, Claim>,
    sessions: Vec<Sign>,
    actors: BTreeMap<String, SessionId>,
    alive: BTreeSet<SessionId>,
}

impl RulesDriver {
    /// A world without claims.
    pub fn new() -> Self {
        RulesDriver {
            time: START,
            grants: 0,
            claims: BTreeMap::new(),
            sessions: Vec::new(),
            actors: BTreeMap::new(),
            alive: BTreeSet::new(),
        }
    }

    /// Lets a command be decided, and keeps what was decided.
    fn apply(&mut self, key: &str, command: &Command) -> Answer {
        self.grants += 1;
        let now = self.now(key);
        let (change, answer) = step(self.claims.get(key), command, &now);
        match change {
            Change::None => {}
            Change::Put(claim) => drop(self.claims.insert(key.to_owned(), claim)),
            Change::Remove => drop(self.claims.remove(key)),
        }
        answer
    }

    fn now(&self, key: &str) -> Now {
        let holder = self.claims.get(key).map_or(Sign::UNKNOWN, |claim| self.sign(claim.session));
        let next_epoch = Epoch::new(1, self.grants).expect("a scenario uses few epochs");
        Now { time: self.time, next_epoch, holder }
    }

    fn sign(&self, session: SessionId) -> Sign {
        let known = usize::try_from(session.0).ok().and_then(|index| self.sessions.get(index));
        known.copied().unwrap_or(Sign::UNKNOWN)
    }

    fn session(&mut self, actor: &str) -> SessionId {
        if let Some(session) = self.actors.get(actor) {
            return *session;
        }
        self.start_session(actor)
    }

    fn start_session(&mut self, actor: &str) -> SessionId {
        let session = SessionId(self.sessions.len() as u64);
        self.sessions.push(Sign::UNKNOWN);
        self.actors.insert(actor.to_owned(), session);
        self.renew(session);
        session
    }

    fn renew(&mut self, session: SessionId) {
        self.alive.insert(session);
        let sign = Sign { last: self.time, until: self.time.after(TERM) };
        if let Some(known) = self.sessions.get_mut(session.0 as usize) {
            *known = sign;
        }
    }

    fn pass(&mut self, by: Duration) {
        self.time = self.time.after(by);
        for session in self.alive.clone() {
            self.renew(session);
        }
    }

    fn ask(&mut self, actor: &str, ask: &ScenarioAsk) -> Ask {
        let claim = ScenarioAsk::claim_id(WORLD, &ask.key);
        Ask {
            attempt: ask.attempt,
            operation_id: OperationId::mint(&claim),
            fingerprint: Fingerprint::of_bytes(ask.body.as_bytes()),
            leaves: None,
            terms: ask.terms.clone(),
            session: self.session(actor),
        }
    }
}

impl Default for RulesDriver {
    fn default() -> Self {
        Self::new()
    }
}

impl Driver for RulesDriver {
    fn has_sessions(&self) -> bool {
        true
    }

    async fn claim(&mut self, actor: &str, ask: &ScenarioAsk) -> Result<Verdict, Error> {
        let command = Command::Claim(self.ask(actor, ask));
        match self.apply(&ask.key, &command) {
            Answer::Verdict(verdict) => Ok(verdict),
            other => Err(confused(&other)),
        }
    }

    async fn set(
        &mut self,
        actor: &str,
        ask: &ScenarioAsk,
        outcome: Outcome,
        retention: Retention,
    ) -> Result<SetAnswer, Error> {
        let command = Command::Set(self.ask(actor, ask), outcome, retention);
        match self.apply(&ask.key, &command) {
            Answer::Set(answer) => Ok(answer),
            other => Err(confused(&other)),
        }
    }

    async fn report(
        &mut self,
        actor: &str,
        key: &str,
        epoch: Epoch,
        report: Report,
    ) -> Result<Ending, Error> {
        if report == Report::Renew {
            let session = self.session(actor);
            self.renew(session);
        }
        match self.apply(key, &Command::Hold(epoch, report)) {
            Answer::Ending(ending) => Ok(ending),
            other => Err(confused(&other)),
        }
    }

    async fn peek(&mut self, _actor: &str, key: &str) -> Result<Option<View>, Error> {
        Ok(view(self.claims.get(key), &self.now(key)))
    }

    async fn look(&mut self, key: &str) -> Result<Option<Epoch>, Error> {
        Ok(current(self.claims.get(key), &self.now(key)).map(|claim| claim.epoch))
    }

    async fn decide(&mut self, key: &str, decision: Decision) -> Result<Operated, Error> {
        match self.apply(key, &Command::Operate(decision)) {
            Answer::Operated(operated) => Ok(operated),
            other => Err(confused(&other)),
        }
    }

    async fn sweep(&mut self) -> Result<SweepReport, Error> {
        let mut report = SweepReport::default();
        for (key, epoch) in
            self.claims.iter().map(|(key, claim)| (key.clone(), claim.epoch)).collect::<Vec<_>>()
        {
            match self.apply(&key, &Command::Sweep(epoch)) {
                Answer::Swept(Swept::Kept) => {}
                Answer::Swept(Swept::Forgotten) => report.forgotten += 1,
                Answer::Swept(Swept::Released) => report.released += 1,
                Answer::Swept(Swept::InDoubt) => report.in_doubt += 1,
                other => return Err(confused(&other)),
            }
        }
        Ok(report)
    }

    async fn advance(&mut self, by: Duration) -> Result<(), Error> {
        self.pass(by);
        Ok(())
    }

    async fn lapse(&mut self, who: &Who) -> Result<(), Error> {
        match who {
            Who::Everyone => self.alive.clear(),
            Who::Actor(actor) => {
                let session = self.session(actor);
                self.alive.remove(&session);
            }
        }
        self.pass(TERM);
        Ok(())
    }

    async fn revive(&mut self, actor: &str) -> Result<(), Error> {
        let session = self.session(actor);
        self.renew(session);
        Ok(())
    }

    async fn restart(&mut self, actor: &str) -> Result<(), Error> {
        self.start_session(actor);
        Ok(())
    }
}

fn confused(answer: &Answer) -> Error {
    Error::internal("the rules answered another command").with_detail(format_args!("{answer:?}"))
}

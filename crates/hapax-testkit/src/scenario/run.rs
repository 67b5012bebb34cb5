//! Plays a scenario on a driver and compares the answers.

use std::collections::BTreeMap;

use hapax_core::{AttemptId, Decision, Epoch, Error, Report, Verb, Verdict};

use super::{Act, Driver, Event, Failure, Line, Scenario, ScenarioAsk, Seen, Who, text};

/// Plays a scenario to its end, or to the first line that goes otherwise than it says.
///
/// Besides what the lines say, it checks that epochs of one key only ever grow (L4).
pub async fn run<D: Driver>(scenario: &Scenario, driver: &mut D) -> Result<(), Failure> {
    if scenario.needs_sessions && !driver.has_sessions() {
        return Err(Failure {
            file: scenario.file.clone(),
            line: 0,
            message: "it needs a session for every actor, and this driver has none".to_owned(),
        });
    }
    let mut player = Player { driver, actors: cast(scenario), attempts: 0, newest: BTreeMap::new() };
    for line in &scenario.lines {
        player.play(line).await.map_err(|message| Failure {
            file: scenario.file.clone(),
            line: line.number,
            message,
        })?;
    }
    Ok(())
}

/// Everybody who is named anywhere: all are there from the beginning.
fn cast(scenario: &Scenario) -> BTreeMap<String, Actor> {
    let names = scenario.lines.iter().filter_map(|line| match &line.event {
        Event::Act { actor, .. } | Event::Revive(actor) | Event::Restart(actor) => Some(actor.clone()),
        Event::Lapse(Who::Actor(actor)) | Event::Crash(Who::Actor(actor)) => Some(actor.clone()),
        _ => None,
    });
    names.map(|name| (name, Actor::default())).collect()
}

/// What one actor remembers.
#[derive(Debug, Default)]
struct Actor {
    standing: Standing,
    asks: BTreeMap<String, ScenarioAsk>,
    leases: BTreeMap<String, Epoch>,
    looked: BTreeMap<String, Epoch>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    #[default]
    Alive,
    Lapsed,
    Crashed,
}

struct Player<'a, D> {
    driver: &'a mut D,
    actors: BTreeMap<String, Actor>,
    attempts: u64,
    /// The newest epoch that was granted, by key.
    newest: BTreeMap<String, Epoch>,
}

impl<D: Driver> Player<'_, D> {
    async fn play(&mut self, line: &Line) -> Result<(), String> {
        let answer = match &line.event {
            Event::Act { actor, key, act } => self.act(actor, key, act).await?,
            Event::Sweep => text::swept(&self.driver.sweep().await.map_err(failed)?),
            other => {
                self.happen(other).await?;
                return Ok(());
            }
        };
        match &line.expected {
            Some(expected) if !begins_with(&answer, expected) => {
                Err(format!("expected `{expected}`, got `{answer}`"))
            }
            _ => Ok(()),
        }
    }

    async fn happen(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Time(by) => self.driver.advance(*by).await.map_err(failed),
            Event::Lapse(who) => self.end_sessions(who, Standing::Lapsed).await,
            Event::Crash(who) => self.end_sessions(who, Standing::Crashed).await,
            Event::Revive(actor) => {
                if self.actor(actor).standing != Standing::Lapsed {
                    return Err(format!("only a lapsed session can be revived; {actor}'s is not"));
                }
                self.actor(actor).standing = Standing::Alive;
                self.driver.revive(actor).await.map_err(failed)
            }
            Event::Restart(actor) => {
                if self.actor(actor).standing == Standing::Alive {
                    return Err(format!("{actor} is alive: let it lapse or crash first"));
                }
                self.actor(actor).standing = Standing::Alive;
                self.driver.restart(actor).await.map_err(failed)
            }
            Event::Act { .. } | Event::Sweep => unreachable!("these have an answer and were played already"),
        }
    }

    async fn end_sessions(&mut self, who: &Who, standing: Standing) -> Result<(), String> {
        let names: Vec<String> = match who {
            Who::Actor(name) => vec![name.clone()],
            Who::Everyone => self.actors.keys().cloned().collect(),
        };
        for name in names {
            let actor = self.actor(&name);
            if standing == Standing::Crashed {
                *actor = Actor::default();
            }
            actor.standing = standing;
        }
        self.driver.lapse(who).await.map_err(failed)
    }

    fn actor(&mut self, name: &str) -> &mut Actor {
        self.actors.entry(name.to_owned()).or_default()
    }

    async fn act(&mut self, name: &str, key: &str, act: &Act) -> Result<String, String> {
        // Operators are people: they look and decide whichever process has crashed.
        let by_hand = matches!(act, Act::Look | Act::Decide(..));
        if self.actor(name).standing == Standing::Crashed && !by_hand {
            return Err(format!("{name} has crashed: restart it first"));
        }
        match act {
            Act::Claim { body, terms } => {
                let attempt = self.next_attempt();
                let (key, body, terms) = (key.to_owned(), body.clone(), terms.clone());
                self.claim(name, ScenarioAsk { key, body, attempt, terms }).await
            }
            Act::Resend => {
                let ask = self.actor(name).asks.get(key).cloned();
                let ask = ask.ok_or_else(|| format!("{name} remembers no claim on {key}"))?;
                self.claim(name, ask).await
            }
            Act::Set { body, terms, outcome, retention } => {
                let attempt = self.next_attempt();
                let (key, body, terms) = (key.to_owned(), body.clone(), terms.clone());
                let ask = ScenarioAsk { key, body, attempt, terms };
                let answer = self.driver.set(name, &ask, outcome.clone(), *retention).await;
                Ok(text::set(&answer.map_err(failed)?))
            }
            Act::Report(report) => self.report(name, key, report).await,
            Act::Peek => Ok(text::view(self.driver.peek(name, key).await.map_err(failed)?.as_ref())),
            Act::Look => self.look(name, key).await,
            Act::Decide(verb, seen) => self.decide(name, key, verb, *seen).await,
        }
    }

    fn next_attempt(&mut self) -> AttemptId {
        self.attempts += 1;
        let mut bytes = [0; 16];
        bytes[8..].copy_from_slice(&self.attempts.to_be_bytes());
        AttemptId::from_bytes(bytes)
    }

    async fn claim(&mut self, name: &str, ask: ScenarioAsk) -> Result<String, String> {
        if self.actor(name).standing == Standing::Lapsed {
            return Err(format!("{name}'s session has lapsed: revive or restart it before it claims"));
        }
        let verdict = self.driver.claim(name, &ask).await.map_err(failed)?;
        if let Verdict::Granted(grant) = &verdict {
            let again = self.actor(name).leases.get(&ask.key) == Some(&grant.epoch);
            let newest = self.newest.insert(ask.key.clone(), grant.epoch);
            if !again && newest.is_some_and(|newest| newest >= grant.epoch) {
                return Err(format!("epoch {} was granted after epoch {newest:?}", grant.epoch));
            }
            self.actor(name).leases.insert(ask.key.clone(), grant.epoch);
        }
        self.actor(name).asks.insert(ask.key.clone(), ask);
        Ok(text::verdict(&verdict))
    }

    async fn report(&mut self, name: &str, key: &str, report: &Report) -> Result<String, String> {
        let lease = self.actor(name).leases.get(key).copied();
        let epoch = lease.ok_or_else(|| format!("{name} remembers no lease on {key}"))?;
        let ending = self.driver.report(name, key, epoch, report.clone()).await.map_err(failed)?;
        Ok(text::ending(&ending))
    }

    async fn look(&mut self, name: &str, key: &str) -> Result<String, String> {
        let seen = self.driver.look(key).await.map_err(failed)?;
        match seen {
            None => self.actor(name).looked.remove(key),
            Some(epoch) => self.actor(name).looked.insert(key.to_owned(), epoch),
        };
        Ok(if seen.is_some() { "seen" } else { "absent" }.to_owned())
    }

    async fn decide(&mut self, name: &str, key: &str, verb: &Verb, seen: Seen) -> Result<String, String> {
        // Of an absent claim an operator can have seen no epoch; any will do.
        let never = Epoch::from_packed(0);
        let seen = match seen {
            Seen::Present => self.driver.look(key).await.map_err(failed)?.unwrap_or(never),
            Seen::Stale => never,
            Seen::Looked => {
                let looked = self.actor(name).looked.get(key).copied();
                looked.ok_or_else(|| format!("{name} has not looked at {key}"))?
            }
        };
        let decision = Decision {
            seen,
            verb: verb.clone(),
            actor: name.to_owned(),
            reason: "the scenario says so".to_owned(),
        };
        Ok(text::operated(&self.driver.decide(key, decision).await.map_err(failed)?))
    }
}

/// Whether the expected words are the first ones of the answer.
fn begins_with(answer: &str, expected: &str) -> bool {
    answer.strip_prefix(expected).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

fn failed(error: Error) -> String {
    format!("the driver failed: {error:#}")
}

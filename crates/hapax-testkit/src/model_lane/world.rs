//! The state of the model: the claims, the lane, the processes, what is in flight between them and at the service.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use hapax_core::lane::{Lane, LaneAnswer, LaneCommand, Moment, Standing, Ticket, step as lane_step, view};
use hapax_core::{
    Answer, Ask, AttemptId, Change, Claim, ClaimId, Command, Decision, Ending, Epoch, Fingerprint, Now,
    Operated, OperationId, Outcome, Ran, RecipeId, Report, Rerun, Retention, SessionId, Sign, State, Terms,
    Timestamp, Verb, Verdict, step,
};

use super::{Config, Flaw, Rule, Sighting};

/// Processes, and claims, of the largest configuration.
pub(super) const MANY: usize = 3;
/// Longer than every bound of an action.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long an action may run, and a call may reach its service.
const RUN: Duration = Duration::from_secs(12 * 60 * 60);

/// How the run of an action ended, as its process saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// It was done.
    Done,
    /// It certainly was not.
    NotRun,
    /// Nobody can tell.
    Unknown,
}

/// Where a process stands with its action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Entering,
    Waiting,
    Claiming,
    /// Granted; `begun` once the lane has let it begin, `fresh` as long as its lease is certain by its own clock.
    Holding {
        epoch: u8,
        begun: bool,
        fresh: bool,
    },
    Invoking {
        epoch: u8,
    },
    Reporting {
        epoch: u8,
        end: End,
    },
    Leaving {
        confirmed: bool,
    },
    Over,
    /// It died.
    Down,
}

/// A command that went off without an answer and may still arrive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Message {
    Lane(LaneCommand),
    Claim(u8),
    Report(u8, u8, End),
}

/// A claim as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored(Option<Claim>);

impl Hash for Stored {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Some(claim) = &self.0 else { return 0_u8.hash(hasher) };
        (claim.epoch, claim.attempt, claim.session, claim.granted_at, claim.earlier).hash(hasher);
        match &claim.state {
            State::Held { .. } => 1_u8.hash(hasher),
            State::Settled { .. } => 2_u8.hash(hasher),
            State::InDoubt { reason, since, .. } => (3_u8, reason, since).hash(hasher),
            State::Released { since, ran } => (4_u8, since, ran).hash(hasher),
        }
    }
}

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub(super) day: u8,
    claims: [Stored; MANY],
    next_epoch: u8,
    pub(super) lane: Lane,
    /// Bit by bit: whether the session of a process lives.
    pub(super) live: u8,
    pub(super) phases: [Phase; MANY],
    /// Bit by bit: whose call is at the service, also if its process has died.
    pub(super) calls: u8,
    /// Whose session has lapsed since its call began.
    pub(super) lapsed: u8,
    pub(super) floating: Option<Message>,
    pub(super) crashes: u8,
    pub(super) losses: u8,
    pub(super) lapses: u8,
    pub(super) decisions: u8,
    /// Who has waited, and who was told that the lane is closed.
    pub(super) waited: u8,
    pub(super) told_closed: u8,
    /// Which claims have begun in the lane and were not confirmed to be over, how often each was invoked since it was allowed to, and how often in all.
    begun: u8,
    effects: [u8; MANY],
    invoked: u8,
    broken: u8,
    /// What a process read of the claims before it reads the lane, where that is what it does wrong.
    pub(super) stale: Option<(u8, [Standing; MANY])>,
    seen: Seen,
}

/// What was seen in the present transition; no part of the state.
#[derive(Clone, Debug, Default)]
struct Seen(u32);

impl PartialEq for Seen {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Seen {}

impl Hash for Seen {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

fn bit(process: usize) -> u8 {
    1 << process
}

fn name(claim: u8) -> ClaimId {
    ClaimId::from_bytes([claim + 1; 32])
}

fn epoch(number: u8) -> Epoch {
    Epoch::from_packed((1 << 48) | u64::from(number))
}

pub(super) fn ticket(process: usize) -> AttemptId {
    AttemptId::from_bytes([small(process) + 1; 16])
}

fn small(number: usize) -> u8 {
    u8::try_from(number).expect("the model counts to less than 256")
}

impl World {
    pub(super) fn new(config: &Config) -> Self {
        let phase = |process| if process < config.claims.len() { Phase::Entering } else { Phase::Over };
        World {
            day: 0,
            claims: [Stored(None), Stored(None), Stored(None)],
            next_epoch: 1,
            lane: Lane::default(),
            live: (1 << config.claims.len()) - 1,
            phases: std::array::from_fn(phase),
            calls: 0,
            lapsed: 0,
            floating: None,
            crashes: config.crashes,
            losses: config.losses,
            lapses: config.lapses,
            decisions: config.decisions,
            waited: 0,
            told_closed: 0,
            begun: 0,
            effects: [0; MANY],
            invoked: 0,
            broken: 0,
            stale: None,
            seen: Seen::default(),
        }
    }

    pub(super) fn sees(&mut self, sighting: Sighting) {
        self.seen.0 |= 1 << sighting as u32;
    }

    pub(super) fn take_seen(&mut self) -> u32 {
        std::mem::take(&mut self.seen.0)
    }

    fn breaks_now(&mut self, rule: Rule) {
        self.broken |= 1 << rule as u8;
    }

    /// Whether this rule is broken, by what happened or by how things stand.
    pub(super) fn breaks(&self, config: &Config, rule: Rule) -> bool {
        let shut = || {
            let seen = view(&self.lane, &self.lane_moment(config, usize::MAX));
            let closing = seen.lane.closed_by;
            closing.is_some_and(|closing| self.standing(&closing) == Standing::Over)
        };
        let counted = || self.lane.recent.tools().first().map_or(0, |tool| tool.times.len());
        match rule {
            Rule::NotShutForEver => shut(),
            Rule::AllCounted => counted() < usize::from(self.invoked),
            Rule::OneAtATime | Rule::DoubtCloses | Rule::OneEffect => self.broken & 1 << rule as u8 != 0,
        }
    }

    fn time(&self) -> Timestamp {
        Timestamp::ZERO.after(DAY * (100 + u32::from(self.day)))
    }

    pub(super) fn lives(&self, process: usize) -> bool {
        self.live & bit(process) != 0
    }

    fn session_lives(&self, session: SessionId) -> bool {
        usize::try_from(session.0).is_ok_and(|process| process < MANY && self.lives(process))
    }

    // The ledger.

    fn now(&self, claim: u8) -> Now {
        let held = self.claims[usize::from(claim)].0.as_ref();
        let holder = match held {
            Some(claim) if self.session_lives(claim.session) => {
                Sign { last: self.time(), until: Timestamp::NEVER }
            }
            _ => Sign::UNKNOWN,
        };
        Now { time: self.time(), next_epoch: epoch(self.next_epoch), holder }
    }

    fn standing(&self, id: &ClaimId) -> Standing {
        let claim = id.as_bytes()[0] - 1;
        Standing::of(self.claims[usize::from(claim)].0.as_ref(), &self.now(claim))
    }

    pub(super) fn standings(&self) -> [Standing; MANY] {
        std::array::from_fn(|claim| self.standing(&name(small(claim))))
    }

    fn apply(&mut self, claim: u8, command: &Command) -> Answer {
        let (change, answer) = step(self.claims[usize::from(claim)].0.as_ref(), command, &self.now(claim));
        match change {
            Change::None => {}
            Change::Put(after) => {
                if after.epoch == epoch(self.next_epoch) {
                    self.next_epoch += 1;
                }
                self.claims[usize::from(claim)] = Stored(Some(after));
            }
            Change::Remove => self.claims[usize::from(claim)] = Stored(None),
        }
        answer
    }

    /// The claim of a process's action.
    pub(super) fn claim(&mut self, config: &Config, process: usize) -> Verdict {
        let (claim, id) = (config.claims[process], name(config.claims[process]));
        let ask = Ask {
            attempt: ticket(process),
            operation_id: OperationId::for_claim(&id, [1; 6]),
            fingerprint: Fingerprint { recipe: RecipeId(1), digest: [0; 32] },
            leaves: None,
            terms: Terms { rerun: config.rerun, max_run: RUN, give_up: RUN, ..Terms::default() },
            session: SessionId(process as u64),
        };
        match self.apply(claim, &Command::Claim(ask)) {
            Answer::Verdict(verdict) => verdict,
            other => unreachable!("a claim is answered by a verdict, not {other:?}"),
        }
    }

    pub(super) fn report(&mut self, claim: u8, under: u8, report: Report) -> Ending {
        match self.apply(claim, &Command::Hold(epoch(under), report)) {
            Answer::Ending(ending) => ending,
            other => unreachable!("a report is answered by an ending, not {other:?}"),
        }
    }

    /// Tells how a run ended; whether the ledger has confirmed that the claim is settled or released.
    pub(super) fn conclude(&mut self, claim: u8, under: u8, end: End) -> bool {
        let outcome = Outcome::Succeeded(bytes::Bytes::new());
        let report = match end {
            End::Done => Report::Settle(outcome, Retention::Forever),
            End::NotRun => Report::Release(Ran::No),
            End::Unknown => Report::Release(Ran::Perhaps),
        };
        let ending = self.report(claim, under, report);
        let confirmed = matches!(ending, Ending::Settled(_) | Ending::AlreadySettled(_) | Ending::Released);
        if confirmed {
            self.begun &= !bit(usize::from(claim));
        }
        confirmed
    }

    /// An operator releases a claim without force.
    pub(super) fn release(&mut self, claim: u8) -> bool {
        let Some(seen) = self.claims[usize::from(claim)].0.as_ref().map(|claim| claim.epoch) else {
            return false;
        };
        let verb = Verb::Release { force: false };
        let decision = Decision { seen, verb, actor: String::new(), reason: String::new() };
        let closing = self.lane.closed_by == Some(name(claim));
        let done =
            matches!(self.apply(claim, &Command::Operate(decision)), Answer::Operated(Operated::Done(_)));
        if done {
            self.effects[usize::from(claim)] = 0;
            if closing {
                self.sees(Sighting::Released);
            }
        }
        done
    }

    // The lane.

    fn lane_moment(
        &self,
        config: &Config,
        process: usize,
    ) -> Moment<impl Fn(SessionId) -> bool, impl Fn(&ClaimId) -> Standing> {
        let (flaw, closed_by) = (config.flaw, self.lane.closed_by);
        let stale = self.stale.filter(|(reader, _)| usize::from(*reader) == process);
        let standing = move |id: &ClaimId| {
            let is = match stale {
                Some((_, read)) => read[usize::from(id.as_bytes()[0] - 1)],
                None => self.standing(id),
            };
            match flaw {
                Some(Flaw::OpensByMessage) if closed_by == Some(*id) => Standing::InDoubt,
                Some(Flaw::OnlyHeldCloses) if is == Standing::InDoubt => Standing::Over,
                _ => is,
            }
        };
        Moment { time: self.time(), lives: |session| self.session_lives(session), standing }
    }

    pub(super) fn look(&self, config: &Config, process: usize) -> LaneAnswer {
        view(&self.lane, &self.lane_moment(config, process)).answer(ticket(process))
    }

    pub(super) fn place(&self, config: &Config, process: usize) -> Ticket {
        let claim = Some(name(config.claims[process]));
        let session = SessionId(process as u64);
        Ticket::new(ticket(process), session, claim, self.time(), Duration::from_secs(30))
    }

    /// A command to the lane.
    pub(super) fn tell(&mut self, config: &Config, process: usize, command: &LaneCommand) -> LaneAnswer {
        self.sees_who_goes();
        if config.flaw == Some(Flaw::TheDeadCloseNothing) {
            let (time, live) = (self.time(), self.live);
            let stays = |ticket: &Ticket| time < ticket.until && live & (1 << ticket.session.0) != 0;
            self.lane.tickets.retain(stays);
        }
        if let (Some(Flaw::BeginTakesAPlace), LaneCommand::Begin { ticket, .. }) = (config.flaw, command)
            && self.lane.tickets.iter().all(|waiting| waiting.id != *ticket)
        {
            self.lane.tickets.insert(0, self.place(config, process));
        }
        let (after, answer) = lane_step(&self.lane, command, &self.lane_moment(config, process));
        self.lane = after;
        self.stale = self.stale.filter(|(reader, _)| usize::from(*reader) != process);
        answer
    }

    fn sees_who_goes(&mut self) {
        let skipped = self.lane.tickets.iter().any(|ticket| !self.session_lives(ticket.session));
        let timed_out = self.lane.tickets.iter().any(|ticket| self.time() >= ticket.until);
        for (happened, sighting) in [(skipped, Sighting::Skipped), (timed_out, Sighting::TimedOut)] {
            if happened {
                self.sees(sighting);
            }
        }
    }

    pub(super) fn begin_command(process: usize) -> LaneCommand {
        LaneCommand::Begin { ticket: ticket(process), tool: "hold".into(), max_run: RUN }
    }

    // The service.

    /// The first byte of an invoke.
    pub(super) fn invoke(&mut self, config: &Config, process: usize) {
        let claim = config.claims[process];
        for other in (0..config.claims.len()).filter(|other| *other != process) {
            let is_called = self.calls & bit(other) != 0;
            match config.rerun == Rerun::Safe && self.lapsed & bit(other) != 0 {
                true if is_called => self.sees(Sighting::SafeOverlap),
                false if is_called => self.breaks_now(Rule::OneAtATime),
                _ => {}
            }
        }
        let in_doubt = |other: &usize| self.standing(&name(small(*other))) == Standing::InDoubt;
        let mut others = (0..MANY).filter(|other| small(*other) != claim && self.begun & bit(*other) != 0);
        if others.any(|other| in_doubt(&other)) {
            self.breaks_now(Rule::DoubtCloses);
        }
        self.effects[usize::from(claim)] += 1;
        if config.rerun != Rerun::Safe && self.effects[usize::from(claim)] > 1 {
            self.breaks_now(Rule::OneEffect);
        }
        if self.lane.closed_by == Some(name(claim)) {
            self.sees(Sighting::Overtook);
        } else if self.told_closed & bit(process) != 0 {
            self.sees(Sighting::OpenedAndRan);
        } else if self.waited & bit(process) != 0 {
            self.sees(Sighting::WaitedAndRan);
        }
        self.begun |= bit(usize::from(claim));
        self.invoked += 1;
        self.calls |= bit(process);
        self.lapsed &= !bit(process);
    }

    /// The call is over at the service; one that did not run had no effect.
    pub(super) fn call_ends(&mut self, config: &Config, process: usize, end: End) {
        self.calls &= !bit(process);
        if end == End::NotRun {
            let effects = &mut self.effects[usize::from(config.claims[process])];
            *effects = effects.saturating_sub(1);
        }
    }
}

//! Lanes: the entity whose actions run one at a time, in arrival order (X3).
//!
//! A lane is a queue of tickets. Each ticket hangs on its process's session, names the claim of its action and has an end on the
//! store's clock. [`step`] decides; stores keep the queue. A lane is *closed* as long as the claim that closed it is held or in doubt:
//! [`step`] asks for that claim's [`Standing`], which a store reads after it has read the lane, and keeps what was decided only if the
//! lane is still what it read.
//!
//! `recent` holds what a lane remembers of the actions that began in it.

mod recent;

use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::claim::{Claim, Now, StateName, current};
use crate::error::Error;
use crate::id::{AttemptId, SessionId};
use crate::identity::ClaimId;
use crate::limits;
use crate::scope::{Project, Tenant};
use crate::time::Timestamp;

pub use recent::{Recent, RecentTool};

/// The name of a lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneId {
    /// Whose.
    pub tenant: Tenant,
    /// In which project.
    pub project: Project,
    /// What must not be touched by two at once.
    pub entity: String,
}

impl LaneId {
    /// What a lane is watched under: a digest of its name that no claim has.
    pub fn digest(&self) -> ClaimId {
        let mut sum = Sha256::new();
        for part in ["lane", self.tenant.as_str(), self.project.as_str(), &self.entity] {
            sum.update((part.len() as u64).to_be_bytes());
            sum.update(part.as_bytes());
        }
        ClaimId::from_bytes(sum.finalize().into())
    }
}

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Which action waits; entering again with the same id keeps the place.
    pub id: AttemptId,
    /// The session it hangs on.
    pub session: SessionId,
    /// The action's claim; a read has none.
    pub claim: Option<ClaimId>,
    /// When it goes, whatever became of its holder.
    pub until: Timestamp,
    /// Whether its action has begun.
    pub begun: bool,
}

impl Ticket {
    /// A place for an action that arrives now and waits for [`limits::LANE_WAIT`] at most. The term of its session is added, so that
    /// the ticket of an action that is about to begin does not go before its lease does.
    pub fn new(
        id: AttemptId,
        session: SessionId,
        claim: Option<ClaimId>,
        now: Timestamp,
        term: Duration,
    ) -> Self {
        Ticket { id, session, claim, until: now.after(limits::LANE_WAIT.saturating_add(term)), begun: false }
    }
}

/// A lane as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lane {
    /// Which actions wait, in the order of their arrival.
    pub tickets: Vec<Ticket>,
    /// The claim that closed it.
    pub closed_by: Option<ClaimId>,
    /// Which actions began lately.
    pub recent: Recent,
}

/// How a claim stands now, as far as a lane is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Absent, settled or released: it keeps no lane closed.
    Over,
    /// Its work may be running.
    Held,
    /// It is unknown whether its work happened.
    InDoubt,
}

impl Standing {
    /// Of a claim as it is stored, at this moment.
    pub fn of(claim: Option<&Claim>, now: &Now) -> Self {
        match current(claim, now).map(|claim| claim.state.name()) {
            Some(StateName::Held) => Standing::Held,
            Some(StateName::InDoubt) => Standing::InDoubt,
            Some(StateName::Settled | StateName::Released) | None => Standing::Over,
        }
    }
}

/// What can be said to a lane.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LaneCommand {
    /// Take a place, or ask how far it has moved.
    Enter(Ticket),
    /// The action of this ticket begins now, if it is served. Takes no place; said again it changes nothing.
    Begin {
        /// Whose place.
        ticket: AttemptId,
        /// The tool that is invoked.
        tool: String,
        /// How long the action may run.
        max_run: Duration,
    },
    /// Give the place up.
    Leave {
        /// Whose place.
        ticket: AttemptId,
        /// Whether the ledger has confirmed that the claim is settled or released. Otherwise the claim closes the lane, until a
        /// command finds that it is over.
        confirmed: bool,
    },
}

/// What the asker is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LaneAnswer {
    /// It is your turn.
    Served,
    /// So many are before you.
    Waiting {
        /// How many.
        ahead: usize,
    },
    /// The lane is closed by this claim. The place is kept until its holder leaves.
    Closed {
        /// Which claim.
        by: ClaimId,
        /// Whether the claim is held rather than in doubt: then the lane may open soon.
        held: bool,
    },
    /// Too many wait already.
    Full,
    /// There is no such ticket, or it went because its session lapsed or its time was over.
    Gone,
    /// Done, or there was nothing to do.
    Done,
}

/// What a store knows beside the lane when it decides a command.
pub struct Moment<L, S> {
    /// The store's clock.
    pub time: Timestamp,
    /// Whether a session's term is running.
    pub lives: L,
    /// How a claim stands. Read after the lane was.
    pub standing: S,
}

/// A lane as it stands at some moment, for the tickets in it and for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneView {
    /// The moment, on the store's clock.
    pub time: Timestamp,
    /// The lane: without tickets that have gone, and open if the claim that closed it is over.
    pub lane: Lane,
    /// How the claim that closes it stands.
    pub closing: Standing,
}

impl LaneView {
    /// What the holder of this ticket would be told.
    pub fn answer(&self, ticket: AttemptId) -> LaneAnswer {
        told(&self.lane, ticket, self.closing)
    }

    /// Which ticket is served.
    pub fn served(&self) -> Option<&Ticket> {
        served(&self.lane).map(|at| &self.lane.tickets[at])
    }
}

/// The claims whose standing a command may ask for: a store that cannot read them while it decides reads them before.
pub fn asked_about<L, S>(lane: &Lane, command: Option<&LaneCommand>, moment: &Moment<L, S>) -> Vec<ClaimId>
where
    L: Fn(SessionId) -> bool,
{
    let leaving = match command {
        Some(LaneCommand::Leave { ticket, confirmed: false }) => Some(*ticket),
        _ => None,
    };
    let gone = lane.tickets.iter().filter(|ticket| Some(ticket.id) == leaving || !stays(ticket, moment));
    lane.closed_by.into_iter().chain(gone.filter_map(|ticket| ticket.claim)).collect()
}

/// Decides one command.
pub fn step<L, S>(lane: &Lane, command: &LaneCommand, moment: &Moment<L, S>) -> (Lane, LaneAnswer)
where
    L: Fn(SessionId) -> bool,
    S: Fn(&ClaimId) -> Standing,
{
    let mut after = present(lane, moment);
    let answer = match command {
        LaneCommand::Enter(ticket) => enter(&mut after, *ticket, moment),
        LaneCommand::Begin { ticket, tool, max_run } => {
            begin(&mut after, *ticket, tool, *max_run, moment.time);
            told(&after, *ticket, closing(&after, moment))
        }
        LaneCommand::Leave { ticket, confirmed } => {
            leave(&mut after, *ticket, *confirmed);
            open_if_over(&mut after, moment);
            LaneAnswer::Done
        }
    };
    (after, answer)
}

/// The lane as it stands now, without a command.
pub fn view<L, S>(lane: &Lane, moment: &Moment<L, S>) -> LaneView
where
    L: Fn(SessionId) -> bool,
    S: Fn(&ClaimId) -> Standing,
{
    let lane = present(lane, moment);
    LaneView { time: moment.time, closing: closing(&lane, moment), lane }
}

/// What time and the claims have made of a lane: tickets whose session lapsed or whose end has come go. One that was served closes
/// the lane by its claim, which may still have a run; any other has begun nothing.
fn present<L, S>(lane: &Lane, moment: &Moment<L, S>) -> Lane
where
    L: Fn(SessionId) -> bool,
    S: Fn(&ClaimId) -> Standing,
{
    let mut lane = lane.clone();
    open_if_over(&mut lane, moment);
    while let Some(at) = served(&lane).filter(|at| !stays(&lane.tickets[*at], moment)) {
        let gone = lane.tickets.remove(at);
        lane.closed_by = gone.claim.or(lane.closed_by);
        open_if_over(&mut lane, moment);
    }
    lane.tickets.retain(|ticket| stays(ticket, moment));
    lane
}

fn stays<L: Fn(SessionId) -> bool, S>(ticket: &Ticket, moment: &Moment<L, S>) -> bool {
    moment.time < ticket.until && (moment.lives)(ticket.session)
}

/// The first of an open lane; of a closed one the first that has the closing claim.
fn served(lane: &Lane) -> Option<usize> {
    match lane.closed_by {
        None => (!lane.tickets.is_empty()).then_some(0),
        Some(by) => lane.tickets.iter().position(|ticket| ticket.claim == Some(by)),
    }
}

fn closing<L, S: Fn(&ClaimId) -> Standing>(lane: &Lane, moment: &Moment<L, S>) -> Standing {
    lane.closed_by.map_or(Standing::Over, |by| (moment.standing)(&by))
}

fn open_if_over<L, S: Fn(&ClaimId) -> Standing>(lane: &mut Lane, moment: &Moment<L, S>) {
    if closing(lane, moment) == Standing::Over {
        lane.closed_by = None;
    }
}

fn told(lane: &Lane, ticket: AttemptId, closing: Standing) -> LaneAnswer {
    let Some(at) = lane.tickets.iter().position(|waiting| waiting.id == ticket) else {
        return LaneAnswer::Gone;
    };
    match lane.closed_by {
        _ if served(lane) == Some(at) => LaneAnswer::Served,
        Some(by) => LaneAnswer::Closed { by, held: closing == Standing::Held },
        None => LaneAnswer::Waiting { ahead: at },
    }
}

fn enter<L, S>(lane: &mut Lane, ticket: Ticket, moment: &Moment<L, S>) -> LaneAnswer
where
    L: Fn(SessionId) -> bool,
    S: Fn(&ClaimId) -> Standing,
{
    if lane.tickets.iter().all(|waiting| waiting.id != ticket.id) {
        if lane.tickets.len() >= limits::MAX_LANE_TICKETS {
            return LaneAnswer::Full;
        }
        if stays(&ticket, moment) {
            lane.tickets.push(ticket);
        }
    }
    told(lane, ticket.id, closing(lane, moment))
}

/// Only a served ticket begins. Its end is that of its run from now on.
fn begin(lane: &mut Lane, ticket: AttemptId, tool: &str, max_run: Duration, now: Timestamp) {
    let begins = served(lane).map(|at| &mut lane.tickets[at]);
    if let Some(ticket) = begins.filter(|served| served.id == ticket && !served.begun) {
        (ticket.begun, ticket.until) = (true, now.after(max_run));
        lane.recent.add(tool, now);
    }
}

/// Only a served ticket closes the lane: one that was skipped has nothing to say about it.
fn leave(lane: &mut Lane, ticket: AttemptId, confirmed: bool) {
    let Some(at) = lane.tickets.iter().position(|waiting| waiting.id == ticket) else { return };
    let was_served = served(lane) == Some(at);
    let left = lane.tickets.remove(at);
    if was_served && !confirmed {
        lane.closed_by = left.claim.or(lane.closed_by);
    }
}

/// Checks a lane's name.
pub fn check(lane: &LaneId) -> Result<(), Error> {
    if lane.entity.is_empty() || lane.entity.len() > limits::MAX_NAME_BYTES {
        return Err(Error::invalid("an entity key has 1 to 512 bytes"));
    }
    Ok(())
}

/// Checks the name of a tool.
pub fn check_tool(tool: &str) -> Result<(), Error> {
    if tool.is_empty() || tool.len() > limits::MAX_TOOL_BYTES {
        return Err(Error::invalid("the name of a tool has 1 to 128 bytes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;

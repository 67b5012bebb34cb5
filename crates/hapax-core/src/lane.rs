//! Lanes: the entity whose actions run one at a time, in arrival order (X3).
//!
//! A lane is a queue of tickets. Each ticket hangs on its process's session like a lease does: when the session lapses, the
//! ticket is skipped. [`step`] decides; stores keep the queue. A lane that an action left in doubt is closed until somebody
//! opens it.

use crate::error::Error;
use crate::id::{AttemptId, SessionId};
use crate::identity::ClaimId;
use crate::limits;
use crate::scope::{Project, Tenant};

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

/// A place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Who waits; entering again with the same id keeps the place.
    pub id: AttemptId,
    /// The session it hangs on.
    pub session: SessionId,
}

/// A lane as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// Who waits, the first one being served.
    pub tickets: Vec<Ticket>,
    /// The claim whose doubt closed it.
    pub closed_by: Option<ClaimId>,
}

/// What can be said to a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaneCommand {
    /// Take a place, or ask how far it has moved.
    Enter(Ticket),
    /// Give the place up; with a claim when its doubt must keep others out.
    Leave {
        /// Whose place.
        ticket: AttemptId,
        /// The claim in doubt, if the lane is to be closed.
        doubt: Option<ClaimId>,
    },
    /// The doubt of this claim was resolved.
    Open(ClaimId),
}

/// What the asker is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaneAnswer {
    /// It is your turn.
    Served,
    /// So many are before you.
    Waiting {
        /// How many.
        ahead: usize,
    },
    /// The lane is closed by this claim's doubt.
    Closed(ClaimId),
    /// Too many wait already.
    Full,
    /// Done, or there was nothing to do.
    Done,
}

/// Decides one command. `lives` tells whether a session's term is running.
pub fn step(lane: &Lane, command: &LaneCommand, lives: impl Fn(SessionId) -> bool) -> (Lane, LaneAnswer) {
    let mut after = lane.clone();
    after.tickets.retain(|ticket| lives(ticket.session));
    let answer = match command {
        LaneCommand::Enter(ticket) => enter(&mut after, *ticket),
        LaneCommand::Leave { ticket, doubt } => leave(&mut after, *ticket, *doubt),
        LaneCommand::Open(claim) => {
            after.closed_by = after.closed_by.filter(|closed_by| closed_by != claim);
            LaneAnswer::Done
        }
    };
    (after, answer)
}

fn enter(lane: &mut Lane, ticket: Ticket) -> LaneAnswer {
    if let Some(claim) = lane.closed_by {
        lane.tickets.retain(|waiting| waiting.id != ticket.id);
        return LaneAnswer::Closed(claim);
    }
    let ahead = match lane.tickets.iter().position(|waiting| waiting.id == ticket.id) {
        Some(ahead) => ahead,
        None if lane.tickets.len() >= limits::MAX_LANE_TICKETS => return LaneAnswer::Full,
        None => {
            lane.tickets.push(ticket);
            lane.tickets.len() - 1
        }
    };
    if ahead == 0 { LaneAnswer::Served } else { LaneAnswer::Waiting { ahead } }
}

/// Only whoever is being served can close the lane: a zombie that was skipped has nothing to say about it.
fn leave(lane: &mut Lane, ticket: AttemptId, doubt: Option<ClaimId>) -> LaneAnswer {
    let served = lane.tickets.first().is_some_and(|first| first.id == ticket);
    lane.tickets.retain(|waiting| waiting.id != ticket);
    if served && doubt.is_some() {
        lane.closed_by = doubt;
    }
    LaneAnswer::Done
}

/// Checks a lane's name.
pub fn check(lane: &LaneId) -> Result<(), Error> {
    if lane.entity.is_empty() || lane.entity.len() > limits::MAX_NAME_BYTES {
        return Err(Error::invalid("an entity key has 1 to 512 bytes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(id: u8, session: u64) -> Ticket {
        Ticket { id: AttemptId::from_bytes([id; 16]), session: SessionId(session) }
    }

    fn run(lane: &mut Lane, command: LaneCommand, dead: &[u64]) -> LaneAnswer {
        let (after, answer) = step(lane, &command, |session| !dead.contains(&session.0));
        *lane = after;
        answer
    }

    fn leave(id: u8) -> LaneCommand {
        LaneCommand::Leave { ticket: AttemptId::from_bytes([id; 16]), doubt: None }
    }

    #[test]
    fn tickets_are_served_in_the_order_of_arrival() {
        let mut lane = Lane::default();
        assert_eq!(run(&mut lane, LaneCommand::Enter(ticket(1, 1)), &[]), LaneAnswer::Served);
        assert_eq!(run(&mut lane, LaneCommand::Enter(ticket(2, 2)), &[]), LaneAnswer::Waiting { ahead: 1 });
        assert_eq!(run(&mut lane, LaneCommand::Enter(ticket(3, 3)), &[]), LaneAnswer::Waiting { ahead: 2 });
        assert_eq!(run(&mut lane, LaneCommand::Enter(ticket(1, 1)), &[]), LaneAnswer::Served);
        run(&mut lane, leave(1), &[]);
        assert_eq!(run(&mut lane, LaneCommand::Enter(ticket(3, 3)), &[]), LaneAnswer::Waiting { ahead: 1 });
        assert_eq!(run(&mut lane, LaneCommand::Enter(ticket(2, 2)), &[]), LaneAnswer::Served);
    }

    #[test]
    fn the_tickets_of_a_dead_session_are_skipped() {
        let mut lane = Lane::default();
        run(&mut lane, LaneCommand::Enter(ticket(1, 1)), &[]);
        run(&mut lane, LaneCommand::Enter(ticket(2, 2)), &[]);
        assert_eq!(run(&mut lane, LaneCommand::Enter(ticket(2, 2)), &[1]), LaneAnswer::Served);
    }

    #[test]
    fn a_lane_closed_by_doubt_stays_closed_until_that_claim_is_resolved() {
        let (mut lane, claim) = (Lane::default(), ClaimId::from_bytes([9; 32]));
        run(&mut lane, LaneCommand::Enter(ticket(1, 1)), &[]);
        let close = LaneCommand::Leave { ticket: AttemptId::from_bytes([1; 16]), doubt: Some(claim) };
        run(&mut lane, close, &[]);
        assert_eq!(run(&mut lane, LaneCommand::Enter(ticket(2, 2)), &[]), LaneAnswer::Closed(claim));
        run(&mut lane, LaneCommand::Open(ClaimId::from_bytes([8; 32])), &[]);
        assert_eq!(run(&mut lane, LaneCommand::Enter(ticket(2, 2)), &[]), LaneAnswer::Closed(claim));
        run(&mut lane, LaneCommand::Open(claim), &[]);
        assert_eq!(run(&mut lane, LaneCommand::Enter(ticket(2, 2)), &[]), LaneAnswer::Served);
    }

    #[test]
    fn whoever_is_told_that_the_lane_is_closed_has_no_place_in_it() {
        // X3: nobody waits for an opening that may never come, and the next one is not held up by who left.
        let (mut lane, claim) = (Lane::default(), ClaimId::from_bytes([9; 32]));
        run(&mut lane, LaneCommand::Enter(ticket(1, 1)), &[]);
        run(&mut lane, LaneCommand::Enter(ticket(2, 2)), &[]);
        let close = LaneCommand::Leave { ticket: AttemptId::from_bytes([1; 16]), doubt: Some(claim) };
        run(&mut lane, close, &[]);
        assert_eq!(run(&mut lane, LaneCommand::Enter(ticket(2, 2)), &[]), LaneAnswer::Closed(claim));
        run(&mut lane, LaneCommand::Open(claim), &[]);
        assert_eq!(run(&mut lane, LaneCommand::Enter(ticket(3, 3)), &[]), LaneAnswer::Served);
    }

    #[test]
    fn a_skipped_ticket_cannot_close_the_lane() {
        let (mut lane, claim) = (Lane::default(), ClaimId::from_bytes([9; 32]));
        run(&mut lane, LaneCommand::Enter(ticket(1, 1)), &[]);
        run(&mut lane, LaneCommand::Enter(ticket(2, 2)), &[1]);
        let close = LaneCommand::Leave { ticket: AttemptId::from_bytes([1; 16]), doubt: Some(claim) };
        run(&mut lane, close, &[]);
        assert_eq!(lane.closed_by, None);
    }

    #[test]
    fn a_full_lane_says_so() {
        let mut lane = Lane::default();
        for n in 0..limits::MAX_LANE_TICKETS {
            let id = u128::try_from(n).unwrap().to_be_bytes();
            let ticket = Ticket { id: AttemptId::from_bytes(id), session: SessionId(1) };
            run(&mut lane, LaneCommand::Enter(ticket), &[]);
        }
        assert_eq!(run(&mut lane, LaneCommand::Enter(ticket(255, 1)), &[]), LaneAnswer::Full);
    }
}

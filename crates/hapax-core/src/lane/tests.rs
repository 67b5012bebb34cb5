//! Lanes by their rules: who is served, what closes and opens a lane, and what is counted.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use super::*;

/// A lane with what is around it: the time, the sessions that lapsed, the claims that are held or in doubt.
#[derive(Default)]
struct World {
    lane: Lane,
    time: u64,
    dead: HashSet<u64>,
    claims: RefCell<HashMap<ClaimId, Standing>>,
}

const TERM: Duration = Duration::from_secs(30);

fn claim(id: u8) -> ClaimId {
    ClaimId::from_bytes([id; 32])
}

fn attempt(id: u8) -> AttemptId {
    AttemptId::from_bytes([id; 16])
}

impl World {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1).after(Duration::from_secs(self.time))
    }

    fn run(&mut self, command: &LaneCommand) -> LaneAnswer {
        let (after, answer) = {
            let claims = self.claims.borrow();
            let moment = Moment {
                time: self.now(),
                lives: |session: SessionId| !self.dead.contains(&session.0),
                standing: |claim: &ClaimId| claims.get(claim).copied().unwrap_or(Standing::Over),
            };
            let asked = asked_about(&self.lane, Some(command), &moment);
            let strict = Moment {
                time: self.now(),
                lives: &moment.lives,
                standing: |claim: &ClaimId| {
                    assert!(
                        asked.contains(claim),
                        "a store that reads claims before would not know this one"
                    );
                    (moment.standing)(claim)
                },
            };
            step(&self.lane, command, &strict)
        };
        self.lane = after;
        answer
    }

    /// The ticket `id`, in the session `id`, with the claim `id`.
    fn enter(&mut self, id: u8) -> LaneAnswer {
        self.enter_with(id, Some(claim(id)))
    }

    fn enter_with(&mut self, id: u8, claim: Option<ClaimId>) -> LaneAnswer {
        let ticket = Ticket::new(attempt(id), SessionId(id.into()), claim, self.now(), TERM);
        self.run(&LaneCommand::Enter(ticket))
    }

    fn begin(&mut self, id: u8) -> LaneAnswer {
        self.run(&LaneCommand::Begin { ticket: attempt(id), tool: "hold".into(), max_run: TERM * 9 })
    }

    fn leave(&mut self, id: u8, confirmed: bool) {
        assert_eq!(self.run(&LaneCommand::Leave { ticket: attempt(id), confirmed }), LaneAnswer::Done);
    }

    fn stands(&self, id: u8, standing: Standing) {
        self.claims.borrow_mut().insert(claim(id), standing);
    }
}

const fn waiting(ahead: usize) -> LaneAnswer {
    LaneAnswer::Waiting { ahead }
}

fn closed(by: u8, held: bool) -> LaneAnswer {
    LaneAnswer::Closed { by: claim(by), held }
}

#[test]
fn tickets_are_served_in_the_order_of_arrival() {
    let mut world = World::default();
    assert_eq!(world.enter(1), LaneAnswer::Served);
    assert_eq!(world.enter(2), waiting(1));
    assert_eq!(world.enter(3), waiting(2));
    assert_eq!(world.enter(1), LaneAnswer::Served, "entering again keeps the place");
    world.leave(1, true);
    assert_eq!(world.enter(3), waiting(1));
    assert_eq!(world.enter(2), LaneAnswer::Served);
}

#[test]
fn a_dead_ticket_that_was_served_closes_the_lane_by_its_claim_and_a_waiting_one_just_goes() {
    let mut world = World::default();
    world.enter(1);
    world.enter(2);
    world.enter(3);
    assert_eq!(world.begin(1), LaneAnswer::Served);
    world.stands(1, Standing::InDoubt);
    world.stands(2, Standing::InDoubt);
    world.dead.extend([1, 2]);
    assert_eq!(world.enter(3), closed(1, false));
    assert_eq!(world.lane.closed_by, Some(claim(1)));
    // What was waiting had begun nothing: its own doubt comes from elsewhere, and closes nothing here.
    world.stands(1, Standing::Over);
    assert_eq!(world.enter(3), LaneAnswer::Served);
}

#[test]
fn the_tickets_of_a_dead_session_are_skipped_where_their_claims_are_over() {
    let mut world = World::default();
    world.enter(1);
    world.enter(2);
    world.enter(3);
    world.dead.extend([1, 2]);
    assert_eq!(world.enter(3), LaneAnswer::Served);
}

#[test]
fn a_ticket_ends_by_the_clock_while_it_waits_and_after_its_run() {
    let mut world = World::default();
    world.enter(1);
    world.begin(1);
    world.time += 60;
    world.enter(2);
    world.time += 89;
    assert_eq!(world.enter(2), waiting(1), "a ticket that has begun stays as long as it may run");
    world.time += 1;
    assert_eq!(world.begin(2), LaneAnswer::Gone, "and never gets a place by beginning");
    assert_eq!(world.enter(2), waiting(1), "one that waits stays 60 seconds and a term");
    world.time += 120;
    world.stands(1, Standing::Held);
    assert_eq!(world.enter(3), closed(1, true), "the run is over by the clock, and its claim is not");
}

#[test]
fn a_lane_is_closed_as_long_as_the_claim_that_closed_it_is_held_or_in_doubt() {
    let mut world = World::default();
    world.enter(1);
    world.stands(1, Standing::InDoubt);
    world.leave(1, false);
    assert_eq!(world.enter(2), closed(1, false));
    assert_eq!(world.enter(3), closed(1, false));
    world.stands(1, Standing::Held);
    assert_eq!(world.enter(2), closed(1, true));
    assert_eq!(world.begin(2), closed(1, true));
    world.stands(1, Standing::Over);
    assert_eq!(world.enter(3), waiting(1), "told that it is closed, a ticket has kept its place");
    assert_eq!(world.enter(2), LaneAnswer::Served);
}

#[test]
fn a_retry_of_the_closing_claim_overtakes_and_the_lane_is_its_own() {
    let mut world = World::default();
    world.enter(1);
    world.stands(1, Standing::InDoubt);
    world.leave(1, false);
    world.enter(2);
    assert_eq!(world.enter_with(3, Some(claim(1))), LaneAnswer::Served);
    assert_eq!(world.enter_with(4, Some(claim(1))), closed(1, false), "only the first of them");
    assert_eq!(world.begin(3), LaneAnswer::Served);
    world.leave(3, false);
    assert_eq!(world.enter(2), closed(1, false), "it has learned nothing");
    assert_eq!(world.begin(4), LaneAnswer::Served);
    world.stands(1, Standing::Over);
    world.leave(4, true);
    assert_eq!(world.enter(2), LaneAnswer::Served);
}

#[test]
fn a_confirmed_leave_closes_nothing_and_does_not_open_what_another_claim_closed() {
    let mut world = World::default();
    world.enter(1);
    world.enter(2);
    world.stands(1, Standing::Held);
    world.leave(1, true);
    assert_eq!(world.enter(2), LaneAnswer::Served);
    world.stands(2, Standing::InDoubt);
    world.enter(3);
    world.leave(2, false);
    world.leave(3, true);
    assert_eq!(world.enter(4), closed(2, false));
}

#[test]
fn only_a_served_ticket_closes_the_lane() {
    let mut world = World::default();
    world.enter(1);
    world.enter(2);
    world.stands(2, Standing::Held);
    world.leave(2, false);
    assert_eq!((world.lane.closed_by, world.enter(1)), (None, LaneAnswer::Served));
    world.leave(9, false);
    assert_eq!(world.enter(1), LaneAnswer::Served, "nor does one that is not there");
}

#[test]
fn a_read_has_no_claim_and_closes_nothing() {
    let mut world = World::default();
    world.enter_with(1, None);
    world.enter(2);
    world.dead.insert(1);
    assert_eq!(world.enter(2), LaneAnswer::Served);
    world.stands(2, Standing::InDoubt);
    world.leave(2, false);
    assert_eq!(world.enter_with(3, None), closed(2, false));
    world.leave(3, false);
    assert_eq!(world.lane.closed_by, Some(claim(2)));
}

#[test]
fn beginning_needs_a_served_ticket_and_is_counted_once() {
    let mut world = World::default();
    world.enter(1);
    world.enter(2);
    assert_eq!(world.begin(2), waiting(1));
    assert_eq!((world.begin(1), world.begin(1)), (LaneAnswer::Served, LaneAnswer::Served));
    assert_eq!(world.begin(3), LaneAnswer::Gone);
    assert_eq!(world.lane.tickets.len(), 2);
    assert_eq!(world.lane.recent.count("hold", TERM, world.now()), Some(1));
    assert_eq!(world.lane.recent.count("release", TERM, world.now()), Some(0));
}

#[test]
fn a_ticket_of_a_session_that_has_lapsed_gets_no_place() {
    let mut world = World::default();
    world.dead.insert(1);
    assert_eq!(world.enter(1), LaneAnswer::Gone);
    assert!(world.lane.tickets.is_empty());
}

#[test]
fn a_full_lane_says_so() {
    let mut world = World::default();
    for n in 0..limits::MAX_LANE_TICKETS {
        let id = AttemptId::from_bytes(u128::try_from(n + 1000).unwrap().to_be_bytes());
        let ticket = Ticket::new(id, SessionId(1), None, world.now(), TERM);
        world.run(&LaneCommand::Enter(ticket));
    }
    assert_eq!(world.enter(255), LaneAnswer::Full);
}

#[test]
fn a_count_that_what_is_kept_does_not_reach_fails() {
    let (mut recent, hour) = (Recent::default(), Duration::from_secs(3600));
    let at = |second: u64| Timestamp::from_micros(1).after(hour * 3000 + Duration::from_secs(second));
    for second in 0..64 {
        recent.add("send", at(second));
    }
    assert_eq!(recent.count("send", hour, at(64)), Some(64));
    assert_eq!(recent.count("send", Duration::from_secs(10), at(64)), Some(10));
    recent.add("send", at(64));
    assert_eq!(recent.count("send", hour, at(65)), None, "one more of them is not kept");
    assert_eq!(recent.count("send", Duration::from_secs(64), at(65)), Some(64));
    assert_eq!(recent.count("hold", hour, at(65)), Some(0));
    assert_eq!(recent.count("hold", limits::RECENT_KEPT + hour, at(65)), None);
}

#[test]
fn a_tool_that_is_not_kept_any_more_is_not_counted_as_never_used() {
    let (mut recent, hour) = (Recent::default(), Duration::from_secs(3600));
    let at = |second: u64| Timestamp::from_micros(1).after(hour * 3000 + Duration::from_secs(second));
    for tool in 0..=limits::RECENT_TOOLS as u64 {
        recent.add(&format!("tool-{tool}"), at(tool));
    }
    assert_eq!(recent.count("tool-0", hour, at(100)), None);
    assert_eq!(recent.count("tool-1", hour, at(100)), Some(1));
    recent.add("tool-0", at(101));
    assert_eq!(recent.count("tool-0", hour, at(102)), None, "of what it did before nothing is known");
    assert_eq!(recent.count("tool-0", Duration::from_secs(50), at(102)), Some(1));
}

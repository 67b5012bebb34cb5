//! What can happen next, and what a process makes of it: the order of X2.

use hapax_core::lane::{LaneAnswer, LaneCommand};
use hapax_core::{Ending, Report, Verdict};

use super::world::{End, MANY, Message, Phase, World, ticket};
use super::{Config, Flaw, Sighting};

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A process sends what comes next, and is answered.
    Next(usize),
    /// A process sends what comes next; it arrives, the answer does not.
    Unanswered(usize),
    /// A process sends what comes next; it may arrive later.
    Delayed(usize),
    /// A process that was not answered, or waits, gives up and leaves.
    GivesUp(usize),
    /// The call of a process ends, as it sees it.
    Ends(usize, End),
    /// A process reads the claims before the lane (planted).
    ReadsClaims(usize),
    /// What was delayed arrives.
    Arrives,
    /// A process dies. Its call goes on at the service.
    Dies(usize),
    /// The call of a process that died is over.
    OrphanEnds(usize),
    /// A session lapses.
    Lapses(usize),
    /// A session is renewed after it lapsed.
    Revives(usize),
    /// All bounds pass.
    Day,
    /// An operator releases a claim, not by force.
    Release(u8),
}

pub(super) fn possible(config: &Config, world: &World, actions: &mut Vec<Action>) {
    for process in 0..config.claims.len() {
        match world.phases[process] {
            Phase::Over => {}
            Phase::Down => {
                if world.calls & (1 << process) != 0 {
                    actions.push(Action::OrphanEnds(process));
                }
            }
            Phase::Invoking { .. } => {
                actions.extend([End::Done, End::NotRun, End::Unknown].map(|end| Action::Ends(process, end)));
            }
            phase => {
                actions.push(Action::Next(process));
                if phase == Phase::Waiting {
                    actions.push(Action::GivesUp(process));
                } else if world.losses > 0 && world.floating.is_none() {
                    let lost = [Action::Unanswered, Action::Delayed, Action::GivesUp];
                    actions.extend(lost.map(|lost| lost(process)));
                }
            }
        }
        if config.flaw == Some(Flaw::LooksBeforeTheLane) && world.stale.is_none() {
            actions.push(Action::ReadsClaims(process));
        }
        if world.phases[process] != Phase::Down && world.crashes > 0 {
            actions.push(Action::Dies(process));
        }
        if world.lives(process) && (world.lapses > 0 || world.phases[process] == Phase::Down) {
            actions.push(Action::Lapses(process));
        }
        if !world.lives(process) && world.phases[process] != Phase::Down {
            actions.push(Action::Revives(process));
        }
    }
    if world.floating.is_some() {
        actions.push(Action::Arrives);
    }
    if config.time && world.day == 0 {
        actions.push(Action::Day);
    }
    if world.decisions > 0 {
        actions.extend((0..MANY as u8).filter(|claim| config.claims.contains(claim)).map(Action::Release));
    }
}

/// Makes it happen; whether it could.
pub(super) fn act(config: &Config, world: &mut World, action: Action) -> bool {
    match action {
        Action::Next(process) => next(config, world, process),
        Action::Unanswered(process) => {
            world.losses -= 1;
            let Some(message) = message(config, world, process) else { return false };
            deliver(config, world, message);
        }
        Action::Delayed(process) => {
            world.losses -= 1;
            world.floating = message(config, world, process);
        }
        Action::GivesUp(process) => {
            if world.phases[process] != Phase::Waiting {
                world.losses -= 1;
            }
            gives_up(world, process);
        }
        Action::Ends(process, end) => {
            let Phase::Invoking { epoch } = world.phases[process] else { return false };
            // A call whose end was not seen may still be at the service, but not beyond its bound.
            world.call_ends(config, process, end);
            world.phases[process] = Phase::Reporting { epoch, end };
        }
        Action::ReadsClaims(process) => {
            world.stale = Some((u8::try_from(process).unwrap_or(u8::MAX), world.standings()));
        }
        Action::Arrives => {
            let before = world.lane.clone();
            let Some(message) = world.floating.take() else { return false };
            deliver(config, world, message);
            if world.lane != before {
                world.sees(Sighting::LateArrival);
            }
        }
        Action::Dies(process) => {
            world.crashes -= 1;
            world.phases[process] = Phase::Down;
        }
        Action::OrphanEnds(process) => world.call_ends(config, process, End::Unknown),
        Action::Lapses(process) => lapses(world, process),
        Action::Revives(process) => world.live |= 1 << process,
        Action::Day => day(config, world),
        Action::Release(claim) => {
            world.decisions -= 1;
            return world.release(claim);
        }
    }
    true
}

fn lapses(world: &mut World, process: usize) {
    if world.phases[process] != Phase::Down {
        world.lapses -= 1;
    }
    world.live &= !(1 << process);
    world.lapsed |= world.calls & (1 << process);
    if let Phase::Holding { fresh, .. } = &mut world.phases[process] {
        *fresh = false;
    }
}

/// Every bound of an action ends within a day: calls are over, and no lease is certain.
fn day(config: &Config, world: &mut World) {
    world.day += 1;
    for process in 0..config.claims.len() {
        if world.calls & (1 << process) != 0 {
            world.call_ends(config, process, End::Unknown);
        }
        match &mut world.phases[process] {
            Phase::Holding { fresh, .. } => *fresh = false,
            Phase::Invoking { epoch } => {
                let epoch = *epoch;
                world.phases[process] = Phase::Reporting { epoch, end: End::Unknown };
            }
            _ => {}
        }
    }
}

/// What a process sends in its phase.
fn message(config: &Config, world: &World, process: usize) -> Option<Message> {
    Some(match world.phases[process] {
        Phase::Entering => Message::Lane(LaneCommand::Enter(world.place(config, process))),
        Phase::Claiming => Message::Claim(u8::try_from(process).ok()?),
        Phase::Holding { begun: false, fresh: true, .. } => Message::Lane(World::begin_command(process)),
        Phase::Reporting { epoch, end } => Message::Report(config.claims[process], epoch, end),
        Phase::Leaving { confirmed } => Message::Lane(leave(config, process, confirmed)),
        _ => return None,
    })
}

fn deliver(config: &Config, world: &mut World, message: Message) {
    match message {
        Message::Lane(command) => {
            // Which process sent it matters to no rule of the lane.
            let process = (0..MANY).find(|process| names(&command, *process)).unwrap_or(MANY);
            world.tell(config, process, &command);
        }
        Message::Claim(process) => _ = world.claim(config, process.into()),
        Message::Report(claim, epoch, end) => _ = world.conclude(claim, epoch, end),
    }
}

fn names(command: &LaneCommand, process: usize) -> bool {
    let named = match command {
        LaneCommand::Enter(place) => place.id,
        LaneCommand::Begin { ticket, .. } | LaneCommand::Leave { ticket, .. } => *ticket,
    };
    named == ticket(process)
}

fn leave(config: &Config, process: usize, confirmed: bool) -> LaneCommand {
    let confirmed = confirmed || config.flaw == Some(Flaw::LeavesAsIfConfirmed);
    LaneCommand::Leave { ticket: ticket(process), confirmed }
}

/// Who is not answered, or waits no longer, leaves; that is sent until it is confirmed.
fn gives_up(world: &mut World, process: usize) {
    world.phases[process] = match world.phases[process] {
        Phase::Leaving { .. } => Phase::Over,
        _ => Phase::Leaving { confirmed: false },
    };
}

/// A process sends what comes next, and is answered.
fn next(config: &Config, world: &mut World, process: usize) {
    match world.phases[process] {
        Phase::Entering => {
            let place = LaneCommand::Enter(world.place(config, process));
            let answer = world.tell(config, process, &place);
            told(world, process, answer);
        }
        Phase::Waiting => {
            let answer = world.look(config, process);
            told(world, process, answer);
        }
        Phase::Claiming => claim(config, world, process),
        Phase::Holding { epoch, begun, fresh } => hold(config, world, process, epoch, begun, fresh),
        Phase::Reporting { epoch, end } => {
            let confirmed = world.conclude(config.claims[process], epoch, end);
            if !confirmed {
                world.sees(Sighting::LeftUnconfirmed);
            }
            world.phases[process] = Phase::Leaving { confirmed };
        }
        Phase::Leaving { confirmed } => {
            let command = leave(config, process, confirmed);
            world.tell(config, process, &command);
            world.phases[process] = Phase::Over;
        }
        Phase::Invoking { .. } | Phase::Over | Phase::Down => {}
    }
}

fn told(world: &mut World, process: usize, answer: LaneAnswer) {
    world.phases[process] = match answer {
        LaneAnswer::Served => Phase::Claiming,
        LaneAnswer::Waiting { .. } => {
            world.waited |= 1 << process;
            Phase::Waiting
        }
        LaneAnswer::Closed { held, .. } => {
            if !held {
                world.sees(Sighting::ToldClosed);
            }
            world.told_closed |= 1 << process;
            Phase::Waiting
        }
        LaneAnswer::Gone | LaneAnswer::Full | LaneAnswer::Done => Phase::Over,
    };
}

fn claim(config: &Config, world: &mut World, process: usize) {
    world.phases[process] = match world.claim(config, process) {
        Verdict::Granted(grant) => {
            let epoch = u8::try_from(grant.epoch.counter()).unwrap_or(u8::MAX);
            // Under a session that has lapsed a grant is certain of nothing.
            Phase::Holding { epoch, begun: false, fresh: world.lives(process) }
        }
        Verdict::Replay(_) => Phase::Leaving { confirmed: true },
        Verdict::Held { .. } | Verdict::InDoubt { .. } | Verdict::Mismatch { .. } | Verdict::Spent => {
            Phase::Leaving { confirmed: false }
        }
    };
}

/// Between the grant and the first byte: the lease is made sure of, then the lane is asked, then nothing is done but to look at the
/// clock.
fn hold(config: &Config, world: &mut World, process: usize, epoch: u8, begun: bool, fresh: bool) {
    let skips = config.flaw == Some(Flaw::NeverBegins);
    if !fresh {
        world.live |= 1 << process;
        let renewed = world.report(config.claims[process], epoch, Report::Renew);
        let keeps = begun && config.flaw == Some(Flaw::BeginsBeforeItRenews);
        if begun && matches!(renewed, Ending::Renewed { .. }) {
            world.sees(Sighting::AskedAgain);
        }
        world.phases[process] = match renewed {
            Ending::Renewed { .. } => Phase::Holding { epoch, begun: keeps, fresh: true },
            _ => Phase::Leaving { confirmed: false },
        };
    } else if begun || skips {
        world.invoke(config, process);
        world.phases[process] = Phase::Invoking { epoch };
    } else if world.tell(config, process, &World::begin_command(process)) == LaneAnswer::Served {
        world.phases[process] = Phase::Holding { epoch, begun: true, fresh };
    } else {
        world.sees(Sighting::NotServedAtBegin);
        world.phases[process] = Phase::Reporting { epoch, end: End::NotRun };
    }
}

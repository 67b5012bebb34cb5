//! A walk over every sequence of events, and the arithmetic on time.

use std::collections::{BTreeMap, HashSet};

use super::*;
use crate::advice::{Why, tests as table};
use crate::error::Executed;
use crate::id::SessionId;

const EFFECTS: [Effect; 3] = [Effect::Done, Effect::Nothing, Effect::Unclear];

/// Everything that can happen to a call in its present phase.
fn events(turn: Turn) -> Vec<Event> {
    let kept = EFFECTS
        .into_iter()
        .flat_map(|effect| [false, true].map(|may_have_run| Event::Kept { effect, may_have_run }));
    let unheard =
        [LastWord::Away, LastWord::Damaged, LastWord::Invalid, LastWord::Broken].map(Event::Unheard);
    match turn.command() {
        Command::Claim => {
            let mut all: Vec<Event> = Vec::new();
            for may_have_run in [false, true] {
                all.push(Event::Granted { may_have_run, must_ask: false });
            }
            all.push(Event::Granted { may_have_run: true, must_ask: true });
            all.extend(kept);
            all.extend([
                Event::Held,
                Event::Differs,
                Event::OtherRecipe(RecipeId(7)),
                Event::InDoubt,
                Event::Spent,
            ]);
            all.extend(unheard);
            all
        }
        Command::Rehash(_) => {
            [Event::Rehashed(true), Event::Rehashed(false)].into_iter().chain(unheard).collect()
        }
        Command::Wait | Command::Read => {
            let mut all = vec![Event::GivenBack, Event::Silent, Event::Gone, Event::Held, Event::InDoubt];
            all.extend(kept.into_iter().chain(unheard));
            all
        }
        Command::Pause => vec![Event::Rested(true), Event::Rested(false)],
        Command::Reconcile => {
            let declined = Event::Standing(Standing::TooLate(Delay::None));
            EFFECTS.map(Event::Happened).into_iter().chain([Event::Never, Event::Unknown, declined]).collect()
        }
        Command::Clear | Command::Renew => {
            [Event::Renewed, Event::LostLease].into_iter().chain(kept).chain(unheard).collect()
        }
        Command::Check => {
            let late = [Delay::Ledger, Delay::Service].map(Standing::TooLate);
            [Standing::Sure, Standing::Unsure].into_iter().chain(late).map(Event::Standing).collect()
        }
        Command::Run => {
            let mut all: Vec<Event> =
                EFFECTS.map(|effect| Event::Ended(Due::Settle, Work::Ended(effect))).into_iter().collect();
            all.push(Event::Ended(Due::NotRun, Work::NotRun));
            all.push(Event::Ended(Due::MayHaveRun, Work::MayHaveRun));
            all.push(Event::Ended(Due::Doubt, Work::MayHaveRun));
            all
        }
        Command::Report { due, bare } => {
            let mut all =
                vec![Event::Released, Event::InDoubt, Event::LostLease, Event::Unheard(LastWord::Away)];
            all.extend(kept);
            if due == Due::Settle {
                // A settle under the current epoch is taken, whatever the claim has become (L5).
                all.retain(|event| !matches!(event, Event::Released | Event::InDoubt));
                all.push(Event::Unheard(LastWord::Spooled));
            }
            if !bare {
                all.push(Event::Conflict);
            }
            all
        }
        Command::End(_) => Vec::new(),
    }
}

fn starts() -> Vec<Turn> {
    let mut starts = Vec::new();
    for rejects in [false, true] {
        for safe in [false, true] {
            for retries in [0, 1] {
                starts.push(Turn::new(Patience { rejects, safe, retries, asks: 2, renewals: 2 }));
            }
        }
    }
    starts
}

/// Every state that a call can come to, from every patience.
fn walk() -> HashSet<Turn> {
    let mut todo = starts();
    let mut seen: HashSet<Turn> = todo.iter().copied().collect();
    while let Some(turn) = todo.pop() {
        for event in events(turn) {
            let next = turn.on(event);
            if seen.insert(next) {
                todo.push(next);
            }
        }
    }
    seen
}

#[test]
fn every_sequence_of_events_comes_to_an_end_that_the_table_knows_e6() {
    let seen = walk();
    let mut ends = BTreeMap::new();
    for turn in &seen {
        let Command::End(last) = turn.command() else { continue };
        let told = turn.advice().expect("an end has advice");
        *ends.entry(format!("{:?} {:?} {last:?}", turn.work, turn.history)).or_insert(0) += 1;
        let broken = matches!(last, LastWord::Broken | LastWord::Damaged);
        assert_eq!(matches!(told.why, Why::Broken | Why::Damaged), broken, "{turn:?} is told {told:?}");
    }
    assert!(seen.len() > 1000 && ends.len() > 100, "{} states, {} ends", seen.len(), ends.len());
}

#[test]
fn every_row_of_the_table_is_told_to_a_call_and_the_last_one_to_none_e6() {
    let rows = table::rows();
    let mut told = vec![false; rows.len()];
    for turn in walk() {
        let last = match turn.command() {
            Command::End(last) => last,
            // Its caller may leave while the call goes on.
            _ if turn.advice().is_some() => LastWord::NotYet,
            _ => continue,
        };
        let row = table::first_row(&rows, turn.work, turn.history, last, turn.delay, turn.patience.safe);
        told[row] = true;
        assert_ne!(row, rows.len() - 1, "{turn:?} has no row of its own");
    }
    let never: Vec<&str> =
        rows.iter().zip(&told).filter(|(_, told)| !**told).map(|(row, _)| row.line).collect();
    assert_eq!(never, [rows[rows.len() - 1].line], "rows that no call comes to");
}

#[test]
fn no_call_goes_on_for_ever_but_by_resting() {
    // Each event but a rest uses something up, so a call that has come to a state never comes back to it.
    let mut open: HashSet<Turn> = HashSet::new();
    let mut done: HashSet<Turn> = HashSet::new();
    let mut path: Vec<(Turn, Vec<Event>)> = Vec::new();
    for start in starts() {
        path.push((start, events(start)));
        open.insert(start);
        while let Some((turn, left)) = path.last_mut() {
            let turn = *turn;
            let Some(event) = left.pop() else {
                open.remove(&turn);
                done.insert(turn);
                path.pop();
                continue;
            };
            let next = turn.on(event);
            if event == Event::Rested(true) || done.contains(&next) {
                continue;
            }
            assert!(open.insert(next), "{turn:?} comes back to {next:?} by {event:?}");
            path.push((next, events(next)));
        }
    }
}

#[test]
fn an_outcome_is_handed_out_only_once_the_ledger_has_it_l3() {
    for turn in walk() {
        for event in events(turn) {
            let ends_kept = matches!(turn.on(event).command(), Command::End(LastWord::Kept(_)));
            assert!(!ends_kept || matches!(event, Event::Kept { .. }), "{turn:?} ends by {event:?}");
        }
    }
}

#[test]
fn what_is_kept_is_told_with_the_attempts_before_it_e6() {
    let asked = Turn::new(Patience::new(Rerun::Safe));
    for (may_have_run, executed) in [(false, Executed::No), (true, Executed::Unknown)] {
        let refused = Event::Kept { effect: Effect::Nothing, may_have_run };
        assert_eq!(asked.on(refused).advice().unwrap().executed, executed);
        let waited = asked.on(Event::Held).on(refused);
        assert_eq!(
            waited.advice().unwrap().executed,
            executed,
            "the ledger speaks for the holder that was seen"
        );
        let done = Event::Kept { effect: Effect::Done, may_have_run };
        assert_eq!(asked.on(done).advice().unwrap().executed, Executed::Yes);
    }
    // A call that has done the work and lost its lease does not take another one's refusal for its own.
    let lost = asked
        .on(Event::Granted { may_have_run: false, must_ask: false })
        .on(Event::Standing(Standing::Sure))
        .on(Event::Ended(Due::Settle, Work::Ended(Effect::Done)))
        .on(Event::LostLease);
    let refused = lost.on(Event::Kept { effect: Effect::Nothing, may_have_run: false });
    assert_eq!(refused.advice().unwrap().executed, Executed::Unknown);
}

#[test]
fn what_may_have_run_is_never_told_no_and_what_was_done_never_less_than_it_was_e6() {
    for turn in walk() {
        let Some(told) = turn.advice() else { continue };
        let Command::End(last) = turn.command() else { continue };
        match (turn.work, last) {
            (Work::MayHaveRun, LastWord::Kept(_)) => {}
            (Work::MayHaveRun, _) => assert_ne!(told.executed, Executed::No, "{turn:?}"),
            (Work::Ended(Effect::Done), LastWord::Kept(_)) => {}
            (Work::Ended(Effect::Done), _) => assert_eq!(told.executed, Executed::Yes, "{turn:?}"),
            _ => {}
        }
        let vouched = turn.history == History::Clean && last.is_the_ledgers();
        if told.executed == Executed::No && !vouched {
            // Of another request, or of one that no store could take.
            assert!(matches!(last, LastWord::Differs | LastWord::Invalid), "{turn:?} is told {told:?}");
            assert!(turn.history != History::Clean, "{turn:?} has lost what was vouched for");
        }
    }
}

#[test]
fn a_call_owes_the_ledger_until_it_has_heard_l13() {
    for turn in walk() {
        let owed = turn.debt();
        match turn.command() {
            Command::Claim => assert_eq!(owed, Debt::Abandon),
            Command::Reconcile | Command::Clear | Command::Check | Command::Renew => {
                assert_eq!(owed, Debt::NotRun);
            }
            Command::Run => assert_eq!(owed, Debt::MayHaveRun),
            Command::Report { .. } => assert_eq!(owed, Debt::Pending),
            Command::End(last) => {
                let unheard = matches!(
                    last,
                    LastWord::Away
                        | LastWord::Spooled
                        | LastWord::Damaged
                        | LastWord::Invalid
                        | LastWord::Broken
                );
                assert!(unheard || owed == Debt::Nothing, "{turn:?} owes {owed:?}");
                if turn.work != Work::Untouched && owed != Debt::Nothing {
                    assert_eq!(owed, Debt::Pending, "{turn:?}");
                }
            }
            _ => assert_eq!(owed, Debt::Nothing),
        }
    }
}

#[test]
fn a_call_that_hears_nothing_owes_what_it_owed_and_any_other_end_is_paid_l13() {
    for turn in walk() {
        for event in events(turn) {
            let next = turn.on(event);
            let (ended, unheard) =
                (matches!(next.command(), Command::End(_)), matches!(event, Event::Unheard(_)));
            if unheard {
                assert_eq!(next.debt(), turn.debt(), "{turn:?} after {event:?}");
            } else if ended {
                assert_eq!(next.debt(), Debt::Nothing, "{turn:?} after {event:?}");
            }
        }
    }
}

#[test]
fn a_lease_that_was_lost_is_never_run_under_l5() {
    let mut todo: Vec<Turn> = Vec::new();
    for turn in walk() {
        todo.extend(
            events(turn).into_iter().filter(|event| *event == Event::LostLease).map(|event| turn.on(event)),
        );
    }
    let mut seen: HashSet<Turn> = HashSet::new();
    while let Some(turn) = todo.pop() {
        assert!(!matches!(turn.command(), Command::Run | Command::Claim | Command::Renew), "{turn:?}");
        if seen.insert(turn) {
            todo.extend(events(turn).into_iter().map(|event| turn.on(event)));
        }
    }
    assert!(!seen.is_empty());
}

#[test]
fn work_begins_only_from_a_look_that_was_sure_l4() {
    for turn in walk() {
        for event in events(turn) {
            if turn.on(event).command() == Command::Run {
                assert_eq!((turn.command(), event), (Command::Check, Event::Standing(Standing::Sure)));
            }
            if event == Event::Renewed {
                assert_eq!(turn.on(event).command(), Command::Check, "a renewal is followed by another look");
            }
        }
    }
}

#[test]
fn asks_and_renewals_end() {
    let mut turn = Turn::new(Patience::new(Rerun::Unsafe));
    for _ in 0..limits::ASKS {
        assert_eq!(turn.command(), Command::Claim);
        turn = turn.on(Event::Spent);
    }
    assert_eq!(turn.command(), Command::End(LastWord::Held));

    let mut turn =
        Turn::new(Patience::new(Rerun::Unsafe)).on(Event::Granted { may_have_run: false, must_ask: false });
    for _ in 0..limits::RENEWALS {
        turn = turn.on(Event::Standing(Standing::Unsure));
        assert_eq!(turn.command(), Command::Renew);
        turn = turn.on(Event::Renewed);
    }
    let late = turn.on(Event::Standing(Standing::Unsure));
    assert_eq!(late.command(), Command::Report { due: Due::NotRun, bare: false });
}

#[test]
fn a_debt_is_paid_in_full_l13() {
    assert_eq!(Debt::Abandon.on(Paid::Granted), Debt::NotRun);
    assert_eq!(Debt::Abandon.on(Paid::Heard), Debt::Nothing);
    for debt in [Debt::Abandon, Debt::NotRun, Debt::MayHaveRun, Debt::Pending, Debt::Nothing] {
        assert_eq!(debt.on(Paid::Unheard), debt);
        assert_eq!(debt.on(Paid::Heard), Debt::Nothing);
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn session(left: u64) -> Session {
    Session { id: SessionId(1), term: seconds(30), left: seconds(left), lapses: 0 }
}

#[test]
fn a_lease_is_sure_for_as_long_as_it_is_unbroken_and_a_third_is_left_l4() {
    let terms = Terms::default();
    let deadline = Deadline::new(seconds(100), &session(20), &terms);
    assert_eq!(deadline.standing(seconds(101), &session(19)), Standing::Sure);
    assert_eq!(deadline.standing(seconds(101), &session(10)), Standing::Sure);
    assert_eq!(deadline.standing(seconds(101), &session(9)), Standing::Unsure, "less than a third is left");
    assert_eq!(deadline.standing(seconds(120), &session(29)), Standing::Unsure, "it had lapsed in between");
}

#[test]
fn a_renewal_is_certain_from_when_it_was_sent_and_ends_with_max_run_l4() {
    let terms = Terms { max_run: seconds(60), ..Terms::default() };
    let mut deadline = Deadline::new(seconds(100), &session(0), &terms);
    assert_eq!(deadline.standing(seconds(100), &session(30)), Standing::Unsure);
    deadline.confirmed(seconds(110), seconds(30));
    assert_eq!(deadline.standing(seconds(139), &session(30)), Standing::Sure);
    assert_eq!(deadline.standing(seconds(140), &session(30)), Standing::Unsure);
    deadline.confirmed(seconds(140), seconds(30));
    assert_eq!(deadline.standing(seconds(159), &session(30)), Standing::Sure);
    assert_eq!(deadline.standing(seconds(160), &session(30)), Standing::TooLate(Delay::Ledger));
}

#[test]
fn who_took_the_time_of_a_call_is_to_blame_l6_l8() {
    let terms = Terms { give_up: seconds(10), ..Terms::default() };
    let fresh = Deadline::new(seconds(100), &session(30), &terms);
    assert_eq!(fresh.give_up_at(), Some(seconds(110)));
    assert_eq!(fresh.standing(seconds(110), &session(30)), Standing::TooLate(Delay::Ledger));
    let mut asked = fresh;
    asked.asked(seconds(101), seconds(109));
    assert_eq!(asked.standing(seconds(110), &session(30)), Standing::TooLate(Delay::Ledger));
    asked.asked(seconds(109), seconds(112));
    assert_eq!(asked.standing(seconds(112), &session(30)), Standing::TooLate(Delay::Service));
    assert_eq!(Deadline::new(seconds(1), &session(30), &Terms::default()).give_up_at(), None);
}

#[test]
fn a_turn_is_small() {
    assert!(size_of::<Turn>() <= 32, "{} bytes", size_of::<Turn>());
    assert!(size_of::<Event>() <= 16, "{} bytes", size_of::<Event>());
}

//! What may become of a schedule's document: by example, and over random histories.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::when::Timing;
use super::*;

fn every(every_ms: u64, catch_up: u32) -> Definition {
    Definition {
        timing: Timing::Every { every_ms },
        operation: "report".into(),
        route: "POST /reports".into(),
        tenant: "acme".into(),
        project: "web".into(),
        content_type: None,
        body: String::new(),
        overlap: Overlap::Allow,
        catch_up,
    }
}

fn whens(state: &State) -> impl Fn(&str) -> Option<When> + use<> {
    let definitions = state.definitions.clone();
    move |digest| When::of(&definitions.get(digest)?.timing).ok()
}

fn step(state: &State, now: i64) -> Step {
    state.step(whens(state), now, 0)
}

fn open(key: &str, at: i64, definition: &str) -> Open {
    Open { key: key.into(), at, definition: definition.into(), claim: String::new(), sent_at: at, sends: 1 }
}

fn send(state: &mut State, at: i64, definition: String, late: bool) {
    let tick = open(&format!("sched.a.{at}"), at, &definition);
    state.dispatched(tick, late);
}

const MINUTE: i64 = 60_000;

#[test]
fn a_new_schedule_has_ticks_from_now_on_and_none_before_s1() {
    let state = State::new(&every(1_000, 5), 10_500);
    assert_eq!(step(&state, 10_999), Step::Wait(Some(11_000)));
    assert_eq!(
        step(&state, 11_000),
        Step::Send { at: 11_000, definition: state.current.clone(), late: false }
    );
}

#[test]
fn a_tick_that_was_missed_is_skipped_or_caught_up_s3() {
    let skip = State::new(&every(1_000, 0), 0);
    // Down for ten seconds: the one that is due is sent, those before it are missed at once.
    let missed = Missed { at: 1_000, until: 9_000, count: 9, why: Why::Late };
    assert_eq!(step(&skip, 10_500), Step::Miss(missed.clone()));
    let mut skip = skip;
    assert_eq!(skip.missed(missed).0.missed, 9);
    assert_eq!(step(&skip, 10_500), Step::Send { at: 10_000, definition: skip.current.clone(), late: false });
    // Nothing is due that is recent: a nightly one is not run in the morning.
    let nightly = State::new(&every(60 * MINUTE as u64, 0), 0);
    let tick = 60 * MINUTE;
    assert!(
        matches!(step(&nightly, tick + MINUTE), Step::Send { late: true, .. }),
        "a restart takes a while"
    );
    assert!(matches!(step(&nightly, tick + MINUTE + 1), Step::Miss(Missed { count: 1, why: Why::Late, .. })));
    let caught = State::new(&every(60 * MINUTE as u64, 1), 0);
    assert!(matches!(step(&caught, tick + 30 * MINUTE), Step::Send { at, late: true, .. } if at == tick));
}

#[test]
fn a_tick_older_than_half_of_the_retention_is_missed_s1() {
    let state = State::new(&every(1_000, 100), 0);
    let missed = Missed { at: 1_000, until: 4_000, count: 4, why: Why::Old };
    assert_eq!(state.step(whens(&state), 10_000, 4_500), Step::Miss(missed));
}

#[test]
fn what_overlaps_is_left_out_where_the_schedule_says_so_s1() {
    let mut state = State::new(&Definition { overlap: Overlap::Skip, ..every(1_000, 3) }, 0);
    let current = state.current.clone();
    send(&mut state, 1_000, current, false);
    assert_eq!(step(&state, 2_000), Step::Skip(2_000));
    state.skipped(2_000);
    // What is late by the fault of hapax waits; it is not lost.
    assert_eq!(step(&state, 4_000), Step::Hold);
    state.ended("sched.a.1000");
    assert!(matches!(step(&state, 4_000), Step::Send { at: 3_000, late: true, .. }));
}

#[test]
fn a_change_takes_effect_after_the_later_of_cursor_and_change_and_loses_nothing_s1() {
    let (slow, quick) = (every(1_000, 10), every(400, 10));
    let mut state = State::new(&slow, 0);
    let first = state.current.clone();
    send(&mut state, 1_000, first.clone(), false);
    state.adopt(&quick, 3_100);
    // What was due before the change is the former definition's, and is sent as it says.
    for at in [2_000, 3_000] {
        let Step::Send { at: next, definition, .. } = step(&state, 3_150) else { panic!() };
        assert_eq!((next, &definition), (at, &first));
        send(&mut state, at, definition, true);
    }
    assert_eq!(step(&state, 3_150), Step::Forget);
    state.forget();
    assert_eq!(step(&state, 3_150), Step::Wait(Some(3_200)));
    // The open ones still name what they send.
    assert!(state.definitions.contains_key(&first));
    for at in [1_000, 2_000, 3_000] {
        state.ended(&format!("sched.a.{at}"));
    }
    assert!(!state.definitions.contains_key(&first) && state.definitions.len() == 1);
    // The cursor is ahead of the change where an instance was quicker.
    state.cursor = 9_000;
    state.adopt(&slow, 8_100);
    assert_eq!(step(&state, 9_500), Step::Forget);
    state.forget();
    assert_eq!(step(&state, 9_500), Step::Wait(Some(10_000)));
}

#[test]
fn a_resume_starts_at_now_s1() {
    let mut state = State::new(&every(1_000, 100), 0);
    state.adopt(&every(500, 100), 5_000);
    state.pause("ops".into(), "quiet".into(), 6_000);
    state.resume(60_000);
    assert!(state.paused.is_none() && state.former.is_empty());
    assert_eq!(step(&state, 60_000), Step::Wait(Some(60_500)));
    // What was not paused is not moved.
    state.resume(90_000);
    assert_eq!(state.cursor, 60_000);
}

#[test]
fn while_a_schedule_is_paused_only_runs_that_were_asked_for_are_sent_s1() {
    let mut state = State::new(&every(1_000, 0), 0);
    let current = state.current.clone();
    let planned = open("sched.now.1700000000000", 1_000, &current);
    let asked_for = ["sched.a.now.x", "sched.now.now.1700000000000"].map(|key| open(key, 1_000, &current));
    assert!(!state.rests(&planned));
    state.pause("ops".into(), "the service is broken".into(), 2_000);
    assert!(state.rests(&planned));
    assert!(asked_for.iter().all(|tick| !state.rests(tick)));
    state.resume(3_000);
    assert!(!state.rests(&planned), "it goes on");
}

#[test]
fn of_too_many_open_ticks_the_oldest_are_missed_s1() {
    let mut state = State::new(&every(1_000, 0), 0);
    let current = state.current.clone();
    for number in 1..=limits::OPEN_TICKS as i64 + 2 {
        send(&mut state, number * 1_000, current.clone(), false);
    }
    assert_eq!(state.open.len(), limits::OPEN_TICKS);
    assert_eq!((state.counts.missed, state.open[0].at), (2, 3_000));
    assert_eq!(state.missed[0].why, Why::Crowded);
}

#[test]
fn a_tick_that_may_be_caught_up_waits_for_a_place_among_the_open_ones_s3() {
    let mut state = State::new(&every(1_000, 200), 0);
    let current = state.current.clone();
    for number in 1..=limits::OPEN_TICKS as i64 {
        send(&mut state, number * 1_000, current.clone(), false);
    }
    assert_eq!(step(&state, 90_000), Step::Hold);
    state.ended("sched.a.1000");
    let next = (limits::OPEN_TICKS as i64 + 1) * 1_000;
    assert!(matches!(step(&state, 90_000), Step::Send { at, .. } if at == next));
    assert_eq!(state.counts.missed, 0);
}

#[test]
fn a_former_definition_is_walked_until_its_ticks_are_s1() {
    let mut state = State::new(&every(1_000, 10), 0);
    let first = state.current.clone();
    state.adopt(&every(400, 10), 3_100);
    assert_eq!(state.walked(), (first.as_str(), Some(&every(1_000, 10))));
    state.forget();
    assert_eq!(state.walked(), (state.current.as_str(), Some(&every(400, 10))));
}

#[test]
fn a_run_that_is_asked_for_twice_under_one_key_is_one_s1() {
    let mut state = State::new(&every(1_000, 0), 5);
    let current = state.current.clone();
    for _ in 0..2 {
        state.asked_for(open("sched.a.now.1", 7, &current));
    }
    assert_eq!((state.open.len(), state.cursor), (1, 5), "the cursor stays where it is");
}

#[test]
fn open_ticks_are_sent_again_more_and_more_rarely_s1() {
    let mut tick = open("sched.a.1000", 1_000, "d");
    let mut pauses = Vec::new();
    for _ in 0..10 {
        pauses.push(next_send(&tick) - tick.sent_at);
        tick.sends += 1;
    }
    assert_eq!(pauses[..4], [1_000, 2_000, 4_000, 8_000]);
    assert_eq!(pauses[9], 60_000);
    assert!(!may_be_sent(&open("a", 0, "d"), 999) && may_be_sent(&open("a", 0, "d"), 1_000));
    assert!(may_be_sent(&Open { sends: 0, ..open("a", 5, "d") }, 5), "what was never sent is not waited for");
}

/// What happens to a schedule.
#[derive(Clone, Debug)]
enum Event {
    /// Time passes while an instance walks.
    Walk(i64),
    /// Time passes while none does.
    Away(i64),
    /// Another definition is configured: its interval.
    Change(u64),
    /// The claim exists, and the instance dies before it moves the cursor: another one walks the tick again.
    Die,
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1_i64..3_000).prop_map(Event::Walk),
        2 => (1_i64..40_000).prop_map(Event::Away),
        1 => (50_u64..2_000).prop_map(Event::Change),
        2 => Just(Event::Die),
    ]
}

/// Walks until nothing is due; says which ticks were sent, by their definition. Where the instance dies, the first tick is sent and
/// the document stays as it was.
fn walk(state: &mut State, now: i64, dies: bool, sent: &mut BTreeMap<i64, Vec<String>>) -> Vec<Step> {
    let mut steps = Vec::new();
    loop {
        let next = state.step(whens(state), now, 0);
        match next.clone() {
            Step::Wait(_) | Step::Hold => return steps,
            Step::Miss(missed) => _ = state.missed(missed),
            Step::Skip(at) => _ = state.skipped(at),
            Step::Forget => state.forget(),
            Step::Send { at, definition, late } => {
                sent.entry(at).or_default().push(definition.clone());
                if dies {
                    return steps;
                }
                send(state, at, definition, late);
                state.ended(&format!("sched.a.{at}"));
            }
        }
        steps.push(next);
    }
}

proptest! {
    /// Over any history each planned tick is accounted for once: sent, always with the same content, or missed. With room to catch up
    /// none is missed; otherwise at most so many late ones are sent at a time.
    #[test]
    fn no_tick_is_lost_and_none_is_another_ones(events in prop::collection::vec(any_event(), 1..30), generous: bool) {
        let catch_up = if generous { 1_000_000 } else { 3 };
        let mut now = 1_700_000_000_000;
        let mut state = State::new(&every(700, catch_up), now);
        let (mut planned, mut sent) = (Vec::new(), BTreeMap::<i64, Vec<String>>::new());
        let (mut missed, mut since) = (0, (now, 700));
        let plan = |planned: &mut Vec<i64>, since: (i64, u64), until: i64| {
            let window = When::Every(since.1 as i64).window(since.0, until, usize::MAX);
            planned.extend(window.latest);
        };
        for event in events {
            let dies = matches!(event, Event::Die);
            match event {
                Event::Away(by) => { now += by; continue }
                Event::Change(interval) => {
                    let from = state.cursor.max(now);
                    let former = state.current.clone();
                    state.adopt(&every(interval, catch_up), now);
                    if state.current != former {
                        prop_assume!(state.former.len() < limits::FORMER_DEFINITIONS);
                        plan(&mut planned, since, from);
                        since = (from, interval);
                    }
                    continue;
                }
                Event::Walk(by) => now += by,
                Event::Die => {}
            }
            let eras = state.former.len() as u64 + 1;
            let before = sent.len();
            for step in walk(&mut state, now, dies, &mut sent) {
                if let Step::Miss(span) = step { missed += span.count }
            }
            if !generous {
                prop_assert!((sent.len() - before) as u64 <= (u64::from(catch_up) + 1) * eras);
            }
        }
        for step in walk(&mut state, now, false, &mut sent) {
            if let Step::Miss(span) = step { missed += span.count }
        }
        plan(&mut planned, since, now);
        prop_assert_eq!(missed, state.counts.missed);
        for (at, by) in &sent {
            prop_assert!(planned.contains(at), "{} was not planned", at);
            prop_assert!(by.iter().all(|definition| *definition == by[0]), "sent again it is the same");
        }
        if generous {
            prop_assert_eq!(missed, 0);
            let all: Vec<i64> = sent.keys().copied().collect();
            planned.dedup();
            prop_assert_eq!(all, planned);
        } else {
            // A tick that was sent by an instance that died, and is overtaken by then, is counted as missed as well.
            let again = sent.values().filter(|by| by.len() > 1).count() as u64;
            let accounted = sent.len() as u64 + missed;
            prop_assert!(accounted >= planned.len() as u64, "{accounted} of {}", planned.len());
            let deaths = state.counts.dispatched;
            prop_assert!(deaths + missed + again >= planned.len() as u64);
        }
    }
}

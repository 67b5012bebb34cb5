//! Properties of [`step`] over random stories: whatever is said to a claim, in whatever order.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::claim::{DoubtEnds, DoubtThen, current, view};
use hapax_core::{
    Answer, Ask, AttemptId, Change, Claim, ClaimId, Command, Decision, Doubt, Ending, Epoch, Fingerprint,
    Now, Operated, OperationId, Outcome, Ran, RecipeId, Report, Rerun, Retention, SessionId, Sign, StateName,
    Swept, Terms, Timestamp, Verb, Verdict, step,
};
use proptest::prelude::*;
use proptest::test_runner::Config;

const SESSIONS: usize = 3;
const TERM: Duration = Duration::from_secs(30);

/// One thing that happens in a story.
#[derive(Clone, Debug)]
enum Line {
    Say(Saying),
    Time(Duration),
    Renew(usize),
    Forget(usize),
}

/// A command, whose epoch is told relative to the newest one.
#[derive(Clone, Debug)]
enum Saying {
    Claim(u8, Fingerprint, Terms, u64),
    Set(u8, Fingerprint, Terms, u64, Outcome, Retention),
    Hold(u64, Report),
    Operate(u64, Verb),
    Sweep(u64),
}

/// A claim with everything that stands around it.
#[derive(Clone)]
struct World {
    claim: Option<Claim>,
    time: Timestamp,
    newest: u64,
    sessions: [Sign; SESSIONS],
}

impl World {
    fn new() -> Self {
        let time = Timestamp::from_micros(1_000_000_000_000);
        let sign = Sign { last: time, until: time.after(TERM) };
        World { claim: None, time, newest: 1, sessions: [sign; SESSIONS] }
    }

    fn now(&self) -> Now {
        let holder =
            self.claim.as_ref().map_or(Sign::UNKNOWN, |claim| self.sessions[claim.session.0 as usize]);
        Now { time: self.time, next_epoch: epoch(self.newest + 1), holder }
    }

    fn command(&self, saying: &Saying) -> Command {
        let back = |back: u64| epoch(self.newest.saturating_sub(back));
        match saying {
            Saying::Claim(attempt, fingerprint, terms, session) => {
                Command::Claim(ask(*attempt, *fingerprint, terms, *session))
            }
            Saying::Set(attempt, fingerprint, terms, session, outcome, retention) => {
                Command::Set(ask(*attempt, *fingerprint, terms, *session), outcome.clone(), *retention)
            }
            Saying::Hold(ago, report) => Command::Hold(back(*ago), report.clone()),
            Saying::Operate(ago, verb) => Command::Operate(Decision {
                seen: back(*ago),
                verb: verb.clone(),
                actor: "olga".to_owned(),
                reason: "a property".to_owned(),
            }),
            Saying::Sweep(ago) => Command::Sweep(back(*ago)),
        }
    }

    fn apply(&mut self, command: &Command) -> Answer {
        let now = self.now();
        let (change, answer) = step(self.claim.as_ref(), command, &now);
        match change {
            Change::None => {}
            Change::Put(claim) => self.claim = Some(claim),
            Change::Remove => self.claim = None,
        }
        if self.claim.as_ref().is_some_and(|claim| claim.epoch == now.next_epoch) {
            self.newest += 1;
        }
        answer
    }

    fn play(&mut self, line: &Line) -> Option<(Command, Answer)> {
        match line {
            Line::Say(saying) => {
                let command = self.command(saying);
                let answer = self.apply(&command);
                return Some((command, answer));
            }
            Line::Time(by) => self.time = self.time.after(*by),
            Line::Renew(session) => {
                self.sessions[*session] = Sign { last: self.time, until: self.time.after(TERM) };
            }
            Line::Forget(session) => self.sessions[*session] = Sign::UNKNOWN,
        }
        None
    }

    /// The claim as it stands at this moment.
    fn present(&self) -> Option<Claim> {
        current(self.claim.as_ref(), &self.now()).map(|claim| claim.into_owned())
    }
}

fn epoch(counter: u64) -> Epoch {
    Epoch::new(1, counter).expect("a story uses few epochs")
}

fn ask(attempt: u8, fingerprint: Fingerprint, terms: &Terms, session: u64) -> Ask {
    Ask {
        attempt: AttemptId::from_bytes([attempt; 16]),
        operation_id: OperationId::for_claim(&ClaimId::from_bytes([3; 32]), [attempt; 6]),
        fingerprint,
        leaves: None,
        terms: terms.clone(),
        session: SessionId(session),
    }
}

fn a_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::from_secs(1)),
        Just(Duration::from_secs(9)),
        Just(Duration::from_secs(31)),
        Just(Duration::from_secs(600)),
        Just(Duration::from_secs(2 * 60 * 60)),
    ]
}

fn some_terms() -> impl Strategy<Value = Terms> {
    let rerun = prop_oneof![Just(Rerun::Safe), Just(Rerun::Ask), Just(Rerun::Unsafe)];
    let max_run = prop_oneof![Just(Duration::from_secs(45)), Just(Duration::from_secs(3600))];
    let then = prop_oneof![Just(DoubtThen::Release), Just(DoubtThen::Forget)];
    // A doubt that lasts no time at all is none.
    let lasts = a_duration().prop_map(|duration| duration.max(Duration::from_secs(1)));
    let doubt = proptest::option::weighted(0.3, (lasts, then));
    (rerun, a_duration(), max_run, a_duration(), doubt).prop_map(|(rerun, quiet, max_run, give_up, doubt)| {
        Terms { rerun, quiet, max_run, give_up, doubt: doubt.map(|(after, then)| DoubtEnds { after, then }) }
    })
}

fn an_outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        any::<u8>().prop_map(|byte| Outcome::Succeeded(Bytes::copy_from_slice(&[byte]))),
        any::<u8>().prop_map(|byte| Outcome::Refused(Bytes::copy_from_slice(&[byte]))),
        Just(Outcome::NotKept { status: 200 }),
    ]
}

fn a_retention() -> impl Strategy<Value = Retention> {
    prop_oneof![
        a_duration().prop_map(Retention::For),
        a_duration().prop_map(Retention::SinceGrant),
        Just(Retention::Forever),
    ]
}

fn a_report() -> impl Strategy<Value = Report> {
    let reason = prop_oneof![Just(Doubt::Failed), Just(Doubt::Stated), Just(Doubt::Paused)];
    prop_oneof![
        1 => Just(Report::Renew),
        1 => Just(Report::Cleared),
        3 => (an_outcome(), a_retention()).prop_map(|(outcome, retention)| Report::Settle(outcome, retention)),
        1 => Just(Report::Release(Ran::No)),
        2 => Just(Report::Release(Ran::Perhaps)),
        1 => Just(Report::Release(Ran::Waived)),
        2 => reason.prop_map(Report::Doubt),
    ]
}

fn a_verb() -> impl Strategy<Value = Verb> {
    prop_oneof![
        (an_outcome(), a_retention()).prop_map(|(outcome, retention)| Verb::Settle(outcome, retention)),
        any::<bool>().prop_map(|force| Verb::Release { force }),
        Just(Verb::Reopen),
        Just(Verb::Purge),
        Just(Verb::Erase),
    ]
}

fn a_fingerprint() -> impl Strategy<Value = Fingerprint> {
    prop_oneof![9 => Just(0_u8), 1 => Just(1_u8)]
        .prop_map(|byte| Fingerprint { recipe: RecipeId(1), digest: [byte; 32] })
}

/// Mostly the newest epoch.
fn ago() -> impl Strategy<Value = u64> {
    prop_oneof![5 => Just(0_u64), 1 => 1_u64..3]
}

fn a_saying() -> impl Strategy<Value = Saying> {
    let asked = || (0_u8..5, a_fingerprint(), some_terms(), 0..SESSIONS as u64);
    prop_oneof![
        4 => asked().prop_map(|(attempt, body, terms, session)| Saying::Claim(attempt, body, terms, session)),
        1 => (asked(), an_outcome(), a_retention()).prop_map(|((attempt, body, terms, session), outcome, retention)| {
            Saying::Set(attempt, body, terms, session, outcome, retention)
        }),
        4 => (ago(), a_report()).prop_map(|(ago, report)| Saying::Hold(ago, report)),
        2 => (ago(), a_verb()).prop_map(|(ago, verb)| Saying::Operate(ago, verb)),
        1 => ago().prop_map(Saying::Sweep),
    ]
}

fn a_line() -> impl Strategy<Value = Line> {
    prop_oneof![
        6 => a_saying().prop_map(Line::Say),
        2 => a_duration().prop_map(Line::Time),
        2 => (0..SESSIONS).prop_map(Line::Renew),
        1 => (0..SESSIONS).prop_map(Line::Forget),
    ]
}

fn a_story() -> impl Strategy<Value = Vec<Line>> {
    proptest::collection::vec(a_line(), 0..24)
}

/// Whether the holder was to ask about a former run.
fn was_to_ask(world: &World) -> bool {
    world.claim.as_ref().is_some_and(|claim| claim.doubted.is_some())
}

/// Whether that run had lapsed.
fn was_asked_about(world: &World) -> bool {
    let doubted = world.claim.as_ref().and_then(|claim| claim.doubted);
    doubted.is_some_and(|doubted| doubted.reason == Doubt::Lapsed)
}

/// The world after a story.
fn after(story: &[Line]) -> World {
    let mut world = World::new();
    for line in story {
        world.play(line);
    }
    world
}

fn config() -> Config {
    // The environment may ask for more.
    let cases = Config::default().cases.max(10_000);
    Config { cases, failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_epoch_of_a_claim_never_decreases(story in a_story()) {
        let mut world = World::new();
        let mut newest = None;
        for line in &story {
            let said = world.play(line);
            let Some(claim) = &world.claim else { continue };
            prop_assert!(newest.is_none_or(|newest| claim.epoch >= newest), "{:?} after {newest:?}", claim.epoch);
            if let Some((Command::Claim(ask), Answer::Verdict(Verdict::Granted(grant)))) = said {
                prop_assert_eq!(grant.epoch, claim.epoch);
                prop_assert_eq!(ask.attempt, claim.attempt);
            }
            newest = Some(claim.epoch);
        }
    }

    #[test]
    fn a_settled_outcome_changes_only_by_an_operator_or_by_its_expiry(story in a_story()) {
        let mut world = World::new();
        for line in &story {
            let before = world.present();
            let moves_time = !matches!(line, Line::Say(_));
            let said = world.play(line);
            let Some(kept) = before.as_ref().and_then(Claim::kept) else { continue };
            let decided = matches!(said, Some((Command::Operate(_), Answer::Operated(Operated::Done(_)))));
            if decided || moves_time {
                continue;
            }
            prop_assert_eq!(world.present().as_ref().and_then(Claim::kept), Some(kept));
        }
    }

    #[test]
    fn a_command_said_twice_does_no_more_than_said_once(story in a_story(), saying in a_saying()) {
        let mut world = after(&story);
        let command = world.command(&saying);
        let was_free = world.present().is_some_and(|claim| claim.state.name() == StateName::Released);
        let first = world.apply(&command);
        let once = world.claim.clone();
        if matches!(first, Answer::Set(_)) && once.as_ref().is_some_and(|claim| is_over(claim, &world)) {
            // What is set to be kept for no time at all is absent at once, and is set anew.
            return Ok(());
        }
        let second = world.apply(&command);
        prop_assert_eq!(&world.claim, &once, "{:?} answered {:?}, then {:?}", command, first, second);
        match (&first, &second) {
            (Answer::Ending(Ending::Settled(kept)), Answer::Ending(again)) => {
                prop_assert_eq!(again, &Ending::AlreadySettled(kept.clone()));
            }
            // Of an operator's decision the second saying is refused (L8); only what is free can be erased again. And
            // the sweeper finds nothing left to do.
            (Answer::Operated(Operated::Done(_)), Answer::Operated(Operated::Done(_))) => prop_assert!(was_free),
            (Answer::Operated(_), _) | (Answer::Swept(_), _) => {}
            (first, second) => prop_assert_eq!(first, second),
        }
    }

    #[test]
    fn what_time_made_of_a_claim_is_made_once(story in a_story()) {
        let world = after(&story);
        let once = world.present();
        let twice = current(once.as_ref(), &world.now()).map(|claim| claim.into_owned());
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn a_swept_claim_behaves_like_an_unswept_one(story in a_story(), saying in a_saying()) {
        let mut unswept = after(&story);
        let command = unswept.command(&saying);
        let mut swept = unswept.clone();
        let Some(seen) = unswept.claim.as_ref().map(|claim| (claim.epoch, claim.attempt)) else { return Ok(()) };
        let done = swept.apply(&Command::Sweep(seen.0));
        prop_assert_eq!(view(unswept.claim.as_ref(), &unswept.now()), view(swept.claim.as_ref(), &swept.now()));
        match &command {
            // An attempt that asks again gets its own lease back as long as nobody else may have the claim, and is not granted
            // what it had before; nor what it was only to ask about, once that is written down.
            Command::Claim(ask)
                if ask.attempt == seen.1 && (done != Answer::Swept(Swept::InDoubt) || was_to_ask(&unswept)) =>
            {
                return Ok(());
            }
            // A holder finds what it left as long as it is there: a settle reaches further back than all
            // others.
            Command::Hold(..) if done == Answer::Swept(Swept::Forgotten) => return Ok(()),
            Command::Sweep(_) => return Ok(()),
            // How the session of a lapsed run stands is known once the lapse of whoever was to ask about it is written down:
            // until then a release that is not forced has to be asked for again, and changes nothing.
            Command::Operate(Decision { seen: epoch, verb: Verb::Release { force: false }, .. })
                if *epoch == seen.0 && done == Answer::Swept(Swept::InDoubt) && was_asked_about(&unswept) =>
            {
                let before = unswept.claim.clone();
                let until = unswept.time.after(hapax_core::limits::UNTIL_SWEPT);
                prop_assert_eq!(unswept.apply(&command), Answer::Operated(Operated::MayStillRun { until }));
                prop_assert_eq!(unswept.claim, before);
                return Ok(());
            }
            _ => {}
        }
        let (one, other) = (unswept.apply(&command), swept.apply(&command));
        prop_assert_eq!(&one, &other, "{:?}", command);
        prop_assert_eq!(unswept.present(), swept.present(), "{:?} answered {:?}", command, one);
    }

    #[test]
    fn a_true_outcome_is_kept_for_as_long_as_its_claim_is_there(story in a_story(), outcome in an_outcome()) {
        let mut world = after(&story);
        let Some(claim) = world.claim.clone().filter(|claim| claim.kept().is_none()) else { return Ok(()) };
        let command = Command::Hold(claim.epoch, Report::Settle(outcome.clone(), Retention::Forever));
        let answer = world.apply(&command);
        let Answer::Ending(Ending::Settled(kept)) = answer else { panic!("{answer:?}") };
        prop_assert_eq!(kept.outcome, outcome);
    }

    #[test]
    fn a_stale_epoch_changes_nothing(story in a_story(), report in a_report()) {
        let mut world = after(&story);
        let Some(claim) = world.claim.clone() else { return Ok(()) };
        let stale = epoch(claim.epoch.counter() - 1);
        prop_assert_eq!(world.apply(&Command::Hold(stale, report)), Answer::Ending(Ending::LostLease));
        prop_assert_eq!(world.claim, Some(claim));
    }

    #[test]
    fn nobody_runs_again_what_may_have_run_and_must_not(story in a_story(), saying in a_saying()) {
        let mut world = after(&story);
        let command = world.command(&saying);
        let Command::Claim(ask) = &command else { return Ok(()) };
        let Some(before) = world.present().filter(|claim| claim.attempt != ask.attempt) else { return Ok(()) };
        let rerun = before.terms.rerun.max(ask.terms.rerun);
        let free = matches!(before.state, hapax_core::State::Released { ran: Ran::No | Ran::Waived, .. });
        if let Answer::Verdict(Verdict::Granted(grant)) = world.apply(&command) {
            prop_assert!(free || rerun != Rerun::Unsafe, "{:?} was granted over {:?}", ask, before);
            prop_assert!(free || rerun != Rerun::Ask || grant.must_ask, "{:?} need not ask over {:?}", ask, before);
            prop_assert_eq!(before.operation_id, grant.operation_id);
        }
    }
}

fn held(terms: Terms) -> World {
    let mut world = World::new();
    let fingerprint = Fingerprint { recipe: RecipeId(1), digest: [0; 32] };
    world.play(&Line::Say(Saying::Claim(0, fingerprint, terms, 0)));
    world
}

#[test]
fn the_sweeper_leaves_alone_what_it_saw_under_another_epoch() {
    let mut world = held(Terms::default());
    world.time = world.time.after(TERM);
    let before = world.claim.clone();
    assert_eq!(world.apply(&Command::Sweep(epoch(1))), Answer::Swept(Swept::Kept));
    assert_eq!(world.claim, before);
    assert_eq!(world.apply(&Command::Sweep(epoch(2))), Answer::Swept(Swept::InDoubt));
}

#[test]
fn a_doubt_about_a_forgotten_session_is_no_older_than_its_grant() {
    let after = Duration::from_secs(600);
    let mut world =
        held(Terms { doubt: Some(DoubtEnds { after, then: DoubtThen::Forget }), ..Terms::default() });
    world.play(&Line::Forget(0));
    assert_eq!(world.present().map(|claim| claim.state.name()), Some(StateName::InDoubt));
    world.time = world.time.after(after);
    assert_eq!(world.present(), None);
}

fn is_over(claim: &Claim, world: &World) -> bool {
    claim.kept().is_some_and(|kept| world.time >= kept.keep_until)
}

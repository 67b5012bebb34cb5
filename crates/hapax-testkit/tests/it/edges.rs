//! The edges of [`step`], one by one: the very moment at which something changes, and what a change carries along.
//!
//! The stories of `rules` and the scenarios show what happens; here is what they are too coarse to see.

use std::time::Duration;

use hapax_core::claim::audit::{About, AuditEvent, CONTRADICTED, audit};
use hapax_core::claim::{DoubtEnds, DoubtThen, view};
use hapax_core::{
    Answer, Ask, AttemptId, Change, Claim, ClaimId, Command, Decision, Doubt, Ending, Epoch, Fingerprint,
    Grant, LeafKey, Leaves, Now, Operated, OperationId, Outcome, Ran, Report, Rerun, Retention, SessionId,
    SetAnswer, Sign, State, StateName, Terms, Timestamp, Verb, Verdict, View, step,
};

const TERM: Duration = Duration::from_secs(30);
const MICRO: Duration = Duration::from_micros(1);

/// One claim, and a session that lives for a term from the last [`World::renew`].
struct World {
    claim: Option<Claim>,
    time: Timestamp,
    epochs: u64,
    sign: Sign,
    audit: Vec<AuditEvent>,
}

impl World {
    fn new() -> World {
        let time = Timestamp::from_micros(1_000_000_000_000);
        let sign = Sign { last: time, until: time.after(TERM) };
        World { claim: None, time, epochs: 0, sign, audit: Vec::new() }
    }

    fn wait(&mut self, time: Duration) {
        self.time = self.time.after(time);
    }

    fn renew(&mut self) {
        self.sign = Sign { last: self.time, until: self.time.after(TERM) };
    }

    fn now(&self) -> Now {
        let next_epoch = Epoch::new(1, self.epochs + 1).expect("there are many epochs");
        Now { time: self.time, next_epoch, holder: self.sign }
    }

    fn claim(&self) -> &Claim {
        self.claim.as_ref().expect("the claim is there")
    }

    fn say(&mut self, command: Command) -> Answer {
        let now = self.now();
        let (change, answer) = step(self.claim.as_ref(), &command, &now);
        self.audit.extend(audit(self.claim.as_ref(), &command, &change, &answer, self.time));
        match change {
            Change::None => {}
            Change::Put(claim) => {
                self.epochs += u64::from(claim.epoch == now.next_epoch);
                self.claim = Some(claim);
            }
            Change::Remove => self.claim = None,
        }
        answer
    }

    fn ask(&mut self, ask: Ask) -> Verdict {
        let Answer::Verdict(verdict) = self.say(Command::Claim(ask)) else { panic!("no verdict") };
        verdict
    }

    fn grant(&mut self, attempt: u8, terms: Terms) -> Grant {
        let Verdict::Granted(grant) = self.ask(by(attempt, terms)) else { panic!("not granted") };
        grant
    }

    fn report(&mut self, epoch: Epoch, report: Report) -> Ending {
        let Answer::Ending(ending) = self.say(Command::Hold(epoch, report)) else { panic!("no ending") };
        ending
    }

    fn decide(&mut self, verb: Verb) -> Operated {
        let seen = self.claim().epoch;
        let decision = Decision { seen, verb, actor: "ann".into(), reason: "called the bank".into() };
        let Answer::Operated(operated) = self.say(Command::Operate(decision)) else { panic!("no answer") };
        operated
    }

    fn view(&self) -> Option<View> {
        view(self.claim.as_ref(), &self.now())
    }

    fn state(&self) -> StateName {
        self.claim().state.name()
    }
}

fn by(attempt: u8, terms: Terms) -> Ask {
    Ask {
        attempt: AttemptId::from_bytes([attempt; 16]),
        operation_id: OperationId::for_claim(&ClaimId::from_bytes([1; 32]), [attempt; 6]),
        fingerprint: Fingerprint::of_bytes(b"pay 10"),
        leaves: Leaves::of_json(b"{\"amount\": 10}", &LeafKey::new([7; 32]), &[]),
        terms,
        session: SessionId(1),
    }
}

fn rerun(rerun: Rerun) -> Terms {
    Terms { rerun, ..Terms::default() }
}

fn ok(text: &'static str) -> Outcome {
    Outcome::Succeeded(text.into())
}

#[test]
fn an_attempt_that_asks_again_for_something_else_is_a_mismatch() {
    // L2, L13
    let mut world = World::new();
    world.grant(1, Terms::default());
    let other = Ask { fingerprint: Fingerprint::of_bytes(b"pay 99"), ..by(1, Terms::default()) };
    assert!(matches!(world.ask(other), Verdict::Mismatch { .. }));
}

#[test]
fn a_doubt_is_asked_about_again_after_ten_seconds_and_not_a_moment_before() {
    // L6
    let mut world = World::new();
    world.grant(1, rerun(Rerun::Ask));
    world.wait(TERM);
    let asker = world.grant(2, rerun(Rerun::Ask));
    world.renew();
    assert!(asker.must_ask);
    assert_eq!(world.report(asker.epoch, Report::Doubt(Doubt::Lapsed)), Ending::InDoubt);
    world.wait(Duration::from_secs(10) - MICRO);
    assert!(matches!(world.ask(by(3, rerun(Rerun::Ask))), Verdict::InDoubt { .. }));
    world.wait(MICRO);
    assert!(world.grant(3, rerun(Rerun::Ask)).must_ask);
}

#[test]
fn a_doubt_keeps_what_its_holder_saw_as_long_as_it_lasts() {
    // L6, L7
    fn cause(world: &World) -> Option<&str> {
        world.claim().cause.as_ref().map(hapax_core::Cause::as_str)
    }
    let mut world = World::new();
    let run = world.grant(1, rerun(Rerun::Ask));
    let reset = || Report::Release(Ran::Perhaps).because("connection reset");
    assert_eq!(world.report(run.epoch, reset()), Ending::InDoubt);
    assert_eq!(cause(&world), Some("connection reset"));
    // A caller that asks in vain cannot say what the run saw.
    let asker = world.grant(2, rerun(Rerun::Ask));
    assert_eq!((asker.must_ask, cause(&world)), (true, Some("connection reset")));
    world.report(asker.epoch, Report::Doubt(Doubt::Stated).because("no answer to the question"));
    assert_eq!((world.state(), cause(&world)), (StateName::InDoubt, Some("connection reset")));
    world.wait(Duration::from_secs(10));
    let asker = world.grant(3, rerun(Rerun::Ask));
    world.report(asker.epoch, Report::Cleared);
    assert_eq!(cause(&world), None);
    // A lapse has none, until the one who held the claim explains it.
    let mut world = World::new();
    let run = world.grant(1, Terms::default());
    world.wait(TERM);
    world.say(Command::Sweep(run.epoch));
    assert_eq!((world.state(), cause(&world)), (StateName::InDoubt, None));
    assert_eq!(world.report(run.epoch, reset()), Ending::InDoubt);
    assert_eq!(cause(&world), Some("connection reset"));
    world.decide(Verb::Release { force: true });
    assert_eq!((world.state(), cause(&world)), (StateName::Released, None));
}

#[test]
fn whoever_only_asks_leaves_the_doubt_as_it_was_and_cannot_explain_it() {
    // L6, L8, L10
    let mut world = World::new();
    let granted_at = world.time;
    let run = world.grant(1, rerun(Rerun::Ask));
    world.wait(MICRO);
    assert_eq!(world.report(run.epoch, Report::Release(Ran::Perhaps)), Ending::InDoubt);
    let doubted = world.claim().clone();
    let (since, about) = (world.time, SessionId(1));
    for (attempt, report) in [(2, Report::Doubt(Doubt::Lapsed)), (3, Report::Release(Ran::No))] {
        world.wait(TERM);
        world.renew();
        let ask = Ask { session: SessionId(2), ..by(attempt, rerun(Rerun::Ask)) };
        let Verdict::Granted(asker) = world.ask(ask) else { panic!("not granted") };
        assert_eq!(world.claim().granted_at, world.time);
        if attempt == 3 {
            // Lapsed, and nobody has noticed.
            world.wait(TERM);
        }
        assert_eq!(world.report(asker.epoch, report), Ending::InDoubt);
        let View::InDoubt { reason, since: present, .. } = world.view().unwrap() else { panic!("no doubt") };
        assert_eq!((reason, present), (Doubt::Failed, since));
        world.say(Command::Sweep(asker.epoch));
        let claim = world.claim();
        assert_eq!((claim.session, claim.granted_at, claim.doubted), (about, granted_at, None));
        assert_eq!((claim.opened_at, claim.operation_id), (doubted.opened_at, doubted.operation_id));
    }
}

#[test]
fn whoever_takes_over_and_asks_again_must_still_ask_and_has_the_same_public_id() {
    // L6, L13, H8
    let mut world = World::new();
    let first = world.grant(1, rerun(Rerun::Ask));
    let opened_at = world.time;
    world.wait(TERM);
    let second = world.grant(2, rerun(Rerun::Ask));
    assert_eq!(world.grant(2, rerun(Rerun::Ask)), second);
    assert!(second.must_ask && second.epoch > first.epoch);
    assert_eq!((second.operation_id, world.claim().opened_at), (first.operation_id, opened_at));
}

#[test]
fn an_attempt_that_asks_again_gets_its_lapsed_lease_swept_or_not_and_can_give_it_back_l13() {
    for swept in [false, true] {
        let mut world = World::new();
        let first = world.grant(1, Terms::default());
        world.wait(TERM);
        if swept {
            world.say(Command::Sweep(first.epoch));
            assert!(matches!(world.claim().state, State::InDoubt { reason: Doubt::Lapsed, .. }));
        }
        // Others are told what is known, the attempt itself that the lease is its own.
        world.renew();
        assert_eq!(world.grant(1, Terms::default()), first, "swept: {swept}");
        assert_eq!(world.report(first.epoch, Report::Release(Ran::No)), Ending::Released, "swept: {swept}");
        assert!(world.grant(2, Terms::default()).epoch > first.epoch);
    }
}

#[test]
fn a_swept_lease_is_handed_out_again_only_where_the_lapse_is_all_that_is_known_l13() {
    // Somebody has said that it failed.
    let mut world = World::new();
    let first = world.grant(1, Terms::default());
    assert_eq!(world.report(first.epoch, Report::Release(Ran::Perhaps)), Ending::InDoubt);
    assert!(matches!(world.ask(by(1, Terms::default())), Verdict::InDoubt { reason: Doubt::Failed, .. }));
    // The doubt is that of the run which was to be asked about.
    let mut world = World::new();
    world.grant(1, rerun(Rerun::Ask));
    world.wait(TERM);
    let asker = world.grant(2, rerun(Rerun::Ask));
    world.wait(TERM);
    world.say(Command::Sweep(asker.epoch));
    assert!(matches!(world.ask(by(2, rerun(Rerun::Ask))), Verdict::InDoubt { reason: Doubt::Lapsed, .. }));
}

#[test]
fn an_attempt_that_did_not_run_does_not_make_others_wait_for_silence_again_l6() {
    let mut world = World::new();
    let quiet = Duration::from_secs(7_200);
    let terms = || Terms { quiet, ..rerun(Rerun::Safe) };
    let first = world.grant(1, terms());
    assert!(!first.earlier_may_have_run);
    assert_eq!(world.report(first.epoch, Report::Release(Ran::Perhaps)), Ending::Released);
    world.wait(quiet - MICRO);
    assert!(matches!(world.ask(by(2, terms())), Verdict::Held { .. }));
    world.wait(MICRO);
    world.renew();
    let second = world.grant(2, terms());
    assert!(second.earlier_may_have_run);
    world.wait(MICRO);
    assert_eq!(world.report(second.epoch, Report::Release(Ran::No)), Ending::Released);
    // The first one has been silent all the time; and the tombstone stays, so that it still counts as perhaps run.
    assert_eq!(world.ask(by(2, terms())), Verdict::Spent);
    let third = world.grant(3, terms());
    assert!(third.earlier_may_have_run);
    // Who may have run is waited for.
    assert_eq!(world.report(third.epoch, Report::Release(Ran::Perhaps)), Ending::Released);
    assert!(matches!(world.ask(by(4, terms())), Verdict::Held { .. }));
}

#[test]
fn an_attempt_that_held_for_long_and_did_not_run_does_not_wipe_out_that_an_earlier_one_may_have_l6_l7() {
    let mut world = World::new();
    let terms = || Terms { max_run: Duration::from_secs(6 * 3_600), ..rerun(Rerun::Safe) };
    let first = world.grant(1, terms());
    assert_eq!(world.report(first.epoch, Report::Release(Ran::Perhaps)), Ending::Released);
    let second = world.grant(2, terms());
    assert!(second.earlier_may_have_run);
    // Longer than a tombstone is kept.
    world.wait(Duration::from_secs(3_601));
    world.renew();
    assert_eq!(world.report(second.epoch, Report::Release(Ran::No)), Ending::Released);
    assert_eq!(world.ask(by(2, terms())), Verdict::Spent);
    let third = world.grant(3, terms());
    assert_eq!(third.operation_id, first.operation_id);
    assert!(third.earlier_may_have_run);
}

#[test]
fn whoever_asks_does_not_shorten_how_long_the_run_may_still_reach_the_work_l8() {
    let mut world = World::new();
    let give_up = |minutes: u64| Terms { give_up: Duration::from_secs(60 * minutes), ..rerun(Rerun::Ask) };
    let granted_at = world.time;
    world.grant(1, give_up(15));
    world.wait(TERM);
    let ask = Ask { session: SessionId(2), ..by(2, give_up(1)) };
    world.renew();
    world.sign = Sign { last: granted_at, until: granted_at.after(TERM) };
    let Verdict::Granted(asker) = world.ask(ask) else { panic!("not granted") };
    world.renew();
    assert_eq!(world.report(asker.epoch, Report::Doubt(Doubt::Stated)), Ending::InDoubt);
    world.sign = Sign { last: granted_at, until: granted_at.after(TERM) };
    world.wait(Duration::from_secs(120));
    let release = || Decision {
        seen: asker.epoch,
        verb: Verb::Release { force: false },
        actor: "ann".into(),
        reason: "asked the bank".into(),
    };
    let until = granted_at.after(Duration::from_secs(15 * 60));
    let told = world.say(Command::Operate(release()));
    assert_eq!(told, Answer::Operated(Operated::MayStillRun { until }));
    world.time = until;
    assert!(matches!(world.say(Command::Operate(release())), Answer::Operated(Operated::Done(_))));
}

#[test]
fn an_outcome_that_was_set_is_set_once_by_the_same_attempt() {
    // E4, L13
    let mut world = World::new();
    let set = || Command::Set(by(1, Terms::default()), ok("done"), Retention::Forever);
    let first = world.say(set());
    assert!(matches!(first, Answer::Set(SetAnswer::Stored(_))));
    assert_eq!(world.say(set()), first);
    let other = Command::Set(by(2, Terms::default()), ok("other"), Retention::Forever);
    assert!(matches!(world.say(other), Answer::Set(SetAnswer::Present(View::Settled(_)))));
}

#[test]
fn a_lease_ends_with_its_session_or_with_max_run_whichever_comes_first() {
    // L4
    let mut world = World::new();
    let terms = Terms { max_run: Duration::from_secs(100), ..Terms::default() };
    let grant = world.grant(1, terms);
    let until = |world: &World| match world.view() {
        Some(View::Held { until, .. }) => Some(until),
        _ => None,
    };
    assert_eq!(until(&world), Some(world.time.after(TERM)));
    world.wait(TERM - MICRO);
    assert!(until(&world).is_some());
    assert!(matches!(world.report(grant.epoch, Report::Renew), Ending::Renewed { .. }));
    world.wait(MICRO);
    assert_eq!((until(&world), world.report(grant.epoch, Report::Renew)), (None, Ending::LostLease));
    for _ in 0..3 {
        world.renew();
        world.wait(Duration::from_secs(20));
    }
    world.renew();
    assert_eq!(until(&world), Some(grant.run_until));
    world.wait(Duration::from_secs(10));
    assert_eq!(world.report(grant.epoch, Report::Renew), Ending::LostLease);
}

#[test]
fn whoever_lost_the_lease_clears_nothing() {
    // L5, L6
    let mut world = World::new();
    world.grant(1, rerun(Rerun::Ask));
    world.wait(TERM);
    let asker = world.grant(2, rerun(Rerun::Ask));
    world.renew();
    world.wait(TERM);
    assert_eq!(world.report(asker.epoch, Report::Cleared), Ending::LostLease);
    assert_eq!(world.claim().earlier, Ran::Perhaps);
    world.renew();
    assert!(matches!(world.report(asker.epoch, Report::Cleared), Ending::Renewed { .. }));
    assert_eq!(world.claim().earlier, Ran::No);
}

#[test]
fn a_retention_since_the_grant_counts_from_the_one_that_settles_and_ends_to_the_microsecond() {
    // L10, H9
    let mut world = World::new();
    world.grant(1, rerun(Rerun::Safe));
    world.wait(TERM);
    let granted_at = world.time;
    let second = world.grant(2, rerun(Rerun::Safe));
    world.renew();
    world.wait(Duration::from_secs(1));
    let hour = Duration::from_secs(3_600);
    let Ending::Settled(kept) =
        world.report(second.epoch, Report::Settle(ok("done"), Retention::SinceGrant(hour)))
    else {
        panic!("not settled")
    };
    assert_eq!(kept.keep_until, granted_at.after(hour));
    world.time = granted_at.after(hour - MICRO);
    assert!(matches!(world.view(), Some(View::Settled(_))));
    world.wait(MICRO);
    assert_eq!(world.view(), None);
    assert_eq!(world.say(Command::Sweep(second.epoch)), Answer::Swept(hapax_core::Swept::Forgotten));
}

#[test]
fn an_outage_longer_than_a_retention_since_the_grant_does_not_use_it_up() {
    // H9
    let mut world = World::new();
    let window = Duration::from_secs(5);
    for attempt in 1..=4 {
        let grant = world.grant(attempt, Terms::default());
        assert_eq!(world.report(grant.epoch, Report::Release(Ran::No)), Ending::Released);
        world.wait(Duration::from_secs(2));
    }
    let grant = world.grant(5, Terms::default());
    let settle = Report::Settle(ok("done"), Retention::SinceGrant(window));
    assert!(matches!(world.report(grant.epoch, settle), Ending::Settled(_)));
    world.wait(window - MICRO);
    assert!(matches!(world.ask(by(6, Terms::default())), Verdict::Replay(_)));
}

#[test]
fn a_release_said_again_does_not_make_its_tombstone_last_longer() {
    // L13
    let mut world = World::new();
    let grant = world.grant(1, Terms::default());
    world.report(grant.epoch, Report::Release(Ran::No));
    let released = world.claim.clone();
    world.wait(Duration::from_secs(1));
    assert_eq!(world.report(grant.epoch, Report::Release(Ran::No)), Ending::Released);
    assert_eq!(world.report(grant.epoch, Report::Doubt(Doubt::Failed)), Ending::Released);
    assert_eq!(world.claim, released);
}

#[test]
fn an_erase_takes_the_leaves_along() {
    // L8, H10
    let mut world = World::new();
    let grant = world.grant(1, Terms::default());
    world.report(grant.epoch, Report::Settle(ok("done"), Retention::Forever));
    assert!(world.claim().leaves.is_some());
    assert!(matches!(world.decide(Verb::Erase), Operated::Done(Some(epoch)) if epoch > grant.epoch));
    assert_eq!(world.claim().leaves, None);
    assert_eq!(world.claim().kept().unwrap().outcome, Outcome::Erased);
}

#[test]
fn an_erase_of_a_reopened_claim_leaves_it_free() {
    // L8, B9: what was set aside is in the audit, and goes from there.
    let mut world = World::new();
    let grant = world.grant(1, Terms::default());
    world.report(grant.epoch, Report::Settle(ok("done"), Retention::Forever));
    let Operated::Done(Some(epoch)) = world.decide(Verb::Reopen) else { panic!("it was settled") };
    let reopened = world.claim().clone();
    assert_eq!(world.decide(Verb::Erase), Operated::Done(Some(epoch)));
    assert_eq!(*world.claim(), Claim { leaves: None, ..reopened });
}

#[test]
fn an_erase_of_what_was_given_back_does_not_lose_an_outcome_that_comes_late() {
    // L8, L5
    let mut world = World::new();
    let grant = world.grant(1, Terms::default());
    world.report(grant.epoch, Report::Release(Ran::No));
    assert_eq!(world.decide(Verb::Erase), Operated::Done(Some(grant.epoch)));
    let settled = world.report(grant.epoch, Report::Settle(ok("done"), Retention::Forever));
    assert!(matches!(settled, Ending::Settled(_)), "{settled:?}");
}

#[test]
fn after_an_operator_or_the_end_of_a_doubt_has_freed_a_claim_nothing_counts_as_perhaps_done() {
    // L8, L10: whoever is granted it now need not ask, and can give it back.
    let hour = Duration::from_secs(3_600);
    let ends = Some(DoubtEnds { after: hour, then: DoubtThen::Release });
    let ways: [fn(&mut World); 2] = [
        |world| assert!(matches!(world.decide(Verb::Release { force: true }), Operated::Done(_))),
        |world| world.wait(Duration::from_secs(3_600)),
    ];
    for free in ways {
        let mut world = World::new();
        let terms = || Terms { doubt: ends, ..rerun(Rerun::Ask) };
        world.grant(1, terms());
        world.wait(TERM);
        let asker = world.grant(2, terms());
        world.renew();
        world.report(asker.epoch, Report::Doubt(Doubt::Lapsed));
        free(&mut world);
        world.renew();
        let next = world.grant(3, terms());
        assert!(!next.must_ask && next.earlier_may_have_run);
        assert_eq!(world.claim().earlier, Ran::Waived);
        assert_eq!(world.report(next.epoch, Report::Release(Ran::No)), Ending::Released);
        assert_eq!(world.state(), StateName::Released);
    }
}

#[test]
fn a_doubt_ends_to_the_microsecond() {
    // L10
    let hour = Duration::from_secs(3_600);
    let mut world = World::new();
    let doubt = Some(DoubtEnds { after: hour, then: DoubtThen::Forget });
    let grant = world.grant(1, Terms { doubt, ..Terms::default() });
    world.report(grant.epoch, Report::Doubt(Doubt::Stated));
    world.wait(hour - MICRO);
    assert!(matches!(world.view(), Some(View::InDoubt { .. })));
    world.wait(MICRO);
    assert_eq!(world.view(), None);
}

#[test]
fn quiet_counts_from_the_grant_where_nothing_is_known_of_the_session() {
    // L6
    let quiet = Terms { quiet: TERM, ..rerun(Rerun::Safe) };
    let mut world = World::new();
    world.grant(1, quiet.clone());
    world.sign = Sign::UNKNOWN;
    world.wait(TERM - MICRO);
    assert!(matches!(world.ask(by(2, quiet.clone())), Verdict::Held { .. }));
    world.wait(MICRO);
    world.grant(2, quiet);
}

#[test]
fn an_operator_release_waits_until_the_call_must_have_been_given_up_to_the_microsecond() {
    // L8
    let mut world = World::new();
    let give_up = Duration::from_secs(900);
    let granted_at = world.time;
    let grant = world.grant(1, Terms { give_up, ..Terms::default() });
    world.report(grant.epoch, Report::Doubt(Doubt::Stated));
    world.wait(give_up - MICRO);
    let until = granted_at.after(give_up);
    assert_eq!(world.decide(Verb::Release { force: false }), Operated::MayStillRun { until });
    world.wait(MICRO);
    assert_eq!(world.decide(Verb::Release { force: false }), Operated::Done(Some(grant.epoch)));
}

fn state_after(event: &AuditEvent) -> Option<StateName> {
    match event.about {
        About::Claim { after, .. } => after,
        About::Setting { .. } => None,
    }
}

#[test]
fn the_audit_tells_what_a_reopen_set_aside_and_which_settle_contradicts_an_operator_and_nothing_else() {
    // L8
    let mut world = World::new();
    let grant = world.grant(1, Terms::default());
    world.report(grant.epoch, Report::Doubt(Doubt::Stated));
    world.decide(Verb::Settle(ok("by hand"), Retention::Forever));
    let settle = |text| Report::Settle(ok(text), Retention::Forever);
    assert_eq!(world.report(grant.epoch, settle("true")), Ending::LostLease);
    world.decide(Verb::Reopen);
    let second = world.grant(2, Terms::default());
    world.report(second.epoch, settle("second"));
    assert_eq!(world.report(grant.epoch, settle("zombie")), Ending::LostLease);
    let told: Vec<_> = world
        .audit
        .iter()
        .map(|event| (event.verb.as_str(), state_after(event), event.outcome.clone()))
        .collect();
    let expected = [
        ("resolve-settle", Some(StateName::Settled), None),
        (CONTRADICTED, Some(StateName::Settled), Some(ok("true"))),
        ("reopen", Some(StateName::Released), Some(ok("by hand"))),
    ];
    assert_eq!(told, expected, "a zombie contradicts no operator");
}

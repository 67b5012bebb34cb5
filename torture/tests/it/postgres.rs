//! The PostgreSQL store: its processes killed and stopped, and its server killed.

use hapax_torture::burst::{self, Manner};
use hapax_torture::crash::{self, Plan};
use hapax_torture::place::Kind;
use hapax_torture::worker::Flaw;
use hapax_torture::zombie::{self, Story};
use hapax_torture::{guard, outage};

use crate::{assert_green, assert_red, program};

#[test]
fn workers_killed_anywhere_lose_nothing_and_run_nothing_twice() {
    let report = crash::run(program(), &Plan::slice(Kind::Postgres, 88, 1)).unwrap();
    assert_green(&report);
    assert!(report.kills() >= 80, "{} kills", report.kills());
}

fn flawed(flaw: Option<Flaw>, flaw_after: Option<Flaw>) -> Plan {
    Plan { flaw, flaw_after, least_hits: 0, ..Plan::slice(Kind::Postgres, 22, 2) }
}

#[test]
fn a_worker_that_answers_before_it_stores_is_found() {
    let report = crash::run(program(), &flawed(Some(Flaw::AnswerBeforeStore), None)).unwrap();
    assert_red(&report, "an acknowledged outcome is lost");
}

#[test]
fn a_worker_that_runs_again_whatever_is_in_doubt_is_found() {
    let report = crash::run(program(), &flawed(None, Some(Flaw::RerunBlindly))).unwrap();
    assert_red(&report, "effects where one is allowed");
}

/// Awake at once, and with the heartbeat awake before it.
fn play(story: Story) {
    for drowsy in [false, true] {
        assert_green(&zombie::play(program(), story, drowsy, None).expect("the story can be played"));
    }
}

#[test]
fn a_zombie_that_nobody_could_replace_settles_late_and_everybody_gets_its_outcome() {
    play(Story::LateSettle);
}

#[test]
fn a_zombie_stopped_before_its_effect_has_it_late_and_once() {
    play(Story::LateEffect);
}

#[test]
fn a_zombie_that_was_replaced_answers_its_caller_with_the_winners_outcome() {
    play(Story::TakenOver);
}

#[test]
fn a_zombie_that_was_replaced_before_it_began_does_not_begin() {
    play(Story::TakenOverBeforeItBegan);
}

#[test]
fn a_zombie_whose_claim_was_released_to_somebody_else_before_it_began_does_not_begin() {
    play(Story::ReleasedBeforeItBegan);
}

#[test]
fn a_zombie_that_was_doubted_before_it_began_leaves_the_work_done_once() {
    play(Story::DoubtedBeforeItBegan);
}

#[test]
fn a_zombie_inside_of_its_own_transaction_is_in_nobodys_way_and_its_row_counts() {
    assert_green(&zombie::in_transaction(program()).unwrap());
}

#[test]
fn a_zombie_that_answers_with_its_own_result_is_found() {
    let report = zombie::play(program(), Story::TakenOver, false, Some(Flaw::AnswerOwnResult)).unwrap();
    assert_red(&report, "answered differently");
}

fn three_processes(notify: bool, poll: bool) -> Manner {
    Manner { kind: Kind::Postgres, processes: 3, notify, poll, flaw: None }
}

#[test]
fn two_hundred_callers_in_three_processes_have_one_answer_by_notification_alone() {
    assert_green(&burst::run(program(), three_processes(true, false), 3).unwrap());
}

#[test]
fn two_hundred_callers_in_three_processes_have_one_answer_by_polling_alone() {
    assert_green(&burst::run(program(), three_processes(false, true), 3).unwrap());
}

#[test]
fn an_application_killed_around_its_transaction_has_both_the_row_and_the_outcome_or_neither() {
    let report = guard::run(program(), 54, 1).unwrap();
    assert_green(&report);
    assert!(report.kills() >= 50, "{} kills", report.kills());
}

#[test]
fn an_application_that_commits_without_the_guard_is_found() {
    let plan = Plan { flaw: Some(Flaw::NoGuard), least_hits: 0, ..guard::plan(18, 2) };
    assert_red(&crash::run(program(), &plan).unwrap(), "neither both nor neither");
}

#[test]
fn a_killed_server_that_comes_back_has_lost_nothing_and_nothing_ran_twice() {
    assert_green(&outage::run(program(), 5, 1).unwrap());
}

//! The embedded store: killed, stopped, and with its power cut.

use hapax_torture::burst::{self, Manner};
use hapax_torture::crash::{self, Plan};
use hapax_torture::place::Kind;
use hapax_torture::powercut::{self, Syncs};
use hapax_torture::worker::Flaw;
use hapax_torture::zombie;

use crate::{assert_green, assert_red, program};

#[test]
fn workers_killed_anywhere_lose_nothing_and_run_nothing_twice() {
    let report = crash::run(program(), &Plan::slice(Kind::Embedded, 165, 1)).unwrap();
    assert_green(&report);
    assert!(report.kills() >= 150, "{} kills", report.kills());
}

fn flawed(flaw: Option<Flaw>, flaw_after: Option<Flaw>) -> Plan {
    Plan { flaw, flaw_after, least_hits: 0, ..Plan::slice(Kind::Embedded, 22, 2) }
}

#[test]
fn a_worker_that_answers_before_it_stores_is_found() {
    let report = crash::run(program(), &flawed(Some(Flaw::AnswerBeforeStore), None)).unwrap();
    assert_red(&report, "an acknowledged outcome is lost");
}

#[test]
fn a_worker_that_releases_on_any_error_is_found() {
    let report = crash::run(program(), &flawed(Some(Flaw::ReleaseOnError), None)).unwrap();
    assert_red(&report, "effects where one is allowed");
}

#[test]
fn a_worker_that_runs_again_whatever_is_in_doubt_is_found() {
    let report = crash::run(program(), &flawed(None, Some(Flaw::RerunBlindly))).unwrap();
    assert_red(&report, "effects where one is allowed");
}

#[test]
fn a_process_stopped_for_longer_than_its_term_goes_on_and_the_work_is_done_once() {
    for (point, drowsy) in
        [("once.granted", false), ("once.granted", true), ("work.began", true), ("work.done", false)]
    {
        assert_green(&zombie::embedded(program(), point, drowsy).unwrap());
    }
}

fn one_process(flaw: Option<Flaw>) -> Manner {
    Manner { kind: Kind::Embedded, processes: 1, notify: true, poll: false, flaw }
}

#[test]
fn two_hundred_callers_run_it_once_and_have_one_answer() {
    assert_green(&burst::run(program(), one_process(None), 3).unwrap());
}

#[test]
fn two_hundred_callers_who_ask_nobody_are_found() {
    assert_red(
        &burst::run(program(), one_process(Some(Flaw::NoClaim)), 1).unwrap(),
        "effects where one is allowed",
    );
}

#[test]
fn a_power_cut_takes_back_nothing_that_was_acknowledged() {
    let plan = powercut::Plan { keys: 150, cuts: 60, seed: 3, syncs: Syncs::Honest };
    assert_green(&powercut::run(program(), &plan).unwrap());
}

#[test]
fn a_power_cut_without_syncs_loses_outcomes_and_is_found() {
    let plan = powercut::Plan { keys: 60, cuts: 24, seed: 4, syncs: Syncs::StubbedOut };
    assert_red(&powercut::run(program(), &plan).unwrap(), "an acknowledged outcome is lost");
}

#[test]
fn a_power_cut_of_a_disk_that_lies_about_the_log_is_found() {
    let plan = powercut::Plan { keys: 60, cuts: 24, seed: 5, syncs: Syncs::LogNotBelieved };
    let report = powercut::run(program(), &plan).unwrap();
    assert_red(&report, "an acknowledged outcome is lost");
}

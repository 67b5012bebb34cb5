//! Durable executions: killed at every named step on each store, and stopped for longer than their session.

use hapax_torture::executions::{self, Plan, STOPS};
use hapax_torture::place::Kind;

use crate::{assert_green, assert_red, program};

const LEAST: usize = 5;

fn plan(kind: Kind) -> Plan {
    Plan { kind, kills: LEAST, tracks: 4, seed: 1, blind: false }
}

#[test]
fn killed_at_every_step_each_tool_is_called_once_embedded_j4() {
    let report = executions::run(program(), &plan(Kind::Embedded)).unwrap();
    assert_green(&report);
    assert!(report.kills() >= 18 * LEAST, "{} kills", report.kills());
}

#[test]
fn killed_at_every_step_each_tool_is_called_once_postgres_j4() {
    let report = executions::run(program(), &plan(Kind::Postgres)).unwrap();
    assert_green(&report);
    assert!(report.kills() >= 18 * LEAST, "{} kills", report.kills());
}

#[test]
fn dropped_at_every_step_each_tool_is_called_once_memory_j4() {
    let report = executions::in_memory(LEAST, 1).unwrap();
    assert_green(&report);
    assert!(report.kills() >= 16 * LEAST, "{} drops", report.kills());
}

#[test]
fn a_process_that_decides_blindly_is_found_embedded() {
    let report = executions::run(program(), &Plan { kills: 2, blind: true, ..plan(Kind::Embedded) }).unwrap();
    assert_red(&report, "effects where one is allowed");
}

#[test]
fn a_runner_that_is_stopped_while_another_goes_on_does_nothing_twice_postgres_j2() {
    for point in STOPS {
        assert_green(&executions::stopped(program(), point).unwrap());
    }
}

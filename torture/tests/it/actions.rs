//! Actions of agents in several processes: lanes under load, the flood of one message, and a process that is killed while its tool runs.

use hapax_torture::actions;
use hapax_torture::place::Kind;

use crate::{assert_green, assert_red, program};

// `cargo xtask torture actions` has ten thousand over a hundred.
const ACTIONS: usize = 600;
const ENTITIES: usize = 12;

#[test]
fn actions_on_one_entity_begin_in_their_order_and_never_overlap_embedded_x3() {
    assert_green(&actions::lanes(program(), Kind::Embedded, ACTIONS, ENTITIES, false).unwrap());
}

#[test]
fn actions_of_three_processes_begin_in_their_order_and_never_overlap_postgres_x3() {
    assert_green(&actions::lanes(program(), Kind::Postgres, ACTIONS, ENTITIES, false).unwrap());
}

#[test]
fn the_657_flood_is_sent_once_embedded_x8() {
    assert_green(&actions::flood(program(), Kind::Embedded, false).unwrap());
}

#[test]
fn the_657_flood_over_three_processes_is_sent_once_though_one_is_killed_postgres_x8() {
    assert_green(&actions::flood(program(), Kind::Postgres, false).unwrap());
}

#[test]
fn a_process_that_is_killed_while_its_tool_runs_closes_the_lane_to_writes_embedded_x3() {
    assert_green(&actions::doubt(program(), Kind::Embedded).unwrap());
}

#[test]
fn a_process_that_is_killed_while_its_tool_runs_closes_the_lane_to_writes_postgres_x3() {
    assert_green(&actions::doubt(program(), Kind::Postgres).unwrap());
}

#[test]
fn actions_that_overlap_and_a_message_that_is_sent_again_are_found_embedded() {
    let report = actions::lanes(program(), Kind::Embedded, 300, ENTITIES, true).unwrap();
    assert_red(&report, "began before");
    let report = actions::flood(program(), Kind::Embedded, true).unwrap();
    assert_red(&report, "messages were sent");
}

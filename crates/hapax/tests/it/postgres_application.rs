//! The application listener of two instances on one PostgreSQL: what is begun at one goes on at the other (M1, L5).

use crate::application::{self, App};
use crate::application_claims;
use crate::rig::caller::ALICE;
use crate::rig::{Ground, Kind};

async fn two(test: impl AsyncFn(&App, &App)) {
    let ground = Ground::new(Kind::Postgres).await;
    let (here, elsewhere) = (ground.serve_as("here").await, ground.serve_as("elsewhere").await);
    test(&App::new(&here, ALICE), &App::new(&elsewhere, ALICE)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execution_is_run_at_two_instances_j8() {
    two(application::walks_through).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_finish_counts_at_another_instance_l5() {
    two(application::is_resumed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_are_settled_at_another_instance_l5() {
    two(application_claims::each_verdict_is_told).await;
}

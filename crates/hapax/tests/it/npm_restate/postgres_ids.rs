//! Two instances on one store: what one of them seals, the other one opens (D2).

use super::*;
use crate::rig::Database;
use crate::rig::caller::ALICE;

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_on_one_store_read_each_others_ids_and_a_stranger_does_not_d2() {
    let database = Database::fresh().await;
    let mut ground = Ground::new(1, "").await;
    ground.store.clone_from(&database.url);
    let one = ground.edge("one").await;
    let other = ground.edge("other").await;
    let first = post(&one, ALICE, "/echo", "k", r#"{"a": 1}"#).await;
    let id = &first.header("x-operation-id").unwrap().to_owned();
    let again = post(&other, ALICE, "/echo", "k", r#"{"a": 1}"#).await;
    assert_eq!((again.is_replay(), again.header("x-operation-id")), (true, Some(&**id)));
    let fetched = get(&other, ALICE, &format!("/operations/{id}")).await;
    assert_eq!((fetched.status, fetched.body), (200, first.body));
    ground.store = "memory:".into();
    let stranger = ground.edge("stranger").await;
    assert_eq!(get(&stranger, ALICE, &format!("/operations/{id}")).await.status, 404);
    let theirs = post(&stranger, ALICE, "/echo", "k", r#"{"a": 1}"#).await;
    assert!(theirs.is_replay() && theirs.header("x-operation-id") != Some(&**id), "{theirs:?}");
}

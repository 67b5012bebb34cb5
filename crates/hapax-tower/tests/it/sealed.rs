//! Outcomes that are sealed at rest (B9).

use std::sync::Arc;

use hapax_core::{Filter, Inspect as _, Outcome, State};
use hapax_exec::Seal;
use hapax_tower::Rule;

use crate::app::app_with;

fn rule() -> Rule {
    Rule::new("charges.create").unwrap()
}

#[tokio::test]
async fn what_is_kept_cannot_be_read_without_the_key_and_is_replayed_with_it_b9() {
    let seal = Arc::new(Seal::new(vec![[1; 32]]).unwrap());
    let app = app_with(rule(), |layer| layer, |protect| protect.sealed(Some(seal)));
    let first = app.post("k", "a secret", &[]).await;
    let again = app.post("k", "a secret", &[]).await;
    assert_eq!((first.status, again.is_replay()), (201, true));
    assert_eq!(first.body, again.body);
    let store = app.protect.executor().ledger();
    let record = store.list(&Filter::default(), None, 10).await.unwrap().items.remove(0);
    let State::Settled { outcome: Outcome::Succeeded(kept), .. } = &record.claim.state else {
        panic!("{:?}", record.claim.state)
    };
    assert!(Seal::is_sealed(kept));
    assert!(!kept.windows(8).any(|window| window == b"a secret"));
}

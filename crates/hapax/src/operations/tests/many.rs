//! A first start with many operations: a store that commits in groups is given groups.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Barrier;

use super::*;

/// A registry in which no document is written before so many are to be.
#[derive(Clone)]
struct InGroups {
    store: Memory,
    group: Arc<Barrier>,
}

macro_rules! behind {
    ($self:ident, $registry:ident => $call:expr) => {{
        let $registry = &$self.store;
        $call
    }};
}

impl Registry for InGroups {
    hapax_core::forward!(behind => get, delete, list_documents);

    async fn put(&self, id: &DocumentId, expect: u64, body: Bytes) -> Result<u64, Error> {
        if [NAMES, ENDPOINTS].contains(&id.kind()) {
            self.group.wait().await;
        }
        self.store.put(id, expect, body).await
    }
}

#[tokio::test]
async fn many_new_operations_are_written_many_at_a_time_k6() {
    let paths: Vec<(String, String)> =
        (0..100).map(|number| (format!("/pay/{number}"), format!("pay.{number}"))).collect();
    let routes: Vec<_> = paths.iter().map(|(path, name)| ("POST", path.as_str(), name.as_str())).collect();
    let (config, store) = (with_routes(&routes), Memory::open(Options::default()));
    // A name, a method and a path for each; the last group is a smaller one.
    let registry = InGroups { store: store.clone(), group: Arc::new(Barrier::new(8)) };
    let operations = Operations::of(&config);
    let agreeing = agree(&registry, &store, &ALONE, &operations);
    let agreed = tokio::time::timeout(Duration::from_secs(60), agreeing).await.expect("they come together");
    assert_eq!(agreed.unwrap().firsts.len(), 100);
    for kind in [NAMES, ENDPOINTS] {
        assert_eq!(store.list_documents(kind, None, 1000).await.unwrap().len(), 100, "{kind}");
    }
}

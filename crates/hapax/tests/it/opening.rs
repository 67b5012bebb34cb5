//! Opening a store by its URL: what is wrong is said clearly, and no password with it (B1).

use hapax::Store;
use hapax_core::{Kind, Ledger as _, Retry, Verdict};
use hapax_store::conformance::request;
use hapax_store::{Lifecycle as _, Options};

#[tokio::test]
async fn a_url_that_names_no_store_is_refused() {
    let long = format!("embedded:{}", "x".repeat(5_000));
    for url in
        ["", "memory", "memory:x", "embedded:", "embedded", "sqlite:x", "redis://host", "data", long.as_str()]
    {
        let error = Store::open(url, Options::default()).await.unwrap_err();
        assert_eq!((error.kind(), error.retry()), (Kind::Invalid, Retry::Never), "{url}");
        assert!(error.message().contains("embedded:PATH"), "{error}");
    }
}

#[tokio::test]
async fn a_wrong_or_unreachable_server_is_named_without_its_password() {
    for (url, kind) in [
        ("postgres://", Kind::Invalid),
        ("postgres://host:notaport/db", Kind::Invalid),
        ("postgres://ann:secret@127.0.0.1:9/orders", Kind::Unavailable),
    ] {
        let options = Options { patience: std::time::Duration::from_millis(200), ..Options::default() };
        let error = Store::open(url, options).await.unwrap_err();
        assert_eq!((error.kind(), error.executed()), (kind, hapax_core::Executed::No), "{url}: {error:#}");
        assert!(!format!("{error:#}").contains("secret"), "{error:#}");
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a-file");
    std::fs::write(&file, "not a folder").unwrap();
    let error = Store::open(&format!("embedded:{}", file.join("data").display()), Options::default())
        .await
        .unwrap_err();
    assert!(format!("{error:#}").contains("a-file"), "{error:#}");
}

#[tokio::test]
async fn each_store_opens_by_its_url_and_says_what_must_be_known() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = format!("embedded:{}", folder.path().display());
    for (url, word) in [("memory:", "FORGETS"), (embedded.as_str(), "single instance")] {
        let store = Store::open(url, Options::default()).await.unwrap();
        assert!(store.notice().contains(word), "{}", store.notice());
        let verdict = store.claim(request("k", "body", hapax_core::Terms::default())).await.unwrap();
        assert!(matches!(verdict, Verdict::Granted(_)));
        store.close().await.unwrap();
    }
}

/// A sweeper that has nothing more to do is seen to come by again and again (O1).
#[tokio::test]
async fn how_long_ago_a_store_was_swept_is_known() {
    let folder = tempfile::tempdir().unwrap();
    for url in ["memory:".to_owned(), format!("embedded:{}", folder.path().join("data").display())] {
        let store = Store::open(&url, Options::default()).await.unwrap();
        let swept = async {
            let mut last = store.tally().sweep_lag();
            loop {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                let lag = store.tally().sweep_lag();
                if lag < last {
                    return;
                }
                last = lag;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), swept).await.expect("it is swept");
        store.close().await.unwrap();
    }
}

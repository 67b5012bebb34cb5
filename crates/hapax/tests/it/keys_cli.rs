//! `hapax keys`, run as an operator would run it (M2, A2).

use serde_json::Value;

use crate::claims_cli::{Told, hapax, told};
use crate::office::{OPERATOR, Office, READER};
use crate::rig;

async fn run(office: &Office, args: &[&str]) -> Told {
    told(hapax(office, OPERATOR, args)).await
}

#[tokio::test]
async fn a_key_is_made_in_the_fixed_form_listed_and_revoked_m2() {
    let office = Office::embedded().await;
    let none = run(&office, &["keys", "list"]).await;
    assert!(none.code == 0 && none.err.contains("no keys yet"), "{}", none.err);
    let make =
        ["keys", "create", "--tenant", "acme", "--project", "prod", "--subject", "service:ci", "--json"];
    let made = run(&office, &make).await;
    assert_eq!(made.code, 0, "{}", made.err);
    let made: Value = serde_json::from_str(&made.out).unwrap();
    let mut names: Vec<_> = made.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["id", "key"]);
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let listed = run(&office, &["keys", "list"]).await;
    assert!(
        listed.out.contains(id) && listed.out.contains("service:ci") && !listed.out.contains(key),
        "{}",
        listed.out
    );
    let beyond = run(&office, &["keys", "list", "--after", "zz"]).await;
    assert!(beyond.code == 0 && beyond.err.contains("no keys after zz"), "{}", beyond.err);
    let plain =
        run(&office, &["keys", "create", "--tenant", "acme", "--subject", "service:a", "--level", "tenant"])
            .await;
    assert!(plain.out.starts_with("hpx_") && plain.out.lines().count() == 1, "{}", plain.out);
    assert!(plain.err.contains("not shown again"), "{}", plain.err);
    assert_eq!(run(&office, &["keys", "revoke", id]).await.code, 0);
    assert_eq!(run(&office, &["keys", "revoke", id]).await.code, 0, "said again, it is revoked still");
    assert!(!run(&office, &["keys", "list"]).await.out.contains(id));
    assert_eq!(run(&office, &["keys", "revoke", "hpx_0000000000000000"]).await.code, 1);
}

#[tokio::test]
async fn keys_that_could_not_work_are_misuse_with_or_without_a_server_m2() {
    let office = Office::in_memory().await;
    for args in [
        &["keys", "create", "--tenant", "acme", "--subject", "service:ci"][..],
        &["keys", "create", "--tenant", "A", "--project", "p", "--subject", "service:ci"],
        &["keys", "create", "--tenant", "acme", "--project", "p", "--subject", "ci"],
        &["keys", "create", "--tenant", "acme", "--project", "p", "--subject", "service:webhook-ingest"],
        &[
            "keys",
            "create",
            "--tenant",
            "acme",
            "--project",
            "p",
            "--subject",
            "service:ci",
            "--expires",
            "soon",
        ],
        &["keys", "list", "--limit", "0"],
    ] {
        let refused = run(&office, args).await;
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{args:?}: {}", refused.err);
    }
    let make = ["keys", "create", "--tenant", "acme", "--project", "p", "--subject", "service:ci"];
    assert_eq!(told(hapax(&office, READER, &make)).await.code, 1);
}

#[tokio::test]
async fn whoever_asks_a_server_without_a_token_for_a_key_hears_what_is_missing_m2() {
    let make = ["keys", "create", "--tenant", "acme", "--project", "p", "--subject", "service:ci"];
    let closed = Office::without_tokens().await;
    let refused = told(hapax(&closed, OPERATOR, &make)).await;
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    assert!(refused.err.contains("no admin token is configured: add [admin]"), "{}", refused.err);
    let mut without = hapax(&closed, OPERATOR, &make);
    without.env_remove("HAPAX_ADMIN_TOKEN");
    let without = told(without).await;
    assert_eq!(without.code, 2);
    assert!(without.err.contains("[admin] with `token_env"), "{}", without.err);
    // Where there are tokens, it is the caller's that is wrong.
    let wrong = told(hapax(&Office::in_memory().await, "wrong", &make)).await;
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.err.contains("does not know the token in HAPAX_ADMIN_TOKEN") && !wrong.err.contains("[admin]"),
        "{}",
        wrong.err
    );
}

#[tokio::test]
async fn a_key_that_cannot_be_shown_is_said_to_be_made_with_how_to_take_it_back_m2() {
    let office = Office::embedded().await;
    for more in [&[][..], &["--json"]] {
        let make = ["keys", "create", "--tenant", "acme", "--project", "p", "--subject", "service:ci"];
        let mut unseen = hapax(&office, OPERATOR, &[&make[..], more].concat());
        unseen.stdout(std::fs::File::create("/dev/full").unwrap());
        let unseen = told(unseen).await;
        assert_eq!(unseen.code, 3, "{}", unseen.err);
        let (_, rest) = unseen.err.split_once("`hapax keys revoke ").expect(&unseen.err);
        let (id, _) = rest.split_once('`').unwrap();
        assert_eq!(run(&office, &["keys", "revoke", id]).await.code, 0, "{id}");
    }
}

#[tokio::test]
async fn a_mistyped_store_is_not_made_by_whoever_lists_or_revokes_m2() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", folder.path().join("typo").display());
    for args in [&["keys", "list", "--store", &store][..], &["keys", "revoke", "hpx_0", "--store", &store]] {
        let refused = told(rig::hapax(args)).await;
        assert_eq!((refused.code, refused.out.as_str()), (3, ""), "{args:?}: {}", refused.err);
        for part in ["there is no store in", "typo", "makes no store"] {
            assert!(refused.err.contains(part), "{args:?}: {}", refused.err);
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is made");
    // The first key may come before the first server.
    let make = [
        "keys",
        "create",
        "--tenant",
        "acme",
        "--project",
        "p",
        "--subject",
        "service:ci",
        "--store",
        &store,
    ];
    assert_eq!(told(rig::hapax(&make)).await.code, 0);
    let listed = told(rig::hapax(&["keys", "list", "--store", &store])).await;
    assert!(listed.code == 0 && listed.out.contains("service:ci"), "{}", listed.err);
    assert_eq!(told(rig::hapax(&["keys", "revoke", "hpx_0", "--store", &store])).await.code, 1);
}

#[tokio::test]
async fn a_leaked_key_is_revoked_by_what_leaked_and_not_shown_again_a2() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", folder.path().join("data").display());
    let at = ["--tenant", "acme", "--project", "prod", "--subject", "service:ci", "--store", &store];
    let made = told(rig::hapax(&[&["keys", "create"][..], &at].concat())).await;
    let key = made.out.trim();
    let (id, secret) = key.rsplit_once('_').unwrap();
    let revoked = told(rig::hapax(&["keys", "revoke", key, "--store", &store])).await;
    assert_eq!(revoked.code, 0, "{}", revoked.err);
    assert_eq!(revoked.out.trim(), format!("{id} revoked"));
    assert!(!revoked.err.contains(secret), "{}", revoked.err);
    assert!(told(rig::hapax(&["keys", "list", "--store", &store])).await.err.contains("no keys"));
    let absent = key.replace(id, "hpx_0000000000000000");
    let absent = told(rig::hapax(&["keys", "revoke", &absent, "--store", &store])).await;
    assert!(absent.code == 1 && !absent.err.contains(secret), "{}", absent.err);
}

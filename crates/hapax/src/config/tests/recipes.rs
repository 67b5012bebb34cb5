//! What operations are identified by, held against what a store remembers (K6).

use hapax_core::registry::{DocumentId, Elsewhere, RECIPE_KIND, recipe_of};
use hapax_core::{
    ClaimRequest, Fingerprint, Identity, Key, Kind, Ledger, Operation, Outcome, Recipe, Registry, Scope,
    Source,
};
use hapax_store::Options;
use hapax_store::memory::Memory;

use super::super::recipes::{KIND, RecipeError, check_recipes};
use super::*;

fn config(operation: &str, more: &str) -> Config {
    let text = with_route(&format!("policy = \"REQUIRED_A\"\n{more}"));
    loaded(&text.replace("operation = \"pay\"", &format!("operation = \"{operation}\"")))
}

/// Keeps an outcome of this operation.
async fn settle(store: &Memory, operation: &str) {
    let operation = Operation::new(operation).unwrap();
    let identity =
        Identity::new(Source::Header, Scope::local(), Width::Subject, operation, Key::new("k").unwrap());
    let request = ClaimRequest::new(identity, Fingerprint::none());
    store.set(request, Outcome::NotKept { status: 200 }, Retention::Forever).await.unwrap();
}

async fn refused(store: &Memory, config: &Config) -> String {
    match check_recipes(store, store, Elsewhere::Nothing, &mut config.clone()).await {
        Err(RecipeError::Refused(mistakes)) => mistakes.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_changed_recipe_with_live_claims_is_refused_k6() {
    let store = Memory::open(Options::default());
    check_recipes(&store, &store, Elsewhere::Nothing, &mut config("pay", "")).await.unwrap();
    settle(&store, "pay").await;
    check_recipes(&store, &store, Elsewhere::Nothing, &mut config("pay", "")).await.unwrap();
    let changes = [
        "scope = \"tenant\"",
        "fingerprint = \"json\"",
        "fingerprint_headers = [\"a\"]",
        "level = \"tenant\"",
    ];
    for change in changes {
        let told = refused(&store, &config("pay", change)).await;
        assert!(
            told.contains("hapax.toml:3:") && told.contains("was = ") && told.contains("claims: 1"),
            "{told}"
        );
    }
    check_recipes(&store, &store, Elsewhere::Nothing, &mut config("pay", "retention = \"1h\""))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_new_name_with_was_is_accepted_and_remembered_k6() {
    let store = Memory::open(Options::default());
    check_recipes(&store, &store, Elsewhere::Nothing, &mut config("pay", "")).await.unwrap();
    settle(&store, "pay").await;
    let mut renamed = config("pay.v2", "scope = \"tenant\"\nwas = \"pay\"");
    check_recipes(&store, &store, Elsewhere::Nothing, &mut renamed).await.unwrap();
    let id = DocumentId::new(KIND, "pay.v2").unwrap();
    let body = store.get(&id).await.unwrap().unwrap().body;
    let kept: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&kept["width"], &kept["was"]), (&"tenant".into(), &"pay".into()));
    settle(&store, "pay.v2").await;
    refused(&store, &config("pay.v2", "was = \"pay\"")).await;
}

fn formerly(config: &Config) -> Vec<(&str, Width)> {
    let rule = config.settings.routes[0].rule.as_ref().unwrap();
    rule.formerly.iter().map(|former| (former.operation.as_str(), former.width)).collect()
}

#[tokio::test]
async fn an_operation_knows_the_names_it_had_as_long_as_claims_rest_on_them_k6() {
    let store = Memory::open(Options::default());
    check_recipes(&store, &store, Elsewhere::Nothing, &mut config("pay", "scope = \"tenant\""))
        .await
        .unwrap();
    settle(&store, "pay").await;
    let mut second = config("pay.v2", "was = \"pay\"");
    assert!(check_recipes(&store, &store, Elsewhere::Nothing, &mut second).await.unwrap().is_empty());
    assert_eq!(formerly(&second), [("pay", Width::Tenant)]);
    // Nothing was done under the second name.
    let mut third = config("pay.v3", "was = \"pay.v2\"");
    assert!(check_recipes(&store, &store, Elsewhere::Nothing, &mut third).await.unwrap().is_empty());
    assert_eq!(formerly(&third), [("pay", Width::Tenant)]);
    settle(&store, "pay.v2").await;
    check_recipes(&store, &store, Elsewhere::Nothing, &mut third).await.unwrap();
    assert_eq!(formerly(&third), [("pay.v2", Width::Subject), ("pay", Width::Tenant)]);
}

#[tokio::test]
async fn a_new_name_does_not_come_with_another_level_while_claims_rest_on_the_old_one_k6() {
    let store = Memory::open(Options::default());
    check_recipes(&store, &store, Elsewhere::Nothing, &mut config("pay", "")).await.unwrap();
    let renamed = config("pay.v2", "was = \"pay\"\nlevel = \"tenant\"");
    check_recipes(&store, &store, Elsewhere::Nothing, &mut renamed.clone()).await.unwrap();
    settle(&store, "pay").await;
    let told = refused(&store, &renamed).await;
    assert!(told.contains("hapax.toml:3:") && told.contains("keep the level"), "{told}");
}

#[tokio::test]
async fn claims_that_no_route_could_find_any_more_are_told_and_so_is_a_name_that_never_was_k6() {
    let store = Memory::open(Options::default());
    check_recipes(&store, &store, Elsewhere::Nothing, &mut config("pay", "")).await.unwrap();
    assert!(
        check_recipes(&store, &store, Elsewhere::Nothing, &mut config("charge", ""))
            .await
            .unwrap()
            .is_empty()
    );
    settle(&store, "pay").await;
    let told = check_recipes(&store, &store, Elsewhere::Nothing, &mut config("charge", ""))
        .await
        .unwrap()
        .join("\n");
    assert!(told.contains("\"pay\" (claims: 1)") && told.contains("was = "), "{told}");
    let told = check_recipes(&store, &store, Elsewhere::Nothing, &mut config("debit", "was = \"pey\""))
        .await
        .unwrap()
        .join("\n");
    assert!(told.contains("hapax.toml:3:") && told.contains("knows no operation \"pey\""), "{told}");
}

#[tokio::test]
async fn a_fingerprint_recipe_is_found_by_its_id_after_the_configuration_has_another_one_k6() {
    let store = Memory::open(Options::default());
    let config = |line| config("pay", line);
    let first = config("fingerprint_headers = [\"X-Kind\"]");
    let recipe = first.settings.routes[0].rule.as_ref().unwrap().recipe.clone();
    assert_eq!(recipe_of(&store, recipe.id()).await.unwrap(), None);
    for mut config in [first.clone(), first, config("")] {
        check_recipes(&store, &store, Elsewhere::Nothing, &mut config).await.unwrap();
        assert_eq!(recipe_of(&store, recipe.id()).await.unwrap().as_ref(), Some(&recipe));
    }
    let id = DocumentId::new(RECIPE_KIND, format!("{:016x}", recipe.id().0)).unwrap();
    assert_eq!(store.get(&id).await.unwrap().unwrap().version, 1, "it is written once");
    store.put(&id, 1, Recipe::raw().definition().into()).await.unwrap();
    assert_eq!(recipe_of(&store, recipe.id()).await.unwrap_err().kind(), Kind::Corrupt);
}

#[tokio::test]
async fn without_live_claims_a_recipe_may_change_k6() {
    let store = Memory::open(Options::default());
    check_recipes(&store, &store, Elsewhere::Nothing, &mut config("pay", "")).await.unwrap();
    settle(&store, "another").await;
    check_recipes(&store, &store, Elsewhere::Nothing, &mut config("pay", "scope = \"project\""))
        .await
        .unwrap();
    let id = DocumentId::new(KIND, "pay").unwrap();
    let document = store.get(&id).await.unwrap().unwrap();
    assert_eq!(document.version, 2);
    check_recipes(&store, &store, Elsewhere::Nothing, &mut config("pay", "scope = \"project\""))
        .await
        .unwrap();
    assert_eq!(store.get(&id).await.unwrap().unwrap().version, 2, "nothing new, nothing written");
}

#[tokio::test]
async fn a_recipe_that_requests_or_processes_still_use_is_not_changed_k6() {
    let store = Memory::open(Options::default());
    check_recipes(&store, &store, Elsewhere::Processes, &mut config("pay", "")).await.unwrap();
    for (elsewhere, remedy) in
        [(Elsewhere::Requests, "restart, or give"), (Elsewhere::Processes, "stop them first, or give")]
    {
        let mut changed = config("pay", "scope = \"project\"");
        let refused = check_recipes(&store, &store, elsewhere, &mut changed).await.unwrap_err().to_string();
        assert!(refused.contains("hapax.toml:3:") && refused.contains(remedy), "{refused}");
    }
    // What was kept before levels were gets to know its own.
    let id = DocumentId::new(KIND, "pay").unwrap();
    let kept = store.get(&id).await.unwrap().unwrap();
    let mut body: serde_json::Value = serde_json::from_slice(&kept.body).unwrap();
    body.as_object_mut().unwrap().remove("level").unwrap();
    store.put(&id, kept.version, body.to_string().into()).await.unwrap();
    check_recipes(&store, &store, Elsewhere::Requests, &mut config("pay", "")).await.unwrap();
    assert_eq!(store.get(&id).await.unwrap().unwrap().body, kept.body);
}

#[tokio::test]
async fn where_one_operation_is_refused_nothing_is_written_k6() {
    let store = Memory::open(Options::default());
    check_recipes(&store, &store, Elsewhere::Nothing, &mut config("pay", "")).await.unwrap();
    settle(&store, "pay").await;
    let two = "scope = \"tenant\"\n[[routes]]\nmethod = \"PUT\"\npath = \"/pay\"\noperation = \"new\"\n\
               policy = \"REQUIRED_A\"\nupstream = \"pay\"";
    refused(&store, &config("pay", two)).await;
    assert!(store.get(&DocumentId::new(KIND, "new").unwrap()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_document_that_cannot_be_read_is_not_taken_for_absent_k6() {
    let store = Memory::open(Options::default());
    store.put(&DocumentId::new(KIND, "pay").unwrap(), 0, "{}".into()).await.unwrap();
    let error = check_recipes(&store, &store, Elsewhere::Nothing, &mut config("pay", "")).await.unwrap_err();
    assert!(
        matches!(&error, RecipeError::Store(error) if error.kind() == hapax_core::Kind::Corrupt),
        "{error:?}"
    );
}

/// Each reads every operation before it writes one, so that with many operations they get in each other's way.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_that_start_together_agree_k6() {
    let more: String = (0..2000)
        .map(|index| {
            format!(
                "[[routes]]\nmethod = \"PUT\"\npath = \"/pay/{index}\"\noperation = \"o{index}\"\n\
                 policy = \"REQUIRED_A\"\nupstream = \"pay\"\n"
            )
        })
        .collect();
    let config = config("pay", &more);
    for _ in 0..5 {
        let store = Memory::open(Options::default());
        let together = std::sync::Arc::new(tokio::sync::Barrier::new(4));
        let starts = (0..4).map(|_| {
            let (store, mut config, together) = (store.clone(), config.clone(), together.clone());
            tokio::spawn(async move {
                together.wait().await;
                check_recipes(&store, &store, Elsewhere::Nothing, &mut config).await
            })
        });
        for start in starts.collect::<Vec<_>>() {
            start.await.unwrap().unwrap();
        }
    }
}

//! API keys (A2): made, shown once, listed, revoked; and that nobody can tell why one is refused.

use hapax_core::registry::DocumentId;
use hapax_core::{Kind, Project, Registry, Subject, Tenant, Timestamp};
use hapax_gateway::auth::api_key::{self, Created, NewApiKey};
use hapax_tower::Problem;

use super::*;

fn settings() -> Auth {
    Auth { api_keys: true, ..Auth::default() }
}

fn now() -> Timestamp {
    Timestamp::ZERO.after(SystemTime::now().duration_since(UNIX_EPOCH).unwrap())
}

fn new_key() -> NewApiKey {
    NewApiKey {
        tenant: Tenant::new("acme").unwrap(),
        project: Some(Project::new("web").unwrap()),
        subject: Subject::from_credential_text("service:ci").unwrap(),
        level: Level::Project,
        expires_at: None,
        label: "builds".into(),
    }
}

async fn world() -> (Memory, Authenticator<Memory>, Created) {
    let registry = Memory::open(Options::default());
    let created = api_key::create(&registry, new_key(), now()).await.unwrap();
    let authenticator = Authenticator::open(&settings(), registry.clone()).await.unwrap();
    (registry, authenticator, created)
}

/// The key with one hexadecimal digit changed and its check left as it is.
fn with_digit_changed(key: &str, index: usize) -> String {
    let mut bytes = key.to_owned().into_bytes();
    bytes[index] = if bytes[index] == b'0' { b'1' } else { b'0' };
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_key_names_its_caller_a2() {
    let (_, authenticator, created) = world().await;
    let principal = ask(&authenticator, &created.key).await.unwrap();
    assert_eq!(said(&principal), "acme web service:ci Project");
    assert!(created.key.starts_with(&format!("{}_", created.id)), "lists show what the key starts with");
    assert!(!format!("{created:?}").contains(&created.key));
}

#[tokio::test]
async fn only_a_digest_of_a_key_is_kept_a2() {
    let (registry, _, created) = world().await;
    let id = DocumentId::new(api_key::KIND, &created.id).unwrap();
    let kept = registry.get(&id).await.unwrap().unwrap().body;
    let kept = std::str::from_utf8(&kept).unwrap();
    let secret = &created.key[created.id.len() + 1..][..48];
    assert!(!kept.contains(secret) && !kept.contains(&secret[..16]), "{kept}");
    // 192 bits that differ each time.
    let other = api_key::create(&registry, new_key(), now()).await.unwrap();
    assert!(other.id != created.id && !other.key.contains(secret));
}

#[tokio::test]
async fn every_changed_character_of_a_key_makes_it_invalid_a2() {
    let (_, authenticator, created) = world().await;
    for index in 0..created.key.len() {
        let changed = with_digit_changed(&created.key, index);
        assert!(is_invalid(&ask(&authenticator, &changed).await), "{index}");
    }
    for changed in
        [format!("{}0", created.key), created.key[..created.key.len() - 1].into(), created.key.to_uppercase()]
    {
        assert!(is_invalid(&ask(&authenticator, &changed).await), "{changed}");
    }
}

#[tokio::test]
async fn a_revoked_key_stops_working_within_five_seconds_in_every_process_a2() {
    let (registry, authenticator, created) = world().await;
    let elsewhere = Authenticator::open(&settings(), registry.join()).await.unwrap();
    assert!(ask(&authenticator, &created.key).await.is_ok());
    let revoked = api_key::revoke(&registry, &created.id, now()).await.unwrap();
    assert!(revoked.revoked_at.is_some());
    assert!(is_invalid(&ask(&elsewhere, &created.key).await), "where it is not remembered, at once");
    later(Duration::from_secs(5)).await;
    assert!(is_invalid(&ask(&authenticator, &created.key).await));
    let again = api_key::revoke(&registry, &created.id, Timestamp::NEVER).await.unwrap();
    assert_eq!(again, revoked, "the first time counts");
}

#[tokio::test]
async fn a_key_works_until_it_expires_and_is_not_remembered_beyond_a2() {
    let (registry, authenticator, _) = world().await;
    let expires_at = Some(now().after(Duration::from_secs(2)));
    let created = api_key::create(&registry, NewApiKey { expires_at, ..new_key() }, now()).await.unwrap();
    assert!(ask(&authenticator, &created.key).await.is_ok());
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    assert!(is_invalid(&ask(&authenticator, &created.key).await));
}

#[tokio::test]
async fn nobody_can_tell_from_outside_why_a_key_is_refused_a2() {
    let (registry, authenticator, created) = world().await;
    let foreign = Memory::open(Options::default());
    let unknown = api_key::create(&foreign, new_key(), now()).await.unwrap().key;
    let expired = NewApiKey { expires_at: Some(Timestamp::from_micros(2)), ..new_key() };
    let expired = api_key::create(&registry, expired, Timestamp::from_micros(1)).await.unwrap().key;
    let revoked = api_key::create(&registry, new_key(), now()).await.unwrap();
    api_key::revoke(&registry, &revoked.id, now()).await.unwrap();
    // Another key's secret under this id, with its check as it must be.
    let same_id = DocumentId::new(api_key::KIND, unknown.split_at(20).0).unwrap();
    let kept = registry.get(&DocumentId::new(api_key::KIND, &created.id).unwrap()).await.unwrap().unwrap();
    let wrong_secret = unknown.clone();
    let unknown = api_key::create(&foreign, new_key(), now()).await.unwrap().key;
    registry.put(&same_id, 0, kept.body).await.unwrap();
    let mut details = std::collections::BTreeSet::new();
    let mut shown = std::collections::BTreeSet::new();
    for key in [&unknown, &expired, &revoked.key, &wrong_secret, "hpx_nonsense"] {
        let refusal = ask(&authenticator, key).await.unwrap_err();
        assert!(matches!(refusal, AuthError::Invalid(_)));
        let response = Problem::from(&refusal).response("/errors/");
        shown.insert(format!("{refusal} {response:?}"));
        details.insert(refusal.detail().unwrap().to_owned());
        assert!(!refusal.detail().unwrap().contains(key), "a log is no place for a key");
    }
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert_eq!(details.len(), 5, "the log knows: {details:?}");
}

#[tokio::test]
async fn keys_are_listed_in_pages_without_their_secrets_a2() {
    let registry = Memory::open(Options::default());
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(api_key::create(&registry, new_key(), now()).await.unwrap().id);
    }
    ids.sort();
    let first = api_key::list(&registry, None, 3).await.unwrap();
    let rest = api_key::list(&registry, first.next.as_deref(), 3).await.unwrap();
    let listed: Vec<_> = first.items.iter().chain(&rest.items).map(|key| key.id.clone()).collect();
    assert_eq!(listed, ids);
    assert_eq!((rest.next, first.items[0].label.as_str()), (None, "builds"));
}

#[tokio::test]
async fn keys_that_would_open_nothing_or_too_much_are_not_made_k4() {
    let registry = Memory::open(Options::default());
    let wrong = [
        NewApiKey { subject: Subject::scheduler(), ..new_key() },
        NewApiKey { subject: Subject::webhook_ingest(), ..new_key() },
        NewApiKey { project: Some(Project::platform_level()), ..new_key() },
        NewApiKey { project: None, ..new_key() },
        NewApiKey { label: "a\nb".into(), ..new_key() },
        NewApiKey { label: "a".repeat(1000), ..new_key() },
        NewApiKey { expires_at: Some(Timestamp::from_micros(5)), ..new_key() },
    ];
    for new in wrong {
        let refused = api_key::create(&registry, new.clone(), now()).await;
        assert_eq!(refused.unwrap_err().kind(), Kind::Invalid, "{new:?}");
    }
    let wider = NewApiKey { project: None, level: Level::Tenant, ..new_key() };
    assert!(api_key::create(&registry, wider, now()).await.is_ok());
    let subject = Subject::from_credential_text("tenant_member:bob").unwrap();
    let member = NewApiKey { project: None, subject, ..new_key() };
    assert!(api_key::create(&registry, member, now()).await.is_ok(), "a member reaches its tenant");
    assert_eq!(api_key::list(&registry, None, 10).await.unwrap().items.len(), 2);
}

#[tokio::test]
async fn what_is_no_id_is_not_revoked_and_not_repeated_a2() {
    let (registry, authenticator, created) = world().await;
    for id in ["", "hpx_", "nothing", "hpx_0123456789abcdef", &created.key] {
        let refused = api_key::revoke(&registry, id, now()).await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Invalid);
        assert!(!format!("{refused:#}").contains(&created.key));
    }
    assert!(ask(&authenticator, &created.key).await.is_ok());
}

#[tokio::test]
async fn a_key_that_cannot_be_read_opens_nothing_a2() {
    let (registry, authenticator, created) = world().await;
    let id = DocumentId::new(api_key::KIND, &created.id).unwrap();
    let document = registry.get(&id).await.unwrap().unwrap();
    let text = String::from_utf8(document.body.to_vec()).unwrap();
    let restricted = text.replacen('{', "{\"only_from\":\"10.0.0.0/8\",", 1);
    let newer = text.replace("\"version\":1", "\"version\":2");
    let reserved = text.replace("service:ci", "service:scheduler");
    let mut version = document.version;
    for body in ["{}".to_owned(), restricted, newer, reserved] {
        version = registry.put(&id, version, body.clone().into()).await.unwrap();
        assert!(is_unavailable(&ask(&authenticator, &created.key).await), "{body}");
    }
    registry.put(&id, version, text.into()).await.unwrap();
    assert!(ask(&authenticator, &created.key).await.is_ok());
}

#[tokio::test]
async fn api_keys_are_not_taken_where_they_are_not_enabled_a2() {
    let (registry, _, created) = world().await;
    let authenticator = Authenticator::open(&with_secret(), registry).await.unwrap();
    assert!(is_invalid(&ask(&authenticator, &created.key).await));
}

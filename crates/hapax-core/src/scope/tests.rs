//! Scopes, their text and how it reads back; also the strategies that make scopes and keys for other tests.

use proptest::prelude::*;

use super::*;

fn any_slug() -> impl Strategy<Value = String> {
    "[a-z0-9][a-z0-9_-]{0,62}"
}

fn any_project() -> impl Strategy<Value = Project> {
    prop_oneof![
        any_slug().prop_map(|name| Project::new(name).unwrap()),
        Just(Project::tenant_level()),
        Just(Project::platform_level()),
    ]
}

fn any_subject() -> impl Strategy<Value = Subject> {
    let credential = (0..4_usize, proptest::collection::vec(any::<u8>(), 1..80))
        .prop_map(|(kind, id)| Subject::from_credential(SubjectKind::ALL[kind], id).unwrap());
    prop_oneof![8 => credential, 1 => Just(Subject::webhook_ingest()), 1 => Just(Subject::scheduler())]
}

pub(crate) fn any_scope() -> impl Strategy<Value = Scope> {
    (any_slug(), any_project(), any_subject())
        .prop_map(|(tenant, project, subject)| Scope::new(Tenant::new(tenant).unwrap(), project, subject))
}

pub(crate) fn any_width() -> impl Strategy<Value = Width> {
    prop_oneof![Just(Width::Subject), Just(Width::Project), Just(Width::Tenant)]
}

/// Short keys from few characters, colons among them, so that two are likely to be confused if they can be.
pub(crate) fn any_key() -> impl Strategy<Value = Key> {
    prop_oneof!["[a:_%-]{1,6}", "[A-Za-z0-9._~-]{1,255}", "\\PC{1,40}"]
        .prop_filter_map("printable", |text| Key::new(text).ok())
}

/// Scopes that differ little, or not at all.
pub(crate) fn confusable_scope() -> impl Strategy<Value = Scope> {
    ("[ab]{1,2}", prop_oneof!["[ab]{1,2}", Just("_".to_owned())], 0..4_usize, "[a:%_]{1,2}").prop_map(
        |(tenant, project, kind, id)| {
            let project = Project::new(project).unwrap_or_else(|_| Project::tenant_level());
            let subject = Subject::from_credential(SubjectKind::ALL[kind], id).unwrap();
            Scope::new(Tenant::new(tenant).unwrap(), project, subject)
        },
    )
}

fn subject(text: &str) -> Subject {
    Subject::from_credential_text(text).unwrap()
}

fn scope() -> Scope {
    Scope::new(Tenant::new("acme").unwrap(), Project::new("web").unwrap(), subject("user:alice"))
}

#[test]
fn slugs_are_checked_to_the_letter() {
    // K4
    for good in ["a", "0", "acme-1_x", &"a".repeat(63)] {
        assert_eq!(Tenant::new(good).unwrap().as_str(), good);
        assert_eq!(Project::new(good).unwrap().as_str(), good);
    }
    let too_long = "a".repeat(64);
    for bad in ["", "_any", "_tenant", "_platform", "-a", "A", "a:b", "a b", "ä", "a\n", "a.b", &too_long] {
        assert!(Tenant::new(bad).is_err(), "{bad:?}");
        assert!(Project::new(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn sentinels_stand_in_the_projects_place_and_are_told_from_projects() {
    // K4
    assert_eq!(Project::tenant_level().as_str(), "_tenant");
    assert_eq!(Project::platform_level().as_str(), "_platform");
    assert!(Project::tenant_level().is_sentinel() && Project::platform_level().is_sentinel());
    assert!(!Project::new("web").unwrap().is_sentinel());
}

#[test]
fn subject_ids_are_percent_encoded_outside_the_plain_characters() {
    // K4
    assert_eq!(subject("user:Alice.9_~@-").as_str(), "user:Alice.9_~@-");
    assert_eq!(subject("user:auth0|7:%é").as_str(), "user:auth0%7C7%3A%25%C3%A9");
    let bytes = Subject::from_credential(SubjectKind::TenantMember, [0, 255, b'/']).unwrap();
    assert_eq!(bytes.as_str(), "tenant_member:%00%FF%2F");
    assert_eq!((bytes.kind(), &*bytes.id()), (SubjectKind::TenantMember, &[0, 255, b'/'][..]));
}

#[test]
fn every_byte_of_a_subject_id_reads_back_as_itself() {
    for byte in 0..=255_u8 {
        let subject = Subject::from_credential(SubjectKind::Client, [byte]).unwrap();
        assert_eq!(*subject.id(), [byte]);
        assert_eq!(Subject::parse(subject.as_str()).unwrap(), subject);
        assert!(!subject.as_str()["client:".len()..].contains(':'));
    }
}

#[test]
fn a_subject_text_that_rendering_would_not_give_is_refused() {
    let bad = [
        "", "user", "user:", ":a", "robot:a", "User:a", "user:a b", "user:%41", "user:%2f", "user:%",
        "user:%2",
    ];
    for text in bad.into_iter().chain(["user:a:b", "user:%G0", "user:%+1", "user:é", "_any", "_any:a"]) {
        assert!(Subject::parse(text).is_err(), "{text:?}");
    }
    assert!(Subject::from_credential(SubjectKind::User, "").is_err());
    assert!(Subject::from_credential(SubjectKind::User, "x".repeat(240)).is_ok());
    assert!(Subject::from_credential(SubjectKind::User, "x".repeat(241)).is_err());
    assert!(Subject::from_credential(SubjectKind::User, vec![0; 81]).is_err());
}

#[test]
fn no_credential_can_be_one_of_the_services_of_hapax() {
    // K4
    for own in [Subject::webhook_ingest(), Subject::scheduler(), Subject::anonymous()] {
        assert!(own.is_reserved());
        assert!(Subject::from_credential(own.kind(), own.id()).is_err());
        assert!(Subject::from_credential_text(own.as_str()).is_err());
        assert_eq!(Subject::parse(own.as_str()).unwrap(), own, "a trusted peer may name it");
    }
    assert!(Subject::from_credential(SubjectKind::User, "scheduler").is_ok());
}

#[test]
fn a_wider_scope_renders_what_it_drops_as_any() {
    // K8
    let key = Key::new("k").unwrap();
    let at = |width| namespaced(&scope().narrowed(width), &key).unwrap();
    assert_eq!(at(Width::Subject), "t-acme:web:user:alice:k");
    assert_eq!(at(Width::Project), "t-acme:web:_any:k");
    assert_eq!(at(Width::Tenant), "t-acme:_any:_any:k");
    assert!(Width::Subject < Width::Project && Width::Project < Width::Tenant);
}

/// What a key has beyond the plain grammar must not look like a separator, and must be fit for a header.
#[test]
fn the_namespaced_form_encodes_what_is_not_plain_in_a_key_k4() {
    let at = |key: &str| namespaced(&scope().narrowed(Width::Subject), &Key::new(key).unwrap()).unwrap();
    assert_eq!(at("a:b/c@d%e"), "t-acme:web:user:alice:a%3Ab%2Fc%40d%25e");
    assert_eq!(at("ü"), "t-acme:web:user:alice:%C3%BC");
    for other in ["a:b", "a%3ab", "%61", "a%", "a%FF", "a@b"] {
        let text = format!("t-acme:web:user:alice:{other}");
        assert!(parse_namespaced(&text).is_err(), "{text}: no second text means the same key");
    }
}

#[test]
fn keys_keep_their_colons_in_the_namespaced_form() {
    let key = Key::new("user:x:_any:t-y").unwrap();
    let text = namespaced(&scope().narrowed(Width::Project), &key).unwrap();
    let (read, width, key_read) = parse_namespaced(&text).unwrap();
    assert_eq!((read.subject(), width, key_read), (None, Width::Project, key));
}

#[test]
fn malformed_namespaced_keys_are_refused() {
    let bad = [
        "",
        "t-",
        "acme:web:user:alice:k",
        "t-acme:web:user:alice",
        "t-acme:web:user:alice:",
        "t-acme:web:user::k",
        "t-acme:web:alice:k",
        "t-acme:web:_any",
        "t-acme:web:_any:",
        "t-acme:_any:user:alice:k",
        "t-acme:_other:user:alice:k",
        "t-_any:_any:_any:k",
        "t-Acme:web:user:alice:k",
        "t-acme:web:user:%61lice:k",
        "t-acme:web:user:alice:k\n",
        " t-acme:web:user:alice:k",
    ];
    for text in bad {
        assert!(parse_namespaced(text).is_err(), "{text:?}");
    }
    assert!(parse_namespaced(&format!("t-acme:web:user:alice:{}", "k".repeat(640))).is_err());
}

#[test]
fn a_header_key_always_fits_its_namespace_and_a_longer_one_may_not() {
    // K4: 640 characters are enough for the longest of each part.
    let slug = "s".repeat(63);
    let longest = Subject::from_credential(SubjectKind::TenantMember, "i".repeat(240)).unwrap();
    let scope = Scope::new(Tenant::new(&slug).unwrap(), Project::new(&slug).unwrap(), longest);
    let parts = scope.narrowed(Width::Subject);
    assert_eq!(namespaced(&parts, &Key::new("k".repeat(255)).unwrap()).unwrap().len(), 640);
    assert!(namespaced(&parts, &Key::new("k".repeat(256)).unwrap()).is_err());
}

#[test]
fn programs_without_tenants_have_a_scope_too() {
    // E2
    let parts = (Tenant::new("local").unwrap(), Project::new("local").unwrap(), subject("service:local"));
    assert_eq!(Scope::local(), Scope::new(parts.0, parts.1, parts.2));
}

proptest! {
    #[test]
    fn a_subject_reads_back_as_itself(subject in any_subject()) {
        prop_assert_eq!(Subject::parse(subject.as_str()).unwrap(), subject);
    }

    #[test]
    fn a_namespaced_key_reads_back_as_scope_width_and_key(
        scope in any_scope(), width in any_width(), key in any_key(),
    ) {
        // K3, K4
        let Ok(text) = namespaced(&scope.narrowed(width), &key) else { return Ok(()) };
        prop_assert!(text.chars().count() <= 640);
        let (read, read_width, read_key) = parse_namespaced(&text).unwrap();
        prop_assert_eq!(read.narrowed(Width::Subject), scope.narrowed(width));
        prop_assert_eq!((read_width, read_key), (width, key));
    }

    #[test]
    fn different_scopes_widths_or_keys_never_share_a_namespaced_key(
        a in (confusable_scope(), any_width(), "[a:_]{1,4}"),
        b in (confusable_scope(), any_width(), "[a:_]{1,4}"),
    ) {
        // K5
        let render = |(scope, width, key): &(Scope, Width, String)| {
            namespaced(&scope.narrowed(*width), &Key::new(key.as_str()).unwrap()).unwrap()
        };
        let same = a.0.narrowed(a.1) == b.0.narrowed(b.1) && a.2 == b.2;
        prop_assert_eq!(render(&a) == render(&b), same);
    }

    #[test]
    fn whatever_parses_is_what_rendering_gives(
        text in "t-[ab]{1,2}:(_any|_tenant|[ab]):(_any|user:[a%20:]{1,6}|x):[a:%2340]{0,6}",
    ) {
        if let Ok((scope, width, key)) = parse_namespaced(&text) {
            prop_assert_eq!(namespaced(&scope.narrowed(width), &key).unwrap(), text);
        }
    }
}

//! Headers of trusted peers (A3), and that they are nothing from anybody else.

use super::*;

const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3));

fn settings() -> Auth {
    Auth { trusted: vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()], ..with_secret() }
}

fn named(headers: &[(&str, &str)]) -> Parts {
    head(|request| headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)))
}

const ALICE: [(&str, &str); 3] =
    [("x-tenant-id", "acme"), ("x-project-id", "web"), ("x-subject", "user:alice")];

/// Of peers that set the level, too.
fn with_level() -> Auth {
    Auth { trusted_level: true, ..settings() }
}

#[tokio::test]
async fn a_level_that_a_caller_wrote_reaches_no_further_through_a_trusted_peer_a3_a6() {
    let authenticator = open(&settings()).await;
    let mut lines = ALICE.to_vec();
    for level in ["platform", "tenant", "root"] {
        lines.push(("x-level", level));
        let principal = authenticator.authenticate(&named(&lines), PROXY).await.unwrap();
        assert_eq!(said(&principal), "acme web user:alice Project", "{lines:?}");
    }
    assert_eq!(
        authenticator.authenticate(&named(&[("x-level", "platform")]), PROXY).await,
        Err(AuthError::Missing)
    );
}

#[tokio::test]
async fn a_trusted_peer_names_its_caller_a3() {
    let authenticator = open(&with_level()).await;
    let principal = authenticator.authenticate(&named(&ALICE), PROXY).await.unwrap();
    assert_eq!(said(&principal), "acme web user:alice Project");
    let reaching = named(&[("x-tenant-id", "acme"), ("x-subject", "service:ops"), ("x-level", "platform")]);
    let principal = authenticator.authenticate(&reaching, PROXY).await.unwrap();
    assert_eq!(said(&principal), "acme - service:ops Platform");
    let member = named(&[("x-tenant-id", "acme"), ("x-subject", "tenant_member:bob")]);
    let principal = authenticator.authenticate(&member, PROXY).await.unwrap();
    assert_eq!(said(&principal), "acme - tenant_member:bob Tenant");
}

#[tokio::test]
async fn a_level_in_the_projects_place_is_believed_where_a_level_is_a3_k4() {
    let (plain, level) = (open(&settings()).await, open(&with_level()).await);
    for (subject, place, without, with) in [
        ("user:ann", "_tenant", None, Some("acme - user:ann Tenant")),
        ("user:ann", "_platform", None, Some("acme - user:ann Platform")),
        ("user:ann", "_other", None, None),
        // It has that level, whoever says so, and no other.
        (
            "tenant_member:bob",
            "_tenant",
            Some("acme - tenant_member:bob Tenant"),
            Some("acme - tenant_member:bob Tenant"),
        ),
        ("tenant_member:bob", "_platform", None, Some("acme - tenant_member:bob Platform")),
    ] {
        let mut lines = vec![("x-tenant-id", "acme"), ("x-project-id", place), ("x-subject", subject)];
        for (authenticator, expected) in [(&plain, without), (&level, with)] {
            let principal = authenticator.authenticate(&named(&lines), PROXY).await;
            assert_eq!(principal.as_ref().ok().map(said).as_deref(), expected, "{lines:?}");
            assert!(expected.is_some() || is_invalid(&principal), "{lines:?}");
        }
        // Of two, nobody could say which one counts.
        lines.push(("x-level", "project"));
        assert!(is_invalid(&level.authenticate(&named(&lines), PROXY).await), "{lines:?}");
    }
}

#[tokio::test]
async fn from_anybody_else_these_headers_have_no_effect_a3() {
    let authenticator = open(&settings()).await;
    assert_eq!(authenticator.authenticate(&named(&ALICE), STRANGER).await, Err(AuthError::Missing));
    let token = format!("Bearer {}", signed_with_secret(&claims(json!({ "sub": "mallory" }))));
    let mut lines = ALICE.to_vec();
    // Not even an error: twice, half and nonsense are as good as nothing.
    lines.extend([("x-subject", "user:bob"), ("x-level", "platform"), ("x-tenant-id", "NOT A SLUG")]);
    lines.push(("authorization", &token));
    let principal = authenticator.authenticate(&named(&lines), STRANGER).await.unwrap();
    assert_eq!(said(&principal), "acme web user:mallory Project");
}

#[tokio::test]
async fn a_trusted_peer_without_the_headers_needs_credentials_as_anybody() {
    let authenticator = open(&settings()).await;
    assert_eq!(authenticator.authenticate(&named(&[]), PROXY).await, Err(AuthError::Missing));
    let token = bearer(&signed_with_secret(&claims(json!({}))));
    assert!(authenticator.authenticate(&token, PROXY).await.is_ok());
}

#[tokio::test]
async fn half_a_caller_or_two_are_refused_and_credentials_do_not_help() {
    let authenticator = open(&with_level()).await;
    let token = format!("Bearer {}", signed_with_secret(&claims(json!({}))));
    let wrong: [&[(&str, &str)]; 12] = [
        &[("x-tenant-id", "acme")],
        &[("x-subject", "user:alice")],
        &[("x-project-id", "web")],
        &[("x-level", "tenant")],
        &[("x-tenant-id", "acme"), ("x-tenant-id", "acme"), ("x-subject", "user:alice")],
        &[("x-tenant-id", "acme"), ("x-subject", "user:alice"), ("x-subject", "user:bob")],
        &[("x-tenant-id", "Acme"), ("x-subject", "user:alice")],
        &[("x-tenant-id", "acme"), ("x-subject", "alice")],
        &[("x-tenant-id", "acme"), ("x-subject", "user:a%62c")],
        &[("x-tenant-id", "acme"), ("x-subject", "user:alice"), ("x-level", "root")],
        &[("x-tenant-id", "acme"), ("x-subject", "user:alice"), ("x-project-id", "_any")],
        &[("x-tenant-id", "acme"), ("x-subject", "service:webhook-ingest"), ("x-project-id", "web")],
    ];
    for lines in wrong {
        let mut lines = lines.to_vec();
        lines.push(("authorization", &token));
        assert!(is_invalid(&authenticator.authenticate(&named(&lines), PROXY).await), "{lines:?}");
    }
}

#[tokio::test]
async fn only_listed_peers_are_trusted_however_their_address_is_written_k3() {
    let authenticator = open(&settings()).await;
    for peer in ["10.0.0.1", "10.255.255.255", "::ffff:10.1.2.3", "2001:db8::1"] {
        assert!(authenticator.is_trusted(peer.parse().unwrap()), "{peer}");
    }
    for peer in ["11.0.0.1", "127.0.0.1", "::1", "::10.1.2.3", "::ffff:11.1.2.3", "2001:db9::1"] {
        assert!(!authenticator.is_trusted(peer.parse().unwrap()), "{peer}");
    }
    assert!(!open(&with_secret()).await.is_trusted(PROXY));
}

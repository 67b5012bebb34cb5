//! Tokens (A1): which are believed, and whom they name.

use std::io::Write as _;

use super::*;

/// Settings with a JWKS file, which lives as long as the guard.
fn with_file(algorithms: &[JwtAlgorithm], document: &Value) -> (Auth, tempfile::NamedTempFile) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(document.to_string().as_bytes()).unwrap();
    (with_jwt(jwt(algorithms, JwtKeys::File(file.path().into()))), file)
}

async fn is_refused(authenticator: &Authenticator<Memory>, changes: Value) -> bool {
    is_invalid(&ask(authenticator, &signed_with_secret(&claims(changes))).await)
}

async fn principal_of(settings: &Auth, changes: Value) -> Result<String, AuthError> {
    let authenticator = open(settings).await;
    let principal = ask(&authenticator, &signed_with_secret(&claims(changes))).await?;
    Ok(said(&principal))
}

#[tokio::test]
async fn a_token_of_each_algorithm_is_accepted_a1() {
    assert_eq!(principal_of(&with_secret(), json!({})).await.unwrap(), "acme web user:alice Project");
    let signers = [
        Signer::new("r", Algorithm::RS256),
        Signer::new("e", Algorithm::ES256),
        Signer::new("d", Algorithm::EdDSA),
    ];
    let all = [JwtAlgorithm::Rs256, JwtAlgorithm::Es256, JwtAlgorithm::EdDsa];
    let (settings, _file) = with_file(&all, &jwks(&[&signers[0], &signers[1], &signers[2]]));
    let authenticator = open(&settings).await;
    for signer in &signers {
        let unnamed = Header::new(signer.algorithm);
        assert!(ask(&authenticator, &signer.sign(&claims(json!({})))).await.is_ok(), "{}", signer.id);
        assert!(ask(&authenticator, &signer.sign_with_header(&unnamed, &claims(json!({})))).await.is_ok());
    }
}

#[tokio::test]
async fn a_token_cannot_choose_its_algorithm_a1() {
    let (rsa, other) = (Signer::new("r", Algorithm::RS256), Signer::new("e", Algorithm::ES256));
    let (settings, _file) = with_file(&[JwtAlgorithm::Rs256], &jwks(&[&rsa, &other]));
    let authenticator = open(&settings).await;
    assert!(ask(&authenticator, &rsa.sign(&claims(json!({})))).await.is_ok());
    assert!(is_invalid(&ask(&authenticator, &other.sign(&claims(json!({})))).await), "ES256 is not pinned");
    let longer = Header { alg: Algorithm::RS384, ..rsa.header() };
    let token = rsa.sign_with_header(&longer, &claims(json!({})));
    assert!(is_invalid(&ask(&authenticator, &token).await), "RS384 by the same key");
    for public in [rsa.jwk()["n"].as_str().unwrap().as_bytes(), rsa.jwk().to_string().as_bytes()] {
        let header = Header { kid: Some("r".into()), ..Header::new(Algorithm::HS256) };
        let forged = jsonwebtoken::encode(&header, &claims(json!({})), &EncodingKey::from_secret(public));
        assert!(is_invalid(&ask(&authenticator, &forged.unwrap()).await), "the public key as a secret");
    }
}

#[tokio::test]
async fn with_hs256_pinned_beside_rs256_a_public_key_is_still_no_secret_a1() {
    let rsa = Signer::new("r", Algorithm::RS256);
    let (settings, _file) = with_file(&[JwtAlgorithm::Rs256, JwtAlgorithm::Hs256], &jwks(&[&rsa]));
    let authenticator = open(&settings).await;
    let modulus = jsonwebtoken::jwk::Jwk::from_encoding_key(&rsa.key, Algorithm::RS256).unwrap();
    let public = jsonwebtoken::DecodingKey::from_jwk(&modulus).unwrap();
    let jsonwebtoken::DecodingKeyKind::RsaModulusExponent { n, .. } = public.kind() else { panic!() };
    for kid in [Some("r".to_owned()), None] {
        let header = Header { kid, ..Header::new(Algorithm::HS256) };
        let forged = jsonwebtoken::encode(&header, &claims(json!({})), &EncodingKey::from_secret(n)).unwrap();
        assert!(is_invalid(&ask(&authenticator, &forged).await));
    }
}

#[tokio::test]
async fn an_unsigned_token_is_refused_a1() {
    let authenticator = open(&with_secret()).await;
    let token = signed_with_secret(&claims(json!({})));
    let (message, _) = token.rsplit_once('.').unwrap();
    let payload = message.split_once('.').unwrap().1;
    // {"alg":"none"}, {"alg":"NONE"}
    for header in ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJOT05FIn0"] {
        assert!(is_invalid(&ask(&authenticator, &format!("{header}.{payload}.")).await));
    }
    assert!(is_invalid(&ask(&authenticator, &format!("{message}.")).await), "no signature");
}

#[tokio::test]
async fn a_token_with_any_changed_character_is_refused_a1() {
    let authenticator = open(&with_secret()).await;
    let token = signed_with_secret(&claims(json!({})));
    assert!(ask(&authenticator, &token).await.is_ok());
    for index in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        assert!(is_invalid(&ask(&authenticator, &changed).await), "{index} of {token}");
    }
}

#[tokio::test]
async fn a_key_that_a_token_brings_along_is_not_believed_a1() {
    let (known, mine) = (Signer::new("k", Algorithm::ES256), Signer::new("k", Algorithm::ES256));
    let (settings, _file) = with_file(&[JwtAlgorithm::Es256], &jwks(&[&known]));
    let header = Header { jwk: serde_json::from_value(mine.jwk()).unwrap(), ..mine.header() };
    let forged = mine.sign_with_header(&header, &claims(json!({})));
    assert!(is_invalid(&ask(&open(&settings).await, &forged).await));
}

#[tokio::test]
async fn a_token_of_another_issuer_or_audience_is_refused_a1() {
    let authenticator = open(&with_secret()).await;
    for changes in [
        json!({ "iss": "https://issuer.example.evil" }),
        json!({ "iss": null }),
        json!({ "iss": ["https://issuer.example"] }),
        json!({ "aud": "hapax2" }),
        json!({ "aud": null }),
        json!({ "aud": ["other"] }),
        json!({ "aud": [] }),
        json!({ "aud": 5 }),
    ] {
        assert!(is_refused(&authenticator, changes.clone()).await, "{changes}");
    }
    assert!(!is_refused(&authenticator, json!({ "aud": ["other", "hapax"] })).await);
}

#[tokio::test]
async fn a_token_for_somebody_is_not_for_us_when_we_have_no_name_a1() {
    let mut settings = with_secret();
    settings.jwt.as_mut().unwrap().audience = None;
    let authenticator = open(&settings).await;
    assert!(is_refused(&authenticator, json!({})).await);
    assert!(!is_refused(&authenticator, json!({ "aud": null })).await);
}

#[tokio::test]
async fn a_token_is_good_from_its_begin_to_its_end_and_must_have_an_end_a1() {
    let authenticator = open(&with_secret()).await;
    for changes in [
        json!({ "exp": in_seconds(-5) }),
        json!({ "exp": null }),
        json!({ "exp": "tomorrow" }),
        json!({ "exp": -1 }),
        json!({ "nbf": in_seconds(60) }),
        json!({ "nbf": "tomorrow" }),
    ] {
        assert!(is_refused(&authenticator, changes.clone()).await, "{changes}");
    }
    assert!(!is_refused(&authenticator, json!({ "nbf": in_seconds(-60), "exp": 1e15 })).await);
    let mut settings = with_secret();
    settings.jwt.as_mut().unwrap().leeway = Duration::from_secs(60);
    let lenient = open(&settings).await;
    assert!(!is_refused(&lenient, json!({ "exp": in_seconds(-50), "nbf": in_seconds(50) })).await);
    assert!(is_refused(&lenient, json!({ "exp": in_seconds(-70) })).await);
}

#[tokio::test]
async fn a_remembered_token_is_not_good_beyond_its_end_a1() {
    let authenticator = open(&with_secret()).await;
    let token = signed_with_secret(&claims(json!({ "exp": in_seconds(2) })));
    assert!(ask(&authenticator, &token).await.is_ok());
    tokio::time::sleep(Duration::from_millis(3_100)).await;
    assert!(is_invalid(&ask(&authenticator, &token).await));
}

#[tokio::test]
async fn a_token_that_demands_something_unknown_is_refused_a1() {
    let header = Header { crit: Some(vec!["exp".into()]), ..Header::new(Algorithm::HS256) };
    let token = jsonwebtoken::encode(&header, &claims(json!({})), &EncodingKey::from_secret(SECRET)).unwrap();
    assert!(is_invalid(&ask(&open(&with_secret()).await, &token).await));
}

#[tokio::test]
async fn claims_name_the_caller_k4() {
    for (changes, expected) in [
        (json!({ "project_id": null }), "acme - user:alice Project"),
        (json!({ "sub_type": "service", "sub": "ci" }), "acme web service:ci Project"),
        (json!({ "sub_type": "tenant_member" }), "acme web tenant_member:alice Tenant"),
        (
            json!({ "sub_type": "tenant_member", "reach": "platform" }),
            "acme web tenant_member:alice Platform",
        ),
        (json!({ "reach": "tenant" }), "acme web user:alice Tenant"),
        (json!({ "sub": "a|b ä" }), "acme web user:a%7Cb%20%C3%A4 Project"),
        (json!({ "level": "platform" }), "acme web user:alice Project"),
    ] {
        assert_eq!(principal_of(&with_secret(), changes.clone()).await.unwrap(), expected, "{changes}");
    }
}

#[tokio::test]
async fn claims_that_name_nobody_who_can_be_are_refused_k4() {
    let authenticator = open(&with_secret()).await;
    for changes in [
        json!({ "tenant_id": null }),
        json!({ "tenant_id": "" }),
        json!({ "tenant_id": "Acme" }),
        json!({ "tenant_id": "acme:web" }),
        json!({ "tenant_id": ["acme"] }),
        json!({ "tenant_id": 7 }),
        json!({ "project_id": "_tenant" }),
        json!({ "project_id": "_platform" }),
        json!({ "project_id": "_any" }),
        json!({ "project_id": "" }),
        json!({ "project_id": false }),
        json!({ "sub": null }),
        json!({ "sub": "" }),
        json!({ "sub": "a".repeat(300) }),
        json!({ "sub_type": "service", "sub": "webhook-ingest" }),
        json!({ "sub_type": "service", "sub": "scheduler" }),
        json!({ "sub_type": "root" }),
        json!({ "sub_type": 1 }),
        json!({ "reach": "everywhere" }),
        json!({ "reach": 3 }),
    ] {
        assert!(is_refused(&authenticator, changes.clone()).await, "{changes}");
    }
}

#[tokio::test]
async fn a_dotted_name_leads_into_an_object_unless_a_claim_has_that_very_name() {
    let mut settings = with_secret();
    let names = &mut settings.jwt.as_mut().unwrap().claims;
    names.tenant = "https://acme.example/tenant".into();
    names.project = "app.meta.project".into();
    let changes = json!({
        "https://acme.example/tenant": "umbrella", "app": { "meta": { "project": "deep" } },
    });
    assert_eq!(principal_of(&settings, changes).await.unwrap(), "umbrella deep user:alice Project");
    let flat = json!({
        "https://acme.example/tenant": "umbrella", "app.meta.project": "flat", "app": { "meta": { "project": "deep" } },
    });
    assert_eq!(principal_of(&settings, flat).await.unwrap(), "umbrella flat user:alice Project");
    let shallow = json!({ "https://acme.example/tenant": "umbrella", "app": "text" });
    assert_eq!(principal_of(&settings, shallow).await.unwrap(), "umbrella - user:alice Project");
}

#[tokio::test]
async fn keys_that_are_for_something_else_are_not_used() {
    let signer = Signer::new("k", Algorithm::ES256);
    for (name, value) in [("use", json!("enc")), ("alg", json!("ES384")), ("key_ops", json!(["sign"]))] {
        let mut other = signer.jwk();
        other[name] = value;
        let good = Signer::new("good", Algorithm::ES256);
        let document = json!({ "keys": [other, { "kty": "EC", "crv": "secp256k1" }, 7, good.jwk()] });
        let (settings, _file) = with_file(&[JwtAlgorithm::Es256], &document);
        let authenticator = open(&settings).await;
        assert!(is_invalid(&ask(&authenticator, &signer.sign(&claims(json!({})))).await), "{name}");
        assert!(ask(&authenticator, &good.sign(&claims(json!({})))).await.is_ok());
    }
}

#[tokio::test]
async fn settings_that_could_not_work_or_would_not_be_safe_are_refused() {
    let url = JwtKeys::Url("http://127.0.0.1:1/keys".into());
    let wrong = [
        jwt(&[], JwtKeys::Secret(SECRET.into())),
        jwt(&[JwtAlgorithm::Hs256], JwtKeys::Secret(vec![])),
        jwt(&[JwtAlgorithm::Hs256, JwtAlgorithm::Rs256], JwtKeys::Secret(SECRET.into())),
        jwt(&[JwtAlgorithm::Rs256], JwtKeys::File("no/such/file".into())),
        jwt(&[JwtAlgorithm::Hs256], url.clone()),
        jwt(&[JwtAlgorithm::Rs256], JwtKeys::Url("ftp://127.0.0.1/keys".into())),
        jwt(&[JwtAlgorithm::Rs256], JwtKeys::Url("http://user@127.0.0.1/keys".into())),
        Jwt { leeway: Duration::from_secs(86_400), ..jwt(&[JwtAlgorithm::Rs256], url) },
    ];
    for jwt in wrong {
        let opened = Authenticator::open(&with_jwt(jwt.clone()), Memory::open(Options::default())).await;
        assert_eq!(opened.unwrap_err().kind(), hapax_core::Kind::Invalid, "{jwt:?}");
    }
    for document in [json!({ "keys": [] }), json!([]), json!({})] {
        let (settings, _file) = with_file(&[JwtAlgorithm::Es256], &document);
        assert!(Authenticator::open(&settings, Memory::open(Options::default())).await.is_err());
    }
}

#[test]
fn a_principal_reaches_its_project_and_no_level_beyond_its_own_a6() {
    let principal = |project: Option<&str>, level| Principal {
        tenant: hapax_core::Tenant::new("acme").unwrap(),
        project: project.map(|name| hapax_core::Project::new(name).unwrap()),
        subject: hapax_core::Subject::from_credential_text("user:alice").unwrap(),
        level,
    };
    let reach = |principal: &Principal| {
        [Level::Project, Level::Tenant, Level::Platform].map(|level| {
            principal.scope(level).map_or("-".into(), |scope| scope.project().unwrap().as_str().to_owned())
        })
    };
    assert_eq!(reach(&principal(Some("web"), Level::Project)), ["web", "-", "-"]);
    assert_eq!(reach(&principal(None, Level::Project)), ["-", "-", "-"]);
    assert_eq!(reach(&principal(None, Level::Tenant)), ["-", "_tenant", "-"]);
    assert_eq!(reach(&principal(Some("web"), Level::Platform)), ["web", "_tenant", "_platform"]);
}

//! The one `Authorization` line: what is missing, malformed or too much is refused before anybody looks at it.

use hapax_tower::Problem;
use http::HeaderValue;
use proptest::prelude::*;

use super::*;

#[tokio::test]
async fn no_credential_is_missing_and_not_invalid_a6() {
    let authenticator = open(&with_secret()).await;
    let refusal = authenticator.authenticate(&head(|request| request), STRANGER).await;
    assert_eq!(refusal, Err(AuthError::Missing));
}

#[tokio::test]
async fn two_credentials_are_refused_even_if_both_are_valid() {
    let authenticator = open(&with_secret()).await;
    let line = format!("Bearer {}", signed_with_secret(&claims(json!({}))));
    let one = head(|request| request.header("authorization", &line));
    assert!(authenticator.authenticate(&one, STRANGER).await.is_ok());
    let two = head(|request| request.header("authorization", &line).header("authorization", &line));
    assert!(is_invalid(&authenticator.authenticate(&two, STRANGER).await));
}

#[tokio::test]
async fn the_scheme_is_bearer_in_any_case() {
    let authenticator = open(&with_secret()).await;
    let token = signed_with_secret(&claims(json!({})));
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let head = head(|request| request.header("authorization", format!("{scheme} {token}")));
        assert!(authenticator.authenticate(&head, STRANGER).await.is_ok(), "{scheme}");
    }
}

#[tokio::test]
async fn what_is_no_bearer_credential_is_refused() {
    let authenticator = open(&with_secret()).await;
    let token = signed_with_secret(&claims(json!({})));
    let lines = [
        String::new(),
        "Bearer".into(),
        "Bearer ".into(),
        token.clone(),
        format!("Basic {token}"),
        format!("Bearer\t{token}"),
        format!("Bearer {token} {token}"),
        format!("Bearer {token},{token}"),
        format!("Bearer \"{token}\""),
        format!("Bearer {}", "a".repeat(8 * 1024 + 1)),
        format!("Bearer {}.{}.c", "a".repeat(2000), "b".repeat(2000)),
        "Bearer eyJhbGciOiJub25lIn0.e30.".into(),
        "Bearer ...".into(),
        "Bearer hpx_".into(),
    ];
    for line in lines {
        let head = head(|request| request.header("authorization", &line));
        assert!(is_invalid(&authenticator.authenticate(&head, STRANGER).await), "{line}");
    }
    let mut head = bearer(&token);
    head.headers.insert("authorization", HeaderValue::from_bytes(b"Bearer \xc3\xa4").unwrap());
    assert!(is_invalid(&authenticator.authenticate(&head, STRANGER).await));
}

#[tokio::test]
async fn without_any_method_nobody_comes_in() {
    let authenticator = open(&Auth::default()).await;
    assert!(is_invalid(&ask(&authenticator, &signed_with_secret(&claims(json!({})))).await));
    assert!(is_invalid(&ask(&authenticator, "hpx_0123456789abcdef_").await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_share_what_is_known() {
    let authenticator = std::sync::Arc::new(open(&with_secret()).await);
    let asking = (0..64).map(|number| {
        let authenticator = std::sync::Arc::clone(&authenticator);
        let token = signed_with_secret(&claims(json!({ "sub": format!("user-{}", number % 8) })));
        tokio::spawn(async move { (number, ask(&authenticator, &token).await) })
    });
    for asked in futures_util::future::join_all(asking).await {
        let (number, principal) = asked.unwrap();
        assert_eq!(principal.unwrap().subject.as_str(), format!("user:user-{}", number % 8));
    }
}

#[test]
fn a_refusal_tells_a_stranger_nothing_but_what_to_do_h1() {
    let refusals = [
        AuthError::Missing,
        AuthError::Invalid("the secret detail".into()),
        AuthError::Unavailable("the secret detail".into()),
        AuthError::Unreachable("the secret detail".into()),
    ];
    let codes = ["unauthenticated", "unauthenticated", "ledger-unavailable", "upstream-unreachable"];
    for ((refusal, status), code) in refusals.iter().zip([401, 401, 503, 502]).zip(codes) {
        assert_eq!(Problem::from(refusal).code().as_str(), code);
        let response = Problem::from(refusal).response("/errors/");
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(response.headers().contains_key("www-authenticate"), status == 401);
        assert_eq!(response.headers().contains_key("retry-after"), status == 503);
        let shown = format!("{refusal} {:?} {:?}", response.headers(), response.body());
        assert!(!shown.contains("secret"), "{shown}");
    }
}

proptest! {
    #[test]
    fn no_bytes_whatever_pass_for_a_credential(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let Ok(value) = HeaderValue::from_bytes(&bytes) else { return Ok(()) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let refused = runtime.block_on(async {
            let authenticator = open(&Auth { api_keys: true, ..with_secret() }).await;
            let mut head = head(|request| request);
            head.headers.insert("authorization", value);
            authenticator.authenticate(&head, STRANGER).await
        });
        prop_assert!(is_invalid(&refused));
    }
}

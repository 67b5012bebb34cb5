//! Keys at a JWKS URL (A1): fetched when needed, seldom, once for many, and kept while the issuer is away.

use hapax_testkit::raw::{PATIENCE, until};

use super::outside::Outside;
use super::*;

const PAUSE: Duration = Duration::from_secs(5);

fn settings(service: &Outside) -> Auth {
    with_jwt(jwt(&[JwtAlgorithm::Es256], JwtKeys::Url(service.url())))
}

/// A token that was not seen before.
fn token(signer: &Signer) -> String {
    static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    signer.sign(&claims(json!({ "sub": format!("user-{number}") })))
}

#[tokio::test]
async fn keys_are_fetched_once_and_an_unknown_one_is_looked_for_a1() {
    let (old, new) = (Signer::new("old", Algorithm::ES256), Signer::new("new", Algorithm::ES256));
    let service = Outside::start().await;
    service.say(200, jwks(&[&old]));
    let authenticator = open(&settings(&service)).await;
    for _ in 0..3 {
        assert!(ask(&authenticator, &token(&old)).await.is_ok());
    }
    assert_eq!(service.asked(), 1);
    service.say(200, jwks(&[&new]));
    later(PAUSE).await;
    assert!(ask(&authenticator, &token(&new)).await.is_ok());
    assert!(is_invalid(&ask(&authenticator, &token(&old)).await), "it is not published any more");
    assert_eq!(service.asked(), 2);
}

#[tokio::test]
async fn tokens_that_name_unknown_keys_do_not_make_us_ask_more_often_a1() {
    let (known, unknown) = (Signer::new("a", Algorithm::ES256), Signer::new("b", Algorithm::ES256));
    let service = Outside::start().await;
    service.say(200, jwks(&[&known]));
    let authenticator = open(&settings(&service)).await;
    later(PAUSE).await;
    service.take(Duration::from_millis(50));
    let tokens: Vec<_> = (0..50).map(|_| token(&unknown)).collect();
    let asking = tokens.iter().map(|token| ask(&authenticator, token));
    let refused = futures_util::future::join_all(asking).await;
    assert!(refused.iter().all(is_invalid), "{refused:?}");
    assert_eq!(service.asked(), 2, "once at the start, once for all of them");
    assert!(ask(&authenticator, &token(&known)).await.is_ok());
}

#[tokio::test]
async fn an_issuer_that_is_away_at_the_start_is_no_error_and_found_later_a1() {
    let signer = Signer::new("a", Algorithm::ES256);
    let service = Outside::start().await;
    service.say(500, "");
    let authenticator = open(&settings(&service)).await;
    assert!(is_unreachable(&ask(&authenticator, &token(&signer)).await));
    assert_eq!(service.asked(), 1, "not again at once");
    service.say(200, jwks(&[&signer]));
    assert!(is_unreachable(&ask(&authenticator, &token(&signer)).await));
    later(PAUSE).await;
    assert!(ask(&authenticator, &token(&signer)).await.is_ok());
}

#[tokio::test]
async fn keys_are_kept_for_a_day_while_the_issuer_is_away_a1() {
    let (known, unknown) = (Signer::new("a", Algorithm::ES256), Signer::new("b", Algorithm::ES256));
    let service = Outside::start().await;
    service.say(200, jwks(&[&known]));
    let authenticator = open(&settings(&service)).await;
    for (status, body) in
        [(500, String::new()), (200, "not JSON".into()), (200, "x".repeat(300 << 10)), (302, String::new())]
    {
        service.say(status, body);
        later(Duration::from_secs(6 * 60)).await;
        assert!(ask(&authenticator, &token(&known)).await.is_ok());
        let refused = ask(&authenticator, &token(&unknown)).await;
        assert!(is_unreachable(&refused), "its key may be a new one: {refused:?}");
    }
    later(Duration::from_secs(24 * 60 * 60)).await;
    assert!(is_unreachable(&ask(&authenticator, &token(&known)).await));
}

#[tokio::test]
async fn a_withdrawn_key_is_no_longer_believed_within_minutes_a1() {
    let (withdrawn, other) = (Signer::new("a", Algorithm::ES256), Signer::new("b", Algorithm::ES256));
    let service = Outside::start().await;
    service.say(200, jwks(&[&withdrawn, &other]));
    let authenticator = open(&settings(&service)).await;
    let remembered = token(&withdrawn);
    assert!(ask(&authenticator, &remembered).await.is_ok());
    service.say(200, jwks(&[&other]));
    later(Duration::from_secs(5 * 60)).await;
    // The first one finds the keys old, and does not wait for new ones.
    assert!(ask(&authenticator, &token(&withdrawn)).await.is_ok());
    let refused = async {
        while !is_invalid(&ask(&authenticator, &token(&withdrawn)).await) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, refused).await.expect("the new keys are used");
    assert!(is_invalid(&ask(&authenticator, &remembered).await), "it was remembered for a minute only");
    assert!(ask(&authenticator, &token(&other)).await.is_ok());
}

#[tokio::test]
async fn a_caller_that_hangs_up_does_not_stop_the_fetch() {
    let signer = Signer::new("a", Algorithm::ES256);
    let service = Outside::start().await;
    service.say(500, "");
    let authenticator = open(&settings(&service)).await;
    service.say(200, jwks(&[&signer]));
    let held = service.hold().await;
    later(PAUSE).await;
    let token = token(&signer);
    tokio::select! {
        answered = ask(&authenticator, &token) => panic!("nobody has the key yet: {answered:?}"),
        () = until("the key is asked for", || service.asked() == 2) => {}
    }
    drop(held);
    assert!(ask(&authenticator, &token).await.is_ok());
    assert_eq!(service.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_issuer_that_never_answers_is_not_waited_for_a1() {
    let signer = Signer::new("a", Algorithm::ES256);
    let service = Outside::start().await;
    service.take(Duration::from_secs(3600));
    let began = tokio::time::Instant::now();
    let authenticator = open(&settings(&service)).await;
    assert!(is_unreachable(&ask(&authenticator, &token(&signer)).await));
    assert!(began.elapsed() <= Duration::from_secs(6), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_secret_at_a_url_is_none_a1() {
    let signer = Signer::new("a", Algorithm::ES256);
    let secret = json!({ "kty": "oct", "kid": "s", "k": "c2VjcmV0" });
    let service = Outside::start().await;
    service.say(200, json!({ "keys": [secret, signer.jwk()] }));
    let authenticator = open(&settings(&service)).await;
    let header = Header { kid: Some("s".into()), ..Header::new(Algorithm::HS256) };
    let forged =
        jsonwebtoken::encode(&header, &claims(json!({})), &EncodingKey::from_secret(b"secret")).unwrap();
    assert!(is_invalid(&ask(&authenticator, &forged).await));
    assert!(ask(&authenticator, &token(&signer)).await.is_ok());
}

#[tokio::test]
async fn a_reload_keeps_fetched_keys_and_forgets_who_was_remembered_p5() {
    let signer = Signer::new("a", Algorithm::ES256);
    let service = Outside::start().await;
    service.say(200, jwks(&[&signer]));
    let authenticator = open(&settings(&service)).await;
    let token = token(&signer);
    assert!(ask(&authenticator, &token).await.is_ok());
    service.say(500, "");
    let mut changed = settings(&service);
    let authenticator = authenticator.reopen(&changed).await.unwrap();
    assert!(ask(&authenticator, &token).await.is_ok());
    changed.jwt.as_mut().unwrap().audience = Some("other".into());
    let authenticator = authenticator.reopen(&changed).await.unwrap();
    assert!(is_invalid(&ask(&authenticator, &token).await));
    assert_eq!(service.asked(), 1);
}

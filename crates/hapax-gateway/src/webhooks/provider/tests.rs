//! Each provider against vectors of its sender, and against every bit flip of what is shown and signed (W2, W3).

use hapax_tower::IdentifierPlace;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::*;

const NOW: u64 = 1_800_000_000;

/// A delivery that can be spoiled.
#[derive(Clone)]
struct Sent {
    headers: Vec<(&'static str, Vec<u8>)>,
    body: Vec<u8>,
    target: Vec<u8>,
}

impl Sent {
    fn new(headers: &[(&'static str, String)], body: &str) -> Self {
        let headers = headers.iter().map(|(name, value)| (*name, value.clone().into_bytes())).collect();
        Sent { headers, body: body.into(), target: b"/webhooks/x/wh_1".to_vec() }
    }

    fn at(self, target: &str) -> Self {
        Sent { target: target.into(), ..self }
    }

    fn with<T>(&self, look: impl FnOnce(&Delivery<'_>) -> T) -> Option<T> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).ok()?);
        }
        let target = std::str::from_utf8(&self.target).ok()?;
        let origin = Some("https://hooks.example");
        Some(look(&Delivery { headers: &headers, body: &self.body, origin, target }))
    }

    fn verified(&self, provider: &dyn Provider, secret: &str) -> Option<Result<(), Refused>> {
        self.with(|delivery| provider.verify(delivery, &[Secret::new(secret)], NOW))
    }

    fn identifier(&self, provider: &dyn Provider) -> Result<String, Refused> {
        self.with(|delivery| provider.identifier(delivery)).expect("a readable delivery")
    }

    /// Every delivery that differs in one bit of a signed header, the body or the target.
    fn spoiled(&self, signed: &[&str]) -> Vec<Sent> {
        let mut all = Vec::new();
        let flips = |length: usize| (0..length).flat_map(|byte| (0..8).map(move |bit| (byte, 1_u8 << bit)));
        for (index, (name, value)) in self.headers.iter().enumerate() {
            for (byte, bit) in flips(value.len()).filter(|_| signed.contains(name)) {
                let mut sent = self.clone();
                sent.headers[index].1[byte] ^= bit;
                all.push(sent);
            }
        }
        for (byte, bit) in flips(self.body.len()) {
            let mut sent = self.clone();
            sent.body[byte] ^= bit;
            all.push(sent);
        }
        all
    }
}

fn mac(algorithm: hmac::Algorithm, secret: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(algorithm, secret), text.as_bytes()).as_ref().to_vec()
}

fn sha256(secret: &str, text: &str) -> Vec<u8> {
    mac(hmac::HMAC_SHA256, secret.as_bytes(), text)
}

/// The delivery holds, and no spoiled one does.
fn holds_whole_only(provider: &dyn Provider, sent: &Sent, secret: &str, signed: &[&str]) {
    assert_eq!(sent.verified(provider, secret), Some(Ok(())));
    assert!(matches!(sent.verified(provider, "another"), Some(Err(Refused::Signature(_)))));
    assert!(matches!(sent.verified(provider, ""), Some(Err(Refused::Signature(_)))), "an empty secret");
    // A form whose fields are the same says the same, however it is encoded.
    let fields = |sent: &Sent| form_urlencoded::parse(&sent.body).into_owned().collect::<Vec<_>>();
    let is_form = provider.signs_url() && sent.body.contains(&b'=');
    let says_the_same =
        |other: &Sent| is_form && other.headers == sent.headers && fields(other) == fields(sent);
    let spoiled: Vec<Sent> = sent.spoiled(signed).into_iter().filter(|other| !says_the_same(other)).collect();
    assert!(spoiled.len() > 100, "{}", spoiled.len());
    for spoiled in spoiled {
        // A header that no client could send is none that is accepted.
        let verified = spoiled.verified(provider, secret).unwrap_or(Err(Refused::Signature("unreadable")));
        assert!(
            matches!(verified, Err(Refused::Signature(_))),
            "{:?} {:?}",
            spoiled.headers.iter().map(|(_, value)| String::from_utf8_lossy(value)).collect::<Vec<_>>(),
            String::from_utf8_lossy(&spoiled.body)
        );
    }
}

fn stripe(time: u64, secret: &str, body: &str) -> Sent {
    let signature = hex(&sha256(secret, &format!("{time}.{body}")));
    Sent::new(&[("stripe-signature", format!("t={time},v1={signature}"))], body)
}

#[test]
fn stripes_signature_is_over_time_and_body_w2() {
    let sent = stripe(NOW, "whsec_a", "{\"id\":\"evt_1\",\"n\":1}");
    holds_whole_only(&Stripe, &sent, "whsec_a", &["stripe-signature"]);
    assert_eq!(sent.identifier(&Stripe), Ok("evt_1".into()));
}

#[test]
fn a_stripe_signature_is_believed_for_five_minutes_both_ways_w3() {
    for (time, holds) in [(NOW - 300, true), (NOW - 301, false), (NOW + 300, true), (NOW + 301, false)] {
        assert_eq!(stripe(time, "s", "{}").verified(&Stripe, "s").unwrap().is_ok(), holds, "{time}");
    }
}

#[test]
fn any_v1_of_stripe_counts_and_v0_never_does_w2() {
    let right = hex(&sha256("s", &format!("{NOW}.{{}}")));
    let shown = |text: String| Sent::new(&[("stripe-signature", text)], "{}").verified(&Stripe, "s").unwrap();
    assert_eq!(shown(format!("t={NOW},v1=00,v1={right}")), Ok(()));
    for wrong in [
        format!("t={NOW},v0={right}"),
        format!("t={NOW}"),
        format!("v1={right}"),
        format!("t={NOW},t={NOW},v1={right}"),
        format!("t={NOW},v1={}", right.to_uppercase()),
        format!("t=+{NOW},v1={right}"),
        String::new(),
    ] {
        assert!(matches!(shown(wrong.clone()), Err(Refused::Signature(_))), "{wrong}");
    }
}

#[test]
fn githubs_documented_example_holds_w2() {
    let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let headers =
        [("x-hub-signature-256", signature.to_owned()), ("x-github-delivery", "72d3162e-cc78".to_owned())];
    let sent = Sent::new(&headers, "Hello, World!");
    holds_whole_only(&GitHub, &sent, "It's a Secret to Everybody", &["x-hub-signature-256"]);
    assert_eq!(sent.identifier(&GitHub), Ok("72d3162e-cc78".into()));
    let sha1 = hex(&mac(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, b"s", "x"));
    let old = Sent::new(&[("x-hub-signature", format!("sha1={sha1}"))], "x");
    assert!(matches!(old.verified(&GitHub, "s"), Some(Err(Refused::Signature(_)))), "the SHA-1 header");
}

#[test]
fn shopifys_signature_is_over_the_body_and_its_topic_is_the_kind_w2() {
    let body = "{\"id\":820982911946154508}";
    let headers = [
        ("x-shopify-hmac-sha256", STANDARD.encode(sha256("hush", body))),
        ("x-shopify-event-id", "98880550-7158-44d4-b7cd-2c97c8a091b5".to_owned()),
    ];
    let sent = Sent::new(&headers, body);
    holds_whole_only(&Shopify, &sent, "hush", &["x-shopify-hmac-sha256"]);
    assert_eq!(sent.identifier(&Shopify), Ok("98880550-7158-44d4-b7cd-2c97c8a091b5".into()));
    assert_eq!(Shopify.kind_header(), Some("x-shopify-topic"));
}

fn slack(body: &str) -> Sent {
    let signature = hex(&sha256("8f742231b10e8888abcd99yyyzzz85a5", &format!("v0:{NOW}:{body}")));
    let headers =
        [("x-slack-request-timestamp", NOW.to_string()), ("x-slack-signature", format!("v0={signature}"))];
    Sent::new(&headers, body)
}

#[test]
fn slacks_signature_is_over_version_time_and_body_w2() {
    let sent = slack("{\"event_id\":\"Ev08MFMKH6\",\"type\":\"event_callback\"}");
    let signed = ["x-slack-signature", "x-slack-request-timestamp"];
    holds_whole_only(&Slack, &sent, "8f742231b10e8888abcd99yyyzzz85a5", &signed);
    assert_eq!(sent.identifier(&Slack), Ok("Ev08MFMKH6".into()));
    assert_eq!(sent.with(|delivery| Slack.challenge(delivery)), Some(None));
    let asks = slack("{\"type\":\"url_verification\",\"challenge\":\"3eZbrw1aB\",\"token\":\"x\"}");
    assert_eq!(asks.with(|delivery| Slack.challenge(delivery)), Some(Some("3eZbrw1aB".into())));
}

#[test]
fn standard_webhooks_and_svix_sign_id_time_and_body_w2() {
    // The example of the specification, with the time moved.
    let secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    let key = STANDARD.decode("C2FVsBQIhrscChlQIMV+b5sSYspob7oD").unwrap();
    let body = "{\"event_type\":\"ping\"}";
    let signature = |id: &str| {
        let mac = mac(hmac::HMAC_SHA256, &key, &format!("{id}.{NOW}.{body}"));
        format!("v1,{}", STANDARD.encode(mac))
    };
    for names in [
        ["webhook-id", "webhook-timestamp", "webhook-signature"],
        ["svix-id", "svix-timestamp", "svix-signature"],
    ] {
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let headers = [(names[0], id.to_owned()), (names[1], NOW.to_string()), (names[2], signature(id))];
        let sent = Sent::new(&headers, body);
        holds_whole_only(&Standard, &sent, secret, &names);
        assert_eq!(sent.identifier(&Standard), Ok(id.into()));
        let listed = [
            headers[0].clone(),
            headers[1].clone(),
            (names[2], format!("v1a,abc v1,AAAA {}", signature(id))),
        ];
        assert_eq!(Sent::new(&listed, body).verified(&Standard, secret), Some(Ok(())), "several signatures");
    }
    let both = [
        ("webhook-id", "a".to_owned()),
        ("webhook-timestamp", NOW.to_string()),
        ("webhook-signature", signature("a")),
        ("svix-signature", signature("a")),
    ];
    assert!(matches!(Sent::new(&both, body).verified(&Standard, secret), Some(Err(Refused::Signature(_)))));
    assert!(Standard.check_secret(&Secret::new("whsec_short")).is_err());
    assert!(Standard.check_secret(&Standard.make_secret().unwrap()).is_ok());
}

/// A form of a call.
const TWILIO_BODY: &str =
    "CallSid=CA1234567890ABCDE&Caller=%2B14158675310&Digits=1234&From=%2B14158675310&To=%2B18005551212";

fn twilio(url: &str, fields: &str) -> String {
    STANDARD.encode(mac(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, b"12345", &format!("{url}{fields}")))
}

#[test]
fn twilio_signs_the_public_url_and_the_sorted_fields_of_the_form_w2() {
    let fields = "CallSidCA1234567890ABCDECaller+14158675310Digits1234From+14158675310To+18005551212";
    let target = "/myapp.php?foo=1&bar=2";
    let headers = |url: &str| [("x-twilio-signature", twilio(url, fields))];
    let url = format!("https://hooks.example{target}");
    let sent = Sent::new(&headers(&url), TWILIO_BODY).at(target);
    holds_whole_only(&Twilio { sha256: false }, &sent, "12345", &["x-twilio-signature"]);
    let with_port = format!("https://hooks.example:443{target}");
    let sent = Sent::new(&headers(&with_port), TWILIO_BODY).at(target);
    assert_eq!(sent.verified(&Twilio { sha256: false }, "12345"), Some(Ok(())), "with the port");
    // Another target than the signed one.
    let elsewhere = Sent::new(&headers(&url), TWILIO_BODY).at("/myapp.php?foo=1&bar=3");
    assert!(matches!(
        elsewhere.verified(&Twilio { sha256: false }, "12345"),
        Some(Err(Refused::Signature(_)))
    ));
    // The other algorithm counts only where the webhook says so.
    let newer = [("x-twilio-signature", STANDARD.encode(sha256("12345", &format!("{url}{fields}"))))];
    let sent = Sent::new(&newer, TWILIO_BODY).at(target);
    assert_eq!(sent.verified(&Twilio { sha256: true }, "12345"), Some(Ok(())));
    assert!(matches!(sent.verified(&Twilio { sha256: false }, "12345"), Some(Err(Refused::Signature(_)))));
}

#[test]
fn twilios_documented_example_holds_w2() {
    let body =
        "CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212";
    let headers = HeaderMap::from_iter([(
        HeaderName::from_static("x-twilio-signature"),
        HeaderValue::from_static("RSOYDt4T1cUTdK1PDd93/VVr8B8="),
    )]);
    let verified = |target: &str| {
        let origin = Some("https://mycompany.com");
        let delivery = Delivery { headers: &headers, body: body.as_bytes(), origin, target };
        Twilio { sha256: false }.verify(&delivery, &[Secret::new("12345")], NOW)
    };
    assert_eq!(verified("/myapp.php?foo=1&bar=2"), Ok(()));
    assert!(matches!(verified("/myapp.php?foo=1"), Err(Refused::Signature(_))));
}

#[test]
fn twilio_may_sign_the_query_encoded_anew_and_fields_count_once_w2() {
    let (target, anew) = ("/a?x=a+b&y=%2f", "/a?x=a%20b&y=%2F");
    let signature = twilio(&format!("https://hooks.example{anew}"), "A1A2B");
    let sent = Sent::new(&[("x-twilio-signature", signature)], "B=&A=2&A=1&A=2").at(target);
    assert_eq!(sent.verified(&Twilio { sha256: false }, "12345"), Some(Ok(())));
}

#[test]
fn a_message_or_call_of_twilio_is_identified_by_what_changes_w2() {
    let named = |body: &str, token: Option<&str>| {
        let headers: Vec<_> =
            token.map(|token| ("i-twilio-idempotency-token", token.to_owned())).into_iter().collect();
        Sent::new(&headers, body).identifier(&Twilio { sha256: false })
    };
    assert_eq!(named("MessageSid=SM1&MessageStatus=sent", None), Ok("SM1.sent".into()));
    assert_eq!(named("MessageSid=SM1&SmsStatus=received", None), Ok("SM1.received".into()));
    assert_eq!(
        named("MessageSid=SM1&SmsStatus=sent&MessageStatus=delivered", None),
        Ok("SM1.delivered".into())
    );
    let progress = "CallSid=CA1&CallStatus=ringing&SequenceNumber=1&CallbackSource=call-progress-events";
    assert_eq!(named(progress, Some("t")), Ok("CA1.ringing.1".into()));
    assert_eq!(named("CallSid=CA1&CallStatus=in-progress&Digits=1", Some("t-7")), Ok("t-7".into()));
    for unnamed in [
        "",
        "MessageSid=SM1",
        "MessageSid=SM1&MessageSid=SM2&MessageStatus=sent",
        "CallSid=CA1&CallStatus=ringing",
        "CallSid=CA1&CallbackSource=call-progress-events&CallStatus=ringing",
    ] {
        assert!(matches!(named(unnamed, None), Err(Refused::Identifier(_))), "{unnamed}");
    }
}

#[test]
fn event_streams_bind_their_body_to_the_url_by_its_digest_w2() {
    let body = "[{\"type\":\"com.twilio.messaging.message.sent\"}]";
    let digest = hex(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, body.as_bytes()).as_ref());
    let target = format!("/webhooks/twilio-events/wh_1?bodySHA256={digest}");
    let signature = twilio(&format!("https://hooks.example{target}"), "");
    let headers = [("x-twilio-signature", signature), ("i-twilio-idempotency-token", "tok".to_owned())];
    let sent = Sent::new(&headers, body).at(&target);
    let events = TwilioEvents { sha256: false };
    holds_whole_only(&events, &sent, "12345", &["x-twilio-signature"]);
    assert_eq!(sent.identifier(&events), Ok("tok".into()));
    let unbound = "/webhooks/twilio-events/wh_1";
    let signature = twilio(&format!("https://hooks.example{unbound}"), "");
    let sent = Sent::new(&[("x-twilio-signature", signature)], body).at(unbound);
    assert!(matches!(sent.verified(&events, "12345"), Some(Err(Refused::Signature(_)))), "no digest");
}

#[test]
fn without_a_public_url_nothing_of_twilio_holds_w2() {
    let headers = HeaderMap::from_iter([(
        HeaderName::from_static("x-twilio-signature"),
        HeaderValue::from_str(&twilio("https://hooks.example/a", "")).unwrap(),
    )]);
    let delivery = Delivery { headers: &headers, body: b"", origin: None, target: "/a" };
    let verified = Twilio { sha256: false }.verify(&delivery, &[Secret::new("12345")], NOW);
    assert!(matches!(verified, Err(Refused::Signature(_))));
}

#[test]
fn a_declared_provider_signs_what_its_template_says_w2() {
    let generic = Generic {
        header: "x-acme-signature".into(),
        prefix: "v2=".into(),
        signed: "{timestamp}:{id}:{body}".into(),
        timestamp_header: Some("x-acme-time".into()),
        identifier: IdentifierPlace::Header("x-acme-id".into()),
        identifier_signed: true,
        ..Generic::default()
    };
    generic.check().unwrap();
    let signature = hex(&sha256("s", &format!("{NOW}:d-1:body {{id}}")));
    let headers = [
        ("x-acme-signature", format!("v2={signature}")),
        ("x-acme-time", NOW.to_string()),
        ("x-acme-id", "d-1".to_owned()),
    ];
    let sent = Sent::new(&headers, "body {id}");
    holds_whole_only(&generic, &sent, "s", &["x-acme-signature", "x-acme-time", "x-acme-id"]);
    assert_eq!(sent.identifier(&generic), Ok("d-1".into()));
}

#[test]
fn a_declared_provider_must_be_able_to_work_w2() {
    let good = Generic {
        header: "x-s".into(),
        identifier: IdentifierPlace::Header("x-id".into()),
        ..Generic::default()
    };
    good.check().unwrap();
    for bad in [
        Generic { signed: "{timestamp}".into(), ..good.clone() },
        Generic { signed: "{body}{body}".into(), ..good.clone() },
        Generic { signed: "{timestamp}.{body}".into(), ..good.clone() },
        Generic { timestamp_header: Some("x-t".into()), ..good.clone() },
        Generic { signed: "{id}{body}".into(), ..good.clone() },
        Generic { identifier_signed: true, ..good.clone() },
        Generic { identifier: IdentifierPlace::Form("id".into()), ..good },
    ] {
        assert!(bad.check().is_err(), "{bad:?}");
    }
}

#[test]
fn an_identifier_that_is_not_one_text_is_not_found_w2() {
    let deep = format!("{{\"id\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    for body in
        ["", "x", "{}", "{\"id\":7}", "{\"id\":\"a\",\"id\":\"b\"}", "[\"id\"]", "{\"id\":null}", &deep]
    {
        let found = Sent::new(&[], body).identifier(&Stripe);
        assert!(matches!(found, Err(Refused::Identifier(_))), "{body:.40}: {found:?}");
    }
    let two = [("x-github-delivery", "a".to_owned()), ("x-github-delivery", "b".to_owned())];
    assert!(matches!(Sent::new(&two, "").identifier(&GitHub), Err(Refused::Identifier(_))));
    assert!(matches!(Sent::new(&[], "").identifier(&GitHub), Err(Refused::Identifier(_))));
}

#[test]
fn every_built_in_provider_has_its_name_window_and_wait_w6_w9() {
    for name in BUILT_IN {
        assert!(built_in(name, false).is_some(), "{name}");
    }
    let hours = |name| window(name).unwrap().as_secs() / 3600;
    assert_eq!(
        BUILT_IN.map(hours),
        [7 * 24, 4, 24, 75, 3 * 24, 24, 4],
        "github, shopify, slack, standard, stripe, twilio, twilio-events"
    );
    let waits = BUILT_IN.map(|name| built_in(name, false).unwrap().wait().as_millis());
    assert_eq!(waits, [9_000, 4_000, 2_500, 10_000, 10_000, 10_000, 10_000], "how long senders wait (W9)");
    assert!(built_in("acme", false).is_none() && window("acme").is_none());
}

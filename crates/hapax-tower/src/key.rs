//! What a request's key is, as its policy sees it (K1, K3, P1).
//!
//! A key stands in `Idempotency-Key` or in another place that the rule names. Headers are looked at first; a place in the
//! body is looked at by [`Keys::in_body`] once an intake has read it. The place makes no difference to what the key identifies.
//! Under the policy `REQUIRED_B` the sender's [identifier](crate::identifier) is the key, and no other place is looked at.

use std::borrow::Cow;

use hapax_core::json::{NotOneText, Pointer, text_at};
use hapax_core::key::is_tick;
use hapax_core::scope::parse_namespaced;
use hapax_core::{Grammar, HeaderKeyError, Key, Policy, Scope, Subject, Width};
use http::{HeaderMap, HeaderName};

use crate::answer::IDEMPOTENCY_KEY;
use crate::identifier::{IdentifierPlace, Untranslated};
use crate::problem::{Code, Problem};
use crate::request::Message;

/// Where the keys of a rule may stand, and what they consist of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// Places beside `Idempotency-Key`.
    pub places: Vec<KeyPlace>,
    /// What a key consists of (K2).
    pub grammar: Grammar,
    /// Where a sender's identifier stands, which is the key under the policy `REQUIRED_B` (P1).
    pub identifier: Option<IdentifierPlace>,
}

/// Where a key can stand in its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// In this header.
    Header(HeaderName),
    /// In a JSON body, at this pointer.
    Json(Pointer),
}

/// A key as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireKey {
    /// The key.
    pub key: Key,
    /// Where it stood.
    pub place: KeyPlace,
}

impl WireKey {
    /// A key that stood in this header.
    pub fn in_header(name: HeaderName, key: Key) -> Self {
        WireKey { key, place: KeyPlace::Header(name) }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A key of the caller.
    Key(WireKey),
    /// A key with its scope, from a peer that may speak for others (K3).
    Namespaced(Scope, Width, WireKey),
    /// No key in the headers, and none is needed there.
    None,
    /// A key that has no effect here, which the caller should be told.
    Ignored,
}

/// Whether a key is sent, of whatever form.
pub fn is_sent(headers: &HeaderMap) -> bool {
    headers.contains_key(IDEMPOTENCY_KEY)
}

/// Whether a key has no effect under this policy (P1).
pub fn ignores(policy: Policy, lenient: bool) -> bool {
    match policy {
        Policy::HandlerInternalC | Policy::RequiredB => true,
        Policy::Prohibited => lenient,
        Policy::RequiredA | Policy::Accepted => false,
    }
}

/// Finds the key in the headers of a request. `trusted` peers may send it with its namespace.
pub fn find(
    headers: &HeaderMap,
    policy: Policy,
    lenient: bool,
    keys: &Keys,
    trusted: bool,
) -> Result<Found, Problem> {
    // Also where a key has no effect: the request is none of a schedule's, and is not to look like one (K9). Where it has one, it is read
    // below, and refused there.
    let is_read = matches!(policy, Policy::RequiredA | Policy::Accepted);
    if !is_read && headers.get_all(IDEMPOTENCY_KEY).iter().any(|line| begins_as_tick(line.as_bytes())) {
        return Err(KeyPlace::Header(IDEMPOTENCY_KEY).refuse(HeaderKeyError::Reserved));
    }
    match policy {
        Policy::RequiredB => return keys.in_transport(headers),
        Policy::HandlerInternalC | Policy::Prohibited if !is_sent(headers) => return Ok(Found::None),
        _ if ignores(policy, lenient) => return Ok(Found::Ignored),
        Policy::Prohibited => return Err(Problem::new(Code::KeyProhibited)),
        Policy::RequiredA | Policy::Accepted | Policy::HandlerInternalC => {}
    }
    let mut found = in_header(headers, &IDEMPOTENCY_KEY, keys.grammar, trusted)?;
    for name in keys.headers() {
        found = agreed(found, in_header(headers, name, keys.grammar, trusted)?)?;
    }
    // What is not in the headers may be in the body.
    if found == Found::None && !keys.reads_body() {
        keys.demanded(policy)?;
    }
    Ok(found)
}

impl Keys {
    /// Keys in `Idempotency-Key` alone.
    pub fn plain() -> &'static Keys {
        static PLAIN: Keys = Keys { places: Vec::new(), grammar: Grammar::Plain, identifier: None };
        &PLAIN
    }

    /// The headers that a key may stand in beside `Idempotency-Key`.
    pub fn headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.places.iter().filter_map(|place| match place {
            KeyPlace::Header(name) => Some(name),
            KeyPlace::Json(_) => None,
        })
    }

    /// Whether a key may stand in the body, which must then be read to know it.
    pub fn reads_body(&self) -> bool {
        self.identifier.as_ref().is_some_and(IdentifierPlace::is_in_body)
            || self.places.iter().any(|place| matches!(place, KeyPlace::Json(_)))
    }

    /// The sender's identifier, if it stands in a header; one in the body is found by [`in_body`](Self::in_body).
    fn in_transport(&self, headers: &HeaderMap) -> Result<Found, Problem> {
        match &self.identifier {
            Some(place) if place.is_in_body() => Ok(Found::None),
            Some(place) => translated(place, headers, &[]).map(Found::Key),
            None => Err(Problem::new(Code::TranslationFailed)
                .detail("this route takes its key from the transport, and no place of one is configured")),
        }
    }

    /// Removes these headers, also where they are written so that a server takes them for the same: many read `_` as `-` (A5).
    pub fn remove_from(&self, headers: &mut HeaderMap) {
        for name in self.headers() {
            headers.remove(name);
            let is_disguised = |other: &&HeaderName| {
                other.as_str().contains('_')
                    && other.as_str().replace('_', "-") == name.as_str().replace('_', "-")
            };
            let disguised: Vec<HeaderName> = headers.keys().filter(is_disguised).cloned().collect();
            disguised.iter().for_each(|other| drop(headers.remove(other)));
        }
    }

    /// The key of a request whose body was read: the one that the headers had, or the one in the body, which must be the same
    /// where both are there. A body in which a place cannot be made out is refused, never taken for one without a key (K1).
    pub fn in_body(
        &self,
        policy: Policy,
        header: Option<WireKey>,
        message: &Message,
        max_content: usize,
    ) -> Result<Option<WireKey>, Problem> {
        let is_transport = policy == Policy::RequiredB;
        let body = message.content(max_content).ok_or_else(|| {
            Problem::new(if is_transport { Code::TranslationFailed } else { Code::KeyMalformed })
                .detail("the body has a Content-Encoding in which its key cannot be read")
        })?;
        if let Some(place) = self.identifier.as_ref().filter(|place| is_transport && place.is_in_body()) {
            return translated(place, &message.headers, body).map(Some);
        }
        let mut found = header;
        for pointer in self.places.iter().filter_map(|place| match place {
            KeyPlace::Json(pointer) => Some(pointer),
            KeyPlace::Header(_) => None,
        }) {
            let Some(also) = at_pointer(body, pointer, self.grammar)? else { continue };
            match &found {
                Some(found) if found.key != also.key => return Err(differ(&found.place, &also.place)),
                Some(_) => {}
                None => found = Some(also),
            }
        }
        if found.is_none() {
            self.demanded(policy)?;
        }
        Ok(found)
    }

    /// There is no key.
    fn demanded(&self, policy: Policy) -> Result<(), Problem> {
        if policy != Policy::RequiredA {
            return Ok(());
        }
        let places = match &self.places[..] {
            [] => "an Idempotency-Key header".to_owned(),
            places => places.iter().map(|place| place.shown()).collect::<Vec<_>>().join(" or "),
        };
        Err(Problem::new(Code::KeyMissing).detail(format!(
            "send {places} with a fresh random value, such as a UUID, and the same one with every retry"
        )))
    }
}

impl KeyPlace {
    /// As callers are told of it.
    fn shown(&self) -> Cow<'_, str> {
        match self {
            KeyPlace::Header(name) if *name == IDEMPOTENCY_KEY => "Idempotency-Key".into(),
            KeyPlace::Header(name) => name.as_str().into(),
            KeyPlace::Json(pointer) => format!("{pointer} in a JSON body").into(),
        }
    }

    fn refuse(&self, error: HeaderKeyError) -> Problem {
        let code = match error {
            HeaderKeyError::Reserved => Code::KeyReserved,
            HeaderKeyError::Duplicated => Code::KeyDuplicated,
            _ => Code::KeyMalformed,
        };
        Problem::new(code).of_key(error).detail(error.at(&self.shown()))
    }
}

/// The identifier of this place as the key. The service gets it in `Idempotency-Key`, like that of a delivery.
fn translated(place: &IdentifierPlace, headers: &HeaderMap, content: &[u8]) -> Result<WireKey, Problem> {
    let key = place.key(headers, content).map_err(|Untranslated(why)| {
        Problem::new(Code::TranslationFailed).detail(format!("{why}; it is looked for in {}", place.shown()))
    })?;
    Ok(WireKey::in_header(IDEMPOTENCY_KEY, key))
}

/// Whether a line of a header begins as the keys of ticks do, with quotes or without.
fn begins_as_tick(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    is_tick(line.strip_prefix(b"\"").unwrap_or(line))
}

fn in_header(
    headers: &HeaderMap,
    name: &HeaderName,
    grammar: Grammar,
    trusted: bool,
) -> Result<Found, Problem> {
    let mut lines = headers.get_all(name).iter();
    if trusted
        && let (Some(line), None) = (lines.next(), lines.next())
        && let Some(found) = line.to_str().ok().filter(|text| text.starts_with("t-"))
    {
        let (scope, width, key) = parse_namespaced(found)
            .map_err(|error| Problem::new(Code::KeyMalformed).detail(error.message()))?;
        // The edge in front lets none but the scheduler have the key of a tick; where the subject is dropped, that cannot be seen (K9).
        if is_tick(key.as_str().as_bytes())
            && scope.subject().is_some_and(|subject| *subject != Subject::scheduler())
        {
            return Err(KeyPlace::Header(name.clone()).refuse(HeaderKeyError::Reserved));
        }
        return Ok(Found::Namespaced(scope, width, WireKey::in_header(name.clone(), key)));
    }
    let lines = headers.get_all(name).iter().map(|line| line.as_bytes());
    match grammar.from_header_lines(lines) {
        Ok(Some(key)) => Ok(Found::Key(WireKey::in_header(name.clone(), key))),
        Ok(None) => Ok(Found::None),
        Err(error) => Err(KeyPlace::Header(name.clone()).refuse(error)),
    }
}

/// One key from two headers. A key that says whose it is counts for more than the same one that does not.
fn agreed(one: Found, other: Found) -> Result<Found, Problem> {
    match (&one, &other) {
        (Found::Namespaced(scope, width, key), Found::Namespaced(other_scope, other_width, other_key))
            if (scope, width) != (other_scope, other_width) =>
        {
            Err(differ(&key.place, &other_key.place))
        }
        (
            Found::Key(key) | Found::Namespaced(_, _, key),
            Found::Key(also) | Found::Namespaced(_, _, also),
        ) if key.key != also.key => Err(differ(&key.place, &also.place)),
        (Found::Key(_), Found::Namespaced(..)) | (Found::None, _) => Ok(other),
        _ => Ok(one),
    }
}

fn differ(one: &KeyPlace, other: &KeyPlace) -> Problem {
    let (one, other) = (one.shown(), other.shown());
    Problem::new(Code::KeyDuplicated)
        .detail(format!("{one} and {other} are different keys: send one key, or the same in both places"))
}

fn at_pointer(body: &[u8], pointer: &Pointer, grammar: Grammar) -> Result<Option<WireKey>, Problem> {
    if body.is_empty() {
        return Ok(None);
    }
    let malformed =
        |what: &str| Problem::new(Code::KeyMalformed).detail(format!("the key at {pointer} {what}"));
    let text = text_at(body, pointer).map_err(|reason| match reason {
        NotOneText::Unreadable => malformed("cannot be read: the body is not JSON"),
        NotOneText::DuplicateName => malformed("is ambiguous: a member on the way to it stands twice"),
        NotOneText::NotText => malformed("is not a string"),
    })?;
    let Some(text) = text else { return Ok(None) };
    let place = KeyPlace::Json(pointer.clone());
    match grammar.from_text(text.as_bytes()) {
        Ok(key) => Ok(Some(WireKey { key, place })),
        Err(error) => Err(place.refuse(error)),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(lines: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        headers
    }

    fn code(lines: &[&str], policy: Policy) -> Option<Code> {
        find(&headers(lines), policy, false, Keys::plain(), false).err().map(|problem| problem.code())
    }

    #[test]
    fn each_policy_has_its_answer_to_each_kind_of_key_p1() {
        use Policy::*;
        let key = Ok(Found::Key(WireKey::in_header(IDEMPOTENCY_KEY, Key::new("abc").unwrap())));
        for policy in [RequiredA, Accepted] {
            assert_eq!(
                find(&headers(&["abc"]), policy, false, Keys::plain(), false).map_err(|_| ()),
                key.clone().map_err(|_: ()| ())
            );
            assert_eq!(
                find(&headers(&["\"abc\""]), policy, false, Keys::plain(), false).map_err(|_| ()),
                key.clone().map_err(|_: ()| ())
            );
            for bad in ["", "a b", "ä", "a:b", "...", "\"abc"] {
                assert_eq!(code(&[bad], policy), Some(Code::KeyMalformed), "{bad:?}");
            }
            assert_eq!(code(&[&"a".repeat(256)], policy), Some(Code::KeyMalformed));
            assert_eq!(code(&["abc", "abc"], policy), Some(Code::KeyDuplicated));
            assert_eq!(code(&["t-acme:web:user:a:k"], policy), Some(Code::KeyReserved));
            assert_eq!(code(&["t-acme"], policy), Some(Code::KeyReserved));
        }
        assert_eq!(code(&[], RequiredA), Some(Code::KeyMissing));
        for lines in [&[][..], &["abc"], &["a", "b"]] {
            assert_eq!(code(lines, RequiredB), Some(Code::TranslationFailed), "no place is configured");
        }
        assert_eq!(code(&[], Accepted), None);
        assert_eq!(code(&["a b"], HandlerInternalC), None);
        assert_eq!(
            find(&headers(&[]), HandlerInternalC, false, Keys::plain(), false).ok(),
            Some(Found::None)
        );
        assert_eq!(
            find(&headers(&["a b"]), HandlerInternalC, false, Keys::plain(), false).ok(),
            Some(Found::Ignored)
        );
        assert_eq!(code(&[], Prohibited), None);
        for lines in [&["abc"][..], &["a b"], &["a", "b"]] {
            assert_eq!(code(lines, Prohibited), Some(Code::KeyProhibited));
            assert_eq!(
                find(&headers(lines), Prohibited, true, Keys::plain(), false).ok(),
                Some(Found::Ignored)
            );
        }
    }

    #[test]
    fn only_a_trusted_peer_speaks_for_others_k3() {
        let text = "t-acme:web:user:alice:k-1";
        let found = find(&headers(&[text]), Policy::RequiredA, false, Keys::plain(), true).ok();
        let Some(Found::Namespaced(scope, Width::Subject, key)) = found else { panic!("{found:?}") };
        assert_eq!((scope.tenant().as_str(), key.key.as_str()), ("acme", "k-1"));
        assert!(find(&headers(&[text]), Policy::RequiredA, false, Keys::plain(), false).is_err());
        assert!(find(&headers(&[text, text]), Policy::RequiredA, false, Keys::plain(), true).is_err());
        assert!(find(&headers(&["t-acme"]), Policy::RequiredA, false, Keys::plain(), true).is_err());
    }

    #[test]
    fn only_the_scheduler_has_keys_of_ticks_behind_an_edge_k9() {
        let read =
            |text: &str, trusted| find(&headers(&[text]), Policy::RequiredA, false, Keys::plain(), trusted);
        let code = |text: &str, trusted| read(text, trusted).err().map(|problem| problem.code());
        for text in ["sched.a.1", "\"sched.a.1\"", "sched:a:1", "t-acme:web:user:alice:sched.a.1"] {
            for trusted in [false, true] {
                assert_eq!(code(text, trusted), Some(Code::KeyReserved), "{text} {trusted}");
            }
            // Where a key has no effect, one without a namespace is refused all the same.
            for (policy, lenient) in [
                (Policy::HandlerInternalC, false),
                (Policy::Prohibited, false),
                (Policy::Prohibited, true),
                (Policy::RequiredB, false),
            ] {
                let found = find(&headers(&[text]), policy, lenient, Keys::plain(), false);
                let code = found.err().map(|problem| problem.code());
                assert_eq!(code == Some(Code::KeyReserved), !text.starts_with("t-"), "{text} {policy:?}");
            }
        }
        for text in ["t-acme:web:service:scheduler:sched.a.1", "t-acme:web:_any:sched.a.1"] {
            assert!(matches!(read(text, true), Ok(Found::Namespaced(..))), "{text}");
        }
    }

    const OTHER: HeaderName = HeaderName::from_static("x-idempotency-key");

    fn elsewhere() -> Keys {
        let pointer = |text: &str| KeyPlace::Json(Pointer::new(text).unwrap());
        let places = vec![KeyPlace::Header(OTHER), pointer("/key"), pointer("/meta/key")];
        Keys { places, ..Keys::default() }
    }

    fn message(headers: HeaderMap, body: &str) -> Message {
        Message::new(http::Method::POST, http::Uri::from_static("/"), headers, body.to_owned().into())
    }

    /// The key that a request with these headers and this body has, or why it is refused.
    fn read(lines: &[(HeaderName, &str)], body: &str, trusted: bool) -> Result<Option<String>, Code> {
        let headers: HeaderMap =
            lines.iter().map(|(name, text)| (name.clone(), text.parse().unwrap())).collect();
        let (keys, policy) = (elsewhere(), Policy::Accepted);
        let code = |problem: Problem| problem.code();
        let header = match find(&headers, policy, false, &keys, trusted).map_err(code)? {
            Found::Key(key) | Found::Namespaced(_, _, key) => Some(key),
            Found::None | Found::Ignored => None,
        };
        let found = keys.in_body(policy, header, &message(headers, body), 100).map_err(code)?;
        Ok(found.map(|found| found.key.as_str().to_owned()))
    }

    #[test]
    fn one_key_in_any_place_or_in_several_is_that_key_and_two_are_refused_k1() {
        let (own, key) = (IDEMPOTENCY_KEY, || Ok(Some("k".to_owned())));
        assert_eq!(read(&[(own.clone(), "k")], "", false), key());
        assert_eq!(read(&[(OTHER, "\"k\"")], "{}", false), key());
        assert_eq!(read(&[], r#"{"key": "k"}"#, false), key());
        assert_eq!(read(&[], r#"{"meta": {"key": "k"}}"#, false), key());
        let everywhere = r#"{"key": "k", "meta": {"key": "k"}}"#;
        assert_eq!(read(&[(own.clone(), "\"k\""), (OTHER, "k")], everywhere, false), key());
        assert_eq!(read(&[], "{}", false), Ok(None));
        assert_eq!(read(&[], "", false), Ok(None));
        let duplicated = Err(Code::KeyDuplicated);
        assert_eq!(read(&[(own.clone(), "k"), (OTHER, "j")], "", false), duplicated);
        assert_eq!(read(&[(own, "k")], r#"{"key": "j"}"#, false), duplicated);
        assert_eq!(read(&[(OTHER, "k")], r#"{"meta": {"key": "j"}}"#, false), duplicated);
        assert_eq!(read(&[], r#"{"key": "k", "meta": {"key": "j"}}"#, false), duplicated);
    }

    #[test]
    fn a_place_that_cannot_be_made_out_is_never_no_key_k1() {
        for body in [
            "not JSON",
            "{\"key\": 7}",
            "{\"key\": null}",
            "{\"key\": \"k\", \"key\": \"k\"}",
            "{\"key\": \"\"}",
        ] {
            assert_eq!(read(&[], body, false), Err(Code::KeyMalformed), "{body}");
            assert_eq!(read(&[(OTHER, "k")], body, false), Err(Code::KeyMalformed), "{body}");
        }
        assert_eq!(read(&[], "{\"key\": \"t-acme\"}", false), Err(Code::KeyReserved));
        assert_eq!(read(&[(OTHER, "")], "", false), Err(Code::KeyMalformed));
        let keys = elsewhere();
        assert_eq!(
            keys.in_body(Policy::RequiredA, None, &message(HeaderMap::new(), "{}"), 100).unwrap_err().code(),
            Code::KeyMissing
        );
        assert!(
            find(&HeaderMap::new(), Policy::RequiredA, false, &keys, false).is_ok(),
            "the body may have it"
        );
    }

    /// An edge writes its form into every header place and leaves the body as it came.
    #[test]
    fn a_layer_behind_an_edge_finds_one_key_in_all_places_k3() {
        let text = "t-acme:web:user:alice:k";
        let lines = [(IDEMPOTENCY_KEY, text), (OTHER, text)];
        assert_eq!(read(&lines, r#"{"key": "k"}"#, true), Ok(Some("k".into())));
        let other = [(IDEMPOTENCY_KEY, text), (OTHER, "t-acme:web:user:bob:k")];
        assert_eq!(read(&other, "", true), Err(Code::KeyDuplicated));
    }

    #[test]
    fn under_required_b_the_identifier_is_the_key_and_nothing_else_is_looked_at_p1() {
        let identifier = |place| Keys { identifier: Some(place), ..elsewhere() };
        let in_header = identifier(IdentifierPlace::Header("x-id".into()));
        let mut sent = headers(&["k"]);
        sent.insert(OTHER, HeaderValue::from_static("k2"));
        let find = |keys: &Keys, sent: &HeaderMap| find(sent, Policy::RequiredB, false, keys, true);
        assert_eq!(find(&in_header, &sent).map_err(|problem| problem.code()), Err(Code::TranslationFailed));
        sent.insert("x-id", HeaderValue::from_static("e-1"));
        let key = WireKey::in_header(IDEMPOTENCY_KEY, Key::new("e-1").unwrap());
        assert_eq!(find(&in_header, &sent).ok(), Some(Found::Key(key.clone())));
        let in_body = identifier(IdentifierPlace::Json(Pointer::new("/id").unwrap()));
        assert_eq!(find(&in_body, &sent).ok(), Some(Found::None), "the body is to be read");
        let found = |body: &str| {
            let found = in_body.in_body(Policy::RequiredB, None, &message(sent.clone(), body), 100);
            found.map_err(|problem| problem.code())
        };
        assert_eq!(found(r#"{"id": "e-1", "key": "k3"}"#), Ok(Some(key)));
        assert_eq!(found(r#"{"key": "k3"}"#), Err(Code::TranslationFailed));
    }

    #[test]
    fn a_header_place_is_removed_however_it_is_written_a5() {
        let mut headers = HeaderMap::new();
        for name in ["x-idempotency-key", "x_idempotency-key", "x_idempotency_key", "x-other_key"] {
            headers.append(name, HeaderValue::from_static("k"));
        }
        elsewhere().remove_from(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-other_key"]);
    }
}

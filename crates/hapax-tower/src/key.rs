//! What a request's key is, as its policy sees it (K1, K3, P1).

use hapax_core::key::from_header_lines;
use hapax_core::scope::parse_namespaced;
use hapax_core::{Key, Policy, Scope, Width};
use http::HeaderMap;

use crate::answer::IDEMPOTENCY_KEY;
use crate::problem::{Code, Problem};

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A key of the caller.
    Key(Key),
    /// A key with its scope, from a peer that may speak for others (K3).
    Namespaced(Scope, Width, Key),
    /// No key, and none is needed.
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
        Policy::HandlerInternalC => true,
        Policy::Prohibited => lenient,
        Policy::RequiredA | Policy::RequiredB | Policy::Accepted => false,
    }
}

/// Finds the key of a request. `trusted` peers may send it with its namespace.
pub fn find(headers: &HeaderMap, policy: Policy, lenient: bool, trusted: bool) -> Result<Found, Problem> {
    match policy {
        Policy::HandlerInternalC | Policy::Prohibited if !is_sent(headers) => return Ok(Found::None),
        _ if ignores(policy, lenient) => return Ok(Found::Ignored),
        Policy::Prohibited => return Err(Problem::new(Code::KeyProhibited)),
        Policy::RequiredB => {
            return Err(Problem::new(Code::TranslationFailed)
                .detail("this route takes its key from the transport, and there is none in this request"));
        }
        Policy::RequiredA | Policy::Accepted | Policy::HandlerInternalC => {}
    }
    let mut lines = headers.get_all(IDEMPOTENCY_KEY).iter();
    if trusted
        && let (Some(line), None) = (lines.next(), lines.next())
        && let Some(found) = line.to_str().ok().filter(|text| text.starts_with("t-"))
    {
        let (scope, width, key) = parse_namespaced(found)
            .map_err(|error| Problem::new(Code::KeyMalformed).detail(error.message()))?;
        return Ok(Found::Namespaced(scope, width, key));
    }
    let lines = headers.get_all(IDEMPOTENCY_KEY).iter().map(|line| line.as_bytes());
    match (from_header_lines(lines)?, policy) {
        (Some(key), _) => Ok(Found::Key(key)),
        (None, Policy::RequiredA) => Err(Problem::new(Code::KeyMissing)
            .detail("send an Idempotency-Key header with a fresh random value, such as a UUID, and the same one with every retry")),
        (None, _) => Ok(Found::None),
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
        find(&headers(lines), policy, false, false).err().map(|problem| problem.code())
    }

    #[test]
    fn each_policy_has_its_answer_to_each_kind_of_key_p1() {
        use Policy::*;
        let key = Ok(Found::Key(Key::new("abc").unwrap()));
        for policy in [RequiredA, Accepted] {
            assert_eq!(
                find(&headers(&["abc"]), policy, false, false).map_err(|_| ()),
                key.clone().map_err(|_: ()| ())
            );
            assert_eq!(
                find(&headers(&["\"abc\""]), policy, false, false).map_err(|_| ()),
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
        assert_eq!(code(&[], RequiredB), Some(Code::TranslationFailed));
        assert_eq!(code(&[], Accepted), None);
        assert_eq!(code(&["a b"], HandlerInternalC), None);
        assert_eq!(find(&headers(&[]), HandlerInternalC, false, false).ok(), Some(Found::None));
        assert_eq!(find(&headers(&["a b"]), HandlerInternalC, false, false).ok(), Some(Found::Ignored));
        assert_eq!(code(&[], Prohibited), None);
        for lines in [&["abc"][..], &["a b"], &["a", "b"]] {
            assert_eq!(code(lines, Prohibited), Some(Code::KeyProhibited));
            assert_eq!(find(&headers(lines), Prohibited, true, false).ok(), Some(Found::Ignored));
        }
    }

    #[test]
    fn only_a_trusted_peer_speaks_for_others_k3() {
        let text = "t-acme:web:user:alice:k-1";
        let found = find(&headers(&[text]), Policy::RequiredA, false, true).ok();
        let Some(Found::Namespaced(scope, Width::Subject, key)) = found else { panic!("{found:?}") };
        assert_eq!((scope.tenant().as_str(), key.as_str()), ("acme", "k-1"));
        assert!(find(&headers(&[text]), Policy::RequiredA, false, false).is_err());
        assert!(find(&headers(&[text, text]), Policy::RequiredA, false, true).is_err());
        assert!(find(&headers(&["t-acme"]), Policy::RequiredA, false, true).is_err());
    }
}

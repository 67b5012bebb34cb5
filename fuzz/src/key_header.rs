//! Lines of `Idempotency-Key`: whatever they are, a key that is found is one that can be written down and read back.

use hapax_core::key::from_header;
use hapax_core::scope::{namespaced, parse_namespaced};
use hapax_core::{Key, Policy, Scope, Width};
use hapax_tower::answer::IDEMPOTENCY_KEY;
use hapax_tower::key::Found;
use http::{HeaderMap, HeaderValue};

use crate::subject;

/// One field line for each line of the input.
pub fn key_header(input: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in input.split(|byte| *byte == b'\n') {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            headers.append(IDEMPOTENCY_KEY, value);
        }
    }
    let policies = [
        Policy::RequiredA,
        Policy::RequiredB,
        Policy::Accepted,
        Policy::Prohibited,
        Policy::HandlerInternalC,
    ];
    for policy in policies {
        for (lenient, trusted) in [(false, false), (true, false), (false, true)] {
            match subject::key(&headers, policy, lenient, trusted) {
                Ok(Found::Key(key)) => check_key(&key.key),
                Ok(Found::Namespaced(scope, width, key)) => {
                    assert!(trusted, "only a trusted peer speaks for others");
                    check_namespaced(&scope, width, &key.key);
                }
                Ok(Found::None | Found::Ignored) | Err(_) => {}
            }
        }
    }
}

/// A caller's key is the same bare, quoted, and behind its scope; and is nothing that only hapax may write.
fn check_key(key: &Key) {
    let text = key.as_str();
    assert!(!text.starts_with("t-"), "{text}");
    assert_eq!(Key::new(text).ok().as_ref(), Some(key));
    assert_eq!(from_header(text.as_bytes()).as_ref(), Ok(key));
    assert_eq!(from_header(format!("\"{text}\"").as_bytes()).as_ref(), Ok(key));
    check_namespaced(&Scope::local(), Width::Subject, key);
}

fn check_namespaced(scope: &Scope, width: Width, key: &Key) {
    let Ok(text) = namespaced(&scope.narrowed(width), key) else { return };
    let read = parse_namespaced(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let (whose, least, again) = read;
    assert_eq!((whose.narrowed(least), least, &again), (scope.narrowed(width), width, key), "{text}");
}

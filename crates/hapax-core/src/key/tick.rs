//! The keys of a schedule's ticks (K9): `sched.{schedule}.{unix_ms}`.
//!
//! A caller that could send such a key would take a tick's place. So they are read here alone, and only from requests that are signed
//! as a schedule's; whether one is, the edge finds out.

use super::{HeaderKeyError, Key, Malformation, plain};

/// How the key of a tick begins.
const PREFIX: &str = "sched.";
/// How some schedulers write it.
const WITH_COLONS: &str = "sched:";

/// Whether a text begins as the keys of ticks do. Only a request that is signed as a schedule's may have such a key (K9).
pub fn is_tick(text: &[u8]) -> bool {
    text.starts_with(PREFIX.as_bytes()) || text.starts_with(WITH_COLONS.as_bytes())
}

/// The key of a signed tick: `sched.{schedule}.{unix_ms}` as it is, `sched:{schedule}:{unix_ms}` rewritten to that (K9). Not for text
/// that is not signed.
pub fn of_tick(text: &str) -> Result<Key, HeaderKeyError> {
    if text.is_empty() {
        return Err(HeaderKeyError::Empty);
    }
    let rewritten = match text.strip_prefix(WITH_COLONS) {
        Some(rest) => {
            let at = WITH_COLONS.len();
            let Some((schedule, millis)) = rest.split_once(':') else {
                return Err(Malformation::BadCharacter { at: at - 1 }.into());
            };
            if schedule.is_empty() || millis.is_empty() || !millis.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(Malformation::BadCharacter { at: at + schedule.len() }.into());
            }
            format!("{PREFIX}{schedule}.{millis}")
        }
        None => text.to_owned(),
    };
    plain(rewritten.as_bytes())?;
    match rewritten.strip_prefix(PREFIX) {
        Some(rest) if !rest.is_empty() => Ok(Key(rewritten.into())),
        _ => Err(Malformation::BadCharacter { at: 0 }.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_colon_form_of_a_tick_is_the_same_key_and_no_other_text_is_one_k9() {
        let read = |text: &str| of_tick(text).ok().map(|key| key.as_str().to_owned());
        for (text, key) in [
            ("sched.nightly.1700000000000", "sched.nightly.1700000000000"),
            ("sched:nightly:1700000000000", "sched.nightly.1700000000000"),
            ("sched.nightly.now.7f", "sched.nightly.now.7f"),
        ] {
            assert_eq!(read(text).as_deref(), Some(key), "{text}");
        }
        let long = format!("sched.{}", "a".repeat(250));
        for bad in [
            "",
            "sched.",
            "sched:",
            "sched:a",
            "sched:a:",
            "sched::1",
            "sched:a:b",
            "sched:a:1:2",
            "sched:a b:1",
            "abc",
            "t-acme:web:service:scheduler:sched.a.1",
            "sched.a:1",
            "sched.a/1",
            &long,
        ] {
            assert!(of_tick(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_begins_as_a_tick_is_one_in_both_forms_k9() {
        assert!(is_tick(b"sched.a.1") && is_tick(b"sched:a:1") && is_tick(b"sched."));
        assert!(!is_tick(b"scheduled") && !is_tick(b"Sched.a.1") && !is_tick(b"a.sched.1") && !is_tick(b""));
    }
}

//! `Retry-After`: seconds, or a date (C3).

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::RETRY_AFTER;

/// How long a server asks to be left alone, as of `now`. A date that has passed means not at all; what cannot be read is no
/// wish.
pub(crate) fn read(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number has stand for longer than anybody waits.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::from(u32::MAX))));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(text).unwrap());
        read(&headers, SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777))
    }

    #[test]
    fn seconds_and_dates_are_read_and_nonsense_is_no_wish_c3() {
        assert_eq!(of("120"), Some(Duration::from_secs(120)));
        assert_eq!(of(" 0 "), Some(Duration::ZERO));
        assert_eq!(of("Sun, 06 Nov 1994 08:49:47 GMT"), Some(Duration::from_secs(10)));
        assert_eq!(of("Sunday, 06-Nov-94 08:49:47 GMT"), Some(Duration::from_secs(10)));
        assert_eq!(of("Sun, 06 Nov 1994 08:49:27 GMT"), Some(Duration::ZERO), "in the past");
        assert!(of("99999999999999999999999").unwrap() > Duration::from_secs(1 << 30));
        for nonsense in ["", "-1", "1.5", "soon", "Sun, 99 Nov 1994"] {
            assert_eq!(of(nonsense), None, "{nonsense:?}");
        }
        assert_eq!(read(&HeaderMap::new(), SystemTime::now()), None);
    }

    proptest! {
        #[test]
        fn any_seconds_are_read_as_they_are(seconds in 0_u64..=1 << 40) {
            prop_assert_eq!(of(&seconds.to_string()), Some(Duration::from_secs(seconds)));
        }
    }
}

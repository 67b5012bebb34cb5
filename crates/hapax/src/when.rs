//! Times as people and JSON write them: UTC (`2026-11-15T22:52:49.000000Z`), spans (`250ms`, `30s`, `15m`, `24h`, `7d`) and
//! ages. The rules know only numbers; a calendar is needed where somebody reads.

use std::time::{Duration, UNIX_EPOCH};

pub use hapax_core::time::{parse_utc, utc};
use hapax_core::{Error, Retention, Timestamp};

use crate::clock;

/// This machine's time of day.
pub fn now() -> Timestamp {
    let since = clock::time_of_day().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::ZERO.after(since)
}

/// Reads a span such as `250ms`, `30s`, `15m`, `24h` or `7d`.
pub fn parse_span(text: &str) -> Result<Duration, Error> {
    let bad = || Error::invalid("write a span of time such as 250ms, 30s, 15m, 24h or 7d");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().map_err(|_| bad())?;
    let millis = match &text[digits..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(bad()),
    };
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(bad)
}

/// Reads a retention: a span, or `forever`.
pub fn parse_retention(text: &str) -> Result<Retention, Error> {
    match text {
        "forever" => Ok(Retention::Forever),
        span => parse_span(span).map(Retention::For),
    }
}

/// A span as people say it, with its two largest parts: `3d 4h`, `12m 5s`, `40s`.
pub fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let parts =
        [(seconds / 86_400, "d"), (seconds / 3_600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let first = parts.iter().position(|(number, _)| *number > 0).unwrap_or(parts.len() - 1);
    let told =
        parts[first..].iter().take(2).enumerate().filter(|(place, (number, _))| *place == 0 || *number > 0);
    told.map(|(_, (number, unit))| format!("{number}{unit}")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_and_read_back() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (1_794_783_169_123_456, "2026-11-15T22:52:49.123456Z"),
            (4_107_542_399_999_999, "2100-02-28T23:59:59.999999Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(utc(Timestamp::from_micros(micros)).unwrap(), text);
            assert_eq!(parse_utc(text).unwrap().as_micros(), micros, "{text}");
        }
        assert_eq!(utc(Timestamp::NEVER), None);
        assert_eq!(parse_utc("2026-11-15T22:52:49Z").unwrap().as_micros(), 1_794_783_169_000_000);
        assert_eq!(parse_utc("2026-11-15T22:52:49.5Z").unwrap().as_micros(), 1_794_783_169_500_000);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "Z",
            "yesterday",
            "2026-11-15",
            "2026-11-15T22:52:49",
            "2026-11-15T22:52:49+01:00",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-11-15T24:00:00Z",
            "2026-11-15T22:52:49.Z",
            "2026-11-15T22:52:49.1234567Z",
            "2026-11-15T22:52:6éZ",
            "+026-11-15T22:52:49Z",
            "2026-00-10T00:00:00Z",
        ] {
            assert!(parse_utc(text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_are_read_and_told() {
        assert_eq!(parse_span("250ms").unwrap(), Duration::from_millis(250));
        assert_eq!(parse_span("7d").unwrap(), Duration::from_secs(7 * 86_400));
        for text in ["", "5", "s", "-1s", "1w", "1 s", "99999999999999999999s", "18446744073709551615d", "é"]
        {
            assert!(parse_span(text).is_err(), "{text}");
        }
        for (seconds, told) in [(0, "0s"), (40, "40s"), (725, "12m 5s"), (3_600, "1h"), (273_700, "3d 4h")] {
            assert_eq!(span(Duration::from_secs(seconds)), told);
        }
    }
}

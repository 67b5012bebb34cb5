//! Times as people and JSON write them: UTC (`2026-11-15T22:52:49.000000Z`), spans (`250ms`, `30s`, `15m`, `24h`, `7d`) and
//! ages. The rules know only numbers; a calendar is needed where somebody reads.

use std::time::{Duration, UNIX_EPOCH};

use hapax_core::{Error, Retention, Timestamp};

use crate::clock;

const DAY: i64 = 24 * 60 * 60;

/// This machine's time of day.
pub fn now() -> Timestamp {
    let since = clock::time_of_day().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::ZERO.after(since)
}

/// RFC 3339 in UTC, to the microsecond; `None` for a time that never comes.
pub fn utc(time: Timestamp) -> Option<String> {
    if time == Timestamp::NEVER {
        return None;
    }
    let micros = time.as_micros();
    let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z"))
}

/// Reads RFC 3339 in UTC; the fraction may be left out.
pub fn parse_utc(text: &str) -> Result<Timestamp, Error> {
    read_utc(text).ok_or_else(|| Error::invalid("write a time in UTC, such as 2026-11-15T22:52:49Z"))
}

fn read_utc(text: &str) -> Option<Timestamp> {
    let text = text.strip_suffix('Z').filter(|text| text.is_ascii())?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let shape = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        13 | 16 => byte == b':',
        _ => byte.is_ascii_digit(),
    };
    let digits = (1..=6).contains(&fraction.len()) && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() != 19 || !whole.bytes().enumerate().all(shape) || !digits {
        return None;
    }
    let part = |from: usize, to: usize| whole.get(from..to).and_then(|part| part.parse::<i64>().ok());
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (hour, minute, second) = (part(11, 13)?, part(14, 16)?, part(17, 19)?);
    let days = days_from_civil(year, month, day);
    // A day that the month does not have comes back as another one.
    if civil(days) != (year, month, day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let micros: i64 = format!("{fraction:0<6}").parse().ok()?;
    let seconds = days * DAY + hour * 3600 + minute * 60 + second;
    Some(Timestamp::from_micros(seconds * 1_000_000 + micros))
}

/// The day of the calendar, from days since 1970-01-01. Years are counted from March, so that the leap day is the last
/// one of a year, and in eras of 400 years, which are all alike.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The reverse of [`civil`].
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
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

//! Times as people and JSON write them, in UTC: `2026-11-15T22:52:49.000000Z`. To the microsecond, so that a time that is written and read
//! is the same time.

use super::Timestamp;
use crate::error::Error;

const DAY: i64 = 24 * 60 * 60;

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

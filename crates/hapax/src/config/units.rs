//! Durations and sizes as people write them: `"250ms"`, `"7d"`, `"64KiB"`. Which values make sense where is told by whoever
//! reads a field.

use std::time::Duration;

/// Units of time, in milliseconds, the longest first.
const TIME: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
/// Units of size, in bytes, the largest first.
const SIZE: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads `"30s"`. `None` for everything else, and for what is too long to count.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    measure(text, &TIME).map(Duration::from_millis)
}

/// Reads `"64KiB"`.
pub(crate) fn size(text: &str) -> Option<u64> {
    measure(text, &SIZE)
}

/// Writes a duration in the largest unit that holds it exactly, but one day as 24 hours, as people do; what is shorter than
/// a millisecond is cut off.
pub(crate) fn show_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let days = usize::from(millis == 86_400_000);
    show(millis, &TIME[days..], "0s")
}

/// Writes a size in the largest unit that holds it exactly.
pub(crate) fn show_size(bytes: u64) -> String {
    show(bytes, &SIZE, "0B")
}

fn measure(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

fn show(amount: u64, units: &[(&str, u64)], zero: &str) -> String {
    if amount == 0 {
        return zero.into();
    }
    let unit = units.iter().find(|(_, factor)| amount.is_multiple_of(*factor));
    unit.map_or_else(|| amount.to_string(), |(name, factor)| format!("{}{name}", amount / factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_read_back_as_they_are_written() {
        for text in ["250ms", "30s", "15m", "24h", "7d", "1ms", "90s", "0s"] {
            let shown = show_duration(duration(text).unwrap());
            assert_eq!(duration(&shown), duration(text), "{text}");
        }
        assert_eq!(show_duration(Duration::from_secs(86_400)), "24h");
        for text in ["64KiB", "1MiB", "1GiB", "1023B", "0B"] {
            assert_eq!(show_size(size(text).unwrap()), text);
        }
    }

    #[test]
    fn what_could_mean_two_things_is_no_measure() {
        for text in
            ["", "30", "s", "-1s", "+1s", "1.5s", "1 s", " 1s", "1S", "1h30m", "1w", "99999999999999999999s"]
        {
            assert_eq!(duration(text), None, "{text}");
        }
        for text in ["", "64", "64KB", "64kib", "64K", "1 MiB", "-1B", "18446744073709551615KiB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }
}

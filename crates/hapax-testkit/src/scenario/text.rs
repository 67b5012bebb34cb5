//! Answers and values as the language writes them.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::{Ending, Kept, Operated, Outcome, SetAnswer, SweepReport, Verdict, View};

pub(super) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Succeeded(bytes) => format!("ok:{}", String::from_utf8_lossy(bytes)),
        Outcome::Refused(bytes) => format!("refused:{}", String::from_utf8_lossy(bytes)),
        Outcome::NotKept { status } => format!("not-kept:{status}"),
        Outcome::Erased => "erased".to_owned(),
    }
}

/// An outcome, and whether an attempt before the one that settled it may have run.
fn kept(kept: &Kept) -> String {
    let order = if kept.earlier_may_have_run { "again" } else { "first" };
    format!("{} {order}", outcome(&kept.outcome))
}

pub(super) fn parse_outcome(text: &str) -> Option<Outcome> {
    if text == "erased" {
        return Some(Outcome::Erased);
    }
    let (kind, rest) = text.split_once(':')?;
    match kind {
        "ok" => Some(Outcome::Succeeded(Bytes::copy_from_slice(rest.as_bytes()))),
        "refused" => Some(Outcome::Refused(Bytes::copy_from_slice(rest.as_bytes()))),
        "not-kept" => Some(Outcome::NotKept { status: rest.parse().ok()? }),
        _ => None,
    }
}

/// `250ms`, `30s`, `5m`, `25h`, `7d`.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (count, unit) = text.split_at(digits);
    let count: u64 = count.parse().ok()?;
    let seconds = match unit {
        "ms" => return Some(Duration::from_millis(count)),
        "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return None,
    };
    Some(Duration::from_secs(count.checked_mul(seconds)?))
}

pub(super) fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Granted(grant) if grant.must_ask => "must-ask".to_owned(),
        Verdict::Granted(grant) if grant.earlier_may_have_run => "granted again".to_owned(),
        Verdict::Granted(_) => "granted first".to_owned(),
        Verdict::Replay(replayed) => format!("replay {}", kept(replayed)),
        Verdict::Held { .. } => "held".to_owned(),
        Verdict::Mismatch { .. } => "mismatch".to_owned(),
        Verdict::InDoubt { reason, .. } => format!("in-doubt {}", reason.as_str()),
        Verdict::Spent => "spent".to_owned(),
    }
}

pub(super) fn set(answer: &SetAnswer) -> String {
    match answer {
        SetAnswer::Stored(stored) => format!("stored {}", kept(stored)),
        SetAnswer::Present(present) => format!("present {}", view(Some(present))),
    }
}

pub(super) fn view(view: Option<&View>) -> String {
    match view {
        None => "absent".to_owned(),
        Some(View::Held { .. }) => "held".to_owned(),
        Some(View::Settled(settled)) => format!("settled {}", kept(settled)),
        Some(View::InDoubt { reason, .. }) => format!("in-doubt {}", reason.as_str()),
        Some(View::Released { .. }) => "released".to_owned(),
    }
}

pub(super) fn ending(ending: &Ending) -> String {
    match ending {
        Ending::Renewed { .. } => "renewed".to_owned(),
        Ending::Settled(settled) => format!("settled {}", kept(settled)),
        Ending::Released => "released".to_owned(),
        Ending::InDoubt => "in-doubt".to_owned(),
        Ending::LostLease => "lost-lease".to_owned(),
        Ending::AlreadySettled(settled) => format!("already-settled {}", kept(settled)),
    }
}

pub(super) fn operated(operated: &Operated) -> String {
    match operated {
        Operated::Done(_) => "done".to_owned(),
        Operated::Changed { .. } => "changed".to_owned(),
        Operated::NotApplicable(state) => format!("not-applicable {}", state.as_str()),
        Operated::MayStillRun { .. } => "may-still-run".to_owned(),
        Operated::Absent => "absent".to_owned(),
    }
}

pub(super) fn swept(report: &SweepReport) -> String {
    let counts =
        [("forgotten", report.forgotten), ("released", report.released), ("in-doubt", report.in_doubt)];
    let words: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name}={count}"))
        .collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(" ") }
}

//! What a process makes of a server whose clock is set forward or back (L12, ADR 22).
//!
//! How long a session lasts is written down as a time of the server's clock, for all processes to judge by. Each of them also
//! has a clock of its own that nobody sets: boot time. Set forward, the server's clock shows more than has passed; what was
//! written before that is judged as if it had been written on the new scale ([`Reading`]). Set back, it never comes to what was
//! written; who has not changed that for long enough is over all the same ([`Quiet`]).

use std::collections::HashMap;
use std::time::Duration;

use hapax_core::{Sign, Timestamp};

use crate::limits;

/// The server's clock as it was last read, and the latest step that was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    time: Timestamp,
    /// Boot time before it was asked for.
    asked: Duration,
    step: Option<Step>,
}

/// The server's clock was set forward.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// By so much at the most.
    by: Duration,
    /// What it showed when that was seen, and boot time then.
    seen: Timestamp,
    boot: Duration,
}

impl Reading {
    /// A server that showed `time` to a question asked at `asked`.
    pub(super) fn new(time: Timestamp, asked: Duration) -> Reading {
        Reading { time, asked, step: None }
    }

    /// The server showed `time` to a question that was answered by `answered`.
    ///
    /// Without a step it cannot show more than the last time and what has passed since that was asked for. What it shows beyond
    /// that it was set forward by, at least; at the most by all that lies between the two.
    pub(super) fn see(&mut self, time: Timestamp, answered: Duration, term: Duration) {
        let ahead = time.since(self.time.after(answered.saturating_sub(self.asked)));
        if ahead <= limits::CLOCK_STEP {
            return;
        }
        // Who was last heard of before an earlier one is behind by both, unless its term has ended since then.
        let recent = self.step.filter(|step| time.since(step.seen.after(ahead)) < term);
        let by = time.since(self.time) + recent.map_or(Duration::ZERO, |step| step.by);
        self.step = Some(Step { by, seen: time, boot: answered });
        self.time = self.time.after(ahead);
    }

    /// The same, and from now on the clock is measured from here.
    pub(super) fn follow(&mut self, time: Timestamp, asked: Duration, answered: Duration, term: Duration) {
        self.see(time, answered, term);
        // Set back since: nobody is to be judged by a time that is to come. Who was heard of before has a term from now, again.
        if let Some(step) = self.step.as_mut().filter(|step| time < step.seen && asked > step.boot) {
            (step.seen, step.boot) = (time, answered);
        }
        (self.time, self.asked) = (time, asked);
    }

    /// When a session was heard of and ends, on the scale of the present clock. Never earlier than it was and does, and nobody
    /// who was last heard of before the step lives longer than a term from when it was seen.
    pub(super) fn judge(&self, sign: Sign) -> Sign {
        let Some(step) = self.step.filter(|step| sign.last < step.seen) else { return sign };
        let latest = step.seen.after(sign.until.since(sign.last));
        Sign {
            last: sign.last.after(step.by).min(step.seen),
            until: sign.until.after(step.by).min(latest).max(sign.until),
        }
    }
}

/// How long sessions have not changed something, as somebody who looks at them again and again has seen it.
#[derive(Debug, Default)]
pub(super) struct Quiet(HashMap<i64, (i64, Duration)>);

impl Quiet {
    /// For how long each of these sessions has shown the same, at `now`, which was read after they were. Those that are not
    /// among them are seen anew when they are.
    pub(super) fn look(&mut self, sessions: &[(i64, i64)], now: Duration) -> Vec<Duration> {
        let seen = |(session, shows): &(i64, i64)| {
            let same = self.0.get(session).filter(|(before, _)| before == shows);
            (*session, (*shows, same.map_or(now, |(_, since)| *since)))
        };
        self.0 = sessions.iter().map(seen).collect();
        let since = |(session, _): &(i64, i64)| self.0.get(session).map_or(now, |(_, since)| *since);
        sessions.iter().map(|session| now.saturating_sub(since(session))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::ZERO.after(Duration::from_secs(seconds))
    }

    fn renewed(seconds: u64) -> Sign {
        Sign { last: at(seconds), until: at(seconds).after(TERM) }
    }

    /// Boot time is 1,000 s behind the server's clock.
    fn boot(seconds: u64) -> Duration {
        Duration::from_secs(seconds - 1_000)
    }

    #[test]
    fn slow_answers_are_no_steps_l12() {
        let mut clock = Reading::new(at(2_000), boot(2_000));
        // Asked at 2,000, shown at 2,008, answered at 2,009; then one that was answered at once.
        clock.follow(at(2_008), boot(2_000), boot(2_009), TERM);
        clock.see(at(2_009), boot(2_009), TERM);
        assert_eq!(clock.judge(renewed(1_970)), renewed(1_970));
    }

    #[test]
    fn a_session_has_what_was_left_of_its_term_when_the_clock_was_set_forward_l12() {
        let mut clock = Reading::new(at(2_000), boot(2_000));
        clock.see(at(2_100), boot(2_000), TERM);
        assert_eq!(clock.judge(renewed(1_990)), renewed(2_090));
        assert!(clock.judge(renewed(1_970)).until <= at(2_100), "it had lapsed before");
        assert_eq!(clock.judge(renewed(2_100)), renewed(2_100), "it is on the new scale");
        assert!(clock.judge(Sign::UNKNOWN).until < at(2_000));
    }

    #[test]
    fn nobody_lives_longer_than_a_term_from_when_a_step_was_seen_l12() {
        let mut clock = Reading::new(at(2_000), boot(2_000));
        // Seen late: who was heard of at 2,099 may have been so on the new scale.
        clock.see(at(2_110), boot(2_010), TERM);
        assert_eq!(clock.judge(renewed(2_099)), renewed(2_110));
        for later in 0..20 {
            clock.see(at(2_110 + later), boot(2_010 + later), TERM);
        }
        assert_eq!(clock.judge(renewed(2_099)), renewed(2_110), "a step is seen once");
    }

    #[test]
    fn two_steps_in_one_term_add_up_l12() {
        let mut clock = Reading::new(at(2_000), boot(2_000));
        clock.see(at(2_100), boot(2_000), TERM);
        clock.see(at(2_200), boot(2_000), TERM);
        assert!(clock.judge(renewed(1_990)).until >= at(2_220));
        assert!(clock.judge(renewed(1_990)).until <= at(2_230));
    }

    #[test]
    fn a_step_forward_that_was_taken_back_is_over_after_a_term_l12() {
        let mut clock = Reading::new(at(2_000), boot(2_000));
        clock.see(at(5_000), boot(2_000), TERM);
        // Asked before the step was seen, and answered late: no step back.
        clock.follow(at(2_000), boot(2_000), boot(2_001), TERM);
        assert!(clock.judge(renewed(1_990)).until >= at(5_000));
        clock.follow(at(2_002), boot(2_002), boot(2_002), TERM);
        assert!(
            clock.judge(renewed(1_990)).until >= at(2_020),
            "what it has on the old scale is not taken away"
        );
        assert!(clock.judge(renewed(1_990)).until <= at(2_032));
        assert_eq!(clock.judge(renewed(2_003)), renewed(2_003));
    }

    #[test]
    fn how_long_a_session_is_quiet_counts_from_when_it_was_first_seen_so_l12() {
        let (mut quiet, at) = (Quiet::default(), Duration::from_secs);
        // The first has died, the second renews itself once, the third has followed when it is looked for again.
        assert_eq!(quiet.look(&[(1, 100), (2, 100), (3, 100)], at(10)), [at(0); 3]);
        assert_eq!(quiet.look(&[(1, 100), (2, 101)], at(11)), [at(1), at(0)]);
        assert_eq!(quiet.look(&[(1, 100), (2, 101)], at(12)), [at(2), at(1)]);
        assert_eq!(quiet.look(&[(3, 100), (1, 100)], at(13)), [at(0), at(3)], "the third is seen anew");
    }
}

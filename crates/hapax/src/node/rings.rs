//! What a process remembers of what it counted: samples in three rings, and the traffic of each tenant, project and endpoint (O1).
//!
//! The counters only grow, and are read every 10 seconds. What lies between two readings is a sample; coarser samples are sums of finer
//! ones. Nothing is noted on a request's way.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hapax_core::Timestamp;
use hapax_gateway::Gateway;
use hapax_gateway::metrics::{LatencyCounts, Metrics, Traffic};

use crate::Store;
use crate::{limits, when};

/// How an answer counts in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Executed,
    Replayed,
    Attached,
    Passed,
    Released,
    Mismatch,
    InDoubt,
    Refused,
    Invalid,
    Unavailable,
    Other,
}

/// How many groups there are.
const GROUPS: usize = 11;

impl Group {
    /// The group of an event: how an answer came about, or a problem's code.
    pub(crate) fn of(event: &str) -> Group {
        match event {
            "executed" => Group::Executed,
            "replayed" => Group::Replayed,
            "attached" => Group::Attached,
            "passed" => Group::Passed,
            "released" => Group::Released,
            "key-reused" => Group::Mismatch,
            "outcome-unknown" => Group::InDoubt,
            "unauthenticated" | "forbidden" | "signature-invalid" | "not-found" | "method-not-allowed"
            | "too-many" => Group::Refused,
            "translation-failed" | "request-malformed" | "path-malformed" | "body-too-large"
            | "head-too-large" => Group::Invalid,
            key if key.starts_with("key-") => Group::Invalid,
            "ledger-unavailable" | "outcome-pending" | "attempt-failed" | "overloaded" | "draining" => {
                Group::Unavailable
            }
            upstream if upstream.starts_with("upstream-") => Group::Unavailable,
            _ => Group::Other,
        }
    }
}

/// What was counted in a step, or until a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    groups: [u64; GROUPS],
    pub(crate) executed: LatencyCounts,
    pub(crate) replayed: LatencyCounts,
}

impl Counted {
    /// How many answers of a group.
    pub(crate) fn of(&self, group: Group) -> u64 {
        self.groups[group as usize]
    }

    /// All answers.
    pub(crate) fn all(&self) -> u64 {
        self.groups.iter().sum()
    }

    fn now(metrics: &Metrics, traffic: &[Traffic]) -> Counted {
        let mut counted = Counted::default();
        for answers in traffic.iter().flat_map(|traffic| &traffic.answers) {
            counted.groups[Group::of(answers.event) as usize] += answers.count;
        }
        for (_, event, latency) in metrics.latencies() {
            match event {
                "executed" => counted.executed = counted.executed.plus(&latency),
                "replayed" => counted.replayed = counted.replayed.plus(&latency),
                _ => {}
            }
        }
        counted
    }

    fn since(&self, earlier: &Counted) -> Counted {
        let mut since = *self;
        since.groups.iter_mut().zip(earlier.groups).for_each(|(own, other)| *own = own.saturating_sub(other));
        since.executed = self.executed.since(&earlier.executed);
        since.replayed = self.replayed.since(&earlier.replayed);
        since
    }

    fn plus(&self, other: &Counted) -> Counted {
        let mut both = *self;
        both.groups.iter_mut().zip(other.groups).for_each(|(own, other)| *own += other);
        both.executed = self.executed.plus(&other.executed);
        both.replayed = self.replayed.plus(&other.replayed);
        both
    }
}

/// What was counted in one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Timestamp,
    pub(crate) step: Duration,
    pub(crate) counted: Counted,
}

/// Samples of one length, the latest last.
struct Ring {
    step: Duration,
    most: usize,
    samples: VecDeque<Sample>,
    /// What is not a whole sample yet.
    open: Option<Sample>,
}

impl Ring {
    fn new(steps: u32, most: usize) -> Ring {
        Ring { step: limits::SAMPLE_EVERY * steps, most, samples: VecDeque::new(), open: None }
    }

    fn add(&mut self, at: Timestamp, step: Duration, counted: &Counted) {
        let open = self.open.take();
        let open = match open {
            Some(open) => Sample { step: open.step + step, counted: open.counted.plus(counted), ..open },
            None => Sample { at, step, counted: *counted },
        };
        if open.step < self.step {
            self.open = Some(open);
            return;
        }
        if self.samples.len() == self.most {
            self.samples.pop_front();
        }
        self.samples.push_back(open);
    }
}

/// What is told of one tenant's project at one endpoint, as it stood at some time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row {
    pub(crate) requests: u64,
    pub(crate) keyed: u64,
    pub(crate) executed: u64,
    pub(crate) replayed: u64,
    pub(crate) attached: u64,
    pub(crate) terminal_error: u64,
    pub(crate) mismatch: u64,
    pub(crate) invalid: u64,
    pub(crate) missing: u64,
    pub(crate) in_doubt: u64,
}

impl Row {
    pub(crate) fn of(traffic: &Traffic) -> Row {
        let of = |event: &str| -> u64 {
            traffic.answers.iter().filter(|answers| answers.event == event).map(|answers| answers.count).sum()
        };
        Row {
            requests: traffic.answers.iter().map(|answers| answers.count).sum(),
            keyed: traffic.present,
            executed: of("executed"),
            replayed: of("replayed"),
            attached: of("attached"),
            terminal_error: traffic.terminal_error,
            mismatch: traffic.collisions,
            invalid: traffic.invalid + traffic.untranslated,
            missing: traffic.missing,
            in_doubt: of("outcome-unknown"),
        }
    }

    pub(crate) fn since(&self, earlier: &Row) -> Row {
        Row {
            requests: self.requests.saturating_sub(earlier.requests),
            keyed: self.keyed.saturating_sub(earlier.keyed),
            executed: self.executed.saturating_sub(earlier.executed),
            replayed: self.replayed.saturating_sub(earlier.replayed),
            attached: self.attached.saturating_sub(earlier.attached),
            terminal_error: self.terminal_error.saturating_sub(earlier.terminal_error),
            mismatch: self.mismatch.saturating_sub(earlier.mismatch),
            invalid: self.invalid.saturating_sub(earlier.invalid),
            missing: self.missing.saturating_sub(earlier.missing),
            in_doubt: self.in_doubt.saturating_sub(earlier.in_doubt),
        }
    }
}

/// Whose traffic it is, and where.
pub(crate) type Whose = (Box<str>, Box<str>, Arc<str>);

/// How a row stood at each minute of the last hour, and at each half hour of the last day; the latest last.
#[derive(Clone, Debug, Default)]
struct Stood {
    minutes: VecDeque<(Timestamp, Row)>,
    halves: VecDeque<(Timestamp, Row)>,
}

impl Stood {
    fn note(&mut self, at: Timestamp, row: Row) {
        let due = |stood: &VecDeque<(Timestamp, Row)>, every: Duration| {
            stood
                .back()
                .is_none_or(|(last, _)| at.since(*last) >= every.saturating_sub(limits::SAMPLE_EVERY / 2))
        };
        for (stood, every, most) in [
            (&mut self.minutes, Duration::from_secs(60), limits::TRAFFIC_MINUTES),
            (&mut self.halves, Duration::from_secs(1_800), limits::TRAFFIC_HALVES),
        ] {
            if due(stood, every) {
                if stood.len() == most {
                    stood.pop_front();
                }
                stood.push_back((at, row));
            }
        }
    }

    /// How it stood at a time, as nearly as is known; nothing was counted before it was noted first.
    fn at(&self, at: Timestamp) -> Row {
        let within = self.minutes.front().is_some_and(|(first, _)| *first <= at);
        let stood = if within { &self.minutes } else { &self.halves };
        stood.iter().rev().find(|(noted, _)| *noted <= at).map(|(_, row)| *row).unwrap_or_default()
    }

    /// How many requests there were in each of the last minutes, the oldest first.
    fn spark(&self, now: &Row) -> Vec<u64> {
        let mut counts: Vec<u64> =
            self.minutes.iter().map(|(_, row)| row.requests).chain([now.requests]).collect();
        counts = counts.split_off(counts.len().saturating_sub(limits::TRAFFIC_SPARK + 1));
        counts.windows(2).map(|two| two[1].saturating_sub(two[0])).collect()
    }
}

/// Everything that is remembered.
struct Remembered {
    former: Counted,
    former_at: Timestamp,
    rings: [Ring; 3],
    traffic: HashMap<Whose, Stood>,
}

/// What a process remembers of what it counted.
pub(crate) struct Rings(Mutex<Remembered>);

impl Rings {
    pub(crate) fn new() -> Rings {
        let rings = [
            Ring::new(1, limits::SAMPLES_FINE),
            Ring::new(6, limits::SAMPLES_MINUTES),
            Ring::new(30, limits::SAMPLES_COARSE),
        ];
        let former = Counted::default();
        Rings(Mutex::new(Remembered { former, former_at: when::now(), rings, traffic: HashMap::new() }))
    }

    /// Reads the counters every 10 seconds.
    pub(super) async fn watch(&self, gateway: &Gateway<Store, Store>) {
        loop {
            tokio::time::sleep(limits::SAMPLE_EVERY).await;
            self.sample(gateway.metrics(), when::now());
        }
    }

    fn sample(&self, metrics: &Metrics, at: Timestamp) {
        let traffic = metrics.traffic();
        let counted = Counted::now(metrics, &traffic);
        let mut remembered = self.lock();
        let (since, began) = (counted.since(&remembered.former), remembered.former_at);
        let step = Duration::from_secs(at.since(began).as_secs().max(limits::SAMPLE_EVERY.as_secs()));
        for ring in &mut remembered.rings {
            ring.add(began, step, &since);
        }
        (remembered.former, remembered.former_at) = (counted, at);
        for traffic in &traffic {
            let whose = (traffic.tenant.clone(), traffic.project.clone(), traffic.endpoint.clone());
            if remembered.traffic.len() < limits::TRAFFIC_GRAINS || remembered.traffic.contains_key(&whose) {
                remembered.traffic.entry(whose).or_default().note(at, Row::of(traffic));
            }
        }
    }

    /// The samples of so long until now, after a time; the coarser the longer.
    pub(crate) fn samples(&self, window: Duration, after: Option<Timestamp>) -> Vec<Sample> {
        let remembered = self.lock();
        let fits = |ring: &&Ring| window <= ring.step * u32::try_from(ring.most).unwrap_or(u32::MAX);
        let ring = remembered.rings.iter().find(fits).or(remembered.rings.last());
        let most = ring.map_or(0, |ring| (window.as_secs() / ring.step.as_secs().max(1)).max(1) as usize);
        let samples = ring.into_iter().flat_map(|ring| ring.samples.iter().rev().take(most));
        let mut samples: Vec<_> =
            samples.take_while(|sample| after.is_none_or(|after| sample.at > after)).copied().collect();
        samples.reverse();
        samples
    }

    /// How many answers there were until the counters were read last.
    pub(crate) fn answered(&self) -> u64 {
        self.lock().former.all()
    }

    /// What was counted for whom since a time, and how many requests came in each of the last minutes.
    pub(crate) fn traffic(&self, metrics: &Metrics, since: Timestamp) -> Vec<(Whose, Row, Vec<u64>)> {
        let (traffic, remembered) = (metrics.traffic(), self.lock());
        let row = |traffic: Traffic| {
            let now = Row::of(&traffic);
            let whose = (traffic.tenant, traffic.project, traffic.endpoint);
            let stood = remembered.traffic.get(&whose);
            let then = stood.map(|stood| stood.at(since)).unwrap_or_default();
            let spark = stood.map(|stood| stood.spark(&now)).unwrap_or_default();
            (whose, now.since(&then), spark)
        };
        traffic.into_iter().map(row).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(executed: u64) -> Counted {
        let mut counted = Counted::default();
        counted.groups[Group::Executed as usize] = executed;
        counted
    }

    #[test]
    fn coarse_samples_are_sums_of_fine_ones_and_rings_are_bounded_o1() {
        let (mut fine, mut coarse) = (Ring::new(1, 3), Ring::new(6, 3));
        for number in 0..13 {
            for ring in [&mut fine, &mut coarse] {
                ring.add(Timestamp::from_micros(number * 10_000_000), limits::SAMPLE_EVERY, &counted(1));
            }
        }
        assert_eq!(fine.samples.len(), 3);
        let sums: Vec<_> = coarse.samples.iter().map(|sample| sample.counted.all()).collect();
        assert_eq!((sums, coarse.open.map(|open| open.counted.all())), (vec![6, 6], Some(1)));
        assert_eq!(coarse.samples[1].at, Timestamp::from_micros(60_000_000));
    }

    #[test]
    fn quiet_steps_change_nothing_but_the_samples_and_a_cursor_asks_for_those_alone_o1() {
        let (rings, metrics) = (Rings::new(), Metrics::default());
        let at = |number: i64| Timestamp::from_micros((1 << 40) + number * 10_000_000);
        for number in 0..200 {
            rings.sample(&metrics, at(number));
        }
        let full = rings.samples(limits::PULSE_WINDOW, None);
        assert_eq!((full.len(), rings.answered()), (limits::SAMPLES_FINE, 0));
        let cursor = full.last().map(|sample| sample.at);
        assert_eq!(rings.samples(limits::PULSE_WINDOW, cursor).len(), 0);
        rings.sample(&metrics, at(200));
        assert_eq!(rings.samples(limits::PULSE_WINDOW, cursor).len(), 1);
    }

    #[test]
    fn traffic_is_told_since_a_time_and_by_minute_o1() {
        let mut stood = Stood::default();
        let minute = |number: i64| Timestamp::from_micros(number * 60_000_000);
        for number in 0..100 {
            stood.note(minute(number), Row { requests: number as u64 * 10, ..Row::default() });
        }
        assert_eq!(stood.minutes.len(), limits::TRAFFIC_MINUTES);
        assert_eq!(stood.at(minute(90)).requests, 900);
        assert_eq!(stood.at(minute(35)).requests, 300, "as it stood at the half hour before");
        let now = Row { requests: 995, ..Row::default() };
        let spark = stood.spark(&now);
        assert_eq!((spark.len(), spark[0], spark[29]), (30, 10, 5));
    }

    #[test]
    fn every_event_counts_in_one_group_o1() {
        for (event, group) in [
            ("executed", Group::Executed),
            ("key-reused", Group::Mismatch),
            ("key-malformed", Group::Invalid),
            ("outcome-unknown", Group::InDoubt),
            ("forbidden", Group::Refused),
            ("upstream-timeout", Group::Unavailable),
            ("async", Group::Other),
        ] {
            assert_eq!(Group::of(event), group, "{event}");
        }
    }
}

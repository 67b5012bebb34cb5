//! Random commands, from a seed that a failure prints.

use std::time::Duration;

use hapax_core::claim::{DoubtEnds, DoubtThen, Terms, Verb};
use hapax_core::{Doubt, Epoch, Outcome, Ran, Report, Rerun, Retention};

/// A small generator (SplitMix64): the same seed gives the same run on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.number() % bound.max(1) as u64).unwrap_or(0)
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// A duration from a list that crosses every bound of the rules.
    pub fn duration(&mut self) -> Duration {
        Duration::from_millis(self.of(&[0, 1, 500, 5_000, 11_000, 31_000, 3_700_000, 90_000_000]))
    }

    /// Terms of every kind.
    pub fn terms(&mut self) -> Terms {
        let ends =
            DoubtEnds { after: self.duration(), then: self.of(&[DoubtThen::Release, DoubtThen::Forget]) };
        Terms {
            rerun: self.of(&[Rerun::Unsafe, Rerun::Safe, Rerun::Ask]),
            quiet: self.of(&[Duration::ZERO, Duration::from_secs(7)]),
            max_run: self.of(&[Duration::from_secs(3_600), Duration::from_secs(20)]),
            give_up: self.of(&[Duration::ZERO, Duration::from_secs(15)]),
            doubt: self.once_in(4).then_some(ends),
        }
    }

    /// An outcome of every kind.
    pub fn outcome(&mut self) -> Outcome {
        let length = self.of(&[0, 1, 100, 5_000]);
        let bytes: Vec<u8> = (0..length).map(|_| (self.number() & 0xff) as u8).collect();
        match self.below(4) {
            0 => Outcome::Refused(bytes.into()),
            1 => Outcome::NotKept { status: 201 },
            _ => Outcome::Succeeded(bytes.into()),
        }
    }

    /// A retention of every kind.
    pub fn retention(&mut self) -> Retention {
        let for_ = Retention::For(self.duration());
        let since = Retention::SinceGrant(self.duration());
        self.of(&[for_, since, Retention::Forever])
    }

    /// A holder's report.
    pub fn report(&mut self) -> Report {
        match self.below(8) {
            0 => Report::Renew,
            1 => Report::Cleared,
            2 | 3 => {
                let release = Report::Release(self.of(&[Ran::No, Ran::Waived, Ran::Perhaps]));
                release.because(self.of(&["", "the work panicked"]))
            }
            4 => {
                let doubt =
                    Report::Doubt(self.of(&[Doubt::Lapsed, Doubt::Failed, Doubt::Stated, Doubt::Paused]));
                doubt.because(self.of(&["", "connection reset", "half an answer, then the end: é"]))
            }
            _ => Report::Settle(self.outcome(), self.retention()),
        }
    }

    /// An operator's verb.
    pub fn verb(&mut self) -> Verb {
        match self.below(6) {
            0 => Verb::Settle(self.outcome(), self.retention()),
            1 => Verb::Release { force: true },
            2 => Verb::Release { force: false },
            3 => Verb::Reopen,
            4 => Verb::Purge,
            _ => Verb::Erase,
        }
    }

    /// This epoch, or now and then another one.
    pub fn epoch_near(&mut self, epoch: Epoch) -> Epoch {
        if self.once_in(6) { Epoch::from_packed(epoch.packed().saturating_sub(1)) } else { epoch }
    }
}

//! The thread that sweeps a world in memory by itself, until nobody has the world any more.
//!
//! It goes through the claims in the order in which they were granted, some at a time, and leaves the world to others in between.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use hapax_core::Clock;

use super::world::World;
use crate::hub::Hub;
use crate::limits;
use crate::parts::clock;
use crate::tally::Tally;

/// What the thread has of a store.
pub(super) struct Sweeper {
    pub(super) world: Weak<Mutex<World>>,
    pub(super) hub: Hub,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) tally: Arc<Tally>,
}

impl Sweeper {
    /// Starts it. Where there is no thread to be had, nothing is swept but by [`sweep`](hapax_core::Inspect::sweep).
    pub(super) fn start(self) {
        let thread = std::thread::Builder::new().name("hapax-sweep".into());
        let _ = thread.spawn(move || self.run());
    }

    fn run(self) {
        let mut pause = limits::SWEEP_EVERY;
        loop {
            std::thread::sleep(pause);
            let began = clock::now();
            if self.round().is_none() {
                return;
            }
            self.tally.swept();
            pause = pause_after(began.elapsed());
        }
    }

    /// Visits every claim once; `None` when the world is gone.
    fn round(&self) -> Option<()> {
        let mut after = Some(0);
        while let Some(serial) = after {
            let world = self.world.upgrade()?;
            let (changed, next) = {
                let mut world = world.lock().unwrap_or_else(PoisonError::into_inner);
                world.sweep_behind(serial, self.clock.now())
            };
            changed.iter().for_each(|claim| self.hub.wake(claim));
            after = next;
            drop(world);
            std::thread::yield_now();
        }
        Some(())
    }
}

/// In a large world a round takes its time, which belongs to others.
fn pause_after(round: Duration) -> Duration {
    round.saturating_mul(limits::SWEEP_REST).clamp(limits::SWEEP_EVERY, limits::SWEEP_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_took_long_because_the_process_stood_still_does_not_end_sweeping_l10() {
        assert_eq!(pause_after(Duration::ZERO), limits::SWEEP_EVERY);
        let second = Duration::from_secs(1);
        assert_eq!(pause_after(second), limits::SWEEP_REST * second);
        for stood_still in [Duration::from_secs(8 * 60 * 60), Duration::MAX] {
            assert_eq!(pause_after(stood_still), limits::SWEEP_PAUSE);
        }
    }
}

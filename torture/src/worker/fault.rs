//! What a worker does to itself: it kills or stops itself at a named point in the source.
//!
//! Points in `once` and in the work know for which key they are passed; points in a store do not.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Signal, getpid, kill_process};

use super::say;
use crate::words::Said;

/// Whoever misses this much time was stopped. Every stop lasts longer.
const STOPPED_FOR: Duration = Duration::from_millis(200);

/// What a worker does to itself, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Killed or stopped.
    pub deed: Deed,
    /// The point's name.
    pub point: String,
    /// The time of passing at which it happens, counted from 1.
    pub nth: usize,
}

/// Killed or stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// SIGKILL.
    Die,
    /// SIGSTOP, until somebody sends SIGCONT.
    Stop,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let deed = if self.deed == Deed::Die { "die" } else { "stop" };
        write!(f, "{deed}:{}:{}", self.point, self.nth)
    }
}

impl FromStr for Fault {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Fault> {
        let fields: Vec<&str> = text.split(':').collect();
        let [deed, point, nth] = fields[..] else { bail!("a fault is `die:POINT:N` or `stop:POINT:N`") };
        let deed = match deed {
            "die" => Deed::Die,
            "stop" => Deed::Stop,
            other => bail!("{other:?} is neither `die` nor `stop`"),
        };
        let nth = nth.parse().with_context(|| format!("{nth:?} is no number"))?;
        Ok(Fault { deed, point: point.to_owned(), nth })
    }
}

tokio::task_local! {
    /// The key that the running task works for.
    pub(super) static KEY: String;
}

/// Faults count only when the worker is ready: what opening a store takes is not part of a call.
static ARMED: AtomicBool = AtomicBool::new(false);

/// From here on faults count.
pub(crate) fn begin() {
    ARMED.store(true, Ordering::SeqCst);
}

/// Arms a fault.
pub(crate) fn arm(fault: Fault, drowsy: Duration) -> Result<()> {
    let (point, passed) = (fault.point.clone(), AtomicUsize::new(0));
    let strike = move || {
        if ARMED.load(Ordering::SeqCst) && passed.fetch_add(1, Ordering::SeqCst) + 1 == fault.nth {
            strike(&fault, drowsy);
        }
    };
    fail::cfg_callback(point, strike).map_err(|error| anyhow::anyhow!("the fault cannot be armed: {error}"))
}

fn strike(fault: &Fault, drowsy: Duration) {
    let key = KEY.try_with(String::clone).unwrap_or_else(|_| "-".to_owned());
    say(&Said::Struck { key, point: fault.point.clone() });
    let signal = match fault.deed {
        Deed::Die => Signal::KILL,
        Deed::Stop => Signal::STOP,
    };
    let before = Instant::now();
    let sent = kill_process(getpid(), signal);
    assert!(sent.is_ok(), "a process may signal itself: {sent:?}");
    if fault.deed == Deed::Die {
        loop {
            std::thread::park();
        }
    }
    sleep_until_stopped(before);
    std::thread::sleep(drowsy);
}

/// The signal may reach another thread first, and this one would run on for a moment: it goes on only when it has missed
/// some time.
fn sleep_until_stopped(before: Instant) {
    let mut seen = before;
    while seen.elapsed() < STOPPED_FOR {
        seen = Instant::now();
        std::thread::sleep(Duration::from_millis(1));
    }
}

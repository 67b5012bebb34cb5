//! What the stores of hapax share, and the one that needs nothing else: [`memory`]. The others are crates of their own, `hapax-sqlite`
//! and `hapax-postgres`.
//!
//! A store never decides: it reads a claim, lets [`hapax_core::step`] decide, and keeps what that returned. The suite in
//! `conformance` shows that all of them agree, and is there for other people's stores too. Such a store may be built from the same
//! parts: the [`table`] in front of it, the [`hub`] of those who wait, and what is in [`parts`].

#![cfg_attr(not(test), warn(clippy::disallowed_methods, reason = "only the `clock` module reads the time"))]

#[cfg(feature = "conformance")]
pub mod conformance;
pub mod hub;
pub mod limits;
pub mod memory;
mod options;
pub mod parts;
pub mod table;
mod tally;

pub use options::Options;
pub use parts::clock::SystemClock;
pub use tally::Tally;

use std::future::Future;

use hapax_core::{Error, SessionId, Timestamp};

/// What a store tells of itself: who has it open, and how much room it takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// What the store's clock shows.
    pub now: Timestamp,
    /// The processes that have it open or had it lately, in the order in which they came. None where only this one can.
    pub openers: Vec<Opener>,
    /// How many bytes it takes; `None` where that is not known.
    pub bytes: Option<u64>,
    /// How many bytes are free where it lies; `None` where that is not known.
    pub free: Option<u64>,
}

/// A process that has a store open, or had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opener {
    /// Its session.
    pub session: SessionId,
    /// When that began.
    pub opened_at: Timestamp,
    /// When it was renewed last.
    pub last_at: Timestamp,
    /// Until when it counts.
    pub until: Timestamp,
}

/// What a store can be told besides what the ports say: the life of its session.
pub trait Lifecycle: Sync {
    /// Renews the session now. The store does so by itself unless [`Options::heartbeat`] is off.
    fn renew_session(&self) -> impl Future<Output = Result<(), Error>> + Send;

    /// Whether another process has this store open, as far as can be told: one that has died counts until its term ends.
    fn is_shared(&self) -> impl Future<Output = Result<bool, Error>> + Send;

    /// What the store's clock shows (L12): every process on the store has the same.
    fn time(&self) -> impl Future<Output = Result<Timestamp, Error>> + Send;

    /// Who has it open, and how much room it takes.
    fn overview(&self) -> impl Future<Output = Result<Overview, Error>> + Send {
        async { Ok(Overview { now: self.time().await?, ..Overview::default() }) }
    }

    /// Ends the session and closes the store. What the session still held has lapsed at once.
    fn close(&self) -> impl Future<Output = Result<(), Error>> + Send;
}

//! Torture: real processes that use hapax are killed, stopped and unplugged, and a judge looks at what is left.
//!
//! The simulation in `hapax-testkit` covers the rules and their orderings; this crate covers what a simulation takes for
//! granted: files, sockets, signals, syncs and servers. Each module does one kind of harm:
//!
//! - [`crash`]: `kill -9` at every named point of the source, and at any time;
//! - [`zombie`]: a process is stopped for longer than its lease, and comes back;
//! - [`powercut`]: what a disk may hold after a power cut, reconstructed from the system calls that were made;
//! - [`burst`]: many callers at once, in several processes;
//! - [`guard`]: `kill -9` between any two steps of an application's own transaction;
//! - [`outage`]: the database server itself is killed and comes back;
//! - [`executions`]: processes that run durable executions are killed at every named step, and stopped while others go on;
//! - [`actions`]: processes that act on the same entities, and are killed while their tools run.
//!
//! [`worker`] is the process that suffers, [`check`] the judge. Every harm has a control: a worker with a planted flaw, or a
//! disk that lies, which the judge must find.

pub mod actions;
pub mod burst;
pub mod check;
pub mod child;
pub mod crash;
pub mod dice;
pub mod executions;
pub mod guard;
pub mod outage;
pub mod place;
pub mod powercut;
pub mod report;
pub mod server;
pub mod words;
pub mod worker;
pub mod zombie;

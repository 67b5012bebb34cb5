//! What hapax is tested with, and never shipped: nothing in here is used by the product.
//!
//! - [`browser`]: a real browser, driven over a pipe.
//! - [`clock`]: a clock that tests move.
//! - [`faulty`]: a ledger that is away, or whose answers get lost, on command.
//! - [`kv`]: an imitation of the KV version 2 secrets engine of OpenBao and Vault.
//! - [`lines`]: what one test's thread logs.
//! - [`port`]: a port that is nobody else's while no server listens on it.
//! - [`raw`]: bare sockets, for tests that care about every byte.
//! - [`restate`]: real Restate servers, and the example's handlers behind them.
//! - [`upstream`]: a count of effects that survives the crash of everybody who causes them.
//! - [`scenario`]: behaviour as text; the same file drives the rules alone, every store and everything above them.
//! - [`model`]: the protocol, checked exhaustively in a small world.
//! - [`model_lane`]: a lane beside the claims of its actions, checked in the same way.
//! - [`simulation`]: the protocol in long random runs that a seed repeats.
//!
//! All of it knows `hapax-core` only, so that every other crate's tests can use it.

pub mod browser;
pub mod clock;
pub mod faulty;
pub mod kv;
pub mod lines;
pub mod model;
pub mod model_lane;
pub mod port;
pub mod raw;
pub mod restate;
pub mod scenario;
pub mod simulation;
pub mod upstream;

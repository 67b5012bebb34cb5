//! What a store is built from besides the [`table`](crate::table) in front of it and the [`hub`](crate::hub) of those who wait:
//! what every store says, reads and writes in the same way. Made for the stores of hapax, and there for a store of your own.
//!
//! - [`clock`]: the machine's clocks, guarded so that time goes on;
//! - [`codes`]: the numbers and the letters that stand for the words of a claim;
//! - [`plan`]: what writes to journals come to, before anything is written;
//! - [`lane_bytes`] and [`lane_mark`]: a lane as bytes, and as the mark of a page;
//! - [`leased`]: how many leases of a tenant are open, for a store that one process keeps;
//! - [`setting`]: where the audit has what operators set beside claims;
//! - [`filter`]: which records a filter means, for a store that looks at them one by one.

pub mod clock;
pub mod codes;
pub mod filter;
pub mod lane_bytes;
pub mod lane_mark;
pub mod leased;
pub mod plan;
pub mod setting;

use hapax_core::Error;

/// The rules answered a command with the answer to another one, which only a defect can bring about.
pub fn confused() -> Error {
    Error::internal("the rules answered another command than was asked")
}

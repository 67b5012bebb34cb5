//! Running work once.
//!
//! [`Executor::once`] is the only driver of the claim protocol: it claims, runs the work, and settles, releases or leaves
//! doubt; it waits for others' outcomes and never lets a caller have an answer that is not recorded.
//!
//! ```
//! use hapax_exec::{Call, Executor, Failure, How};
//! use hapax_store::{Options, memory::Memory};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let executor = Executor::new(Memory::open(Options::default()));
//! let call = Call::local("charge", "order-42")?.body(b"10 EUR");
//! let first = executor.run(call.clone(), |_| async { Ok::<_, Failure>("receipt 7".to_owned()) }).await?;
//! let again = executor.run(call, |_| async { Ok::<_, Failure>("never happens".to_owned()) }).await?;
//! assert_eq!((first.how, again.how), (How::Executed, How::Replayed));
//! assert_eq!(again.value, "receipt 7");
//! # Ok(())
//! # }
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods, reason = "only the `clock` module reads the time"))]

mod attach;
mod call;
mod clock;
mod error;
mod late;
mod lease;
pub mod limits;
mod once;
mod owed;
mod peers;
mod seal;
mod spool;
mod typed;
mod under;

pub use call::{Attach, Attempt, Call, Concluded, Done, Ended, How, OnRelease, Reconciled, Rehash};
pub use error::{Error, Mismatch, Reason};
pub use lease::{Running, WorkResult};
pub use once::{Begun, DeadLetter, Entered, Executor, Held, Settings};
pub use peers::Installation;
pub use seal::Seal;
pub use typed::Failure;
pub use under::Lent;

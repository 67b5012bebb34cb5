//! Stores that commands open by themselves.
//!
//! A URL that names none is misuse; a store that is named and cannot be had is not available, whatever is in the way: a wrong
//! password as much as a server that is away.

use hapax_core::Error;
use hapax_store::{Options, Store};

use super::Failed;

/// Opens a store.
pub(crate) async fn open(url: &str, options: Options) -> Result<Store, Failed> {
    Store::check(url)?;
    Store::open(url, options).await.map_err(not_had)
}

/// The store cannot be had.
pub(crate) fn not_had(error: Error) -> Failed {
    Failed::unavailable(format!("{error:#}"))
}

//! The bounds that the models tell their callers; the server checks them.

/// The longest reason of a decision, in bytes.
pub const REASON_BYTES: usize = 1024;
/// The longest name of a person, of a token or of a key, in bytes.
pub const NAME_BYTES: usize = 128;
/// The largest page.
pub const PAGE_RECORDS: usize = hapax_core::limits::MAX_PAGE;

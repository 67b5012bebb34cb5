//! Listeners that serve an API: a table of endpoints, handlers for them, and who their callers are.
//!
//! What is served and how it is described is in `hapax-api`. Who a caller is and what the handlers do belongs to each listener,
//! such as [`crate::admin`].

pub(crate) mod connections;
pub(crate) mod host;
pub(crate) mod mount;
pub(crate) mod refusal;

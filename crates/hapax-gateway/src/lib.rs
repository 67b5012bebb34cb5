//! The edge: a proxy that makes any HTTP service safe to retry.
//!
//! [`stack`] is the path of one request, read from top to bottom. Everything it needs is in [`settings`], as meant: whoever
//! starts a gateway has read and checked a configuration. What happens under a key is `hapax-tower`'s affair.

pub mod auth;
mod limits;
pub mod settings;

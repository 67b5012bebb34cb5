//! The `hapax` program, started as a user would start it.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a failure")]

mod demo;

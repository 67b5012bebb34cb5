//! The `hapax` program, started as a user would start it.

mod demo;

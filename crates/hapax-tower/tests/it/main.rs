//! The layer around a real axum application.
#![allow(clippy::unwrap_used, reason = "tests")]

mod app;
mod guarded;
mod late;
mod layer;
mod problem;
mod sealed;
mod sizes;

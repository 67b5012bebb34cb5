//! The stores, tested through their ports.

mod embedded;
mod embedded_conformance;
mod memory;

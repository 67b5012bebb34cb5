//! hapax.

fn main() {}

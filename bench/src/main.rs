//! Filled in by a later commit.

fn main() {}

//! The testkit on itself and on the rules of `hapax-core`.

mod edges;
mod model;
mod rules;
mod scenarios;
mod simulation;
mod upstream;

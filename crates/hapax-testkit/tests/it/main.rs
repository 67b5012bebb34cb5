//! The testkit on itself and on the rules of `hapax-core`.

mod edges;
mod model;
mod model_lane;
mod rules;
mod scenarios;
mod simulation;
mod upstream;

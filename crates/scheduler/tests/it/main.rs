//! The scheduler's loop with the real core, on the paused clock, against a server that keeps just enough.
#![allow(clippy::unwrap_used)]

mod small_server; // keeps objects, takes binds and merge patches, writes down what was asked
mod group_life;
mod walks; // what happens to groups and pods

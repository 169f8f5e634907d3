//! The scheduler's loop with the real core, on the paused clock, against a server that keeps just enough.
#![allow(clippy::unwrap_used)]

mod small_server; // keeps objects, takes binds and merge patches, writes down what was asked
mod group_life; // gangs after they were bound
mod overcommit; // nodes that were given too many pods
mod metrics; // what is counted
mod requests; // what would help, in conditions and to whoever asks
mod spans; // decisions in the log
mod walks; // what happens to groups and pods

//! The runtime against a scripted API server, on the paused clock.
#![allow(clippy::unwrap_used)]

mod fake_server; // answers requests from a script and writes down what was asked
mod list_watch;
mod dead_connections;
mod capabilities;
mod election;
mod queue;
mod recorder;

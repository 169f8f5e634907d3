//! The runtime against a scripted API server, on the paused clock.
#![allow(clippy::unwrap_used)]

mod fake_server; // responds from a script and records requests
mod list_watch;
mod dead_connections;
mod capabilities;
mod election;
mod queue;
mod recorder;

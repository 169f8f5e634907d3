//! The scheduler's loop with the real core, on the paused clock, against a minimal fake server.
#![allow(clippy::unwrap_used)]

mod small_server; // a fake server: objects, binds and merge patches, with a log
mod group_life; // gangs after they were bound
mod overcommit; // over-committed nodes
mod metrics; // the metrics
mod requests; // remedies in conditions, and the query API
mod walks; // groups and pods from creation to bind or refusal

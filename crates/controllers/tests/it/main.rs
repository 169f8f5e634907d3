//! Both controllers against the real API server, in one task on the paused clock.
#![allow(clippy::unwrap_used)]

mod gang_job; // from a Job to its objects, its end and its deletion
mod claims; // adoption and release of pods
mod spans; // reconciles in the log
mod test_controllers; // server, caches and controllers around a test

//! The whole control plane on virtual time: server, store, controllers, scheduler and nodes.
#![allow(clippy::unwrap_used)]

mod walk; // one gang Job from submission to the end; read this first
mod gangs; // all or nothing
mod jobs; // counting, failing, deleting, restarting
mod cleanup; // namespaces and groups that go
mod gates; // features and settings, switched while objects live
mod fuzz_seeds; // what fuzzing has found, replayed

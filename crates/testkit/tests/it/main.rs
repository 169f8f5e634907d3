//! The whole control plane on virtual time: server, store, controllers, scheduler and nodes.
#![allow(clippy::unwrap_used)]

mod walk; // one gang Job from submission to the end; read this first
mod gangs; // all or nothing
mod bare; // where there are no groups
mod partial; // where the server drops what a Job asks for
mod jobs; // counting, failing, deleting, restarting
mod cron_jobs; // Jobs at given times
mod leftovers; // Jobs and pods whose time is over
mod cleanup; // namespaces and groups that go
mod groups; // groups as objects of their own
mod objects; // the objects of Jobs: who gets them, whose are used, what suspension leaves
mod compiled; // what the library compiles is what is made
mod composites; // groups of groups
mod gates; // features and settings, switched while objects live
mod faults; // the same while things go wrong between the parts and the server
mod fault_layer; // what each fault does
mod fuzz_seeds; // what fuzzing has found, replayed

//! The whole control plane on virtual time: server, store, controllers, scheduler and nodes.
#![allow(clippy::unwrap_used)]

mod walk; // one gang Job from submission to the end; read this first
mod gangs; // all or nothing
mod jobs; // counting, failing, deleting, restarting

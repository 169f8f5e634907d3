//! The server through `kube::Client`, as every part of the system sees it, on the paused clock.
#![allow(clippy::unwrap_used, missing_docs)]

mod admission;
mod bindings;
mod deletes;
mod discovery;
mod edge;
mod endpoints;
mod expiry;
mod full;
mod gates;
mod home;
mod large;
mod malformed;
mod metadata;
mod new_kinds;
mod older_forms;
mod openapi;
mod protobuf;
mod reads;
mod seeds;
mod strategic;
mod strictness;
mod tables;
mod versions;
mod watches;
mod writes;

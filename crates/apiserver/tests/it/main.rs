//! The server through `kube::Client`, as every part of the system sees it, on the paused clock.
#![allow(clippy::unwrap_used, missing_docs)]

mod bindings;
mod deletes;
mod discovery;
mod edge;
mod full;
mod home;
mod malformed;
mod openapi;
mod reads;
mod strategic;
mod strictness;
mod tables;
mod versions;
mod watches;
mod writes;

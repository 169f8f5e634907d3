//! The server through `kube::Client`, as every part of the system sees it, on the paused clock.
#![allow(clippy::unwrap_used, missing_docs)]

mod bindings;
mod deletes;
mod home;
mod malformed;
mod reads;
mod versions;
mod watches;
mod writes;

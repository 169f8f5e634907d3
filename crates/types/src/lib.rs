//! Types that every crate shares: views of kinds, identifiers, quantities, time and randomness.
//!
//! In: JSON of objects as the API server sends it.
//! Out: views, revisions, quantities, gates.
//! Promises: pure functions; decoding of views is compiled once, here.
//! Never: validation, defaults, I/O, async; reads a clock or draws random numbers itself.
#![doc = concat!("\n\n", include_str!("../README.md"))]

pub mod views; // the fields of each kind that our code reads; read this first
pub mod kinds; // the registry of kinds
pub mod gates; // which features are on
pub mod requests; // the resources that a pod requests
pub mod quantity; // amounts of resources
pub mod clock; // the time, as an argument
pub mod random; // randomness, as an argument
pub mod revision; // versions of objects and of the store
pub mod uid; // object identifiers in compact form
pub mod small_map; // maps of a few entries without spare capacity
pub mod interned_str; // repeated strings, stored once

pub use clock::{Clock, Timestamp};
pub use gates::{Gate, Gates};
pub use interned_str::InternedStr;
pub use random::Random;
pub use revision::Revision;
pub use small_map::SmallMap;
pub use uid::Uid;

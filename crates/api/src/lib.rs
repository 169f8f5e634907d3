//! Kubernetes kinds as Phalanx reads, completes and judges them.
//!
//! In: documents and typed objects of `k8s-openapi`.
//! Out: views, defaulted documents, field errors, builder items.
//! Promises: pure functions; validation names every error with its field path and never stops at the first.
//! Never: I/O, async, a clock or randomness of its own.

pub mod clock; // the time, as an argument
pub mod quantity;
pub mod random; // randomness, as an argument
pub mod revision; // versions of objects and of the store
pub mod views; // kinds as control loops read them; read this first // amounts of resources

pub use clock::{Clock, Timestamp};
pub use random::Random;
pub use revision::Revision;

pub use workloadbuilder::field;

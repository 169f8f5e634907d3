//! Builders, fixtures and [`Home`] for tests.
//!
//! In: a seed and a cluster. Out: a whole control plane on virtual time, and its complete history.
//! Promises: the same seed gives the same history, byte for byte; a test states what must become true, it never sleeps.
//! Never: shipped.

pub mod home; // a control plane for one test
pub mod build; // manifests in a line
pub mod fuzz; // what the fuzz targets check

pub use build::{JobBuilder, PodBuilder, job, pod};
pub use home::{Change, Home};
pub use simulator::on_virtual_time as on_paused_clock;

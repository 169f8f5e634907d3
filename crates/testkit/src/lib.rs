//! Builders, fixtures and [`Home`] for tests.
//!
//! In: a seed and a cluster. Out: a whole control plane on virtual time (or, where `cargo xtask kube test` asks for it, the
//! real one with our parts), and its complete history.
//! Promises: on virtual time the same seed gives the same history, byte for byte; a test states what must become true, it
//! never sleeps.
//! Never: shipped.

pub mod test_cluster; // a control plane for one test
pub mod virtual_time; // the paused clock and the environment of a seed
pub mod builders; // manifests in a line
pub mod fault; // what goes wrong between a part and the server
pub mod fuzz; // what the fuzz targets check

pub use builders::{JobBuilder, PodBuilder, job, pod};
pub use test_cluster::{RecordedWrite, TestCluster, is_on_kube, on_shared_test_cluster, on_test_cluster, seeds};
pub use virtual_time::on_paused_clock;

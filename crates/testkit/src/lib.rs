//! Builders, faults and [`TestCluster`] for tests.
//!
//! In: a seed and a cluster. Out: a whole control plane on virtual time and its complete history. `cargo xtask kube
//! test` selects the real control plane with our components instead.
//! Promises: on virtual time the same seed gives the same history, byte for byte; a test states what must become true
//! and never sleeps.
//! Never: shipped.

pub mod test_cluster; // a control plane for one test
pub mod virtual_time; // the paused clock and the environment of a seed
pub mod builders; // manifests in a line
pub mod fault; // faults between a component and the server
pub mod fuzz; // the checks of the fuzz targets

pub use builders::{JobBuilder, PodBuilder, job, pod};
pub use test_cluster::{RecordedWrite, TestCluster, is_on_kube, on_shared_test_cluster, on_test_cluster, seeds};
pub use virtual_time::on_paused_clock;

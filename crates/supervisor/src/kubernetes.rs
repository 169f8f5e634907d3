//! The programs of Kubernetes, built from the Go module in tests/kube, and a temporary control plane of them.

mod build; // the programs, built into the user's cache folder
mod control_plane; // etcd, kube-apiserver and more, stopped when the value is dropped

pub use build::{PARALLEL, PROGRAMS, ensure_built, folder as programs_folder, has_go};
pub use control_plane::{ControlPlaneConfig, GENERIC_WORKLOAD, KubeControlPlane, TOKEN};

/// The release; tests/kube/go.mod pins the same.
pub const VERSION: &str = "1.37.1";

/// Builds the missing programs. `false` if Go is not installed; in CI that is an error.
pub fn ensure_programs(names: &[&str]) -> anyhow::Result<bool> {
    ensure_built(names, PARALLEL)
}

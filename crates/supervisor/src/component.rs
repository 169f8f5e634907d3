//! `phalanx scheduler`, `controllers` or `nodes` on a running server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::SupervisedProcess;
use crate::guard::guarded;

/// The limit for a start, which includes the creation of nodes.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Starts a component and waits until it is ready.
pub fn start_component(
    phalanx: &Path,
    name: &str,
    options: &[&str],
    kubeconfig: &Path,
    folder: &Path,
) -> anyhow::Result<SupervisedProcess> {
    let mut command = guarded(phalanx)?;
    command.arg(name).args(options).arg("--kubeconfig").arg(kubeconfig);
    let mut process = SupervisedProcess::spawn(name, command, folder)?;
    process.wait_until_ready(START_TIMEOUT)?;
    Ok(process)
}

/// The program under test, which must be built already.
pub fn resolve_program(path: &Path) -> anyhow::Result<PathBuf> {
    let advice = || format!("--phalanx {}: build it first, with cargo build --release", path.display());
    path.canonicalize().with_context(advice)
}

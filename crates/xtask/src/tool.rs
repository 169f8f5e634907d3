//! The programs behind the commands that this one passes on.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;

/// Benchmarks.
pub const BENCH: Tool = Tool { package: "phalanx-bench", is_release: true };
/// Comparisons with the real Kubernetes.
pub const CONFORMANCE: Tool = Tool { package: "phalanx-conformance", is_release: false };
/// End-to-end suites.
pub const E2E: Tool = Tool { package: "phalanx-e2e", is_release: false };

/// A program of this workspace that takes the same commands as `cargo xtask`.
pub struct Tool {
    package: &'static str,
    is_release: bool,
}

/// Arguments that the tool parses, `--help` included.
#[derive(clap::Args)]
pub struct ToolArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

impl Tool {
    /// Builds the tool and becomes it, with the arguments of this process. Returns only when that fails.
    pub fn replace_process(&self) -> anyhow::Result<()> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["run", "--quiet", "--package", self.package, "--manifest-path"]);
        cargo.arg(crate::repository_root()?.join("Cargo.toml"));
        if self.is_release {
            cargo.arg("--release");
        }
        // Not a child: signals and the end of the parent then reach the tool itself.
        let error = cargo.arg("--").args(std::env::args_os().skip(1)).exec();
        Err(error).with_context(|| format!("running {}", self.package))
    }
}

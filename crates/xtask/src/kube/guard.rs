//! A program that does not outlive who started it.
//!
//! A control plane kills its programs when it is dropped; a killed process drops nothing. So each program is started
//! through this one, which asks the system for a SIGKILL at its parent's end and then becomes the program.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Options of the hidden `cargo xtask kube guard`.
#[derive(clap::Args)]
pub struct Args {
    /// Who started it
    #[arg(long)]
    parent: u32,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Becomes the program. Returns only when that fails.
pub fn run(args: &Args) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get());
    // The parent may have ended before the system was asked, and would never be missed.
    ensure!(parent == i32::try_from(args.parent).ok(), "whoever started this has ended");
    let (program, rest) = args.command.split_first().context("no program")?;
    let error = Command::new(program).args(rest).exec();
    Err(error).with_context(|| program.to_string_lossy().into_owned())
}

/// How `program` is called so that it ends with this process. Must be spawned from a thread that lives as long.
pub fn command(program: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["kube", "guard", "--parent", &std::process::id().to_string(), "--"]).arg(program);
    Ok(command)
}

//! A program that ends with the process that started it.
//!
//! A process is killed when its value is dropped, but a killed process drops nothing. So each program is started through
//! the guard. The guard requests a SIGKILL from the system at its parent's end, and then becomes the program.
//!
//! The guard is a second use of the program that starts others ([`crate::main`]). A test has no `main` of its own and
//! finds the guard's program in the environment.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// The program that serves as guard, where it is not this one.
pub const GUARD_VARIABLE: &str = "PHALANX_GUARD";
/// The first argument of a guard; its parent's id, the program and its arguments follow.
const GUARD_ARGUMENT: &str = "guard-child";

/// Becomes the guarded program if this process was started as a guard. Returns `Some` only when that fails.
pub(crate) fn run_if_requested() -> Option<anyhow::Result<()>> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == GUARD_ARGUMENT).then(|| run(arguments))
}

fn run(mut arguments: impl Iterator<Item = OsString>) -> anyhow::Result<()> {
    let starter = arguments.next().context("the id of the parent")?;
    let program = arguments.next().context("the program")?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get().to_string());
    // A parent that ended before the request above would never be noticed.
    ensure!(parent.is_some_and(|parent| starter == *parent), "the process that started this has ended");
    let error = Command::new(&program).args(arguments).exec();
    Err(error).with_context(|| program.to_string_lossy().into_owned())
}

/// A command that runs `program` so that it ends with the thread that spawns it.
pub fn guarded(program: &Path) -> anyhow::Result<Command> {
    let guard = match std::env::var_os(GUARD_VARIABLE) {
        Some(guard) => PathBuf::from(guard),
        None => std::env::current_exe()?,
    };
    let mut command = Command::new(guard);
    command.args([GUARD_ARGUMENT, &std::process::id().to_string()]).arg(program);
    Ok(command)
}

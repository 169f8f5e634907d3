//! `phalanx store check`: is a data directory as it was written?

use std::path::Path;

use store::disk::{OpenError, directory};

use crate::cli;

/// Prints `revision=R objects=N sha256=H`, or what is damaged; returns the exit code.
pub fn command(directory: &Path) -> u8 {
    match store::check(directory) {
        Ok(summary) => {
            println!("{summary}");
            cli::EXIT_DONE
        }
        Err(error) => {
            eprintln!("error: {}", cli::with_causes(&error));
            if let Some(advice) = hint(&error) {
                eprintln!("{advice}");
            }
            cli::EXIT_CANNOT_START
        }
    }
}

/// What to do about a data directory that cannot be opened.
pub fn hint(error: &OpenError) -> Option<&'static str> {
    match error {
        OpenError::Locked { .. } => Some("stop that process, or choose another directory with --data-dir"),
        OpenError::Format { .. } => {
            Some("use the version of phalanx that wrote it, or choose another directory with --data-dir")
        }
        OpenError::Damaged { .. } => {
            Some("put a copy of the directory in its place, or move it away and begin anew; nothing was changed")
        }
        OpenError::RolledBack { .. } => Some(
            "put a copy of the directory in its place; or, to go on without the writes that are lost, remove the file \
             high-water in it: their revisions are then given again, so restart whatever watches; nothing was changed",
        ),
        OpenError::Exposed { .. } => Some(
            "make it this user's alone (chown, chmod go-w) and look at what is in it, or choose another directory with \
             --data-dir",
        ),
        OpenError::Io { source, .. } if directory::is_untrusted(source) => {
            Some("look at what it is and remove it, or choose another directory with --data-dir")
        }
        OpenError::Io { .. } => None,
    }
}

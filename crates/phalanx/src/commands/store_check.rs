//! `phalanx store check`: verifies the checksums of a data directory.

use std::io::ErrorKind;
use std::path::Path;

use store::disk::{OpenError, directory};

use crate::cli;

/// Prints `revision=R objects=N sha256=H`, or the damaged record; returns the exit code.
pub fn command(directory: &Path) -> u8 {
    match store::check(directory) {
        Ok(summary) => {
            println!("{summary}");
            cli::EXIT_DONE
        }
        Err(error) => {
            eprintln!("error: {}", cli::with_causes(&error));
            if let Some(hint) = hint(&error) {
                eprintln!("{hint}");
            }
            cli::EXIT_CANNOT_START
        }
    }
}

/// What to do about a data directory that cannot be opened.
pub fn hint(error: &OpenError) -> Option<&'static str> {
    match error {
        OpenError::Locked { .. } => Some("stop that process, or choose another directory with --data-dir"),
        OpenError::NoData { .. } => Some("pass the directory of a server with --data-dir"),
        OpenError::Format { .. } => {
            Some("use the version of phalanx that wrote it, or choose another directory with --data-dir")
        }
        OpenError::Damaged { .. } => Some(
            "restore the directory from a backup, or move it away and start with an empty one; nothing was changed",
        ),
        OpenError::RolledBack { .. } => Some(
            "restore the directory from a backup; or, to continue without the lost writes, remove the file high-water in \
             it and restart all clients that watch, because revisions are used again; nothing was changed",
        ),
        OpenError::Exposed { .. } => Some(
            "allow only this user to write it (chown, chmod go-w) and check its contents, or choose another directory \
             with --data-dir",
        ),
        OpenError::Io { source, .. } if directory::is_untrusted(source) => {
            Some("check what it is and remove it, or choose another directory with --data-dir")
        }
        OpenError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            Some("run it as the user that owns the directory, or choose another one with --data-dir")
        }
        OpenError::Io { .. } => None,
    }
}

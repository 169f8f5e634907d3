//! Files that only their owner reads, and that are there whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use store::disk::directory;

/// Makes `dir` and what lies above it, for its owner alone. A directory that is there keeps its rights.
pub fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Puts `bytes` into `path` with rights for the owner alone. Whoever reads it sees the old content or the new.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not the path of a file"))?;
    let mut temporary = path.to_owned();
    temporary.set_file_name(format!(".{}.new", name.to_string_lossy()));
    // What a crash left behind may have other rights.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(dir)?.sync_all()
}

/// The content of `path`; `None` when there is no such file. What another user can have written or read is refused, and so
/// is what a link points to: see [`directory::is_untrusted`].
pub fn read(path: &Path) -> io::Result<Option<String>> {
    let mut file = match directory::open_trusted(OpenOptions::new().read(true), path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mode = file.metadata()?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        // Taking the right away now would not take back what was read before.
        let why = format!("it can be read by other users (mode {mode:04o})");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(Some(text))
}

//! Files that only their owner can read, written atomically.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use store::disk::directory;

/// Creates `dir` and its parents, readable by the owner alone. An existing directory keeps its mode.
pub fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Writes `bytes` to `path`, readable by the owner alone. Readers see the old or the new content, never a part of it.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a path of a file"))?;
    let mut temporary = path.to_owned();
    temporary.set_file_name(format!(".{}.new", name.to_string_lossy()));
    // A file that a crash left behind may have another mode.
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

/// The content of `path`; `None` when the file does not exist. Links and files that another user can read or write are
/// refused: see [`directory::is_untrusted`].
pub fn read(path: &Path) -> io::Result<Option<String>> {
    let mut file = match directory::open_trusted(OpenOptions::new().read(true), path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mode = file.metadata()?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        // Changing the mode now would not undo earlier reads.
        let cause = format!("it can be read by other users (mode {mode:04o})");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, cause));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(Some(text))
}

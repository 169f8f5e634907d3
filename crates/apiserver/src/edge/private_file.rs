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

/// The content of `path`, which is for the owner alone afterwards; `None` when there is no such file. What another user
/// can have written is not read, nor what a link points to: see [`directory::is_untrusted`].
pub fn read(path: &Path) -> io::Result<Option<String>> {
    let mut file = match directory::open_trusted(OpenOptions::new().read(true), path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let mut rights = file.metadata()?.permissions();
    if rights.mode() & 0o077 != 0 {
        rights.set_mode(0o600);
        file.set_permissions(rights)?;
    }
    Ok(Some(text))
}

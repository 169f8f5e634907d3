//! The data directory: who may use it, how a file comes to be in it, and how much room its file system has.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::OpenError;

/// The file that holds the objects.
pub const FILE: &str = "objects.redb";
/// The name it has until it is whole.
const FILE_IN_THE_MAKING: &str = "objects.redb.new";
/// Locked by the one process that uses the directory; says its process id.
pub const LOCK: &str = "lock";

/// Tells how many bytes are free; a test may tell what it likes.
pub type Space = Box<dyn FnMut() -> io::Result<u64> + Send>;

/// What is free to this user on the file system of `directory`.
pub fn free_space(directory: &Path) -> Space {
    let directory = directory.to_owned();
    Box::new(move || free_bytes(&directory))
}

#[cfg(unix)]
fn free_bytes(directory: &Path) -> io::Result<u64> {
    let system = rustix::fs::statvfs(directory)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> io::Result<u64> {
    // Nobody was asked: a full disk then shows as a failed write, which is fatal but loses nothing.
    Ok(u64::MAX)
}

/// The right to use a directory, until it is dropped.
pub(crate) struct Lock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] File);

/// Makes the directory, for its owner only, unless it is there.
pub(super) fn make(directory: &Path) -> Result<(), OpenError> {
    if directory.is_dir() {
        return Ok(());
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory).map_err(|source| OpenError::io(directory, source))?;
    match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
        _ => sync_directory(Path::new(".")),
    }
}

/// Keeps other processes out.
pub(crate) fn lock(directory: &Path) -> Result<Lock, OpenError> {
    let path = directory.join(LOCK);
    let fail = |source| OpenError::io(&path, source);
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).create(true).truncate(false).open(&path).map_err(fail)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0).map_err(fail)?;
            writeln!(file, "{}", std::process::id()).map_err(fail)?;
            Ok(Lock(file))
        }
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // Who it is is a courtesy; that it is locked is the point.
            let _ = file.read_to_string(&mut holder);
            Err(OpenError::Locked { directory: directory.to_owned(), pid: holder.trim().parse().ok() })
        }
        Err(TryLockError::Error(source)) => Err(fail(source)),
    }
}

/// The file of a locked directory, made by `fill` when there is none. A crash at any point leaves no file or a whole
/// one: it is filled under another name first.
pub(super) fn file(
    directory: &Path,
    fill: impl FnOnce(&Path, File) -> Result<(), OpenError>,
) -> Result<(PathBuf, File), OpenError> {
    let path = directory.join(FILE);
    if !path.try_exists().map_err(|source| OpenError::io(&path, source))? {
        let making = directory.join(FILE_IN_THE_MAKING);
        let fail = |source| OpenError::io(&making, source);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&making).map_err(fail)?;
        fill(&making, file.try_clone().map_err(fail)?)?;
        file.sync_all().map_err(fail)?;
        fs::rename(&making, &path).map_err(fail)?;
        sync_directory(directory)?;
    }
    let file = OpenOptions::new().read(true).write(true).open(&path);
    file.map(|file| (path.clone(), file)).map_err(|source| OpenError::io(&path, source))
}

/// A name outlives a power cut only when its directory was synced.
fn sync_directory(directory: &Path) -> Result<(), OpenError> {
    let synced = File::open(directory).and_then(|open| open.sync_all());
    synced.map_err(|source| OpenError::io(directory, source))
}

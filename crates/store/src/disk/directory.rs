//! The data directory: its permissions, how its files are created, and the free space of its file system.
//!
//! Nothing in it is opened through a link, and no file that another user can write is trusted.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use types::Revision;

use super::high_water::{self, HighWaterMark};
use super::{DiskError, OpenError};

/// The file with the objects.
pub const OBJECTS_FILE: &str = "objects.redb";
/// Its name until it is complete.
const TEMPORARY_FILE: &str = "objects.redb.new";
/// Locked by the process that uses the directory; contains its process id.
pub const LOCK_FILE: &str = "lock";

/// Returns the free bytes. Tests pass their own.
pub type FreeSpaceProbe = Box<dyn FnMut() -> io::Result<u64> + Send>;

/// The free space of this user on the file system of `directory`.
pub fn free_space_probe(directory: &Path) -> FreeSpaceProbe {
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
    // Free space is unknown here. A full disk then shows as a failed write, which is fatal but loses nothing.
    Ok(u64::MAX)
}

/// The lock of a directory, until it is dropped.
pub(crate) struct DirectoryLock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] File);

/// Creates the directory with access for its owner only, unless it exists. An existing one must not be writable for
/// other users.
pub(super) fn create_if_missing(directory: &Path) -> Result<(), OpenError> {
    if directory.is_dir() {
        return refuse_exposed(directory);
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

fn refuse_exposed(directory: &Path) -> Result<(), OpenError> {
    let metadata = fs::metadata(directory).map_err(|source| OpenError::io(directory, source))?;
    match exposure(&metadata) {
        Some(why) => Err(OpenError::Exposed { directory: directory.to_owned(), why }),
        None => Ok(()),
    }
}

/// How another user (apart from root) can write the file of `metadata`; `None` when no other can.
#[cfg(unix)]
pub fn exposure(metadata: &Metadata) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let (owner, own) = (metadata.uid(), rustix::process::geteuid().as_raw());
    let mode = metadata.mode() & 0o777;
    if owner != own && owner != 0 {
        Some(format!("belongs to another user (uid {owner}, this process runs as {own})"))
    } else {
        (mode & 0o022 != 0).then(|| format!("can be written by other users (mode {mode:04o})"))
    }
}

#[cfg(not(unix))]
pub fn exposure(_: &Metadata) -> Option<String> {
    None
}

/// Opens `path` with `options`; a new file is accessible for its owner only. Refuses symbolic links, anything but
/// regular files, and files with several hard links, which would show our data under other names.
pub fn open_unlinked(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Without NONBLOCK, opening a planted pipe would block.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits().cast_signed());
    }
    let is_link = |_: &io::Error| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    let file = options.open(path).map_err(|error| match is_link(&error) {
        true => io::Error::new(io::ErrorKind::InvalidInput, "it is a link, and links are not followed here"),
        false => error,
    })?;
    let metadata = file.metadata()?;
    let refuse = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    match () {
        () if !metadata.is_file() => refuse("it is not a regular file"),
        () if has_other_names(&metadata) => {
            refuse("it has another name as well (a hard link), and links are not followed here")
        }
        () => Ok(file),
    }
}

#[cfg(unix)]
fn has_other_names(metadata: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(metadata) > 1
}

#[cfg(not(unix))]
fn has_other_names(_: &Metadata) -> bool {
    false
}

/// The same for a file whose content is trusted: refuses one that another user can write.
pub fn open_trusted(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = open_unlinked(options, path)?;
    match exposure(&file.metadata()?) {
        Some(why) => Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("it {why}"))),
        None => Ok(file),
    }
}

/// Whether [`open_unlinked`] or [`open_trusted`] refused the file, and not the system.
pub fn is_untrusted(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::PermissionDenied, io::ErrorKind::InvalidInput];
    error.raw_os_error().is_none() && kinds.contains(&error.kind())
}

/// Locks out other processes.
pub(crate) fn lock(directory: &Path) -> Result<DirectoryLock, OpenError> {
    let path = directory.join(LOCK_FILE);
    let fail = |source| OpenError::io(&path, source);
    let mut options = OpenOptions::new();
    let mut file = open_unlinked(options.read(true).write(true).create(true).truncate(false), &path).map_err(fail)?;
    match file.try_lock() {
        Ok(()) => {
            // The process id is informational. A full disk or a file of another user may prevent writing it.
            let _ = restrict_to_owner(&file);
            let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
            Ok(DirectoryLock(file))
        }
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // The process id is informational; the lock itself decides.
            let _ = file.read_to_string(&mut holder);
            Err(OpenError::Locked { directory: directory.to_owned(), pid: holder.trim().parse().ok() })
        }
        Err(TryLockError::Error(source)) => Err(fail(source)),
    }
}

/// Removes the permissions of other users.
fn restrict_to_owner(file: &File) -> io::Result<()> {
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(())
}

/// The file of a locked directory, created with `fill` if it is missing. A crash leaves no file or a complete one,
/// because it is filled under another name first.
pub(super) fn open_or_create_file(
    directory: &Path,
    fill: impl FnOnce(&Path, File) -> Result<(), OpenError>,
) -> Result<(PathBuf, File), OpenError> {
    let path = directory.join(OBJECTS_FILE);
    if !is_there(&path)? {
        let making = directory.join(TEMPORARY_FILE);
        let fail = |source| OpenError::io(&making, source);
        if is_there(&making)? {
            fs::remove_file(&making).map_err(fail)?;
        }
        let mut options = OpenOptions::new();
        let file = open_unlinked(options.read(true).write(true).create_new(true), &making).map_err(fail)?;
        fill(&making, file.try_clone().map_err(fail)?)?;
        file.sync_all().map_err(fail)?;
        fs::rename(&making, &path).map_err(fail)?;
        sync_directory(directory)?;
    }
    open_existing_file(directory)
}

/// Fails if `directory` has no objects: it was never a data directory, or has lost them.
pub(crate) fn ensure_has_objects(directory: &Path) -> Result<(), OpenError> {
    let file = directory.join(OBJECTS_FILE);
    if is_there(&file)? {
        return Ok(());
    }
    match committed_revision(directory)? {
        Revision::ZERO => Err(OpenError::NoData { directory: directory.to_owned() }),
        committed => Err(OpenError::RolledBack { file, found: Revision::ZERO, committed }),
    }
}

/// The existing file of a directory. It is locked until it is closed, because the lock file may be removed while a
/// process holds it.
pub(crate) fn open_existing_file(directory: &Path) -> Result<(PathBuf, File), OpenError> {
    let path = directory.join(OBJECTS_FILE);
    let fail = |source| OpenError::io(&path, source);
    let file = open_trusted(OpenOptions::new().read(true).write(true), &path).map_err(fail)?;
    match file.try_lock() {
        Ok(()) => Ok((path, file)),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { directory: directory.to_owned(), pid: None }),
        Err(TryLockError::Error(source)) => Err(fail(source)),
    }
}

/// The storage of the high-water mark, created if it is missing.
pub(super) fn open_high_water(directory: &Path) -> Result<FileBackend, OpenError> {
    let path = directory.join(high_water::FILE);
    let is_new = !is_there(&path)?;
    let mut options = OpenOptions::new();
    let opened = open_trusted(options.read(true).write(true).create(true).truncate(false), &path);
    let storage = storage(&path, opened.map_err(|source| OpenError::io(&path, source))?)?;
    if is_new {
        high_water::initialize(&storage).map_err(|error| error.into_open_error(&path))?;
        sync_directory(directory)?;
    }
    // Read here as well, so that a damaged mark is not reported as damaged objects.
    committed_revision(directory)?;
    Ok(storage)
}

/// The last revision that is known to have been committed.
pub(crate) fn committed_revision(directory: &Path) -> Result<Revision, OpenError> {
    let path = directory.join(high_water::FILE);
    if !is_there(&path)? {
        return Ok(Revision::ZERO);
    }
    let opened = open_trusted(OpenOptions::new().read(true), &path);
    let storage = storage(&path, opened.map_err(|source| OpenError::io(&path, source))?)?;
    high_water::ensure_initialized(&storage).map_err(|error| error.into_open_error(&path))?;
    HighWaterMark::new(Box::new(storage)).read().map_err(|error| error.into_open_error(&path))
}

fn storage(path: &Path, file: File) -> Result<FileBackend, OpenError> {
    FileBackend::new(file).map_err(|error| DiskError::from(error).into_open_error(path))
}

/// Whether a file or link of this name exists.
fn is_there(path: &Path) -> Result<bool, OpenError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(OpenError::io(path, source)),
    }
}

/// A new name survives a power failure only after its directory is synced.
fn sync_directory(directory: &Path) -> Result<(), OpenError> {
    let synced = File::open(directory).and_then(|open| open.sync_all());
    synced.map_err(|source| OpenError::io(directory, source))
}

//! The high-water mark: the last committed revision, stored apart from the objects.
//!
//! redb keeps its last two commits and, when the newer one cannot be read, silently falls back to the older one. The
//! mark detects that. It is written after a commit is on disk, so it is never ahead of the disk, and without a sync of
//! its own. It survives the end of the process. After a power failure it may be a few revisions old, which makes it a
//! weaker check but never a wrong one.

use redb::StorageBackend;
use types::Revision;

use super::{DiskError, corrupted};

/// The mark's file.
pub const FILE: &str = "high-water";
/// `<revision, 20 digits> <crc32 of those digits, 8 hex digits>\n`: all marks have the same length.
const BYTES: usize = 30;

/// The mark of one data file.
#[derive(Debug)]
pub(crate) struct HighWaterMark(Box<dyn StorageBackend>);

impl HighWaterMark {
    /// The mark in `storage`.
    pub fn new(storage: Box<dyn StorageBackend>) -> HighWaterMark {
        HighWaterMark(storage)
    }

    /// The highest revision known to be committed; zero for an empty file.
    pub fn read(&self) -> Result<Revision, DiskError> {
        let len = self.0.len().map_err(redb::StorageError::from)?;
        if len == 0 {
            return Ok(Revision::ZERO);
        }
        let mut bytes = [0; BYTES];
        if len != BYTES as u64 {
            return Err(unreadable());
        }
        self.0.read(0, &mut bytes).map_err(redb::StorageError::from)?;
        let digits = std::str::from_utf8(&bytes[..20]).ok().and_then(|digits| digits.parse().ok());
        let revision = digits.map(Revision).ok_or_else(unreadable)?;
        if bytes == encode(revision) { Ok(revision) } else { Err(unreadable()) }
    }

    /// Records that everything up to `revision` is on disk.
    pub fn raise(&self, revision: Revision) {
        // An older mark is a weaker check, and no reason to refuse a stored write.
        let _ = self.0.write(0, &encode(revision));
    }

    /// The same, and syncs it to disk.
    pub fn write_durably(&self, revision: Revision) -> Result<(), DiskError> {
        self.0.write(0, &encode(revision)).map_err(redb::StorageError::from)?;
        Ok(self.0.sync_data().map_err(redb::StorageError::from)?)
    }
}

impl Drop for HighWaterMark {
    fn drop(&mut self) {
        // Without this sync the mark is only as new as the system has written it.
        let _ = self.0.sync_data();
    }
}

/// Writes the mark of an empty store, so that an empty file is always a truncated mark.
pub(crate) fn initialize(storage: &impl StorageBackend) -> Result<(), DiskError> {
    Ok(storage.write(0, &encode(Revision::ZERO)).map_err(redb::StorageError::from)?)
}

/// Fails for an empty file: the mark was truncated.
pub(crate) fn ensure_initialized(storage: &impl StorageBackend) -> Result<(), DiskError> {
    if storage.len().map_err(redb::StorageError::from)? == 0 { Err(unreadable()) } else { Ok(()) }
}

fn encode(revision: Revision) -> [u8; BYTES] {
    let digits = format!("{:020}", revision.0);
    let line = format!("{digits} {:08x}\n", crc32fast::hash(digits.as_bytes()));
    line.as_bytes().try_into().expect("20 digits, a space, 8 digits, a line break")
}

fn unreadable() -> DiskError {
    corrupted("the high-water mark cannot be read; remove it once the objects are known to be complete")
}

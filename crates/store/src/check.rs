//! Checks a data directory without changing it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use redb::Database;
use redb::backends::FileBackend;
use sha2::{Digest, Sha256};
use types::Revision;

use crate::disk::overlay::Overlay;
use crate::disk::{DiskError, Log, OpenError, catch_panics, corrupted, directory, open_database};
use crate::object::{Op, StoreKey, StoredObject};

/// Enough for redb to walk its tree.
const CACHE_BYTES: usize = 16 << 20;

/// The content of an intact data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSummary {
    /// The last revision.
    pub revision: Revision,
    /// The number of objects.
    pub objects: usize,
    /// Over resource, namespace, name and document of every object, sorted by namespace, name and resource. Each
    /// element is preceded by its length (u64, little-endian).
    pub sha256: String,
}

impl fmt::Display for StoreSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision={} objects={} sha256={}", self.revision, self.objects, self.sha256)
    }
}

/// Reads and checks every record in `directory`, lets redb check its own pages, then compares the last revision with
/// the high-water mark. Fails when another process uses the directory. Changes nothing: what redb repairs after a
/// crash is repaired in memory only.
pub fn check(directory: &Path) -> Result<StoreSummary, OpenError> {
    // Before the lock, which creates a file: a directory of another program stays as it is.
    directory::ensure_has_objects(directory)?;
    let _lock = directory::lock(directory)?;
    let (path, file) = directory::open_existing_file(directory)?;
    let summary = summary(file).map_err(|error| error.into_open_error(&path))?;
    match directory::committed_revision(directory)? {
        committed if summary.revision < committed => {
            Err(OpenError::RolledBack { file: path, found: summary.revision, committed })
        }
        _ => Ok(summary),
    }
}

fn summary(file: File) -> Result<StoreSummary, DiskError> {
    let storage = Overlay::new(FileBackend::new(file)?).map_err(redb::StorageError::from)?;
    let mut database = catch_panics(|| open_database(storage, CACHE_BYTES))?;
    // Records first, because their errors name the object. Both checks run before the database is closed, which may
    // panic as well.
    let summary = catch_panics(|| read(&database));
    let is_whole = catch_panics(|| Ok(database.check_integrity()?));
    let closed = catch_panics(|| {
        drop(database);
        Ok(())
    });
    let summary = summary?;
    closed?;
    if is_whole? { Ok(summary) } else { Err(corrupted("a page does not match its checksum")) }
}

fn read(database: &Database) -> Result<StoreSummary, DiskError> {
    let mut objects: BTreeMap<Arc<StoreKey>, Arc<StoredObject>> = BTreeMap::new();
    let mut revision = Revision::ZERO;
    Log::open(database)?.read(&mut |record| {
        revision = record.object.revision;
        match record.op {
            Op::Put => objects.insert(record.object.key.clone(), record.object),
            Op::Delete => objects.remove(&record.object.key),
        };
    })?;
    Ok(StoreSummary { revision, objects: objects.len(), sha256: sha256(objects.values()) })
}

fn sha256<'a>(objects: impl Iterator<Item = &'a Arc<StoredObject>>) -> String {
    let mut hash = Sha256::new();
    for object in objects {
        let StoreKey { resource, namespace, name } = &*object.key;
        for part in [resource.as_bytes(), namespace.as_bytes(), name.as_bytes(), &object.bytes()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

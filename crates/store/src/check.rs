//! Looks through a data directory without changing it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use api::Revision;
use redb::{Database, StorageBackend};
use sha2::{Digest, Sha256};

use crate::disk::{DiskError, Log, OpenError, corrupted, directory, guarded, open_database};
use crate::object::{Key, Op, Stored};

/// Enough for redb to walk its tree.
const CACHE_BYTES: usize = 16 << 20;

/// A data directory is as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The last revision.
    pub revision: Revision,
    /// How many objects there are.
    pub objects: usize,
    /// Over resource, namespace, name and document of every object, in that order by namespace, name and resource;
    /// each part with its length in front (u64, little-endian).
    pub sha256: String,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision={} objects={} sha256={}", self.revision, self.objects, self.sha256)
    }
}

/// Reads every record in `directory` and checks it, then has redb check its own pages. Fails when another process uses
/// the directory. Changes nothing: what redb has to repair after a crash is repaired in memory only.
pub fn check(directory: &Path) -> Result<Summary, OpenError> {
    let _lock = directory::lock(directory)?;
    let path = directory.join(directory::FILE);
    let file = File::open(&path).map_err(|source| OpenError::Io { path: path.clone(), source })?;
    summary(file).map_err(|error| error.about(&path))
}

fn summary(file: File) -> Result<Summary, DiskError> {
    let storage = Untouched::new(file).map_err(redb::StorageError::from)?;
    let mut database = guarded(|| open_database(storage, CACHE_BYTES))?;
    // Records first: they can be named. Both are looked at before the database is let go, which may give up as well.
    let summary = guarded(|| read(&database));
    let is_whole = guarded(|| Ok(database.check_integrity()?));
    let closed = guarded(|| {
        drop(database);
        Ok(())
    });
    let summary = summary?;
    closed?;
    if is_whole? { Ok(summary) } else { Err(corrupted("a page does not match its checksum")) }
}

fn read(database: &Database) -> Result<Summary, DiskError> {
    let mut objects: BTreeMap<Arc<Key>, Arc<Stored>> = BTreeMap::new();
    let mut revision = Revision::ZERO;
    Log::of(database)?.read(&mut |record| {
        revision = record.object.revision;
        match record.op {
            Op::Put => objects.insert(record.object.key.clone(), record.object),
            Op::Delete => objects.remove(&record.object.key),
        };
    })?;
    Ok(Summary { revision, objects: objects.len(), sha256: sha256(objects.values()) })
}

fn sha256<'a>(objects: impl Iterator<Item = &'a Arc<Stored>>) -> String {
    let mut hash = Sha256::new();
    for object in objects {
        let Key { resource, namespace, name } = &*object.key;
        for part in [resource.as_bytes(), namespace.as_bytes(), name.as_bytes(), &object.bytes()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

const PAGE_BYTES: u64 = 4096;

/// A file that is only read; what is written to it stays in memory.
#[derive(Debug)]
struct Untouched(Mutex<Pages>);

#[derive(Debug)]
struct Pages {
    file: File,
    /// How much of the file still shows through: behind this it was cut off, or never was.
    file_len: u64,
    len: u64,
    /// What was written, by page.
    written: BTreeMap<u64, Vec<u8>>,
}

impl Untouched {
    fn new(file: File) -> io::Result<Untouched> {
        let len = file.metadata()?.len();
        Ok(Untouched(Mutex::new(Pages { file, file_len: len, len, written: BTreeMap::new() })))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Pages) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl StorageBackend for Untouched {
    fn len(&self) -> io::Result<u64> {
        Ok(self.with(|pages| pages.len))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|pages| pages.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|pages| pages.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with(|pages| pages.write(offset, data))
    }
}

impl Pages {
    fn read(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset + out.len() as u64 > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.read_file(offset, out)?;
        for (page, within, part) in parts(offset, out.len()) {
            if let Some(written) = self.written.get(&page) {
                let count = part.len();
                out[part].copy_from_slice(&written[within..within + count]);
            }
        }
        Ok(())
    }

    /// What the file has there; zeros behind its end.
    fn read_file(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = usize::try_from(self.file_len.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        let (from_file, behind) = out.split_at_mut(there);
        behind.fill(0);
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.read_exact(from_file)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.len = self.len.max(offset + data.len() as u64);
        for (page, within, part) in parts(offset, data.len()) {
            if !self.written.contains_key(&page) {
                let mut whole = vec![0; PAGE_BYTES as usize];
                self.read_file(page * PAGE_BYTES, &mut whole)?;
                self.written.insert(page, whole);
            }
            let written = self.written.get_mut(&page).expect("inserted when it was missing");
            written[within..within + part.len()].copy_from_slice(&data[part]);
        }
        Ok(())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        if len < self.len {
            // What is cut off reads as zeros should the file grow again.
            self.file_len = self.file_len.min(len);
            self.written.split_off(&len.div_ceil(PAGE_BYTES));
            let within = (len % PAGE_BYTES) as usize;
            if let Some(page) = self.written.get_mut(&(len / PAGE_BYTES)).filter(|_| within > 0) {
                page[within..].fill(0);
            }
        }
        self.len = len;
        Ok(())
    }
}

/// Cuts `length` bytes from `offset` on by page: the page, where in it, and which of the bytes.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = (at % PAGE_BYTES) as usize;
        let count = (length - done).min(PAGE_BYTES as usize - within);
        let part = done..done + count;
        done += count;
        (count > 0).then_some((at / PAGE_BYTES, within, part))
    })
}

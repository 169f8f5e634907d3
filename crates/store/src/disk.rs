//! The store on disk: a log of batches in one redb file. The key is the first revision of a batch, the value all of
//! its records.
//!
//! All objects are in memory, so nothing is looked up here: the log is read once at start and then appended to. One
//! commit is one insert and one sync. Dead records are dropped as part of later commits (`checkpoint`).

pub mod record; // one write as bytes, with its checksum
mod checkpoint; // drops dead records
pub mod directory; // lock, file, free space
pub mod high_water; // the last committed revision, apart from the objects
pub(crate) mod overlay; // a file that stays unchanged until it is known to be intact

use std::error::Error;
use std::io;
use std::ops::{Deref, DerefMut};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition, TableError};
use types::{Revision, Timestamp};

use self::checkpoint::CheckpointPass;
use self::directory::{DirectoryLock, FreeSpaceProbe};
use self::high_water::HighWaterMark;
use self::overlay::Overlay;
use self::record::{BatchReader, DamagedRecord};
use crate::backend::{Backend, BackendError, FreeSpace, LogRecord};
use crate::object::{Op, StoreKey, StoredObject};

/// The first revision of a batch → its records. Always has the batch with the last revision.
const BATCHES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("batches");
/// Metadata of the file.
const FILE_METADATA: TableDefinition<'_, &str, u64> = TableDefinition::new("about");
/// In [`FILE_METADATA`]: the layout.
const FORMAT: &str = "format";
/// In [`FILE_METADATA`]: when the file was created, in seconds since 1970.
const CREATED: &str = "created";

/// The layout that this code writes. A change of [`record`] or of the tables needs a new number.
pub const FORMAT_VERSION: u64 = 2;
/// The oldest layout that it reads. Layout 1 is layout 2 without expiring objects.
const FORMAT_VERSION_OLDEST: u64 = 1;

/// A checkpoint step visits this many times the bytes that its commit writes, so that it gains on the log.
const STEP_PER_WRITTEN: u64 = 4;

/// After a commit that ran out of space, the next one is tried when this much more is free.
const RETRY_FREED_BYTES: u64 = 1 << 20;
/// Or after this many were refused: a quota does not show in the free space.
const MAX_SKIPPED_COMMITS: u32 = 64;

/// Options of the disk backend.
pub struct DiskOptions {
    /// The creation time of the file, if it is created.
    pub now: Timestamp,
    /// Memory for redb's pages. Objects are not read twice, so a little is enough.
    pub cache_bytes: usize,
    /// Below this much free space only writes that free space are accepted.
    pub reserve_bytes: u64,
    /// Returns the free space; if unset, the file system is queried.
    pub free_space_probe: Option<FreeSpaceProbe>,
    /// A checkpoint starts when the log exceeds twice the size of the current objects by this much.
    pub slack_bytes: u64,
    /// The minimum that a checkpoint step visits.
    pub step_bytes: u64,
    /// The storage of the high-water mark; unset: no mark. [`Disk::open`] puts it in the directory.
    pub high_water: Option<Box<dyn StorageBackend>>,
}

impl DiskOptions {
    /// Defaults: 4 MiB of cache, 64 MiB of reserve.
    pub fn new(now: Timestamp) -> DiskOptions {
        DiskOptions {
            now,
            cache_bytes: 4 << 20,
            reserve_bytes: 64 << 20,
            free_space_probe: None,
            slack_bytes: 4 << 20,
            step_bytes: 256 << 10,
            high_water: None,
        }
    }
}

/// The store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses the directory.
    #[error("the data directory {} is in use{}", directory.display(), pid.map_or(String::new(), |pid| format!(" by process {pid}")))]
    Locked {
        /// The directory.
        directory: PathBuf,
        /// The process that uses it, if known.
        pid: Option<u32>,
    },
    /// The directory does not exist or has no objects.
    #[error("{} is not a data directory: it has no file {}", directory.display(), directory::OBJECTS_FILE)]
    NoData {
        /// The directory.
        directory: PathBuf,
    },
    /// The file was written by another version of Phalanx.
    #[error("{} has format {found}; this version of phalanx reads formats {FORMAT_VERSION_OLDEST} to {FORMAT_VERSION}", file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// Its format.
        found: u64,
    },
    /// The file is damaged.
    #[error("{} is damaged", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The damage.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The file is intact, but older than what was committed.
    #[error("{} has lost writes: it ends at revision {found}, and revision {committed} was committed", file.display())]
    RolledBack {
        /// The file.
        file: PathBuf,
        /// Its last revision.
        found: Revision,
        /// The last revision that is known to have been committed.
        committed: Revision,
    },
    /// Other users can change files in the directory.
    #[error("the data directory {} {why}", directory.display())]
    Exposed {
        /// The directory.
        directory: PathBuf,
        /// Which users, and how.
        why: String,
    },
    /// An error of the file system.
    #[error("{}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

impl OpenError {
    fn io(path: &Path, source: io::Error) -> OpenError {
        OpenError::Io { path: path.to_owned(), source }
    }
}

/// Why the disk failed.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The database, or the file below it.
    #[error("the database failed")]
    Database(#[source] redb::Error),
    /// A record.
    #[error(transparent)]
    Damaged(#[from] DamagedRecord),
    /// The free space is unknown.
    #[error("the free space of the data directory is unknown")]
    FreeSpace(#[source] io::Error),
    /// redb panicked on the content of its file.
    #[error("the database panicked: {0}")]
    Panicked(String),
    /// The file ends before a revision that was committed.
    #[error("the file ends at revision {found}, and revision {committed} was committed")]
    RolledBack {
        /// Its last revision.
        found: Revision,
        /// The last revision that is known to have been committed.
        committed: Revision,
    },
    /// The file has another layout.
    #[error(
        "the file has format {0}; this version of phalanx reads formats {FORMAT_VERSION_OLDEST} to {FORMAT_VERSION}"
    )]
    Format(u64),
}

/// Reads or writes through redb. redb checks its pages only after a crash and may panic on damaged ones. The panic
/// becomes an error, so that the process can report it.
pub(crate) fn catch_panics<T>(read: impl FnOnce() -> Result<T, DiskError>) -> Result<T, DiskError> {
    std::panic::catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Err(DiskError::Panicked(text.unwrap_or_default()))
    })
}

impl<E: Into<redb::Error>> From<E> for DiskError {
    fn from(error: E) -> DiskError {
        DiskError::Database(error.into())
    }
}

/// The database until it is closed. Closing is guarded as well, because redb writes then.
struct DatabaseGuard(Option<Database>);

const DATABASE_OPEN: &str = "the database is closed last";

impl Deref for DatabaseGuard {
    type Target = Database;

    fn deref(&self) -> &Database {
        self.0.as_ref().expect(DATABASE_OPEN)
    }
}

impl DerefMut for DatabaseGuard {
    fn deref_mut(&mut self) -> &mut Database {
        self.0.as_mut().expect(DATABASE_OPEN)
    }
}

impl Drop for DatabaseGuard {
    fn drop(&mut self) {
        let database = self.0.take();
        // All acknowledged writes are on disk by now. If closing fails, the next start repairs the file or reports the
        // damage.
        let _ = catch_panics(|| {
            drop(database);
            Ok(())
        });
    }
}

/// A commit ran out of space, which costs a repair of the file. The next ones are refused without being tried.
struct ExhaustedSpace {
    /// The free space then.
    free_bytes: u64,
    /// Commits refused since.
    skipped_commits: u32,
}

/// Stores batches in a redb file.
pub struct Disk {
    database: DatabaseGuard,
    /// The storage below the database.
    overlay: Overlay,
    cache_bytes: usize,
    /// Raised with every commit, once it is on disk.
    high_water: Option<HighWaterMark>,
    /// The last revision of the log.
    last: Revision,
    /// The size of the log.
    log_bytes: u64,
    /// The size of the log with only the current objects.
    live_bytes: u64,
    /// The running checkpoint.
    checkpoint: Option<CheckpointPass>,
    /// The free space before this batch.
    free_space: FreeSpace,
    /// Set while there is no space to write anything.
    exhausted: Option<ExhaustedSpace>,
    free_space_probe: FreeSpaceProbe,
    reserve_bytes: u64,
    slack_bytes: u64,
    step_bytes: u64,
    /// Last, so that it is dropped after the database.
    _lock: Option<DirectoryLock>,
}

impl Disk {
    /// Opens the store in `directory` and creates both if they are missing. No other process can open it until this is
    /// dropped.
    pub fn open(directory: &Path, options: DiskOptions) -> Result<Disk, OpenError> {
        directory::create_if_missing(directory)?;
        let lock = directory::lock(directory)?;
        let (path, file) = directory::open_or_create_file(directory, |path, file| {
            let created =
                FileBackend::new(file).map_err(DiskError::from).and_then(|file| Disk::format(file, options.now));
            created.map_err(|error| error.into_open_error(path))
        })?;
        let high_water = directory::open_high_water(directory)?;
        let options = DiskOptions {
            free_space_probe: options.free_space_probe.or_else(|| Some(directory::free_space_probe(directory))),
            high_water: Some(Box::new(high_water)),
            ..options
        };
        let opened = FileBackend::new(file).map_err(DiskError::from).and_then(|file| Disk::open_storage(file, options));
        let disk = opened.map_err(|error| error.into_open_error(&path))?;
        Ok(Disk { _lock: Some(lock), ..disk })
    }

    /// Creates an empty store on `storage`, which must be empty.
    pub fn format(storage: impl StorageBackend, now: Timestamp) -> Result<(), DiskError> {
        let database = Database::builder().create_with_backend(storage)?;
        let mut write = database.begin_write()?;
        write.set_durability(Durability::Immediate)?;
        write.open_table(BATCHES)?;
        let mut about = write.open_table(FILE_METADATA)?;
        about.insert(FORMAT, FORMAT_VERSION)?;
        about.insert(CREATED, u64::try_from(now.as_second()).unwrap_or(0))?;
        drop(about);
        Ok(write.commit()?)
    }

    /// Opens the store on any `storage`, such as a test's. A storage that is refused is not changed.
    pub fn open_storage(storage: impl StorageBackend, options: DiskOptions) -> Result<Disk, DiskError> {
        let DiskOptions {
            cache_bytes,
            reserve_bytes,
            free_space_probe: space,
            slack_bytes,
            step_bytes,
            high_water,
            ..
        } = options;
        let high_water = high_water.map(HighWaterMark::new);
        let overlay = Overlay::new(storage).map_err(redb::StorageError::from)?;
        let database = DatabaseGuard(Some(catch_panics(|| open_database(overlay.clone(), cache_bytes))?));
        let found = catch_panics(|| Log::open(&database)?.last_revision())?;
        if let Some(high_water) = &high_water {
            let committed = high_water.read()?;
            if found < committed {
                return Err(DiskError::RolledBack { found, committed });
            }
        }
        overlay.write_through().map_err(redb::StorageError::from)?;
        catch_panics(|| upgrade_format(&database))?;
        // A directory from before high-water marks gets its first one here.
        high_water.as_ref().map_or(Ok(()), |high_water| high_water.write_durably(found))?;
        Ok(Disk {
            database,
            overlay,
            cache_bytes,
            high_water,
            last: Revision::ZERO,
            log_bytes: 0,
            live_bytes: 0,
            checkpoint: None,
            free_space: FreeSpace::UNLIMITED,
            exhausted: None,
            free_space_probe: space.unwrap_or_else(|| Box::new(|| Ok(u64::MAX))),
            reserve_bytes,
            slack_bytes,
            step_bytes,
            _lock: None,
        })
    }

    fn append(
        &mut self,
        batch: &[LogRecord],
        is_current: &dyn Fn(&StoreKey, Revision) -> bool,
    ) -> Result<(), DiskError> {
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return Ok(()) };
        let mut value = Vec::new();
        batch.iter().for_each(|record| record::encode(record.op, &record.object, &mut value));
        let written_bytes = value.len() as u64;
        self.begin_checkpoint_if_due();

        let mut write = self.database.begin_write()?;
        // Also redb's default, but the durability of acknowledged writes depends on it.
        write.set_durability(Durability::Immediate)?;
        let mut batches = write.open_table(BATCHES)?;
        batches.insert(first.object.revision.0, value.as_slice())?;
        let budget_bytes = (STEP_PER_WRITTEN * written_bytes).max(self.step_bytes);
        let step =
            self.checkpoint.as_mut().map(|pass| pass.step(&mut batches, budget_bytes, is_current)).transpose()?;
        drop(batches);
        write.commit()?;

        self.record_batch(last.object.revision, batch, written_bytes);
        if let Some(step) = step {
            self.log_bytes -= step.dropped_bytes;
            self.end_checkpoint_if_done(step.is_last)?;
        }
        Ok(())
    }

    /// Updates the totals after a batch is on disk.
    fn record_batch(&mut self, last: Revision, batch: &[LogRecord], written_bytes: u64) {
        self.last = last;
        if let Some(high_water) = &self.high_water {
            high_water.raise(last);
        }
        self.log_bytes += written_bytes;
        for record in batch {
            self.update_live_bytes(record, record.previous.as_deref());
        }
    }

    /// Whether a commit would run out of space like the one before.
    fn is_exhausted(&mut self) -> bool {
        let Some(exhausted) = &mut self.exhausted else { return false };
        exhausted.skipped_commits += 1;
        let may_have_space = self.free_space.free_bytes.saturating_sub(exhausted.free_bytes) >= RETRY_FREED_BYTES;
        if may_have_space || exhausted.skipped_commits > MAX_SKIPPED_COMMITS {
            self.exhausted = None;
        }
        self.exhausted.is_some()
    }

    /// Opens the database again after `batch` ran out of space. The old handle accepts no more writes, but the file is
    /// intact and shows whether the batch is part of it.
    fn recover(&mut self, batch: &[LogRecord]) -> Result<(), BackendError> {
        let found = self.reopen().map_err(BackendError::fatal)?;
        let written = batch.last().map_or(self.last, |record| record.object.revision);
        // A checkpoint that had started restarts from its beginning.
        self.checkpoint = None;
        if found == written {
            if found != self.last {
                let bytes = batch.iter().map(|record| record::encoded_len(&record.object)).sum();
                self.record_batch(found, batch, bytes);
            }
            Ok(())
        } else if found == self.last {
            self.exhausted = Some(ExhaustedSpace { free_bytes: self.free_space.free_bytes, skipped_commits: 0 });
            Err(BackendError::Full(self.free_space))
        } else {
            Err(BackendError::fatal(DiskError::RolledBack { found, committed: self.last }))
        }
    }

    /// Returns the last revision in the file.
    fn reopen(&mut self) -> Result<Revision, DiskError> {
        let staged = |overlay: &Overlay| overlay.stage().map_err(redb::StorageError::from);
        // What the old database does when it is closed no longer matters.
        staged(&self.overlay)?;
        let ended = self.database.0.take();
        let _ = catch_panics(|| {
            drop(ended);
            Ok(())
        });
        staged(&self.overlay)?;
        let database = catch_panics(|| open_database(self.overlay.clone(), self.cache_bytes))?;
        let found = catch_panics(|| Log::open(&database)?.last_revision());
        self.database.0 = Some(database);
        let found = found?;
        self.overlay.write_through().map_err(redb::StorageError::from)?;
        Ok(found)
    }

    /// Starts a checkpoint when more than half of the log is dead records; when space is low, even for less.
    fn begin_checkpoint_if_due(&mut self) {
        let tolerated = if self.free_space.is_low() { self.live_bytes } else { 2 * self.live_bytes };
        if self.checkpoint.is_none() && self.log_bytes > tolerated + self.slack_bytes {
            self.checkpoint = Some(CheckpointPass::up_to(self.last));
        }
    }

    fn end_checkpoint_if_done(&mut self, is_done: bool) -> Result<(), DiskError> {
        if is_done {
            self.checkpoint = None;
            // Space that a checkpoint frees is reused, so the file need not shrink unless the disk is nearly full.
            if self.free_space.is_low() {
                self.database.compact()?;
            }
        }
        Ok(())
    }

    /// Updates the size of the current objects for one record.
    fn update_live_bytes(&mut self, record: &LogRecord, replaced: Option<&StoredObject>) {
        if record.op == Op::Put {
            self.live_bytes += record::encoded_len(&record.object);
        }
        self.live_bytes -= replaced.map_or(0, record::encoded_len);
    }
}

impl Backend for Disk {
    fn scan(&mut self, each: &mut dyn FnMut(LogRecord) -> Option<Arc<StoredObject>>) -> Result<Revision, BackendError> {
        let log = catch_panics(|| Log::open(&self.database)).map_err(BackendError::fatal)?;
        let log_bytes = catch_panics(|| {
            log.read(&mut |record| {
                self.last = record.object.revision;
                let replaced = each(record.clone());
                self.update_live_bytes(&record, replaced.as_deref());
            })
        });
        self.log_bytes = log_bytes.map_err(BackendError::fatal)?;
        Ok(self.last)
    }

    fn free_space(&mut self) -> Result<FreeSpace, BackendError> {
        let free_bytes = (self.free_space_probe)().map_err(|error| BackendError::fatal(DiskError::FreeSpace(error)))?;
        let free_space = FreeSpace { free_bytes, reserve_bytes: self.reserve_bytes };
        self.free_space = free_space;
        Ok(free_space)
    }

    fn commit(
        &mut self,
        batch: &[LogRecord],
        is_current: &dyn Fn(&StoreKey, Revision) -> bool,
    ) -> Result<(), BackendError> {
        if self.is_exhausted() {
            return Err(BackendError::Full(self.free_space));
        }
        match catch_panics(|| self.append(batch, is_current)) {
            Err(_) if self.overlay.failed_only_for_space() => self.recover(batch),
            appended => appended.map_err(BackendError::fatal),
        }
    }
}

/// Opens a database that [`Disk::format`] created.
pub(crate) fn open_database(storage: impl StorageBackend, cache_bytes: usize) -> Result<Database, DiskError> {
    // redb would turn an empty file into a new database, and a lost file would look like a fresh start.
    if storage.len().map_err(redb::StorageError::from)? == 0 {
        return Err(corrupted("the file is empty"));
    }
    let database = Database::builder().set_cache_size(cache_bytes).create_with_backend(storage)?;
    match format_of(&database)? {
        FORMAT_VERSION_OLDEST..=FORMAT_VERSION => Ok(database),
        other => Err(DiskError::Format(other)),
    }
}

fn format_of(database: &Database) -> Result<u64, DiskError> {
    match database.begin_read()?.open_table(FILE_METADATA) {
        Ok(about) => Ok(about.get(FORMAT)?.map_or(0, |format| format.value())),
        Err(TableError::TableDoesNotExist(_)) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Marks an older file with the current layout, so that no older program misreads it.
fn upgrade_format(database: &Database) -> Result<(), DiskError> {
    if format_of(database)? == FORMAT_VERSION {
        return Ok(());
    }
    let mut write = database.begin_write()?;
    write.set_durability(Durability::Immediate)?;
    write.open_table(FILE_METADATA)?.insert(FORMAT, FORMAT_VERSION)?;
    Ok(write.commit()?)
}

pub(crate) fn corrupted(why: &str) -> DiskError {
    redb::StorageError::Corrupted(why.to_owned()).into()
}

/// The log at this moment.
pub(crate) struct Log(redb::ReadOnlyTable<u64, &'static [u8]>);

impl Log {
    pub fn open(database: &Database) -> Result<Log, DiskError> {
        Ok(Log(database.begin_read()?.open_table(BATCHES)?))
    }

    /// The last revision.
    pub fn last_revision(&self) -> Result<Revision, DiskError> {
        let Some((batch, value)) = self.0.last()? else { return Ok(Revision::ZERO) };
        let batch = Revision(batch.value());
        let records = BatchReader::default().read_batch(batch, value.value())?;
        Ok(records.last().map_or(batch, |record| record.revision))
    }

    /// Passes every record to `each` in order of revision. Returns the size of the log.
    pub fn read(&self, each: &mut dyn FnMut(LogRecord)) -> Result<u64, DiskError> {
        let (mut reader, mut bytes, mut last) = (BatchReader::default(), 0, Revision::ZERO);
        for entry in self.0.iter()? {
            let (batch, value) = entry?;
            let batch = Revision(batch.value());
            if batch <= last {
                let why = "its batch overlaps the one before";
                return Err(DamagedRecord { key: None, batch, index: 0, why }.into());
            }
            for raw in reader.read_batch(batch, value.value())? {
                last = raw.revision;
                each(reader.decode(batch, raw)?);
            }
            bytes += value.value().len() as u64;
        }
        Ok(bytes)
    }
}

impl DiskError {
    /// The same error for a caller that opens `file`.
    pub(crate) fn into_open_error(self, file: &Path) -> OpenError {
        let file = file.to_owned();
        match self {
            DiskError::Format(found) => OpenError::Format { file, found },
            DiskError::RolledBack { found, committed } => OpenError::RolledBack { file, found, committed },
            // A file that is not a database, or too short for one, is damaged as well.
            DiskError::Database(redb::Error::Io(source))
                if !matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
            {
                OpenError::Io { path: file, source }
            }
            other => OpenError::Damaged { file, source: Box::new(other) },
        }
    }
}

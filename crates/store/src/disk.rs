//! The store on disk: a log of batches in one redb file, from the first revision of a batch to all of its records.
//!
//! Memory has every object, so nothing is ever looked up here: the log is read once at the start and appended to from
//! then on. One commit is one insert and one wait for the disk. What the log no longer needs goes with the commits
//! (`checkpoint`).

pub mod record; // one write as bytes, with its checksum
mod checkpoint; // drops what no longer counts
pub mod directory; // lock, file, free space
pub mod high_water; // the last committed revision, apart from the objects
pub(crate) mod overlay; // a file that is not changed before it is known to be whole

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

/// The first revision of a batch → its records. Always holds the batch with the last revision.
const BATCHES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("batches");
/// What the file says about itself.
const FILE_METADATA: TableDefinition<'_, &str, u64> = TableDefinition::new("about");
/// In [`ABOUT`]: which layout this is.
const FORMAT: &str = "format";
/// In [`ABOUT`]: when the file was made, in seconds since 1970.
const CREATED: &str = "created";

/// The layout that this code writes. A change of [`record`] or of the tables is a new number.
pub const FORMAT_VERSION: u64 = 2;
/// The oldest layout that it reads: 1 is 2 without objects that expire.
const FORMAT_VERSION_OLDEST: u64 = 1;

/// A step of a checkpoint visits this much more than the commit it is part of has written, so that it gains on the log.
const STEP_PER_WRITTEN: u64 = 4;

/// After a commit that there was no room for, the next one is tried when so much more is free.
const RETRY_FREED_BYTES: u64 = 1 << 20;
/// Or after so many that were not: a quota does not show in the free space.
const MAX_SKIPPED_COMMITS: u32 = 64;

/// How the disk is used.
pub struct DiskOptions {
    /// The time at which the file is made, if it has to be.
    pub now: Timestamp,
    /// Memory for redb's pages. Objects are not read twice, so a little is enough.
    pub cache_bytes: usize,
    /// Below this much free space only writes that free some are taken.
    pub reserve_bytes: u64,
    /// Who tells the free space; unset asks the file system.
    pub free_space_probe: Option<FreeSpaceProbe>,
    /// A checkpoint begins when the log has this much more than twice the size of the current objects.
    pub slack_bytes: u64,
    /// How much a step of a checkpoint visits at least.
    pub step_bytes: u64,
    /// Where the high-water mark is kept; unset keeps none. [`Disk::open`] keeps it in the directory.
    pub high_water: Option<Box<dyn StorageBackend>>,
}

impl DiskOptions {
    /// What serves most: 4 MiB of cache, 64 MiB of reserve.
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
        /// Who uses it, if it said so.
        pid: Option<u32>,
    },
    /// The file was written by another version of Phalanx.
    #[error("{} has format {found}; this version of phalanx reads formats {FORMAT_VERSION_OLDEST} to {FORMAT_VERSION}", file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// Its format.
        found: u64,
    },
    /// The file is not what was once written.
    #[error("{} is damaged", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What was found.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The file is whole, but older than what was once committed.
    #[error("{} has lost writes: it ends at revision {found}, and revision {committed} was committed", file.display())]
    RolledBack {
        /// The file.
        file: PathBuf,
        /// Its last revision.
        found: Revision,
        /// The last revision that is known to have been committed.
        committed: Revision,
    },
    /// Other users can change what is in the directory.
    #[error("the data directory {} {why}", directory.display())]
    Exposed {
        /// The directory.
        directory: PathBuf,
        /// Who can, and how.
        why: String,
    },
    /// The file system said no.
    #[error("{}", path.display())]
    Io {
        /// What was asked for.
        path: PathBuf,
        /// The answer.
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
    /// The database came upon something that it did not expect in its own file.
    #[error("the database gave up: {0}")]
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

/// Reads or writes through redb. It checks its pages only after a crash; on damaged ones it may panic, which is no reason
/// for a process to end without a word.
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

/// The database until it is let go, which is guarded as well: redb tidies up then.
struct DatabaseGuard(Option<Database>);

const DATABASE_OPEN: &str = "the database is let go last";

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
        // What is acknowledged is on disk by now. Without the tidying up, the next start repairs the file or says what
        // is wrong with it.
        let _ = catch_panics(|| {
            drop(database);
            Ok(())
        });
    }
}

/// A commit ran out of room, which costs a repair of the file: the next ones are refused before they are tried.
struct ExhaustedSpace {
    /// What was free then.
    free_bytes: u64,
    /// How many were refused since.
    skipped_commits: u32,
}

/// Keeps batches in a redb file.
pub struct Disk {
    database: DatabaseGuard,
    /// What the database stands on.
    overlay: Overlay,
    cache_bytes: usize,
    /// Told of every commit, once it is on disk.
    high_water: Option<HighWaterMark>,
    /// Where the log ends.
    last: Revision,
    /// How large the log is.
    log_bytes: u64,
    /// How large it would be with nothing but the current objects.
    live_bytes: u64,
    /// The checkpoint under way.
    checkpoint: Option<CheckpointPass>,
    /// What was free before this batch.
    free_space: FreeSpace,
    /// Set while there is no room to write anything down.
    exhausted: Option<ExhaustedSpace>,
    free_space_probe: FreeSpaceProbe,
    reserve_bytes: u64,
    slack_bytes: u64,
    step_bytes: u64,
    /// Last, so that it is let go after the database.
    _lock: Option<DirectoryLock>,
}

impl Disk {
    /// Opens the store in `directory`, and makes both if they are not there. No other process can open it until this
    /// is dropped.
    pub fn open(directory: &Path, options: DiskOptions) -> Result<Disk, OpenError> {
        directory::create_if_missing(directory)?;
        let lock = directory::lock(directory)?;
        let (path, file) = directory::open_or_create_file(directory, |path, file| {
            let made = FileBackend::new(file).map_err(DiskError::from).and_then(|file| Disk::format(file, options.now));
            made.map_err(|error| error.into_open_error(path))
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

    /// Makes an empty store on `storage`, which is empty too.
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

    /// Opens the store on `storage`, whatever that is: a test can be the disk. What is refused is not changed.
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
        // A directory from before there were marks gets its first one here.
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
        // Also redb's default; but what is acknowledged rests on it.
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

    /// Takes note of a batch that is on disk.
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

    /// Whether a commit would run out of room as the one before.
    fn is_exhausted(&mut self) -> bool {
        let Some(exhausted) = &mut self.exhausted else { return false };
        exhausted.skipped_commits += 1;
        let may_have_room = self.free_space.free_bytes.saturating_sub(exhausted.free_bytes) >= RETRY_FREED_BYTES;
        if may_have_room || exhausted.skipped_commits > MAX_SKIPPED_COMMITS {
            self.exhausted = None;
        }
        self.exhausted.is_some()
    }

    /// Opens the database anew after `batch` ran out of room: it takes no more writes, but the file holds what it held,
    /// and tells whether the batch is part of it.
    fn recover(&mut self, batch: &[LogRecord]) -> Result<(), BackendError> {
        let found = self.reopen().map_err(BackendError::fatal)?;
        let written = batch.last().map_or(self.last, |record| record.object.revision);
        // A checkpoint that had begun goes on from its beginning.
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
        // What the database does at its end concerns nobody any more.
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

    /// Begins a checkpoint when more than half of the log is dead weight; when room is short, already for less.
    fn begin_checkpoint_if_due(&mut self) {
        let tolerated = if self.free_space.is_low() { self.live_bytes } else { 2 * self.live_bytes };
        if self.checkpoint.is_none() && self.log_bytes > tolerated + self.slack_bytes {
            self.checkpoint = Some(CheckpointPass::up_to(self.last));
        }
    }

    fn end_checkpoint_if_done(&mut self, is_done: bool) -> Result<(), DiskError> {
        if is_done {
            self.checkpoint = None;
            // What a checkpoint frees is used again, so the file need not shrink, except when others need the room.
            if self.free_space.is_low() {
                self.database.compact()?;
            }
        }
        Ok(())
    }

    /// Takes note of what a record does to the current objects.
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
        let room = FreeSpace { free_bytes, reserve_bytes: self.reserve_bytes };
        self.free_space = room;
        Ok(room)
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

/// Opens a database that [`Disk::format`] made.
pub(crate) fn open_database(storage: impl StorageBackend, cache_bytes: usize) -> Result<Database, DiskError> {
    // redb would make an empty file a new database, and a lost one would look like a fresh start.
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

/// Has an older file say that it holds our layout from now on, so that no older program misreads it.
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

/// The log as it is now.
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

    /// Every record in order of revision. Returns how large the log is.
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
    /// The same for a caller that opens `file`.
    pub(crate) fn into_open_error(self, file: &Path) -> OpenError {
        let file = file.to_owned();
        match self {
            DiskError::Format(found) => OpenError::Format { file, found },
            DiskError::RolledBack { found, committed } => OpenError::RolledBack { file, found, committed },
            // A file that is no database, or too short for one, is damage as well.
            DiskError::Database(redb::Error::Io(source))
                if !matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
            {
                OpenError::Io { path: file, source }
            }
            other => OpenError::Damaged { file, source: Box::new(other) },
        }
    }
}

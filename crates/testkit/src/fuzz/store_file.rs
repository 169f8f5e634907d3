//! The store's file, damaged in any way.
//!
//! Input: a letter for the file, then the damage. `r` is a file of just these bytes; `c` is the file of a store that
//! was closed, `k` that of a store whose process was killed, both damaged by one `Damage` for every four bytes. The
//! capital letters do the same and always check the file.
//!
//! A store opens or returns an error, and never panics. Every object that it serves was once written, byte for byte. A
//! check of the file reports missing objects. Later writes are durable.
//!
//! The high-water mark beside the file is not damaged: damage in the last commit of a file that was not closed looks
//! like a power failure during that commit, and only the mark shows that the commit was acknowledged.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use api::{Revision, Timestamp};
use bytes::Bytes;
use store::disk::{directory, high_water};
use store::{
    Disk, DiskOptions, Document, HistoryLimits, ListQuery, ObjectWrite, Op, Precondition, Store, StoreKey, StoredMeta,
    StoredObject,
};

use super::FuzzOutcome;
use super::in_memory_file::InMemoryFile;

const PAGE_BYTES: usize = 4096;

/// Checks one input.
pub fn check(input: &[u8]) -> FuzzOutcome {
    let Some((letter, rest)) = input.split_first() else { return FuzzOutcome::Refused };
    let bytes = match letter.to_ascii_lowercase() {
        b'c' => with_damage(&HISTORY.closed, rest),
        b'k' => with_damage(&HISTORY.killed, rest),
        _ => rest.to_vec(),
    };
    let mark = || InMemoryFile::new(HISTORY.high_water_mark.clone());
    let opened = open(&InMemoryFile::new(bytes.clone()), &mark());
    if let Some(store) = &opened {
        for stored in objects(store).values() {
            let version = HISTORY.versions.get(&(StoreKey::clone(&stored.key), stored.revision));
            assert_eq!(
                version,
                Some(&stored.bytes()),
                "{} at {} was never written like this",
                stored.key,
                stored.revision
            );
        }
    }
    let is_whole = opened.as_ref().is_some_and(|store| objects(store) == HISTORY.final_objects);
    let is_checked = letter.is_ascii_uppercase() || (opened.is_some() && !is_whole);
    if is_checked && let Ok(summary) = store::check(&write_data_dir(&bytes, &HISTORY.high_water_mark)) {
        assert!(is_whole, "the check finds no damage ({summary}), but objects are missing");
    }
    drop(opened);
    if is_whole { check_further_write(InMemoryFile::new(bytes), mark()) } else { FuzzOutcome::Refused }
}

/// A store with all objects accepts another write and keeps it, or returns an error.
fn check_further_write(image: InMemoryFile, mark: InMemoryFile) -> FuzzOutcome {
    let Some(store) = open(&image, &mark) else { panic!("a store that was opened once can be opened again") };
    let written = commit(&store, vec![put("new", Precondition::Absent, 99)]);
    let before = objects(&store);
    drop(store);
    let Some(written) = written else {
        // Damage may be found only now. From then on no acknowledged write may be missing without an error of the
        // check.
        if let Some(store) = open(&image, &mark) {
            let is_incomplete =
                HISTORY.final_objects.iter().any(|(key, stored)| store.get(key).as_ref() != Some(stored));
            assert!(
                !is_incomplete || store::check(&write_data_dir(&image.bytes(), &mark.bytes())).is_err(),
                "a failed write has lost another one"
            );
        }
        return FuzzOutcome::Refused;
    };
    let disk = disk(&image, &mark).expect("a file that was just written opens");
    let store = Store::open(Box::new(disk), HistoryLimits::default());
    let store = store.expect("a file that was just written can be read");
    assert_eq!(objects(&store), before, "acknowledged writes are kept");
    assert_eq!(store.revision(), written, "the revision continues");
    FuzzOutcome::Accepted
}

/// One damage to a file, in four bytes: the variant, the offset (two bytes), the parameter.
#[derive(Debug)]
enum Damage {
    /// Bits of a byte flip.
    Flip(u8),
    /// A byte is replaced.
    Set(u8),
    /// A page is lost.
    Zero,
    /// A page has the content of another one.
    Misplace(u8),
    /// The file ends here.
    Cut,
    /// Zeros are appended.
    Grow(u8),
}

impl Damage {
    fn from_bytes(what: u8, with: u8) -> Damage {
        match what % 6 {
            0 => Damage::Flip(if with == 0 { 1 } else { with }),
            1 => Damage::Set(with),
            2 => Damage::Zero,
            3 => Damage::Misplace(with),
            4 => Damage::Cut,
            _ => Damage::Grow(with),
        }
    }

    fn apply(&self, bytes: &mut Vec<u8>, at: usize) {
        let page = |at: usize, len: usize| at / PAGE_BYTES * PAGE_BYTES..len.min((at / PAGE_BYTES + 1) * PAGE_BYTES);
        let Some(byte) = bytes.get_mut(at) else { return };
        match self {
            Damage::Flip(bits) => *byte ^= bits,
            Damage::Set(value) => *byte = *value,
            Damage::Zero => {
                let page = page(at, bytes.len());
                bytes[page].fill(0);
            }
            Damage::Misplace(from) => {
                let (to, from) = (page(at, bytes.len()), page(usize::from(*from) * PAGE_BYTES, bytes.len()));
                if to.len() == PAGE_BYTES && from.len() == PAGE_BYTES {
                    bytes.copy_within(from, to.start);
                }
            }
            Damage::Cut => bytes.truncate(at),
            Damage::Grow(pages) => bytes.resize(bytes.len() + usize::from(*pages) * PAGE_BYTES / 4, 0),
        }
    }
}

/// A file and its used offsets: most of a young file is empty, and damage there has no effect.
struct StoreFile {
    bytes: Vec<u8>,
    used_offsets: Vec<usize>,
}

impl StoreFile {
    fn new(bytes: Vec<u8>) -> StoreFile {
        let used_offsets = (0..bytes.len()).filter(|&at| at < 512 || bytes[at] != 0).collect();
        StoreFile { bytes, used_offsets }
    }
}

fn with_damage(whole: &StoreFile, damages: &[u8]) -> Vec<u8> {
    let mut bytes = whole.bytes.clone();
    for &[what, high, low, with] in damages.as_chunks().0 {
        let at = whole.used_offsets[usize::from(u16::from_be_bytes([high, low])) % whole.used_offsets.len()];
        Damage::from_bytes(what, with).apply(&mut bytes, at);
    }
    bytes
}

/// The whole history of a store, and its file at the end.
struct StoreHistory {
    closed: StoreFile,
    killed: StoreFile,
    /// Every version of every object.
    versions: BTreeMap<(StoreKey, Revision), Bytes>,
    /// The objects at the end.
    final_objects: BTreeMap<StoreKey, Arc<StoredObject>>,
    /// The high-water mark at the end.
    high_water_mark: Vec<u8>,
}

static HISTORY: LazyLock<StoreHistory> = LazyLock::new(StoreHistory::record);

impl StoreHistory {
    fn record() -> StoreHistory {
        let (image, mark) = (InMemoryFile::default(), InMemoryFile::default());
        Disk::format(image.clone(), Timestamp::UNIX_EPOCH).expect("memory does not fail");
        let store = open(&image, &mark).expect("a new file opens");
        let mut history = StoreHistory {
            closed: StoreFile::new(Vec::new()),
            killed: StoreFile::new(Vec::new()),
            versions: BTreeMap::new(),
            final_objects: BTreeMap::new(),
            high_water_mark: Vec::new(),
        };
        let many = (0..40).map(|number| put(&format!("pod-{number}"), Precondition::Absent, number));
        let mut revision = commit(&store, many.collect()).expect("memory does not fail");
        history.record_versions(&store);
        for round in 0..12 {
            let name = format!("pod-{}", round % 3);
            let at = store.get(&key(&name)).expect("it was created").revision;
            let mut batch = vec![
                put(&name, Precondition::At(at), 100 + round),
                put(&format!("more-{round}"), Precondition::Absent, round),
            ];
            if round == 7 {
                let gone = key("pod-30");
                let at = store.get(&gone).expect("it was created").revision;
                batch.push(ObjectWrite { op: Op::Delete, ..put("pod-30", Precondition::At(at), 30) });
            }
            revision = commit(&store, batch).expect("memory does not fail");
            history.record_versions(&store);
        }
        assert_eq!(store.revision(), revision);
        history.killed = StoreFile::new(image.bytes());
        history.high_water_mark = mark.bytes();
        history.final_objects = objects(&store);
        drop(store);
        history.closed = StoreFile::new(image.bytes());
        history
    }

    fn record_versions(&mut self, store: &Store) {
        let objects = objects(store).into_values();
        self.versions.extend(objects.map(|stored| ((StoreKey::clone(&stored.key), stored.revision), stored.bytes())));
    }
}

fn disk(image: &InMemoryFile, mark: &InMemoryFile) -> Result<Disk, store::disk::DiskError> {
    // Little slack and small steps, so that there is a checkpoint.
    let options = DiskOptions {
        cache_bytes: 1 << 20,
        slack_bytes: 2 << 10,
        step_bytes: 256,
        high_water: Some(Box::new(mark.clone())),
        ..DiskOptions::new(Timestamp::UNIX_EPOCH)
    };
    Disk::open_storage(image.clone(), options)
}

fn open(image: &InMemoryFile, mark: &InMemoryFile) -> Option<Store> {
    Store::open(Box::new(disk(image, mark).ok()?), HistoryLimits::default()).ok()
}

fn key(name: &str) -> StoreKey {
    StoreKey::new(&"pods".into(), "default", name)
}

fn put(name: &str, expect: Precondition, value: u32) -> ObjectWrite {
    let head = r#"{"metadata":{"resourceVersion":""#;
    let document = Document::new(format!(r#"{head}"}},"value":{value}}}"#).into_bytes(), head.len());
    let meta = StoredMeta {
        uid: format!("uid-{name}").as_str().into(),
        fields: [("status.phase", "Pending")].into_iter().collect(),
        ..StoredMeta::default()
    };
    ObjectWrite { key: key(name), precondition: expect, op: Op::Put, document, meta }
}

/// Commits a batch; `None` if the disk failed.
fn commit(store: &Store, batch: Vec<ObjectWrite>) -> Option<Revision> {
    let results = store.commit(batch, Timestamp::UNIX_EPOCH).ok()?;
    let revisions = results.into_iter().map(|result| result.expect("the precondition holds").revision);
    revisions.max()
}

fn objects(store: &Store) -> BTreeMap<StoreKey, Arc<StoredObject>> {
    let listed =
        store.list(&ListQuery::all(&"pods".into()), &mut |_| true).expect("the current revision is never compacted");
    listed.items.into_iter().map(|stored| (StoreKey::clone(&stored.key), stored)).collect()
}

/// A data directory with this file and this mark. Each thread has its own.
fn write_data_dir(bytes: &[u8], mark: &[u8]) -> PathBuf {
    struct ScratchDir(PathBuf);
    impl Drop for ScratchDir {
        fn drop(&mut self) {
            // A folder left in the system's temporary folder does no harm.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
    fn create() -> ScratchDir {
        let thread = format!("{:?}", std::thread::current().id());
        let number: String = thread.chars().filter(char::is_ascii_digit).collect();
        let folder = std::env::temp_dir().join(format!("phalanx-store-file-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        ScratchDir(folder)
    }
    thread_local!(static FOLDER: ScratchDir = create());
    let write = |folder: &Path| {
        for (file, bytes) in [(directory::OBJECTS_FILE, bytes), (high_water::FILE, mark)] {
            let file = folder.join(file);
            let written = std::fs::write(&file, bytes)
                .and_then(|()| std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)));
            written.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
        folder.to_owned()
    };
    FOLDER.with(|folder| write(&folder.0))
}

//! The file of the store, damaged in any way.
//!
//! Input: a letter for the file, then what is done to it. `r` is a file of just these bytes; `c` is that of a store that
//! was closed, `k` that of one whose process was killed, both damaged by one `Damage` for every four bytes. The capital
//! letters do the same and have the file checked whatever comes out.
//!
//! A store opens or says why not, and never panics. What it shows was once written, exactly; whether something is missing
//! is told by a check of the file. What is written from then on is there the next time.
//!
//! The high-water mark beside the file is whole: damage in the last commit of a file that was not closed looks as if the
//! power had failed during that commit, and only the mark tells that the commit was acknowledged.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use api::{Revision, Timestamp};
use bytes::Bytes;
use store::disk::{directory, high_water};
use store::{Disk, DiskOptions, Document, Expect, Key, Limits, List, Meta, Op, Store, Stored, Write};

use super::Outcome;
use super::image::Image;

const PAGE_BYTES: usize = 4096;

/// Checks one input.
pub fn check(input: &[u8]) -> Outcome {
    let Some((letter, rest)) = input.split_first() else { return Outcome::Refused };
    let bytes = match letter.to_ascii_lowercase() {
        b'c' => damaged(&HISTORY.closed, rest),
        b'k' => damaged(&HISTORY.killed, rest),
        _ => rest.to_vec(),
    };
    let mark = || Image::new(HISTORY.mark.clone());
    let opened = open(&Image::new(bytes.clone()), &mark());
    if let Some(store) = &opened {
        for stored in objects(store).values() {
            let once = HISTORY.written.get(&(Key::clone(&stored.key), stored.revision));
            assert_eq!(once, Some(&stored.bytes()), "{} at {} was never written so", stored.key, stored.revision);
        }
    }
    let is_whole = opened.as_ref().is_some_and(|store| objects(store) == HISTORY.last);
    let is_checked = letter.is_ascii_uppercase() || (opened.is_some() && !is_whole);
    if is_checked && let Ok(summary) = store::check(&on_disk(&bytes, &HISTORY.mark)) {
        assert!(is_whole, "a check finds nothing wrong ({summary}), but something is missing");
    }
    drop(opened);
    if is_whole { write_on(Image::new(bytes), mark()) } else { Outcome::Refused }
}

/// A store that shows everything takes another write and keeps it, or fails in good order.
fn write_on(image: Image, mark: Image) -> Outcome {
    let Some(store) = open(&image, &mark) else { panic!("what could be opened once can be opened twice") };
    let written = commit(&store, vec![put("new", Expect::Absent, 99)]);
    let before = objects(&store);
    drop(store);
    let Some(written) = written else {
        // Damage can come to light only now. Nothing that was acknowledged may be missing from then on, unless it shows.
        if let Some(store) = open(&image, &mark) {
            let lacks = HISTORY.last.iter().any(|(key, stored)| store.get(key).as_ref() != Some(stored));
            assert!(
                !lacks || store::check(&on_disk(&image.bytes(), &mark.bytes())).is_err(),
                "a failed write has cost another one"
            );
        }
        return Outcome::Refused;
    };
    let disk = disk(&image, &mark).expect("a file that was just written opens");
    let store = Store::open(Box::new(disk), Limits::default());
    let store = store.expect("a file that was just written can be read");
    assert_eq!(objects(&store), before, "what was acknowledged is there");
    assert_eq!(store.revision(), written, "the revision goes on");
    Outcome::Accepted
}

/// One thing that happens to a file, as four bytes say it: what, where (two bytes), with what.
#[derive(Debug)]
enum Damage {
    /// Bits of a byte flip.
    Flip(u8),
    /// A byte becomes another.
    Set(u8),
    /// A page is lost.
    Zero,
    /// A page holds what belongs to another one.
    Misplace(u8),
    /// The file ends here.
    Cut,
    /// The file goes on with zeros.
    Grow(u8),
}

impl Damage {
    fn of(what: u8, with: u8) -> Damage {
        match what % 6 {
            0 => Damage::Flip(if with == 0 { 1 } else { with }),
            1 => Damage::Set(with),
            2 => Damage::Zero,
            3 => Damage::Misplace(with),
            4 => Damage::Cut,
            _ => Damage::Grow(with),
        }
    }

    fn happen(&self, bytes: &mut Vec<u8>, at: usize) {
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

/// A file and the places in it that are in use: most of a young file is empty, and damage there is none.
struct Whole {
    bytes: Vec<u8>,
    used: Vec<usize>,
}

impl Whole {
    fn new(bytes: Vec<u8>) -> Whole {
        let used = (0..bytes.len()).filter(|&at| at < 512 || bytes[at] != 0).collect();
        Whole { bytes, used }
    }
}

fn damaged(whole: &Whole, damages: &[u8]) -> Vec<u8> {
    let mut bytes = whole.bytes.clone();
    for &[what, high, low, with] in damages.as_chunks().0 {
        let at = whole.used[usize::from(u16::from_be_bytes([high, low])) % whole.used.len()];
        Damage::of(what, with).happen(&mut bytes, at);
    }
    bytes
}

/// A store's whole life, and its file at the end.
struct History {
    closed: Whole,
    killed: Whole,
    /// Every version that there ever was.
    written: BTreeMap<(Key, Revision), Bytes>,
    /// What there was in the end.
    last: BTreeMap<Key, Arc<Stored>>,
    /// The high-water mark in the end.
    mark: Vec<u8>,
}

static HISTORY: LazyLock<History> = LazyLock::new(History::live);

impl History {
    fn live() -> History {
        let (image, mark) = (Image::default(), Image::default());
        Disk::format(image.clone(), Timestamp::UNIX_EPOCH).expect("memory does not fail");
        let store = open(&image, &mark).expect("a new file opens");
        let mut history = History {
            closed: Whole::new(Vec::new()),
            killed: Whole::new(Vec::new()),
            written: BTreeMap::new(),
            last: BTreeMap::new(),
            mark: Vec::new(),
        };
        let many = (0..40).map(|number| put(&format!("pod-{number}"), Expect::Absent, number));
        let mut revision = commit(&store, many.collect()).expect("memory does not fail");
        history.note(&store);
        for round in 0..12 {
            let name = format!("pod-{}", round % 3);
            let at = store.get(&key(&name)).expect("it was made").revision;
            let mut batch =
                vec![put(&name, Expect::At(at), 100 + round), put(&format!("more-{round}"), Expect::Absent, round)];
            if round == 7 {
                let gone = key("pod-30");
                let at = store.get(&gone).expect("it was made").revision;
                batch.push(Write { op: Op::Delete, ..put("pod-30", Expect::At(at), 30) });
            }
            revision = commit(&store, batch).expect("memory does not fail");
            history.note(&store);
        }
        assert_eq!(store.revision(), revision);
        history.killed = Whole::new(image.bytes());
        history.mark = mark.bytes();
        history.last = objects(&store);
        drop(store);
        history.closed = Whole::new(image.bytes());
        history
    }

    fn note(&mut self, store: &Store) {
        let objects = objects(store).into_values();
        self.written.extend(objects.map(|stored| ((Key::clone(&stored.key), stored.revision), stored.bytes())));
    }
}

fn disk(image: &Image, mark: &Image) -> Result<Disk, store::disk::DiskError> {
    // Little slack and small steps, so that a checkpoint is part of the story.
    let options = DiskOptions {
        cache_bytes: 1 << 20,
        slack_bytes: 2 << 10,
        step_bytes: 256,
        high_water: Some(Box::new(mark.clone())),
        ..DiskOptions::at(Timestamp::UNIX_EPOCH)
    };
    Disk::on(image.clone(), options)
}

fn open(image: &Image, mark: &Image) -> Option<Store> {
    Store::open(Box::new(disk(image, mark).ok()?), Limits::default()).ok()
}

fn key(name: &str) -> Key {
    Key::new(&"pods".into(), "default", name)
}

fn put(name: &str, expect: Expect, value: u32) -> Write {
    let head = r#"{"metadata":{"resourceVersion":""#;
    let document = Document::new(format!(r#"{head}"}},"value":{value}}}"#).into_bytes(), head.len());
    let meta = Meta {
        uid: format!("uid-{name}").as_str().into(),
        fields: [("status.phase", "Pending")].into_iter().collect(),
        ..Meta::default()
    };
    Write { key: key(name), expect, op: Op::Put, document, meta }
}

/// Commits a batch; `None` when the disk failed.
fn commit(store: &Store, batch: Vec<Write>) -> Option<Revision> {
    let answers = store.commit(batch, Timestamp::UNIX_EPOCH).ok()?;
    let revisions = answers.into_iter().map(|answer| answer.expect("the write fits the state").revision);
    revisions.max()
}

fn objects(store: &Store) -> BTreeMap<Key, Arc<Stored>> {
    let listed = store.list(&List::all(&"pods".into()), &mut |_| true).expect("the present is never gone");
    listed.items.into_iter().map(|stored| (Key::clone(&stored.key), stored)).collect()
}

/// A data directory with this file and this mark, one for each thread.
fn on_disk(bytes: &[u8], mark: &[u8]) -> PathBuf {
    struct Folder(PathBuf);
    impl Drop for Folder {
        fn drop(&mut self) {
            // What is left behind in the system's temporary folder harms nobody.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
    fn made() -> Folder {
        let thread = format!("{:?}", std::thread::current().id());
        let number: String = thread.chars().filter(char::is_ascii_digit).collect();
        let folder = std::env::temp_dir().join(format!("phalanx-store-file-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        Folder(folder)
    }
    thread_local!(static FOLDER: Folder = made());
    let write = |folder: &Path| {
        for (file, bytes) in [(directory::FILE, bytes), (high_water::FILE, mark)] {
            let file = folder.join(file);
            let written = std::fs::write(&file, bytes)
                .and_then(|()| std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)));
            written.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        }
        folder.to_owned()
    };
    FOLDER.with(|folder| write(&folder.0))
}

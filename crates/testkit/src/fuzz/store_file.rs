//! The file of the store, damaged in any way.
//!
//! Input: a letter for the file, then what is done to it. `r` is a file of just these bytes; `c` is that of a store that
//! was closed, `k` that of one whose process was killed, both damaged by one `Damage` for every four bytes. The capital
//! letters do the same and have the file checked whatever comes out.
//!
//! A store opens or says why not, and never panics. What it shows was once written, exactly; whether something is missing
//! is told by a check of the file. What is written from then on is there the next time.
//!
//! One loss goes unreported, because nobody can tell: when a file that was not closed has damage in its last commit, it
//! looks as if the power had failed during that commit, and the state before it counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use api::{Revision, Timestamp};
use bytes::Bytes;
use store::disk::directory;
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
    let opened = open(&Image::new(bytes.clone()));
    if let Some(store) = &opened {
        for stored in objects(store).values() {
            let once = HISTORY.written.get(&(Key::clone(&stored.key), stored.revision));
            assert_eq!(once, Some(&stored.bytes()), "{} at {} was never written so", stored.key, stored.revision);
        }
    }
    let is_whole = opened.as_ref().is_some_and(|store| objects(store) == HISTORY.last);
    if letter.is_ascii_uppercase() || (opened.is_some() && !is_whole) {
        let checked = store::check(&on_disk(&bytes));
        // One damage does not make a closed file look like one that was not closed and lost its last commit.
        let may_lack_the_last = *letter == b'k' || *letter == b'K' || rest.len() >= 8;
        if let Ok(summary) = checked {
            let lacks_the_last = opened.as_ref().is_some_and(|store| objects(store) == HISTORY.before_last);
            let is_excused = lacks_the_last && may_lack_the_last;
            assert!(is_whole || is_excused, "a check finds nothing wrong ({summary}), but something is missing");
        }
    }
    drop(opened);
    if is_whole { write_on(Image::new(bytes)) } else { Outcome::Refused }
}

/// A store that shows everything takes another write and keeps it, or fails in good order.
fn write_on(image: Image) -> Outcome {
    let Some(store) = open(&image) else { panic!("what could be opened once can be opened twice") };
    let written = commit(&store, vec![put("new", Expect::Absent, 99)]);
    let before = objects(&store);
    drop(store);
    let Some(written) = written else {
        // Damage can come to light only now. Nothing that was acknowledged may be missing from then on, unless it shows.
        if let Some(store) = open(&image) {
            let lacks = HISTORY.last.iter().any(|(key, stored)| store.get(key).as_ref() != Some(stored));
            assert!(!lacks || store::check(&on_disk(&image.bytes())).is_err(), "a failed write has cost another one");
        }
        return Outcome::Refused;
    };
    let store = Store::open(Box::new(disk(&image).expect("a file that was just written opens")), Limits::default());
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
    /// What there was before the last commit.
    before_last: BTreeMap<Key, Arc<Stored>>,
}

static HISTORY: LazyLock<History> = LazyLock::new(History::live);

impl History {
    fn live() -> History {
        let image = Image::default();
        Disk::format(image.clone(), Timestamp::UNIX_EPOCH).expect("memory does not fail");
        let store = open(&image).expect("a new file opens");
        let mut history = History {
            closed: Whole::new(Vec::new()),
            killed: Whole::new(Vec::new()),
            written: BTreeMap::new(),
            last: BTreeMap::new(),
            before_last: BTreeMap::new(),
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
            history.before_last = objects(&store);
            revision = commit(&store, batch).expect("memory does not fail");
            history.note(&store);
        }
        assert_eq!(store.revision(), revision);
        history.killed = Whole::new(image.bytes());
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

fn disk(image: &Image) -> Result<Disk, store::disk::DiskError> {
    // Little slack and small steps, so that a checkpoint is part of the story.
    let options = DiskOptions {
        cache_bytes: 1 << 20,
        slack_bytes: 2 << 10,
        step_bytes: 256,
        ..DiskOptions::at(Timestamp::UNIX_EPOCH)
    };
    Disk::on(image.clone(), options)
}

fn open(image: &Image) -> Option<Store> {
    Store::open(Box::new(disk(image).ok()?), Limits::default()).ok()
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

/// A data directory with this file, one for each thread.
fn on_disk(bytes: &[u8]) -> PathBuf {
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
        let file = folder.join(directory::FILE);
        std::fs::write(&file, bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        folder.to_owned()
    };
    FOLDER.with(|folder| write(&folder.0))
}

//! The store in a data directory: what is loaded, its permissions, what is refused, and which damage is detected.
#![allow(clippy::unwrap_used)]

mod world;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use phalanx_store::{
    BackendError, Disk, DiskOptions, FreeSpace, HistoryLimits, ListQuery, ObjectWrite, OpenError, Precondition, Store,
    StoredMeta, WriteRefusal,
};
use redb::{Database, TableDefinition};
use types::{Random, Revision};
use world::power::{SimulatedDisk, SyncBehavior};
use world::{at, commit, create, delete, pod, pods, put};

/// A directory that is removed with the test.
struct DataDir(PathBuf);

impl DataDir {
    fn new(name: &str) -> DataDir {
        let path = std::env::temp_dir().join(format!("phalanx-store-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        DataDir(path)
    }

    fn open(&self) -> Store {
        Store::open(Box::new(Disk::open(&self.0, options()).unwrap()), HistoryLimits::default()).unwrap()
    }

    fn file(&self) -> PathBuf {
        self.0.join("objects.redb")
    }

    /// A directory with the files that a kill at this moment leaves.
    fn copy_after_kill(name: &str, of: &DataDir) -> DataDir {
        let directory = DataDir::new(name);
        directory.create();
        for file in ["objects.redb", "high-water"] {
            fs::copy(of.0.join(file), directory.0.join(file)).unwrap();
        }
        directory
    }

    fn create(&self) {
        fs::create_dir(&self.0).unwrap();
        #[cfg(unix)]
        fs::set_permissions(&self.0, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn options() -> DiskOptions {
    DiskOptions::new(at(1_700_000_000))
}

fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |&error| error.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}

#[test]
fn a_store_opened_again_has_the_same_objects_and_goes_on_counting() {
    let directory = DataDir::new("again");
    let store = directory.open();
    let meta = StoredMeta {
        fields: [("spec.nodeName", "n-1")].into_iter().collect(),
        deleting: true,
        ..StoredMeta::default()
    };
    commit(&store, ObjectWrite { meta, ..put(pod("a"), Precondition::Absent, 1) }).unwrap();
    create(&store, "b");
    commit(&store, put(pod("a"), Precondition::At(Revision(1)), 2)).unwrap();
    commit(&store, delete(pod("b"), Precondition::At(Revision(2)), 0)).unwrap();
    let items = store.list(&ListQuery::all(&pods()), &mut |_| true).unwrap().items;
    drop(store);

    let store = directory.open();
    let listed = store.list(&ListQuery::all(&pods()), &mut |_| true).unwrap();
    assert_eq!((listed.revision, listed.items), (Revision(4), items));
    assert_eq!(create(&store, "b"), Revision(5), "the delete was the last write and has a revision");
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_access_the_directory() {
    use std::os::unix::fs::PermissionsExt;
    let directory = DataDir::new("mode");
    directory.open();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&directory.0), 0o700);
    for file in ["objects.redb", "high-water", "lock"] {
        assert_eq!(mode(&directory.0.join(file)), 0o600, "{file}");
    }
    fs::set_permissions(directory.0.join("lock"), PermissionsExt::from_mode(0o644)).unwrap();
    directory.open();
    assert_eq!(mode(&directory.0.join("lock")), 0o600, "as an earlier version left it");
}

#[cfg(unix)]
#[test]
fn files_that_others_can_write_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let directory = DataDir::new("exposed");
    create(&directory.open(), "a");
    for mode in [0o777, 0o1777, 0o770, 0o702] {
        fs::set_permissions(&directory.0, PermissionsExt::from_mode(mode)).unwrap();
        let refused = Disk::open(&directory.0, options()).err().unwrap();
        let text = format!("can be written by other users (mode {:04o})", mode & 0o777);
        assert!(matches!(&refused, OpenError::Exposed { why, .. } if *why == text), "{mode:o}: {refused}");
    }
    fs::set_permissions(&directory.0, PermissionsExt::from_mode(0o755)).unwrap();
    directory.open();
    for file in ["objects.redb", "high-water"] {
        fs::set_permissions(directory.0.join(file), PermissionsExt::from_mode(0o666)).unwrap();
        let text = chain(&Disk::open(&directory.0, options()).err().unwrap());
        assert!(text.ends_with(&format!("{file}: it can be written by other users (mode 0666)")), "{text}");
        fs::set_permissions(directory.0.join(file), PermissionsExt::from_mode(0o600)).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn no_link_in_the_directory_is_followed() {
    let outside = DataDir::new("links-outside");
    outside.create();
    type Link = fn(&Path, &Path) -> io::Result<()>;
    let symbolic: Link = |victim, file| std::os::unix::fs::symlink(victim, file);
    let hard: Link = |victim, file| fs::hard_link(victim, file);
    let kinds = [
        (symbolic, "it is a link, and links are not followed here"),
        (hard, "it has another name as well (a hard link), and links are not followed here"),
    ];
    for file in ["lock", "objects.redb", "objects.redb.new", "high-water"] {
        for (link, why) in kinds {
            let directory = DataDir::new("links");
            directory.create();
            if file == "high-water" {
                directory.open();
                fs::remove_file(directory.0.join(file)).unwrap();
            }
            let victim = outside.0.join("victim");
            fs::write(&victim, "precious").unwrap();
            link(&victim, &directory.0.join(file)).unwrap();
            let opened = Disk::open(&directory.0, options());
            assert_eq!(fs::read_to_string(&victim).unwrap(), "precious", "{file}: {why}");
            match opened {
                Ok(_) => assert_eq!(file, "objects.redb.new", "the leftover of a crash is replaced"),
                Err(error) => {
                    let text = chain(&error);
                    assert!(text.ends_with(&format!("{file}: {why}")), "{text}");
                }
            }
        }
    }
}

#[test]
fn a_removed_lock_file_still_excludes_other_processes() {
    let directory = DataDir::new("lock-removed");
    let store = directory.open();
    create(&store, "a");
    fs::remove_file(directory.0.join("lock")).unwrap();
    let refused = Disk::open(&directory.0, options()).err().unwrap();
    assert!(matches!(refused, OpenError::Locked { pid: None, .. }), "{refused}");
    let refused = phalanx_store::check(&directory.0).err().unwrap();
    assert!(matches!(refused, OpenError::Locked { .. }), "{refused}");
    create(&store, "b");
    drop(store);
    assert_eq!(directory.open().revision(), Revision(2));
}

/// The newer of the two commits in the file of a killed process can no longer be read.
#[test]
fn a_flipped_bit_in_a_commit_slot_never_brings_back_an_older_state() {
    const SLOTS: std::ops::Range<usize> = 64..320;
    let directory = DataDir::new("slots");
    let store = directory.open();
    for number in 0..5 {
        create(&store, &format!("pod-{number}"));
    }
    let killed = DataDir::copy_after_kill("slots-killed", &directory);
    let (bytes, mark) = (fs::read(killed.file()).unwrap(), fs::read(killed.0.join("high-water")).unwrap());
    let (mut refused, mut unnoticed_without_a_mark) = (0, 0);
    for at in SLOTS.step_by(3) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(killed.file(), &flipped).unwrap();
        fs::write(killed.0.join("high-water"), &mark).unwrap();
        let checked = phalanx_store::check(&killed.0);
        assert_eq!(fs::read(killed.file()).unwrap(), flipped, "a check does not change the file");
        match Disk::open(&killed.0, options()) {
            Ok(disk) => {
                let opened = Store::open(Box::new(disk), HistoryLimits::default()).unwrap();
                assert_eq!((opened.revision(), checked.unwrap().revision), (Revision(5), Revision(5)), "byte {at}");
            }
            Err(OpenError::RolledBack { found, committed, .. }) => {
                assert_eq!((found, committed), (Revision(4), Revision(5)), "byte {at}");
                assert!(matches!(checked, Err(OpenError::RolledBack { .. })), "byte {at}: {checked:?}");
                assert_eq!(fs::read(killed.file()).unwrap(), flipped, "a refused file does not change");
                refused += 1;
            }
            Err(other) => assert!(checked.is_err(), "byte {at}: {other}"),
        }
        fs::write(killed.file(), &flipped).unwrap();
        fs::remove_file(killed.0.join("high-water")).unwrap();
        let without = phalanx_store::check(&killed.0).map(|summary| summary.revision);
        unnoticed_without_a_mark += usize::from(without.is_ok_and(|revision| revision < Revision(5)));
    }
    // A third of the newer slot's 128 bytes.
    assert!(refused > 35, "{refused}");
    assert_eq!(unnoticed_without_a_mark, refused, "only the mark detects these");
}

#[test]
fn the_mark_is_checked_and_created_where_it_is_missing() {
    let directory = DataDir::new("mark");
    create(&directory.open(), "a");
    let mark = directory.0.join("high-water");
    let whole = fs::read(&mark).unwrap();
    assert_eq!(std::str::from_utf8(&whole).unwrap().split(' ').next(), Some("00000000000000000001"));
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        fs::write(&mark, flipped).unwrap();
        for refused in
            [Disk::open(&directory.0, options()).err().unwrap(), phalanx_store::check(&directory.0).err().unwrap()]
        {
            assert!(matches!(&refused, OpenError::Damaged { file, .. } if *file == mark), "byte {at}: {refused}");
        }
    }
    for length in [0, 10] {
        fs::write(&mark, &whole[..length]).unwrap();
        for refused in
            [Disk::open(&directory.0, options()).err().unwrap(), phalanx_store::check(&directory.0).err().unwrap()]
        {
            assert!(matches!(&refused, OpenError::Damaged { file, .. } if *file == mark), "{length} bytes: {refused}");
        }
    }
    fs::remove_file(&mark).unwrap();
    phalanx_store::check(&directory.0).unwrap();
    drop(directory.open());
    assert_eq!(fs::read(&mark).unwrap(), whole);
}

#[test]
fn a_directory_in_use_is_refused_with_the_process_that_uses_it() {
    let directory = DataDir::new("lock");
    let store = directory.open();
    let refused = Disk::open(&directory.0, options()).err().unwrap();
    assert!(matches!(&refused, OpenError::Locked { pid: Some(pid), .. } if *pid == std::process::id()), "{refused}");
    assert!(matches!(phalanx_store::check(&directory.0), Err(OpenError::Locked { .. })));
    drop(store);
    directory.open();
}

/// A check of a directory of another program overwrote its file `lock`.
#[test]
fn a_check_leaves_a_directory_without_objects_as_it_is() {
    let directory = DataDir::new("no-data");
    assert!(matches!(phalanx_store::check(&directory.0), Err(OpenError::NoData { .. })), "it does not exist");
    directory.create();
    assert!(matches!(phalanx_store::check(&directory.0), Err(OpenError::NoData { .. })));
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 0, "no file is created");
    fs::write(directory.0.join("lock"), "of another program").unwrap();
    assert!(matches!(phalanx_store::check(&directory.0), Err(OpenError::NoData { .. })));
    assert_eq!(fs::read_to_string(directory.0.join("lock")).unwrap(), "of another program");
}

#[test]
fn a_check_reports_a_lost_file_of_objects_as_lost_writes() {
    let directory = DataDir::new("objects-lost");
    create(&directory.open(), "a");
    fs::remove_file(directory.file()).unwrap();
    let refused = phalanx_store::check(&directory.0).unwrap_err();
    let want = (Revision::ZERO, Revision(1));
    assert!(
        matches!(&refused, OpenError::RolledBack { found, committed, .. } if (*found, *committed) == want),
        "{refused}"
    );
}

#[test]
fn the_leftover_of_a_crash_during_creation_is_replaced() {
    let directory = DataDir::new("making");
    directory.create();
    fs::write(directory.0.join("objects.redb.new"), b"half of it").unwrap();
    create(&directory.open(), "a");
    assert!(!directory.0.join("objects.redb.new").exists());
}

#[test]
fn a_file_that_is_empty_is_damaged_and_not_a_fresh_start() {
    let directory = DataDir::new("empty");
    drop(directory.open());
    fs::write(directory.file(), b"").unwrap();
    assert!(matches!(Disk::open(&directory.0, options()), Err(OpenError::Damaged { .. })));
    fs::write(directory.file(), b"no database at all").unwrap();
    assert!(Disk::open(&directory.0, options()).is_err());
}

#[test]
fn a_file_of_another_format_is_refused_by_its_number() {
    let directory = DataDir::new("format");
    drop(directory.open());
    set_format(&directory, 3);
    let refused = Disk::open(&directory.0, options()).err().unwrap();
    let text = format!("{} has format 3; this version of phalanx reads formats 1 to 2", directory.file().display());
    assert_eq!(refused.to_string(), text);
}

#[test]
fn a_file_of_the_previous_format_is_read_and_upgraded() {
    let directory = DataDir::new("format-before");
    create(&directory.open(), "a");
    set_format(&directory, 1);
    assert_eq!(directory.open().revision(), Revision(1));
    assert_eq!(set_format(&directory, 2), 2);
}

/// Returns the previous format.
fn set_format(directory: &DataDir, format: u64) -> u64 {
    let database = Database::open(directory.file()).unwrap();
    let write = database.begin_write().unwrap();
    let mut about = write.open_table(TableDefinition::<&str, u64>::new("about")).unwrap();
    let before = about.insert("format", format).unwrap().unwrap().value();
    drop(about);
    write.commit().unwrap();
    before
}

#[test]
fn objects_keep_their_expiry_over_restarts() {
    let directory = DataDir::new("expiry");
    let store = directory.open();
    let lasting = |name: &str, expect, value, seconds| {
        let meta = StoredMeta { expires: Some(at(seconds)), ..StoredMeta::default() };
        commit(&store, ObjectWrite { meta, ..put(pod(name), expect, value) }).unwrap().revision
    };
    let names = |store: &Store, seconds, count| -> Vec<String> {
        store.expired(at(seconds), count).iter().map(|object| object.key.name.clone()).collect()
    };
    let renewed = lasting("renewed", Precondition::Absent, 1, 100);
    let unchanged = lasting("unchanged", Precondition::Absent, 1, 100);
    let deleted = lasting("deleted", Precondition::Absent, 1, 100);
    let freed = lasting("freed", Precondition::Absent, 1, 100);
    lasting("later", Precondition::Absent, 1, 150);
    create(&store, "eternal");
    lasting("renewed", Precondition::At(renewed), 2, 200);
    assert_eq!(
        lasting("unchanged", Precondition::At(unchanged), 1, 300),
        unchanged,
        "a write that changes nothing does not extend the expiry"
    );
    commit(&store, delete(pod("deleted"), Precondition::At(deleted), 1)).unwrap();
    commit(&store, put(pod("freed"), Precondition::At(freed), 2)).unwrap();
    let looks = |store: &Store| {
        assert_eq!(store.next_expiry(), Some(at(100)));
        assert_eq!(names(store, 99, 9), [""; 0]);
        assert_eq!(names(store, 100, 9), ["unchanged"]);
        assert_eq!(names(store, 1000, 9), ["unchanged", "later", "renewed"]);
        assert_eq!(names(store, 1000, 2), ["unchanged", "later"], "at most the requested number");
    };
    looks(&store);
    drop(store);
    looks(&directory.open());
}

#[test]
fn check_names_the_record_with_a_flipped_byte() {
    let directory = DataDir::new("check");
    let store = directory.open();
    create(&store, "a");
    create(&store, "b");
    commit(&store, put(pod("c"), Precondition::Absent, 123_454_321)).unwrap();
    drop(store);
    let summary = phalanx_store::check(&directory.0).unwrap();
    assert_eq!((summary.revision, summary.objects, summary.sha256.len()), (Revision(3), 3, 64));

    let mut bytes = fs::read(directory.file()).unwrap();
    for found in find_all(&bytes, b"123454321") {
        bytes[found + 4] ^= 1;
    }
    fs::write(directory.file(), &bytes).unwrap();
    let damaged = phalanx_store::check(&directory.0).unwrap_err();
    let text = chain(&damaged);
    let expected = "is damaged: pods default/c: record 0 of the batch at revision 3 is damaged: its checksum";
    assert!(text.contains(expected), "{text}");
    assert_eq!(fs::read(directory.file()).unwrap(), bytes, "a check does not change the file");
    assert!(
        matches!(Disk::open(&directory.0, options()), Err(OpenError::Damaged { .. })),
        "a damaged file is not served"
    );
}

#[test]
fn a_flipped_bit_anywhere_is_reported_or_changes_nothing() {
    let directory = DataDir::new("flips");
    let store = directory.open();
    let names = (0..100).map(|number| pod(&format!("pod-{number}")));
    store.commit(names.map(|key| put(key, Precondition::Absent, 0)).collect(), at(0)).unwrap();
    drop(store);
    let (whole, bytes) = (phalanx_store::check(&directory.0).unwrap(), fs::read(directory.file()).unwrap());
    let random = Random::seeded(3);
    // Most of a young file is empty. Used bytes are at its start and wherever it is not zero.
    let used: Vec<usize> = (0..bytes.len()).filter(|&at| at < 512 || bytes[at] != 0).collect();
    let mut reported = 0;
    for _ in 0..200 {
        let mut bytes = bytes.clone();
        bytes[used[random.below(used.len() as u64) as usize]] ^= 1 << random.below(8);
        fs::write(directory.file(), &bytes).unwrap();
        match phalanx_store::check(&directory.0) {
            Ok(summary) => assert_eq!(summary, whole),
            Err(_) => reported += 1,
        }
    }
    assert!(reported > 50, "{reported}");
}

fn find_all(bytes: &[u8], wanted: &[u8]) -> Vec<usize> {
    let found: Vec<usize> =
        bytes.windows(wanted.len()).enumerate().filter(|(_, window)| *window == wanted).map(|(at, _)| at).collect();
    assert!(!found.is_empty(), "documents are stored as plain text");
    found
}

#[test]
fn check_has_the_same_checksum_for_the_same_contents() {
    let (one, other) = (DataDir::new("sum-one"), DataDir::new("sum-other"));
    let store = one.open();
    for round in 0..40 {
        let expect = if round == 0 { Precondition::Absent } else { Precondition::At(Revision(round)) };
        commit(&store, put(pod("a"), expect, round as u32)).unwrap();
    }
    drop(store);
    other.create();
    fs::copy(one.file(), other.file()).unwrap();
    let before = phalanx_store::check(&one.0).unwrap();
    assert_eq!(before, phalanx_store::check(&other.0).unwrap());
    let store = other.open();
    commit(&store, put(pod("a"), Precondition::At(Revision(40)), 7)).unwrap();
    drop(store);
    assert_ne!(before.sha256, phalanx_store::check(&other.0).unwrap().sha256);
}

#[test]
fn a_full_disk_accepts_only_writes_that_free_space_and_recovers() {
    let directory = DataDir::new("full");
    let free = Arc::new(AtomicU64::new(u64::MAX));
    let probed = Arc::clone(&free);
    let space = Box::new(move || Ok(probed.load(Ordering::Relaxed)));
    let options = DiskOptions { free_space_probe: Some(space), reserve_bytes: 1_000, ..options() };
    let store = Store::open(Box::new(Disk::open(&directory.0, options).unwrap()), HistoryLimits::default()).unwrap();
    let a = commit(&store, put(pod("a"), Precondition::Absent, 100)).unwrap().revision;
    let b = create(&store, "b");
    create(&store, "c");

    free.store(999, Ordering::Relaxed);
    let full = Err(WriteRefusal::Full(FreeSpace { free_bytes: 999, reserve_bytes: 1_000 }));
    assert_eq!(commit(&store, put(pod("d"), Precondition::Absent, 0)), full, "a create");
    assert_eq!(commit(&store, put(pod("a"), Precondition::At(a), 1_000)), full, "an update that grows");
    let a = commit(&store, put(pod("a"), Precondition::At(a), 999)).expect("no longer than before").revision;
    let a = commit(&store, put(pod("a"), Precondition::At(a), 1)).expect("shorter").revision;
    let deleting = ObjectWrite {
        meta: StoredMeta { deleting: true, ..StoredMeta::default() },
        ..put(pod("b"), Precondition::At(b), 9_999)
    };
    let b = commit(&store, deleting).expect("a deletion timestamp may grow the object").revision;
    commit(&store, delete(pod("b"), Precondition::At(b), 0)).expect("a delete");
    assert!(store.get(&pod("c")).is_some(), "reads continue");

    free.store(1_000, Ordering::Relaxed);
    commit(&store, put(pod("a"), Precondition::At(a), 1_000)).expect("there is space again");
}

#[test]
fn a_failed_disk_ends_writing_and_acknowledges_nothing() {
    let random = Random::seeded(1);
    for operations in 0..12 {
        let platter = SimulatedDisk::new(Vec::new(), SyncBehavior::Honest, &random);
        Disk::format(platter.clone(), at(0)).unwrap();
        let disk = Disk::open_storage(platter.clone(), options()).unwrap();
        let store = Store::open(Box::new(disk), HistoryLimits::default()).unwrap();
        create(&store, "a");
        platter.fail_after(operations);
        let names = (0..100).map(|number| format!("pod-{number}"));
        let (mut kept, mut failed) = (1, None);
        for name in names {
            match store.commit(vec![put(pod(&name), Precondition::Absent, 0)], at(0)) {
                Ok(_) => kept += 1,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        assert!(matches!(failed, Some(BackendError::Fatal(_))), "{operations}: {failed:?}");
        assert_eq!(store.revision(), Revision(kept), "{operations}: a failed write is not visible");
        drop(store);
        let image = SimulatedDisk::new(platter.image(), SyncBehavior::Honest, &random);
        let disk = Disk::open_storage(image, options()).unwrap();
        let store = Store::open(Box::new(disk), HistoryLimits::default()).unwrap();
        assert!(store.revision() >= Revision(kept), "{operations}: acknowledged writes are stored");
    }
}

#[test]
fn a_disk_without_any_space_refuses_deletes_too_and_continues() {
    let random = Random::seeded(1);
    let (mut refused, mut taken) = (0, 0);
    for space in (0..400_000).step_by(9_999) {
        let (platter, mark) = (
            SimulatedDisk::new(Vec::new(), SyncBehavior::Honest, &random),
            SimulatedDisk::new(Vec::new(), SyncBehavior::Honest, &random),
        );
        Disk::format(platter.clone(), at(0)).unwrap();
        let open = |platter: &SimulatedDisk, mark: &SimulatedDisk| {
            let options = DiskOptions {
                high_water: Some(Box::new(mark.clone())),
                free_space_probe: Some(Box::new(|| Ok(0))),
                slack_bytes: 2_000,
                step_bytes: 0,
                ..options()
            };
            Store::open(Box::new(Disk::open_storage(platter.clone(), options).unwrap()), HistoryLimits::default())
                .unwrap()
        };
        let mut kept: BTreeMap<String, Revision> = BTreeMap::new();
        {
            let plenty = DiskOptions { high_water: Some(Box::new(mark.clone())), ..options() };
            let disk = Disk::open_storage(platter.clone(), plenty).unwrap();
            let store = Store::open(Box::new(disk), HistoryLimits::default()).unwrap();
            kept.extend(
                (0..20).map(|number| format!("pod-{number}")).map(|name| (name.clone(), create(&store, &name))),
            );
        }
        let store = open(&platter, &mark);
        platter.set_free_bytes(Some(space));
        for (name, revision) in kept.clone() {
            match commit(&store, delete(pod(&name), Precondition::At(revision), 0)) {
                Ok(_) => {
                    kept.remove(&name);
                    taken += 1;
                }
                Err(WriteRefusal::Full(_)) => refused += 1,
                Err(other) => panic!("{space}: {other:?}"),
            }
        }
        let names = |store: &Store| -> Vec<String> {
            let listed = store.list(&ListQuery::all(&pods()), &mut |_| true).unwrap();
            listed.items.iter().map(|object| object.key.name.clone()).collect()
        };
        let expected: Vec<String> = kept.keys().cloned().collect();
        assert_eq!(names(&store), expected, "{space}");
        // The image of a power cut now, and what can be written once there is space.
        let (image, mark_image) = (platter.image(), mark.image());
        let after_a_cut = open(
            &SimulatedDisk::new(image, SyncBehavior::Honest, &random),
            &SimulatedDisk::new(mark_image, SyncBehavior::Honest, &random),
        );
        assert_eq!((names(&after_a_cut), after_a_cut.revision()), (expected, store.revision()), "{space}");
        platter.set_free_bytes(None);
        // The store does not learn that there is space, so some writes are refused without being tried.
        for (name, revision) in &kept {
            let delete = || commit(&store, delete(pod(name), Precondition::At(*revision), 0));
            assert!((0..100).any(|_| delete().is_ok()), "{space}: {name}");
        }
        assert_eq!(names(&store), [""; 0], "{space}");
    }
    assert!(refused > 100 && taken > 100, "{refused} refused, {taken} taken");
}

#[test]
fn unknown_free_space_is_fatal() {
    let directory = DataDir::new("space");
    let space = Box::new(|| Err(io::Error::other("gone")));
    let disk = Disk::open(&directory.0, DiskOptions { free_space_probe: Some(space), ..options() }).unwrap();
    let store = Store::open(Box::new(disk), HistoryLimits::default()).unwrap();
    assert!(matches!(store.commit(vec![put(pod("a"), Precondition::Absent, 0)], at(0)), Err(BackendError::Fatal(_))));
}

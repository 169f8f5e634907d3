//! Power cuts: the store runs on a disk that loses, reorders and tears what was not synced, and is opened again from
//! the image that each cut leaves. `PHALANX_CRASH_CUTS` sets the number of cuts, `PHALANX_CRASH_SEED` the first of the
//! 24 seeds: `PHALANX_CRASH_CUTS=100000 cargo test -p phalanx-store --test crash`.
#![allow(clippy::unwrap_used)]

mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use phalanx_store::{
    Disk, DiskOptions, Document, HistoryLimits, ListQuery, ObjectWrite, Op, Precondition, Store, StoredMeta,
    StoredObject,
};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use types::{Random, Revision};
use world::power::{SimulatedDisk, SyncBehavior};
use world::{at, pod, pods};

const SEEDS: u64 = 24;
const THREADS: u64 = 4;
const DEFAULT_CUTS: usize = 6_000;

/// Small, so that a checkpoint is always near and takes several commits.
const SLACK_BYTES: u64 = 6_000;

#[test]
fn no_power_cut_loses_an_acknowledged_write() {
    let wanted: usize = std::env::var("PHALANX_CRASH_CUTS").map_or(DEFAULT_CUTS, |count| count.parse().unwrap());
    let first_seed: u64 = std::env::var("PHALANX_CRASH_SEED").map_or(0, |seed| seed.parse().unwrap());
    let cuts = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for first in 0..THREADS {
            let cuts = &cuts;
            scope.spawn(move || {
                for seed in (first_seed + first..first_seed + SEEDS).step_by(THREADS as usize) {
                    let mut run = CrashRun::new(seed, SyncBehavior::Honest);
                    while run.cuts < wanted.div_ceil(SEEDS as usize) {
                        run.commit_with_cuts();
                    }
                    assert!(run.failures.is_empty(), "seed {seed}: {:?}", run.failures);
                    run.assert_log_is_bounded();
                    cuts.fetch_add(run.cuts, Ordering::Relaxed);
                }
            });
        }
    });
    let cuts = cuts.into_inner();
    println!("cases: {cuts}");
    assert!(cuts >= wanted);
}

/// The opposite, which shows that the test above can detect a loss.
#[test]
fn without_syncs_the_same_power_cuts_lose_writes() {
    let mut run = CrashRun::new(1, SyncBehavior::Ignored);
    while run.cuts < 100 {
        run.commit_with_cuts();
    }
    assert!(run.failures.len() > 50, "{} of {} cuts lost something: {:?}", run.failures.len(), run.cuts, run.failures);
}

/// The visible content of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StoreContents {
    revision: Revision,
    objects: Vec<Arc<StoredObject>>,
}

fn contents(store: &Store) -> StoreContents {
    let listed = store.list(&ListQuery::all(&pods()), &mut |_| true).unwrap();
    StoreContents { revision: listed.revision, objects: listed.items }
}

struct CrashRun {
    seed: u64,
    random: Random,
    platter: SimulatedDisk,
    /// The disk of the high-water mark.
    mark: SimulatedDisk,
    /// Unset only while the store is reopened.
    store: Option<Store>,
    /// The number of power cuts.
    cuts: usize,
    /// The failures after them.
    failures: Vec<String>,
    written_bytes: u64,
}

impl CrashRun {
    fn new(seed: u64, syncs: SyncBehavior) -> CrashRun {
        let random = Random::seeded(seed);
        // A file is created under another name, so a cut during creation leaves none. Here it is complete from the
        // start.
        let created = SimulatedDisk::new(Vec::new(), SyncBehavior::Honest, &random);
        Disk::format(created.clone(), at(0)).unwrap();
        let platter = SimulatedDisk::new(created.image(), syncs, &random);
        platter.cut_one_in(4);
        let mark = SimulatedDisk::new(Vec::new(), SyncBehavior::Honest, &random);
        let store = Some(open(&platter, &mark, &random).unwrap());
        CrashRun { seed, random, platter, mark, store, cuts: 0, failures: Vec::new(), written_bytes: 0 }
    }

    /// Commits one batch. Cuts during the commit leave the state before or after it, later cuts the state after it.
    fn commit_with_cuts(&mut self) {
        let store = self.store.as_ref().unwrap();
        let before = contents(store);
        let batch = self.batch(&before);
        let mark_before = self.mark.image();
        let results = store.commit(batch, at(0)).unwrap();
        self.written_bytes += results.iter().flatten().map(|object| object.size() as u64).sum::<u64>();
        let after = contents(store);
        for image in self.platter.take_images() {
            self.verify(image, mark_before.clone(), &[&before, &after]);
        }
        self.verify(self.platter.image(), self.mark.image(), &[&after]);
        if self.random.below(20) == 0 {
            self.reopen(&after);
        }
    }

    /// Stops cleanly and starts again; cuts meanwhile lose nothing either.
    fn reopen(&mut self, expected: &StoreContents) {
        self.store = None;
        let store = open(&self.platter, &self.mark, &self.random).unwrap();
        assert_eq!(contents(&store), *expected, "seed {}", self.seed);
        self.store = Some(store);
        for image in self.platter.take_images() {
            self.verify(image, self.mark.image(), &[expected]);
        }
    }

    /// Opens the image of a cut. Its content must be one of `allowed`, and writing must continue from there, on a disk
    /// whose power fails too.
    fn verify(&mut self, image: Vec<u8>, mark: Vec<u8>, allowed: &[&StoreContents]) {
        self.cuts += 1;
        let platter = SimulatedDisk::new(image, SyncBehavior::Honest, &self.random);
        let mark = SimulatedDisk::new(mark, SyncBehavior::Honest, &self.random);
        let cut_again = self.random.below(8) == 0;
        platter.cut_one_in(if cut_again { 6 } else { 0 });
        let store = match open(&platter, &mark, &self.random) {
            Ok(store) => store,
            Err(error) => return self.failures.push(format!("cannot be opened: {error}")),
        };
        let found = contents(&store);
        if !allowed.contains(&&found) {
            let revisions: Vec<Revision> = allowed.iter().map(|shown| shown.revision).collect();
            return self.failures.push(format!("revision {} instead of one of {revisions:?}", found.revision));
        }
        if !cut_again {
            return;
        }
        let mark_then = mark.image();
        let write = ObjectWrite { op: Op::Put, ..write("after-the-cut", Precondition::Absent, 10) };
        let created = store.commit(vec![write], at(0)).unwrap().remove(0);
        assert!(created.is_err() || created.unwrap().revision > found.revision, "a revision is given twice");
        let after = contents(&store);
        for image in platter.take_images() {
            self.cuts += 1;
            let platter = SimulatedDisk::new(image, SyncBehavior::Honest, &self.random);
            // These cuts happened while the store was opened or wrote, before the mark was raised.
            let mark = SimulatedDisk::new(mark_then.clone(), SyncBehavior::Honest, &self.random);
            match open(&platter, &mark, &self.random).map(|store| contents(&store)) {
                Ok(again) if again == found || again == after => {}
                other => self.failures.push(format!("second cut: {other:?}")),
            }
        }
    }

    /// Up to six creates, updates and deletes over a few names.
    fn batch(&self, before: &StoreContents) -> Vec<ObjectWrite> {
        let current: BTreeMap<&str, Revision> =
            before.objects.iter().map(|object| (object.key.name.as_str(), object.revision)).collect();
        (0..=self.random.below(6))
            .map(|_| {
                let name = format!("pod-{}", self.random.below(12));
                let expect =
                    current.get(name.as_str()).map_or(Precondition::Absent, |&revision| Precondition::At(revision));
                let is_delete = expect != Precondition::Absent && self.random.below(3) == 0;
                let op = if is_delete { Op::Delete } else { Op::Put };
                ObjectWrite { op, ..write(&name, expect, self.random.below(2_500) as usize) }
            })
            .collect()
    }

    /// The test is meaningful only if checkpoints were cut too.
    fn assert_log_is_bounded(&self) {
        let shown = contents(self.store.as_ref().unwrap());
        let live_bytes: u64 = shown.objects.iter().map(|object| object.size() as u64 + 100).sum();
        let platter = SimulatedDisk::new(self.platter.image(), SyncBehavior::Honest, &self.random);
        let database = Database::builder().create_with_backend(platter).unwrap();
        let batches: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("batches");
        let table = database.begin_read().unwrap().open_table(batches).unwrap();
        let log_bytes: u64 = table.iter().unwrap().map(|entry| entry.unwrap().1.value().len() as u64).sum();
        // During a pass the log grows by a quarter of what the pass visits, and by a few batches.
        assert!(log_bytes < 3 * live_bytes + 4 * SLACK_BYTES + 30_000, "seed {}: {log_bytes} {live_bytes}", self.seed);
        assert!(2 * log_bytes < self.written_bytes, "seed {}: no checkpoint in {}", self.seed, self.written_bytes);
    }
}

fn write(name: &str, expect: Precondition, pad: usize) -> ObjectWrite {
    let head = r#"{"metadata":{"resourceVersion":""#;
    let text = format!(r#"{head}"}},"name":"{name}","pad":"{}"}}"#, "x".repeat(pad));
    let meta = StoredMeta {
        uid: format!("uid-{pad}").as_str().into(),
        labels: [("pad", pad.to_string())].into(),
        ..StoredMeta::default()
    };
    ObjectWrite {
        key: pod(name),
        precondition: expect,
        op: Op::Put,
        document: Document::new(text.into_bytes(), head.len()),
        meta,
    }
}

/// Space runs out now and then, which makes the store shrink its file.
fn open(platter: &SimulatedDisk, mark: &SimulatedDisk, random: &Random) -> Result<Store, String> {
    let random = random.clone();
    let options = DiskOptions {
        free_space_probe: Some(Box::new(move || Ok(if random.below(10) == 0 { 0 } else { u64::MAX }))),
        slack_bytes: SLACK_BYTES,
        step_bytes: 0,
        high_water: Some(Box::new(mark.clone())),
        ..DiskOptions::new(at(0))
    };
    let disk = Disk::open_storage(platter.clone(), options).map_err(|error| format!("{error:?}"))?;
    Store::open(Box::new(disk), HistoryLimits::default()).map_err(|error| format!("{error:?}"))
}

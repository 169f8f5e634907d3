//! Power cuts: the store runs on a disk that loses, reorders and tears what was not synced, and is opened again from
//! what each cut leaves behind. More cuts than usual: `PHALANX_CRASH_CUTS=100000 cargo test -p store --test crash`.
#![allow(clippy::unwrap_used)]

mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use api::{Random, Revision};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use store::{Disk, DiskOptions, Document, Expect, Limits, List, Meta, Op, Store, Stored, Write};
use world::power::{Platter, Syncs};
use world::{at, pod, pods};

const SEEDS: u64 = 24;
const THREADS: u64 = 4;
const CUTS_DEFAULT: usize = 6_000;

/// Small enough that a checkpoint is always near, and takes several commits.
const SLACK_BYTES: u64 = 6_000;

#[test]
fn no_power_cut_loses_an_acknowledged_write() {
    let wanted: usize = std::env::var("PHALANX_CRASH_CUTS").map_or(CUTS_DEFAULT, |count| count.parse().unwrap());
    let cuts = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for first in 0..THREADS {
            let cuts = &cuts;
            scope.spawn(move || {
                for seed in (first..SEEDS).step_by(THREADS as usize) {
                    let mut run = Run::new(seed, Syncs::Honestly);
                    while run.cuts < wanted.div_ceil(SEEDS as usize) {
                        run.commit_with_cuts();
                    }
                    assert!(run.found.is_empty(), "seed {seed}: {:?}", run.found);
                    run.assert_log_is_bounded();
                    cuts.fetch_add(run.cuts, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(cuts.into_inner() >= wanted);
}

/// The opposite, so that the test above is known to see a loss.
#[test]
fn without_syncs_the_same_power_cuts_lose_writes() {
    let mut run = Run::new(1, Syncs::Never);
    while run.cuts < 100 {
        run.commit_with_cuts();
    }
    assert!(run.found.len() > 50, "{} of {} cuts lost something: {:?}", run.found.len(), run.cuts, run.found);
}

/// All that a store shows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    revision: Revision,
    objects: Vec<Arc<Stored>>,
}

fn shown(store: &Store) -> Shown {
    let listed = store.list(&List::all(&pods()), &mut |_| true).unwrap();
    Shown { revision: listed.revision, objects: listed.items }
}

struct Run {
    seed: u64,
    random: Random,
    platter: Platter,
    /// Holds the high-water mark.
    mark: Platter,
    /// Unset only while it is opened again.
    store: Option<Store>,
    /// How many power cuts there were.
    cuts: usize,
    /// What was wrong after them.
    found: Vec<String>,
    written_bytes: u64,
}

impl Run {
    fn new(seed: u64, syncs: Syncs) -> Run {
        let random = Random::seeded(seed);
        // A file is made under another name, so a cut while it is made leaves none. Here it is whole from the start.
        let made = Platter::new(Vec::new(), Syncs::Honestly, &random);
        Disk::format(made.clone(), at(0)).unwrap();
        let platter = Platter::new(made.image(), syncs, &random);
        platter.cut_one_in(4);
        let mark = Platter::new(Vec::new(), Syncs::Honestly, &random);
        let store = Some(open(&platter, &mark, &random).unwrap());
        Run { seed, random, platter, mark, store, cuts: 0, found: Vec::new(), written_bytes: 0 }
    }

    /// One batch. Cuts while it is under way leave the state before or the one after, cuts behind it the one after.
    fn commit_with_cuts(&mut self) {
        let store = self.store.as_ref().unwrap();
        let before = shown(store);
        let batch = self.batch(&before);
        let mark_before = self.mark.image();
        let answers = store.commit(batch, at(0)).unwrap();
        self.written_bytes += answers.iter().flatten().map(|object| object.size() as u64).sum::<u64>();
        let after = shown(store);
        for image in self.platter.take_images() {
            self.verify(image, mark_before.clone(), &[&before, &after]);
        }
        self.verify(self.platter.image(), self.mark.image(), &[&after]);
        if self.random.below(20) == 0 {
            self.reopen(&after);
        }
    }

    /// Stops in good order and starts again; cuts meanwhile lose nothing either.
    fn reopen(&mut self, expected: &Shown) {
        self.store = None;
        let store = open(&self.platter, &self.mark, &self.random).unwrap();
        assert_eq!(shown(&store), *expected, "seed {}", self.seed);
        self.store = Some(store);
        for image in self.platter.take_images() {
            self.verify(image, self.mark.image(), &[expected]);
        }
    }

    /// Opens what a cut left behind. It must be one of `allowed`, and writing must go on from there. That is written
    /// to a disk whose power fails too.
    fn verify(&mut self, image: Vec<u8>, mark: Vec<u8>, allowed: &[&Shown]) {
        self.cuts += 1;
        let platter = Platter::new(image, Syncs::Honestly, &self.random);
        let mark = Platter::new(mark, Syncs::Honestly, &self.random);
        let cut_again = self.random.below(8) == 0;
        platter.cut_one_in(if cut_again { 6 } else { 0 });
        let store = match open(&platter, &mark, &self.random) {
            Ok(store) => store,
            Err(error) => return self.found.push(format!("cannot be opened: {error}")),
        };
        let found = shown(&store);
        if !allowed.contains(&&found) {
            let revisions: Vec<Revision> = allowed.iter().map(|shown| shown.revision).collect();
            return self.found.push(format!("revision {} instead of one of {revisions:?}", found.revision));
        }
        if !cut_again {
            return;
        }
        let mark_then = mark.image();
        let write = Write { op: Op::Put, ..write("after-the-cut", Expect::Absent, 10) };
        let made = store.commit(vec![write], at(0)).unwrap().remove(0);
        assert!(made.is_err() || made.unwrap().revision > found.revision, "a revision is given twice");
        let after = shown(&store);
        for image in platter.take_images() {
            self.cuts += 1;
            let platter = Platter::new(image, Syncs::Honestly, &self.random);
            // These cuts came while the store was opened or wrote, when the mark was not yet raised.
            let mark = Platter::new(mark_then.clone(), Syncs::Honestly, &self.random);
            match open(&platter, &mark, &self.random).map(|store| shown(&store)) {
                Ok(again) if again == found || again == after => {}
                other => self.found.push(format!("second cut: {other:?}")),
            }
        }
    }

    /// Up to six creates, updates and deletes over a few names.
    fn batch(&self, before: &Shown) -> Vec<Write> {
        let current: BTreeMap<&str, Revision> =
            before.objects.iter().map(|object| (object.key.name.as_str(), object.revision)).collect();
        (0..=self.random.below(6))
            .map(|_| {
                let name = format!("pod-{}", self.random.below(12));
                let expect = current.get(name.as_str()).map_or(Expect::Absent, |&revision| Expect::At(revision));
                let is_delete = expect != Expect::Absent && self.random.below(3) == 0;
                let op = if is_delete { Op::Delete } else { Op::Put };
                Write { op, ..write(&name, expect, self.random.below(2_500) as usize) }
            })
            .collect()
    }

    /// The test is worth something only if checkpoints were cut, too.
    fn assert_log_is_bounded(&self) {
        let shown = shown(self.store.as_ref().unwrap());
        let live_bytes: u64 = shown.objects.iter().map(|object| object.size() as u64 + 100).sum();
        let platter = Platter::new(self.platter.image(), Syncs::Honestly, &self.random);
        let database = Database::builder().create_with_backend(platter).unwrap();
        let batches: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("batches");
        let table = database.begin_read().unwrap().open_table(batches).unwrap();
        let log_bytes: u64 = table.iter().unwrap().map(|entry| entry.unwrap().1.value().len() as u64).sum();
        // While a pass runs the log grows by a quarter of what the pass visits, and by a few batches.
        assert!(log_bytes < 3 * live_bytes + 4 * SLACK_BYTES + 30_000, "seed {}: {log_bytes} {live_bytes}", self.seed);
        assert!(2 * log_bytes < self.written_bytes, "seed {}: no checkpoint in {}", self.seed, self.written_bytes);
    }
}

fn write(name: &str, expect: Expect, pad: usize) -> Write {
    let head = r#"{"metadata":{"resourceVersion":""#;
    let text = format!(r#"{head}"}},"name":"{name}","pad":"{}"}}"#, "x".repeat(pad));
    let meta = Meta {
        uid: format!("uid-{pad}").as_str().into(),
        labels: [("pad", pad.to_string())].into(),
        ..Meta::default()
    };
    Write { key: pod(name), expect, op: Op::Put, document: Document::new(text.into_bytes(), head.len()), meta }
}

/// Room runs out now and then, which makes the store give space back to the file system.
fn open(platter: &Platter, mark: &Platter, random: &Random) -> Result<Store, String> {
    let random = random.clone();
    let options = DiskOptions {
        space: Some(Box::new(move || Ok(if random.below(10) == 0 { 0 } else { u64::MAX }))),
        slack_bytes: SLACK_BYTES,
        step_bytes: 0,
        high_water: Some(Box::new(mark.clone())),
        ..DiskOptions::at(at(0))
    };
    let disk = Disk::on(platter.clone(), options).map_err(|error| format!("{error:?}"))?;
    Store::open(Box::new(disk), Limits::default()).map_err(|error| format!("{error:?}"))
}

//! The store alone, on disk: durable creates and updates through the writer thread, and the duration of a start.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use api::{Revision, Timestamp};
use futures::future::try_join_all;
use serde_json::{Value, json};
use store::{
    Committer, Disk, DiskOptions, Document, HistoryLimits, ObjectWrite, Op, Precondition, Store, StoreKey, StoredMeta,
};

/// Options of `bench store`.
#[derive(clap::Args)]
pub struct Args {
    /// How long each case runs, in seconds
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// How many objects a start reads
    #[arg(long, default_value_t = 50_000)]
    objects: usize,
    /// Where the data directory is created; it is removed afterwards
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Also write the results to this file, one JSON object per line
    #[arg(long)]
    json: Option<PathBuf>,
}

const OBJECT_BYTES: usize = 1 << 10;
const START_OBJECT_BYTES: usize = 2 << 10;
const CLIENTS: [usize; 3] = [1, 16, 64];

/// Runs every case and prints it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let directory = match &args.directory {
        Some(directory) => directory.clone(),
        // Next to the program, so that it is on the disk of the build and not on a file system in memory.
        None => std::env::current_exe()?.parent().context("a program has a parent folder")?.to_owned(),
    };
    let data_dir = BenchDataDir(directory.join(format!("bench-store-{}", std::process::id())));
    let mut lines = Vec::new();
    println!("{:>8} {:>8} {:>12} {:>10} {:>10} {:>10}", "op", "clients", "commits/s", "p50 ms", "p99 ms", "max ms");
    for op in ["create", "update"] {
        for clients in CLIENTS {
            lines.push(measure_commits(&data_dir.0, op, clients, Duration::from_secs_f64(args.seconds))?);
        }
    }
    lines.extend(measure_starts(&data_dir.0, args.objects)?);
    if let Some(file) = &args.json {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(file, text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// A directory that is removed after the benchmark.
struct BenchDataDir(PathBuf);

impl Drop for BenchDataDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(directory: &Path) -> anyhow::Result<Store> {
    let disk = Disk::open(directory, DiskOptions::new(Timestamp::now()))?;
    Ok(Store::open(Box::new(disk), HistoryLimits::default())?)
}

/// Each client commits one write after the other, on one thread as the control loops do.
fn measure_commits(data_dir: &Path, op: &str, clients: usize, length: Duration) -> anyhow::Result<Value> {
    let directory = data_dir.join(format!("{op}-{clients}"));
    let (committer, writer) = Committer::on_thread(open(&directory)?, |error| eprintln!("error: {error:?}"));
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let begin = Instant::now();
    let each = (0..clients).map(|client| one_client(&committer, client, op == "update", begin + length));
    let mut waits: Vec<Duration> = runtime.block_on(try_join_all(each))?.concat();
    let seconds = begin.elapsed().as_secs_f64();
    writer.join();
    waits.sort_unstable();
    ensure!(!waits.is_empty(), "no write was committed");
    let per_second = waits.len() as f64 / seconds;
    let ms = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let (p50, p99, max) = (ms(0.5), ms(0.99), ms(1.0));
    println!("{op:>8} {clients:>8} {per_second:>12.0} {p50:>10.2} {p99:>10.2} {max:>10.2}");
    Ok(json!({"case": "store", "op": op, "clients": clients, "object_bytes": OBJECT_BYTES,
        "commits_per_second": per_second, "p50_ms": p50, "p99_ms": p99, "max_ms": max}))
}

async fn one_client(
    committer: &Committer,
    client: usize,
    updates: bool,
    end: Instant,
) -> anyhow::Result<Vec<Duration>> {
    let pods: Arc<str> = Arc::from("pods");
    let mut waits = Vec::new();
    let mut current: Option<Revision> = None;
    for round in 0.. {
        let begin = Instant::now();
        if begin >= end {
            break;
        }
        let name = if updates { format!("pod-{client}") } else { format!("pod-{client}-{round}") };
        let expect = current.filter(|_| updates).map_or(Precondition::Absent, Precondition::At);
        let write = write(StoreKey::new(&pods, "default", name), expect, OBJECT_BYTES, round);
        let result = committer.commit(vec![write], Timestamp::UNIX_EPOCH).await?.pop();
        let stored = result.context("every write has a result")?;
        current = Some(stored.map_err(|refused| anyhow::anyhow!("{refused:?}"))?.revision);
        waits.push(begin.elapsed());
    }
    Ok(waits)
}

/// An object of about `bytes` bytes; no two rounds are equal.
fn write(key: StoreKey, expect: Precondition, bytes: usize, round: usize) -> ObjectWrite {
    let head = r#"{"metadata":{"resourceVersion":""#;
    let text = format!(r#"{head}"}},"round":{round},"pad":""#);
    let text = format!(r#"{text}{}"}}"#, "x".repeat(bytes.saturating_sub(text.len() + 2)));
    let meta =
        StoredMeta { uid: format!("00000000-0000-4000-8000-{round:012}").as_str().into(), ..StoredMeta::default() };
    ObjectWrite { key, precondition: expect, op: Op::Put, document: Document::new(text.into_bytes(), head.len()), meta }
}

/// Opens a store with many objects: one that was closed, and one whose process was killed.
fn measure_starts(data_dir: &Path, objects: usize) -> anyhow::Result<Vec<Value>> {
    let (closed, killed) = (data_dir.join("closed"), data_dir.join("killed"));
    let store = open(&closed)?;
    let pods: Arc<str> = Arc::from("pods");
    let names: Vec<usize> = (0..objects).collect();
    for chunk in names.chunks(64) {
        let key = |number: usize| StoreKey::new(&pods, "default", format!("pod-{number}"));
        let batch = chunk.iter().map(|&number| write(key(number), Precondition::Absent, START_OBJECT_BYTES, number));
        store.commit(batch.collect(), Timestamp::UNIX_EPOCH)?;
    }
    fs::create_dir(&killed)?;
    fs::copy(closed.join("objects.redb"), killed.join("objects.redb"))?;
    drop(store);
    println!("\n{:>8} {:>8} {:>12} {:>10}", "start", "objects", "seconds", "file MiB");
    let mut lines = Vec::new();
    for (case, directory) in [("closed", &closed), ("killed", &killed)] {
        let begin = Instant::now();
        let store = open(directory)?;
        let seconds = begin.elapsed().as_secs_f64();
        ensure!(store.revision() == Revision(objects as u64), "an object is missing");
        let file_mib = fs::metadata(directory.join("objects.redb"))?.len() as f64 / f64::from(1 << 20);
        println!("{case:>8} {objects:>8} {seconds:>12.3} {file_mib:>10.0}");
        lines.push(json!({"case": "store-start", "after": case, "objects": objects,
            "object_bytes": START_OBJECT_BYTES, "seconds": seconds, "file_mib": file_mib}));
    }
    Ok(lines)
}

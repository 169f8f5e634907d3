//! Watches under load: clients write, watches are interrupted, the server is restarted, and no watcher misses or
//! invents an event.

mod write_history; // the writes, and the events that a watcher must have received
mod watcher; // one watcher
mod writer; // one client that writes

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use api::Random;
use futures::future::try_join_all;
use kube::Client;
use runtime::request;
use serde_json::json;
use supervisor::{ScratchDir, UpConfig, UpProcess};

use watcher::{PodWatcher, SENTINEL_PREFIX};
use write_history::{SideSelector, WatchScope, WriteHistory, WriteRecord, faults};
use writer::{NAMESPACES, PodWriter, SIDES};

/// The scopes of the watchers, in turn.
const SCOPES: [WatchScope; 8] = [
    WatchScope { namespace: None, side: None },
    WatchScope { namespace: None, side: None },
    WatchScope { namespace: None, side: Some(SideSelector::Is("left")) },
    WatchScope { namespace: None, side: Some(SideSelector::IsNot("left")) },
    WatchScope { namespace: Some("default"), side: None },
    WatchScope { namespace: Some("other"), side: None },
    WatchScope { namespace: Some("other"), side: Some(SideSelector::Is("right")) },
    WatchScope { namespace: None, side: None },
];

/// Options of `cargo xtask watch-check`.
#[derive(clap::Args)]
pub struct Args {
    /// Total number of writes; each is an event
    #[arg(long, default_value_t = 100_000)]
    events: usize,
    /// Restarts of the server, by SIGTERM or SIGKILL
    #[arg(long, default_value_t = 20)]
    restarts: usize,
    /// Concurrent watchers
    #[arg(long, default_value_t = 8)]
    watchers: usize,
    /// Concurrent clients that write
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// The program under test
    #[arg(long)]
    phalanx: PathBuf,
    /// The seed of writes, interruptions and restarts; printed, so that a run can be repeated
    #[arg(long)]
    seed: Option<u64>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let seed = args.seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!(
        "watch-check: seed {seed}, {} events, {} watchers, {} restarts",
        args.events, args.watchers, args.restarts
    );
    let scratch = ScratchDir::new("watch-check")?;
    let mut plan = UpConfig::new(&args.phalanx, scratch.path())?;
    // Every pod is written by this check alone.
    plan.options = ["--without", "scheduler,controllers,nodes"].map(String::from).to_vec();
    let result = tokio::runtime::Runtime::new()?.block_on(check(args, seed, &plan));
    if result.is_err() {
        eprintln!("the data stays in {}", scratch.keep().display());
    }
    result
}

async fn check(args: &Args, seed: u64, plan: &UpConfig) -> anyhow::Result<()> {
    let start = Instant::now();
    let up = UpProcess::start(plan, "127.0.0.1:0")?;
    let client = up.client().await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACES[1]}});
    request::post(&client, "/api/v1/namespaces", &namespace).await?;

    let random = |id: usize| Random::seeded(seed.wrapping_mul(1000) + id as u64);
    let (mut writers, mut watchers) = (Vec::new(), Vec::new());
    for id in 0..args.clients {
        writers.push(PodWriter::new(id, up.client().await?, random(id)));
    }
    for (id, scope) in (0..args.watchers).zip(SCOPES.iter().cycle()) {
        watchers.push(PodWatcher::new(*scope, up.client().await?, random(500 + id), sentinel_count(scope)));
    }
    let done = AtomicUsize::new(0);
    let writing = try_join_all(writers.into_iter().map(|writer| writer.work(&done, args.events)));
    let work = async {
        let (truths, up) = tokio::try_join!(writing, restart_server(args, random(999), plan, up, &done))?;
        let mut truth: WriteHistory = truths.into_iter().flatten().collect();
        println!("{:>6.1} s: {} events written", start.elapsed().as_secs_f64(), args.events);
        write_sentinels(&client, &mut truth).await?;
        anyhow::Ok((truth, up))
    };
    let watching = try_join_all(watchers.into_iter().map(|watcher| tokio::spawn(watcher.work())));
    let (watchers, (truth, up)) = tokio::try_join!(async { anyhow::Ok(watching.await?) }, work)?;
    let mut wrong = 0;
    for (id, watcher) in watchers.into_iter().enumerate() {
        wrong += report_faults(id, &watcher?, &truth, &client).await?;
    }
    up.stop()?;
    ensure!(wrong == 0, "watch-check: {wrong} faults");
    println!("watch-check: {:.1} s, ordered, unique, complete, resumed or 410", start.elapsed().as_secs_f64());
    Ok(())
}

/// Restarts the server at random moments, on the same address.
async fn restart_server(
    args: &Args,
    random: Random,
    plan: &UpConfig,
    up: UpProcess,
    done: &AtomicUsize,
) -> anyhow::Result<UpProcess> {
    let mut up = up;
    let apart = args.events / (args.restarts + 1);
    for number in 0..args.restarts {
        let at = apart * (number + 1) - random.below(apart.max(2) as u64 / 2) as usize;
        while done.load(Ordering::Relaxed) < at {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let address = up.address.clone();
        let way = if random.below(2) == 0 { "SIGTERM" } else { "SIGKILL" };
        // The server is waited for on a thread of its own, so that writers and watchers continue.
        let plan = plan.clone();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let ended = if way == "SIGTERM" { up.stop() } else { up.kill() };
            // The receiver is dropped only if the check has already failed.
            let _ = sender.send(ended.and_then(|()| UpProcess::start(&plan, &address)));
        });
        up = receiver.await??;
        println!("restart {:>3} by {way} after {} events", number + 1, done.load(Ordering::Relaxed));
    }
    Ok(up)
}

/// The objects that end a watcher's work: one for each namespace and side.
fn sentinel_objects() -> impl Iterator<Item = (&'static str, &'static str)> {
    NAMESPACES.into_iter().flat_map(|namespace| SIDES.into_iter().map(move |side| (namespace, side)))
}

fn sentinel_count(scope: &WatchScope) -> usize {
    sentinel_objects().filter(|(namespace, side)| scope.includes(namespace, Some(side))).count()
}

async fn write_sentinels(client: &Client, truth: &mut WriteHistory) -> anyhow::Result<()> {
    for (namespace, side) in sentinel_objects() {
        let key = (namespace.to_owned(), format!("{SENTINEL_PREFIX}{side}"));
        let revision = writer::create(client, &key, side).await?.revision.0;
        truth.insert(key, vec![WriteRecord { side: Some(side), min_revision: revision, max_revision: revision }]);
    }
    Ok(())
}

/// Prints the events of one watcher; returns the number of faults.
async fn report_faults(
    id: usize,
    watcher: &PodWatcher,
    truth: &WriteHistory,
    client: &Client,
) -> anyhow::Result<usize> {
    let mut found: Vec<String> = Vec::new();
    for stretch in &watcher.segments {
        found.extend(faults(&watcher.scope, stretch, truth));
    }
    let (list, _) = watcher::list(client, &watcher.scope).await?;
    if list != watcher.objects {
        let differing = list.iter().filter(|(key, revision)| watcher.objects.get(*key) != Some(*revision)).count();
        let extra = watcher.objects.keys().filter(|key| !list.contains_key(*key)).count();
        found.push(format!("its state differs from the last list: {differing} objects differ, {extra} do not exist"));
    }
    let events: usize = watcher.segments.iter().map(|stretch| stretch.events.len()).sum();
    let lists = watcher.segments.len();
    let resumes = watcher.watch_count.saturating_sub(lists);
    println!("watcher {id}: {events} events, {lists} lists, {resumes} resumes, {} faults", found.len());
    for fault in found.iter().take(10) {
        println!("  {fault}");
    }
    if events == 0 {
        bail!("watcher {id} saw nothing");
    }
    Ok(found.len())
}

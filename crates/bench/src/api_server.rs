//! The API server with its durable store: creates and updates per second, start-up, memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use api::gates::Gates;
use api::{Clock, Random, Timestamp};
use apiserver::{ApiServer, Identity};
use futures::future::try_join_all;
use runtime::TokioClock;
use runtime::request::{self, PatchKind};
use serde_json::{Value, json};
use store::disk::{Disk, DiskOptions};
use store::{Committer, HistoryLimits, Store};
use supervisor::{UpConfig, UpProcess};

/// Options of `cargo xtask bench api`.
#[derive(clap::Args)]
pub struct Args {
    /// The program that is measured over TLS; build it first with `cargo build --release`
    #[arg(long, default_value = "target/release/phalanx")]
    pub phalanx: PathBuf,
    /// Seconds for each row
    #[arg(long, default_value_t = 3)]
    pub seconds: u64,
    /// Pods for the memory and start-up figures
    #[arg(long, default_value_t = 50_000)]
    pub pods: usize,
    /// Folder for the data directories; it should be on a disk, not in memory
    #[arg(long, default_value = "target/bench-api")]
    pub folder: PathBuf,
    /// Also write one JSON object per line to this file
    #[arg(long)]
    pub json: Option<PathBuf>,
}

const CLIENTS: [usize; 3] = [1, 16, 64];
const PODS: &str = "/api/v1/namespaces/default/pods";

/// One measured row.
struct ApiRow {
    case: String,
    clients: usize,
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
}

/// Runs all rows and prints them.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let _ = std::fs::remove_dir_all(&args.folder);
    std::fs::create_dir_all(&args.folder)?;
    let local = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut rows = local.block_on(in_process(args))?;
    let load = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    rows.extend(load.block_on(over_tls(args))?);
    println!("{:<24} {:>8} {:>10} {:>9} {:>9}", "case", "clients", "per s", "p50 ms", "p99 ms");
    for row in &rows {
        println!(
            "{:<24} {:>8} {:>10.0} {:>9.2} {:>9.2}",
            row.case, row.clients, row.per_second, row.p50_ms, row.p99_ms
        );
    }
    let sizes = load.block_on(measure_footprint(args))?;
    println!("{:#}", sizes);
    if let Some(file) = &args.json {
        let lines = rows.iter().map(|row| {
            json!({"case": row.case, "clients": row.clients, "per_second": row.per_second,
                "p50_ms": row.p50_ms, "p99_ms": row.p99_ms})
        });
        let text: String = lines.chain([sizes]).map(|line| format!("{line}\n")).collect();
        std::fs::write(file, text).with_context(|| file.display().to_string())?;
    }
    std::fs::remove_dir_all(&args.folder)?;
    Ok(())
}

/// The server called in the same process, its store on disk with a writer thread.
async fn in_process(args: &Args) -> anyhow::Result<Vec<ApiRow>> {
    let folder = args.folder.join("in-process");
    let store =
        Store::open(Box::new(Disk::open(&folder, DiskOptions::new(Timestamp::now()))?), HistoryLimits::default())?;
    let (committer, writer) = Committer::on_thread(store.clone(), |error| panic!("the disk failed: {error}"));
    let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Timestamp::now()));
    let server = ApiServer::new(apiserver::Config {
        store,
        committer,
        clock,
        random: Random::seeded(1),
        gates: Gates::default(),
    })?;
    let rows = measure_requests("in process", args, || async { Ok(server.client(Identity::admin())) }).await?;
    drop(server);
    drop(writer);
    Ok(rows)
}

/// `phalanx up` in a process of its own, over TLS; the clients use the rest of the machine.
async fn over_tls(args: &Args) -> anyhow::Result<Vec<ApiRow>> {
    let mut plan = UpConfig::new(&args.phalanx, &args.folder.join("tls"))?;
    plan.options = ["--without", "scheduler,controllers,nodes"].map(str::to_owned).to_vec();
    let up = UpProcess::start(&plan, "127.0.0.1:0")?;
    let rows = measure_requests("over TLS", args, || async { up.client().await }).await?;
    up.stop()?;
    Ok(rows)
}

async fn measure_requests<F>(transport: &str, args: &Args, client: impl Fn() -> F) -> anyhow::Result<Vec<ApiRow>>
where
    F: Future<Output = anyhow::Result<kube::Client>>,
{
    let mut rows = Vec::new();
    for clients in CLIENTS {
        let connected: Vec<kube::Client> = try_join_all((0..clients).map(|_| client())).await?;
        let prefix = format!("{}-{clients}", transport.replace(' ', "-").to_lowercase());
        let name = |worker: usize, turn: usize| format!("{prefix}-{worker}-{turn}");
        let create = |client: kube::Client, worker: usize, turn: usize| {
            let pod = pod(&name(worker, turn));
            async move { request::post(&client, PODS, &pod).await.map(drop) }
        };
        rows.push(measure(format!("pod create, {transport}"), args, &connected, create).await?);
        let update = |client: kube::Client, worker: usize, turn: usize| {
            let path = format!("{PODS}/{}", name(worker, 0));
            let body = json!({"metadata": {"labels": {"turn": turn.to_string()}}});
            async move { request::patch(&client, &path, PatchKind::Merge, &body).await.map(drop) }
        };
        rows.push(measure(format!("pod update, {transport}"), args, &connected, update).await?);
    }
    Ok(rows)
}

/// Each client sends its next request after the last response, for the duration of a row.
async fn measure<F>(
    case: String,
    args: &Args,
    clients: &[kube::Client],
    send: impl Fn(kube::Client, usize, usize) -> F,
) -> anyhow::Result<ApiRow>
where
    F: Future<Output = Result<(), kube::Error>>,
{
    let started = Instant::now();
    let end = started + Duration::from_secs(args.seconds);
    let worker = |worker: usize, client: kube::Client| {
        let send = &send;
        async move {
            let mut durations = Vec::new();
            while Instant::now() < end {
                let sent = Instant::now();
                send(client.clone(), worker, durations.len()).await?;
                durations.push(sent.elapsed());
            }
            Ok::<_, kube::Error>(durations)
        }
    };
    let workers = clients.iter().enumerate().map(|(index, client)| worker(index, client.clone()));
    let mut durations: Vec<Duration> = try_join_all(workers).await?.into_iter().flatten().collect();
    let elapsed = started.elapsed().as_secs_f64();
    durations.sort_unstable();
    let at = |share: f64| durations[((durations.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
    let per_second = durations.len() as f64 / elapsed;
    Ok(ApiRow { case, clients: clients.len(), per_second, p50_ms: at(0.5), p99_ms: at(0.99) })
}

/// Resident memory idle and with all pods running, and the duration of a start with them on disk.
async fn measure_footprint(args: &Args) -> anyhow::Result<Value> {
    let mut plan = UpConfig::new(&args.phalanx, &args.folder.join("sizes"))?;
    plan.options = ["--nodes", "500"].map(str::to_owned).to_vec();
    let up = UpProcess::start(&plan, "127.0.0.1:0")?;
    let idle = resident_mb(up.pid())?;
    let clients: Vec<kube::Client> = try_join_all((0..32).map(|_| up.client())).await?;
    let next = AtomicUsize::new(0);
    let workers = clients.iter().map(|client| async {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= args.pods {
                return Ok::<_, kube::Error>(());
            }
            request::post(client, PODS, &pod(&format!("p-{index}"))).await?;
        }
    });
    try_join_all(workers).await?;
    wait_until_running(&clients[0]).await?;
    let full = resident_mb(up.pid())?;
    up.stop()?;
    let started = Instant::now();
    let second = UpProcess::start(&plan, "127.0.0.1:0")?;
    let start_seconds = started.elapsed().as_secs_f64();
    let restarted = resident_mb(second.pid())?;
    second.stop()?;
    Ok(
        json!({"case": "sizes", "pods": args.pods, "nodes": 500, "rss_idle_mb": idle.round(), "rss_full_mb": full.round(),
        "rss_restarted_mb": restarted.round(), "start_seconds": start_seconds}),
    )
}

/// Waits until every pod runs.
async fn wait_until_running(client: &kube::Client) -> anyhow::Result<()> {
    let path = format!("{PODS}?fieldSelector=status.phase!%3DRunning&limit=1");
    let deadline = Instant::now() + Duration::from_secs(600);
    loop {
        let pending: Value = serde_json::from_slice(&request::get(client, &path).await?)?;
        if pending["items"].as_array().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < deadline, "the pods did not all run within ten minutes");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench"}, "annotations": {"phalanx.dev/run-seconds": "1000000"}},
        "spec": {"restartPolicy": "Never", "containers": [{
            "name": "main", "image": "registry.example/main:1", "command": ["run", "--verbose"],
            "env": [{"name": "MODE", "value": "bench"}, {"name": "LEVEL", "value": "3"}],
            "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}},
        }]},
    })
}

/// Resident memory of process `id`.
fn resident_mb(id: u32) -> anyhow::Result<f64> {
    crate::pod_life::resident_mb_of(Path::new(&format!("/proc/{id}/status")))
}

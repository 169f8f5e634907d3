//! A pod's whole life (create, bind, run, succeed, delete) with everything in one process: CPU time per pod.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use api::views::{PodPhase, PodView};
use api::{Random, Timestamp};
use controlplane::{Config, ControlPlane, ControlPlaneEnvironment, CoreMode};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use nodes::cluster::Cluster;
use runtime::TokioClock;
use serde_json::json;
use store::{Committer, HistoryLimits, Store};

/// Options of `cargo xtask bench life`.
#[derive(clap::Args)]
pub struct Args {
    /// Pods to take through their life
    #[arg(long, default_value_t = 10_000)]
    pub pods: usize,
    /// Nodes of the cluster
    #[arg(long, default_value_t = 500)]
    pub nodes: u32,
    /// Concurrent requests of the load
    #[arg(long, default_value_t = 64)]
    pub in_flight: usize,
    /// Run the scheduler's core on a thread of its own, as `phalanx up` does
    #[arg(long)]
    pub core_thread: bool,
    /// Also write one JSON object per line to this file
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// Runs the load and prints the cost of a pod.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (cpu, wall) = runtime.block_on(run_pods(args))?;
    let per_pod_ms = cpu * 1000.0 / args.pods as f64;
    let resident = resident_mb_of(std::path::Path::new("/proc/self/status"))?;
    println!("{:>8} {:>7} {:>12} {:>12} {:>10} {:>8}", "pods", "nodes", "cpu ms/pod", "cpu s", "wall s", "rss MB");
    println!("{:>8} {:>7} {per_pod_ms:>12.3} {cpu:>12.2} {wall:>10.2} {resident:>8.0}", args.pods, args.nodes);
    if let Some(file) = &args.json {
        let line = json!({"case": "life", "system": "phalanx-embedded", "nodes": args.nodes, "pods": args.pods,
            "core_thread": args.core_thread, "seconds": wall, "cpu_ms_per_pod": per_pod_ms, "rss_mb": resident});
        std::fs::write(file, format!("{line}\n")).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// CPU and wall seconds from the first create to the last delete.
async fn run_pods(args: &Args) -> anyhow::Result<(f64, f64)> {
    let store = Store::in_memory(HistoryLimits::default());
    let environment = ControlPlaneEnvironment {
        clock: Arc::new(TokioClock::starting_at(Timestamp::now())),
        random: Random::seeded(1),
        committer: Committer::in_place(store.clone()),
        store,
    };
    let mut config = Config::for_cluster(Cluster::default_of(args.nodes));
    if args.core_thread {
        config.scheduler.core_mode = CoreMode::OnThread;
    }
    let plane = ControlPlane::start(environment, config).await?;
    let client = plane.client();
    let mut changes = plane.cache::<PodView>().subscribe();
    let (cpu, wall) = (cpu_seconds()?, Instant::now());
    let (mut created, mut deleted) = (0, 0);
    let mut in_flight = FuturesUnordered::new();
    let mut to_delete: Vec<Arc<PodView>> = Vec::new();
    while deleted < args.pods {
        while in_flight.len() < args.in_flight {
            if let Some(pod) = to_delete.pop() {
                in_flight.push(delete(client.clone(), pod.metadata.name.clone()));
            } else if created < args.pods {
                in_flight.push(create(client.clone(), created));
                created += 1;
            } else {
                break;
            }
        }
        tokio::select! {
            biased;
            Some(done) = in_flight.next(), if !in_flight.is_empty() => done?,
            change = changes.next() => match (change.old, change.new) {
                (Some(_), None) => deleted += 1,
                (old, Some(pod)) if has_succeeded(&pod) && !old.as_deref().is_some_and(has_succeeded) => {
                    to_delete.push(pod);
                }
                _ => {}
            },
        }
    }
    Ok((cpu_seconds()? - cpu, wall.elapsed().as_secs_f64()))
}

fn has_succeeded(pod: &PodView) -> bool {
    pod.status.phase == PodPhase::Succeeded
}

type WriteFuture = futures::future::BoxFuture<'static, anyhow::Result<()>>;

fn create(client: kube::Client, index: usize) -> WriteFuture {
    Box::pin(async move {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("life-{index}"),
                "labels": {"app": "life"},
                "annotations": {"phalanx.dev/run-seconds": "0"},
            },
            "spec": {"restartPolicy": "Never", "containers": [{
                "name": "main", "image": "registry.example/main:1", "command": ["run"],
                "env": [{"name": "INDEX", "value": index.to_string()}],
                "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}},
            }]},
        });
        runtime::request::post(&client, "/api/v1/namespaces/default/pods", &pod).await?;
        Ok(())
    })
}

fn delete(client: kube::Client, name: String) -> WriteFuture {
    Box::pin(async move {
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        runtime::request::delete(&client, &path, &json!({})).await?;
        Ok(())
    })
}

/// CPU seconds of this process so far.
fn cpu_seconds() -> anyhow::Result<f64> {
    cpu_seconds_of(std::path::Path::new("/proc/self/stat"))
}

/// CPU seconds so far, user and system, of all threads of the process with this stat file.
pub fn cpu_seconds_of(file: &std::path::Path) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(file).with_context(|| format!("{} (Linux only)", file.display()))?;
    let after_name = stat.rsplit_once(')').with_context(|| format!("{} has an unknown form", file.display()))?.1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
    // The kernel reports hundredths of a second on every platform that Rust supports.
    Ok(ticks / 100.0)
}

/// Resident memory of the process with this status file.
pub fn resident_mb_of(file: &std::path::Path) -> anyhow::Result<f64> {
    memory_mb(file, "VmRSS:")
}

/// Peak resident memory of the process with this status file.
pub fn peak_mb_of(file: &std::path::Path) -> anyhow::Result<f64> {
    memory_mb(file, "VmHWM:")
}

fn memory_mb(file: &std::path::Path, field: &str) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(file).with_context(|| format!("{} (Linux only)", file.display()))?;
    let line = status.lines().find(|line| line.starts_with(field)).with_context(|| format!("no {field}"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1).context("a memory field has a number")?.parse()?;
    Ok(kilobytes / 1024.0)
}

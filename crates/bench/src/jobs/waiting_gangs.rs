//! The cost of waiting gangs: small Jobs at a steady rate, alone and with gangs that never fit.

use std::time::Duration;

use anyhow::Context;
use futures::{StreamExt, TryStreamExt};
use kube::Client;
use runtime::request;
use serde::Deserialize;
use serde_json::{Value, json};

use super::load::JOBS;
use super::resource_usage::{CoreWork, ResourceUsage, WriteCounts};
use super::running_system::RunningSystem;
use super::{Args, JobsSystem, WITH_GROUPS};

/// One node less than a waiting gang has pods, which take a whole node each. The number of pods that would fit changes
/// with every small Job.
const NODES: u32 = 63;
const GANG_PODS: usize = 64;
const JOBS_PER_SECOND: u64 = 7;
const SECONDS: u64 = 30;
/// The maximum number of pods of a small Job. Each Job has another number.
const MAX_PODS: u64 = 32;
/// How long writes may follow the last change.
const SETTLE: Duration = Duration::from_secs(5);
const MAX_IN_FLIGHT: usize = 8;

/// The writes in the window.
pub struct WaitingCost {
    /// The number of waiting gangs.
    gangs: usize,
    writes: WriteCounts,
    cpu_seconds: f64,
    core: CoreWork,
}

/// Runs the load with this many waiting gangs.
pub fn measure(args: &Args, gangs: usize) -> anyhow::Result<Option<WaitingCost>> {
    eprintln!("waiting, {gangs} gangs: starting");
    let Some(running) = RunningSystem::start_with_nodes(args, JobsSystem::PhalanxEmbedded, WITH_GROUPS, NODES)? else {
        return Ok(None);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let waiting = runtime.block_on(load(&running, gangs)).with_context(|| format!("waiting, {gangs} gangs"))?;
    drop(runtime);
    running.stop()?;
    Ok(Some(waiting))
}

async fn load(running: &RunningSystem, gangs: usize) -> anyhow::Result<WaitingCost> {
    let client = running.client().await?;
    let make = (0..gangs).map(|at| job(&format!("gang-{at}"), GANG_PODS, 8, true));
    let client_ref = &client;
    let make = make.map(|job| async move { request::post(client_ref, JOBS, &job).await.map(drop) });
    futures::stream::iter(make).buffer_unordered(MAX_IN_FLIGHT).try_collect::<()>().await?;
    while active_pods(&client).await? < gangs * GANG_PODS {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(SETTLE).await;
    let before = ResourceUsage::now(&client, running).await?;
    let mut tick = tokio::time::interval(Duration::from_nanos(1_000_000_000 / JOBS_PER_SECOND));
    for at in 0..SECONDS * JOBS_PER_SECOND {
        tick.tick().await;
        let pods = at * 7 % MAX_PODS + 1;
        request::post(&client, JOBS, &job(&format!("small-{at}"), pods as usize, 1, false)).await?;
    }
    tokio::time::sleep(SETTLE).await;
    let after = ResourceUsage::now(&client, running).await?;
    Ok(WaitingCost {
        gangs,
        writes: after.writes.since(&before.writes),
        cpu_seconds: after.cpu_seconds - before.cpu_seconds,
        core: after.core.since(&before.core),
    })
}

/// The active pods of all Jobs, from their status.
async fn active_pods(client: &Client) -> anyhow::Result<usize> {
    #[derive(Deserialize)]
    struct ActiveJobList {
        items: Vec<ActiveJob>,
    }
    #[derive(Deserialize)]
    struct ActiveJob {
        status: ActiveJobStatus,
    }
    #[derive(Deserialize)]
    struct ActiveJobStatus {
        #[serde(default)]
        active: usize,
    }
    let list: ActiveJobList = serde_json::from_slice(&request::get(client, JOBS).await?)?;
    Ok(list.items.iter().map(|job| job.status.active).sum())
}

fn job(name: &str, pods: usize, gpus: usize, is_gang: bool) -> Value {
    let scheduling = if is_gang { json!({"schedulingPolicy": {"gang": {}}}) } else { Value::Null };
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {
            "completions": pods, "parallelism": pods, "scheduling": scheduling,
            "template": {
                "metadata": {"labels": {"bench": if is_gang { "gang" } else { "small" }}},
                "spec": {"restartPolicy": "Never", "containers": [{
                    "name": "main", "image": "registry.example/main:1", "command": ["run"],
                    "resources": {"limits": {"nvidia.com/gpu": gpus.to_string()}},
                }]},
            },
        },
    })
}

/// The rows as text.
pub fn text(rows: &[WaitingCost]) -> String {
    let mut text =
        format!("{JOBS_PER_SECOND} Jobs/s of 1 to {MAX_PODS} pods for {SECONDS} s, {NODES} nodes of 8 GPUs:\n");
    for row in rows {
        let kinds: Vec<String> =
            row.writes.per_resource().iter().map(|(resource, count)| format!("{resource} {count}")).collect();
        text.push_str(&format!(
            "  with {} waiting gangs of {GANG_PODS} that never fit: {} writes, {:.1} s of CPU, of these {:.2} s in the \
             scheduler's core for {} decisions ({})\n",
            row.gangs,
            row.writes.total(),
            row.cpu_seconds,
            row.core.seconds,
            row.core.decisions,
            kinds.join(", ")
        ));
    }
    text
}

/// One row as JSON.
pub fn line(row: &WaitingCost) -> Value {
    json!({
        "case": format!("waiting-{}x{GANG_PODS}", row.gangs), "system": JobsSystem::PhalanxEmbedded.name(), "nodes": NODES,
        "seconds": SECONDS, "writes": row.writes.per_resource(), "writes_total": row.writes.total(),
        "cpu_seconds": row.cpu_seconds, "core_seconds": row.core.seconds, "decisions": row.core.decisions,
    })
}

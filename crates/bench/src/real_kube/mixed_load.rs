//! Jobs of mixed sizes at a steady share of the GPUs: the time from a Job's creation to the last bind of its pods.
//!
//! kube-apiserver with kube-controller-manager's Job controller and our simulated nodes. kube-scheduler and our
//! scheduler get the same Jobs at the same times, in turn.

mod bind_watch; // when the pods of each Job were bound
mod trace; // the Jobs and when they are created

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::StreamExt;
use kube::Client;
use runtime::request;
use serde_json::{Value, json};
use supervisor::kubernetes::{self, ControlPlaneConfig, KubeControlPlane};
use supervisor::{SupervisedProcess, resolve_program, start_component};

use super::schedulers::RunningScheduler;
use super::{Args, SchedulingSystem};
use bind_watch::JobBindWatch;
use trace::{JobTrace, NODES};

/// The name of the case.
pub const CASE: &str = "mixed-load";
/// The shares of the GPUs that the Jobs use while they run, in percent.
const LOADS: [u64; 3] = [50, 80, 95];
const SYSTEMS: [SchedulingSystem; 2] = [SchedulingSystem::KubeScheduler, SchedulingSystem::Phalanx];
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
/// How long the last Job may wait after it was created.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The waits of one round, in seconds.
struct MixedLoadRow {
    system: SchedulingSystem,
    load: u64,
    seed: u64,
    large: Vec<f64>,
    small: Vec<f64>,
}

/// One round of each seed at each load on each system. `--rounds` is the number of seeds.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut json = args.json.as_ref().map(File::create).transpose().context("the file for --json")?;
    let plan = ControlPlaneConfig { controllers: true, ..ControlPlaneConfig::default() };
    let mut programs = plan.required_programs();
    programs.push("kube-scheduler");
    if !kubernetes::ensure_programs(&programs)? {
        println!("the programs of Kubernetes are missing and cannot be built here: {CASE} is not measured");
        return Ok(());
    }
    std::fs::create_dir_all(&args.folder)?;
    let mut control_plane = KubeControlPlane::start("bench-mixed", &plan)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let client = runtime.block_on(control_plane.client())?;
    let _nodes = start_nodes(args, &control_plane)?;
    let mut rows: Vec<MixedLoadRow> = Vec::new();
    println!("{HEADING}");
    for load in args.loads.as_deref().unwrap_or(&LOADS) {
        for seed in 1..=args.rounds as u64 {
            let trace = JobTrace::generate(seed, *load);
            for system in SYSTEMS.into_iter().filter(|system| args.systems.is_empty() || args.systems.contains(system))
            {
                eprintln!("{CASE} at {load} %, seed {seed}, on {}", system.name());
                let scheduler = RunningScheduler::start(args, system, &mut control_plane, &plan)?;
                runtime.block_on(scheduler.wait_until_ready())?;
                let prefix = format!("{}-{load}-{seed}", system.name());
                let waits = runtime.block_on(measure(&client, &trace, &prefix))?;
                drop(scheduler);
                control_plane.stop_program("kube-scheduler");
                let (large, small) = trace.split_by_size(&waits);
                let row = MixedLoadRow { system, load: *load, seed, large, small };
                println!("{}", row.text());
                if let Some(file) = &mut json {
                    writeln!(file, "{}", row.to_json(&trace))?;
                }
                rows.push(row);
            }
        }
    }
    print!("{}", summary(&rows));
    Ok(())
}

const HEADING: &str =
    "load %  seed  system           large: Jobs    p50 s    p95 s    max s   small: Jobs    p50 s    p95 s    max s";

/// Simulated nodes of 8 GPUs, in racks of 8.
fn start_nodes(args: &Args, control_plane: &KubeControlPlane) -> anyhow::Result<SupervisedProcess> {
    let nodes = NODES.to_string();
    let phalanx = resolve_program(&args.phalanx)?;
    start_component(&phalanx, "nodes", &["--nodes", &nodes], &control_plane.kubeconfig(), &args.folder)
}

/// Creates the Jobs at their times and returns how long each waited, in the order of the trace. Ends when no pod runs
/// any more.
async fn measure(client: &Client, trace: &JobTrace, prefix: &str) -> anyhow::Result<Vec<f64>> {
    let watch = JobBindWatch::from_now(client).await?;
    let pods: Vec<usize> = trace.jobs.iter().map(|job| job.pods).collect();
    let binds = tokio::spawn(watch.wait_for_all(prefix.to_owned(), pods));
    let start = Instant::now();
    let creates = futures::stream::iter(trace.jobs.iter().enumerate()).map(|(index, job)| async move {
        tokio::time::sleep_until((start + job.at).into()).await;
        let created = Instant::now();
        request::post(client, JOBS, &job.document(&format!("{prefix}-{index}"))).await?;
        anyhow::Ok(created)
    });
    let created: Vec<anyhow::Result<Instant>> = creates.buffered(trace.jobs.len().max(1)).collect().await;
    let bound = tokio::time::timeout(TIMEOUT, binds).await.context("not all Jobs were bound in time")???;
    let longest = trace.jobs.iter().map(|job| job.run_seconds).max().unwrap_or(0);
    tokio::time::sleep(Duration::from_secs(longest + 2)).await;
    let wait = |(created, bound): (anyhow::Result<Instant>, Instant)| Ok((bound - created?).as_secs_f64());
    std::iter::zip(created, bound).map(wait).collect()
}

impl MixedLoadRow {
    fn text(&self) -> String {
        let MixedLoadRow { system, load, seed, large, small } = self;
        let [large_text, small_text] = [large, small].map(|waits| waits_text(waits));
        format!("{load:>6}  {seed:>4}  {:<15}  {large_text}   {small_text}", system.name())
    }

    fn to_json(&self, trace: &JobTrace) -> Value {
        let waits = |waits: &[f64]| {
            let [p50, p95, max] = [50, 95, 100].map(|percent| percentile(waits, percent));
            json!({"jobs": waits.len(), "wait_s_p50": p50, "wait_s_p95": p95, "wait_s_max": max})
        };
        json!({
            "case": CASE, "system": self.system.name(), "nodes": NODES, "load_percent": self.load, "seed": self.seed,
            "pods": trace.jobs.iter().map(|job| job.pods).sum::<usize>(),
            "large": waits(&self.large), "small": waits(&self.small),
        })
    }
}

fn waits_text(waits: &[f64]) -> String {
    let [p50, p95, max] = [50, 95, 100].map(|percent| percentile(waits, percent));
    format!("{:>11} {p50:>8.2} {p95:>8.2} {max:>8.2}", waits.len())
}

/// The smallest wait that at least `percent` of the Jobs did not exceed.
fn percentile(waits: &[f64], percent: usize) -> f64 {
    let mut waits = waits.to_vec();
    waits.sort_by(f64::total_cmp);
    let rank = (waits.len() * percent).div_ceil(100).max(1);
    waits.get(rank - 1).copied().unwrap_or(f64::NAN)
}

/// All seeds of a load together, for each system.
fn summary(rows: &[MixedLoadRow]) -> String {
    let mut text = String::from("\nall seeds\n");
    let mut loads: Vec<u64> = rows.iter().map(|row| row.load).collect();
    loads.dedup();
    for load in loads {
        for system in SYSTEMS {
            let of = |waits: fn(&MixedLoadRow) -> &Vec<f64>| -> Vec<f64> {
                let rows = rows.iter().filter(|row| row.load == load && row.system == system);
                rows.flat_map(waits).copied().collect()
            };
            let (large, small) = (of(|row| &row.large), of(|row| &row.small));
            if !small.is_empty() {
                let name = system.name();
                text += &format!("{load:>6}        {name:<15}  {}   {}\n", waits_text(&large), waits_text(&small));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_of_a_load_are_summed_up_by_system() {
        let row =
            |system, seed, wait| MixedLoadRow { system, load: 50, seed, large: vec![wait], small: vec![wait / 2.0] };
        let rows = [
            row(SchedulingSystem::Phalanx, 1, 1.0),
            row(SchedulingSystem::KubeScheduler, 1, 4.0),
            row(SchedulingSystem::Phalanx, 2, 3.0),
        ];
        let text = summary(&rows);
        let words = |system: &str| {
            let line = text.lines().find(|line| line.contains(system)).expect(system);
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words("phalanx"), "50 phalanx 2 1.00 3.00 3.00 2 0.50 1.50 1.50");
        assert_eq!(words("kube-scheduler"), "50 kube-scheduler 1 4.00 4.00 4.00 1 2.00 2.00 2.00");
    }
}

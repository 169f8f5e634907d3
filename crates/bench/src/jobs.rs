//! Jobs from creation to completion: our controllers and kube-controller-manager.

mod running_system; // the system under test: `phalanx up`, or kube-apiserver with components
mod load; // Jobs submitted and watched until they complete
mod group_footprint; // memory of Workloads and PodGroups
mod resource_usage; // writes of a server, CPU and memory of a process
mod waiting_gangs; // the cost of waiting gangs

pub use self::resource_usage::WriteCounts;

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use serde_json::{Value, json};

use load::{JobLoad, JobsMeasurement};
use running_system::RunningSystem;

/// Options of `cargo xtask bench jobs`.
#[derive(clap::Args)]
pub struct Args {
    /// Only this case (may be given several times)
    #[arg(long, value_name = "NAME")]
    case: Vec<JobsCase>,
    /// Only this system (may be given several times)
    #[arg(long, value_name = "NAME")]
    system: Vec<JobsSystem>,
    /// Jobs of the case single
    #[arg(long, default_value_t = 10_000)]
    jobs: usize,
    /// Jobs of the case single on kube-apiserver, which is slower; 0 for the same number as on ours
    #[arg(long, default_value_t = 3_000)]
    kube_jobs: usize,
    /// Completions of the case indexed, a hundredth of them at a time
    #[arg(long, default_value_t = 100_000)]
    completions: usize,
    /// Nodes of the cluster
    #[arg(long, default_value_t = 500)]
    nodes: u32,
    /// The program; build it first with `cargo build --release`
    #[arg(long, default_value = "target/release/phalanx")]
    phalanx: PathBuf,
    /// Its configuration, to try other settings
    #[arg(long)]
    config: Option<PathBuf>,
    /// Folder for the data directories; it should be on a disk, not in memory
    #[arg(long, default_value = "target/bench-jobs")]
    folder: PathBuf,
    /// Also write one JSON object per line to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

const WITH_GROUPS: &str = "WorkloadWithJob=true";

/// The measured cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum JobsCase {
    /// Many Jobs of one pod, on every system
    Single,
    /// One Indexed Job
    Indexed,
    /// 1,000 gangs of four: with groups, without (gate WorkloadWithJob), and with Workloads that the Jobs reference
    Gangs,
    /// Memory of 10,000 Workloads with their PodGroups
    Pairs,
    /// Small Jobs at a steady rate, alone and with 200 waiting gangs of 64 that never fit
    Waiting,
}

/// The system that runs the Jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum JobsSystem {
    /// `phalanx up` in one process, its data on disk
    PhalanxEmbedded,
    /// Our Job controller, scheduler and nodes on kube-apiserver
    Phalanx,
    /// kube-controller-manager on kube-apiserver, with our scheduler and nodes
    KubeControllerManager,
}

impl JobsSystem {
    fn name(self) -> &'static str {
        match self {
            JobsSystem::PhalanxEmbedded => "phalanx-embedded",
            JobsSystem::Phalanx => "phalanx",
            JobsSystem::KubeControllerManager => "kube-controller-manager",
        }
    }
}

/// One measurement.
struct JobsRow {
    case: String,
    system: JobsSystem,
    load: JobLoad,
    measured: JobsMeasurement,
}

/// Runs the cases and prints them.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let chosen = |case: JobsCase| args.case.is_empty() || args.case.contains(&case);
    let measures = |system: JobsSystem| args.system.is_empty() || args.system.contains(&system);
    let _ = std::fs::remove_dir_all(&args.folder);
    std::fs::create_dir_all(&args.folder).with_context(|| args.folder.display().to_string())?;
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for system in
        JobsSystem::value_variants().iter().copied().filter(|system| chosen(JobsCase::Single) && measures(*system))
    {
        let jobs = match system {
            JobsSystem::PhalanxEmbedded => args.jobs,
            _ if args.kube_jobs == 0 => args.jobs,
            _ => args.kube_jobs.min(args.jobs),
        };
        rows.extend(measure(args, format!("single-{jobs}"), system, JobLoad::single(jobs), WITH_GROUPS)?);
    }
    if measures(JobsSystem::PhalanxEmbedded) {
        let embedded = JobsSystem::PhalanxEmbedded;
        if chosen(JobsCase::Gangs) {
            let (gangs, named) = (JobLoad::gangs(1_000, 4), JobLoad::gangs_with_workload_ref(1_000, 4));
            for (case, load, gates) in [
                ("gangs-1000x4", gangs, WITH_GROUPS),
                ("gangs-1000x4-off", gangs, "WorkloadWithJob=false"),
                ("gangs-1000x4-named", named, "WorkloadWithJob=true,JobWorkloadRef=true"),
            ] {
                rows.extend(measure(args, case.to_owned(), embedded, load, gates)?);
            }
        }
        if chosen(JobsCase::Indexed) {
            let load = JobLoad::indexed(args.completions, args.completions.div_ceil(100));
            rows.extend(measure(args, format!("indexed-{}", args.completions), embedded, load, WITH_GROUPS)?);
        }
    }
    print(&rows);
    lines.extend(rows.iter().map(|row| line(args, row)));
    if chosen(JobsCase::Pairs) {
        let size = group_footprint::measure(10_000)?;
        println!("\n{}", size.text());
        lines.push(size.line());
    }
    if chosen(JobsCase::Waiting) && measures(JobsSystem::PhalanxEmbedded) {
        let mut rows = Vec::new();
        for gangs in [0, 200] {
            rows.extend(waiting_gangs::measure(args, gangs)?);
        }
        println!("\n{}", waiting_gangs::text(&rows));
        lines.extend(rows.iter().map(waiting_gangs::line));
    }
    if let Some(file) = &args.json {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(file, text).with_context(|| file.display().to_string())?;
    }
    std::fs::remove_dir_all(&args.folder)?;
    Ok(())
}

/// Starts a system, submits the Jobs, and stops it. `None` when the real programs are not available.
fn measure(
    args: &Args,
    case: String,
    system: JobsSystem,
    load: JobLoad,
    gates: &str,
) -> anyhow::Result<Option<JobsRow>> {
    eprintln!("{case}, {}: starting", system.name());
    let Some(mut running) = RunningSystem::start(args, system, gates)? else { return Ok(None) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let measured = runtime.block_on(load.run(&running)).with_context(|| format!("{case}, {}", system.name()));
    let measured = measured.map_err(|error| error.context(running.log_tail()))?;
    running.check_running()?;
    drop(runtime);
    running.stop()?;
    ensure!(measured.seconds > 0.0, "no time passed");
    let (seconds, per_second) = (measured.seconds, load.jobs as f64 / measured.seconds);
    eprintln!("{case}, {}: {seconds:.1} s, {per_second:.0} Jobs/s", system.name());
    Ok(Some(JobsRow { case, system, load, measured }))
}

fn print(rows: &[JobsRow]) {
    if rows.is_empty() {
        return;
    }
    println!(
        "{:<20} {:<24} {:>7} {:>8} {:>8} {:>8} {:>9} {:>9} {:>10} {:>7} {:>6}",
        "case", "system", "s", "Jobs/s", "pods/s", "create/s", "pod p50", "pod p99", "writes/Job", "cpu s", "MB"
    );
    for JobsRow { case, system, load, measured } in rows {
        let (jobs, pods) = (load.jobs as f64, (load.jobs * load.pods) as f64);
        println!(
            "{case:<20} {:<24} {:>7.1} {:>8.0} {:>8.0} {:>8.0} {:>9.0} {:>9.0} {:>10.1} {:>7.1} {:>6.0}",
            system.name(),
            measured.seconds,
            jobs / measured.seconds,
            pods / measured.seconds,
            jobs / measured.create_seconds,
            measured.first_pod_ms(0.5),
            measured.first_pod_ms(0.99),
            measured.writes.total() as f64 / jobs,
            measured.cpu_seconds,
            measured.rss_mb,
        );
    }
    println!("\nCPU and memory are those of the process with the Job controller. Writes per Job:");
    for JobsRow { case, system, load, measured } in rows {
        println!("{case:<20} {:<24} {}", system.name(), measured.writes.per_job_text(load.jobs));
    }
}

fn line(args: &Args, row: &JobsRow) -> Value {
    let JobsRow { case, system, load, measured } = row;
    json!({
        "case": case, "system": system.name(), "nodes": args.nodes, "jobs": load.jobs, "pods": load.jobs * load.pods,
        "seconds": measured.seconds, "jobs_per_second": load.jobs as f64 / measured.seconds,
        "pods_per_second": (load.jobs * load.pods) as f64 / measured.seconds,
        "create_seconds": measured.create_seconds,
        "first_pod_ms_p50": measured.first_pod_ms(0.5), "first_pod_ms_p99": measured.first_pod_ms(0.99),
        "writes_per_job": measured.writes.total() as f64 / load.jobs as f64, "writes": measured.writes.per_resource(),
        "cpu_seconds": measured.cpu_seconds, "rss_mb": measured.rss_mb,
    })
}

//! The same groups on kube-apiserver and etcd, with kube-scheduler and our scheduler in turn, then on our own server.
//!
//! Nodes, groups and pods are created first, then the scheduler under test is started. The time is measured from its
//! readiness to the last bind that our watch reports. Decision times are the schedulers' own metrics.

mod load; // nodes, groups and pods, created and deleted
mod measurement_window; // CPU and writes of kube-apiserver in the meantime
mod schedulers; // the schedulers, and their metrics
mod embedded; // everything in one process of ours
mod mixed_load; // Jobs of mixed sizes at a share of the GPUs: how long they wait
mod summary; // medians of all rounds, and how the systems compare

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use serde_json::{Value, json};
use supervisor::kubernetes::{self, ControlPlaneConfig, KubeControlPlane};

use crate::scheduling_cases::{CasePolicy, SchedulingCase};
use load::CreationTime;
use measurement_window::{MeasurementWindow, ServerPids, WindowStart};
use schedulers::{DecisionHistogram, RunningScheduler};

/// Options of `cargo xtask bench kube`.
#[derive(clap::Args)]
pub struct Args {
    /// Run only this case; other sizes have names of the same form. mixed-load (not among the default cases) measures how
    /// long Jobs of mixed sizes wait
    #[arg(long)]
    pub case: Option<String>,
    /// Measure only these systems
    #[arg(long, value_enum, value_delimiter = ',')]
    pub systems: Vec<SchedulingSystem>,
    /// The program; build it first with `cargo build --release`
    #[arg(long, default_value = "target/release/phalanx")]
    pub phalanx: PathBuf,
    /// Folder for data directories and logs; it should be on a disk, not in memory
    #[arg(long, default_value = "target/bench-kube")]
    pub folder: PathBuf,
    /// The shares of the GPUs of mixed-load, in percent [default: 50,80,95]
    #[arg(long, value_delimiter = ',')]
    pub loads: Option<Vec<u64>>,
    /// How often each case is measured on each system, with the systems in turn; the medians are compared. The number of
    /// seeds of mixed-load
    #[arg(long, default_value_t = 1)]
    pub rounds: usize,
    /// Also write one JSON object per line to this file
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// The measured systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SchedulingSystem {
    /// No scheduler: 64 workers post binds as fast as kube-apiserver accepts them
    Bare,
    /// kube-scheduler on kube-apiserver
    KubeScheduler,
    /// Our scheduler on kube-apiserver
    Phalanx,
    /// Our scheduler on our own durable server, pods posted directly, from the first create to the last bind
    PhalanxEmbedded,
    /// The same, but the pods come from gang Jobs and run on simulated nodes
    PhalanxJobs,
}

impl SchedulingSystem {
    const ALL: [SchedulingSystem; 5] = [
        SchedulingSystem::Bare,
        SchedulingSystem::KubeScheduler,
        SchedulingSystem::Phalanx,
        SchedulingSystem::PhalanxEmbedded,
        SchedulingSystem::PhalanxJobs,
    ];

    fn name(self) -> &'static str {
        match self {
            SchedulingSystem::Bare => "bare",
            SchedulingSystem::KubeScheduler => "kube-scheduler",
            SchedulingSystem::Phalanx => "phalanx",
            SchedulingSystem::PhalanxEmbedded => "phalanx-embedded",
            SchedulingSystem::PhalanxJobs => "phalanx-jobs",
        }
    }

    fn uses_kube_apiserver(self) -> bool {
        matches!(self, SchedulingSystem::Bare | SchedulingSystem::KubeScheduler | SchedulingSystem::Phalanx)
    }

    /// Whether the case can run on it.
    fn supports(self, case: &SchedulingCase) -> bool {
        match self {
            SchedulingSystem::PhalanxJobs => case.policy == CasePolicy::Gang,
            _ => true,
        }
    }
}

const CASES: [&str; 6] = ["single-10000", "gang-1000x3", "gang-3x1000", "basic-1000x3", "tas-750x4", "tas-3x1000"];

/// The result of one case on one system.
pub struct SchedulingRow {
    system: SchedulingSystem,
    case: SchedulingCase,
    /// From the scheduler's readiness (our own server: from the first create) to the last bind.
    seconds: f64,
    /// From the scheduler's start to its readiness.
    ready_seconds: Option<f64>,
    /// How long creating groups and pods took; included in `seconds` on our own server.
    create_seconds: f64,
    decisions: Option<DecisionHistogram>,
    rss_mb: Option<f64>,
    /// Only on kube-apiserver.
    window: Option<MeasurementWindow>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.case.as_deref() == Some(mixed_load::CASE) {
        return mixed_load::run(args);
    }
    let systems = if args.systems.is_empty() { SchedulingSystem::ALL.to_vec() } else { args.systems.clone() };
    let names = args.case.as_deref().map_or(CASES.to_vec(), |case| vec![case]);
    let cases: Vec<SchedulingCase> = names.into_iter().map(str::parse).collect::<Result<_, _>>()?;
    let mut json = args.json.as_ref().map(File::create).transpose().context("the file for --json")?;
    std::fs::create_dir_all(&args.folder)?;
    println!(
        "{:<14} {:<17} {:>8} {:>9} {:>11} {:>9} {:>9} {:>8} {:>8} {:>8} {:>9} {:>10}",
        "case",
        "system",
        "seconds",
        "pods/s",
        "decide ms",
        "p50 ms",
        "p99 ms",
        "rss MB",
        "ready s",
        "first s",
        "server s",
        "creates/s"
    );
    let mut rows = Vec::new();
    let mut record = |row: SchedulingRow| -> anyhow::Result<()> {
        println!("{}", row.text());
        if let Some(file) = &mut json {
            writeln!(file, "{}", row.to_json())?;
        }
        rows.push(row);
        Ok(())
    };
    measure_on_kube(args, &cases, &systems, &mut record)?;
    for case in cases.iter().flat_map(|case| std::iter::repeat_n(case, args.rounds)) {
        for system in systems.iter().filter(|system| !system.uses_kube_apiserver() && system.supports(case)) {
            record(embedded::measure(args, *system, case)?)?;
        }
    }
    print!("{}", summary::text(&rows));
    Ok(())
}

type RowSink<'a> = dyn FnMut(SchedulingRow) -> anyhow::Result<()> + 'a;

fn measure_on_kube(
    args: &Args,
    cases: &[SchedulingCase],
    systems: &[SchedulingSystem],
    record: &mut RowSink<'_>,
) -> anyhow::Result<()> {
    let wanted: Vec<SchedulingSystem> = systems.iter().copied().filter(|system| system.uses_kube_apiserver()).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    // As in upstream's own benchmark.
    let plan = ControlPlaneConfig {
        disabled_admission: vec!["ServiceAccount", "TaintNodesByCondition", "Priority"],
        ..ControlPlaneConfig::default()
    };
    let mut programs = plan.required_programs();
    programs.push("kube-scheduler");
    if !kubernetes::ensure_programs(&programs)? {
        println!("the programs of Kubernetes are missing and cannot be built here: kube-apiserver is not measured");
        return Ok(());
    }
    let mut control_plane = KubeControlPlane::start("bench-kube", &plan)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let client = runtime.block_on(control_plane.client())?;
    let server = ServerPids::of(&control_plane)?;
    let mut nodes = 0;
    for case in cases {
        if nodes != case.nodes {
            eprintln!("making {} nodes", case.nodes);
            anyhow::ensure!(nodes == 0, "all cases of one run need the same number of nodes");
            runtime.block_on(load::create_nodes(&client, case.nodes))?;
            nodes = case.nodes;
        }
        let round = || wanted.iter().filter(|system| system.supports(case));
        for system in (0..args.rounds).flat_map(|_| round()) {
            eprintln!("{case} on {}", system.name());
            let creation = runtime.block_on(load::create_objects(&client, case))?;
            let before = runtime.block_on(WindowStart::now(&client, server))?;
            let row = match system {
                SchedulingSystem::Bare => runtime.block_on(measure_bare_binds(&client, case, &creation, before))?,
                _ => {
                    let start = || RunningScheduler::start(args, *system, &mut control_plane, &plan);
                    measure_scheduler(&runtime, &client, *system, case, &creation, before, start)?
                }
            };
            control_plane.stop_program("kube-scheduler");
            record(row)?;
            runtime.block_on(load::delete_objects(&client, case))?;
        }
    }
    Ok(())
}

/// Binds without a scheduler: the limit of the server.
async fn measure_bare_binds(
    client: &::kube::Client,
    case: &SchedulingCase,
    creation: &CreationTime,
    before: WindowStart,
) -> anyhow::Result<SchedulingRow> {
    let watching = tokio::spawn(load::BindWatch::from_now(client).await?.wait_for(case.pods()));
    let (started, cpu) = (Instant::now(), before.cpu()?);
    load::bind_all(client, case).await?;
    let binds = watching.await??;
    Ok(SchedulingRow {
        system: SchedulingSystem::Bare,
        case: case.clone(),
        seconds: binds.last.duration_since(started).as_secs_f64(),
        ready_seconds: None,
        create_seconds: creation.seconds,
        decisions: None,
        rss_mb: None,
        window: Some(before.finish(client, started, cpu, binds).await?),
    })
}

fn measure_scheduler(
    runtime: &tokio::runtime::Runtime,
    client: &::kube::Client,
    system: SchedulingSystem,
    case: &SchedulingCase,
    creation: &CreationTime,
    before: WindowStart,
    start: impl FnOnce() -> anyhow::Result<RunningScheduler>,
) -> anyhow::Result<SchedulingRow> {
    let binds = runtime.block_on(load::BindWatch::from_now(client))?;
    // Polled from now on, so that the time of the last bind is exact.
    let watching = runtime.spawn(binds.wait_for(case.pods()));
    let started = Instant::now();
    let scheduler = start()?;
    let ready = runtime.block_on(scheduler.wait_until_ready())?;
    let cpu = before.cpu()?;
    let binds = runtime.block_on(watching)??;
    let window = Some(runtime.block_on(before.finish(client, ready, cpu, binds))?);
    let decisions = runtime.block_on(scheduler.decisions(case))?;
    let rss_mb = Some(scheduler.peak_mb()?);
    let seconds = binds.last.saturating_duration_since(ready).as_secs_f64();
    let ready_seconds = Some(ready.duration_since(started).as_secs_f64());
    let create_seconds = creation.seconds;
    Ok(SchedulingRow { system, case: case.clone(), seconds, ready_seconds, create_seconds, decisions, rss_mb, window })
}

impl SchedulingRow {
    fn pods_per_second(&self) -> f64 {
        self.case.pods() as f64 / self.seconds
    }

    fn text(&self) -> String {
        let number =
            |value: Option<f64>, digits: usize| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
        let decisions = self.decisions.as_ref();
        format!(
            "{:<14} {:<17} {:>8.2} {:>9.0} {:>11} {:>9} {:>9} {:>8} {:>8} {:>8} {:>9} {:>10.0}",
            self.case,
            self.system.name(),
            self.seconds,
            self.pods_per_second(),
            number(decisions.map(DecisionHistogram::mean_ms), 4),
            number(decisions.map(|decisions| decisions.percentile_ms(50)), 2),
            number(decisions.map(|decisions| decisions.percentile_ms(99)), 2),
            number(self.rss_mb, 0),
            number(self.ready_seconds, 1),
            number(self.window.as_ref().map(|window| window.first_bind_seconds), 2),
            number(self.window.as_ref().map(|window| window.apiserver_cpu_seconds), 2),
            self.case.pods() as f64 / self.create_seconds,
        )
    }

    fn to_json(&self) -> Value {
        let decisions = self.decisions.as_ref();
        json!({
            "case": self.case.name,
            "system": self.system.name(),
            "nodes": self.case.nodes,
            "pods": self.case.pods(),
            "groups": if self.case.policy == CasePolicy::Single { 0 } else { self.case.groups },
            "seconds": self.seconds,
            "pods_per_second": self.pods_per_second(),
            "decide_ms_mean": decisions.map(DecisionHistogram::mean_ms),
            "decide_ms_p50": decisions.map(|decisions| decisions.percentile_ms(50)),
            "decide_ms_p99": decisions.map(|decisions| decisions.percentile_ms(99)),
            "rss_mb": self.rss_mb,
            "ready_seconds": self.ready_seconds,
            "creates_per_second": self.case.pods() as f64 / self.create_seconds,
            "window": self.window.as_ref().map(MeasurementWindow::to_json),
        })
    }
}

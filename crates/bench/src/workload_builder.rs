//! The workload builder: how long it takes to compile and check one workload.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Context;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;
use workloadbuilder::field::Path;
use workloadbuilder::{
    BuildOptions, Builder, DisruptionMode, PolicyKind, SchedulingConfig, SchedulingPolicy, WorkloadItem, names,
};

/// Options of `bench builder`.
#[derive(clap::Args)]
pub struct Args {
    /// How often each case is run
    #[arg(long, default_value_t = 100_000)]
    times: u32,
    /// Also write the results to this file, one JSON object per line
    #[arg(long)]
    json: Option<std::path::PathBuf>,
}

/// Runs every case and prints it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    println!("{:>28} {:>12} {:>12} {:>12}", "case", "validate µs", "workload µs", "groups µs");
    let mut lines = String::new();
    for (case, item) in
        [("one group", gang("workers", vec![])), ("8 groups in a composite", set(8)), ("64 groups", grid())]
    {
        let builder = Builder::new(item, options());
        let [validate, workload, groups] = [
            mean_us(args.times, || drop(black_box(builder.validate(None)))),
            mean_us(args.times, || drop(black_box(builder.build_workload()))),
            mean_us(args.times, || drop(black_box(builder.build_groups()))),
        ];
        anyhow::ensure!(builder.validate(None).is_empty(), "{case} must be valid");
        println!("{case:>28} {validate:>12.2} {workload:>12.2} {groups:>12.2}");
        let line = json!({"case": case, "validate_us": validate, "workload_us": workload, "groups_us": groups});
        lines.push_str(&format!("{line}\n"));
    }
    if let Some(file) = &args.json {
        std::fs::write(file, lines).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

fn mean_us(times: u32, mut run: impl FnMut()) -> f64 {
    let begin = Instant::now();
    for _ in 0..times {
        run();
    }
    begin.elapsed().as_secs_f64() * 1e6 / f64::from(times)
}

fn gang(name: &str, children: Vec<WorkloadItem>) -> WorkloadItem {
    let policy = Some(SchedulingPolicy::Gang { min_count: Some(4) });
    WorkloadItem {
        default_config: SchedulingConfig { policy, ..SchedulingConfig::default() },
        children,
        ..WorkloadItem::new(name, Path::new("spec").child("scheduling"))
    }
}

fn set(groups: usize) -> WorkloadItem {
    gang("set", (0..groups).map(|i| gang(&format!("workers-{i}"), vec![])).collect())
}

/// Eight composites of eight groups each.
fn grid() -> WorkloadItem {
    let row = |i: usize| (0..8).map(|j| gang(&format!("workers-{i}-{j}"), vec![])).collect();
    gang("grid", (0..8).map(|i| gang(&format!("row-{i}"), row(i))).collect())
}

fn options() -> BuildOptions {
    let owner = OwnerReference {
        api_version: "example.com/v1".to_owned(),
        kind: "Training".to_owned(),
        name: "train".to_owned(),
        uid: "0b5e".to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    };
    BuildOptions {
        name: names::workload_name(&owner.name, &owner.uid),
        namespace: "default".to_owned(),
        owner: Some(owner),
        allowed_policies: vec![PolicyKind::Basic, PolicyKind::Gang],
        allowed_disruption_modes: vec![DisruptionMode::Single, DisruptionMode::All],
        ..BuildOptions::default()
    }
}

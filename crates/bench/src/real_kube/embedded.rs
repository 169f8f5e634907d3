//! Everything in one process of ours, its data on disk: from the first create to the last bind.

use std::time::Instant;

use kube::Client;
use runtime::request;
use serde_json::json;
use supervisor::{UpConfig, UpProcess};

use super::load::{self, BindWatch};
use super::{Args, SchedulingRow, SchedulingSystem};
use crate::pod_life::peak_mb_of;
use crate::scheduling_cases::{RACK, SchedulingCase};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Measures one case.
pub fn measure(args: &Args, system: SchedulingSystem, case: &SchedulingCase) -> anyhow::Result<SchedulingRow> {
    eprintln!("{case} on {}", system.name());
    let folder = args.folder.join(system.name());
    // Each start uses an empty directory.
    let _ = std::fs::remove_dir_all(&folder);
    let mut plan = UpConfig::new(&supervisor::resolve_program(&args.phalanx)?, &folder)?;
    let with_jobs = system == SchedulingSystem::PhalanxJobs;
    plan.options = if with_jobs {
        vec!["--nodes".to_owned(), case.nodes.to_string()]
    } else {
        vec!["--without".to_owned(), "nodes".to_owned()]
    };
    let up = UpProcess::start(&plan, "127.0.0.1:0")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (seconds, create_seconds) = runtime.block_on(async {
        let client = up.client().await?;
        if with_jobs { through_jobs(&client, case).await } else { directly(&client, case).await }
    })?;
    let rss_mb = Some(peak_mb_of(std::path::Path::new(&format!("/proc/{}/status", up.pid())))?);
    up.stop()?;
    let case = case.clone();
    Ok(SchedulingRow {
        system,
        case,
        seconds,
        ready_seconds: None,
        create_seconds,
        decisions: None,
        rss_mb,
        window: None,
    })
}

async fn directly(client: &Client, case: &SchedulingCase) -> anyhow::Result<(f64, f64)> {
    load::create_nodes(client, case.nodes).await?;
    let binds = BindWatch::from_now(client).await?;
    let watching = tokio::spawn(binds.wait_for(case.pods()));
    let started = Instant::now();
    let made = load::create_objects(client, case).await?;
    let bind_times = watching.await??;
    Ok((bind_times.last.duration_since(started).as_secs_f64(), made.seconds))
}

async fn through_jobs(client: &Client, case: &SchedulingCase) -> anyhow::Result<(f64, f64)> {
    let binds = BindWatch::in_collection(client, PODS).await?;
    let watching = tokio::spawn(binds.wait_for(case.pods()));
    let started = Instant::now();
    let jobs = (0..case.groups).map(|group| job(case, group));
    load::for_each_concurrent(jobs, |job| async move { request::post(client, JOBS, &job).await.map(drop) }).await?;
    let made = started.elapsed().as_secs_f64();
    let bind_times = watching.await??;
    Ok((bind_times.last.duration_since(started).as_secs_f64(), made))
}

/// A gang Job whose pods run until the end of the benchmark.
fn job(case: &SchedulingCase, group: usize) -> serde_json::Value {
    let mut spec = load::pod_spec(case, group * case.pods_per_group);
    spec["restartPolicy"] = "Never".into();
    let mut scheduling = json!({"schedulingPolicy": {"gang": {"minCount": case.pods_per_group}}});
    if case.policy == crate::scheduling_cases::CasePolicy::GangInRack {
        scheduling["schedulingConstraints"] = json!({"topology": [{"key": RACK}]});
    }
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": SchedulingCase::group_name(group), "namespace": "default"},
        "spec": {
            "parallelism": case.pods_per_group, "completions": case.pods_per_group,
            "scheduling": scheduling,
            "template": {"metadata": {"annotations": {"phalanx.dev/run-seconds": "600"}}, "spec": spec},
        },
    })
}

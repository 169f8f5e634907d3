//! The Jobs of a round and when they are created. One seed and load give the same Jobs.

use std::time::Duration;

use api::Random;
use serde_json::{Value, json};

use crate::scheduling_cases::RACK;

/// Nodes of 8 GPUs, in racks of 8.
pub const NODES: usize = 32;
const GPUS: u64 = 8 * NODES as u64;
/// How long Jobs are created.
const WINDOW: Duration = Duration::from_secs(60);
/// Jobs of so many pods are large.
const LARGE_PODS: usize = 16;

/// The Jobs of a round.
pub struct JobTrace {
    /// In the order of creation.
    pub jobs: Vec<TracedJob>,
}

/// A Job of pods with one GPU each.
pub struct TracedJob {
    /// When it is created.
    pub at: Duration,
    pub pods: usize,
    pub run_seconds: u64,
    is_gang: bool,
    in_rack: bool,
}

impl JobTrace {
    /// 1 to 64 pods, small Jobs more often (each doubling of the size is as likely); 1 to 8 s; 80 % are gangs, and 40 %
    /// of those are in one rack. Their pods would use `load` percent of the GPUs in the window.
    pub fn generate(seed: u64, load: u64) -> JobTrace {
        let random = Random::seeded(seed);
        let mut jobs = Vec::new();
        let mut gpu_seconds = 0;
        while gpu_seconds < GPUS * WINDOW.as_secs() * load / 100 {
            let exponent = random.below(1 << 20) as f64 / (1u64 << 20) as f64 * 65f64.log2();
            let pods = (exponent.exp2() as usize).clamp(1, 64);
            let run_seconds = 1 + random.below(8);
            let is_gang = random.below(100) < 80;
            let in_rack = is_gang && random.below(100) < 40;
            gpu_seconds += pods as u64 * run_seconds;
            let at = Duration::from_millis(random.below(WINDOW.as_millis() as u64));
            jobs.push(TracedJob { at, pods, run_seconds, is_gang, in_rack });
        }
        jobs.sort_by_key(|job| job.at);
        JobTrace { jobs }
    }

    /// The waits of large Jobs and of small ones; `waits` has one for each Job.
    pub fn split_by_size(&self, waits: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (large, small): (Vec<_>, Vec<_>) =
            std::iter::zip(&self.jobs, waits).partition(|(job, _)| job.pods >= LARGE_PODS);
        let waits = |jobs: Vec<(&TracedJob, &f64)>| jobs.into_iter().map(|(_, wait)| *wait).collect();
        (waits(large), waits(small))
    }
}

impl TracedJob {
    /// The Job as it is posted.
    pub fn document(&self, name: &str) -> Value {
        let mut scheduling = Value::Null;
        if self.is_gang {
            scheduling = json!({"schedulingPolicy": {"gang": {"minCount": self.pods}}});
        }
        if self.in_rack {
            scheduling["schedulingConstraints"] = json!({"topology": [{"key": RACK}]});
        }
        let annotations = json!({"phalanx.dev/run-seconds": self.run_seconds.to_string()});
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {
                "parallelism": self.pods, "completions": self.pods, "completionMode": "Indexed",
                "scheduling": scheduling,
                "template": {"metadata": {"annotations": annotations}, "spec": {
                    "restartPolicy": "Never",
                    "containers": [{
                        "name": "main", "image": "registry.example/main:1",
                        "resources": {"limits": {"nvidia.com/gpu": "1"}},
                    }],
                }},
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jobs_of_a_round_use_the_share_that_it_names() {
        for load in [50, 95] {
            let trace = JobTrace::generate(1, load);
            let used: u64 = trace.jobs.iter().map(|job| job.pods as u64 * job.run_seconds).sum();
            let all = GPUS * WINDOW.as_secs();
            assert!((used * 100).div_ceil(all).abs_diff(load) <= 4, "{used} of {all}");
            assert!(trace.jobs.iter().all(|job| (1..=64).contains(&job.pods) && job.at < WINDOW));
            let (large, small) = trace.split_by_size(&vec![0.0; trace.jobs.len()]);
            assert!(large.len() > 10 && small.len() > large.len(), "{} and {}", large.len(), small.len());
        }
    }
}

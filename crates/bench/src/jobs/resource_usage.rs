//! The writes that a server counted, and CPU and memory of a process.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use kube::Client;
use runtime::request;

use super::running_system::RunningSystem;
use crate::pod_life::{cpu_seconds_of, resident_mb_of};

/// The values that are read before and after.
pub struct ResourceUsage {
    /// All writes so far.
    pub writes: WriteCounts,
    /// CPU time of the process with the Job controller.
    pub cpu_seconds: f64,
    /// Its resident memory.
    pub rss_mb: f64,
    /// The scheduler's core so far; zero where the server has no scheduler.
    pub core: CoreWork,
}

impl ResourceUsage {
    /// The current values.
    pub async fn now(client: &Client, running: &RunningSystem) -> anyhow::Result<ResourceUsage> {
        let id = running.controllers_pid();
        let metrics = server_metrics(client).await?;
        Ok(ResourceUsage {
            writes: WriteCounts::parse_metrics(&metrics),
            core: CoreWork::parse_metrics(&metrics),
            cpu_seconds: cpu_seconds_of(Path::new(&format!("/proc/{id}/stat")))?,
            rss_mb: resident_mb_of(Path::new(&format!("/proc/{id}/status")))?,
        })
    }
}

/// The metrics of a server, as text.
async fn server_metrics(client: &Client) -> anyhow::Result<String> {
    let metrics = request::get(client, "/metrics").await?;
    Ok(String::from_utf8_lossy(&metrics).into_owned())
}

/// Accepted writes by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts(BTreeMap<String, u64>);

impl WriteCounts {
    /// All writes that the server has accepted so far.
    pub async fn now(client: &Client) -> anyhow::Result<WriteCounts> {
        Ok(WriteCounts::parse_metrics(&server_metrics(client).await?))
    }

    /// Parses `apiserver_request_total`, which our server and kube-apiserver have.
    fn parse_metrics(text: &str) -> WriteCounts {
        let mut writes = BTreeMap::new();
        for line in text.lines().filter_map(|line| line.strip_prefix("apiserver_request_total{")) {
            let Some((labels, value)) = line.rsplit_once("} ") else { continue };
            let label = |name: &str| {
                let start = labels.find(&format!("{name}=\""))? + name.len() + 2;
                labels[start..].split('"').next()
            };
            let is_write = matches!(label("verb"), Some("POST" | "PUT" | "PATCH" | "APPLY" | "DELETE"));
            let is_accepted = label("code").is_some_and(|code| code.starts_with('2'));
            if let (true, Some(resource), Ok(count)) =
                (is_write && is_accepted, label("resource"), value.parse::<f64>())
            {
                *writes.entry(resource.to_owned()).or_default() += count as u64;
            }
        }
        WriteCounts(writes)
    }

    /// The writes since `earlier`.
    pub fn since(&self, earlier: &WriteCounts) -> WriteCounts {
        let more = |(resource, count): (&String, &u64)| {
            let before = earlier.0.get(resource).copied().unwrap_or(0);
            (*count > before).then(|| (resource.clone(), count - before))
        };
        WriteCounts(self.0.iter().filter_map(more).collect())
    }

    /// The sum over all resources.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// By resource.
    pub fn per_resource(&self) -> &BTreeMap<String, u64> {
        &self.0
    }

    /// By resource, per Job, as text.
    pub fn per_job_text(&self, jobs: usize) -> String {
        self.0.iter().fold(String::new(), |mut text, (resource, count)| {
            write!(text, "{resource} {:.2}  ", *count as f64 / jobs as f64).expect("writing to a string does not fail");
            text
        })
    }
}

/// What the scheduler's core did, from its metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreWork {
    /// The time in which it noted changes and made decisions.
    pub seconds: f64,
    /// Decisions about pods and PodGroups.
    pub decisions: f64,
}

impl CoreWork {
    fn parse_metrics(text: &str) -> CoreWork {
        let value = |name: &str| -> f64 {
            let values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            values.filter_map(|value| value.parse::<f64>().ok()).sum()
        };
        CoreWork {
            seconds: value("phalanx_scheduler_core_seconds_total"),
            decisions: value("scheduler_scheduling_algorithm_duration_seconds_count")
                + value("scheduler_podgroup_scheduling_algorithm_duration_seconds_count"),
        }
    }

    /// The work since `earlier`.
    pub fn since(&self, earlier: &CoreWork) -> CoreWork {
        CoreWork { seconds: self.seconds - earlier.seconds, decisions: self.decisions - earlier.decisions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_counted_by_resource_and_refusals_are_not() {
        let ours = "apiserver_request_total{verb=\"POST\",resource=\"pods\",code=\"201\"} 7\n\
                    apiserver_request_total{verb=\"PATCH\",resource=\"pods\",code=\"200\"} 3\n\
                    apiserver_request_total{verb=\"PATCH\",resource=\"pods\",code=\"409\"} 9\n\
                    apiserver_request_total{verb=\"WATCH\",resource=\"pods\",code=\"200\"} 9\n";
        let theirs = "apiserver_request_total{code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"batch\",\
                      resource=\"jobs\",scope=\"resource\",subresource=\"status\",verb=\"PUT\",version=\"v1\"} 1.2e+03\n";
        let (before, after) =
            (WriteCounts::parse_metrics(ours), WriteCounts::parse_metrics(&format!("{ours}{theirs}")));
        assert_eq!(before.per_job_text(10), "pods 1.00  ");
        assert_eq!(after.since(&before).per_job_text(100), "jobs 12.00  ");
        assert_eq!(after.total(), 1_210);
    }

    #[test]
    fn the_work_of_the_core_is_read_from_the_metrics_of_the_scheduler() {
        let metrics = "# TYPE phalanx_scheduler_core_seconds counter\nphalanx_scheduler_core_seconds_total 2.5\n\
                       scheduler_scheduling_algorithm_duration_seconds_count 10\n\
                       scheduler_podgroup_scheduling_algorithm_duration_seconds_count 3\n";
        assert_eq!(CoreWork::parse_metrics(metrics), CoreWork { seconds: 2.5, decisions: 13.0 });
    }
}

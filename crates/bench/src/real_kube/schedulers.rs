//! The schedulers under test, and their metrics.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kube::Client;
use runtime::request;
use supervisor::kubernetes::{ControlPlaneConfig, KubeControlPlane, TOKEN};
use supervisor::{SupervisedProcess, resolve_program, start_component};

use super::{Args, SchedulingSystem};
use crate::pod_life::peak_mb_of;
use crate::scheduling_cases::{CasePolicy, SchedulingCase};

/// With large groups kube-scheduler takes minutes to fill its queue before it reports ready.
const READY_TIMEOUT_SECONDS: u64 = 1_200;
const POLL: Duration = Duration::from_millis(10);

/// A started scheduler. Dropping ours kills it; the control plane ends kube-scheduler.
pub struct RunningScheduler {
    pid: u32,
    /// The URL of its health and metrics.
    url: String,
    _process: Option<SupervisedProcess>,
}

impl RunningScheduler {
    /// Starts it. Waits only until its URL is known.
    pub fn start(
        args: &Args,
        system: SchedulingSystem,
        real: &mut KubeControlPlane,
        plan: &ControlPlaneConfig,
    ) -> anyhow::Result<RunningScheduler> {
        if system == SchedulingSystem::KubeScheduler {
            let port = real.start_scheduler(plan)?;
            let id = real.pid("kube-scheduler").context("it was started")?;
            return Ok(RunningScheduler { pid: id, url: format!("https://127.0.0.1:{port}"), _process: None });
        }
        let phalanx = resolve_program(&args.phalanx)?;
        let options = ["--leader-elect=false", "--metrics-listen", "127.0.0.1:0"];
        let scheduler = start_component(&phalanx, "scheduler", &options, &real.kubeconfig(), &args.folder)?;
        let url = scheduler
            .ready_line()?
            .split("metrics=")
            .nth(1)
            .context("the ready line has the URL of the metrics")?
            .to_owned();
        Ok(RunningScheduler { pid: scheduler.pid(), url, _process: Some(scheduler) })
    }

    /// When it was first ready.
    pub async fn wait_until_ready(&self) -> anyhow::Result<Instant> {
        let client = self.client()?;
        let deadline = Instant::now() + Duration::from_secs(READY_TIMEOUT_SECONDS);
        loop {
            match request::get(&client, "/readyz").await {
                Ok(_) => return Ok(Instant::now()),
                Err(error) if Instant::now() > deadline => bail!("the scheduler is not ready: {error}"),
                Err(_) => tokio::time::sleep(POLL).await,
            }
        }
    }

    /// How long its decisions took.
    pub async fn decisions(&self, case: &SchedulingCase) -> anyhow::Result<Option<DecisionHistogram>> {
        let name = match case.policy {
            CasePolicy::Single => "scheduler_scheduling_algorithm_duration_seconds",
            _ => "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        };
        let text = request::get(&self.client()?, "/metrics").await?;
        Ok(DecisionHistogram::parse_metrics(&String::from_utf8_lossy(&text), name))
    }

    /// Its peak memory.
    pub fn peak_mb(&self) -> anyhow::Result<f64> {
        peak_mb_of(Path::new(&format!("/proc/{}/status", self.pid)))
    }

    fn client(&self) -> anyhow::Result<Client> {
        let mut config = kube::Config::new(self.url.parse()?);
        // It has a self-signed certificate. It is on this machine, and only its metrics are read.
        config.accept_invalid_certs = true;
        config.auth_info.token = Some(TOKEN.to_owned().into());
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }
}

/// The upper bound of a bucket: the label `le`, and not the end of another label's name.
fn bucket_bound(labels: &str) -> Option<&str> {
    let rest = labels.split_once("{le=\"").or_else(|| labels.split_once(",le=\""))?.1;
    rest.split('"').next()
}

/// A histogram of durations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecisionHistogram {
    sum: f64,
    count: f64,
    /// How many took at most this many microseconds.
    buckets: BTreeMap<u64, f64>,
}

impl DecisionHistogram {
    /// Parses one histogram in the Prometheus format with any labels; `None` if its count is zero.
    fn parse_metrics(text: &str, name: &str) -> Option<DecisionHistogram> {
        let mut decisions = DecisionHistogram::default();
        for line in text.lines().filter_map(|line| line.strip_prefix(name)) {
            let Some((labels, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            if labels.starts_with("_sum") {
                decisions.sum += value;
            } else if labels.starts_with("_count") {
                decisions.count += value;
            } else if let Some(bound) = bucket_bound(labels) {
                let bound = bound.parse::<f64>().ok().filter(|bound| bound.is_finite());
                *decisions.buckets.entry(bound.map_or(u64::MAX, |bound| (bound * 1e6) as u64)).or_default() += value;
            }
        }
        (decisions.count > 0.0).then_some(decisions)
    }

    /// The mean, in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.sum * 1e3 / self.count
    }

    /// The upper bound of the bucket in which the percentile lies, in milliseconds.
    pub fn percentile_ms(&self, percent: u32) -> f64 {
        let rank = self.count * f64::from(percent) / 100.0;
        let bound = self.buckets.iter().find(|(_, count)| **count >= rank).map(|(bound, _)| *bound);
        bound.filter(|bound| *bound != u64::MAX).map_or(f64::INFINITY, |bound| bound as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_parsed_with_any_labels() {
        let text = "# TYPE d histogram\nd_bucket{profile=\"a\",le=\"0.001\"} 1\nd_bucket{profile=\"a\",le=\"0.002\"} 3\n\
                    d_bucket{profile=\"a\",le=\"+Inf\"} 4\nd_sum{profile=\"a\"} 0.01\nd_count{profile=\"a\"} 4\nother 1\n";
        let read = DecisionHistogram::parse_metrics(text, "d").expect("the histogram exists");
        assert!((read.mean_ms() - 2.5).abs() < 1e-9, "{read:?}");
        assert_eq!((read.percentile_ms(25), read.percentile_ms(75), read.percentile_ms(99)), (1.0, 2.0, f64::INFINITY));
        assert_eq!(DecisionHistogram::parse_metrics(text, "nothing"), None);
    }
}

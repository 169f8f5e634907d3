//! Submits Jobs, and watches them until they complete.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures::future::{join, try_join_all};
use futures::{StreamExt, TryStreamExt};
use kube::Client;
use kube::core::WatchEvent;
use runtime::{is_expired, request};
use serde::Deserialize;
use serde_json::{Value, json};

use super::resource_usage::{ResourceUsage, WriteCounts};
use super::running_system::RunningSystem;

pub const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const WORKLOADS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/workloads";
const PODS: &str = "/api/v1/namespaces/default/pods";
/// Concurrent requests of the load.
const MAX_IN_FLIGHT: usize = 32;
/// A case that takes longer has stopped making progress.
const TIMEOUT_SECONDS: u64 = 600;
/// Jobs that are run first, to open connections and fill caches.
const WARM_UP: usize = 16;
/// How long Events may follow the last Job.
const EVENTS_SETTLE: Duration = Duration::from_secs(2);

/// A number of equal Jobs.
#[derive(Clone, Copy, Debug)]
pub struct JobLoad {
    /// The number of Jobs.
    pub jobs: usize,
    /// The pods of each Job that must succeed.
    pub pods: usize,
    parallelism: usize,
    shape: JobShape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobShape {
    Plain,
    Gang,
    /// A gang whose Workload exists before, and which its Job references.
    WithWorkloadRef,
    Indexed,
}

impl JobLoad {
    /// Jobs of one pod.
    pub fn single(jobs: usize) -> JobLoad {
        JobLoad { jobs, pods: 1, parallelism: 1, shape: JobShape::Plain }
    }

    /// Gangs.
    pub fn gangs(jobs: usize, pods: usize) -> JobLoad {
        JobLoad { jobs, pods, parallelism: pods, shape: JobShape::Gang }
    }

    /// Gangs whose Workloads were created by users, each referenced by its Job (`workloadRef`).
    pub fn gangs_with_workload_ref(jobs: usize, pods: usize) -> JobLoad {
        JobLoad { jobs, pods, parallelism: pods, shape: JobShape::WithWorkloadRef }
    }

    /// One Job with this many indexes, `parallelism` of them at a time.
    pub fn indexed(completions: usize, parallelism: usize) -> JobLoad {
        JobLoad { jobs: 1, pods: completions, parallelism, shape: JobShape::Indexed }
    }

    /// Submits the Jobs and returns when the last one is Complete.
    pub async fn run(&self, running: &RunningSystem) -> anyhow::Result<JobsMeasurement> {
        let client = running.client().await?;
        let warm_up = JobLoad { jobs: WARM_UP, pods: 1, parallelism: 1, shape: JobShape::Plain };
        warm_up.submit_and_watch(&client, "warm").await.context("warming up")?;
        if self.shape == JobShape::WithWorkloadRef {
            self.create_workloads(&client, "job").await.context("creating Workloads")?;
        }
        let before = ResourceUsage::now(&client, running).await?;
        let mut measured = self.submit_and_watch(&client, "job").await?;
        tokio::time::sleep(EVENTS_SETTLE).await;
        let after = ResourceUsage::now(&client, running).await?;
        measured.writes = after.writes.since(&before.writes);
        measured.cpu_seconds = after.cpu_seconds - before.cpu_seconds;
        measured.rss_mb = after.rss_mb;
        Ok(measured)
    }

    async fn submit_and_watch(&self, client: &Client, prefix: &str) -> anyhow::Result<JobsMeasurement> {
        let started = Instant::now();
        let limit = Duration::from_secs(TIMEOUT_SECONDS);
        let jobs = ResumingWatch::begin(client, JOBS, &format!("status.successful%3D{}", self.pods)).await?;
        // Only pods without a node: the watch reports the creation and the bind of each pod, not its later changes.
        let pods = ResumingWatch::begin(client, PODS, "spec.nodeName%3D").await?;
        let prefix = format!("{prefix}-");
        let (complete, first_pods) =
            (wait_for_completion(jobs, &prefix, self.jobs), first_pod_times(pods, &prefix, self.jobs));
        let sent = self.submit(client, &prefix);
        let all = async {
            let watching = join(complete, first_pods);
            let (sent, (ended, first_pods)) = join(sent, watching).await;
            anyhow::Ok((sent?, ended?, first_pods?))
        };
        let (sent, ended, first_pods) = match tokio::time::timeout(limit, all).await {
            Ok(done) => done?,
            Err(_) => bail!("not all Jobs were Complete within {TIMEOUT_SECONDS} s"),
        };
        let begun = sent.sent_at.values().min().copied().unwrap_or(started);
        let waited = sent.acknowledged_at.iter().filter_map(|(name, at)| {
            let first_seen = first_pods.get(name)?;
            Some(first_seen.saturating_duration_since(*at).as_secs_f64() * 1000.0)
        });
        let mut first_pod_ms: Vec<f64> = waited.collect();
        first_pod_ms.sort_by(f64::total_cmp);
        Ok(JobsMeasurement {
            seconds: ended.duration_since(begun).as_secs_f64(),
            create_seconds: sent.last_response.duration_since(begun).as_secs_f64(),
            first_pod_ms,
            writes: WriteCounts::default(),
            cpu_seconds: 0.0,
            rss_mb: 0.0,
        })
    }

    async fn create_workloads(&self, client: &Client, prefix: &str) -> Result<(), kube::Error> {
        let gang = json!([{"name": "workers", "schedulingPolicy": {"gang": {"minCount": self.pods}}}]);
        let make = |index| {
            let metadata = json!({"name": format!("{prefix}-{index}")});
            let workload = json!({
                "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "metadata": metadata,
                "spec": {"podGroupTemplates": gang},
            });
            async move { request::post(client, WORKLOADS, &workload).await.map(drop) }
        };
        futures::stream::iter((0..self.jobs).map(make)).buffer_unordered(MAX_IN_FLIGHT).try_collect().await
    }

    /// Each client submits its next Job after the last response.
    async fn submit(&self, client: &Client, prefix: &str) -> anyhow::Result<SubmitTimes> {
        let next = AtomicUsize::new(0);
        let sender = || async {
            let mut sent = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= self.jobs {
                    return Ok::<_, kube::Error>(sent);
                }
                let name = format!("{prefix}{index}");
                let begun = Instant::now();
                request::post(client, JOBS, &self.job(&name)).await?;
                sent.push((name, begun, Instant::now()));
            }
        };
        let sent = try_join_all((0..MAX_IN_FLIGHT).map(|_| sender())).await?;
        let last = Instant::now();
        let (mut begun, mut acknowledged) = (BTreeMap::new(), BTreeMap::new());
        for (name, from, to) in sent.into_iter().flatten() {
            begun.insert(name.clone(), from);
            acknowledged.insert(name, to);
        }
        Ok(SubmitTimes { sent_at: begun, acknowledged_at: acknowledged, last_response: last })
    }

    fn job(&self, name: &str) -> Value {
        let scheduling = match self.shape {
            JobShape::Gang => json!({"schedulingPolicy": {"gang": {"minCount": self.pods}}}),
            JobShape::Plain | JobShape::WithWorkloadRef | JobShape::Indexed => Value::Null,
        };
        let workload = if self.shape == JobShape::WithWorkloadRef { json!({"name": name}) } else { Value::Null };
        let mode = if self.shape == JobShape::Indexed { "Indexed" } else { "NonIndexed" };
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {
                "completions": self.pods, "parallelism": self.parallelism, "completionMode": mode,
                "scheduling": scheduling, "workloadRef": workload,
                "template": {
                    "metadata": {"annotations": {"phalanx.dev/run-seconds": "0"}},
                    "spec": {"restartPolicy": "Never", "containers": [{
                        "name": "main", "image": "registry.example/main:1", "command": ["run"],
                        "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}},
                    }]},
                },
            },
        })
    }
}

/// When each Job was submitted.
struct SubmitTimes {
    sent_at: BTreeMap<String, Instant>,
    acknowledged_at: BTreeMap<String, Instant>,
    /// The last response.
    last_response: Instant,
}

/// The measured values.
pub struct JobsMeasurement {
    /// From the first create to the last Complete.
    pub seconds: f64,
    /// From the first create to the response to the last.
    pub create_seconds: f64,
    /// From the response to a Job's create until its first pod is watched, in ascending order.
    first_pod_ms: Vec<f64>,
    /// Writes of all clients in the window.
    pub writes: WriteCounts,
    /// CPU time of the process with the Job controller.
    pub cpu_seconds: f64,
    /// Resident memory of that process at the end.
    pub rss_mb: f64,
}

impl JobsMeasurement {
    /// The time from a Job to its first pod that this share of the Jobs does not exceed.
    pub fn first_pod_ms(&self, share: f64) -> f64 {
        let at = (self.first_pod_ms.len().saturating_sub(1) as f64 * share) as usize;
        self.first_pod_ms.get(at).copied().unwrap_or(f64::NAN)
    }
}

/// The fields of a Job or a pod that are read.
#[derive(Clone, Debug, Deserialize)]
struct WatchedObject {
    metadata: WatchedMeta,
    #[serde(default)]
    status: WatchedStatus,
}

#[derive(Deserialize)]
struct WatchedList {
    metadata: WatchedMeta,
    items: VecDeque<WatchedObject>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WatchedMeta {
    name: String,
    resource_version: String,
    owner_references: Vec<OwnerName>,
}

#[derive(Clone, Debug, Deserialize)]
struct OwnerName {
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct WatchedStatus {
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

type WatchEventStream = futures::stream::BoxStream<'static, Result<WatchEvent<WatchedObject>, kube::Error>>;

/// A watch that resumes when it ends: kube-apiserver ends watches whose clients read too slowly, and the client ends
/// idle ones. When the revision is compacted it lists, and reports every object again.
struct ResumingWatch<'a> {
    client: &'a Client,
    /// The collection with its field selector.
    path: String,
    resource_version: String,
    pending: VecDeque<WatchedObject>,
    events: Option<WatchEventStream>,
}

impl<'a> ResumingWatch<'a> {
    /// From now on, the objects of `collection` that match `selector`.
    async fn begin(client: &'a Client, collection: &str, selector: &str) -> anyhow::Result<ResumingWatch<'a>> {
        let path = format!("{collection}?fieldSelector={selector}");
        let mut watch =
            ResumingWatch { client, path, resource_version: String::new(), pending: VecDeque::new(), events: None };
        watch.list().await?;
        watch.pending.clear();
        watch.open().await?;
        Ok(watch)
    }

    async fn list(&mut self) -> anyhow::Result<()> {
        let list: WatchedList = serde_json::from_slice(&request::get(self.client, &self.path).await?)?;
        (self.resource_version, self.pending) = (list.metadata.resource_version, list.items);
        Ok(())
    }

    async fn open(&mut self) -> Result<(), kube::Error> {
        let (path, version, timeout) = (&self.path, &self.resource_version, 2 * TIMEOUT_SECONDS);
        let path =
            format!("{path}&watch=true&allowWatchBookmarks=true&timeoutSeconds={timeout}&resourceVersion={version}");
        let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        self.events = Some(self.client.request_events(request).await?.boxed());
        Ok(())
    }

    /// The next object that began to match or changed.
    async fn next(&mut self) -> anyhow::Result<WatchedObject> {
        loop {
            if let Some(object) = self.pending.pop_front() {
                return Ok(object);
            }
            let Some(events) = &mut self.events else {
                match self.open().await {
                    Err(error) if is_expired(&error) => self.list().await?,
                    opened => opened?,
                }
                continue;
            };
            match events.next().await {
                Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                    self.resource_version.clone_from(&object.metadata.resource_version);
                    return Ok(object);
                }
                Some(Ok(WatchEvent::Deleted(object))) => self.resource_version = object.metadata.resource_version,
                Some(Ok(WatchEvent::Bookmark(bookmark))) => self.resource_version = bookmark.metadata.resource_version,
                Some(Ok(WatchEvent::Error(status))) if status.code == 410 => {
                    self.events = None;
                    self.list().await?;
                }
                Some(Ok(WatchEvent::Error(status))) => bail!("the watch ended: {}", status.message),
                Some(Err(_)) | None => self.events = None,
            }
        }
    }
}

/// Resolves when the last Job is complete.
async fn wait_for_completion(mut jobs: ResumingWatch<'_>, prefix: &str, count: usize) -> anyhow::Result<Instant> {
    let mut ended = BTreeSet::new();
    loop {
        let job = jobs.next().await.with_context(|| format!("{} Jobs are not complete", count - ended.len()))?;
        let is_complete = |it: &Condition| it.kind == "Complete" && it.status == "True";
        let is_end = job.metadata.name.starts_with(prefix) && job.status.conditions.iter().any(is_complete);
        if !is_end || !ended.insert(job.metadata.name) {
            continue;
        }
        if ended.len() == count {
            return Ok(Instant::now());
        }
        if ended.len().is_multiple_of(1_000) {
            eprintln!("  {} Jobs are not complete", count - ended.len());
        }
    }
}

/// When the first pod of each Job was watched.
async fn first_pod_times(
    mut pods: ResumingWatch<'_>,
    prefix: &str,
    count: usize,
) -> anyhow::Result<BTreeMap<String, Instant>> {
    let mut first_seen = BTreeMap::new();
    while first_seen.len() < count {
        let pod = pods.next().await.context("waiting for pods")?;
        let owner = pod.metadata.owner_references.into_iter().find(|owner| owner.name.starts_with(prefix));
        owner.into_iter().for_each(|owner| _ = first_seen.entry(owner.name).or_insert_with(Instant::now));
    }
    Ok(first_seen)
}

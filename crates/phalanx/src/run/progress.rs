//! The state of all work: a pure survey of the caches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Timestamp;
use api::cron::{Schedule, time_zone};
use api::views::{Condition, CronJobView, JobView, MetaView, ObjectKey, PodGroupView, PodPhase, PodView};
use nodes::pod_lifecycle;
use scheduler_core::{Refusal, Unit};

use crate::run::obstacles::{self, ClusterFacts};

/// The objects that the survey reads.
#[derive(Default)]
pub struct ClusterSnapshot {
    /// The time.
    pub now: Timestamp,
    /// The uids of all Workloads.
    pub workloads: BTreeMap<ObjectKey, String>,
    /// All CronJobs.
    pub cron_jobs: Vec<Arc<CronJobView>>,
    /// All Jobs.
    pub jobs: Vec<Arc<JobView>>,
    /// All PodGroups.
    pub pod_groups: Vec<Arc<PodGroupView>>,
    /// All pods.
    pub pods: Vec<Arc<PodView>>,
    /// The scheduler's current refusals.
    pub waiting: BTreeMap<Unit, Refusal>,
    /// Facts about the control plane.
    pub facts: ClusterFacts,
}

impl ClusterSnapshot {
    /// Whether the scheduler refuses the pod, or the group that it names.
    pub fn is_refused(&self, pod: &PodView) -> bool {
        let of_group = pod.group_name().map(|group| Unit::Group(ObjectKey::new(&pod.metadata.namespace, group)));
        let mut units = of_group.into_iter().chain([Unit::Pod(pod.metadata.key())]);
        units.any(|unit| self.waiting.contains_key(&unit))
    }
}

/// A Job, a PodGroup that no Job uses, a pod by itself, or a CronJob.
pub struct TrackedWork {
    /// `job/trainer`; with its namespace where that is not `default`.
    pub title: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `Job`, `PodGroup`, `Pod` or `CronJob`.
    pub kind: &'static str,
    /// The PodGroup of its pods.
    pub group_name: Option<String>,
    /// The group's policy; `None` for pods without a group.
    pub policy: Option<GroupPolicy>,
    /// The node label whose value the group's pods must share.
    pub topology_key: Option<String>,
    /// Number of pods it requests.
    pub desired_pods: usize,
    /// Its pods, in name order.
    pub pods: Vec<Arc<PodView>>,
    /// Its state.
    pub state: WorkState,
    /// The scheduler's refusal, if it is pending.
    pub refusal: Option<Refusal>,
    /// Why it failed.
    pub failure: Option<String>,
    /// Why it can never end by itself.
    pub obstacle: Option<String>,
    /// When a CronJob creates its next Job.
    pub schedule: Option<String>,
    /// Whether a controller may create more pods of it.
    pub creates_pods: bool,
    /// Whether some of its pods end by themselves and free their capacity.
    pub frees_capacity: bool,
}

/// The scheduling policy of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupPolicy {
    /// Pods are placed as they fit.
    Basic,
    /// At least this many together, or none.
    Gang(i32),
}

/// The state of a piece of work, in the order of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkState {
    /// It can never end by itself.
    Blocked,
    /// None of its pods has a node.
    Waiting,
    /// Its pods have nodes, and not all run yet.
    Placed,
    /// All existing pods run or have ended.
    Running,
    /// It succeeded.
    Succeeded,
    /// It failed.
    Failed,
    /// `spec.suspend` is true.
    Suspended,
    /// A CronJob, whose Jobs are work of their own.
    Scheduled,
}

impl WorkState {
    /// The state as text.
    pub fn as_str(self) -> &'static str {
        match self {
            WorkState::Blocked => "blocked",
            WorkState::Waiting => "waiting",
            WorkState::Placed => "placed",
            WorkState::Running => "running",
            WorkState::Succeeded => "done",
            WorkState::Failed => "failed",
            WorkState::Suspended => "suspended",
            WorkState::Scheduled => "scheduled",
        }
    }

    /// Whether its state is final.
    pub fn is_finished(self) -> bool {
        matches!(self, WorkState::Succeeded | WorkState::Failed | WorkState::Suspended | WorkState::Scheduled)
    }
}

impl TrackedWork {
    /// Whether the object belongs to this work: the Job itself, its PodGroup, or one of its pods.
    pub fn has_object(&self, kind: &str, namespace: &str, name: &str) -> bool {
        let is_pod = || self.pods.iter().any(|pod| pod.metadata.name == name);
        self.namespace == namespace
            && match kind {
                "PodGroup" => self.group_name.as_deref().unwrap_or(&self.name) == name,
                "Pod" => is_pod(),
                _ => self.kind == kind && self.name == name,
            }
    }

    /// Pods in `phase`.
    pub fn count(&self, phase: PodPhase) -> usize {
        self.pods.iter().filter(|pod| pod.status.phase == phase).count()
    }

    /// Pods that have a node and have not ended.
    pub fn pods_on_nodes(&self) -> usize {
        self.pods.iter().filter(|pod| pod.node_name().is_some() && !pod.is_finished()).count()
    }
}

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnding {
    /// All work is finished.
    Finished,
    /// The remaining work can never be placed or end, and no running work can free capacity for it.
    Stuck,
}

/// Lists all work: Jobs, then groups and pods outside Jobs, then CronJobs, each in name order.
pub fn survey(snapshot: &ClusterSnapshot) -> Vec<TrackedWork> {
    let mut by_owner: BTreeMap<&str, Vec<Arc<PodView>>> = BTreeMap::new();
    let mut by_group: BTreeMap<ObjectKey, Vec<Arc<PodView>>> = BTreeMap::new();
    let mut single_pods = Vec::new();
    for pod in &snapshot.pods {
        let owner = pod.metadata.controller().filter(|owner| owner.kind == "Job");
        if let Some(owner) = owner {
            by_owner.entry(&owner.uid).or_default().push(pod.clone());
        } else if let Some(group) = pod.group_name() {
            by_group.entry(ObjectKey::new(&pod.metadata.namespace, group)).or_default().push(pod.clone());
        } else {
            single_pods.push(pod.clone());
        }
    }
    let jobs = snapshot.jobs.iter().map(|job| {
        let pods = by_owner.remove(job.metadata.uid.as_str()).unwrap_or_default();
        work_of_job(job, pods, snapshot)
    });
    let mut all: Vec<TrackedWork> = jobs.collect();
    let used = groups_of_jobs(snapshot);
    let lone_groups = snapshot.pod_groups.iter().filter(|group| group.metadata.controller().is_none());
    for group in lone_groups {
        let pods = by_group.remove(&group.metadata.key()).unwrap_or_default();
        if !pods.is_empty() || !used.contains(&group.metadata.key()) {
            all.push(work_of_group(group, pods, snapshot));
        }
    }
    // Pods whose group does not exist or belongs to a Job.
    single_pods.extend(by_group.into_values().flatten());
    single_pods.sort_by_key(|pod| pod.metadata.key());
    all.extend(single_pods.into_iter().map(|pod| work_of_pod(pod, snapshot)));
    all.extend(snapshot.cron_jobs.iter().map(|cron_job| work_of_cron_job(cron_job, snapshot)));
    if !all.iter().any(|work| work.creates_pods) {
        for work in all.iter_mut().filter(|work| !work.state.is_finished() && work.obstacle.is_none()) {
            work.obstacle = obstacles::of_incomplete(work);
        }
    }
    let is_blocked = |work: &&mut TrackedWork| work.obstacle.is_some() && work.pods_on_nodes() == 0;
    all.iter_mut().filter(is_blocked).for_each(|work| work.state = WorkState::Blocked);
    all
}

/// The PodGroups of existing and future pods of Jobs.
fn groups_of_jobs(snapshot: &ClusterSnapshot) -> BTreeSet<ObjectKey> {
    let of_jobs = snapshot.pods.iter().filter(|pod| pod.metadata.controller().is_some_and(|owner| owner.kind == "Job"));
    let named = of_jobs.filter_map(|pod| Some(ObjectKey::new(&pod.metadata.namespace, pod.group_name()?)));
    let to_be = snapshot.jobs.iter().filter_map(|job| {
        Some(ObjectKey::new(&job.metadata.namespace, job.spec.template.scheduling_group.as_deref()?))
    });
    named.chain(to_be).collect()
}

/// How the run ends; `None` while it continues.
pub fn ending(works: &[TrackedWork]) -> Option<RunEnding> {
    if works.iter().all(|work| work.state.is_finished()) {
        return Some(RunEnding::Finished);
    }
    let nothing_runs = !works.iter().any(|work| work.frees_capacity);
    let is_stuck = |work: &TrackedWork| work.obstacle.is_some() || work.refusal.as_ref().is_some_and(|it| it.proven);
    let mut left = works.iter().filter(|work| !work.state.is_finished());
    (nothing_runs && left.all(is_stuck)).then_some(RunEnding::Stuck)
}

fn work_of_job(job: &JobView, pods: Vec<Arc<PodView>>, snapshot: &ClusterSnapshot) -> TrackedWork {
    let named = pods.iter().find_map(|pod| pod.group_name());
    let group = snapshot.pod_groups.iter().find(|group| {
        group.metadata.namespace == job.metadata.namespace
            && match named {
                Some(name) => group.metadata.name == name,
                None => group.metadata.controller().is_some_and(|owner| owner.uid == job.metadata.uid),
            }
    });
    let ended = |kind: &str| job.status.conditions.iter().find(|c| c.kind == kind && c.status == "True");
    let failure = ended("Failed").map(|condition| {
        let of_pod = failure_of_pods(&pods, WorkState::Failed).map_or(String::new(), |pod| format!(" ({pod})"));
        format!("{}: {}{of_pod}", condition.reason, condition.message)
    });
    let state = if failure.is_some() {
        WorkState::Failed
    } else if Condition::is_true(&job.status.conditions, "Complete") {
        WorkState::Succeeded
    } else if job.spec.suspend == Some(true) {
        WorkState::Suspended
    } else {
        state_of_pods(&pods)
    };
    let parallelism = job.spec.parallelism.unwrap_or(1);
    let wanted = job.spec.completions.unwrap_or(parallelism).max(0) as usize;
    let obstacle = if state.is_finished() { None } else { obstacles::of_job(job, &pods, snapshot) };
    let creates_pods = !state.is_finished() && obstacle.is_none() && !obstacles::has_all_pods(job, &pods);
    let work = describe("Job", &job.metadata, group.map(Arc::as_ref), pods, state, wanted, snapshot);
    // Restarts count toward the backoffLimit of the Job, so restarted containers do not run forever.
    let ends = |pod: &PodView| {
        job.spec.active_deadline_seconds.is_some() || !pod_lifecycle::runs_forever(pod, &snapshot.facts.pod_defaults)
    };
    let frees_capacity = any_on_node(&work.pods, ends);
    TrackedWork { failure, obstacle, creates_pods, frees_capacity, ..work }
}

fn work_of_group(group: &PodGroupView, pods: Vec<Arc<PodView>>, snapshot: &ClusterSnapshot) -> TrackedWork {
    let wanted = pods.len().max(group.min_count().unwrap_or(0).max(0) as usize);
    let state = state_of_finished(&pods, wanted).unwrap_or_else(|| state_of_pods(&pods));
    let obstacle = || obstacles::of_pods(&pods, snapshot).or_else(|| obstacles::of_endless(&pods, snapshot));
    let obstacle = if state.is_finished() { None } else { obstacle() };
    let failure = failure_of_pods(&pods, state);
    TrackedWork {
        obstacle,
        failure,
        ..describe("PodGroup", &group.metadata, Some(group), pods, state, wanted, snapshot)
    }
}

fn work_of_pod(pod: Arc<PodView>, snapshot: &ClusterSnapshot) -> TrackedWork {
    let pods = vec![pod.clone()];
    let state = state_of_finished(&pods, 1).unwrap_or_else(|| state_of_pods(&pods));
    let obstacle = || obstacles::of_pods(&pods, snapshot).or_else(|| obstacles::of_endless(&pods, snapshot));
    let obstacle = if state.is_finished() { None } else { obstacle() };
    let failure = failure_of_pods(&pods, state);
    TrackedWork { obstacle, failure, ..describe("Pod", &pod.metadata, None, pods, state, 1, snapshot) }
}

fn work_of_cron_job(cron_job: &CronJobView, snapshot: &ClusterSnapshot) -> TrackedWork {
    let CronJobView { metadata, spec, .. } = cron_job;
    if spec.suspend == Some(true) {
        return describe("CronJob", metadata, None, Vec::new(), WorkState::Suspended, 0, snapshot);
    }
    let zone = time_zone(spec.time_zone.as_deref().unwrap_or_default());
    let next = Schedule::parse(&spec.schedule).ok().zip(zone).and_then(|(schedule, zone)| {
        let next = schedule.next_after(snapshot.now, &zone)?;
        Some(next.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S %Z").to_string())
    });
    let next = next.map_or("no Job within five years".to_owned(), |next| format!("next Job at {next}"));
    let work = describe("CronJob", metadata, None, Vec::new(), WorkState::Scheduled, 0, snapshot);
    TrackedWork { schedule: Some(format!("{next} ({})", spec.schedule)), ..work }
}

/// How the first failed pod ended.
fn failure_of_pods(pods: &[Arc<PodView>], state: WorkState) -> Option<String> {
    let failed = pods.iter().find(|pod| state == WorkState::Failed && pod.status.phase == PodPhase::Failed)?;
    let ends = failed.status.container_statuses.iter().filter_map(|container| container.state.terminated.as_ref());
    let code = ends.map(|end| end.exit_code).find(|code| *code != 0);
    let cause = pod_lifecycle::bad_annotation(failed).or_else(|| Some(format!("exit code {}", code?)));
    Some(format!("pod {}: {}", failed.metadata.name, cause.unwrap_or_else(|| "it did not start".to_owned())))
}

fn describe(
    kind: &'static str,
    metadata: &MetaView,
    group: Option<&PodGroupView>,
    pods: Vec<Arc<PodView>>,
    state: WorkState,
    wanted: usize,
    snapshot: &ClusterSnapshot,
) -> TrackedWork {
    let short = format!("{}/{}", kind.to_lowercase(), metadata.name);
    let title = match metadata.namespace.as_str() {
        "" | "default" => short,
        namespace => format!("{namespace}/{short}"),
    };
    let group_name = pods.iter().find_map(|pod| pod.group_name()).or(group.map(|group| group.metadata.name.as_str()));
    let group_name = group_name.map(str::to_owned);
    let group_key = group_name.as_deref().map(|name| ObjectKey::new(&metadata.namespace, name));
    let group_refusal = group_key.and_then(|key| snapshot.waiting.get(&Unit::Group(key)));
    let pod_refusal = || pods.iter().find_map(|pod| snapshot.waiting.get(&Unit::Pod(pod.metadata.key())));
    let refusal = group_refusal.or_else(pod_refusal).filter(|_| !state.is_finished()).cloned();
    let ends = |pod: &PodView| !pod_lifecycle::is_endless(pod, &snapshot.facts.pod_defaults);
    TrackedWork {
        title,
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        kind,
        policy: group.map(|group| group.min_count().map_or(GroupPolicy::Basic, GroupPolicy::Gang)),
        topology_key: group.and_then(|group| group.topology_key()).map(str::to_owned),
        desired_pods: wanted,
        refusal,
        failure: None,
        obstacle: None,
        schedule: None,
        creates_pods: false,
        frees_capacity: any_on_node(&pods, ends),
        group_name,
        state,
        pods,
    }
}

/// Whether `holds` is true of a pod that has a node and has not ended.
fn any_on_node(pods: &[Arc<PodView>], holds: impl Fn(&PodView) -> bool) -> bool {
    pods.iter().any(|pod| pod.node_name().is_some() && !pod.is_finished() && holds(pod))
}

fn state_of_pods(pods: &[Arc<PodView>]) -> WorkState {
    let unfinished = || pods.iter().filter(|pod| !pod.is_finished());
    if unfinished().all(|pod| pod.node_name().is_none()) {
        // A Job that has only finished pods is about to create the next ones.
        return if unfinished().next().is_none() && !pods.is_empty() { WorkState::Running } else { WorkState::Waiting };
    }
    let all_run = unfinished().all(|pod| pod.status.phase == PodPhase::Running);
    if all_run { WorkState::Running } else { WorkState::Placed }
}

/// Succeeded or failed, if all `wanted` pods have ended.
fn state_of_finished(pods: &[Arc<PodView>], wanted: usize) -> Option<WorkState> {
    let all_ended = pods.len() >= wanted && !pods.is_empty() && pods.iter().all(|pod| pod.is_finished());
    let any_failed = pods.iter().any(|pod| pod.status.phase == PodPhase::Failed);
    all_ended.then_some(if any_failed { WorkState::Failed } else { WorkState::Succeeded })
}

//! Where every piece of work stands: a pure survey of the caches.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::views::{Condition, JobView, Meta, ObjectKey, PodGroupView, PodPhase, PodView};
use scheduler_core::{Refusal, Unit};

/// What the survey looks at.
pub struct Seen {
    /// All Jobs.
    pub jobs: Vec<Arc<JobView>>,
    /// All PodGroups.
    pub pod_groups: Vec<Arc<PodGroupView>>,
    /// All pods.
    pub pods: Vec<Arc<PodView>>,
    /// What the scheduler refuses right now.
    pub waiting: BTreeMap<Unit, Refusal>,
}

/// A Job, a PodGroup that no Job owns, or a pod by itself.
pub struct Work {
    /// `job/trainer`; with its namespace where that is not `default`.
    pub title: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `Job`, `PodGroup` or `Pod`.
    pub kind: &'static str,
    /// The group's policy; `None` for pods without a group.
    pub policy: Option<Policy>,
    /// The node label whose value the group's pods must share.
    pub topology_key: Option<String>,
    /// Pods asked for.
    pub wanted: usize,
    /// Its pods, in name order.
    pub pods: Vec<Arc<PodView>>,
    /// Where it stands.
    pub state: State,
    /// What the scheduler says, while it refuses.
    pub refusal: Option<Refusal>,
    /// Why it failed.
    pub failure: Option<String>,
}

/// Basic, or all or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Pods are placed as they fit.
    Basic,
    /// At least this many together, or none.
    Gang(i32),
}

/// Where a piece of work stands, in the order of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing of it has a node.
    Waiting,
    /// It has nodes; not all pods run yet.
    Placed,
    /// All pods that are there run or have ended.
    Running,
    /// It ended well.
    Done,
    /// It ended badly.
    Failed,
    /// It asks to be left alone.
    Suspended,
}

impl State {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Placed => "placed",
            State::Running => "running",
            State::Done => "done",
            State::Failed => "failed",
            State::Suspended => "suspended",
        }
    }

    /// Whether nothing more will come of it.
    pub fn is_settled(self) -> bool {
        matches!(self, State::Done | State::Failed | State::Suspended)
    }
}

impl Work {
    /// Pods in `phase`.
    pub fn count(&self, phase: PodPhase) -> usize {
        self.pods.iter().filter(|pod| pod.status.phase == phase).count()
    }

    /// Pods that have a node and have not ended.
    pub fn occupying(&self) -> usize {
        self.pods.iter().filter(|pod| pod.node_name().is_some() && !pod.is_finished()).count()
    }
}

/// How the whole ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All work is settled.
    Settled,
    /// What is left can never be placed, and nothing that runs can free room for it.
    Hopeless,
}

/// Lists all work: Jobs first, then groups and pods that stand alone, each in name order.
pub fn survey(seen: &Seen) -> Vec<Work> {
    let mut by_owner: BTreeMap<&str, Vec<Arc<PodView>>> = BTreeMap::new();
    let mut by_group: BTreeMap<ObjectKey, Vec<Arc<PodView>>> = BTreeMap::new();
    let mut alone = Vec::new();
    for pod in &seen.pods {
        let owner = pod.metadata.controller().filter(|owner| owner.kind == "Job");
        if let Some(owner) = owner {
            by_owner.entry(&owner.uid).or_default().push(pod.clone());
        } else if let Some(group) = pod.group_name() {
            by_group.entry(ObjectKey::new(&pod.metadata.namespace, group)).or_default().push(pod.clone());
        } else {
            alone.push(pod.clone());
        }
    }
    let jobs = seen.jobs.iter().map(|job| {
        let pods = by_owner.remove(job.metadata.uid.as_str()).unwrap_or_default();
        work_of_job(job, pods, seen)
    });
    let mut all: Vec<Work> = jobs.collect();
    let lone_groups = seen.pod_groups.iter().filter(|group| group.metadata.controller().is_none());
    all.extend(lone_groups.map(|group| {
        let pods = by_group.remove(&group.metadata.key()).unwrap_or_default();
        work_of_group(group, pods, seen)
    }));
    all.extend(alone.into_iter().map(|pod| work_of_pod(pod, seen)));
    all
}

/// Whether it is over, and how.
pub fn ending(works: &[Work]) -> Option<Ending> {
    if works.iter().all(|work| work.state.is_settled()) {
        return Some(Ending::Settled);
    }
    let nothing_runs = works.iter().all(|work| work.occupying() == 0);
    let mut left = works.iter().filter(|work| !work.state.is_settled());
    let all_refused = left.all(|work| work.refusal.as_ref().is_some_and(|refusal| refusal.proven));
    (nothing_runs && all_refused).then_some(Ending::Hopeless)
}

fn work_of_job(job: &JobView, pods: Vec<Arc<PodView>>, seen: &Seen) -> Work {
    let named = pods.iter().find_map(|pod| pod.group_name());
    let group = seen.pod_groups.iter().find(|group| {
        group.metadata.namespace == job.metadata.namespace
            && match named {
                Some(name) => group.metadata.name == name,
                None => group.metadata.controller().is_some_and(|owner| owner.uid == job.metadata.uid),
            }
    });
    let ended = |kind: &str| job.status.conditions.iter().find(|c| c.kind == kind && c.status == "True");
    let failure = ended("Failed").map(|condition| format!("{}: {}", condition.reason, condition.message));
    let state = if failure.is_some() {
        State::Failed
    } else if Condition::is_true(&job.status.conditions, "Complete") {
        State::Done
    } else if job.spec.suspend == Some(true) {
        State::Suspended
    } else {
        state_of_pods(&pods)
    };
    let parallelism = job.spec.parallelism.unwrap_or(1);
    let wanted = job.spec.completions.unwrap_or(parallelism).max(0) as usize;
    Work { failure, ..describe("Job", &job.metadata, group.map(Arc::as_ref), pods, state, wanted, seen) }
}

fn work_of_group(group: &PodGroupView, pods: Vec<Arc<PodView>>, seen: &Seen) -> Work {
    let wanted = pods.len().max(group.min_count().unwrap_or(0).max(0) as usize);
    let state = state_of_finished(&pods, wanted).unwrap_or_else(|| state_of_pods(&pods));
    describe("PodGroup", &group.metadata, Some(group), pods, state, wanted, seen)
}

fn work_of_pod(pod: Arc<PodView>, seen: &Seen) -> Work {
    let pods = vec![pod.clone()];
    let state = state_of_finished(&pods, 1).unwrap_or_else(|| state_of_pods(&pods));
    describe("Pod", &pod.metadata, None, pods, state, 1, seen)
}

fn describe(
    kind: &'static str,
    metadata: &Meta,
    group: Option<&PodGroupView>,
    pods: Vec<Arc<PodView>>,
    state: State,
    wanted: usize,
    seen: &Seen,
) -> Work {
    let short = format!("{}/{}", kind.to_lowercase(), metadata.name);
    let title = match metadata.namespace.as_str() {
        "" | "default" => short,
        namespace => format!("{namespace}/{short}"),
    };
    let group_refusal = group.and_then(|group| seen.waiting.get(&Unit::Group(group.metadata.key())));
    let pod_refusal = || pods.iter().find_map(|pod| seen.waiting.get(&Unit::Pod(pod.metadata.key())));
    let refusal = group_refusal.or_else(pod_refusal).filter(|_| !state.is_settled()).cloned();
    Work {
        title,
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        kind,
        policy: group.map(|group| group.min_count().map_or(Policy::Basic, Policy::Gang)),
        topology_key: group.and_then(|group| group.topology_key()).map(str::to_owned),
        wanted,
        refusal,
        failure: None,
        state,
        pods,
    }
}

fn state_of_pods(pods: &[Arc<PodView>]) -> State {
    let unfinished = || pods.iter().filter(|pod| !pod.is_finished());
    if unfinished().all(|pod| pod.node_name().is_none()) {
        // Between two rounds of pods a Job has only finished ones: then it runs on.
        return if unfinished().next().is_none() && !pods.is_empty() { State::Running } else { State::Waiting };
    }
    let all_run = unfinished().all(|pod| pod.status.phase == PodPhase::Running);
    if all_run { State::Running } else { State::Placed }
}

/// Done or failed, once all `wanted` pods have ended.
fn state_of_finished(pods: &[Arc<PodView>], wanted: usize) -> Option<State> {
    let all_ended = pods.len() >= wanted && !pods.is_empty() && pods.iter().all(|pod| pod.is_finished());
    let any_failed = pods.iter().any(|pod| pod.status.phase == PodPhase::Failed);
    all_ended.then_some(if any_failed { State::Failed } else { State::Done })
}

//! Obstacles: why work can never end. Its pods cannot be created, no scheduler places them, or no node can run them.
//!
//! Pure functions of the caches. The control plane would retry forever; the user gets the reason at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::views::{JobView, ObjectKey, PodPhase, PodView};
use nodes::pod_lifecycle::{self, PodDefaults};
use scheduler_core::RefusalCause;

use crate::run::progress::{ClusterSnapshot, TrackedWork};

/// The value of `spec.managedBy` that means the Job controller of Kubernetes.
const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";

/// Facts about the control plane that decide whether pods can run.
#[derive(Clone, Debug, Default)]
pub struct ClusterFacts {
    /// The `schedulerName`s that are served.
    pub scheduler_names: BTreeSet<String>,
    /// Names of all PriorityClasses.
    pub priority_classes: BTreeSet<String>,
    /// Why the server refuses the pods of Jobs, by the uid of the Job.
    pub refused_templates: BTreeMap<String, String>,
    /// Defaults for pods without annotations.
    pub pod_defaults: PodDefaults,
}

/// Why the Job gets no pods, or why its pods never run or end.
pub fn of_job(job: &JobView, pods: &[Arc<PodView>], snapshot: &ClusterSnapshot) -> Option<String> {
    if let Some(manager) = job.spec.managed_by.as_deref().filter(|manager| *manager != JOB_CONTROLLER) {
        return Some(format!(
            "spec.managedBy leaves it to the controller {manager}, which does not run here; remove the field"
        ));
    }
    if job.spec.parallelism == Some(0) {
        return Some("spec.parallelism is 0, so no pods are created".to_owned());
    }
    if let Some(obstacle) = of_workload_ref(job, snapshot) {
        return Some(obstacle);
    }
    let class = job.spec.template.priority_class_name.as_deref();
    if let Some(class) = class.filter(|class| !snapshot.facts.priority_classes.contains(*class)) {
        return Some(format!(
            "its pods cannot be created: PriorityClass {class} does not exist; add it to the manifests, or remove \
             priorityClassName"
        ));
    }
    let refused = snapshot.facts.refused_templates.get(&job.metadata.uid);
    if let Some(reason) = refused.filter(|_| !has_all_pods(job, pods)) {
        return Some(format!("its pods cannot be created: {reason}"));
    }
    of_pods(pods, snapshot).or_else(|| of_endless_job(job, pods, snapshot))
}

/// A `spec.workloadRef` that matches no Workload: the Job controller creates no pods until one appears.
fn of_workload_ref(job: &JobView, snapshot: &ClusterSnapshot) -> Option<String> {
    let reference = job.spec.workload_ref.as_ref()?;
    let (name, wanted) = (&reference.name, &reference.uid);
    match snapshot.workloads.get(&ObjectKey::new(&job.metadata.namespace, name.as_str())) {
        None => Some(format!("spec.workloadRef names Workload {name}, which does not exist; add it to the manifests")),
        Some(uid) if !wanted.is_empty() && wanted != uid => Some(format!(
            "spec.workloadRef names Workload {name} with uid {wanted}, but its uid is {uid}; remove spec.workloadRef.uid"
        )),
        Some(_) => None,
    }
}

/// Why the pods never run, if no pending pod can be placed.
pub fn of_pods(pods: &[Arc<PodView>], snapshot: &ClusterSnapshot) -> Option<String> {
    let waiting = || pods.iter().filter(|pod| !pod.is_finished() && pod.node_name().is_none());
    if let Some(obstacle) = waiting().find_map(|pod| of_waiting_pod(pod, snapshot)) {
        let may_be_placed = |pod: &Arc<PodView>| of_waiting_pod(pod, snapshot).is_none() && !snapshot.is_refused(pod);
        return (!waiting().any(may_be_placed)).then_some(obstacle);
    }
    let problem = pods.iter().find_map(|pod| pod_lifecycle::bad_annotation(pod))?;
    Some(format!("no node can run its pods: {problem}"))
}

/// Pods outside Jobs, when all unfinished ones run until they are deleted, or are restarted until then.
pub fn of_endless(pods: &[Arc<PodView>], snapshot: &ClusterSnapshot) -> Option<String> {
    let defaults = &snapshot.facts.pod_defaults;
    let mut unfinished = pods.iter().filter(|pod| !pod.is_finished()).peekable();
    let first = unfinished.peek()?;
    let reason = match first.spec.restart_policy.as_str() {
        "Never" | "OnFailure" if pod_lifecycle::runs_forever(first, defaults) => RUNS_FOREVER.to_owned(),
        policy => format!("restartPolicy {policy}: it never ends by itself; with Never it ends once"),
    };
    let runs = |pod: &Arc<PodView>| pod.status.phase == PodPhase::Running && pod_lifecycle::is_endless(pod, defaults);
    unfinished.all(runs).then_some(reason)
}

/// A Job without a deadline whose unfinished pods all run forever.
fn of_endless_job(job: &JobView, pods: &[Arc<PodView>], snapshot: &ClusterSnapshot) -> Option<String> {
    let defaults = &snapshot.facts.pod_defaults;
    let mut unfinished = pods.iter().filter(|pod| !pod.is_finished()).peekable();
    let has_end = job.spec.active_deadline_seconds.is_some() || unfinished.peek().is_none();
    let runs = |pod: &Arc<PodView>| pod.status.phase == PodPhase::Running && pod_lifecycle::runs_forever(pod, defaults);
    (!has_end && has_all_pods(job, pods) && unfinished.all(runs)).then(|| RUNS_FOREVER.to_owned())
}

const RUNS_FOREVER: &str =
    "its pods run forever (annotation phalanx.dev/run-seconds, --run-seconds or nodes.runSeconds)";

fn of_waiting_pod(pod: &PodView, snapshot: &ClusterSnapshot) -> Option<String> {
    let scheduler = pod.spec.scheduler_name.as_str();
    if !snapshot.facts.scheduler_names.contains(scheduler) {
        let served = snapshot.facts.scheduler_names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        return Some(format!("no scheduler here serves schedulerName {scheduler}; served: {served}"));
    }
    if let Some(gate) = pod.spec.scheduling_gates.first() {
        return Some(format!("its pods have the scheduling gate {}, which nothing here removes", gate.name));
    }
    let group = ObjectKey::new(&pod.metadata.namespace, pod.group_name()?);
    let exists = snapshot.pod_groups.iter().any(|view| view.metadata.key() == group);
    let missing = || {
        format!(
            "its pods name PodGroup {}, which does not exist; add it to the manifests, or remove schedulingGroup",
            group.name
        )
    };
    (!exists).then(missing)
}

/// Whether the Job has as many unfinished pods as it will ever have at once from now on.
pub fn has_all_pods(job: &JobView, pods: &[Arc<PodView>]) -> bool {
    let parallelism = job.spec.parallelism.unwrap_or(1);
    let left = job.spec.completions.map_or(parallelism, |completions| completions - job.status.succeeded);
    let unfinished = pods.iter().filter(|pod| !pod.is_finished()).count();
    unfinished >= parallelism.min(left).max(0) as usize
}

/// A gang with fewer pods than `minCount`, of which no controller creates more.
pub fn of_incomplete(work: &TrackedWork) -> Option<String> {
    let is_incomplete = |cause: &RefusalCause| *cause == RefusalCause::Incomplete;
    match &work.refusal {
        Some(refusal) if is_incomplete(&refusal.cause) => {
            Some(format!("{}, and nothing here creates more", refusal.plain_message()))
        }
        None if work.kind == "PodGroup" && work.pods.is_empty() => Some("no pod names this PodGroup".to_owned()),
        _ => None,
    }
}

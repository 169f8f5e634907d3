//! What the caches have about one Job.

use std::sync::Arc;
use std::time::Duration;

use api::Timestamp;
use api::views::{JobView, MetaView, ObjectKey, OwnerRef, PodGroupView, PodPhase, PodView, View, WorkloadView};
use jiff::SignedDuration;

use super::JobContext;
use super::pods::claims::{claim, uncontrolled};
use super::policy::pod_outcome::finished_at;
use super::scheduling::owner_cache::OwnerCache;
use super::scheduling::owner_chain::{CachedOwnerChain, controller_ref};
use super::scheduling::{ManagementMode, management_mode, workload_owners};
use super::settings::GroupsLabel;

/// Everything that a decision about one Job depends on.
#[derive(Clone, Debug)]
pub struct JobSnapshot {
    /// The Job.
    pub job: Arc<JobView>,
    /// The pods it controls and selects, in any phase, except those in `counted_pods`.
    pub pods: Vec<Arc<PodView>>,
    /// Pods that succeeded and have no tracking finalizer any more.
    pub counted_pods: CountedPods,
    /// Pods it controls and that no longer match its selector.
    pub to_release: Vec<Arc<PodView>>,
    /// Pods that match its selector and have no controller.
    pub to_adopt: Vec<Arc<PodView>>,
    /// Its Workloads: those that name it in `controllerRef`; of a child, those of the nearest owner that has any; or the one
    /// in `spec.workloadRef`.
    pub workloads: Vec<Arc<WorkloadView>>,
    /// Of a child, the owners above its parent; `None` if they are not needed or could not be read.
    pub owner_chain: Option<Arc<CachedOwnerChain>>,
    /// The PodGroups of those Workloads that are for this Job.
    pub pod_groups: Vec<Arc<PodGroupView>>,
    /// The PodGroup that the pod template names, if it names one.
    pub named_group: Option<Arc<PodGroupView>>,
    /// The label of its namespace about groups.
    pub namespace_label: Option<GroupsLabel>,
    /// The time.
    pub now: Timestamp,
    /// Whether a create or a finalizer removal for this Job has just failed. Counting continues.
    pub blocked: bool,
    /// Whether the server serves Workloads and PodGroups.
    pub serves_groups: bool,
}

/// The pods that succeeded and have no tracking finalizer. Their ends are counted, and a large Job has many of them, so
/// decisions use only these two values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedPods {
    /// How many there are.
    pub count: usize,
    /// When the last of them ended. Set only if a pod has failed recently: nothing else needs it.
    pub last_finished_at: Option<Timestamp>,
}

impl CountedPods {
    fn of(ctx: &JobContext, job: &JobView, pods: &[Arc<PodView>], now: Timestamp) -> CountedPods {
        let index_value = PodView::counted_index_value(&job.metadata.uid);
        let mut counted =
            CountedPods { count: ctx.pods.count(&PodView::BY_CONTROLLER, &index_value), ..CountedPods::default() };
        if counted.count > 0 && needs_last_success(job, pods, ctx.config.pod_backoff.max, now) {
            let pods = ctx.pods.by_index(&PodView::BY_CONTROLLER, &index_value);
            counted.last_finished_at = pods.iter().map(|pod| finished_at(pod)).max();
        }
        counted
    }
}

/// Whether a failed pod can still delay its replacement. If so, the time of the last success matters, and finding it reads
/// all counted pods. A failure longer ago than the longest back-off delays nothing, and a Job with limits per index has a
/// back-off per index.
fn needs_last_success(job: &JobView, pods: &[Arc<PodView>], max_backoff: Duration, now: Timestamp) -> bool {
    let failed = pods.iter().filter(|pod| pod.status.phase == PodPhase::Failed);
    let latest = failed.map(|pod| finished_at(pod)).max();
    let is_recent = |failed: Timestamp| {
        now.duration_since(failed) < SignedDuration::try_from(max_backoff).unwrap_or(SignedDuration::MAX)
    };
    job.spec.backoff_limit_per_index.is_none() && latest.is_some_and(is_recent)
}

impl JobSnapshot {
    /// Whether the Job owns a pod, in any phase.
    pub fn owns_pods(&self) -> bool {
        !self.pods.is_empty() || self.counted_pods.count > 0
    }
}

/// Reads the Job from the cache; `None` if it is gone, or another Job has its name.
pub fn observe(ctx: &JobContext, owners: &OwnerCache, key: &ObjectKey, uid: &str) -> Option<JobSnapshot> {
    let job = ctx.jobs.get(key).filter(|job| job.metadata.uid == uid)?;
    let controlled = ctx.pods.by_index(&PodView::BY_CONTROLLER, uid);
    let claims = claim(&job, controlled, uncontrolled(&job, &ctx.pods));
    let mode = management_mode(&job, &ctx.gates, &ctx.config.child_owners);
    let owner_chain = owners.get(&job).filter(|_| mode == ManagementMode::ManagePodGroupOnly);
    let workloads = workloads_of(ctx, &job, mode, owner_chain.as_deref());
    let mut pod_groups: Vec<_> = workloads.iter().flat_map(|workload| groups_of(ctx, workload)).collect();
    pod_groups.retain(|group| match mode {
        // Siblings share the parent's Workload; each PodGroup is controlled by its Job.
        ManagementMode::ManagePodGroupOnly => is_controlled_by(&group.metadata, uid) && !group.metadata.is_deleting(),
        ManagementMode::JoinNamed => !group.metadata.is_deleting(),
        _ => !group.metadata.is_deleting() && belongs_to(&group.metadata, JobView::RESOURCE.kind, uid),
    });
    let serves_groups =
        ctx.capabilities.serves(WorkloadView::RESOURCE) && ctx.capabilities.serves(PodGroupView::RESOURCE);
    let named_group = job.spec.template.scheduling_group.as_ref();
    let named_group = named_group.and_then(|name| ctx.pod_groups.get(&ObjectKey::new(&key.namespace, name)));
    let namespace = ctx.namespaces.get(&ObjectKey::new("", &key.namespace));
    let now = ctx.clock.now();
    let counted_pods = CountedPods::of(ctx, &job, &claims.own, now);
    Some(JobSnapshot {
        job,
        pods: claims.own,
        counted_pods,
        to_release: claims.to_release,
        to_adopt: claims.to_adopt,
        workloads,
        owner_chain,
        pod_groups,
        named_group,
        namespace_label: namespace.and_then(|namespace| GroupsLabel::of(&namespace.metadata)),
        now,
        blocked: false,
        serves_groups,
    })
}

/// The Workloads of a Job.
pub(super) fn workloads_of(
    ctx: &JobContext,
    job: &JobView,
    mode: ManagementMode,
    owner_chain: Option<&CachedOwnerChain>,
) -> Vec<Arc<WorkloadView>> {
    if let (ManagementMode::JoinNamed, Some(named)) = (mode, &job.spec.workload_ref) {
        let workload = ctx.workloads.get(&ObjectKey::new(&job.metadata.namespace, &named.name));
        return workload.filter(|workload| !workload.metadata.is_deleting()).into_iter().collect();
    }
    let uid = &job.metadata.uid;
    let of = |owner: &OwnerRef| {
        let reference = controller_ref(&job.metadata.namespace, owner);
        let mut workloads = ctx.workloads.by_index(&WorkloadView::BY_CONTROLLER_REF, &reference);
        workloads.retain(|workload| {
            let may_be_deleting = mode == ManagementMode::ManagePodGroupOnly;
            (may_be_deleting || !workload.metadata.is_deleting())
                && belongs_to(&workload.metadata, &owner.kind, &owner.uid)
        });
        workloads
    };
    let found: Vec<_> =
        workload_owners(job, mode, owner_chain).iter().map(of).filter(|found| !found.is_empty()).collect();
    // A Job that has its group stays in it, also when a nearer owner gets a Workload later.
    let has_group = |found: &Vec<Arc<WorkloadView>>| {
        let mut groups = found.iter().flat_map(|workload| groups_of(ctx, workload));
        groups.any(|group| is_controlled_by(&group.metadata, uid))
    };
    let chosen = if found.len() > 1 { found.iter().position(has_group).unwrap_or(0) } else { 0 };
    found.into_iter().nth(chosen).unwrap_or_default()
}

fn groups_of(ctx: &JobContext, workload: &WorkloadView) -> Vec<Arc<PodGroupView>> {
    ctx.pod_groups.by_index(&PodGroupView::BY_WORKLOAD, &workload.metadata.key().to_string())
}

/// Whether an object that names an owner of this kind belongs to the one with this uid. Names are reused, uids are not:
/// an object with another owner of the kind is left over from an earlier one (S000-30).
fn belongs_to(meta: &MetaView, kind: &str, uid: &str) -> bool {
    let mut owners = meta.owner_references.iter().filter(|owner| owner.kind == kind).peekable();
    owners.peek().is_none() || owners.any(|owner| owner.uid == uid)
}

pub(super) fn is_controlled_by(meta: &MetaView, uid: &str) -> bool {
    meta.controller().is_some_and(|owner| owner.uid == uid)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::job::tests::{at, job, pod};

    #[test]
    fn the_last_success_is_read_only_while_a_failure_may_delay_a_pod() {
        let plain = || job(json!({}));
        let per_index = || job(json!({ "completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1 }));
        for (case, job, pods, want) in [
            ("no failure", plain(), vec![pod("a").succeeded_at(100), pod("b").running()], false),
            ("one just now", plain(), vec![pod("a").failed_at(999)], true),
            ("one within the longest back-off", plain(), vec![pod("a").failed_at(401)], true),
            ("one longer ago", plain(), vec![pod("a").failed_at(400), pod("b").failed_at(3)], false),
            ("the latest counts", plain(), vec![pod("a").failed_at(3), pod("b").failed_at(500)], true),
            ("one in the future", plain(), vec![pod("a").failed_at(2000)], true),
            ("each index has its own back-off", per_index(), vec![pod("a").index(0).failed_at(999)], false),
        ] {
            let pods: Vec<_> = pods.into_iter().map(|pod| pod.build()).collect();
            let needs = needs_last_success(&job.0, &pods, Duration::from_secs(600), at(1000));
            assert_eq!(needs, want, "{case}");
        }
    }
}

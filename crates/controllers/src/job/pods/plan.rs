//! Which pods a Job lacks, which are too many, and what a new one looks like.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::views::{JobView, PodPhase, PodView};
use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodSchedulingGroup, PodTemplateSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::retries::{IndexFailures, IndexRetries};
use crate::job::job_params::{
    CompletionMode, FAILURES_KEY, IGNORED_FAILURES_KEY, INDEX_KEY, JobParams, TRACKING_FINALIZER, is_ready, restarts,
};
use crate::job::scheduling::JoinedGroup;
use crate::job::status::tally::Tally;

/// What to do about the pods of a running Job.
#[derive(Debug)]
pub enum PodPlan {
    /// These are too many.
    Delete(Vec<Arc<PodView>>),
    /// These are missing.
    Create(Vec<PodSlot>),
    /// Some are missing, but a back-off comes first.
    CreateAfter(Duration),
    /// Nothing.
    Keep,
}

/// A pod to create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodSlot {
    /// Its completion index; `None` unless the Job is Indexed.
    pub index: Option<i32>,
    /// How often this index has failed before; `None` unless the Job has limits per index.
    pub prior_failures: Option<IndexFailures>,
}

/// Compares the pods a Job should have with those it has. `pause` is the rest of the Job's back-off; back-offs of single
/// indexes are in `retries`.
pub fn plan(params: &JobParams<'_>, tally: &Tally, pause: Duration, retries: &IndexRetries) -> PodPlan {
    let want = desired_active(params, tally);
    let surplus = surplus(params, tally, want);
    if !surplus.is_empty() {
        return PodPlan::Delete(surplus);
    }
    let blocking = if params.replaces_ended_only { tally.terminating.len() } else { 0 };
    let missing = want.saturating_sub(tally.active.len() + blocking).min(params.max_pods_per_sync);
    let (slots, soonest) = match params.completion_mode {
        CompletionMode::NonIndexed => (vec![PodSlot::default(); missing], None),
        CompletionMode::Indexed { completions } => free_indexes(params, tally, completions, missing, retries),
    };
    match (slots.is_empty(), pause.is_zero()) {
        (true, _) => soonest.map_or(PodPlan::Keep, PodPlan::CreateAfter),
        (false, false) => PodPlan::CreateAfter(pause),
        (false, true) => PodPlan::Create(slots),
    }
}

/// How many pods should be active.
fn desired_active(params: &JobParams<'_>, tally: &Tally) -> usize {
    let want = match params.completions {
        _ if params.suspended => 0,
        // Once one pod of a work queue has succeeded, the others may end but none is added.
        None if tally.succeeded > 0 => return tally.active.len(),
        None => params.parallelism,
        Some(completions) => completions.saturating_sub(tally.succeeded).min(params.parallelism),
    };
    usize::try_from(want).unwrap_or(0)
}

/// Active pods to delete: those with no valid index or the index of another pod, then the least valuable.
fn surplus(params: &JobParams<'_>, tally: &Tally, want: usize) -> Vec<Arc<PodView>> {
    if tally.active.len() <= want && have_unique_indexes(params, tally) {
        return Vec::new();
    }
    let mut most_valuable: Vec<_> = tally.active.clone();
    most_valuable.sort_by_key(|pod| Reverse(retention_rank(pod)));
    let mut surplus = Vec::new();
    if let CompletionMode::Indexed { .. } = params.completion_mode {
        let mut seen = BTreeSet::new();
        let keeps = |pod: &Arc<PodView>| params.index_of(pod).is_some_and(|index| seen.insert(index));
        let (kept, others) = most_valuable.into_iter().partition(keeps);
        most_valuable = kept;
        surplus = others;
    }
    surplus.extend(most_valuable.drain(want.min(most_valuable.len())..).rev());
    surplus.truncate(params.max_pods_per_sync);
    surplus
}

/// Whether no two active pods have the same index, and none lacks one.
fn have_unique_indexes(params: &JobParams<'_>, tally: &Tally) -> bool {
    let mut seen = BTreeSet::new();
    params.completion_mode == CompletionMode::NonIndexed
        || tally.active.iter().all(|pod| params.index_of(pod).is_some_and(|index| seen.insert(index)))
}

/// The larger, the more valuable the pod: bound over unbound, running over pending, ready over not ready, few restarts
/// over many, old over young; the name last, so that the order is total.
fn retention_rank(pod: &PodView) -> impl Ord + use<> {
    let phase = match pod.status.phase {
        PodPhase::Pending => 0,
        PodPhase::Unknown => 1,
        _ => 2,
    };
    let restarts = restarts(pod.status.container_statuses.iter());
    let created = Reverse(pod.metadata.creation_timestamp);
    (pod.node_name().is_some(), phase, is_ready(pod), Reverse(restarts), created, Reverse(pod.metadata.name.clone()))
}

/// The first `count` indexes that are not finished, have no pod and no back-off; and the shortest remaining back-off.
// Upstream: an index in back-off keeps its position, and the indexes after it wait too.
fn free_indexes(
    params: &JobParams<'_>,
    tally: &Tally,
    completions: i32,
    count: usize,
    retries: &IndexRetries,
) -> (Vec<PodSlot>, Option<Duration>) {
    let terminating = tally.terminating.iter().filter(|_| params.replaces_ended_only);
    let taken: BTreeSet<i32> = tally.active.iter().chain(terminating).filter_map(|pod| params.index_of(pod)).collect();
    let is_free = |index: &i32| !taken.contains(index) && !tally.failed_indexes.contains(*index);
    let (mut slots, mut soonest) = (Vec::new(), None);
    for index in tally.completed_indexes.missing(completions).filter(is_free) {
        if slots.len() == count {
            break;
        }
        let (failures, wait) = retries.next_attempt(index);
        if wait.is_zero() {
            slots.push(PodSlot { index: Some(index), prior_failures: params.per_index_limits.map(|_| failures) });
        } else {
            soonest = Some(soonest.map_or(wait, |least: Duration| least.min(wait)));
        }
    }
    (slots, soonest)
}

/// Creates the pods of one Job: the template is decoded once, then copied for each pod.
#[derive(Debug)]
pub struct PodFactory {
    job_name: String,
    pod: Pod,
}

impl PodFactory {
    /// Prepares the pod that all pods of `job` are copied from, as members of `group` if there is one.
    pub fn new(job: &JobView, group: Option<&JoinedGroup>) -> Result<PodFactory, serde_json::Error> {
        let raw = job.spec.template.raw.as_ref().map_or("{}", |raw| raw.get());
        let template: PodTemplateSpec = serde_json::from_str(raw)?;
        let template_meta = template.metadata.unwrap_or_default();
        let mut spec = template.spec.unwrap_or_default();
        let mut owner_references = vec![job_owner(job)];
        if let Some(group) = group {
            spec.scheduling_group = Some(PodSchedulingGroup { pod_group_name: Some(group.name.clone()) });
            owner_references.extend(group.owner.clone());
        }
        let mut finalizers = template_meta.finalizers.unwrap_or_default();
        finalizers.push(TRACKING_FINALIZER.to_owned());
        let metadata = ObjectMeta {
            namespace: Some(job.metadata.namespace.clone()),
            labels: template_meta.labels,
            annotations: template_meta.annotations,
            finalizers: Some(finalizers),
            owner_references: Some(owner_references),
            ..ObjectMeta::default()
        };
        let job_name = job.metadata.name.clone();
        Ok(PodFactory { job_name, pod: Pod { metadata, spec: Some(spec), status: None } })
    }

    /// The pod for one slot.
    pub fn pod(&self, slot: PodSlot) -> Pod {
        let mut pod = self.pod.clone();
        let Some(index) = slot.index else {
            pod.metadata.generate_name = Some(format!("{}-", self.job_name));
            return pod;
        };
        // A generated name is at most 63 characters, five of them random, so the index must end within 58.
        let suffix = format!("-{index}-");
        let stem_end = self.job_name.len().min(58 - suffix.len());
        pod.metadata.generate_name = Some(format!("{}{suffix}", &self.job_name[..stem_end]));
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(INDEX_KEY.to_owned(), index.to_string());
        if let Some(IndexFailures { counted, ignored }) = slot.prior_failures {
            annotations.insert(FAILURES_KEY.to_owned(), counted.to_string());
            if ignored > 0 {
                annotations.insert(IGNORED_FAILURES_KEY.to_owned(), ignored.to_string());
            }
        }
        pod.metadata.labels.get_or_insert_default().insert(INDEX_KEY.to_owned(), index.to_string());
        let spec = pod.spec.get_or_insert_default();
        spec.hostname = Some(format!("{}-{index}", self.job_name));
        let containers = spec.init_containers.iter_mut().flatten().chain(&mut spec.containers);
        containers.for_each(add_index_variable);
        pod
    }
}

/// The reference that makes `job` the controller of an object.
pub fn job_owner(job: &JobView) -> OwnerReference {
    OwnerReference {
        api_version: "batch/v1".to_owned(),
        kind: "Job".to_owned(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn add_index_variable(container: &mut Container) {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    let variables = container.env.get_or_insert_default();
    if variables.iter().any(|variable| variable.name == NAME) {
        return;
    }
    // A reference to the label, so that the template stays the same for all indexes.
    let field_ref = ObjectFieldSelector { field_path: format!("metadata.labels['{INDEX_KEY}']"), api_version: None };
    let value_from = EnvVarSource { field_ref: Some(field_ref), ..EnvVarSource::default() };
    variables.push(EnvVar { name: NAME.to_owned(), value_from: Some(value_from), ..EnvVar::default() });
}

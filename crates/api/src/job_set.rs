//! The scheduling part of JobSets (`jobset.x-k8s.io/v1alpha2`).
//!
//! A JobSet is a tree of two levels: the JobSet is a group of groups, and each replicated Job is a group with the pods
//! of all its replicas. Users set the policy of the JobSet in `spec.scheduling`. They set that of a component either in
//! its Job template (KEP-6089, Option A) or in an entry of `spec.scheduling` that names it (Option B). Both give the
//! same objects.
//!
//! Defaults: a component is Basic, as a Job is. A JobSet with a block `spec.scheduling` is a gang of its components,
//! and Basic without one. `schedulingPolicy: {basic: {}}` opts out at either level.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{JobSpec, JobTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use workloadbuilder::blocks::{
    WorkloadCompositePodGroupDisruptionMode, WorkloadCompositePodGroupSchedulingConstraints,
    WorkloadCompositePodGroupSchedulingPolicy, WorkloadPodGroupDisruptionMode, WorkloadPodGroupResourceClaim,
    WorkloadPodGroupSchedulingConstraints, WorkloadPodGroupSchedulingPolicy,
};
use workloadbuilder::{
    Blocks, BuildOptions, Builder, CompositePodGroupBlocks, FieldPaths, PodGroupBlocks, SchedulingConfig,
    SchedulingPolicy, WorkloadItem, names,
};

use crate::batch::scheduling::{JOB_DISRUPTION_MODES, JOB_POLICIES, job_blocks};
use crate::field::{Error, ErrorList, Path};
use crate::schema;

/// Group and version.
pub const API_VERSION: &str = "jobset.x-k8s.io/v1alpha2";

/// A JobSet.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct JobSet {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// The Jobs and their scheduling.
    pub spec: JobSetSpec,
}

/// `jobset.spec`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSetSpec {
    /// The user's input for the JobSet and, by name, for its components.
    pub scheduling: Option<JobSetScheduling>,
    /// The components.
    pub replicated_jobs: Vec<ReplicatedJob>,
}

/// `jobset.spec.scheduling`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct JobSetScheduling {
    /// Whether the components start together.
    pub scheduling_policy: Option<WorkloadCompositePodGroupSchedulingPolicy>,
    /// On which nodes the pods of all components may be placed.
    pub scheduling_constraints: Option<WorkloadCompositePodGroupSchedulingConstraints>,
    /// Whether the components may be disrupted one by one.
    pub disruption_mode: Option<WorkloadCompositePodGroupDisruptionMode>,
    /// The user's input for components, by name.
    pub replicated_job_policies: Vec<ReplicatedJobPolicy>,
}

/// The user's input for one component.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ReplicatedJobPolicy {
    /// The component's name.
    pub target_replicated_job: String,
    /// Basic or gang.
    pub scheduling_policy: Option<WorkloadPodGroupSchedulingPolicy>,
    /// On which nodes its pods may be placed.
    pub scheduling_constraints: Option<WorkloadPodGroupSchedulingConstraints>,
    /// Whether its pods may be disrupted one by one.
    pub disruption_mode: Option<WorkloadPodGroupDisruptionMode>,
    /// Claims that its pods share.
    pub resource_claims: Option<Vec<WorkloadPodGroupResourceClaim>>,
}

/// A component: a number of identical Jobs.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct ReplicatedJob {
    /// Unique in the JobSet.
    pub name: String,
    /// Number of Jobs; 1 if unset.
    pub replicas: Option<i32>,
    /// Template of the Jobs.
    pub template: JobTemplateSpec,
}

impl JobSet {
    /// The builder of the JobSet's objects. `owner` is the JobSet.
    pub fn builder(&self, owner: OwnerReference) -> Builder {
        let options = BuildOptions {
            name: names::workload_name(&owner.name, &owner.uid),
            namespace: self.metadata.namespace.clone().unwrap_or_default(),
            owner: Some(owner),
            allowed_policies: JOB_POLICIES.to_vec(),
            allowed_disruption_modes: JOB_DISRUPTION_MODES.to_vec(),
            limit_remedy: Some("use one replicatedJob with replicas for identical Jobs".to_owned()),
            ..BuildOptions::default()
        };
        Builder::new(self.item(), options)
    }

    /// The JobSet as a tree of items.
    pub fn item(&self) -> WorkloadItem {
        let spec = &self.spec;
        let path = Path::new("spec").child("scheduling");
        let components = i32::try_from(spec.replicated_jobs.len()).unwrap_or(i32::MAX);
        let policy = match spec.scheduling {
            Some(_) => SchedulingPolicy::Gang { min_count: None },
            None => SchedulingPolicy::Basic,
        };
        let input = spec.scheduling.as_ref().map_or(Blocks::Absent, |scheduling| {
            Blocks::CompositePodGroup(CompositePodGroupBlocks {
                policy: scheduling.scheduling_policy.clone(),
                constraints: scheduling.scheduling_constraints.clone(),
                disruption_mode: scheduling.disruption_mode.clone(),
            })
        });
        let name = self.metadata.name.as_deref().unwrap_or_default();
        WorkloadItem {
            default_config: SchedulingConfig { policy: Some(policy), ..SchedulingConfig::default() },
            input,
            callbacks: vec![Arc::new(move |config| config.default_min_count(components))],
            children: (0..spec.replicated_jobs.len()).map(|i| self.component(i)).collect(),
            path: Path::new("spec").child("replicatedJobs"),
            ..WorkloadItem::new(names::composite_template_name(name, 0), path)
        }
    }

    /// The component at `index` as an item: the pods of all its Jobs are one group.
    fn component(&self, index: usize) -> WorkloadItem {
        let job = &self.spec.replicated_jobs[index];
        let path = replicated_job(index);
        let spec = job_spec(job);
        let min_count = pod_count(job);
        let class = spec.template.spec.as_ref().and_then(|pod| pod.priority_class_name.clone());
        let (input, fields) = self.component_blocks(index);
        WorkloadItem {
            default_config: SchedulingConfig {
                policy: Some(SchedulingPolicy::Basic),
                priority_class_name: class,
                ..SchedulingConfig::default()
            },
            input,
            fields: FieldPaths::below(&fields),
            callbacks: vec![Arc::new(move |config| config.default_min_count(min_count))],
            ..WorkloadItem::new(job.name.clone(), path)
        }
    }

    /// The user's blocks for a component, and their path.
    fn component_blocks(&self, index: usize) -> (Blocks, Path) {
        let job = &self.spec.replicated_jobs[index];
        if let Some((at, entry)) = self.indexed_policies().find(|(_, entry)| entry.target_replicated_job == job.name) {
            let blocks = PodGroupBlocks {
                policy: entry.scheduling_policy.clone(),
                constraints: entry.scheduling_constraints.clone(),
                disruption_mode: entry.disruption_mode.clone(),
                resource_claims: entry.resource_claims.clone(),
            };
            return (Blocks::PodGroup(blocks), policies().index(at));
        }
        let scheduling = job.template.spec.as_ref().and_then(|spec| spec.scheduling.as_ref());
        (job_blocks(scheduling), job_scheduling(index))
    }

    fn indexed_policies(&self) -> impl Iterator<Item = (usize, &ReplicatedJobPolicy)> {
        self.spec.scheduling.iter().flat_map(|scheduling| scheduling.replicated_job_policies.iter().enumerate())
    }

    /// Validates the scheduling of the JobSet.
    pub fn validate(&self) -> ErrorList {
        let mut errors = ErrorList::new();
        if self.spec.replicated_jobs.is_empty() {
            errors.push(Error::required(&Path::new("spec").child("replicatedJobs"), "a JobSet has at least one Job"));
            return errors;
        }
        for (at, entry) in self.indexed_policies() {
            let (path, target) = (policies().index(at).child("targetReplicatedJob"), &entry.target_replicated_job);
            if self.indexed_policies().take(at).any(|(_, earlier)| earlier.target_replicated_job == *target) {
                errors.push(Error::duplicate(&path, target.as_str()));
            }
            match self.spec.replicated_jobs.iter().position(|job| job.name == *target) {
                None => errors.push(Error::not_found(&path, target.as_str())),
                Some(index) if job_spec(&self.spec.replicated_jobs[index]).scheduling.is_some() => {
                    let detail = format!("{} is about the same pods: use only one of the two", policies().index(at));
                    errors.push(Error::forbidden(&job_scheduling(index), detail));
                }
                Some(_) => {}
            }
        }
        let builder = self.builder(OwnerReference::default());
        errors.extend(builder.validate(None));
        errors.extend(self.counts());
        errors
    }

    /// A gang must not need more members than there are: it would wait forever.
    fn counts(&self) -> ErrorList {
        let mut errors = ErrorList::new();
        let components = i32::try_from(self.spec.replicated_jobs.len()).unwrap_or(i32::MAX);
        let policy = self.spec.scheduling.as_ref().and_then(|scheduling| scheduling.scheduling_policy.as_ref());
        let min_group_count = policy.and_then(|policy| policy.gang.as_ref()).and_then(|gang| gang.min_group_count);
        if let Some(count) = min_group_count.filter(|count| *count > components) {
            let path = Path::new("spec").child("scheduling").child("schedulingPolicy");
            let detail = format!("must not be greater than the number of replicatedJobs ({components})");
            errors.push(Error::invalid(&path.child("gang").child("minGroupCount"), count, detail));
        }
        for (index, job) in self.spec.replicated_jobs.iter().enumerate() {
            let (Blocks::PodGroup(blocks), path) = self.component_blocks(index) else { continue };
            let gang = blocks.policy.and_then(|policy| policy.gang);
            if let Some(count) = gang.and_then(|gang| gang.min_count).filter(|count| *count > pod_count(job)) {
                let detail = format!("must not be greater than replicas times parallelism ({})", pod_count(job));
                let path = path.child("schedulingPolicy").child("gang").child("minCount");
                errors.push(Error::invalid(&path, count, detail));
            }
        }
        errors
    }
}

/// Fields that the blocks of a JobSet and its Jobs do not have. Decoding would drop them silently. Other fields of a
/// JobSet are not known here and not checked.
pub fn unknown_fields(document: &Value) -> ErrorList {
    let spec = &document["spec"];
    let mut errors = ErrorList::new();
    // The block of the JobSet has the fields of a composite template, an entry has those of a Job's block.
    let mut root = spec["scheduling"].clone();
    let entries = root.as_object_mut().and_then(|root| root.remove("replicatedJobPolicies"));
    if root.is_object() {
        let workload = json!({"spec": {"compositePodGroupTemplates": [root]}});
        let unknown = schema::unknown_fields("scheduling.k8s.io", "v1beta1", "Workload", &workload);
        let below = |path: &str| path.strip_prefix("spec.compositePodGroupTemplates[0]").map(str::to_owned);
        errors
            .extend(unknown.iter().filter_map(|path| Some(unknown_field(&format!("spec.scheduling{}", below(path)?)))));
    }
    for (at, entry) in entries.iter().flat_map(|entries| entries.as_array()).flatten().enumerate() {
        let mut entry = entry.clone();
        entry.as_object_mut().map(|entry| entry.remove("targetReplicatedJob"));
        errors.extend(unknown_job_fields(
            &json!({"scheduling": entry}),
            "spec.scheduling",
            policies().index(at).as_str(),
        ));
    }
    for (index, job) in spec["replicatedJobs"].as_array().into_iter().flatten().enumerate() {
        let at = replicated_job(index).child("template").child("spec");
        errors.extend(unknown_job_fields(&job["template"]["spec"], "spec", at.as_str()));
    }
    errors
}

/// Fields that a Job with this spec does not have. In their paths `from` is replaced by `at`.
fn unknown_job_fields(spec: &Value, from: &str, at: &str) -> ErrorList {
    if !spec.is_object() {
        return ErrorList::new();
    }
    let unknown = schema::unknown_fields("batch", "v1", "Job", &json!({"spec": spec}));
    let below = |path: &String| path.strip_prefix(from).map(|below| unknown_field(&format!("{at}{below}")));
    unknown.iter().filter_map(below).collect()
}

fn unknown_field(path: &str) -> Error {
    let detail = match path {
        "spec.scheduling.schedulingPolicy.gang.minCount" => {
            "unknown field: the gang of a JobSet counts replicatedJobs, in minGroupCount"
        }
        _ => "unknown field",
    };
    Error::forbidden(&Path::new(path), detail)
}

/// The number of pods of a component, at least 1: a suspended Job may have none, but a gang needs one.
fn pod_count(job: &ReplicatedJob) -> i32 {
    let pods = i64::from(job.replicas.unwrap_or(1)) * i64::from(job_spec(job).parallelism.unwrap_or(1));
    i32::try_from(pods.max(1)).unwrap_or(i32::MAX)
}

fn job_spec(job: &ReplicatedJob) -> std::borrow::Cow<'_, JobSpec> {
    job.template.spec.as_ref().map_or_else(Default::default, std::borrow::Cow::Borrowed)
}

fn replicated_job(index: usize) -> Path {
    Path::new("spec").child("replicatedJobs").index(index)
}

fn job_scheduling(index: usize) -> Path {
    replicated_job(index).child("template").child("spec").child("scheduling")
}

fn policies() -> Path {
    Path::new("spec").child("scheduling").child("replicatedJobPolicies")
}

#[cfg(test)]
mod tests;

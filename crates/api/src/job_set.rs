//! JobSets (`jobset.x-k8s.io/v1alpha2`), as far as they say how their pods are to be scheduled.
//!
//! A JobSet is a tree of two levels: itself, a group of groups, and below it one group of pods for each replicated Job,
//! with the pods of all its replicas. Users say what they want of the whole at `spec.scheduling`, and of a component either
//! inside its Job template (KEP-6089, Option A) or in an entry of `spec.scheduling` that names it (Option B). Both ways
//! give the same objects.
//!
//! What holds where nobody says anything: a component is Basic, as a Job is. The whole is a gang of its components where
//! there is a block `spec.scheduling`, and Basic where there is none. `schedulingPolicy: {basic: {}}` is the way back at
//! either level.

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

/// A set of Jobs that belong together.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct JobSet {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// The Jobs, and how they are to be scheduled.
    pub spec: JobSetSpec,
}

/// `jobset.spec`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSetSpec {
    /// What the user asks of the whole and, by name, of its components.
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
    /// Where all pods may go.
    pub scheduling_constraints: Option<WorkloadCompositePodGroupSchedulingConstraints>,
    /// Whether the components may be disrupted one by one.
    pub disruption_mode: Option<WorkloadCompositePodGroupDisruptionMode>,
    /// What the user asks of components, by name.
    pub replicated_job_policies: Vec<ReplicatedJobPolicy>,
}

/// What the user asks of one component.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ReplicatedJobPolicy {
    /// The component's name.
    pub target_replicated_job: String,
    /// Basic or gang.
    pub scheduling_policy: Option<WorkloadPodGroupSchedulingPolicy>,
    /// Where its pods may go.
    pub scheduling_constraints: Option<WorkloadPodGroupSchedulingConstraints>,
    /// Whether its pods may be disrupted one by one.
    pub disruption_mode: Option<WorkloadPodGroupDisruptionMode>,
    /// Claims that its pods share.
    pub resource_claims: Option<Vec<WorkloadPodGroupResourceClaim>>,
}

/// A component: a number of Jobs that are alike.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct ReplicatedJob {
    /// Unique in the JobSet.
    pub name: String,
    /// How many Jobs; 1 unless set.
    pub replicas: Option<i32>,
    /// What each Job is.
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
            limit_remedy: Some("put Jobs that are alike into one replicatedJob with replicas".to_owned()),
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

    /// What the user asks of a component, and where.
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

    /// What is wrong with what the JobSet asks for.
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
                    let detail =
                        format!("{} asks for the same pods: say it in one of the two places", policies().index(at));
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

    /// Gangs that ask for more than there is would wait for ever.
    fn counts(&self) -> ErrorList {
        let mut errors = ErrorList::new();
        let components = i32::try_from(self.spec.replicated_jobs.len()).unwrap_or(i32::MAX);
        let policy = self.spec.scheduling.as_ref().and_then(|scheduling| scheduling.scheduling_policy.as_ref());
        let asked = policy.and_then(|policy| policy.gang.as_ref()).and_then(|gang| gang.min_group_count);
        if let Some(asked) = asked.filter(|asked| *asked > components) {
            let path = Path::new("spec").child("scheduling").child("schedulingPolicy");
            let detail = format!("must not be greater than the number of replicatedJobs ({components})");
            errors.push(Error::invalid(&path.child("gang").child("minGroupCount"), asked, detail));
        }
        for (index, job) in self.spec.replicated_jobs.iter().enumerate() {
            let (Blocks::PodGroup(blocks), path) = self.component_blocks(index) else { continue };
            let gang = blocks.policy.and_then(|policy| policy.gang);
            if let Some(asked) = gang.and_then(|gang| gang.min_count).filter(|asked| *asked > pod_count(job)) {
                let detail = format!("must not be greater than replicas times parallelism ({})", pod_count(job));
                let path = path.child("schedulingPolicy").child("gang").child("minCount");
                errors.push(Error::invalid(&path, asked, detail));
            }
        }
        errors
    }
}

/// Fields that the blocks of a JobSet and the Jobs in it do not have. The types would drop them without a word. What else a
/// JobSet has is not known here, and left alone.
pub fn unknown_fields(document: &Value) -> ErrorList {
    let spec = &document["spec"];
    let mut errors = ErrorList::new();
    // A template of a composite has the same blocks as the whole, an entry the same as a Job.
    let mut whole = spec["scheduling"].clone();
    let entries = whole.as_object_mut().and_then(|whole| whole.remove("replicatedJobPolicies"));
    if whole.is_object() {
        let workload = json!({"spec": {"compositePodGroupTemplates": [whole]}});
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

/// Fields that a Job with this spec does not have; `from` is where the caller has them `at`.
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
            "unknown field: a JobSet as a whole counts its replicatedJobs, in minGroupCount"
        }
        _ => "unknown field",
    };
    Error::forbidden(&Path::new(path), detail)
}

/// How many pods a component has. As for a Job, a gang needs at least one although a suspended one may have none.
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

//! Which Workload and PodGroup a Job's pods belong to, and what has to be written before there can be pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::batch::scheduling::{JobIntent, item_for_job};
use api::gates::{Gate, Gates};
use api::views::{Condition, JobView, Meta, PodGroupView, View, WorkloadView};
use k8s_openapi::api::scheduling::v1beta1::{PodGroup, PodGroupTemplate, Workload};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use workloadbuilder::{BuildError, BuildOptions, Builder, names};

use super::observe::{Observed, is_controlled_by};
use super::pods::job_owner;
use super::shape::{CONTROLLER, MANAGED_BY_ANNOTATION};

/// Names the template of the parent's Workload that this Job is an instance of; its presence delegates the PodGroup.
pub const TEMPLATE_ANNOTATION: &str = "scheduling.k8s.io/group-template-name";

/// Which of the scheduling objects are the Job controller's to look after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagementMode {
    /// A root Job: both.
    ManageBoth,
    /// A child whose parent made the Workload and asked the child for the PodGroup.
    ManagePodGroupOnly,
    /// Somebody else brings the PodGroup along, or nobody wants one.
    ManageNone,
}

/// Decides who looks after the scheduling objects of `job`.
// Upstream: a CronJob's Jobs get no objects, because any controlling owner counts as a parent that will see to it. A
// CronJob never does, so here its Jobs are roots (S000-13).
pub fn management_mode(job: &JobView, gates: &Gates) -> ManagementMode {
    if !gates.enabled(Gate::WorkloadWithJob) || job.spec.template.scheduling_group.is_some() {
        return ManagementMode::ManageNone;
    }
    match job.metadata.controller() {
        None => ManagementMode::ManageBoth,
        Some(owner) if owner.kind == "CronJob" && owner.api_version.starts_with("batch/") => ManagementMode::ManageBoth,
        Some(_) if job.metadata.annotations.contains_key(TEMPLATE_ANNOTATION) => ManagementMode::ManagePodGroupOnly,
        Some(_) => ManagementMode::ManageNone,
    }
}

/// The `controllerRef` of the Workload to look for, as the index writes it.
pub fn stands_for(job: &JobView, mode: ManagementMode) -> Option<String> {
    let (namespace, name) = (&job.metadata.namespace, &job.metadata.name);
    match mode {
        ManagementMode::ManageNone => None,
        ManagementMode::ManageBoth => Some(format!("{namespace}/batch/Job/{name}")),
        ManagementMode::ManagePodGroupOnly => {
            let parent = job.metadata.controller()?;
            let group = parent.api_version.split_once('/').map_or("", |(group, _)| group);
            Some(format!("{namespace}/{group}/{}/{}", parent.kind, parent.name))
        }
    }
}

/// The group that new pods join.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The PodGroup's name.
    pub name: String,
    /// The reference by which the group is the pods' second owner, where our own garbage collector runs.
    pub owner: Option<OwnerReference>,
}

/// Why pods are plain although the Job would have a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// CamelCase reason of condition and event.
    pub reason: &'static str,
    /// Text for people.
    pub message: String,
}

impl Fallback {
    /// Type of the condition on the Job.
    pub const CONDITION: &str = "SchedulingFallback";

    /// Whether the Job's status says so already.
    pub fn is_noted(&self, job: &JobView) -> bool {
        let noted = |condition: &Condition| condition.reason == self.reason && condition.message == self.message;
        let mut conditions = job.status.conditions.iter();
        conditions
            .any(|condition| condition.kind == Fallback::CONDITION && condition.status == "True" && noted(condition))
    }
}

/// What stands between a Job and its pods.
#[derive(Clone, Debug)]
pub enum Scheduling {
    /// There is no Workload yet: this one is to be created.
    NeedsWorkload(Box<Workload>),
    /// There is no PodGroup yet: this one is to be created.
    NeedsPodGroup(Box<PodGroup>),
    /// The Job's size moved on and an object we made has to follow.
    NeedsMinCount(MinCount),
    /// The parent's Workload is not there yet; its coming wakes the Job.
    NeedsParent,
    /// Pods join this group.
    Join(Group),
    /// Pods are plain, because the Job has no group or, with a reason, because it cannot be told which.
    Plain(Option<Fallback>),
}

/// A `minCount` to be written to one of our objects.
#[derive(Clone, Debug)]
pub struct MinCount {
    /// The object.
    pub object: MinCountObject,
    /// Its new value.
    pub min_count: i32,
}

/// Where a `minCount` is written; Workload before PodGroup, like everything.
#[derive(Clone, Debug)]
pub enum MinCountObject {
    /// In the only template of a Workload.
    Workload(Arc<WorkloadView>),
    /// In a PodGroup.
    PodGroup(Arc<PodGroupView>),
}

/// Finds the Job's group, or the next write on the way to it.
///
/// Objects are created only while the Job owns no pod in any phase (S000-33): pods that are there stay as they are, and
/// half a gang would be none.
pub fn scheduling(observed: &Observed, gates: &Gates, own_gc: bool) -> Result<Scheduling, BuildError> {
    let mode = management_mode(&observed.job, gates);
    let may_create = observed.pods.is_empty();
    let workload = match (&observed.workloads[..], mode) {
        (_, ManagementMode::ManageNone) => return Ok(Scheduling::Plain(None)),
        ([], ManagementMode::ManageBoth) if may_create && JobIntent::from(&*observed.job).wants_objects(gates) => {
            return Ok(Scheduling::NeedsWorkload(Box::new(compile(&observed.job, gates)?)));
        }
        ([], ManagementMode::ManagePodGroupOnly) if may_create => return Ok(Scheduling::NeedsParent),
        ([], _) => return Ok(Scheduling::Plain(None)),
        ([workload], _) => workload,
        (several, _) => return Ok(ambiguous("AmbiguousWorkload", several)),
    };
    let Some(template) = template_of(&observed.job, workload, mode) else {
        let message = format!("Workload {} has no single template for the pods of this Job", workload.metadata.name);
        return Ok(Scheduling::Plain(Some(Fallback { reason: "UnsupportedWorkload", message })));
    };
    if mode == ManagementMode::ManageBoth
        && let Some(min_count) = workload_min_count(&observed.job, workload, template, gates)?
    {
        return Ok(Scheduling::NeedsMinCount(MinCount {
            object: MinCountObject::Workload(workload.clone()),
            min_count,
        }));
    }
    let group = match &observed.pod_groups[..] {
        [] if may_create => {
            let group = pod_group(&observed.job, workload, template, mode)?;
            return Ok(Scheduling::NeedsPodGroup(Box::new(group)));
        }
        [] => return Ok(Scheduling::Plain(None)),
        [group] => group,
        several => return Ok(ambiguous("AmbiguousPodGroup", several)),
    };
    // The group follows the template it was made from, which is the Workload's whoever made that.
    if let Some(gang) = template.scheduling_policy.gang.as_ref()
        && is_ours(&group.metadata, &observed.job)
        && group.min_count().is_some_and(|held| held != gang.min_count)
    {
        let min_count = gang.min_count;
        return Ok(Scheduling::NeedsMinCount(MinCount { object: MinCountObject::PodGroup(group.clone()), min_count }));
    }
    let owner = own_gc.then(|| plain_owner(&**group));
    Ok(Scheduling::Join(Group { name: group.metadata.name.clone(), owner }))
}

/// The Workload and PodGroup that a root Job with this spec would get; `None` where somebody else brings the group.
/// For tools that show what would be made, without a server: `workload_uid` stands in for the one it would assign.
pub fn compiled(job: &JobView, workload_uid: &str) -> Result<Option<(Workload, PodGroup)>, BuildError> {
    let gates = Gates::default();
    let mode = management_mode(job, &gates);
    if mode != ManagementMode::ManageBoth {
        return Ok(None);
    }
    let workload = compile(job, &gates)?;
    let metadata = Meta {
        name: workload.metadata.name.clone().unwrap_or_default(),
        namespace: job.metadata.namespace.clone(),
        uid: workload_uid.to_owned(),
        ..Meta::default()
    };
    let stored = WorkloadView { metadata, spec: workload.spec.clone() };
    let template = template_of(job, &stored, mode).expect("a Job compiles to one template");
    let group = pod_group(job, &stored, template, mode)?;
    Ok(Some((workload, group)))
}

/// The Workload of a root Job.
fn compile(job: &JobView, gates: &Gates) -> Result<Workload, BuildError> {
    let options = BuildOptions {
        name: names::workload_name(&job.metadata.name, &job.metadata.uid),
        namespace: job.metadata.namespace.clone(),
        owner: Some(job_owner(job)),
        ..BuildOptions::default()
    };
    let mut workload = Builder::new(item_for_job(JobIntent::from(job).under(gates)), options).build_workload()?;
    workload.metadata.annotations = Some(managed_by());
    Ok(workload)
}

/// The PodGroup made from a template as the server holds it, so that what the server dropped stays dropped.
fn pod_group(
    job: &JobView,
    workload: &WorkloadView,
    template: &PodGroupTemplate,
    mode: ManagementMode,
) -> Result<PodGroup, BuildError> {
    let key = &workload.metadata;
    let metadata =
        ObjectMeta { name: Some(key.name.clone()), namespace: Some(key.namespace.clone()), ..ObjectMeta::default() };
    let stored = Workload { metadata, spec: workload.spec.clone() };
    let builder =
        Builder::from_workload(stored, BuildOptions { owner: Some(job_owner(job)), ..BuildOptions::default() });
    // Upstream: a delegated group is named after Workload and template, so a second child of one template finds its
    // name taken for ever. Here a child's group bears the child's name.
    let stem = if mode == ManagementMode::ManageBoth { &key.name } else { &job.metadata.name };
    let mut group = builder.pod_group(&names::pod_group_name(stem, &template.name), &template.name)?;
    if mode == ManagementMode::ManageBoth {
        group.metadata.owner_references.get_or_insert_default().push(plain_owner(workload));
    }
    group.metadata.annotations = Some(managed_by());
    Ok(group)
}

/// The template for this Job's pods: the only one or, for a child, the one it names.
fn template_of<'a>(job: &JobView, workload: &'a WorkloadView, mode: ManagementMode) -> Option<&'a PodGroupTemplate> {
    let templates = workload.spec.pod_group_templates.as_deref().unwrap_or_default();
    match mode {
        ManagementMode::ManagePodGroupOnly => {
            let name = job.metadata.annotations.get(TEMPLATE_ANNOTATION).filter(|name| !name.is_empty());
            templates.iter().find(|template| name.is_none_or(|name| template.name == *name))
        }
        _ if workload.spec.composite_pod_group_templates.as_ref().is_some_and(|nested| !nested.is_empty()) => None,
        _ => <&[_; 1]>::try_from(templates).ok().map(|[only]| only),
    }
}

/// The `minCount` the Workload should have, if it is ours and has another.
fn workload_min_count(
    job: &JobView,
    workload: &WorkloadView,
    template: &PodGroupTemplate,
    gates: &Gates,
) -> Result<Option<i32>, BuildError> {
    let Some(held) = template.scheduling_policy.gang.as_ref().filter(|_| is_ours(&workload.metadata, job)) else {
        return Ok(None);
    };
    let desired = compile(job, gates)?.spec.pod_group_templates.unwrap_or_default();
    let wanted = desired.first().and_then(|template| template.scheduling_policy.gang.as_ref());
    Ok(wanted.map(|gang| gang.min_count).filter(|min_count| *min_count != held.min_count))
}

/// Whether this controller made the object for this Job. Objects of others are used, never written (S000-40).
fn is_ours(meta: &Meta, job: &JobView) -> bool {
    let maker = meta.annotations.get(MANAGED_BY_ANNOTATION);
    is_controlled_by(meta, &job.metadata.uid) && maker.is_some_and(|maker| maker == CONTROLLER)
}

fn managed_by() -> BTreeMap<String, String> {
    BTreeMap::from([(MANAGED_BY_ANNOTATION.to_owned(), CONTROLLER.to_owned())])
}

fn ambiguous<V: View>(reason: &'static str, several: &[Arc<V>]) -> Scheduling {
    let names: Vec<&str> = several.iter().map(|object| object.meta().name.as_str()).collect();
    let message = format!("several {}s are for this Job: {}", V::RESOURCE.kind, names.join(", "));
    Scheduling::Plain(Some(Fallback { reason, message }))
}

/// An owner that neither manages the object nor waits for it.
fn plain_owner<V: View>(owner: &V) -> OwnerReference {
    OwnerReference {
        api_version: V::RESOURCE.api_version(),
        kind: V::RESOURCE.kind.to_owned(),
        name: owner.meta().name.clone(),
        uid: owner.meta().uid.clone(),
        controller: None,
        block_owner_deletion: None,
    }
}

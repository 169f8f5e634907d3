//! Which Workload and PodGroup a Job's pods belong to, and what must be written before the pods are created.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::batch::scheduling::{JobIntent, item_for_job};
use api::gates::{Gate, Gates};
use api::views::{Condition, JobView, MetaView, OwnerRef, PodGroupView, View, WorkloadView};
use k8s_openapi::api::scheduling::v1beta1::{PodGroup, PodGroupTemplate, Workload};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use workloadbuilder::group_annotations::GroupAnnotations;
use workloadbuilder::groups::{GroupTemplate, find_template, templates};
use workloadbuilder::recompile::diff;
use workloadbuilder::{BuildError, BuildOptions, Builder, names};

use super::expected_count;
use super::owner_chain::{CachedOwnerChain, name_of};
use super::removal;
use super::workload_ref::named_group;
use crate::job::Config;
use crate::job::job_params::{CONTROLLER_NAME, MANAGED_BY_ANNOTATION};
use crate::job::observe::{JobSnapshot, is_controlled_by};
use crate::job::pods::job_owner;
use crate::job::settings::{ChildOwners, GROUPS_LABEL, GroupsLabel, wants_objects};

/// Names the template of the parent's Workload that this Job is an instance of; its presence delegates the PodGroup.
pub use workloadbuilder::group_annotations::GROUP_TEMPLATE_ANNOTATION as TEMPLATE_ANNOTATION;

/// Which of the scheduling objects the Job controller manages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagementMode {
    /// A root Job: both.
    ManageBoth,
    /// A child: the parent created the Workload and delegates the PodGroup to the Job.
    ManagePodGroupOnly,
    /// The Job names a Workload in `spec.workloadRef`, whose group its pods join.
    JoinNamed,
    /// The PodGroup is created by another controller, or the Job has none.
    ManageNone,
}

/// Which scheduling objects of `job` this controller manages.
pub fn management_mode(job: &JobView, gates: &Gates, child_owners: &ChildOwners) -> ManagementMode {
    let names_group = job.spec.template.scheduling_group.is_some();
    if !gates.enabled(Gate::WorkloadWithJob)
        || names_group
        || GroupsLabel::of(&job.metadata) == Some(GroupsLabel::Disabled)
    {
        return ManagementMode::ManageNone;
    }
    if gates.enabled(Gate::JobWorkloadRef) && job.spec.workload_ref.is_some() {
        return ManagementMode::JoinNamed;
    }
    match job.metadata.controller().filter(|owner| child_owners.include(owner)) {
        None => ManagementMode::ManageBoth,
        Some(_) if links(job).is_some() => ManagementMode::ManagePodGroupOnly,
        Some(_) => ManagementMode::ManageNone,
    }
}

/// Why a Job compiles to no Workload and PodGroup of its own; `None` if it does.
pub fn no_objects_reason(job: &JobView, gates: &Gates, child_owners: &ChildOwners) -> Option<String> {
    let owner = job.metadata.controller().map(name_of).unwrap_or_default();
    match management_mode(job, gates, child_owners) {
        ManagementMode::ManageBoth => None,
        ManagementMode::JoinNamed => Some("its pods join the PodGroup of the Workload in spec.workloadRef".to_owned()),
        ManagementMode::ManagePodGroupOnly => {
            let template = links(job).map(|links| links.template).filter(|name| !name.is_empty());
            let template = template.map(|name| format!("template {name}")).unwrap_or_else(|| "a template".to_owned());
            Some(format!(
                "{owner} controls it, and its PodGroup is created from {template} of the Workload of {owner} or of one of its owners"
            ))
        }
        ManagementMode::ManageNone if !gates.enabled(Gate::WorkloadWithJob) => {
            Some(format!("the feature gate {} is off", Gate::WorkloadWithJob.name()))
        }
        ManagementMode::ManageNone if job.spec.template.scheduling_group.is_some() => {
            Some("its pod template names a PodGroup".to_owned())
        }
        ManagementMode::ManageNone if GroupsLabel::of(&job.metadata) == Some(GroupsLabel::Disabled) => {
            Some(format!("its label {GROUPS_LABEL} is disabled"))
        }
        ManagementMode::ManageNone => Some(format!("{owner} controls it and manages its PodGroup")),
    }
}

/// The owners that the Job's Workload may have in its `controllerRef`. Of the several owners of a child, the first with a
/// Workload counts.
// Upstream: only the Workload of the parent is found, so a child in a tree of three levels has none.
pub fn workload_owners(job: &JobView, mode: ManagementMode, owner_chain: Option<&CachedOwnerChain>) -> Vec<OwnerRef> {
    match mode {
        ManagementMode::ManageNone | ManagementMode::JoinNamed => Vec::new(),
        ManagementMode::ManageBoth => vec![OwnerRef {
            api_version: JobView::RESOURCE.api_version(),
            kind: JobView::RESOURCE.kind.to_owned(),
            name: job.metadata.name.clone(),
            uid: job.metadata.uid.clone(),
            ..OwnerRef::default()
        }],
        ManagementMode::ManagePodGroupOnly => match owner_chain {
            Some(cached) => cached.chain.owners().to_vec(),
            None => job.metadata.controller().cloned().into_iter().collect(),
        },
    }
}

/// The group that new pods join.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinedGroup {
    /// The PodGroup's name.
    pub name: String,
    /// The reference that makes the group the pods' second owner. Only where our own garbage collector runs, and for a
    /// group that is deleted together with the Job.
    pub owner: Option<OwnerReference>,
    /// Fields of the group, its Workload or its pods that the server dropped.
    pub fallback: Option<Fallback>,
}

impl JoinedGroup {
    /// A group that does not own its pods.
    pub(super) fn without_owner(group: &PodGroupView) -> JoinedGroup {
        JoinedGroup { name: group.metadata.name.clone(), owner: None, fallback: None }
    }
}

/// Why the pods are not scheduled as the Job requests: they are plain, or their group lacks fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// CamelCase reason of condition and event.
    pub reason: &'static str,
    /// Its text.
    pub message: String,
}

impl Fallback {
    /// Type of the condition on the Job.
    pub const CONDITION: &str = "SchedulingFallback";
    /// Type of the condition on a Job that waits instead.
    pub const BLOCKED_CONDITION: &str = "SchedulingBlocked";
    /// Reason of a child that waits for the Workload of an owner.
    pub const PARENT_NOT_FOUND: &str = "ParentWorkloadNotFound";

    /// Whether it is in the Job's status.
    pub fn is_in_status(&self, job: &JobView) -> bool {
        let is_same = |condition: &Condition| condition.reason == self.reason && condition.message == self.message;
        let mut conditions = job.status.conditions.iter();
        conditions
            .any(|condition| condition.kind == Fallback::CONDITION && condition.status == "True" && is_same(condition))
    }
}

/// What has to happen before the Job's pods are created, or which group they join.
#[derive(Clone, Debug)]
pub enum Scheduling {
    /// An object of ours is to be deleted.
    NeedsRemoval(ManagedObject),
    /// There is no Workload yet: this one is to be created.
    NeedsWorkload(Box<Workload>),
    /// There is no PodGroup yet: this one is to be created.
    NeedsPodGroup(Box<PodGroup>),
    /// The Job's size changed and an object of ours has to follow.
    NeedsMinCount(MinCountUpdate),
    /// What the Job requests is not available here or does not exist yet. Its event enqueues the Job.
    Blocked(Fallback),
    /// The owners of the Job could not be read. Nothing is created and no condition is set until they are.
    OwnersUnknown,
    /// Pods join this group.
    Join(JoinedGroup),
    /// Pods are plain, because the Job has no group or, with a reason, because its group is not known.
    Plain(Option<Fallback>),
}

/// A `minCount` to be written to one of our objects.
#[derive(Clone, Debug)]
pub struct MinCountUpdate {
    /// The object.
    pub object: ManagedObject,
    /// Its new value.
    pub min_count: i32,
}

/// An object that this controller created and may write. Its Workload has one template.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // The variants are the kinds.
pub enum ManagedObject {
    Workload(Arc<WorkloadView>),
    PodGroup(Arc<PodGroupView>),
}

impl ManagedObject {
    /// Its metadata.
    pub fn meta(&self) -> &MetaView {
        match self {
            ManagedObject::Workload(workload) => &workload.metadata,
            ManagedObject::PodGroup(group) => &group.metadata,
        }
    }
}

/// Finds the Job's group, or the next write on the way to it.
pub fn scheduling(observed: &JobSnapshot, gates: &Gates, config: &Config) -> Result<Scheduling, BuildError> {
    match management_mode(&observed.job, gates, &config.child_owners) {
        ManagementMode::ManageNone => Ok(Scheduling::Plain(None)),
        ManagementMode::JoinNamed => named_group(observed),
        mode => match removal::next_to_delete(observed, config) {
            Some(object) => Ok(Scheduling::NeedsRemoval(object)),
            None if removal::must_delete_objects(observed, config) => Ok(Scheduling::Plain(None)),
            None => own_group(observed, mode, gates, config),
        },
    }
}

/// The same for a Job with its own group.
fn own_group(
    observed: &JobSnapshot,
    mode: ManagementMode,
    gates: &Gates,
    config: &Config,
) -> Result<Scheduling, BuildError> {
    let may_create = removal::may_create(observed, config);
    let wants = || wants_objects(&observed.job, observed.namespace_label, gates, config);
    let workload = match (&observed.workloads[..], mode) {
        ([], ManagementMode::ManageBoth) if may_create && wants() => {
            return Ok(Scheduling::NeedsWorkload(Box::new(compile(&observed.job, gates)?)));
        }
        ([], ManagementMode::ManagePodGroupOnly) if may_create || observed.owner_chain.is_none() => {
            return Ok(blocked_on_owner(observed.owner_chain.as_deref()));
        }
        ([], _) => return Ok(missing_object("Workload", wants() && requests_gang(&observed.job, gates))),
        ([workload], _) => workload,
        (several, _) => return Ok(ambiguous("AmbiguousWorkload", several)),
    };
    let Some(template) = template_of(&observed.job, workload, mode) else {
        let message = no_template_message(&observed.job, workload, mode);
        return Ok(Scheduling::Plain(Some(Fallback { reason: "UnsupportedWorkload", message })));
    };
    if mode == ManagementMode::ManageBoth
        && let Some(min_count) = workload_min_count(&observed.job, workload, gates)?
    {
        return Ok(Scheduling::NeedsMinCount(MinCountUpdate {
            object: ManagedObject::Workload(workload.clone()),
            min_count,
        }));
    }
    let group = match &observed.pod_groups[..] {
        [] if may_create => {
            let group = pod_group(&observed.job, workload, template, mode)?;
            return Ok(Scheduling::NeedsPodGroup(Box::new(group)));
        }
        [] => return Ok(missing_object("PodGroup", template.scheduling_policy.gang.is_some())),
        [group] => group,
        several => return Ok(ambiguous("AmbiguousPodGroup", several)),
    };
    // The group follows the template that it was created from, also in a Workload of a user.
    if let Some(min_count) = min_count_to_set(template, group)
        && is_ours(&group.metadata, &observed.job)
    {
        return Ok(Scheduling::NeedsMinCount(MinCountUpdate {
            object: ManagedObject::PodGroup(group.clone()),
            min_count,
        }));
    }
    Ok(Scheduling::Join(JoinedGroup {
        owner: (config.own_gc && is_deleted_with_job(group, observed)).then(|| non_controller_owner(&**group)),
        ..JoinedGroup::without_owner(group)
    }))
}

/// A parent's Workload usually exists before its children, but the cache may show a child first.
fn blocked_on_owner(owner_chain: Option<&CachedOwnerChain>) -> Scheduling {
    let Some(CachedOwnerChain { chain, .. }) = owner_chain else { return Scheduling::OwnersUnknown };
    let (verbs, owner) = match chain.owners() {
        [parent] => ("owns this Job and manages its PodGroup", name_of(parent)),
        _ => ("own this Job and manage its PodGroup", "one of them".to_owned()),
    };
    let message = format!(
        "there is no Workload of {chain}, which {verbs}: create a Workload that names {owner} in spec.controllerRef, or \
         recreate the Job without the annotation {TEMPLATE_ANNOTATION}{}",
        chain.gap_message()
    );
    Scheduling::Blocked(Fallback { reason: Fallback::PARENT_NOT_FOUND, message })
}

/// A Job with pods whose Workload or PodGroup does not exist: none is created now (`removal::may_create`), and later pods
/// are plain. A Job that requests a gang reports it.
fn missing_object(kind: &str, is_gang: bool) -> Scheduling {
    let reason = if kind == "Workload" { "WorkloadMissing" } else { "PodGroupMissing" };
    let message = format!(
        "this Job requests a gang but has no {kind}, and none is created while the Job has pods: suspend it until it has \
         none and resume it, or delete and recreate it"
    );
    Scheduling::Plain(is_gang.then_some(Fallback { reason, message }))
}

fn requests_gang(job: &JobView, gates: &Gates) -> bool {
    let intent = JobIntent::from(job);
    let policy = intent.scheduling.and_then(|scheduling| scheduling.scheduling_policy.as_ref());
    intent.is_auto_gang(gates) || policy.is_some_and(|policy| policy.gang.is_some())
}

/// Why no template of the Workload is for the Job, and the remedy.
fn no_template_message(job: &JobView, workload: &WorkloadView, mode: ManagementMode) -> String {
    let name = &workload.metadata.name;
    let known = templates(&workload.spec).into_iter().filter(|template| matches!(template, GroupTemplate::Pods(_)));
    let known: Vec<&str> = known.map(GroupTemplate::name).collect();
    let known = if known.is_empty() { "none for pods".to_owned() } else { known.join(", ") };
    match links(job).filter(|_| mode == ManagementMode::ManagePodGroupOnly) {
        Some(links) => format!(
            "annotation {TEMPLATE_ANNOTATION}: Workload {name} has no template {:?} for pods; it has {known}",
            links.template
        ),
        None => format!(
            "Workload {name} has no single template for the pods of this Job; it has {known}: leave only one, at the top level"
        ),
    }
}

/// Whether the garbage collector deletes the group together with the Job: this controller created it for the Job, and its
/// other owners are deleted with the Job too. A group that outlives the Job would keep the pods that it owns.
fn is_deleted_with_job(group: &PodGroupView, observed: &JobSnapshot) -> bool {
    let job = &observed.job;
    let is_job = |owner: &OwnerRef| owner.uid == job.metadata.uid;
    let own_workload = observed
        .workloads
        .iter()
        .find(|workload| is_ours(&workload.metadata, job) && workload.metadata.owner_references.iter().all(is_job));
    let is_deleted_too =
        |owner: &OwnerRef| is_job(owner) || own_workload.is_some_and(|own| own.metadata.uid == owner.uid);
    is_ours(&group.metadata, job) && group.metadata.owner_references.iter().all(is_deleted_too)
}

/// The `minCount` of the template if both are gangs and the group has another value.
pub(super) fn min_count_to_set(template: &PodGroupTemplate, group: &PodGroupView) -> Option<i32> {
    let wanted = template.scheduling_policy.gang.as_ref()?.min_count;
    group.min_count().filter(|current| *current != wanted).map(|_| wanted)
}

/// The Workload and PodGroup that a root Job with this spec would get; `None` for a Job that gets none of its own. For
/// tools without a server: `workload_uid` replaces the uid that a server would assign.
pub fn compile_objects(job: &JobView, workload_uid: &str) -> Result<Option<(Workload, PodGroup)>, BuildError> {
    let gates = Gates::default();
    let mode = management_mode(job, &gates, &ChildOwners::default());
    if mode != ManagementMode::ManageBoth {
        return Ok(None);
    }
    let workload = compile(job, &gates)?;
    let owner = OwnerRef { uid: job.metadata.uid.clone(), controller: true, ..OwnerRef::default() };
    let metadata = MetaView {
        name: workload.metadata.name.clone().unwrap_or_default(),
        namespace: job.metadata.namespace.clone(),
        uid: workload_uid.to_owned(),
        annotations: managed_by().into_iter().collect(),
        owner_references: vec![owner],
        ..MetaView::default()
    };
    let stored = WorkloadView { metadata, spec: workload.spec.clone() };
    let template = template_of(job, &stored, mode).expect("a Job compiles to one template");
    let group = pod_group(job, &stored, template, mode)?;
    Ok(Some((workload, group)))
}

/// The Workload of a root Job.
pub(super) fn compile(job: &JobView, gates: &Gates) -> Result<Workload, BuildError> {
    let options = BuildOptions {
        name: names::workload_name(&job.metadata.name, &job.metadata.uid),
        namespace: job.metadata.namespace.clone(),
        owner: Some(job_owner(job)),
        ..BuildOptions::default()
    };
    let mut workload = Builder::new(item_for_job(JobIntent::from(job).with_gates(gates)), options).build_workload()?;
    workload.metadata.annotations = Some(managed_by());
    Ok(workload)
}

/// The PodGroup created from a template as the server stores it, so that fields that the server dropped stay dropped.
pub(super) fn pod_group(
    job: &JobView,
    workload: &WorkloadView,
    template: &PodGroupTemplate,
    mode: ManagementMode,
) -> Result<PodGroup, BuildError> {
    let key = &workload.metadata;
    let metadata =
        ObjectMeta { name: Some(key.name.clone()), namespace: Some(key.namespace.clone()), ..ObjectMeta::default() };
    let stored = Workload { metadata, spec: workload.spec.clone() };
    // The Workload of a child belongs to its parent; the child's uid is in the name of its group, so that siblings have
    // their own. The group of a Workload that Jobs name belongs to none of them. A user's Workload outlives the Job, the
    // group created from it does not.
    let (instance, owner, group_owners) = match mode {
        ManagementMode::JoinNamed => ("", None, vec![non_controller_owner(workload)]),
        ManagementMode::ManageBoth if is_ours(&workload.metadata, job) => {
            ("", Some(job_owner(job)), vec![non_controller_owner(workload)])
        }
        ManagementMode::ManageBoth => ("", Some(job_owner(job)), Vec::new()),
        _ => (job.metadata.uid.as_str(), Some(job_owner(job)), Vec::new()),
    };
    let options = BuildOptions { owner, group_owners, ..BuildOptions::default() };
    let name = names::group_name(&key.name, &template.name, instance);
    let mut group = Builder::from_workload(stored, options).build_pod_group(&name, &template.name)?;
    if mode == ManagementMode::ManagePodGroupOnly {
        group.spec.parent_composite_pod_group_name = links(job).and_then(|links| links.parent);
    }
    let mut annotations = managed_by();
    const EXPECTED_AFTER_MIN_COUNT: &str = PodGroupView::AFTER_MIN_COUNT_ANNOTATION;
    if let Some(later) =
        job.metadata.annotations.get(EXPECTED_AFTER_MIN_COUNT).filter(|_| mode != ManagementMode::JoinNamed)
    {
        annotations.insert(EXPECTED_AFTER_MIN_COUNT.to_owned(), later.clone());
    }
    // A gang waits for no more pods than this, and its domain is chosen for this many.
    let is_counted = group.spec.scheduling_policy.gang.is_some() || group.spec.scheduling_constraints.is_some();
    if mode != ManagementMode::JoinNamed && is_counted {
        annotations
            .insert(PodGroupView::EXPECTED_COUNT_ANNOTATION.to_owned(), expected_count::initial_count(job).to_string());
    }
    group.metadata.annotations = Some(annotations);
    Ok(group)
}

/// The annotations of the Job's parent about the Job's group.
fn links(job: &JobView) -> Option<GroupAnnotations> {
    GroupAnnotations::read(|key| job.metadata.annotations.get(key).map(String::as_str))
}

/// The template for this Job's pods: the only one or, for a child, the one it names, at any depth.
// Upstream: only templates at the top level are found, so a child cannot belong to a group of groups.
pub(super) fn template_of<'a>(
    job: &JobView,
    workload: &'a WorkloadView,
    mode: ManagementMode,
) -> Option<&'a PodGroupTemplate> {
    let pods = |template| match template {
        GroupTemplate::Pods(template) => Some(template),
        GroupTemplate::Composite(_) => None,
    };
    match (mode, links(job)) {
        (ManagementMode::ManagePodGroupOnly, Some(links)) if !links.template.is_empty() => {
            find_template(&workload.spec, &links.template).and_then(pods)
        }
        (ManagementMode::ManagePodGroupOnly, _) => templates(&workload.spec).into_iter().find_map(pods),
        _ => <[_; 1]>::try_from(templates(&workload.spec)).ok().and_then(|[only]| pods(only)),
    }
}

/// The `minCount` the Workload should have, if it is ours and has another.
fn workload_min_count(job: &JobView, workload: &WorkloadView, gates: &Gates) -> Result<Option<i32>, BuildError> {
    if !is_ours(&workload.metadata, job) {
        return Ok(None);
    }
    let counts = diff(&workload.spec, &compile(job, gates)?.spec).counts;
    Ok(counts.first().map(|gang| gang.count))
}

/// Whether this controller created the object for this Job. Objects of others are used, never written (S000-40).
pub(super) fn is_ours(meta: &MetaView, job: &JobView) -> bool {
    is_controlled_by(meta, &job.metadata.uid) && is_created_by_us(meta)
}

/// Whether this controller created the object, for any Job.
pub(super) fn is_created_by_us(meta: &MetaView) -> bool {
    meta.annotations.get(MANAGED_BY_ANNOTATION).is_some_and(|creator| creator == CONTROLLER_NAME)
}

fn managed_by() -> BTreeMap<String, String> {
    BTreeMap::from([(MANAGED_BY_ANNOTATION.to_owned(), CONTROLLER_NAME.to_owned())])
}

fn ambiguous<V: View>(reason: &'static str, several: &[Arc<V>]) -> Scheduling {
    let names: Vec<&str> = several.iter().map(|object| object.meta().name.as_str()).collect();
    let message = format!("several {}s are for this Job: {}", V::RESOURCE.kind, names.join(", "));
    Scheduling::Plain(Some(Fallback { reason, message }))
}

/// A reference to an owner that is no controller and does not block its own deletion.
fn non_controller_owner<V: View>(owner: &V) -> OwnerReference {
    OwnerReference {
        api_version: V::RESOURCE.api_version(),
        kind: V::RESOURCE.kind.to_owned(),
        name: owner.meta().name.clone(),
        uid: owner.meta().uid.clone(),
        controller: None,
        block_owner_deletion: None,
    }
}

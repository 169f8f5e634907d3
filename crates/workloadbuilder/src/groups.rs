//! A Workload to groups: PodGroups and CompositePodGroups.
//!
//! A group is a copy of its template and complete without the Workload. Build it from the Workload that the server
//! returned: it then lacks the fields that the server dropped.
//!
//! A controller with identical replicas, such as a LeaderWorkerSet, has one tree of templates and builds the groups of
//! each replica from it. In this example each replica is a gang of its leader and its workers, in one rack:
//!
//! ```
//! use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
//! use workloadbuilder::{
//!     BuildOptions, Builder, BuiltGroup, SchedulingConfig, SchedulingConstraints, SchedulingPolicy, WorkloadItem,
//!     field::Path, names,
//! };
//!
//! # let owner = OwnerReference {
//! #     api_version: "leaderworkerset.x-k8s.io/v1".to_owned(),
//! #     kind: "LeaderWorkerSet".to_owned(),
//! #     name: "serving".to_owned(),
//! #     uid: "0b5e".to_owned(),
//! #     controller: Some(true),
//! #     ..OwnerReference::default()
//! # };
//! let gang = |min_count| SchedulingConfig {
//!     policy: Some(SchedulingPolicy::Gang { min_count: Some(min_count) }),
//!     ..SchedulingConfig::default()
//! };
//! let path = Path::new("spec").child("leaderWorkerTemplate");
//! let item = |name: &str, default_config| WorkloadItem { default_config, ..WorkloadItem::new(name, path.child(name)) };
//! let replica = WorkloadItem {
//!     default_config: SchedulingConfig {
//!         constraints: Some(SchedulingConstraints { topology: vec!["topology.kubernetes.io/rack".to_owned()] }),
//!         ..gang(2)
//!     },
//!     children: vec![item("leader", gang(1)), item("workers", gang(7))],
//!     ..WorkloadItem::new("replica", path.clone())
//! };
//! let options = BuildOptions {
//!     name: names::workload_name("serving", "0b5e"),
//!     namespace: "default".to_owned(),
//!     owner: Some(owner),
//!     ..BuildOptions::default()
//! };
//! let workload = Builder::new(replica, options.clone()).build_workload()?;
//!
//! let builder = Builder::from_workload(workload, options);
//! let groups: Vec<BuiltGroup> = (0..3)
//!     .map(|i| builder.build_instance("replica", &i.to_string(), None))
//!     .collect::<Result<Vec<_>, _>>()?
//!     .concat();
//! // Three replicas of three groups each. A parent comes before its children, and the children name it.
//! assert_eq!(groups.len(), 9);
//! assert_eq!(groups[1].parent(), Some(groups[0].name()));
//! assert_ne!(groups[0].name(), groups[3].name());
//! # Ok::<(), workloadbuilder::BuildError>(())
//! ```

use k8s_openapi::api::scheduling::v1alpha3::{
    AllCompositeDisruptionMode, CompositeBasicSchedulingPolicy, CompositeDisruptionMode, CompositeGangSchedulingPolicy,
    CompositePodGroup, CompositePodGroupSchedulingConstraints, CompositePodGroupSchedulingPolicy,
    CompositePodGroupSpec, SingleCompositeDisruptionMode, TopologyConstraint, WorkloadReference as CompositeReference,
};
use k8s_openapi::api::scheduling::v1beta1::{
    CompositePodGroupTemplate, PodGroup, PodGroupSpec, PodGroupTemplate, Workload, WorkloadReference, WorkloadSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::build::{Builder, BuilderInput};
use crate::error::BuildError;
use crate::names;
use crate::target::SchedulingVersion;

/// A group that was built from a template.
#[derive(Clone, Debug, PartialEq)]
pub enum BuiltGroup {
    /// A group of groups.
    Composite(Box<CompositePodGroup>),
    /// A group of pods.
    Pods(Box<PodGroup>),
}

impl BuiltGroup {
    /// The object's name.
    pub fn name(&self) -> &str {
        let metadata = match self {
            BuiltGroup::Composite(group) => &group.metadata,
            BuiltGroup::Pods(group) => &group.metadata,
        };
        metadata.name.as_deref().unwrap_or_default()
    }

    /// The name of its template.
    pub fn template(&self) -> &str {
        match self {
            BuiltGroup::Composite(group) => &group.spec.workload_ref.template_name,
            BuiltGroup::Pods(group) => {
                group.spec.workload_ref.as_ref().map_or("", |reference| &reference.template_name)
            }
        }
    }

    /// The name of its parent CompositePodGroup.
    pub fn parent(&self) -> Option<&str> {
        match self {
            BuiltGroup::Composite(group) => group.spec.parent_composite_pod_group_name.as_deref(),
            BuiltGroup::Pods(group) => group.spec.parent_composite_pod_group_name.as_deref(),
        }
    }
}

/// A template of a Workload, at any depth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GroupTemplate<'a> {
    /// Template of a group of groups.
    Composite(&'a CompositePodGroupTemplate),
    /// Template of a group of pods.
    Pods(&'a PodGroupTemplate),
}

impl<'a> GroupTemplate<'a> {
    /// Its name, unique in the Workload.
    pub fn name(self) -> &'a str {
        match self {
            GroupTemplate::Composite(template) => &template.name,
            GroupTemplate::Pods(template) => &template.name,
        }
    }

    fn group_kind(self) -> &'static str {
        match self {
            GroupTemplate::Composite(_) => "CompositePodGroup",
            GroupTemplate::Pods(_) => "PodGroup",
        }
    }

    fn children(self) -> Vec<GroupTemplate<'a>> {
        match self {
            GroupTemplate::Composite(template) => {
                sibling_templates(&template.composite_pod_group_templates, &template.pod_group_templates)
            }
            GroupTemplate::Pods(_) => Vec::new(),
        }
    }
}

/// All templates of a Workload, parents before children.
pub fn templates(spec: &WorkloadSpec) -> Vec<GroupTemplate<'_>> {
    let mut found = Vec::new();
    let mut stack = sibling_templates(&spec.composite_pod_group_templates, &spec.pod_group_templates);
    stack.reverse();
    while let Some(template) = stack.pop() {
        found.push(template);
        stack.extend(template.children().into_iter().rev());
    }
    found
}

/// The template called `name`, at any depth.
pub fn find_template<'a>(spec: &'a WorkloadSpec, name: &str) -> Option<GroupTemplate<'a>> {
    templates(spec).into_iter().find(|template| template.name() == name)
}

fn sibling_templates<'a>(
    composites: &'a Option<Vec<CompositePodGroupTemplate>>,
    leaves: &'a Option<Vec<PodGroupTemplate>>,
) -> Vec<GroupTemplate<'a>> {
    let composites = composites.iter().flatten().map(GroupTemplate::Composite);
    composites.chain(leaves.iter().flatten().map(GroupTemplate::Pods)).collect()
}

/// The Workload as an owner of its groups that is not their controller and does not block its deletion on theirs. The
/// Workload must have a uid.
pub fn workload_owner(workload: &Workload, version: SchedulingVersion) -> OwnerReference {
    OwnerReference {
        api_version: version.api_version().to_owned(),
        kind: "Workload".to_owned(),
        name: workload.metadata.name.clone().unwrap_or_default(),
        uid: workload.metadata.uid.clone().unwrap_or_default(),
        controller: None,
        block_owner_deletion: None,
    }
}

impl Builder {
    /// The PodGroup called `name` of the template called `template`, at any depth. It has no parent. A caller that
    /// builds groups one by one sets `parentCompositePodGroupName`.
    pub fn build_pod_group(&self, name: &str, template: &str) -> Result<PodGroup, BuildError> {
        let workload = self.workload()?;
        match require_template(&workload, template)? {
            GroupTemplate::Pods(found) => Ok(self.pod_group_from_template(&workload, name, found, None)),
            other @ GroupTemplate::Composite(_) => Err(template_kind_mismatch(&workload, other, "PodGroup")),
        }
    }

    /// The CompositePodGroup called `name` of the template called `template`, without a parent.
    pub fn build_composite_pod_group(&self, name: &str, template: &str) -> Result<CompositePodGroup, BuildError> {
        let workload = self.workload()?;
        match require_template(&workload, template)? {
            GroupTemplate::Composite(found) => Ok(self.composite_from_template(&workload, name, found, None)),
            other @ GroupTemplate::Pods(_) => Err(template_kind_mismatch(&workload, other, "CompositePodGroup")),
        }
    }

    /// One group of every template, in the order of creation: parents before children. Delete them in the reverse
    /// order.
    pub fn build_groups(&self) -> Result<Vec<BuiltGroup>, BuildError> {
        let workload = self.workload()?;
        let spec = &workload.spec;
        let top = sibling_templates(&spec.composite_pod_group_templates, &spec.pod_group_templates);
        Ok(top.into_iter().flat_map(|template| self.build_subtree(&workload, template, "", None)).collect())
    }

    /// One group of the template called `template` and of every template below it, parents before children, under the
    /// CompositePodGroup called `parent`. `instance` makes names of groups of the same template unique: the number of a
    /// replica or the name of a child, or empty if there is only one.
    pub fn build_instance(
        &self,
        template: &str,
        instance: &str,
        parent: Option<&str>,
    ) -> Result<Vec<BuiltGroup>, BuildError> {
        let workload = self.workload()?;
        let template = require_template(&workload, template)?;
        Ok(self.build_subtree(&workload, template, instance, parent))
    }

    fn workload(&self) -> Result<Workload, BuildError> {
        match &self.source {
            BuilderInput::Items(_) => self.build_workload(),
            BuilderInput::Workload(workload) => Ok((**workload).clone()),
        }
    }

    fn build_subtree(
        &self,
        workload: &Workload,
        template: GroupTemplate<'_>,
        instance: &str,
        parent: Option<&str>,
    ) -> Vec<BuiltGroup> {
        let name = names::group_name(workload_name(workload), template.name(), instance);
        let mut groups = vec![match template {
            GroupTemplate::Composite(found) => {
                BuiltGroup::Composite(self.composite_from_template(workload, &name, found, parent).into())
            }
            GroupTemplate::Pods(found) => {
                BuiltGroup::Pods(self.pod_group_from_template(workload, &name, found, parent).into())
            }
        }];
        for child in template.children() {
            groups.extend(self.build_subtree(workload, child, instance, Some(&name)));
        }
        groups
    }

    fn group_metadata(&self, workload: &Workload, name: &str) -> ObjectMeta {
        let owners: Vec<OwnerReference> =
            self.options.owner.iter().chain(&self.options.group_owners).cloned().collect();
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: workload.metadata.namespace.clone(),
            owner_references: (!owners.is_empty()).then_some(owners),
            ..ObjectMeta::default()
        }
    }

    fn pod_group_from_template(
        &self,
        workload: &Workload,
        name: &str,
        template: &PodGroupTemplate,
        parent: Option<&str>,
    ) -> PodGroup {
        let (workload_name, template) = (workload_name(workload).to_owned(), template.clone());
        PodGroup {
            metadata: self.group_metadata(workload, name),
            spec: PodGroupSpec {
                workload_ref: Some(WorkloadReference { workload_name, template_name: template.name }),
                scheduling_policy: template.scheduling_policy,
                scheduling_constraints: template.scheduling_constraints,
                disruption_mode: template.disruption_mode,
                resource_claims: template.resource_claims,
                priority_class_name: template.priority_class_name,
                priority: template.priority,
                // Admission sets it from the priority class, and refuses a group with a different value.
                preemption_policy: None,
                parent_composite_pod_group_name: parent.map(str::to_owned),
            },
            status: None,
        }
    }

    /// The kind exists only in `v1alpha3`, its template also in `v1beta1`: the same fields in different types.
    fn composite_from_template(
        &self,
        workload: &Workload,
        name: &str,
        template: &CompositePodGroupTemplate,
        parent: Option<&str>,
    ) -> CompositePodGroup {
        let template = template.clone();
        let topology = |list: Vec<k8s_openapi::api::scheduling::v1beta1::TopologyConstraint>| {
            list.into_iter().map(|constraint| TopologyConstraint { key: constraint.key }).collect()
        };
        CompositePodGroup {
            metadata: self.group_metadata(workload, name),
            spec: CompositePodGroupSpec {
                workload_ref: CompositeReference {
                    workload_name: workload_name(workload).to_owned(),
                    template_name: template.name,
                },
                scheduling_policy: CompositePodGroupSchedulingPolicy {
                    basic: template.scheduling_policy.basic.map(|basic| CompositeBasicSchedulingPolicy(basic.0)),
                    gang: template
                        .scheduling_policy
                        .gang
                        .map(|gang| CompositeGangSchedulingPolicy { min_group_count: gang.min_group_count }),
                },
                scheduling_constraints: template.scheduling_constraints.map(|constraints| {
                    CompositePodGroupSchedulingConstraints { topology: constraints.topology.map(topology) }
                }),
                disruption_mode: template.disruption_mode.map(|mode| CompositeDisruptionMode {
                    single: mode.single.map(|single| SingleCompositeDisruptionMode(single.0)),
                    all: mode.all.map(|all| AllCompositeDisruptionMode(all.0)),
                }),
                priority_class_name: template.priority_class_name,
                priority: template.priority,
                preemption_policy: None,
                parent_composite_pod_group_name: parent.map(str::to_owned),
            },
            status: None,
        }
    }
}

fn workload_name(workload: &Workload) -> &str {
    workload.metadata.name.as_deref().unwrap_or_default()
}

fn require_template<'a>(workload: &'a Workload, template: &str) -> Result<GroupTemplate<'a>, BuildError> {
    find_template(&workload.spec, template).ok_or_else(|| BuildError::NoTemplate {
        workload: workload_name(workload).to_owned(),
        template: template.to_owned(),
        known: templates(&workload.spec).into_iter().map(|known| known.name().to_owned()).collect(),
    })
}

fn template_kind_mismatch(workload: &Workload, template: GroupTemplate<'_>, requested: &'static str) -> BuildError {
    BuildError::TemplateKindMismatch {
        workload: workload_name(workload).to_owned(),
        template: template.name().to_owned(),
        makes: template.group_kind(),
        requested,
    }
}

#[cfg(test)]
mod tests;

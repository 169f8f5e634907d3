//! Items to objects: resolve each item, then write its configuration down as a template, and a template as a group.

use k8s_openapi::api::scheduling::v1beta1::{
    AllDisruptionMode, BasicSchedulingPolicy, DisruptionMode as ApiDisruptionMode, GangSchedulingPolicy, PodGroup,
    PodGroupSchedulingConstraints, PodGroupSchedulingPolicy, PodGroupSpec, PodGroupTemplate, SingleDisruptionMode,
    TopologyConstraint, TypedLocalObjectReference, Workload, WorkloadReference, WorkloadSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::field::{Error as FieldError, ErrorList, Path};
use crate::item::{
    DisruptionMode, DisruptionModeKind, PolicyKind, SchedulingConfig, SchedulingConstraints, SchedulingPolicy,
    WorkloadItem,
};
use crate::validate;

/// What a builder needs besides the item.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// Name of the Workload; see [`crate::names`].
    pub name: String,
    /// Namespace of the Workload.
    pub namespace: String,
    /// The object that the Workload stands for and that owns what is built.
    pub owner: Option<OwnerReference>,
    /// The policies that the controller supports. A policy that is not listed is refused by `validate`, so one that
    /// the API gains later is refused until the controller lists it.
    pub allowed_policies: Vec<PolicyKind>,
    /// The disruption modes that the controller supports.
    pub allowed_disruption_modes: Vec<DisruptionModeKind>,
}

/// Why nothing could be built. Each is a mistake of the controller or its user, so trying again does not help.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // The fields say what the messages say.
pub enum BuildError {
    /// Templates are found by name.
    #[error("{path}: an item has no name")]
    NoName { path: Path },
    /// Nobody said how many pods a gang needs: neither the user, nor the defaults, nor a callback.
    #[error("item {item}: a gang needs minCount")]
    NoMinCount { item: String },
    /// A Workload has to say what it stands for.
    #[error("a workload needs an owner")]
    NoOwner,
    /// The owner's group cannot be read.
    #[error("owner {kind} {name}: apiVersion {api_version:?} is not group/version")]
    OwnerVersion { kind: String, name: String, api_version: String },
    /// The builder was made from a Workload, which is there already.
    #[error("this builder was made from workload {name} and builds no other")]
    AlreadyBuilt { name: String },
    /// The Workload has no such template.
    #[error("workload {workload} has no template {template:?}, only: {}", known.join(", "))]
    NoTemplate { workload: String, template: String, known: Vec<String> },
    /// Stays until CompositePodGroup is supported.
    #[error("item {item}: composite items are not built yet")]
    Composite { item: String },
}

/// Builds the objects of one workload, from an item or from the Workload that was built from it earlier.
pub struct Builder {
    source: Source,
    options: BuildOptions,
}

enum Source {
    Item(WorkloadItem),
    Workload(Workload),
}

impl Builder {
    /// A builder of the Workload of `root`.
    pub fn new(root: WorkloadItem, options: BuildOptions) -> Builder {
        Builder { source: Source::Item(root), options }
    }

    /// A builder of groups from a Workload that is there. Of the options only the owner is looked at.
    pub fn from_workload(workload: Workload, options: BuildOptions) -> Builder {
        Builder { source: Source::Workload(workload), options }
    }

    /// Everything that is wrong with the item: first the form of the user's blocks, then the sense of the whole.
    /// `old` is the item as it was before an update; what has not changed since is not judged again for its form.
    pub fn validate(&self, old: Option<&WorkloadItem>) -> ErrorList {
        let mut errors = self.validate_blocks(old);
        errors.extend(self.validate_resolved());
        errors
    }

    /// Only the form of the user's blocks, for an API server that checks the rest itself or elsewhere.
    pub fn validate_blocks(&self, old: Option<&WorkloadItem>) -> ErrorList {
        match self.leaf() {
            Ok(item) if old.is_some_and(|old| old.name != item.name) => {
                vec![FieldError::internal(&item.path, "the old item has another name")]
            }
            Ok(item) => validate::blocks(item, old),
            Err(error) => vec![error],
        }
    }

    /// Only the sense of what the item resolves to: the lists of what is allowed, and what goes together.
    pub fn validate_resolved(&self) -> ErrorList {
        match self.leaf() {
            Ok(item) => {
                validate::resolved(item, &self.options.allowed_policies, &self.options.allowed_disruption_modes)
            }
            Err(error) => vec![error],
        }
    }

    fn leaf(&self) -> Result<&WorkloadItem, FieldError> {
        match &self.source {
            Source::Item(item) if item.children.is_empty() => Ok(item),
            Source::Item(item) => Err(FieldError::internal(&item.path, "composite items are not built yet")),
            Source::Workload(_) => Err(FieldError::internal(&Path::default(), "a workload has no item to validate")),
        }
    }

    /// The Workload of the item, owned by the owner and with one template.
    pub fn build_workload(&self) -> Result<Workload, BuildError> {
        let item = match &self.source {
            Source::Item(item) => item,
            Source::Workload(workload) => {
                return Err(BuildError::AlreadyBuilt { name: workload.metadata.name.clone().unwrap_or_default() });
            }
        };
        let owner = self.options.owner.as_ref().ok_or(BuildError::NoOwner)?;
        Ok(Workload {
            metadata: ObjectMeta {
                name: Some(self.options.name.clone()),
                namespace: Some(self.options.namespace.clone()),
                owner_references: Some(vec![owner.clone()]),
                ..ObjectMeta::default()
            },
            spec: WorkloadSpec {
                controller_ref: Some(controller_ref(owner)?),
                pod_group_templates: Some(vec![pod_group_template(item)?]),
                composite_pod_group_templates: None,
            },
        })
    }

    /// The PodGroup called `name` of the template called `template`, complete without the Workload it names.
    pub fn pod_group(&self, name: &str, template: &str) -> Result<PodGroup, BuildError> {
        match &self.source {
            Source::Item(_) => self.pod_group_of(&self.build_workload()?, name, template),
            Source::Workload(workload) => self.pod_group_of(workload, name, template),
        }
    }

    fn pod_group_of(&self, workload: &Workload, name: &str, template: &str) -> Result<PodGroup, BuildError> {
        let workload_name = workload.metadata.name.clone().unwrap_or_default();
        let templates = workload.spec.pod_group_templates.as_deref().unwrap_or_default();
        let found = templates.iter().find(|candidate| candidate.name == template).ok_or_else(|| {
            let known = templates.iter().map(|template| template.name.clone()).collect();
            BuildError::NoTemplate { workload: workload_name.clone(), template: template.to_owned(), known }
        })?;
        let found = found.clone();
        Ok(PodGroup {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: workload.metadata.namespace.clone(),
                owner_references: self.options.owner.clone().map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            spec: PodGroupSpec {
                workload_ref: Some(WorkloadReference { workload_name, template_name: found.name }),
                scheduling_policy: found.scheduling_policy,
                scheduling_constraints: found.scheduling_constraints,
                disruption_mode: found.disruption_mode,
                resource_claims: found.resource_claims,
                priority_class_name: found.priority_class_name,
                priority: found.priority,
                // Admission takes it from the priority class, and refuses a group that brings another.
                preemption_policy: None,
                parent_composite_pod_group_name: None,
            },
            status: None,
        })
    }
}

/// What the Workload stands for, by group, kind and name.
fn controller_ref(owner: &OwnerReference) -> Result<TypedLocalObjectReference, BuildError> {
    let group = match owner.api_version.split('/').collect::<Vec<_>>()[..] {
        [version] if !version.is_empty() => None,
        [group, version] if !group.is_empty() && !version.is_empty() => Some(group.to_owned()),
        _ => {
            return Err(BuildError::OwnerVersion {
                kind: owner.kind.clone(),
                name: owner.name.clone(),
                api_version: owner.api_version.clone(),
            });
        }
    };
    Ok(TypedLocalObjectReference { api_group: group, kind: owner.kind.clone(), name: owner.name.clone() })
}

fn pod_group_template(item: &WorkloadItem) -> Result<PodGroupTemplate, BuildError> {
    if item.name.is_empty() {
        return Err(BuildError::NoName { path: item.path.clone() });
    }
    if !item.children.is_empty() {
        return Err(BuildError::Composite { item: item.name.clone() });
    }
    let config = item.resolve();
    Ok(PodGroupTemplate {
        name: item.name.clone(),
        scheduling_policy: policy(item, &config)?,
        scheduling_constraints: config.constraints.map(constraints),
        disruption_mode: config.disruption_mode.map(disruption_mode),
        resource_claims: Some(config.resource_claims).filter(|claims| !claims.is_empty()),
        priority_class_name: config.priority_class_name,
        priority: None,
        preemption_policy: None,
    })
}

fn policy(item: &WorkloadItem, config: &SchedulingConfig) -> Result<PodGroupSchedulingPolicy, BuildError> {
    Ok(match &config.policy {
        None | Some(SchedulingPolicy::Basic) => {
            PodGroupSchedulingPolicy { basic: Some(BasicSchedulingPolicy(empty())), gang: None }
        }
        Some(SchedulingPolicy::Gang { min_count }) => {
            let min_count = min_count.ok_or_else(|| BuildError::NoMinCount { item: item.name.clone() })?;
            PodGroupSchedulingPolicy { basic: None, gang: Some(GangSchedulingPolicy { min_count }) }
        }
    })
}

fn constraints(constraints: SchedulingConstraints) -> PodGroupSchedulingConstraints {
    let topology = constraints.topology.into_iter().map(|key| TopologyConstraint { key }).collect();
    PodGroupSchedulingConstraints { topology: Some(topology) }
}

fn disruption_mode(mode: DisruptionMode) -> ApiDisruptionMode {
    match mode {
        DisruptionMode::Single => ApiDisruptionMode { single: Some(SingleDisruptionMode(empty())), all: None },
        DisruptionMode::All => ApiDisruptionMode { single: None, all: Some(AllDisruptionMode(empty())) },
    }
}

/// A member that is there but holds nothing: `{}`, not null, which would be read as not there.
fn empty() -> Value {
    Value::Object(Map::new())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use serde_json::json;

    use super::{BuildError, BuildOptions, Builder};
    use crate::field::Path;
    use crate::item::{
        DisruptionMode, ResourceClaim, SchedulingConfig, SchedulingConstraints, SchedulingPolicy, WorkloadItem,
    };

    fn owner() -> OwnerReference {
        OwnerReference {
            api_version: "batch/v1".to_owned(),
            kind: "Job".to_owned(),
            name: "trainer".to_owned(),
            uid: "u1".to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    fn options() -> BuildOptions {
        BuildOptions {
            name: "trainer-x1".to_owned(),
            namespace: "training".to_owned(),
            owner: Some(owner()),
            ..BuildOptions::default()
        }
    }

    fn item(default_config: SchedulingConfig) -> WorkloadItem {
        WorkloadItem { default_config, ..WorkloadItem::new("workers", Path::new("spec").child("scheduling")) }
    }

    fn gang() -> SchedulingConfig {
        SchedulingConfig {
            policy: Some(SchedulingPolicy::Gang { min_count: Some(4) }),
            constraints: Some(SchedulingConstraints { topology: vec!["topology.kubernetes.io/rack".to_owned()] }),
            disruption_mode: Some(DisruptionMode::All),
            resource_claims: vec![ResourceClaim {
                name: "nic".to_owned(),
                resource_claim_name: None,
                resource_claim_template_name: Some("nics".to_owned()),
            }],
            priority_class_name: Some("high".to_owned()),
        }
    }

    #[test]
    fn a_leaf_becomes_a_workload_with_one_template() {
        let workload = Builder::new(item(gang()), options()).build_workload().expect("a workload");
        assert_eq!(
            serde_json::to_value(&workload).expect("JSON"),
            json!({
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "Workload",
                "metadata": {
                    "name": "trainer-x1",
                    "namespace": "training",
                    "ownerReferences": [{
                        "apiVersion": "batch/v1", "kind": "Job", "name": "trainer", "uid": "u1",
                        "controller": true, "blockOwnerDeletion": true,
                    }],
                },
                "spec": {
                    "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "trainer"},
                    "podGroupTemplates": [{
                        "name": "workers",
                        "schedulingPolicy": {"gang": {"minCount": 4}},
                        "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/rack"}]},
                        "disruptionMode": {"all": {}},
                        "resourceClaims": [{"name": "nic", "resourceClaimTemplateName": "nics"}],
                        "priorityClassName": "high",
                    }],
                },
            })
        );
    }

    #[test]
    fn an_item_that_says_nothing_is_basic() {
        let workload = Builder::new(item(SchedulingConfig::default()), options()).build_workload().expect("a workload");
        assert_eq!(
            serde_json::to_value(&workload.spec.pod_group_templates).expect("JSON"),
            json!([{"name": "workers", "schedulingPolicy": {"basic": {}}}])
        );
    }

    #[test]
    fn a_group_is_made_from_the_workload_as_it_was_kept() {
        let mut kept = Builder::new(item(gang()), options()).build_workload().expect("a workload");
        // What a server without topology would have done to it.
        let template = &mut kept.spec.pod_group_templates.as_mut().expect("templates")[0];
        template.scheduling_constraints = None;
        template.priority = Some(1000);
        template.preemption_policy = Some("Never".to_owned());
        let group =
            Builder::from_workload(kept, options()).pod_group("trainer-x1-workers", "workers").expect("a group");
        assert_eq!(
            serde_json::to_value(&group).expect("JSON"),
            json!({
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "PodGroup",
                "metadata": {
                    "name": "trainer-x1-workers",
                    "namespace": "training",
                    "ownerReferences": [{
                        "apiVersion": "batch/v1", "kind": "Job", "name": "trainer", "uid": "u1",
                        "controller": true, "blockOwnerDeletion": true,
                    }],
                },
                "spec": {
                    "workloadRef": {"workloadName": "trainer-x1", "templateName": "workers"},
                    "schedulingPolicy": {"gang": {"minCount": 4}},
                    "disruptionMode": {"all": {}},
                    "resourceClaims": [{"name": "nic", "resourceClaimTemplateName": "nics"}],
                    "priorityClassName": "high",
                    "priority": 1000,
                },
            })
        );
    }

    #[test]
    fn what_cannot_be_built_says_why() {
        let no_count = SchedulingConfig {
            policy: Some(SchedulingPolicy::Gang { min_count: None }),
            ..SchedulingConfig::default()
        };
        let with_child = WorkloadItem { children: vec![item(gang())], ..item(gang()) };
        let no_name = WorkloadItem { name: String::new(), ..item(gang()) };
        let odd_owner = OwnerReference { api_version: "a/b/c".to_owned(), ..owner() };
        for (item, options, want) in [
            (item(no_count), options(), "item workers: a gang needs minCount"),
            (with_child, options(), "item workers: composite items are not built yet"),
            (no_name, options(), "spec.scheduling: an item has no name"),
            (item(gang()), BuildOptions { owner: None, ..options() }, "a workload needs an owner"),
            (
                item(gang()),
                BuildOptions { owner: Some(odd_owner), ..options() },
                "owner Job trainer: apiVersion \"a/b/c\" is not group/version",
            ),
        ] {
            let error = Builder::new(item, options).build_workload().expect_err(want);
            assert_eq!(error.to_string(), want);
        }
    }

    #[test]
    fn a_builder_from_a_workload_makes_groups_and_nothing_else() {
        let kept = Builder::new(item(gang()), options()).build_workload().expect("a workload");
        let builder = Builder::from_workload(kept, BuildOptions::default());
        assert_eq!(
            builder.pod_group("g", "driver").expect_err("no such template").to_string(),
            "workload trainer-x1 has no template \"driver\", only: workers"
        );
        assert_eq!(builder.build_workload(), Err(BuildError::AlreadyBuilt { name: "trainer-x1".to_owned() }));
        assert_eq!(builder.validate(None)[0].to_string(), "Internal error: a workload has no item to validate");
        // Without an owner the group has none: a controller in between may own it.
        assert_eq!(builder.pod_group("g", "workers").expect("a group").metadata.owner_references, None);
    }

    #[test]
    fn an_owner_in_the_core_group_has_no_group_to_name() {
        let options =
            BuildOptions { owner: Some(OwnerReference { api_version: "v1".to_owned(), ..owner() }), ..options() };
        let workload = Builder::new(item(gang()), options).build_workload().expect("a workload");
        assert_eq!(workload.spec.controller_ref.expect("a reference").api_group, None);
    }
}

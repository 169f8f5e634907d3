//! Items to a Workload.
//!
//! The tree of a controller with two levels, such as a JobSet, has the controller's object at the root and its
//! components below. In this example the components start together by default, and the user requests one rack for the
//! workers:
//!
//! ```
//! use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
//! use serde_json::json;
//! use workloadbuilder::{
//!     Blocks, BuildOptions, Builder, PodGroupBlocks, SchedulingConfig, SchedulingPolicy, WorkloadItem, field::Path, names,
//! };
//!
//! # let owner = OwnerReference {
//! #     api_version: "jobset.x-k8s.io/v1alpha2".to_owned(),
//! #     kind: "JobSet".to_owned(),
//! #     name: "train".to_owned(),
//! #     uid: "0b5e".to_owned(),
//! #     controller: Some(true),
//! #     ..OwnerReference::default()
//! # };
//! let spec = Path::new("spec");
//! let jobs = spec.child("replicatedJobs");
//! let workers = PodGroupBlocks {
//!     constraints: serde_json::from_value(json!({"topology": [{"key": "topology.kubernetes.io/rack"}]}))?,
//!     ..PodGroupBlocks::default()
//! };
//! let root = WorkloadItem {
//!     default_config: SchedulingConfig {
//!         policy: Some(SchedulingPolicy::Gang { min_count: Some(2) }), // counts groups
//!         ..SchedulingConfig::default()
//!     },
//!     children: vec![
//!         WorkloadItem::new("driver", jobs.index(0)),
//!         WorkloadItem { input: Blocks::PodGroup(workers), ..WorkloadItem::new("workers", jobs.index(1)) },
//!     ],
//!     ..WorkloadItem::new("train", spec.child("scheduling"))
//! };
//! let options = BuildOptions {
//!     name: names::workload_name("train", "0b5e"),
//!     namespace: "default".to_owned(),
//!     owner: Some(owner),
//!     ..BuildOptions::default()
//! };
//! let builder = Builder::new(root, options);
//! let workload = builder.build_workload()?;
//! assert_eq!(
//!     serde_json::to_value(&workload.spec.composite_pod_group_templates)?,
//!     json!([{
//!         "name": "train",
//!         "schedulingPolicy": {"gang": {"minGroupCount": 2}},
//!         "podGroupTemplates": [
//!             {"name": "driver", "schedulingPolicy": {"basic": {}}},
//!             {
//!                 "name": "workers",
//!                 "schedulingPolicy": {"basic": {}},
//!                 "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/rack"}]},
//!             },
//!         ],
//!     }])
//! );
//! // One group of each template, in the order of creation: the parent first.
//! let groups: Vec<String> = builder.build_groups()?.iter().map(|group| group.template().to_owned()).collect();
//! assert_eq!(groups, ["train", "driver", "workers"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use k8s_openapi::api::scheduling::v1beta1::{TypedLocalObjectReference, Workload, WorkloadSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::error::BuildError;
use crate::field::{Error as FieldError, ErrorList, Path};
use crate::item::{DisruptionModeKind, PolicyKind, WorkloadItem};
use crate::target::BuildTarget;
use crate::{format, rules, template, tree, validate};

/// The input of a builder in addition to the items.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// Name of the Workload. [`crate::names::workload_name`] makes one.
    pub name: String,
    /// Namespace of the Workload.
    pub namespace: String,
    /// The controller's object. The Workload names it in `spec.controllerRef`, and it owns the built objects.
    pub owner: Option<OwnerReference>,
    /// Further owners of groups, such as the Workload itself ([`crate::groups::workload_owner`]).
    pub group_owners: Vec<OwnerReference>,
    /// The policies that the controller supports. `validate` refuses all others, including those that the API gains
    /// later. An empty list allows none.
    pub allowed_policies: Vec<PolicyKind>,
    /// The disruption modes that the controller supports. `validate` refuses all others.
    pub allowed_disruption_modes: Vec<DisruptionModeKind>,
    /// API version and layout of the objects, as the server supports them.
    pub target: BuildTarget,
    /// The remedy for too many groups in one list, in terms of the controller's resource. `validate` adds it to the
    /// error. Without it the error has only the limit, because users do not know items.
    pub limit_remedy: Option<String>,
}

/// Builds the objects of one workload, from items or from an existing Workload.
pub struct Builder {
    pub(crate) source: BuilderInput,
    pub(crate) options: BuildOptions,
}

pub(crate) enum BuilderInput {
    Items(Vec<WorkloadItem>),
    Workload(Box<Workload>),
}

impl Builder {
    /// A builder for the tree of `root`.
    pub fn new(root: WorkloadItem, options: BuildOptions) -> Builder {
        Builder::with_items(vec![root], options)
    }

    /// A builder for one Workload with several items at the top, such as a driver and its workers.
    // Upstream: one item at the top. Several components at the top need a Workload each.
    pub fn with_items(items: Vec<WorkloadItem>, options: BuildOptions) -> Builder {
        Builder { source: BuilderInput::Items(items), options }
    }

    /// A builder for the groups of an existing Workload. It uses only the owners and the target of the options.
    pub fn from_workload(workload: Workload, options: BuildOptions) -> Builder {
        Builder { source: BuilderInput::Workload(Box::new(workload)), options }
    }

    /// All errors in the items: in the user's blocks, in the resolved configurations, and those that the API server
    /// would find in the Workload. `old` has the items before an update. A block that has not changed is not validated
    /// again.
    pub fn validate(&self, old: Option<&[WorkloadItem]>) -> ErrorList {
        let mut errors = self.validate_blocks(old);
        errors.extend(self.validate_resolved());
        for error in self.validate_structure() {
            // The validation of blocks may have found the same error.
            if errors.iter().all(|known| known.path != error.path || known.kind != error.kind) {
                errors.push(error);
            }
        }
        errors
    }

    /// Only the errors in the user's blocks, for an API server that checks the rest elsewhere.
    pub fn validate_blocks(&self, old: Option<&[WorkloadItem]>) -> ErrorList {
        let items = match self.items() {
            Ok(items) => items,
            Err(error) => return vec![error],
        };
        if let ([item], Some([old])) = (items, old)
            && item.name != old.name
        {
            return vec![FieldError::internal(&item.path, "the old item has a different name")];
        }
        validate::all_blocks(items, old.unwrap_or_default())
    }

    /// Only the errors in the resolved configurations: policies and modes that are not allowed or not compatible.
    pub fn validate_resolved(&self) -> ErrorList {
        let (policies, modes) = (&self.options.allowed_policies, &self.options.allowed_disruption_modes);
        match self.items() {
            Ok(items) => items.iter().flat_map(|item| validate::resolved(item, policies, modes)).collect(),
            Err(error) => vec![error],
        }
    }

    /// Only the errors that the API server would find in the Workload: names, limits, counts, priorities.
    pub fn validate_structure(&self) -> ErrorList {
        let items = match self.items() {
            Ok(items) => items,
            Err(error) => return vec![error],
        };
        let root = items.first().map(|item| item.path.clone()).unwrap_or_default();
        let errors = tree::resolve(items, self.options.target.supported_layout()).err().unwrap_or_default();
        errors.iter().map(|error| self.field_error(error, &root)).collect()
    }

    fn field_error(&self, error: &BuildError, root: &Path) -> FieldError {
        let mut field = error.to_field_error(root);
        if let (BuildError::TooManyTemplates { .. }, Some(remedy)) = (error, &self.options.limit_remedy) {
            field.detail = format!("{}: {remedy}", field.detail);
        }
        field
    }

    fn items(&self) -> Result<&[WorkloadItem], FieldError> {
        match &self.source {
            BuilderInput::Items(items) => Ok(items),
            BuilderInput::Workload(_) => {
                Err(FieldError::internal(&Path::default(), "a builder from a workload has no items to validate"))
            }
        }
    }

    /// The Workload of the items, with a template for each item. [`BuildOptions::owner`] owns it.
    ///
    /// # Errors
    ///
    /// The first error that [`Builder::validate_structure`] would return, or an invalid name or owner in the options.
    pub fn build_workload(&self) -> Result<Workload, BuildError> {
        let items = match &self.source {
            BuilderInput::Items(items) => items,
            BuilderInput::Workload(workload) => {
                return Err(BuildError::BuiltFromWorkload { name: workload.metadata.name.clone().unwrap_or_default() });
            }
        };
        let nodes = tree::resolve(items, self.options.target.supported_layout());
        let nodes = nodes.map_err(|mut errors| errors.swap_remove(0))?;
        let owner = self.options.owner.as_ref().ok_or(BuildError::NoOwner)?;
        let controller_ref = controller_ref(owner)?;
        let (pod_group_templates, composite_pod_group_templates) = template::template_lists(&nodes);
        Ok(Workload {
            metadata: self.metadata(owner)?,
            spec: WorkloadSpec {
                controller_ref: Some(controller_ref),
                pod_group_templates,
                composite_pod_group_templates,
            },
        })
    }

    fn metadata(&self, owner: &OwnerReference) -> Result<ObjectMeta, BuildError> {
        let BuildOptions { name, namespace, .. } = &self.options;
        let path = Path::new("metadata");
        let mut errors = rules::validate_required(&path.child("name"), name, format::subdomain);
        if !namespace.is_empty() {
            errors.extend(rules::validate_format(&path.child("namespace"), namespace, format::label));
        }
        match errors.into_iter().next() {
            Some(error) => Err(BuildError::InvalidWorkloadName(error.into())),
            None => Ok(ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace.clone()),
                owner_references: Some(vec![owner.clone()]),
                ..ObjectMeta::default()
            }),
        }
    }
}

/// The reference to the controller's object, by group, kind and name.
fn controller_ref(owner: &OwnerReference) -> Result<TypedLocalObjectReference, BuildError> {
    let OwnerReference { kind, name, uid, .. } = owner;
    if [kind, name, uid].iter().any(|field| field.is_empty()) {
        return Err(BuildError::IncompleteOwner { kind: kind.clone(), name: name.clone() });
    }
    let group = match owner.api_version.split('/').collect::<Vec<_>>()[..] {
        [version] if !version.is_empty() => None,
        [group, version] if !group.is_empty() && !version.is_empty() => Some(group.to_owned()),
        _ => {
            let (kind, name, api_version) = (kind.clone(), name.clone(), owner.api_version.clone());
            return Err(BuildError::InvalidOwnerVersion { kind, name, api_version });
        }
    };
    Ok(TypedLocalObjectReference { api_group: group, kind: kind.clone(), name: name.clone() })
}

#[cfg(test)]
mod tests;

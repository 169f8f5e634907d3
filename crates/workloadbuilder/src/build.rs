//! Items to a Workload.
//!
//! A controller of two levels, such as a JobSet, hands in a tree: itself at the root, its components below. Here the
//! components start together unless the user says otherwise, and the user keeps the workers in one rack:
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
//!         policy: Some(SchedulingPolicy::Gang { min_count: Some(2) }), // of groups, here
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
//! // One group of each template, the parent first: to be created in this order.
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

/// What a builder needs besides the items.
#[derive(Clone, Debug, Default)]
pub struct BuildOptions {
    /// Name of the Workload; see [`crate::names`].
    pub name: String,
    /// Namespace of the Workload.
    pub namespace: String,
    /// The object that the Workload stands for and that owns what is built.
    pub owner: Option<OwnerReference>,
    /// Further owners of groups, such as the Workload itself ([`crate::groups::workload_owner`]).
    pub group_owners: Vec<OwnerReference>,
    /// The policies that the controller supports. A policy that is not listed is refused by `validate`, so one that
    /// the API gains later is refused until the controller lists it. An empty list allows nothing.
    pub allowed_policies: Vec<PolicyKind>,
    /// The disruption modes that the controller supports, by the same rule.
    pub allowed_disruption_modes: Vec<DisruptionModeKind>,
    /// What the server can hold.
    pub target: BuildTarget,
    /// What users of the controller's resource can do about too many groups side by side, in the words of that resource.
    /// `validate` says it; without it, it says the limit alone, for users know no items.
    pub limit_remedy: Option<String>,
}

/// Builds the objects of one workload, from items or from the Workload that was built from them earlier.
pub struct Builder {
    pub(crate) source: BuilderInput,
    pub(crate) options: BuildOptions,
}

pub(crate) enum BuilderInput {
    Items(Vec<WorkloadItem>),
    Workload(Box<Workload>),
}

impl Builder {
    /// A builder of the Workload of `root`.
    pub fn new(root: WorkloadItem, options: BuildOptions) -> Builder {
        Builder::with_items(vec![root], options)
    }

    /// A builder of one Workload with several items at the top, such as a driver and its workers.
    // Upstream: one item at the top, so that components side by side need a Workload each.
    pub fn with_items(items: Vec<WorkloadItem>, options: BuildOptions) -> Builder {
        Builder { source: BuilderInput::Items(items), options }
    }

    /// A builder of groups from a Workload that is there. Of the options only the owners and the target are looked at.
    pub fn from_workload(workload: Workload, options: BuildOptions) -> Builder {
        Builder { source: BuilderInput::Workload(Box::new(workload)), options }
    }

    /// Everything that is wrong with the items: the form of the user's blocks, the sense of what comes of them, and
    /// what the API server would refuse in the Workload. `old` are the items as they were before an update; a block that
    /// has not changed since is not judged again for its form.
    pub fn validate(&self, old: Option<&[WorkloadItem]>) -> ErrorList {
        let mut errors = self.validate_blocks(old);
        errors.extend(self.validate_resolved());
        for error in self.validate_structure() {
            // A user's block may be refused for its form already.
            if errors.iter().all(|known| known.path != error.path || known.kind != error.kind) {
                errors.push(error);
            }
        }
        errors
    }

    /// Only the form of the user's blocks, for an API server that checks the rest itself or elsewhere.
    pub fn validate_blocks(&self, old: Option<&[WorkloadItem]>) -> ErrorList {
        let items = match self.items() {
            Ok(items) => items,
            Err(error) => return vec![error],
        };
        if let ([item], Some([old])) = (items, old)
            && item.name != old.name
        {
            return vec![FieldError::internal(&item.path, "the old item has another name")];
        }
        validate::all_blocks(items, old.unwrap_or_default())
    }

    /// Only the sense of what the items resolve to: the lists of what is allowed, and what goes together.
    pub fn validate_resolved(&self) -> ErrorList {
        let (policies, modes) = (&self.options.allowed_policies, &self.options.allowed_disruption_modes);
        match self.items() {
            Ok(items) => items.iter().flat_map(|item| validate::resolved(item, policies, modes)).collect(),
            Err(error) => vec![error],
        }
    }

    /// Only what the API server would refuse in the Workload: names, limits, counts, priorities.
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
        if let (BuildError::TooManyTemplates { .. }, Some(advice)) = (error, &self.options.limit_remedy) {
            field.detail = format!("{}: {advice}", field.detail);
        }
        field
    }

    fn items(&self) -> Result<&[WorkloadItem], FieldError> {
        match &self.source {
            BuilderInput::Items(items) => Ok(items),
            BuilderInput::Workload(_) => {
                Err(FieldError::internal(&Path::default(), "a workload has no item to validate"))
            }
        }
    }

    /// The Workload of the items, owned by the owner, with a template for each item.
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
        let mut refused = rules::validate_required(&path.child("name"), name, format::subdomain);
        if !namespace.is_empty() {
            refused.extend(rules::validate_format(&path.child("namespace"), namespace, format::label));
        }
        match refused.into_iter().next() {
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

/// What the Workload stands for, by group, kind and name.
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

//! A controller's input: a tree of items, each with defaults, the user's blocks and callbacks.
//!
//! The configuration of an item ([`SchedulingConfig`]) is one type for groups of pods and for groups of groups. The
//! users' blocks have a type per level and are mapped to it.

use std::fmt;
use std::sync::Arc;

pub use k8s_openapi::api::scheduling::v1beta1::PodGroupResourceClaim as ResourceClaim;

use crate::blocks::Blocks;
use crate::field::Path;

/// One component of a workload: a whole Job, one role of a training run, or a set of such components.
#[derive(Clone)]
pub struct WorkloadItem {
    /// The name of the item's template; a DNS label, unique in the tree.
    pub name: String,
    /// The field of the controller's object for this component, for errors about the item as a whole.
    pub path: Path,
    /// The values of fields that the user does not set.
    pub default_config: SchedulingConfig,
    /// The user's input.
    pub input: Blocks,
    /// The fields of the controller's object with the user's input, for errors about a block.
    pub fields: FieldPaths,
    /// Functions that change the merged configuration, run in order.
    pub callbacks: Vec<Callback>,
    /// Components of this component. An item with children is a composite, one without is a leaf.
    pub children: Vec<WorkloadItem>,
}

/// A controller's change of the merged configuration, such as a default that depends on other fields.
pub type Callback = Arc<dyn Fn(&mut SchedulingConfig) + Send + Sync>;

impl fmt::Debug for WorkloadItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorkloadItem { name, path, default_config, input, fields, callbacks, children } = self;
        f.debug_struct("WorkloadItem")
            .field("name", name)
            .field("path", path)
            .field("default_config", default_config)
            .field("input", input)
            .field("fields", fields)
            .field("callbacks", &callbacks.len())
            .field("children", children)
            .finish()
    }
}

impl WorkloadItem {
    /// A leaf without defaults, input or callbacks. Its blocks have the usual names below `path`
    /// ([`FieldPaths::below`]).
    pub fn new(name: impl Into<String>, path: Path) -> WorkloadItem {
        let fields = FieldPaths::below(&path);
        WorkloadItem {
            name: name.into(),
            path,
            default_config: SchedulingConfig::default(),
            input: Blocks::Absent,
            fields,
            callbacks: Vec::new(),
            children: Vec::new(),
        }
    }

    /// Whether this is a group of groups.
    pub fn is_composite(&self) -> bool {
        !self.children.is_empty()
    }

    /// The effective configuration: the defaults, each field replaced by the user's value if there is one, then changed
    /// by the callbacks.
    pub fn resolve(&self) -> SchedulingConfig {
        self.resolve_with_sources().0
    }

    /// The effective configuration, and the source of each field.
    pub fn resolve_with_sources(&self) -> (SchedulingConfig, FieldSources) {
        let mut config = self.merge();
        let merged = config.clone();
        for callback in &self.callbacks {
            callback(&mut config);
        }
        let user = self.input.to_config();
        let sources = FieldSources {
            policy: source(config.policy != merged.policy, user.policy.is_some(), config.policy.is_some()),
            constraints: source(
                config.constraints != merged.constraints,
                user.constraints.is_some(),
                config.constraints.is_some(),
            ),
            disruption_mode: source(
                config.disruption_mode != merged.disruption_mode,
                user.disruption_mode.is_some(),
                config.disruption_mode.is_some(),
            ),
            resource_claims: source(
                config.resource_claims != merged.resource_claims,
                !user.resource_claims.is_empty(),
                !config.resource_claims.is_empty(),
            ),
            priority_class_name: source(
                config.priority_class_name != merged.priority_class_name,
                false,
                config.priority_class_name.is_some(),
            ),
        };
        (config, sources)
    }

    /// The defaults, each field replaced as a whole by the user's value if there is one.
    fn merge(&self) -> SchedulingConfig {
        let (user, default) = (self.input.to_config(), self.default_config.clone());
        SchedulingConfig {
            policy: user.policy.or(default.policy),
            constraints: user.constraints.or(default.constraints),
            disruption_mode: user.disruption_mode.or(default.disruption_mode),
            resource_claims: if user.resource_claims.is_empty() {
                default.resource_claims
            } else {
                user.resource_claims
            },
            priority_class_name: default.priority_class_name,
        }
    }
}

/// The source of a field of a resolved configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldSource {
    /// The field is not set.
    #[default]
    Unset,
    /// The controller's defaults.
    Default,
    /// The user's block.
    User,
    /// A callback set it, or changed the value of the defaults or of the user.
    Callback,
}

/// The source of each field of a resolved configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldSources {
    /// Source of [`SchedulingConfig::policy`].
    pub policy: FieldSource,
    /// Source of [`SchedulingConfig::constraints`].
    pub constraints: FieldSource,
    /// Source of [`SchedulingConfig::disruption_mode`].
    pub disruption_mode: FieldSource,
    /// Source of [`SchedulingConfig::resource_claims`].
    pub resource_claims: FieldSource,
    /// Source of [`SchedulingConfig::priority_class_name`].
    pub priority_class_name: FieldSource,
}

fn source(changed_by_callback: bool, set_by_user: bool, is_set: bool) -> FieldSource {
    match (changed_by_callback, set_by_user, is_set) {
        (true, _, _) => FieldSource::Callback,
        (false, true, _) => FieldSource::User,
        (false, false, true) => FieldSource::Default,
        (false, false, false) => FieldSource::Unset,
    }
}

/// The field paths of the blocks in the controller's own object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPaths {
    /// Path of the policy.
    pub policy: Path,
    /// Path of the constraints.
    pub constraints: Path,
    /// Path of the disruption mode.
    pub disruption_mode: Path,
    /// Path of the claims.
    pub resource_claims: Path,
}

impl FieldPaths {
    /// All blocks below one field, with the names that they have in `spec.scheduling` of a Job.
    pub fn below(path: &Path) -> FieldPaths {
        FieldPaths {
            policy: path.child("schedulingPolicy"),
            constraints: path.child("schedulingConstraints"),
            disruption_mode: path.child("disruptionMode"),
            resource_claims: path.child("resourceClaims"),
        }
    }
}

/// How one component is scheduled, at any level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulingConfig {
    /// When the members are admitted. Unset is Basic.
    pub policy: Option<SchedulingPolicy>,
    /// On which nodes the members may be placed. Unset is no constraint.
    pub constraints: Option<SchedulingConstraints>,
    /// How the members may be disrupted. Unset is the API's default.
    pub disruption_mode: Option<DisruptionMode>,
    /// Claims that the pods share.
    pub resource_claims: Vec<ResourceClaim>,
    /// The priority class of the pods. The controller sets it, because the blocks do not have it.
    pub priority_class_name: Option<String>,
}

impl SchedulingConfig {
    /// Sets the `min_count` of a gang that has none. For callbacks.
    pub fn default_min_count(&mut self, count: i32) {
        if let Some(SchedulingPolicy::Gang { min_count }) = &mut self.policy {
            min_count.get_or_insert(count);
        }
    }

    /// The kind of policy in the template. Unset is Basic.
    pub fn policy_kind(&self) -> PolicyKind {
        self.policy.as_ref().map_or(PolicyKind::Basic, SchedulingPolicy::kind)
    }
}

/// When the members of a group are admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedulingPolicy {
    /// One by one.
    Basic,
    /// At least `min_count` of them together, or none.
    Gang {
        /// Number of pods in a leaf, of groups in a composite. A build fails without it.
        min_count: Option<i32>,
    },
    /// One that this version of the library knows by name only. Validation refuses it unless the controller lists it,
    /// and a build fails.
    Other(&'static str),
}

impl SchedulingPolicy {
    /// The kind of this policy.
    pub fn kind(&self) -> PolicyKind {
        match self {
            SchedulingPolicy::Basic => PolicyKind::Basic,
            SchedulingPolicy::Gang { .. } => PolicyKind::Gang,
            SchedulingPolicy::Other(name) => PolicyKind::Other(name),
        }
    }
}

/// A policy without its values, for the list of policies that a controller supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// [`SchedulingPolicy::Basic`].
    Basic,
    /// [`SchedulingPolicy::Gang`].
    Gang,
    /// [`SchedulingPolicy::Other`] of this name.
    Other(&'static str),
}

impl PolicyKind {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            PolicyKind::Basic => "Basic",
            PolicyKind::Gang => "Gang",
            PolicyKind::Other(name) => name,
        }
    }
}

/// On which nodes the members of a group may be placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulingConstraints {
    /// Keys of node labels whose value all members must share.
    pub topology: Vec<String>,
}

/// How the members of a group may be disrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisruptionMode {
    /// One by one.
    Single,
    /// Only all together.
    All,
    /// One that this version of the library knows by name only. Validation refuses it unless the controller lists it,
    /// and a build fails.
    Other(&'static str),
}

impl DisruptionMode {
    /// The name of the mode's member in a block.
    pub fn name(self) -> &'static str {
        match self {
            DisruptionMode::Single => "single",
            DisruptionMode::All => "all",
            DisruptionMode::Other(name) => name,
        }
    }
}

/// A mode, for the list of modes that a controller supports. A mode has no values, so it is its own kind.
pub type DisruptionModeKind = DisruptionMode;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::{
        DisruptionMode, FieldSource, FieldSources, ResourceClaim, SchedulingConfig, SchedulingConstraints,
        SchedulingPolicy, WorkloadItem,
    };
    use crate::blocks::{Blocks, PodGroupBlocks};
    use crate::field::Path;

    fn blocks(value: serde_json::Value) -> Blocks {
        let field = |name: &str| value.get(name).cloned();
        let decoded = PodGroupBlocks {
            policy: field("schedulingPolicy").map(|block| serde_json::from_value(block).expect("a policy")),
            constraints: field("schedulingConstraints")
                .map(|block| serde_json::from_value(block).expect("constraints")),
            disruption_mode: field("disruptionMode").map(|block| serde_json::from_value(block).expect("a mode")),
            resource_claims: field("resourceClaims").map(|block| serde_json::from_value(block).expect("claims")),
        };
        Blocks::PodGroup(decoded)
    }

    fn defaults() -> SchedulingConfig {
        SchedulingConfig {
            policy: Some(SchedulingPolicy::Basic),
            constraints: Some(SchedulingConstraints { topology: vec!["zone".to_owned()] }),
            disruption_mode: Some(DisruptionMode::Single),
            resource_claims: vec![ResourceClaim { name: "default".to_owned(), ..ResourceClaim::default() }],
            priority_class_name: Some("high".to_owned()),
        }
    }

    fn item(input: Blocks) -> WorkloadItem {
        WorkloadItem { default_config: defaults(), input, ..WorkloadItem::new("workers", Path::new("spec")) }
    }

    // Shows: S004-37
    #[test]
    fn each_user_field_replaces_the_whole_default() {
        let user = json!({
            "schedulingPolicy": {"gang": {"minCount": 3}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
            "disruptionMode": {"all": {}},
            "resourceClaims": [{"name": "nic", "resourceClaimName": "shared"}],
        });
        let config = item(blocks(user)).resolve();
        assert_eq!(config.policy, Some(SchedulingPolicy::Gang { min_count: Some(3) }));
        assert_eq!(config.constraints, Some(SchedulingConstraints { topology: vec!["rack".to_owned()] }));
        assert_eq!(config.disruption_mode, Some(DisruptionMode::All));
        assert_eq!(config.resource_claims.iter().map(|claim| claim.name.as_str()).collect::<Vec<_>>(), ["nic"]);
        assert_eq!(config.priority_class_name.as_deref(), Some("high"));
    }

    #[test]
    fn defaults_apply_to_fields_that_the_user_leaves_out_or_empty() {
        let empty = json!({
            "schedulingPolicy": {},
            "schedulingConstraints": {"topology": []},
            "disruptionMode": {},
            "resourceClaims": [],
        });
        for (case, input) in [("absent", Blocks::Absent), ("no fields", blocks(json!({}))), ("empty", blocks(empty))] {
            assert_eq!(item(input).resolve(), defaults(), "{case}");
        }
    }

    // Shows: S004-38
    // Shows: S004-47
    #[test]
    fn callbacks_run_after_the_merge_and_in_order() {
        let mut item = item(blocks(json!({"schedulingPolicy": {"gang": {}}})));
        item.callbacks = vec![
            Arc::new(|config| config.default_min_count(4)),
            // A callback can change any value, not only set a default (KEP-6089, Library Usage Example).
            Arc::new(|config| {
                if let Some(SchedulingPolicy::Gang { min_count: Some(count) }) = &mut config.policy {
                    *count *= 42;
                }
            }),
        ];
        assert_eq!(item.resolve().policy, Some(SchedulingPolicy::Gang { min_count: Some(168) }));
    }

    #[test]
    fn min_count_of_the_user_is_kept() {
        let mut config = SchedulingConfig {
            policy: Some(SchedulingPolicy::Gang { min_count: Some(2) }),
            ..SchedulingConfig::default()
        };
        config.default_min_count(4);
        assert_eq!(config.policy, Some(SchedulingPolicy::Gang { min_count: Some(2) }));
    }

    #[test]
    fn resolved_configuration_has_the_source_of_each_field() {
        let user = json!({"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}});
        let mut item = item(blocks(user));
        item.default_config.resource_claims.clear();
        item.callbacks = vec![Arc::new(|config| config.default_min_count(4))];
        assert_eq!(
            item.resolve_with_sources().1,
            FieldSources {
                policy: FieldSource::Callback,
                constraints: FieldSource::Default,
                disruption_mode: FieldSource::User,
                resource_claims: FieldSource::Unset,
                priority_class_name: FieldSource::Default,
            }
        );
    }

    // Shows: S004-44
    #[test]
    fn item_with_children_is_a_group_of_groups() {
        let leaf = item(Blocks::Absent);
        let composite = WorkloadItem { children: vec![leaf.clone()], ..leaf.clone() };
        assert!(composite.is_composite() && !leaf.is_composite());
        assert_eq!(composite.resolve(), leaf.resolve(), "a configuration does not depend on the level");
    }
}

//! What a controller hands in: a tree of items, each with defaults, the user's blocks and callbacks.
//!
//! The configuration of an item ([`SchedulingConfig`]) knows no level: it is the same for a group of pods and for a
//! group of groups. The blocks that users write are typed per level and mapped into it.

use std::fmt;
use std::sync::Arc;

pub use k8s_openapi::api::scheduling::v1beta1::PodGroupResourceClaim as ResourceClaim;

use crate::blocks::Blocks;
use crate::field::Path;

/// One component of a workload: a whole Job, one role of a training run, or a set of such components.
#[derive(Clone)]
pub struct WorkloadItem {
    /// The name of the template made from the item; unique in the tree.
    pub name: String,
    /// Where in the controller's object this component stands; errors about the item as a whole point here.
    pub path: Path,
    /// What holds unless the user says otherwise.
    pub default_config: SchedulingConfig,
    /// What the user wrote.
    pub input: Blocks,
    /// Where in the controller's object the user wrote it; errors about a block point here.
    pub fields: FieldPaths,
    /// Run on the resolved configuration, in order.
    pub callbacks: Vec<Callback>,
    /// Components of this component. An item with children is a composite, one without is a leaf.
    pub children: Vec<WorkloadItem>,
}

/// A last word of the controller on a resolved configuration, such as a default that depends on other fields.
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
    /// A leaf without defaults, input or callbacks, whose blocks have their usual names below `path`.
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

    /// The configuration that holds: the defaults, each field replaced by the user's where there is one, and then
    /// changed by the callbacks.
    pub fn resolve(&self) -> SchedulingConfig {
        self.resolve_with_sources().0
    }

    /// The same, and where each field comes from.
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

    /// The defaults, each field replaced whole by the user's where there is one.
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

/// Where a field of a resolved configuration comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldSource {
    /// Nobody has set it.
    #[default]
    Unset,
    /// The controller's defaults.
    Default,
    /// The user's block.
    User,
    /// A callback set it, or changed what the defaults or the user had.
    Callback,
}

/// Where each field of a resolved configuration comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // Each is about the field of the same name.
pub struct FieldSources {
    pub policy: FieldSource,
    pub constraints: FieldSource,
    pub disruption_mode: FieldSource,
    pub resource_claims: FieldSource,
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

/// Where the blocks stand in the controller's own object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPaths {
    /// Of the policy.
    pub policy: Path,
    /// Of the constraints.
    pub constraints: Path,
    /// Of the disruption mode.
    pub disruption_mode: Path,
    /// Of the claims.
    pub resource_claims: Path,
}

impl FieldPaths {
    /// All blocks under one field, by the names that `spec.scheduling` of a Job gives them.
    pub fn below(path: &Path) -> FieldPaths {
        FieldPaths {
            policy: path.child("schedulingPolicy"),
            constraints: path.child("schedulingConstraints"),
            disruption_mode: path.child("disruptionMode"),
            resource_claims: path.child("resourceClaims"),
        }
    }
}

/// How one component is to be scheduled, whatever its level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulingConfig {
    /// Unset compiles to Basic.
    pub policy: Option<SchedulingPolicy>,
    /// Unset: anywhere.
    pub constraints: Option<SchedulingConstraints>,
    /// Unset is left to the API's default.
    pub disruption_mode: Option<DisruptionMode>,
    /// Claims that the pods share.
    pub resource_claims: Vec<ResourceClaim>,
    /// Never from the user's blocks: it has to agree with the pods', so the controller sets it.
    pub priority_class_name: Option<String>,
}

impl SchedulingConfig {
    /// Gives a gang the count it needs, if nobody has. Made for callbacks.
    pub fn default_min_count(&mut self, count: i32) {
        if let Some(SchedulingPolicy::Gang { min_count }) = &mut self.policy {
            min_count.get_or_insert(count);
        }
    }

    /// The policy this compiles to.
    pub fn policy_kind(&self) -> PolicyKind {
        self.policy.as_ref().map_or(PolicyKind::Basic, SchedulingPolicy::kind)
    }
}

/// When the members of a group are admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchedulingPolicy {
    /// One by one.
    Basic,
    /// At least `min_count` of them at once, or none.
    Gang {
        /// Of pods in a leaf, of groups in a composite; a gang without it does not compile.
        min_count: Option<i32>,
    },
    /// One that this version of the library knows by name only. It is refused unless it is listed, and does not
    /// compile.
    Other(&'static str),
}

impl SchedulingPolicy {
    /// Which policy this is.
    pub fn kind(&self) -> PolicyKind {
        match self {
            SchedulingPolicy::Basic => PolicyKind::Basic,
            SchedulingPolicy::Gang { .. } => PolicyKind::Gang,
            SchedulingPolicy::Other(name) => PolicyKind::Other(name),
        }
    }
}

/// A policy, for lists of those a controller supports.
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
    /// The name, as messages have it.
    pub fn name(self) -> &'static str {
        match self {
            PolicyKind::Basic => "Basic",
            PolicyKind::Gang => "Gang",
            PolicyKind::Other(name) => name,
        }
    }
}

/// Where the members of a group may go.
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
    /// One that this version of the library knows by name only. It is refused unless it is listed, and does not
    /// compile.
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

/// A mode, for lists of those a controller supports. Modes carry nothing, so a mode is its own kind.
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
    fn each_field_of_the_user_replaces_the_default_whole() {
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
    fn defaults_survive_what_the_user_leaves_out_or_empty() {
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
            // A callback may do more than fill in a default (KEP-6089, Library Usage Example).
            Arc::new(|config| {
                if let Some(SchedulingPolicy::Gang { min_count: Some(count) }) = &mut config.policy {
                    *count *= 42;
                }
            }),
        ];
        assert_eq!(item.resolve().policy, Some(SchedulingPolicy::Gang { min_count: Some(168) }));
    }

    #[test]
    fn a_count_that_the_user_gave_is_kept() {
        let mut config = SchedulingConfig {
            policy: Some(SchedulingPolicy::Gang { min_count: Some(2) }),
            ..SchedulingConfig::default()
        };
        config.default_min_count(4);
        assert_eq!(config.policy, Some(SchedulingPolicy::Gang { min_count: Some(2) }));
    }

    #[test]
    fn a_configuration_knows_where_each_field_comes_from() {
        let user = json!({"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}});
        let mut item = item(blocks(user));
        item.default_config.resource_claims.clear();
        item.callbacks = vec![std::sync::Arc::new(|config| config.default_min_count(4))];
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
    fn children_make_an_item_a_group_of_groups() {
        let leaf = item(Blocks::Absent);
        let composite = WorkloadItem { children: vec![leaf.clone()], ..leaf.clone() };
        assert!(composite.is_composite() && !leaf.is_composite());
        assert_eq!(composite.resolve(), leaf.resolve(), "a configuration knows no level");
    }
}

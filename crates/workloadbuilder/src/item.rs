//! What a controller hands in: a tree of items, each with defaults, the user's blocks and callbacks.
//!
//! The configuration of an item ([`SchedulingConfig`]) knows no level: it is the same for a group of pods and for a
//! group of groups. The blocks that users write are typed per level and mapped into it.

use std::sync::Arc;

use k8s_openapi::api::scheduling::v1alpha3::{
    WorkloadPodGroupDisruptionMode, WorkloadPodGroupResourceClaim, WorkloadPodGroupSchedulingConstraints,
    WorkloadPodGroupSchedulingPolicy,
};
pub use k8s_openapi::api::scheduling::v1beta1::PodGroupResourceClaim as ResourceClaim;

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

    /// The configuration that holds: the defaults, each field replaced by the user's where there is one, and then
    /// changed by the callbacks.
    pub fn resolve(&self) -> SchedulingConfig {
        let user = match &self.input {
            Blocks::Absent => SchedulingConfig::default(),
            Blocks::PodGroup(blocks) => blocks.to_config(),
        };
        let default = self.default_config.clone();
        let mut config = SchedulingConfig {
            policy: user.policy.or(default.policy),
            constraints: user.constraints.or(default.constraints),
            disruption_mode: user.disruption_mode.or(default.disruption_mode),
            resource_claims: if user.resource_claims.is_empty() {
                default.resource_claims
            } else {
                user.resource_claims
            },
            priority_class_name: default.priority_class_name,
        };
        for callback in &self.callbacks {
            callback(&mut config);
        }
        config
    }
}

/// What the user wrote at an item, in the types of the item's level.
// The blocks of composite items come with composite items.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Blocks {
    /// Nothing.
    #[default]
    Absent,
    /// The blocks of a group of pods.
    PodGroup(PodGroupBlocks),
}

/// The blocks of a group of pods, as the API declares them for controllers to embed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodGroupBlocks {
    /// Basic or gang.
    pub policy: Option<WorkloadPodGroupSchedulingPolicy>,
    /// Where the pods may go as a group.
    pub constraints: Option<WorkloadPodGroupSchedulingConstraints>,
    /// Whether pods may be disrupted one by one.
    pub disruption_mode: Option<WorkloadPodGroupDisruptionMode>,
    /// Claims that the pods share.
    pub resource_claims: Option<Vec<WorkloadPodGroupResourceClaim>>,
}

impl PodGroupBlocks {
    /// The blocks as a configuration. A block without content says nothing, so the default survives it; of two
    /// policies or modes at once, which validation refuses, the milder one is read.
    pub fn to_config(&self) -> SchedulingConfig {
        SchedulingConfig {
            policy: self.policy.as_ref().and_then(|policy| match (&policy.basic, &policy.gang) {
                (Some(_), _) => Some(SchedulingPolicy::Basic),
                (None, Some(gang)) => Some(SchedulingPolicy::Gang { min_count: gang.min_count }),
                (None, None) => None,
            }),
            constraints: self.constraints.as_ref().and_then(|constraints| {
                let topology = constraints.topology.iter().flatten();
                let topology: Vec<String> = topology.map(|constraint| constraint.key.clone()).collect();
                (!topology.is_empty()).then_some(SchedulingConstraints { topology })
            }),
            disruption_mode: self.disruption_mode.as_ref().and_then(|mode| match (&mode.single, &mode.all) {
                (Some(_), _) => Some(DisruptionMode::Single),
                (None, Some(_)) => Some(DisruptionMode::All),
                (None, None) => None,
            }),
            resource_claims: self.resource_claims.iter().flatten().map(claim).collect(),
            priority_class_name: None,
        }
    }
}

/// A claim of a block in the form groups have it.
pub(crate) fn claim(block: &WorkloadPodGroupResourceClaim) -> ResourceClaim {
    ResourceClaim {
        name: block.name.clone(),
        resource_claim_name: block.resource_claim_name.clone(),
        resource_claim_template_name: block.resource_claim_template_name.clone(),
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
}

impl SchedulingPolicy {
    /// Which policy this is.
    pub fn kind(&self) -> PolicyKind {
        match self {
            SchedulingPolicy::Basic => PolicyKind::Basic,
            SchedulingPolicy::Gang { .. } => PolicyKind::Gang,
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
}

/// A mode, for lists of those a controller supports. Modes carry nothing, so a mode is its own kind.
pub type DisruptionModeKind = DisruptionMode;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::{
        Blocks, DisruptionMode, PodGroupBlocks, ResourceClaim, SchedulingConfig, SchedulingConstraints,
        SchedulingPolicy, WorkloadItem,
    };
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
}

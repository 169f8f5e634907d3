//! The blocks that a controller embeds in its API for its users, and their mapping to a configuration.
//!
//! There are two families, so that each can gain fields separately: `WorkloadPodGroup…` for a group of pods and
//! `WorkloadCompositePodGroup…` for a group of groups. Both use [`TopologyConstraint`]. Both are mapped to
//! [`SchedulingConfig`], which is the same at every level.

use k8s_openapi::api::scheduling::v1beta1::PodGroupResourceClaim;
use serde::{Deserialize, Serialize};

use crate::item::{DisruptionMode, SchedulingConfig, SchedulingConstraints, SchedulingPolicy};

#[cfg(feature = "schema")]
pub mod schema; // the blocks' JSON schema, for custom resources that embed them

pub use k8s_openapi::api::scheduling::v1alpha3::{
    TopologyConstraint, WorkloadPodGroupAllDisruptionMode, WorkloadPodGroupBasicSchedulingPolicy,
    WorkloadPodGroupDisruptionMode, WorkloadPodGroupGangSchedulingPolicy, WorkloadPodGroupResourceClaim,
    WorkloadPodGroupSchedulingConstraints, WorkloadPodGroupSchedulingPolicy, WorkloadPodGroupSingleDisruptionMode,
};

/// The blocks as `scheduling.k8s.io/v1alpha3` declares them, so far the only version that does.
///
/// A later version gets its own module. This one then stays as aliases of the same types, so users of the library do
/// not break and the wire format does not change (KEP-6089, graduation).
pub mod v1alpha3 {
    pub use super::{
        TopologyConstraint, WorkloadCompositePodGroupAllDisruptionMode, WorkloadCompositePodGroupBasicSchedulingPolicy,
        WorkloadCompositePodGroupDisruptionMode, WorkloadCompositePodGroupGangSchedulingPolicy,
        WorkloadCompositePodGroupSchedulingConstraints, WorkloadCompositePodGroupSchedulingPolicy,
        WorkloadCompositePodGroupSingleDisruptionMode, WorkloadPodGroupAllDisruptionMode,
        WorkloadPodGroupBasicSchedulingPolicy, WorkloadPodGroupDisruptionMode, WorkloadPodGroupGangSchedulingPolicy,
        WorkloadPodGroupResourceClaim, WorkloadPodGroupSchedulingConstraints, WorkloadPodGroupSchedulingPolicy,
        WorkloadPodGroupSingleDisruptionMode,
    };
}

/// When the groups of a group of groups are admitted. Exactly one member is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkloadCompositePodGroupSchedulingPolicy {
    /// One by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic: Option<WorkloadCompositePodGroupBasicSchedulingPolicy>,
    /// At least `minGroupCount` of them together, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gang: Option<WorkloadCompositePodGroupGangSchedulingPolicy>,
}

/// Groups are admitted one by one. It has no fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadCompositePodGroupBasicSchedulingPolicy {}

/// At least `minGroupCount` groups are admitted together, or none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadCompositePodGroupGangSchedulingPolicy {
    /// The number of groups, at least 1. If unset, the controller chooses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_group_count: Option<i32>,
}

/// On which nodes the pods of a group of groups may be placed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkloadCompositePodGroupSchedulingConstraints {
    /// Node labels whose value all pods share. At most one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Vec<TopologyConstraint>>,
}

/// How the groups of a group of groups may be disrupted. Exactly one member is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkloadCompositePodGroupDisruptionMode {
    /// One by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single: Option<WorkloadCompositePodGroupSingleDisruptionMode>,
    /// Only all together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<WorkloadCompositePodGroupAllDisruptionMode>,
}

/// Groups may be disrupted one by one. It has no fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadCompositePodGroupSingleDisruptionMode {}

/// Groups may be disrupted only all together. It has no fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadCompositePodGroupAllDisruptionMode {}

/// The user's input for an item, in the types of the item's level.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Blocks {
    /// No input.
    #[default]
    Absent,
    /// The blocks of a group of pods.
    PodGroup(PodGroupBlocks),
    /// The blocks of a group of groups.
    CompositePodGroup(CompositePodGroupBlocks),
}

impl Blocks {
    /// The blocks as a configuration. Absent blocks are unset fields.
    pub fn to_config(&self) -> SchedulingConfig {
        match self {
            Blocks::Absent => SchedulingConfig::default(),
            Blocks::PodGroup(blocks) => blocks.to_config(),
            Blocks::CompositePodGroup(blocks) => blocks.to_config(),
        }
    }
}

/// The blocks of a group of pods, as the API declares them for controllers to embed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodGroupBlocks {
    /// Basic or gang.
    pub policy: Option<WorkloadPodGroupSchedulingPolicy>,
    /// On which nodes the group may be placed.
    pub constraints: Option<WorkloadPodGroupSchedulingConstraints>,
    /// Whether pods may be disrupted one by one.
    pub disruption_mode: Option<WorkloadPodGroupDisruptionMode>,
    /// Claims that the pods share.
    pub resource_claims: Option<Vec<WorkloadPodGroupResourceClaim>>,
}

impl PodGroupBlocks {
    /// The blocks as a configuration; see [`map_pod_group_config`].
    pub fn to_config(&self) -> SchedulingConfig {
        let claims = self.resource_claims.as_deref().unwrap_or_default();
        map_pod_group_config(self.policy.as_ref(), self.constraints.as_ref(), self.disruption_mode.as_ref(), claims)
    }
}

/// The blocks of a group of groups. It has no claims, because only pods share claims.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompositePodGroupBlocks {
    /// Basic or gang.
    pub policy: Option<WorkloadCompositePodGroupSchedulingPolicy>,
    /// On which nodes the pods of all groups may be placed.
    pub constraints: Option<WorkloadCompositePodGroupSchedulingConstraints>,
    /// Whether groups may be disrupted one by one.
    pub disruption_mode: Option<WorkloadCompositePodGroupDisruptionMode>,
}

impl CompositePodGroupBlocks {
    /// The blocks as a configuration; see [`map_composite_group_config`].
    pub fn to_config(&self) -> SchedulingConfig {
        map_composite_group_config(self.policy.as_ref(), self.constraints.as_ref(), self.disruption_mode.as_ref())
    }
}

/// The blocks of a group of pods as a configuration. An empty block is an unset field, so the default applies. If a
/// block has two policies or modes, which validation refuses, the less strict one is used.
pub fn map_pod_group_config(
    policy: Option<&WorkloadPodGroupSchedulingPolicy>,
    constraints: Option<&WorkloadPodGroupSchedulingConstraints>,
    disruption_mode: Option<&WorkloadPodGroupDisruptionMode>,
    resource_claims: &[WorkloadPodGroupResourceClaim],
) -> SchedulingConfig {
    SchedulingConfig {
        // All members are named, so that a new member in the API is a compile error here.
        policy: policy.and_then(|WorkloadPodGroupSchedulingPolicy { basic, gang }| {
            map_policy(basic.is_some(), gang.as_ref().map(|gang| gang.min_count))
        }),
        constraints: constraints
            .and_then(|WorkloadPodGroupSchedulingConstraints { topology }| map_topology(topology.as_deref())),
        disruption_mode: disruption_mode.and_then(|WorkloadPodGroupDisruptionMode { single, all }| {
            map_disruption_mode(single.is_some(), all.is_some())
        }),
        resource_claims: resource_claims.iter().map(map_claim).collect(),
        priority_class_name: None,
    }
}

/// The blocks of a group of groups as a configuration, by the same rules as [`map_pod_group_config`]. The number of
/// groups becomes the `min_count`.
pub fn map_composite_group_config(
    policy: Option<&WorkloadCompositePodGroupSchedulingPolicy>,
    constraints: Option<&WorkloadCompositePodGroupSchedulingConstraints>,
    disruption_mode: Option<&WorkloadCompositePodGroupDisruptionMode>,
) -> SchedulingConfig {
    SchedulingConfig {
        policy: policy.and_then(|WorkloadCompositePodGroupSchedulingPolicy { basic, gang }| {
            map_policy(basic.is_some(), gang.as_ref().map(|gang| gang.min_group_count))
        }),
        constraints: constraints
            .and_then(|WorkloadCompositePodGroupSchedulingConstraints { topology }| map_topology(topology.as_deref())),
        disruption_mode: disruption_mode.and_then(|WorkloadCompositePodGroupDisruptionMode { single, all }| {
            map_disruption_mode(single.is_some(), all.is_some())
        }),
        resource_claims: Vec::new(),
        priority_class_name: None,
    }
}

fn map_policy(basic: bool, gang: Option<Option<i32>>) -> Option<SchedulingPolicy> {
    if basic {
        return Some(SchedulingPolicy::Basic);
    }
    gang.map(|min_count| SchedulingPolicy::Gang { min_count })
}

fn map_topology(topology: Option<&[TopologyConstraint]>) -> Option<SchedulingConstraints> {
    let keys: Vec<String> = topology.unwrap_or_default().iter().map(|constraint| constraint.key.clone()).collect();
    (!keys.is_empty()).then_some(SchedulingConstraints { topology: keys })
}

fn map_disruption_mode(single: bool, all: bool) -> Option<DisruptionMode> {
    match (single, all) {
        (true, _) => Some(DisruptionMode::Single),
        (false, true) => Some(DisruptionMode::All),
        (false, false) => None,
    }
}

/// A claim of a block as a claim of a group.
pub(crate) fn map_claim(block: &WorkloadPodGroupResourceClaim) -> PodGroupResourceClaim {
    PodGroupResourceClaim {
        name: block.name.clone(),
        resource_claim_name: block.resource_claim_name.clone(),
        resource_claim_template_name: block.resource_claim_template_name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    /// The document, decoded and encoded again.
    fn round_trip<T: Serialize + DeserializeOwned>(document: &Value) -> Value {
        let block: T = serde_json::from_value(document.clone()).expect("a block");
        serde_json::to_value(block).expect("JSON")
    }

    // Shows: S004-01
    // Shows: S004-18
    // Shows: S004-27
    // Shows: S004-31
    #[test]
    fn both_families_of_blocks_have_the_same_wire_format() {
        for document in [json!({}), json!({"basic": {}}), json!({"gang": {}})] {
            assert_eq!(round_trip::<WorkloadPodGroupSchedulingPolicy>(&document), document);
            assert_eq!(round_trip::<WorkloadCompositePodGroupSchedulingPolicy>(&document), document);
        }
        let counted = json!({"gang": {"minCount": 3}});
        assert_eq!(round_trip::<WorkloadPodGroupSchedulingPolicy>(&counted), counted);
        let counted = json!({"gang": {"minGroupCount": 3}});
        assert_eq!(round_trip::<WorkloadCompositePodGroupSchedulingPolicy>(&counted), counted);
        for document in [json!({}), json!({"topology": [{"key": "rack"}]})] {
            assert_eq!(round_trip::<WorkloadPodGroupSchedulingConstraints>(&document), document);
            assert_eq!(round_trip::<WorkloadCompositePodGroupSchedulingConstraints>(&document), document);
        }
        for document in [json!({}), json!({"single": {}}), json!({"all": {}})] {
            assert_eq!(round_trip::<WorkloadPodGroupDisruptionMode>(&document), document);
            assert_eq!(round_trip::<WorkloadCompositePodGroupDisruptionMode>(&document), document);
        }
        let claim = json!({"name": "nic", "resourceClaimTemplateName": "nics"});
        assert_eq!(round_trip::<WorkloadPodGroupResourceClaim>(&claim), claim);
    }

    // Shows: S004-59
    #[test]
    fn versioned_name_of_a_block_is_the_same_type() {
        // Code that imports the versioned name can pass its block to code that imports the other name.
        let versioned = v1alpha3::WorkloadCompositePodGroupSchedulingPolicy::default();
        let block: WorkloadCompositePodGroupSchedulingPolicy = versioned;
        let leaf: k8s_openapi::api::scheduling::v1alpha3::WorkloadPodGroupSchedulingPolicy =
            v1alpha3::WorkloadPodGroupSchedulingPolicy::default();
        assert_eq!(map_composite_group_config(Some(&block), None, None), SchedulingConfig::default());
        assert_eq!(map_pod_group_config(Some(&leaf), None, None, &[]), SchedulingConfig::default());
    }

    // Shows: S004-36
    // Shows: S004-62
    #[test]
    fn both_families_are_mapped_to_the_same_configuration() {
        let gang = |min_count| Some(SchedulingPolicy::Gang { min_count });
        let rack = Some(SchedulingConstraints { topology: vec!["rack".to_owned()] });
        // Policy of a group of pods, of a group of groups, constraints, mode, expected configuration.
        for (case, pods, groups, constraints, mode, want) in [
            ("nothing", json!({}), json!({}), json!({}), json!({}), (None, None, None)),
            ("empty topology", json!({}), json!({}), json!({"topology": []}), json!({}), (None, None, None)),
            (
                "basic and single",
                json!({"basic": {}}),
                json!({"basic": {}}),
                json!({"topology": [{"key": "rack"}]}),
                json!({"single": {}}),
                (Some(SchedulingPolicy::Basic), rack.clone(), Some(DisruptionMode::Single)),
            ),
            (
                "gang and all",
                json!({"gang": {"minCount": 3}}),
                json!({"gang": {"minGroupCount": 3}}),
                json!({}),
                json!({"all": {}}),
                (gang(Some(3)), None, Some(DisruptionMode::All)),
            ),
            (
                "a gang without a count",
                json!({"gang": {}}),
                json!({"gang": {}}),
                json!({}),
                json!({}),
                (gang(None), None, None),
            ),
            (
                "both members, which validation refuses",
                json!({"basic": {}, "gang": {"minCount": 2}}),
                json!({"basic": {}, "gang": {"minGroupCount": 2}}),
                json!({}),
                json!({"single": {}, "all": {}}),
                (Some(SchedulingPolicy::Basic), None, Some(DisruptionMode::Single)),
            ),
        ] {
            let (policy, constraints_want, disruption_mode) = want;
            let want = SchedulingConfig {
                policy,
                constraints: constraints_want,
                disruption_mode,
                ..SchedulingConfig::default()
            };
            fn read<T: DeserializeOwned>(value: &Value) -> T {
                serde_json::from_value(value.clone()).expect("a block")
            }
            let leaf = map_pod_group_config(Some(&read(&pods)), Some(&read(&constraints)), Some(&read(&mode)), &[]);
            assert_eq!(leaf, want, "{case}, pods");
            let composite =
                map_composite_group_config(Some(&read(&groups)), Some(&read(&constraints)), Some(&read(&mode)));
            assert_eq!(composite, want, "{case}, groups");
        }
        let claim = WorkloadPodGroupResourceClaim {
            name: "nic".to_owned(),
            resource_claim_name: Some("shared".to_owned()),
            resource_claim_template_name: None,
        };
        let mapped = map_pod_group_config(None, None, None, std::slice::from_ref(&claim)).resource_claims;
        assert_eq!(mapped, [map_claim(&claim)]);
    }
}

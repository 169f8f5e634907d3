//! The blocks that users write in a controller's own object, named once, and their translation.
//!
//! There are two families, so that each can grow by itself: `WorkloadPodGroup…` for a group of pods and
//! `WorkloadCompositePodGroup…` for a group of groups. A [`TopologyConstraint`] is the same thing at both levels.
//! Both families are translated into one [`SchedulingConfig`], which knows no level.

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

/// The blocks by the names they have in `scheduling.k8s.io/v1alpha3`, the only version that declares them so far.
///
/// When a stable version declares them, its module stands beside this one and this one stays, as aliases of the same
/// types: what is built on the library does not break, and the wire form does not change (KEP-6089, graduation).
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

/// How the groups of a group are admitted. Exactly one member is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkloadCompositePodGroupSchedulingPolicy {
    /// Each by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic: Option<WorkloadCompositePodGroupBasicSchedulingPolicy>,
    /// Enough of them at once, or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gang: Option<WorkloadCompositePodGroupGangSchedulingPolicy>,
}

/// Groups are admitted each by itself. There is nothing to set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadCompositePodGroupBasicSchedulingPolicy {}

/// Enough groups are admitted at once, or none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadCompositePodGroupGangSchedulingPolicy {
    /// How many groups are enough, at least 1; unset, the controller knows a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_group_count: Option<i32>,
}

/// Where the pods of all groups of a group may go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkloadCompositePodGroupSchedulingConstraints {
    /// At most one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<Vec<TopologyConstraint>>,
}

/// How the groups of a group may be disrupted. Exactly one member is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkloadCompositePodGroupDisruptionMode {
    /// Each by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single: Option<WorkloadCompositePodGroupSingleDisruptionMode>,
    /// Only all together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<WorkloadCompositePodGroupAllDisruptionMode>,
}

/// Groups may be disrupted each by itself. There is nothing to set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadCompositePodGroupSingleDisruptionMode {}

/// Groups may be disrupted only all together. There is nothing to set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadCompositePodGroupAllDisruptionMode {}

/// What the user wrote at an item, in the types of the item's level.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Blocks {
    /// Nothing.
    #[default]
    Absent,
    /// The blocks of a group of pods.
    PodGroup(PodGroupBlocks),
    /// The blocks of a group of groups.
    CompositePodGroup(CompositePodGroupBlocks),
}

impl Blocks {
    /// The blocks as a configuration; what is absent is unset.
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
    /// Where the pods may go as a group.
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

/// The blocks of a group of groups. Claims are shared by pods, so a group of groups has none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompositePodGroupBlocks {
    /// Basic or gang.
    pub policy: Option<WorkloadCompositePodGroupSchedulingPolicy>,
    /// Where the pods of all groups may go.
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

/// The blocks of a group of pods as a configuration. A block without content says nothing, so the default survives it;
/// of two policies or modes at once, which validation refuses, the milder one is read.
pub fn map_pod_group_config(
    policy: Option<&WorkloadPodGroupSchedulingPolicy>,
    constraints: Option<&WorkloadPodGroupSchedulingConstraints>,
    disruption_mode: Option<&WorkloadPodGroupDisruptionMode>,
    resource_claims: &[WorkloadPodGroupResourceClaim],
) -> SchedulingConfig {
    SchedulingConfig {
        // The members are named here so that one the API gains later is not passed over: this stops compiling.
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

/// A claim of a block in the form groups have it.
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

    /// Both families, written and read again.
    fn round_trip<T: Serialize + DeserializeOwned>(document: &Value) -> Value {
        let block: T = serde_json::from_value(document.clone()).expect("a block");
        serde_json::to_value(block).expect("JSON")
    }

    // Shows: S004-01
    // Shows: S004-18
    // Shows: S004-27
    // Shows: S004-31
    #[test]
    fn both_families_of_blocks_are_written_alike() {
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
    fn a_block_is_one_type_under_the_name_of_every_version() {
        // A controller that imports the versioned name hands its block to one that imports the other.
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
    fn both_families_are_mapped_to_one_configuration() {
        let gang = |min_count| Some(SchedulingPolicy::Gang { min_count });
        let rack = Some(SchedulingConstraints { topology: vec!["rack".to_owned()] });
        // The policy of a group of pods, of a group of groups, the constraints, the mode; and what comes of them.
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

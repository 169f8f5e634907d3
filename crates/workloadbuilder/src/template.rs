//! A resolved item as a template.

use k8s_openapi::api::scheduling::v1beta1::{
    AllCompositeDisruptionMode, AllDisruptionMode, BasicSchedulingPolicy, CompositeBasicSchedulingPolicy,
    CompositeDisruptionMode, CompositeGangSchedulingPolicy, CompositePodGroupSchedulingConstraints,
    CompositePodGroupSchedulingPolicy, CompositePodGroupTemplate, DisruptionMode as PodGroupDisruptionMode,
    GangSchedulingPolicy, PodGroupSchedulingConstraints, PodGroupSchedulingPolicy, PodGroupTemplate,
    SingleCompositeDisruptionMode, SingleDisruptionMode, TopologyConstraint,
};
use serde_json::{Map, Value};

use crate::item::{DisruptionMode, SchedulingConfig, SchedulingConstraints, SchedulingPolicy};
use crate::tree::ResolvedItem;

/// The templates of sibling nodes: of groups of pods, and of groups of groups.
pub(crate) fn template_lists(
    nodes: &[ResolvedItem<'_>],
) -> (Option<Vec<PodGroupTemplate>>, Option<Vec<CompositePodGroupTemplate>>) {
    let (composites, leaves): (Vec<&ResolvedItem<'_>>, Vec<&ResolvedItem<'_>>) =
        nodes.iter().partition(|node| node.is_composite());
    let leaves = (!leaves.is_empty()).then(|| leaves.into_iter().map(pod_group).collect());
    let composites = (!composites.is_empty()).then(|| composites.into_iter().map(composite_pod_group).collect());
    (leaves, composites)
}

fn pod_group(node: &ResolvedItem<'_>) -> PodGroupTemplate {
    let config = node.config.clone();
    PodGroupTemplate {
        name: node.item.name.clone(),
        scheduling_policy: match gang_count(&config) {
            None => PodGroupSchedulingPolicy { basic: Some(BasicSchedulingPolicy(empty())), gang: None },
            Some(min_count) => PodGroupSchedulingPolicy { basic: None, gang: Some(GangSchedulingPolicy { min_count }) },
        },
        scheduling_constraints: config
            .constraints
            .map(|constraints| PodGroupSchedulingConstraints { topology: Some(topology(constraints)) }),
        disruption_mode: config.disruption_mode.map(|mode| {
            let (single, all) = members(mode);
            PodGroupDisruptionMode { single: single.map(SingleDisruptionMode), all: all.map(AllDisruptionMode) }
        }),
        resource_claims: Some(config.resource_claims).filter(|claims| !claims.is_empty()),
        priority_class_name: config.priority_class_name,
        priority: None,
        preemption_policy: None,
    }
}

fn composite_pod_group(node: &ResolvedItem<'_>) -> CompositePodGroupTemplate {
    let config = node.config.clone();
    let (pod_group_templates, composite_pod_group_templates) = template_lists(&node.children);
    CompositePodGroupTemplate {
        name: node.item.name.clone(),
        scheduling_policy: match gang_count(&config) {
            None => {
                CompositePodGroupSchedulingPolicy { basic: Some(CompositeBasicSchedulingPolicy(empty())), gang: None }
            }
            Some(min_group_count) => CompositePodGroupSchedulingPolicy {
                basic: None,
                gang: Some(CompositeGangSchedulingPolicy { min_group_count }),
            },
        },
        scheduling_constraints: config
            .constraints
            .map(|constraints| CompositePodGroupSchedulingConstraints { topology: Some(topology(constraints)) }),
        disruption_mode: config.disruption_mode.map(|mode| {
            let (single, all) = members(mode);
            let (single, all) = (single.map(SingleCompositeDisruptionMode), all.map(AllCompositeDisruptionMode));
            CompositeDisruptionMode { single, all }
        }),
        priority_class_name: config.priority_class_name,
        priority: None,
        preemption_policy: None,
        pod_group_templates,
        composite_pod_group_templates,
    }
}

/// The count of a gang; `None` is Basic. A validated tree has no gang without a count and no other policy.
fn gang_count(config: &SchedulingConfig) -> Option<i32> {
    match config.policy {
        Some(SchedulingPolicy::Gang { min_count }) => min_count,
        _ => None,
    }
}

fn topology(constraints: SchedulingConstraints) -> Vec<TopologyConstraint> {
    constraints.topology.into_iter().map(|key| TopologyConstraint { key }).collect()
}

/// The members `single` and `all` of a mode. A validated tree has no other mode.
fn members(mode: DisruptionMode) -> (Option<Value>, Option<Value>) {
    let is = |member: DisruptionMode| (mode == member).then(empty);
    (is(DisruptionMode::Single), is(DisruptionMode::All))
}

/// The value of a member that is set and has no fields: `{}`, because null means not set.
fn empty() -> Value {
    Value::Object(Map::new())
}

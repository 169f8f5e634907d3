//! Fields and rules that groups, composites and their templates share.

use k8s_openapi::api::scheduling::v1alpha3::CompositePodGroupSpec;
use k8s_openapi::api::scheduling::v1beta1::{
    CompositePodGroupTemplate, PodGroupResourceClaim, PodGroupSpec, PodGroupTemplate,
};
use workloadbuilder::{format, rules};

use super::MAX_USER_PRIORITY;
use crate::field::{Error, ErrorList, Path};
use crate::gates::{Gate, Gates};

/// The shared fields, from any of the types.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GroupFields<'a> {
    policy: GroupPolicy,
    /// Whether the count of a gang is immutable too.
    policy_frozen: bool,
    /// Keys of the topology constraints.
    constraints: Option<Vec<&'a str>>,
    /// Whether constraints depend on their own gate. Those of composites do not.
    constraints_gated: bool,
    claims: &'a [PodGroupResourceClaim],
    disruption_mode: Option<DisruptionModeMembers>,
    priority_class_name: Option<&'a str>,
    priority: Option<i32>,
    preemption_policy: Option<&'a str>,
}

#[derive(Clone, Debug, PartialEq)]
struct GroupPolicy {
    basic: bool,
    gang: Option<i32>,
    /// The name of the field with the gang's count.
    count: &'static str,
}

/// The set members of a disruption mode.
#[derive(Clone, Copy, Debug, PartialEq)]
struct DisruptionModeMembers {
    single: bool,
    all: bool,
}

macro_rules! group {
    ($type:ty, $count:ident: $name:literal, $(claims: $claims:ident,)? frozen: $frozen:literal, gated: $gated:literal) => {
        impl<'a> From<&'a $type> for GroupFields<'a> {
            fn from(group: &'a $type) -> Self {
                GroupFields {
                    policy: GroupPolicy {
                        basic: group.scheduling_policy.basic.is_some(),
                        gang: group.scheduling_policy.gang.as_ref().map(|gang| gang.$count),
                        count: $name,
                    },
                    policy_frozen: $frozen,
                    constraints: group.scheduling_constraints.as_ref().map(|constraints| {
                        constraints.topology.iter().flatten().map(|constraint| constraint.key.as_str()).collect()
                    }),
                    constraints_gated: $gated,
                    claims: None::<&[PodGroupResourceClaim]>$(.or(group.$claims.as_deref()))?.unwrap_or_default(),
                    disruption_mode: group
                        .disruption_mode
                        .as_ref()
                        .map(|mode| DisruptionModeMembers { single: mode.single.is_some(), all: mode.all.is_some() }),
                    priority_class_name: group.priority_class_name.as_deref(),
                    priority: group.priority,
                    preemption_policy: group.preemption_policy.as_deref(),
                }
            }
        }
    };
}
group!(PodGroupTemplate, min_count: "minCount", claims: resource_claims, frozen: false, gated: true);
group!(PodGroupSpec, min_count: "minCount", claims: resource_claims, frozen: false, gated: true);
group!(CompositePodGroupTemplate, min_group_count: "minGroupCount", frozen: false, gated: false);
group!(CompositePodGroupSpec, min_group_count: "minGroupCount", frozen: true, gated: false);

/// The declared rules for the shared fields. `old` is the group before an update.
pub(super) fn validate_declarative(
    path: &Path,
    new: &GroupFields<'_>,
    old: Option<&GroupFields<'_>>,
    gates: &Gates,
) -> ErrorList {
    let policy_path = path.child("schedulingPolicy");
    let mut errors = match old {
        Some(old) if new.policy_frozen => {
            validate_immutable(&policy_path, Some(old.policy == new.policy), ErrorList::new)
        }
        old => policy(&policy_path, &new.policy, old.map(|old| &old.policy)),
    };
    errors.extend(constraints(&path.child("schedulingConstraints"), new, old, gates));

    let claims_path = path.child("resourceClaims");
    let claims_unchanged = old.map(|old| old.claims == new.claims);
    errors.extend(validate_immutable(&claims_path, claims_unchanged, || {
        rules::validate_claims(&claims_path, new.claims)
    }));
    // Too many claims are reported even if the list is immutable.
    if claims_unchanged == Some(false) && new.claims.len() > rules::MAX_CLAIMS {
        errors.push(Error::too_many(&claims_path, new.claims.len(), rules::MAX_CLAIMS));
    }

    let mode_path = path.child("disruptionMode");
    let mode_kept = old.map(|old| old.disruption_mode == new.disruption_mode);
    errors.extend(validate_immutable(&mode_path, mode_kept, || {
        let members = new.disruption_mode.map(|mode| [("single", mode.single), ("all", mode.all)]);
        members.and_then(|members| rules::exactly_one(&mode_path, &members)).into_iter().collect()
    }));

    let class_path = path.child("priorityClassName");
    let class_kept = old.map(|old| old.priority_class_name == new.priority_class_name);
    errors.extend(validate_immutable(&class_path, class_kept, || {
        let name = new.priority_class_name.into_iter();
        name.flat_map(|name| rules::validate_format(&class_path, name, format::subdomain)).collect()
    }));

    let priority_path = path.child("priority");
    let priority_kept = old.map(|old| old.priority == new.priority);
    errors.extend(validate_immutable(&priority_path, priority_kept, || {
        let priority = new.priority.into_iter();
        priority.filter_map(|priority| rules::at_most(&priority_path, priority, MAX_USER_PRIORITY.into())).collect()
    }));

    errors.extend(preemption_policy(&path.child("preemptionPolicy"), new, old, gates));
    errors
}

/// An immutable field: validated at creation, compared afterwards. `is_unchanged` is `None` at creation.
fn validate_immutable(path: &Path, is_unchanged: Option<bool>, validate: impl FnOnce() -> ErrorList) -> ErrorList {
    match is_unchanged {
        None => validate(),
        Some(true) => ErrorList::new(),
        Some(false) => vec![rules::immutable(path)],
    }
}

/// Exactly one policy, which is immutable. The count of a gang may change.
fn policy(path: &Path, new: &GroupPolicy, old: Option<&GroupPolicy>) -> ErrorList {
    let members = |policy: &GroupPolicy| [("basic", policy.basic), ("gang", policy.gang.is_some())];
    let mut errors = ErrorList::new();
    if old.map(members) != Some(members(new)) {
        errors.extend(rules::exactly_one(path, &members(new)));
    }
    if old.is_some_and(|old| old.basic != new.basic) {
        errors.push(rules::immutable(&path.child("basic")));
    }
    let gang_path = path.child("gang");
    if let Some(refused) =
        old.and_then(|old| rules::presence_unchanged(&gang_path, new.gang.is_some(), old.gang.is_some()))
    {
        errors.push(refused);
    } else if let Some(count) = new.gang.filter(|count| old.and_then(|old| old.gang) != Some(*count)) {
        let path = gang_path.child(new.count);
        errors.extend(if count == 0 { Some(Error::required(&path, "")) } else { rules::at_least(&path, count, 1) });
    }
    errors
}

/// Constraints are immutable. While their gate is off, those of a group may be removed.
fn constraints(path: &Path, new: &GroupFields<'_>, old: Option<&GroupFields<'_>>, gates: &Gates) -> ErrorList {
    let unchanged = old.is_some_and(|old| old.constraints == new.constraints);
    if unchanged {
        return ErrorList::new();
    }
    if new.constraints_gated && !gates.enabled(Gate::TopologyAwareWorkloadScheduling) {
        return new.constraints.iter().map(|_| Error::forbidden(path, "")).collect();
    }
    if old.is_some() {
        return vec![rules::immutable(path)];
    }
    let keys = new.constraints.as_deref().unwrap_or_default();
    rules::validate_topology(&path.child("topology"), keys.iter().copied())
}

fn preemption_policy(path: &Path, new: &GroupFields<'_>, old: Option<&GroupFields<'_>>, gates: &Gates) -> ErrorList {
    let mut errors = ErrorList::new();
    let unchanged = old.is_some_and(|old| old.preemption_policy == new.preemption_policy);
    if unchanged {
        return errors;
    }
    if new.preemption_policy.is_some() && !gates.enabled(Gate::PodGroupPreemptionPolicy) {
        errors.push(Error::forbidden(path, ""));
    }
    if old.is_some() {
        errors.push(rules::immutable(path));
    }
    let supported = ["Never", "PreemptLowerPriority"];
    if let Some(policy) = new.preemption_policy.filter(|policy| errors.is_empty() && !supported.contains(policy)) {
        errors.push(Error::not_supported(path, policy, &supported));
    }
    errors
}

//! What is refused, before anything is built.
//!
//! Two halves, because an API server reports them apart: the blocks on their own (form), and the configuration that
//! comes of them (sense). [`Builder::validate`](crate::Builder::validate) runs both.

use k8s_openapi::api::scheduling::v1alpha3::{
    WorkloadPodGroupDisruptionMode, WorkloadPodGroupResourceClaim, WorkloadPodGroupSchedulingConstraints,
    WorkloadPodGroupSchedulingPolicy,
};

use crate::field::{Error, ErrorList, Path};
use crate::item::{
    Blocks, DisruptionMode, DisruptionModeKind, PodGroupBlocks, PolicyKind, SchedulingConfig, WorkloadItem, claim,
};
use crate::rules;

/// The form of what the user wrote at `item`. A block that already stood there in `old` is not judged again.
pub fn blocks(item: &WorkloadItem, old: Option<&WorkloadItem>) -> ErrorList {
    let Blocks::PodGroup(new) = &item.input else { return ErrorList::new() };
    let nothing = PodGroupBlocks::default();
    let old = match old.map(|old| &old.input) {
        Some(Blocks::PodGroup(old)) => old,
        _ => &nothing,
    };
    let mut errors = ErrorList::new();
    if let Some(policy) = &new.policy {
        errors.extend(policy_block(&item.fields.policy, policy, old.policy.as_ref()));
    }
    if let Some(constraints) = new.constraints.as_ref().filter(|_| new.constraints != old.constraints) {
        errors.extend(constraints_block(&item.fields.constraints, constraints));
    }
    if let Some(mode) = &new.disruption_mode {
        errors.extend(disruption_mode_block(&item.fields.disruption_mode, mode, old.disruption_mode.as_ref()));
    }
    if let Some(claims) = new.resource_claims.as_ref().filter(|_| new.resource_claims != old.resource_claims) {
        errors.extend(resource_claims_block(&item.fields.resource_claims, claims));
    }
    errors
}

/// A policy: exactly one member, and a count of at least one where there is a count.
pub fn policy_block(
    path: &Path,
    new: &WorkloadPodGroupSchedulingPolicy,
    old: Option<&WorkloadPodGroupSchedulingPolicy>,
) -> ErrorList {
    let members = |policy: &WorkloadPodGroupSchedulingPolicy| {
        [("basic", policy.basic.is_some()), ("gang", policy.gang.is_some())]
    };
    let mut errors = ErrorList::new();
    if old.map(members) != Some(members(new)) {
        errors.extend(rules::exactly_one(path, &members(new)));
    }
    let old_gang = old.and_then(|old| old.gang.as_ref());
    if let Some(gang) = new.gang.as_ref().filter(|gang| Some(*gang) != old_gang) {
        let path = path.child("gang").child("minCount");
        errors.extend(gang.min_count.and_then(|count| rules::at_least(&path, count, 1)));
    }
    errors
}

/// Constraints: at most one topology key, written as a label key.
pub fn constraints_block(path: &Path, block: &WorkloadPodGroupSchedulingConstraints) -> ErrorList {
    let topology = block.topology.as_deref().unwrap_or_default();
    rules::topology(&path.child("topology"), topology.iter().map(|constraint| constraint.key.as_str()))
}

/// A disruption mode: exactly one member.
pub fn disruption_mode_block(
    path: &Path,
    new: &WorkloadPodGroupDisruptionMode,
    old: Option<&WorkloadPodGroupDisruptionMode>,
) -> Option<Error> {
    let members =
        |mode: &WorkloadPodGroupDisruptionMode| [("single", mode.single.is_some()), ("all", mode.all.is_some())];
    if old.map(members) == Some(members(new)) { None } else { rules::exactly_one(path, &members(new)) }
}

/// Claims: at most four, names unique, each with exactly one source.
pub fn resource_claims_block(path: &Path, block: &[WorkloadPodGroupResourceClaim]) -> ErrorList {
    rules::claims(path, &block.iter().map(claim).collect::<Vec<_>>())
}

/// The sense of what comes of `item`: policy and mode are among those allowed, and go together.
pub fn resolved(item: &WorkloadItem, policies: &[PolicyKind], modes: &[DisruptionModeKind]) -> ErrorList {
    let config = item.resolve();
    let mut errors = ErrorList::new();
    errors.extend(allowed_policy(&item.fields.policy, &config, policies));
    errors.extend(allowed_disruption_mode(&item.fields.disruption_mode, &config, modes));
    if config.policy_kind() == PolicyKind::Basic && config.disruption_mode == Some(DisruptionMode::All) {
        errors.push(Error::invalid(
            &item.fields.disruption_mode,
            "",
            "the disruptionMode `all` is not supported with the Basic scheduling policy",
        ));
    }
    errors
}

/// The policy is one that the controller has listed; an empty list allows none.
pub fn allowed_policy(path: &Path, config: &SchedulingConfig, allowed: &[PolicyKind]) -> Option<Error> {
    let kind = config.policy_kind();
    (!allowed.contains(&kind)).then(|| Error::forbidden(path, format!("the {kind:?} scheduling policy is not allowed")))
}

/// The mode, if there is one, is one that the controller has listed; an empty list allows none.
pub fn allowed_disruption_mode(
    path: &Path,
    config: &SchedulingConfig,
    allowed: &[DisruptionModeKind],
) -> Option<Error> {
    let mode = config.disruption_mode.filter(|mode| !allowed.contains(mode))?;
    let name = match mode {
        DisruptionMode::Single => "single",
        DisruptionMode::All => "all",
    };
    Some(Error::forbidden(path, format!("the disruptionMode `{name}` is not allowed")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::field::{ErrorList, Path};
    use crate::item::{
        Blocks, DisruptionMode, PodGroupBlocks, PolicyKind, SchedulingConfig, SchedulingPolicy, WorkloadItem,
    };

    fn item(blocks: Value) -> WorkloadItem {
        fn block<T: serde::de::DeserializeOwned>(blocks: &Value, name: &str) -> Option<T> {
            blocks.get(name).map(|block| serde_json::from_value(block.clone()).expect("a block"))
        }
        let input = Blocks::PodGroup(PodGroupBlocks {
            policy: block(&blocks, "policy"),
            constraints: block(&blocks, "constraints"),
            disruption_mode: block(&blocks, "mode"),
            resource_claims: block(&blocks, "claims"),
        });
        WorkloadItem { input, ..WorkloadItem::new("workers", Path::new("spec")) }
    }

    fn render(errors: &ErrorList) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_block_is_judged_by_its_form() {
        let one_of = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
        let claim = |name: &str| json!({"name": name, "resourceClaimName": "c"});
        for (blocks, wants) in [
            (json!({"policy": {"gang": {}}, "mode": {"all": {}}, "constraints": {}, "claims": []}), vec![]),
            (json!({"policy": {"gang": {"minCount": 1}}, "mode": {"single": {}}, "claims": [claim("a")]}), vec![]),
            (
                json!({"policy": {}}),
                vec!["spec.schedulingPolicy: Invalid value: \"\": must specify one of: `basic`, `gang`"],
            ),
            (
                json!({"policy": {"basic": {}, "gang": {"minCount": 0}}}),
                vec![
                    "spec.schedulingPolicy: Invalid value: \"{basic, gang}\": must specify exactly one of: `basic`, `gang`",
                    "spec.schedulingPolicy.gang.minCount: Invalid value: 0: must be greater than or equal to 1",
                ],
            ),
            (
                json!({"constraints": {"topology": [{"key": ""}]}}),
                vec!["spec.schedulingConstraints.topology[0].key: Required value"],
            ),
            (
                json!({"constraints": {"topology": [{"key": "a"}, {"key": ""}]}}),
                vec!["spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"],
            ),
            (
                json!({"mode": {}}),
                vec!["spec.disruptionMode: Invalid value: \"\": must specify one of: `single`, `all`"],
            ),
            (
                json!({"claims": [claim("a"), claim("b"), claim("c"), claim("d"), claim("e")]}),
                vec!["spec.resourceClaims: Too many: 5: must have at most 4 items"],
            ),
            (
                json!({"claims": [claim("a"), claim("a"), {"name": ""}]}),
                vec![
                    "spec.resourceClaims[1]: Duplicate value: {\"name\":\"a\",\"resourceClaimName\":\"c\"}",
                    &format!("spec.resourceClaims[2]: Invalid value: \"\": {one_of}"),
                    "spec.resourceClaims[2].name: Required value",
                ],
            ),
        ] {
            assert_eq!(render(&super::blocks(&item(blocks.clone()), None)), wants, "{blocks}");
        }
    }

    #[test]
    fn what_stood_there_before_is_not_judged_again() {
        let old = item(json!({"policy": {}, "mode": {}, "constraints": {"topology": [{"key": ""}]}}));
        assert_eq!(render(&super::blocks(&old.clone(), Some(&old))), Vec::<String>::new());
        let new = item(json!({"policy": {"gang": {"minCount": -1}}, "mode": {}}));
        assert_eq!(
            render(&super::blocks(&new, Some(&old))),
            ["spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1"]
        );
    }

    #[test]
    fn only_what_the_controller_lists_is_allowed() {
        let gang_all = item(json!({"policy": {"gang": {"minCount": 2}}, "mode": {"all": {}}}));
        let no_blocks = item(json!({}));
        let (basic, gang) = (PolicyKind::Basic, PolicyKind::Gang);
        let (single, all) = (DisruptionMode::Single, DisruptionMode::All);
        assert_eq!(render(&super::resolved(&gang_all, &[basic, gang], &[single, all])), Vec::<String>::new());
        assert_eq!(
            render(&super::resolved(&gang_all, &[basic], &[single])),
            [
                "spec.schedulingPolicy: Forbidden: the Gang scheduling policy is not allowed",
                "spec.disruptionMode: Forbidden: the disruptionMode `all` is not allowed",
            ]
        );
        // A list that was left empty allows nothing, not even what holds by default.
        assert_eq!(
            render(&super::resolved(&no_blocks, &[], &[])),
            ["spec.schedulingPolicy: Forbidden: the Basic scheduling policy is not allowed"]
        );
    }

    #[test]
    fn pods_that_are_placed_one_by_one_cannot_be_disrupted_only_together() {
        let (policies, modes) = ([PolicyKind::Basic, PolicyKind::Gang], [DisruptionMode::Single, DisruptionMode::All]);
        let refused = "spec.disruptionMode: Invalid value: \"\": \
                       the disruptionMode `all` is not supported with the Basic scheduling policy";
        for blocks in [json!({"policy": {"basic": {}}, "mode": {"all": {}}}), json!({"mode": {"all": {}}})] {
            assert_eq!(render(&super::resolved(&item(blocks), &policies, &modes)), [refused]);
        }
        let mut gang_by_default = item(json!({"mode": {"all": {}}}));
        gang_by_default.default_config = SchedulingConfig {
            policy: Some(SchedulingPolicy::Gang { min_count: Some(2) }),
            ..SchedulingConfig::default()
        };
        assert_eq!(render(&super::resolved(&gang_by_default, &policies, &modes)), Vec::<String>::new());
    }
}

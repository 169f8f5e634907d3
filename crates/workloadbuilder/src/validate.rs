//! Errors in items, found before anything is built.
//!
//! There are two steps, because an API server reports them separately: the user's blocks, and the resolved
//! configuration. [`Builder::validate`](crate::Builder::validate) runs both.

use crate::blocks::{
    Blocks, CompositePodGroupBlocks, PodGroupBlocks, TopologyConstraint, WorkloadCompositePodGroupDisruptionMode,
    WorkloadCompositePodGroupSchedulingConstraints, WorkloadCompositePodGroupSchedulingPolicy,
    WorkloadPodGroupDisruptionMode, WorkloadPodGroupResourceClaim, WorkloadPodGroupSchedulingConstraints,
    WorkloadPodGroupSchedulingPolicy, map_claim,
};
use crate::field::{Error, ErrorList, Path};
use crate::item::{DisruptionMode, DisruptionModeKind, FieldPaths, PolicyKind, SchedulingConfig, WorkloadItem};
use crate::rules;
use crate::tree::ResolvedItem;

/// Validates the user's blocks of `items` and of all items below. Old items are found by name on the same level: an
/// item that has moved is new.
pub(crate) fn all_blocks(items: &[WorkloadItem], old: &[WorkloadItem]) -> ErrorList {
    let mut errors = ErrorList::new();
    for item in items {
        let old = old.iter().find(|old| old.name == item.name);
        errors.extend(blocks(item, old));
        errors.extend(all_blocks(&item.children, old.map_or(&[], |old| &old.children)));
    }
    errors
}

/// Validates the user's blocks of `item`. A block that `old` has too is not validated again.
pub fn blocks(item: &WorkloadItem, old: Option<&WorkloadItem>) -> ErrorList {
    match (&item.input, old.map(|old| &old.input)) {
        (Blocks::Absent, _) => ErrorList::new(),
        (Blocks::PodGroup(new), Some(Blocks::PodGroup(old))) => pod_group_blocks(&item.fields, new, old),
        (Blocks::PodGroup(new), _) => pod_group_blocks(&item.fields, new, &PodGroupBlocks::default()),
        (Blocks::CompositePodGroup(new), Some(Blocks::CompositePodGroup(old))) => {
            composite_blocks(&item.fields, new, old)
        }
        (Blocks::CompositePodGroup(new), _) => composite_blocks(&item.fields, new, &CompositePodGroupBlocks::default()),
    }
}

fn pod_group_blocks(fields: &FieldPaths, new: &PodGroupBlocks, old: &PodGroupBlocks) -> ErrorList {
    let mut errors = ErrorList::new();
    if let Some(policy) = &new.policy {
        errors.extend(policy_block(&fields.policy, policy, old.policy.as_ref()));
    }
    if let Some(constraints) = new.constraints.as_ref().filter(|_| new.constraints != old.constraints) {
        errors.extend(constraints_block(&fields.constraints, constraints));
    }
    if let Some(mode) = &new.disruption_mode {
        errors.extend(disruption_mode_block(&fields.disruption_mode, mode, old.disruption_mode.as_ref()));
    }
    if let Some(claims) = &new.resource_claims {
        let old = old.resource_claims.as_deref();
        errors.extend(resource_claims_block(&fields.resource_claims, claims, old));
    }
    errors
}

fn composite_blocks(fields: &FieldPaths, new: &CompositePodGroupBlocks, old: &CompositePodGroupBlocks) -> ErrorList {
    let mut errors = ErrorList::new();
    if let Some(policy) = &new.policy {
        errors.extend(composite_policy_block(&fields.policy, policy, old.policy.as_ref()));
    }
    if let Some(constraints) = new.constraints.as_ref().filter(|_| new.constraints != old.constraints) {
        errors.extend(composite_constraints_block(&fields.constraints, constraints));
    }
    if let Some(mode) = &new.disruption_mode {
        errors.extend(composite_disruption_mode_block(&fields.disruption_mode, mode, old.disruption_mode.as_ref()));
    }
    errors
}

/// Validates a policy of a group of pods: exactly one member, and a count of at least 1 if there is one.
pub fn policy_block(
    path: &Path,
    new: &WorkloadPodGroupSchedulingPolicy,
    old: Option<&WorkloadPodGroupSchedulingPolicy>,
) -> ErrorList {
    let policy = |block: &WorkloadPodGroupSchedulingPolicy| PolicyChoice {
        basic: block.basic.is_some(),
        gang: block.gang.as_ref().map(|gang| gang.min_count),
    };
    policy_members(path, &policy(new), old.map(policy).as_ref(), "minCount")
}

/// Validates a policy of a group of groups by the rules of [`policy_block`].
pub fn composite_policy_block(
    path: &Path,
    new: &WorkloadCompositePodGroupSchedulingPolicy,
    old: Option<&WorkloadCompositePodGroupSchedulingPolicy>,
) -> ErrorList {
    let policy = |block: &WorkloadCompositePodGroupSchedulingPolicy| PolicyChoice {
        basic: block.basic.is_some(),
        gang: block.gang.as_ref().map(|gang| gang.min_group_count),
    };
    policy_members(path, &policy(new), old.map(policy).as_ref(), "minGroupCount")
}

/// The policy of a block of either level.
#[derive(PartialEq)]
struct PolicyChoice {
    basic: bool,
    gang: Option<Option<i32>>,
}

fn policy_members(path: &Path, new: &PolicyChoice, old: Option<&PolicyChoice>, count: &str) -> ErrorList {
    let members = |policy: &PolicyChoice| [("basic", policy.basic), ("gang", policy.gang.is_some())];
    let mut errors = ErrorList::new();
    if old.map(members) != Some(members(new)) {
        errors.extend(rules::exactly_one(path, &members(new)));
    }
    if new.gang != old.and_then(|old| old.gang) {
        let path = path.child("gang").child(count);
        errors.extend(new.gang.flatten().and_then(|count| rules::at_least(&path, count, 1)));
    }
    errors
}

/// Validates the constraints of a group of pods: at most one topology key, in the format of a label key.
pub fn constraints_block(path: &Path, block: &WorkloadPodGroupSchedulingConstraints) -> ErrorList {
    topology(path, block.topology.as_deref())
}

/// Validates the constraints of a group of groups by the rules of [`constraints_block`].
pub fn composite_constraints_block(path: &Path, block: &WorkloadCompositePodGroupSchedulingConstraints) -> ErrorList {
    topology(path, block.topology.as_deref())
}

fn topology(path: &Path, topology: Option<&[TopologyConstraint]>) -> ErrorList {
    let keys = topology.unwrap_or_default().iter().map(|constraint| constraint.key.as_str());
    rules::validate_topology(&path.child("topology"), keys)
}

/// Validates a disruption mode of a group of pods: exactly one member.
pub fn disruption_mode_block(
    path: &Path,
    new: &WorkloadPodGroupDisruptionMode,
    old: Option<&WorkloadPodGroupDisruptionMode>,
) -> Option<Error> {
    let members = |mode: &WorkloadPodGroupDisruptionMode| (mode.single.is_some(), mode.all.is_some());
    mode_members(path, members(new), old.map(members))
}

/// Validates a disruption mode of a group of groups by the rule of [`disruption_mode_block`].
pub fn composite_disruption_mode_block(
    path: &Path,
    new: &WorkloadCompositePodGroupDisruptionMode,
    old: Option<&WorkloadCompositePodGroupDisruptionMode>,
) -> Option<Error> {
    let members = |mode: &WorkloadCompositePodGroupDisruptionMode| (mode.single.is_some(), mode.all.is_some());
    mode_members(path, members(new), old.map(members))
}

fn mode_members(path: &Path, new: (bool, bool), old: Option<(bool, bool)>) -> Option<Error> {
    let (single, all) = new;
    if old == Some(new) { None } else { rules::exactly_one(path, &[("single", single), ("all", all)]) }
}

/// Validates claims: at most four, unique names, exactly one source each. A claim that `old` has too, at any index, is
/// not validated again.
pub fn resource_claims_block(
    path: &Path,
    new: &[WorkloadPodGroupResourceClaim],
    old: Option<&[WorkloadPodGroupResourceClaim]>,
) -> ErrorList {
    if old == Some(new) {
        return ErrorList::new();
    }
    let is_old = |i: usize| old.is_some_and(|old| old.contains(&new[i]));
    let errors = rules::validate_claims(path, &new.iter().map(map_claim).collect::<Vec<_>>());
    let about_old = |error: &Error| {
        (0..new.len()).filter(|i| is_old(*i)).any(|i| {
            let (claim, field) = (path.index(i), error.path.as_str());
            let inside =
                field.strip_prefix(claim.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            inside && error.kind != crate::field::ErrorKind::Duplicate
        })
    };
    errors.into_iter().filter(|error| !about_old(error)).collect()
}

/// Validates the resolved configurations of `item` and of all items below. Policies and modes must be allowed, and
/// compatible within an item and with the items above it.
pub fn resolved(item: &WorkloadItem, policies: &[PolicyKind], modes: &[DisruptionModeKind]) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_item_semantics(&ResolvedItem::resolve(item), None, policies, modes, &mut errors);
    errors
}

/// `above` is the nearest item above with the disruption mode `all`.
fn validate_item_semantics(
    node: &ResolvedItem<'_>,
    above: Option<&WorkloadItem>,
    policies: &[PolicyKind],
    modes: &[DisruptionModeKind],
    errors: &mut ErrorList,
) {
    let (fields, config) = (&node.item.fields, &node.config);
    errors.extend(allowed_policy(&fields.policy, config, policies));
    errors.extend(allowed_disruption_mode(&fields.disruption_mode, config, modes));
    let is_all = config.disruption_mode == Some(DisruptionMode::All);
    if config.policy_kind() == PolicyKind::Basic && is_all {
        errors.push(Error::invalid(
            &fields.disruption_mode,
            "",
            "the disruptionMode `all` is not supported with the Basic scheduling policy",
        ));
    }
    // Upstream: not checked, and the scheduler ignores the mode of the item below.
    if let Some(above) = above.filter(|_| config.disruption_mode == Some(DisruptionMode::Single)) {
        let detail = format!(
            "the disruptionMode `single` is not supported below {}, which is `all`: remove it here, or set `single` there",
            above.fields.disruption_mode
        );
        errors.push(Error::invalid(&fields.disruption_mode, "", detail));
    }
    let above = if is_all { Some(node.item) } else { above };
    for child in &node.children {
        validate_item_semantics(child, above, policies, modes, errors);
    }
}

/// Checks that the controller lists the policy. An empty list allows none.
pub fn allowed_policy(path: &Path, config: &SchedulingConfig, allowed: &[PolicyKind]) -> Option<Error> {
    let kind = config.policy_kind();
    let detail = || format!("the {} scheduling policy is not allowed", kind.name());
    (!allowed.contains(&kind)).then(|| Error::forbidden(path, detail()))
}

/// Checks that the controller lists the mode, if there is one. An empty list allows none.
pub fn allowed_disruption_mode(
    path: &Path,
    config: &SchedulingConfig,
    allowed: &[DisruptionModeKind],
) -> Option<Error> {
    let mode = config.disruption_mode.filter(|mode| !allowed.contains(mode))?;
    Some(Error::forbidden(path, format!("the disruptionMode `{}` is not allowed", mode.name())))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use std::sync::Arc;

    use crate::blocks::{Blocks, CompositePodGroupBlocks, PodGroupBlocks};
    use crate::build::{BuildOptions, Builder};
    use crate::field::{ErrorList, Path};
    use crate::item::{DisruptionMode, FieldPaths, PolicyKind, SchedulingConfig, SchedulingPolicy, WorkloadItem};

    const POLICIES: [PolicyKind; 2] = [PolicyKind::Basic, PolicyKind::Gang];
    const MODES: [DisruptionMode; 2] = [DisruptionMode::Single, DisruptionMode::All];

    fn block<T: serde::de::DeserializeOwned>(blocks: &Value, name: &str) -> Option<T> {
        blocks.get(name).map(|block| serde_json::from_value(block.clone()).expect("a block"))
    }

    fn composite(blocks: Value, children: Vec<WorkloadItem>) -> WorkloadItem {
        let input = Blocks::CompositePodGroup(CompositePodGroupBlocks {
            policy: block(&blocks, "policy"),
            constraints: block(&blocks, "constraints"),
            disruption_mode: block(&blocks, "mode"),
        });
        WorkloadItem { input, children, ..WorkloadItem::new("set", Path::new("spec").child("whole")) }
    }

    fn item(blocks: Value) -> WorkloadItem {
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

    // Shows: S004-28
    // Shows: S004-29
    // Shows: S004-30
    // Shows: U-builder
    #[test]
    fn each_block_is_validated() {
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
    fn unchanged_blocks_are_not_validated_again() {
        let old = item(json!({"policy": {}, "mode": {}, "constraints": {"topology": [{"key": ""}]}}));
        assert_eq!(render(&super::blocks(&old.clone(), Some(&old))), Vec::<String>::new());
        let new = item(json!({"policy": {"gang": {"minCount": -1}}, "mode": {}}));
        assert_eq!(
            render(&super::blocks(&new, Some(&old))),
            ["spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1"]
        );
    }

    #[test]
    fn blocks_of_a_group_of_groups_are_validated_by_the_same_rules() {
        for (blocks, wants) in [
            (json!({"policy": {"gang": {}}, "mode": {"all": {}}, "constraints": {}}), vec![]),
            (
                json!({"policy": {}, "mode": {"single": {}, "all": {}}}),
                vec![
                    "spec.whole.schedulingPolicy: Invalid value: \"\": must specify one of: `basic`, `gang`",
                    "spec.whole.disruptionMode: Invalid value: \"{single, all}\": must specify exactly one of: `single`, `all`",
                ],
            ),
            (
                json!({"policy": {"gang": {"minGroupCount": 0}}, "constraints": {"topology": [{"key": "-"}, {"key": "b"}]}}),
                vec![
                    "spec.whole.schedulingPolicy.gang.minGroupCount: Invalid value: 0: must be greater than or equal to 1",
                    "spec.whole.schedulingConstraints.topology: Too many: 2: must have at most 1 item",
                ],
            ),
        ] {
            assert_eq!(render(&super::blocks(&composite(blocks.clone(), vec![]), None)), wants, "{blocks}");
        }
    }

    #[test]
    fn old_items_are_found_by_name_on_the_same_level() {
        let bad = json!({"policy": {}});
        let named = |name: &str| WorkloadItem { name: name.to_owned(), ..item(bad.clone()) };
        let old = composite(bad.clone(), vec![named("driver"), named("workers")]);
        let error_count = |new: WorkloadItem, old: &WorkloadItem| {
            Builder::new(new, BuildOptions::default()).validate_blocks(Some(std::slice::from_ref(old))).len()
        };
        assert_eq!(error_count(old.clone(), &old), 0, "no change");
        assert_eq!(error_count(composite(bad.clone(), vec![named("workers"), named("driver")]), &old), 0, "new order");
        assert_eq!(error_count(composite(bad.clone(), vec![named("driver"), named("evaluator")]), &old), 1, "new item");
        let moved = WorkloadItem { name: "inner".to_owned(), ..composite(json!({}), vec![named("workers")]) };
        assert_eq!(error_count(composite(bad.clone(), vec![moved]), &old), 1, "a moved item is new");
        let renamed = WorkloadItem { name: "other".to_owned(), ..old.clone() };
        let errors = Builder::new(renamed, BuildOptions::default()).validate_blocks(Some(&[old]));
        assert_eq!(render(&errors), ["spec.whole: Internal error: the old item has a different name"]);
    }

    #[test]
    fn unchanged_claim_is_not_validated_again() {
        let bad = json!({"name": "a"});
        let good = json!({"name": "b", "resourceClaimName": "c"});
        let old = item(json!({"claims": [bad]}));
        let errors = super::blocks(&item(json!({"claims": [good, bad]})), Some(&old));
        assert_eq!(render(&errors), Vec::<String>::new());
        let errors = super::blocks(&item(json!({"claims": [good, bad, {"name": "z"}]})), Some(&old));
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].path.as_str(), "spec.resourceClaims[2]");
    }

    // Shows: S004-06
    #[test]
    fn errors_name_the_fields_of_the_controllers_resource() {
        let mut item = item(json!({"policy": {}, "mode": {"all": {}}}));
        item.fields = FieldPaths {
            policy: Path::new("spec").child("gangs").index(3).child("start"),
            disruption_mode: Path::new("spec").child("eviction"),
            ..FieldPaths::default()
        };
        let builder = Builder::new(
            item,
            BuildOptions {
                allowed_policies: POLICIES.to_vec(),
                allowed_disruption_modes: MODES.to_vec(),
                ..BuildOptions::default()
            },
        );
        let errors = builder.validate(None);
        let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(paths, ["spec.gangs[3].start", "spec.eviction"]);
    }

    // Shows: S004-40
    #[test]
    fn mode_single_is_refused_below_mode_all() {
        let gang = json!({"policy": {"gang": {"minCount": 1, "minGroupCount": 1}}});
        let with_mode = |mode: Value| {
            let mut blocks = gang.clone();
            blocks["mode"] = mode;
            blocks
        };
        let (single, all) = (json!({"single": {}}), json!({"all": {}}));
        let below = |mode: Value| {
            let inner =
                WorkloadItem { name: "inner".to_owned(), ..composite(gang.clone(), vec![item(with_mode(mode))]) };
            vec![inner]
        };
        let refused = "spec.disruptionMode: Invalid value: \"\": the disruptionMode `single` is not supported below \
                       spec.whole.disruptionMode, which is `all`: remove it here, or set `single` there";
        // The modes of the root and of the leaf two levels below it, and the expected errors.
        for (case, root, wants) in [
            ("single below all", composite(with_mode(all.clone()), below(single.clone())), vec![refused]),
            ("all below all", composite(with_mode(all.clone()), below(all.clone())), vec![]),
            ("nothing below all", composite(with_mode(all.clone()), vec![item(gang.clone())]), vec![]),
            ("all below single", composite(with_mode(single.clone()), below(all)), vec![]),
            ("single below single", composite(with_mode(single.clone()), below(single)), vec![]),
        ] {
            assert_eq!(render(&super::resolved(&root, &POLICIES, &MODES)), wants, "{case}");
        }
    }

    // Shows: S004-43
    #[test]
    fn unlisted_policy_or_mode_is_refused_at_every_level() {
        // As if the API had gained them. The source (user, default, callback) does not matter.
        let novel = |blocks: Value| WorkloadItem {
            callbacks: vec![Arc::new(|config: &mut SchedulingConfig| {
                config.policy = Some(SchedulingPolicy::Other("Elastic"));
                config.disruption_mode = Some(DisruptionMode::Other("rolling"));
            })],
            ..item(blocks)
        };
        let root = WorkloadItem { children: vec![novel(json!({}))], ..composite(json!({}), vec![]) };
        let root = WorkloadItem { callbacks: novel(json!({})).callbacks, ..root };
        let of = |path: &str| {
            [
                format!("{path}.schedulingPolicy: Forbidden: the Elastic scheduling policy is not allowed"),
                format!("{path}.disruptionMode: Forbidden: the disruptionMode `rolling` is not allowed"),
            ]
        };
        let errors = super::resolved(&root, &POLICIES, &MODES);
        assert_eq!(render(&errors), [of("spec.whole"), of("spec")].concat());
        let policies = [POLICIES.as_slice(), &[PolicyKind::Other("Elastic")]].concat();
        let modes = [MODES.as_slice(), &[DisruptionMode::Other("rolling")]].concat();
        assert_eq!(super::resolved(&root, &policies, &modes), vec![], "a controller that lists them accepts them");
    }

    // Shows: S004-41
    // Shows: S004-42
    #[test]
    fn only_listed_policies_and_modes_are_allowed() {
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
        // An empty list allows nothing, not even the default.
        assert_eq!(
            render(&super::resolved(&no_blocks, &[], &[])),
            ["spec.schedulingPolicy: Forbidden: the Basic scheduling policy is not allowed"]
        );
    }

    #[test]
    fn mode_all_is_refused_for_basic_groups() {
        let refused = "spec.disruptionMode: Invalid value: \"\": \
                       the disruptionMode `all` is not supported with the Basic scheduling policy";
        for blocks in [json!({"policy": {"basic": {}}, "mode": {"all": {}}}), json!({"mode": {"all": {}}})] {
            assert_eq!(render(&super::resolved(&item(blocks), &POLICIES, &MODES)), [refused]);
        }
        let mut gang_by_default = item(json!({"mode": {"all": {}}}));
        gang_by_default.default_config = SchedulingConfig {
            policy: Some(SchedulingPolicy::Gang { min_count: Some(2) }),
            ..SchedulingConfig::default()
        };
        assert_eq!(render(&super::resolved(&gang_by_default, &POLICIES, &MODES)), Vec::<String>::new());
    }
}

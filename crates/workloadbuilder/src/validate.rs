//! What is refused, before anything is built.
//!
//! Two halves, because an API server reports them apart: the blocks on their own (form), and the configuration that
//! comes of them (sense). [`Builder::validate`](crate::Builder::validate) runs both.

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

/// The form of what the user wrote at `items` and below. Items are known again by their names, level by level: one that
/// has moved is new.
pub(crate) fn all_blocks(items: &[WorkloadItem], old: &[WorkloadItem]) -> ErrorList {
    let mut errors = ErrorList::new();
    for item in items {
        let old = old.iter().find(|old| old.name == item.name);
        errors.extend(blocks(item, old));
        errors.extend(all_blocks(&item.children, old.map_or(&[], |old| &old.children)));
    }
    errors
}

/// The form of what the user wrote at `item`. A block that already stood there in `old` is not judged again.
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

/// A policy: exactly one member, and a count of at least one where there is a count.
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

/// The same for a group of groups.
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

/// What a policy of either level says.
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

/// Constraints: at most one topology key, written as a label key.
pub fn constraints_block(path: &Path, block: &WorkloadPodGroupSchedulingConstraints) -> ErrorList {
    topology(path, block.topology.as_deref())
}

/// The same for a group of groups.
pub fn composite_constraints_block(path: &Path, block: &WorkloadCompositePodGroupSchedulingConstraints) -> ErrorList {
    topology(path, block.topology.as_deref())
}

fn topology(path: &Path, topology: Option<&[TopologyConstraint]>) -> ErrorList {
    let keys = topology.unwrap_or_default().iter().map(|constraint| constraint.key.as_str());
    rules::validate_topology(&path.child("topology"), keys)
}

/// A disruption mode: exactly one member.
pub fn disruption_mode_block(
    path: &Path,
    new: &WorkloadPodGroupDisruptionMode,
    old: Option<&WorkloadPodGroupDisruptionMode>,
) -> Option<Error> {
    let members = |mode: &WorkloadPodGroupDisruptionMode| (mode.single.is_some(), mode.all.is_some());
    mode_members(path, members(new), old.map(members))
}

/// The same for a group of groups.
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

/// Claims: at most four, names unique, each with exactly one source. A claim that already stood in `old`, wherever in the
/// list, is not judged again.
pub fn resource_claims_block(
    path: &Path,
    new: &[WorkloadPodGroupResourceClaim],
    old: Option<&[WorkloadPodGroupResourceClaim]>,
) -> ErrorList {
    if old == Some(new) {
        return ErrorList::new();
    }
    let known = |i: usize| old.is_some_and(|old| old.contains(&new[i]));
    let errors = rules::validate_claims(path, &new.iter().map(map_claim).collect::<Vec<_>>());
    let about_known = |error: &Error| {
        (0..new.len()).filter(|i| known(*i)).any(|i| {
            let (claim, at) = (path.index(i), error.path.as_str());
            let inside = at.strip_prefix(claim.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            inside && error.kind != crate::field::ErrorKind::Duplicate
        })
    };
    errors.into_iter().filter(|error| !about_known(error)).collect()
}

/// The sense of what comes of `item` and the items below it: policies and modes are among those allowed and go together,
/// within an item and between an item and those above it.
pub fn resolved(item: &WorkloadItem, policies: &[PolicyKind], modes: &[DisruptionModeKind]) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_item_semantics(&ResolvedItem::resolve(item), None, policies, modes, &mut errors);
    errors
}

/// `above` is the nearest item above that is disrupted as a whole.
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
    let as_a_whole = config.disruption_mode == Some(DisruptionMode::All);
    if config.policy_kind() == PolicyKind::Basic && as_a_whole {
        errors.push(Error::invalid(
            &fields.disruption_mode,
            "",
            "the disruptionMode `all` is not supported with the Basic scheduling policy",
        ));
    }
    // Upstream: not checked, and the scheduler passes over what the item below says.
    if let Some(above) = above.filter(|_| config.disruption_mode == Some(DisruptionMode::Single)) {
        let detail = format!(
            "the disruptionMode `single` cannot hold where {} is `all`: leave it out here, or set `single` there",
            above.fields.disruption_mode
        );
        errors.push(Error::invalid(&fields.disruption_mode, "", detail));
    }
    let above = if as_a_whole { Some(node.item) } else { above };
    for child in &node.children {
        validate_item_semantics(child, above, policies, modes, errors);
    }
}

/// The policy is one that the controller has listed; an empty list allows none.
pub fn allowed_policy(path: &Path, config: &SchedulingConfig, allowed: &[PolicyKind]) -> Option<Error> {
    let kind = config.policy_kind();
    let detail = || format!("the {} scheduling policy is not allowed", kind.name());
    (!allowed.contains(&kind)).then(|| Error::forbidden(path, detail()))
}

/// The mode, if there is one, is one that the controller has listed; an empty list allows none.
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
    fn the_blocks_of_a_group_of_groups_are_judged_by_the_same_rules() {
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
    fn on_an_update_items_are_known_by_their_names_level_by_level() {
        let bad = json!({"policy": {}});
        let named = |name: &str| WorkloadItem { name: name.to_owned(), ..item(bad.clone()) };
        let old = composite(bad.clone(), vec![named("driver"), named("workers")]);
        let judge = |new: WorkloadItem, old: &WorkloadItem| {
            Builder::new(new, BuildOptions::default()).validate_blocks(Some(std::slice::from_ref(old))).len()
        };
        assert_eq!(judge(old.clone(), &old), 0, "nothing has changed");
        assert_eq!(judge(composite(bad.clone(), vec![named("workers"), named("driver")]), &old), 0, "the order has");
        assert_eq!(judge(composite(bad.clone(), vec![named("driver"), named("evaluator")]), &old), 1, "one is new");
        let moved = WorkloadItem { name: "inner".to_owned(), ..composite(json!({}), vec![named("workers")]) };
        assert_eq!(judge(composite(bad.clone(), vec![moved]), &old), 1, "one that moved is new");
        let renamed = WorkloadItem { name: "other".to_owned(), ..old.clone() };
        let errors = Builder::new(renamed, BuildOptions::default()).validate_blocks(Some(&[old]));
        assert_eq!(render(&errors), ["spec.whole: Internal error: the old item has another name"]);
    }

    #[test]
    fn a_claim_that_stood_there_before_is_not_judged_again() {
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
    fn errors_land_on_the_fields_that_the_controller_names() {
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
    fn a_group_is_not_disrupted_by_parts_where_the_one_above_is_not() {
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
        let refused = "spec.disruptionMode: Invalid value: \"\": the disruptionMode `single` cannot hold where \
                       spec.whole.disruptionMode is `all`: leave it out here, or set `single` there";
        // The mode of the outermost, of the innermost two levels below it, and what is said.
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
        // As if the API had gained them: by the user's block, a default or a callback, it makes no difference.
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
        assert_eq!(super::resolved(&root, &policies, &modes), vec![], "a controller that lists them takes them");
    }

    // Shows: S004-41
    // Shows: S004-42
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

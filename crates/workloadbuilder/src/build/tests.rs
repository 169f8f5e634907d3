//! Items to a Workload: what is built, and what is refused.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::{BuildOptions, Builder};
use crate::blocks::{Blocks, CompositePodGroupBlocks, PodGroupBlocks};
use crate::error::BuildError;
use crate::field::Path;
use crate::item::{
    DisruptionMode, PolicyKind, ResourceClaim, SchedulingConfig, SchedulingConstraints, SchedulingPolicy, WorkloadItem,
};
use crate::target::{BuildTarget, GroupLayout, SchedulingVersion};

fn owner() -> OwnerReference {
    OwnerReference {
        api_version: "batch/v1".to_owned(),
        kind: "Job".to_owned(),
        name: "trainer".to_owned(),
        uid: "u1".to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn options() -> BuildOptions {
    BuildOptions {
        name: "trainer-x1".to_owned(),
        namespace: "training".to_owned(),
        owner: Some(owner()),
        allowed_policies: vec![PolicyKind::Basic, PolicyKind::Gang],
        allowed_disruption_modes: vec![DisruptionMode::Single, DisruptionMode::All],
        ..BuildOptions::default()
    }
}

fn flat() -> BuildOptions {
    BuildOptions { target: BuildTarget { layout: GroupLayout::Flat, ..BuildTarget::default() }, ..options() }
}

fn named(name: &str, default_config: SchedulingConfig) -> WorkloadItem {
    WorkloadItem { default_config, ..WorkloadItem::new(name, Path::new("spec").child(name)) }
}

fn item(default_config: SchedulingConfig) -> WorkloadItem {
    WorkloadItem { default_config, ..WorkloadItem::new("workers", Path::new("spec").child("scheduling")) }
}

fn basic() -> SchedulingConfig {
    SchedulingConfig::default()
}

fn gang_of(min_count: Option<i32>) -> SchedulingConfig {
    SchedulingConfig { policy: Some(SchedulingPolicy::Gang { min_count }), ..SchedulingConfig::default() }
}

fn class(name: &str) -> SchedulingConfig {
    SchedulingConfig { priority_class_name: Some(name.to_owned()), ..SchedulingConfig::default() }
}

fn claims(count: usize) -> SchedulingConfig {
    let claim = |i| ResourceClaim {
        name: format!("c{i}"),
        resource_claim_name: Some("shared".to_owned()),
        resource_claim_template_name: None,
    };
    SchedulingConfig { resource_claims: (0..count).map(claim).collect(), ..SchedulingConfig::default() }
}

fn gang() -> SchedulingConfig {
    SchedulingConfig {
        policy: Some(SchedulingPolicy::Gang { min_count: Some(4) }),
        constraints: Some(SchedulingConstraints { topology: vec!["topology.kubernetes.io/rack".to_owned()] }),
        disruption_mode: Some(DisruptionMode::All),
        resource_claims: vec![ResourceClaim {
            name: "nic".to_owned(),
            resource_claim_name: None,
            resource_claim_template_name: Some("nics".to_owned()),
        }],
        priority_class_name: Some("high".to_owned()),
    }
}

fn tree(name: &str, config: SchedulingConfig, children: Vec<WorkloadItem>) -> WorkloadItem {
    WorkloadItem { children, ..named(name, config) }
}

/// A chain of `levels` items.
fn chain(levels: usize) -> WorkloadItem {
    let leaf = named(&format!("level{levels}"), basic());
    (1..levels).rev().fold(leaf, |below, level| tree(&format!("level{level}"), basic(), vec![below]))
}

fn spec(builder: &Builder) -> Value {
    serde_json::to_value(builder.build_workload().expect("a workload").spec).expect("JSON")
}

// Shows: S004-02
// Shows: S004-45
// Shows: S004-60
// Shows: U-builder
#[test]
fn leaf_becomes_a_workload_with_one_template() {
    let workload = Builder::new(item(gang()), options()).build_workload().expect("a workload");
    assert_eq!(
        serde_json::to_value(&workload).expect("JSON"),
        json!({
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "Workload",
            "metadata": {
                "name": "trainer-x1",
                "namespace": "training",
                "ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "Job", "name": "trainer", "uid": "u1",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "trainer"},
                "podGroupTemplates": [{
                    "name": "workers",
                    "schedulingPolicy": {"gang": {"minCount": 4}},
                    "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/rack"}]},
                    "disruptionMode": {"all": {}},
                    "resourceClaims": [{"name": "nic", "resourceClaimTemplateName": "nics"}],
                    "priorityClassName": "high",
                }],
            },
        })
    );
}

// Shows: S004-60
#[test]
fn item_without_configuration_is_basic() {
    let built = spec(&Builder::new(item(basic()), options()));
    assert_eq!(built["podGroupTemplates"], json!([{"name": "workers", "schedulingPolicy": {"basic": {}}}]));
    let built = spec(&Builder::new(tree("set", basic(), vec![item(basic())]), options()));
    let template = &built["compositePodGroupTemplates"][0];
    assert_eq!(template["schedulingPolicy"], json!({"basic": {}}));
}

// Shows: S000-10
// Shows: S004-62
// Shows: U-builder
#[test]
fn tree_becomes_a_tree_of_templates() {
    let whole = SchedulingConfig {
        constraints: Some(SchedulingConstraints { topology: vec!["zone".to_owned()] }),
        disruption_mode: Some(DisruptionMode::All),
        ..gang_of(Some(2))
    };
    let inner = tree("stage", gang_of(Some(1)), vec![named("evaluators", gang_of(Some(3)))]);
    let root = tree("set", whole, vec![named("driver", basic()), inner, named("workers", gang_of(Some(8)))]);
    assert_eq!(
        spec(&Builder::new(root, options())),
        json!({
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "trainer"},
            "compositePodGroupTemplates": [{
                "name": "set",
                "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                "schedulingConstraints": {"topology": [{"key": "zone"}]},
                "disruptionMode": {"all": {}},
                "podGroupTemplates": [
                    {"name": "driver", "schedulingPolicy": {"basic": {}}},
                    {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 8}}},
                ],
                "compositePodGroupTemplates": [{
                    "name": "stage",
                    "schedulingPolicy": {"gang": {"minGroupCount": 1}},
                    "podGroupTemplates": [{"name": "evaluators", "schedulingPolicy": {"gang": {"minCount": 3}}}],
                }],
            }],
        })
    );
}

// Shows: S002-09
#[test]
fn several_items_become_templates_of_one_workload() {
    let items = vec![named("driver", basic()), named("workers", gang_of(Some(8)))];
    let built = spec(&Builder::with_items(items, options()));
    assert_eq!(
        built["podGroupTemplates"],
        json!([
            {"name": "driver", "schedulingPolicy": {"basic": {}}},
            {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 8}}},
        ])
    );
    assert_eq!(built.get("compositePodGroupTemplates"), None);
}

// Shows: S004-39
#[test]
fn flat_layout_has_only_the_leaves() {
    let root = tree("set", basic(), vec![named("driver", basic()), tree("inner", basic(), vec![item(gang())])]);
    let old = BuildOptions {
        target: BuildTarget { version: SchedulingVersion::V1alpha2, ..BuildTarget::default() },
        ..options()
    };
    for options in [flat(), old] {
        let built = spec(&Builder::new(root.clone(), options));
        let names: Vec<&Value> =
            built["podGroupTemplates"].as_array().expect("a list").iter().map(|t| &t["name"]).collect();
        assert_eq!(names, ["driver", "workers"]);
        assert_eq!(built.get("compositePodGroupTemplates"), None);
    }
}

#[test]
fn priority_class_of_one_item_applies_to_the_whole_tree() {
    for (at_root, at_leaf) in [(class("high"), basic()), (basic(), class("high")), (class("high"), class("high"))] {
        let root = tree("set", at_root, vec![named("driver", basic()), named("workers", at_leaf)]);
        let built = spec(&Builder::new(root, options()));
        let set = &built["compositePodGroupTemplates"][0];
        let classes = [&set["priorityClassName"], &set["podGroupTemplates"][0]["priorityClassName"]];
        assert_eq!(classes, ["high", "high"]);
        assert_eq!(set["podGroupTemplates"][1]["priorityClassName"], "high");
    }
}

#[test]
fn reference_to_an_owner_in_the_core_group_has_no_group() {
    let options = BuildOptions { owner: Some(OwnerReference { api_version: "v1".to_owned(), ..owner() }), ..options() };
    let workload = Builder::new(item(gang()), options).build_workload().expect("a workload");
    assert_eq!(workload.spec.controller_ref.expect("a reference").api_group, None);
}

/// Items that cannot be built, the error of the build, and the error about the controller's field.
// Shows: U-builder
#[test]
fn items_that_the_server_would_refuse_are_refused_with_a_remedy() {
    let many = |count: usize| (0..count).map(|i| named(&format!("w{i}"), basic())).collect::<Vec<_>>();
    let two_keys = SchedulingConfig {
        constraints: Some(SchedulingConstraints { topology: vec!["a".to_owned(), "b".to_owned()] }),
        ..basic()
    };
    let novel = SchedulingConfig { policy: Some(SchedulingPolicy::Other("Elastic")), ..basic() };
    let rolling = SchedulingConfig { disruption_mode: Some(DisruptionMode::Other("rolling")), ..basic() };
    let cases: Vec<(Vec<WorkloadItem>, BuildOptions, &str, &str)> = vec![
        (vec![], options(), "there is no item to build from", "Internal error: there is no item to build from"),
        (
            vec![item(gang_of(None))],
            options(),
            "item workers: a gang needs minCount",
            "spec.scheduling.schedulingPolicy.gang.minCount: Required value: a gang needs minCount",
        ),
        (
            vec![tree("set", gang_of(None), vec![item(basic())])],
            options(),
            "item set: a gang needs minGroupCount",
            "spec.set.schedulingPolicy.gang.minGroupCount: Required value: a gang needs minGroupCount",
        ),
        (
            vec![item(gang_of(Some(0)))],
            options(),
            "item workers: spec.scheduling.schedulingPolicy.gang.minCount: Invalid value: 0: must be greater than or \
             equal to 1",
            "spec.scheduling.schedulingPolicy.gang.minCount: Invalid value: 0: must be greater than or equal to 1",
        ),
        (
            vec![named("", basic())],
            options(),
            "spec.: an item has no name",
            "spec.: Internal error: spec.: an item has no name",
        ),
        (
            vec![named("a.b", basic())],
            options(),
            "item a.b: its name must be a DNS label: must not contain dots",
            "spec.a.b: Invalid value: \"a.b\": its name must be a DNS label: must not contain dots",
        ),
        (
            vec![tree("set", basic(), vec![tree("inner", basic(), vec![named("set", basic())])])],
            options(),
            "item set: the name is used twice in the tree",
            "spec.set: Duplicate value: \"set\"",
        ),
        (
            vec![named("driver", basic()), chain(2)],
            options(),
            "item level1: the top of a workload has groups of pods or groups of groups, not both: put all under one item",
            "spec.driver: Internal error: item level1: the top of a workload has groups of pods or groups of groups, not \
             both: put all under one item",
        ),
        (
            many(9),
            options(),
            "the top of the workload: 9 templates in one list, at most 8 are allowed: put some of them under a new item",
            "spec.w0: Too many: 9: a workload has at most 8 groups in one list",
        ),
        (
            vec![tree("set", basic(), many(9))],
            BuildOptions { limit_remedy: Some("leave some out".to_owned()), ..options() },
            "item set: 9 templates in one list, at most 8 are allowed: put some of them under a new item",
            "spec.set: Too many: 9: a workload has at most 8 groups in one list: leave some out",
        ),
        (
            vec![chain(5)],
            options(),
            "item level1: 5 levels, at most 4 are allowed, including that of the pods: remove a level that sets nothing",
            "spec.level1: Forbidden: 5 levels, at most 4 are allowed, including that of the pods: remove a level that sets \
             nothing",
        ),
        (
            vec![item(claims(5))],
            options(),
            "item workers: spec.scheduling.resourceClaims: Too many: 5: must have at most 4 items",
            "spec.scheduling.resourceClaims: Too many: 5: must have at most 4 items",
        ),
        (
            vec![tree("set", claims(1), vec![item(basic())])],
            options(),
            "item set: only pods share claims: move resourceClaims to the items below",
            "spec.set.resourceClaims: Forbidden: only pods share claims: move resourceClaims to the items below",
        ),
        (
            vec![item(two_keys)],
            options(),
            "item workers: spec.scheduling.schedulingConstraints.topology: Too many: 2: must have at most 1 item",
            "spec.scheduling.schedulingConstraints.topology: Too many: 2: must have at most 1 item",
        ),
        (
            vec![named("driver", class("low")), named("workers", class("high"))],
            options(),
            "item workers: priority class high, but low elsewhere in the tree: all pods of a workload need the same \
             class",
            "spec.workers: Invalid value: \"high\": priority class high, but low elsewhere in the tree: all pods of a \
             workload need the same class",
        ),
        (
            vec![item(novel)],
            options(),
            "item workers: the scheduling policy Elastic is not in the API",
            "spec.scheduling.schedulingPolicy: Forbidden: the scheduling policy Elastic is not in the API",
        ),
        (
            vec![item(rolling)],
            options(),
            "item workers: the disruption mode rolling is not in the API",
            "spec.scheduling.disruptionMode: Forbidden: the disruption mode rolling is not in the API",
        ),
        (
            vec![tree("set", gang_of(Some(2)), vec![item(basic())])],
            flat(),
            "item set: the scheduling policy of a group of groups needs CompositePodGroup, which the target does not have: \
             set it at the items below, or choose Basic here",
            "spec.set.schedulingPolicy: Forbidden: the scheduling policy of a group of groups needs CompositePodGroup, \
             which the target does not have: set it at the items below, or choose Basic here",
        ),
    ];
    for (items, options, want, want_field) in cases {
        let builder = Builder::with_items(items, options);
        assert_eq!(builder.build_workload().expect_err(want).to_string(), want);
        let fields: Vec<String> = builder.validate_structure().iter().map(ToString::to_string).collect();
        assert_eq!(fields, [want_field], "{want}");
    }
}

#[test]
fn values_at_the_limits_are_allowed() {
    let many = |prefix: &str, count: usize| (0..count).map(|i| named(&format!("{prefix}{i}"), basic())).collect();
    let wide: Vec<WorkloadItem> =
        (0..8).map(|i| tree(&format!("set{i}"), basic(), many(&format!("w{i}-"), 8))).collect();
    for items in [many("w", 8), wide, vec![chain(4)], vec![item(claims(4))]] {
        let builder = Builder::with_items(items, options());
        assert_eq!(builder.validate(None), vec![]);
        builder.build_workload().expect("a workload");
    }
}

#[test]
fn missing_and_invalid_options_are_named() {
    let incomplete = OwnerReference { uid: String::new(), ..owner() };
    let odd = OwnerReference { api_version: "a/b/c".to_owned(), ..owner() };
    for (options, want) in [
        (BuildOptions { owner: None, ..options() }, "a workload needs an owner"),
        (BuildOptions { owner: Some(incomplete), ..options() }, "owner Job trainer: kind, name and uid must be set"),
        (
            BuildOptions { owner: Some(odd), ..options() },
            "owner Job trainer: apiVersion \"a/b/c\" is not group/version",
        ),
        (BuildOptions { name: String::new(), ..options() }, "workload: metadata.name: Required value"),
    ] {
        assert_eq!(Builder::new(item(gang()), options).build_workload().expect_err(want).to_string(), want);
    }
}

#[test]
fn blocks_of_the_other_level_are_an_internal_error() {
    let leaf = WorkloadItem { input: Blocks::CompositePodGroup(CompositePodGroupBlocks::default()), ..item(basic()) };
    let composite = WorkloadItem {
        input: Blocks::PodGroup(PodGroupBlocks::default()),
        ..tree("set", basic(), vec![item(basic())])
    };
    for (item, want) in [
        (leaf, "item workers: the blocks are those of a CompositePodGroup, but the item is a group of pods"),
        (composite, "item set: the blocks are those of a PodGroup, but the item is a group of groups"),
    ] {
        let builder = Builder::new(item, options());
        assert_eq!(builder.build_workload().expect_err(want).to_string(), want);
        let [error] = &builder.validate(None)[..] else { panic!("one error") };
        assert_eq!(error.message(), format!("Internal error: {want}"));
    }
}

// Shows: S004-61
#[test]
fn error_in_a_block_is_reported_once() {
    let policy = serde_json::from_value(json!({"gang": {"minCount": 0}})).expect("a policy");
    let input = Blocks::PodGroup(PodGroupBlocks { policy: Some(policy), ..PodGroupBlocks::default() });
    let builder = Builder::new(WorkloadItem { input, ..item(basic()) }, options());
    let errors: Vec<String> = builder.validate(None).iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        ["spec.scheduling.schedulingPolicy.gang.minCount: Invalid value: 0: must be greater than or equal to 1"]
    );
}

// Shows: S004-37
// Shows: S004-46
// Shows: S004-61
#[test]
fn jobs_of_the_proposal_compile_as_it_states() {
    // KEP-6089, Library Usage Example: Basic by default, the user's block replaces it, a callback sets the count.
    let job = |policy: Value, adjusted: bool| {
        let policy = serde_json::from_value(policy).expect("a policy");
        let mut item = WorkloadItem {
            input: Blocks::PodGroup(PodGroupBlocks { policy: Some(policy), ..PodGroupBlocks::default() }),
            callbacks: vec![Arc::new(|config| config.default_min_count(4))],
            ..item(SchedulingConfig { policy: Some(SchedulingPolicy::Basic), ..basic() })
        };
        if adjusted {
            item.callbacks.push(Arc::new(|config| {
                if let Some(SchedulingPolicy::Gang { min_count: Some(count) }) = &mut config.policy {
                    *count *= 42;
                }
            }));
        }
        spec(&Builder::new(item, options()))["podGroupTemplates"][0]["schedulingPolicy"].clone()
    };
    for (policy, adjusted, want) in [
        (json!({}), false, json!({"basic": {}})),
        (json!({"gang": {}}), false, json!({"gang": {"minCount": 4}})),
        (json!({"gang": {"minCount": 3}}), false, json!({"gang": {"minCount": 3}})),
        (json!({"gang": {}}), true, json!({"gang": {"minCount": 168}})),
        (json!({"basic": {}}), true, json!({"basic": {}})),
    ] {
        assert_eq!(job(policy.clone(), adjusted), want, "{policy}, adjusted: {adjusted}");
    }
}

// Shows: S004-07
#[test]
fn building_twice_gives_the_same_and_changes_no_item() {
    let root = tree("set", class("high"), vec![item(gang())]);
    let before = root.resolve();
    let builder = Builder::new(root.clone(), options());
    assert_eq!(builder.build_workload(), builder.build_workload());
    assert_eq!((root.resolve(), root.children[0].resolve()), (before, gang()));
}

#[test]
fn builder_from_a_workload_cannot_build_another() {
    let workload = Builder::new(item(gang()), options()).build_workload().expect("a workload");
    let builder = Builder::from_workload(workload, BuildOptions::default());
    assert_eq!(builder.build_workload(), Err(BuildError::BuiltFromWorkload { name: "trainer-x1".to_owned() }));
    for errors in [builder.validate_blocks(None), builder.validate_resolved(), builder.validate_structure()] {
        assert_eq!(errors[0].to_string(), "Internal error: a builder from a workload has no items to validate");
    }
}

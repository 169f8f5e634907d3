//! The API server accepts what the workload builder builds from any tree that it accepts.
#![allow(clippy::unwrap_used)]

use k8s_openapi::api::scheduling::v1beta1::Workload;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use phalanx_api::field::Path;
use phalanx_api::gates::Gates;
use phalanx_api::scheduling::validation::{composite_pod_group, pod_group, workload};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use workloadbuilder::target::{BuildTarget, GroupLayout};
use workloadbuilder::{
    BuildOptions, Builder, BuiltGroup, DisruptionMode, PolicyKind, ResourceClaim, SchedulingConfig,
    SchedulingConstraints, SchedulingPolicy, WorkloadItem, names,
};

/// Mostly valid configurations, with some that the server refuses.
fn config() -> impl Strategy<Value = SchedulingConfig> {
    let count = prop_oneof![60 => Just(Some(2)), 1 => Just(Some(0)), 1 => Just(None)];
    let policy = prop_oneof![
        Just(None),
        Just(Some(SchedulingPolicy::Basic)),
        count.prop_map(|min_count| Some(SchedulingPolicy::Gang { min_count })),
    ];
    let key = prop_oneof![60 => Just("topology.kubernetes.io/rack".to_owned()), 1 => Just("-".to_owned())];
    let topology = prop_oneof![60 => vec(key.clone(), 0..=1), 1 => vec(key, 2)];
    let mode = prop_oneof![Just(None), Just(Some(DisruptionMode::Single)), Just(Some(DisruptionMode::All))];
    let claim =
        (prop_oneof![30 => "[a-z]{4}", 1 => "[A-B]"], any::<bool>()).prop_map(|(name, template)| ResourceClaim {
            name,
            resource_claim_name: (!template).then(|| "shared".to_owned()),
            resource_claim_template_name: template.then(|| "shared".to_owned()),
        });
    let claims = prop_oneof![30 => Just(vec![]), 1 => vec(claim, 0..=5)];
    let class = option::weighted(0.05, prop_oneof![9 => Just("high".to_owned()), 1 => Just("low".to_owned())]);
    (policy, topology, mode, claims, class).prop_map(
        |(policy, topology, disruption_mode, resource_claims, priority_class_name)| SchedulingConfig {
            policy,
            constraints: (!topology.is_empty()).then_some(SchedulingConstraints { topology }),
            disruption_mode,
            resource_claims,
            priority_class_name,
        },
    )
}

fn item(name: String, default_config: SchedulingConfig, children: Vec<WorkloadItem>) -> WorkloadItem {
    let path = Path::new("spec").child(&name);
    WorkloadItem { default_config, children, ..WorkloadItem::new(name, path) }
}

fn tree() -> impl Strategy<Value = WorkloadItem> {
    let name = || prop_oneof![60 => "[a-z]{5}", 1 => "[a-z]\\.[a-z]"];
    let leaf = (name(), config()).prop_map(|(name, config)| item(name, config, vec![]));
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let children = prop_oneof![20 => vec(inner.clone(), 1..=3), 1 => vec(inner, 8..=9)];
        (name(), config(), children).prop_map(|(name, config, children)| item(name, config, children))
    })
}

fn builder(items: Vec<WorkloadItem>, layout: GroupLayout) -> Builder {
    let owner = OwnerReference {
        api_version: "example.com/v1".to_owned(),
        kind: "Training".to_owned(),
        name: "train".to_owned(),
        uid: "0b5e".to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let options = BuildOptions {
        name: names::workload_name(&owner.name, &owner.uid),
        namespace: "ml".to_owned(),
        owner: Some(owner),
        allowed_policies: vec![PolicyKind::Basic, PolicyKind::Gang],
        allowed_disruption_modes: vec![DisruptionMode::Single, DisruptionMode::All],
        target: BuildTarget { layout, ..BuildTarget::default() },
        ..BuildOptions::default()
    };
    Builder::with_items(items, options)
}

// Shows: S004-40
#[test]
fn server_accepts_what_the_builder_accepts() {
    let mut runner = TestRunner::deterministic();
    // How often a nested and a flat tree was built and a tree was refused: each case must occur.
    let (mut nested, mut flat, mut refused) = (0, 0, 0);
    for _ in 0..2000 {
        let (items, layout) = (vec(tree(), 1..=2), prop_oneof![Just(GroupLayout::Nested), Just(GroupLayout::Flat)])
            .new_tree(&mut runner)
            .unwrap()
            .current();
        let builder = builder(items, layout);
        match builder.build_workload() {
            Ok(built) => {
                let composites = built.spec.composite_pod_group_templates.is_some();
                *(if composites { &mut nested } else { &mut flat }) += 1;
                accepted(&builder, &built);
            }
            Err(error) => {
                refused += 1;
                assert_ne!(builder.validate_structure(), vec![], "only the build refuses: {error}");
            }
        }
    }
    assert!(nested > 100 && flat > 100 && refused > 100, "{nested} nested, {flat} flat, {refused} refused");
}

fn accepted(builder: &Builder, built: &Workload) {
    let gates = Gates::default();
    assert_eq!(workload::validate_create(built, &gates), vec![], "{built:?}");
    assert_eq!(builder.validate_structure(), vec![]);
    for group in builder.build_groups().unwrap() {
        let problems = match &group {
            BuiltGroup::Composite(group) => composite_pod_group::validate_create(group, true, &gates),
            BuiltGroup::Pods(group) => pod_group::validate_create(group, &gates),
        };
        assert_eq!(problems, vec![], "{group:?}");
    }
}

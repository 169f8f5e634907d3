//! Which pods are members: other owners, other schedulers, other priorities, gates; and groups that are created late.

use std::time::Duration;

use insta::assert_snapshot;
use serde_json::json;

use super::text_cluster::TextCluster;
use crate::{Config, DecisionAction, PriorityMismatch, RefusalCause};

#[test]
fn a_pod_of_another_owner_is_refused_alone_and_does_not_count() {
    let mut world = TextCluster::of(
        "node a gpu=8; group g gang minCount=3 owner=Job:a pods=2 gpu=1;
         pod other group=g owner=Job:b gpu=1; pod bare group=g gpu=1",
    );
    assert_snapshot!(world.decide(), @"
    other: wait (podgroup ns/g belongs to another owner than this pod)
    bare: wait (podgroup ns/g belongs to another owner than this pod)
    ");
    world.now += Duration::from_secs(1);
    assert_snapshot!(world.decide(), @"g: wait (waiting for pods: 2 of minCount 3 exist (2 belong to another owner))");
    world.apply("pod g-2 group=g owner=Job:a gpu=1");
    assert_snapshot!(world.decide(), @"g: bind g-0 to a, g-1 to a, g-2 to a");
}

#[test]
fn a_bound_pod_of_another_owner_does_not_count_either() {
    let mut world = TextCluster::of(
        "node a gpu=8 rack=r; group g gang minCount=2 owner=Job:a key=rack; pod other group=g owner=Job:b node=a;
         pod own group=g owner=Job:a",
    );
    world.now += Duration::from_secs(1);
    assert_eq!(world.decide(), "");
    world.now += Duration::from_secs(1);
    assert_snapshot!(world.decide(), @"g: wait (waiting for pods: 1 of minCount 2 exist)");
}

#[test]
fn pods_of_a_controller_between_the_owner_and_them_count() {
    let mut world = TextCluster::of("node a; group g gang minCount=2 owner=JobSet:s; pods p 2 group=g owner=Job:a");
    assert_snapshot!(world.decide(), @"g: bind p-0 to a, p-1 to a");
}

#[test]
fn membership_is_evaluated_again_when_the_group_gets_an_owner() {
    let mut world = TextCluster::of("node a; pod own group=g owner=Job:a; pod other group=g owner=Job:b");
    assert_eq!(world.decide(), "");
    world.apply("group g gang minCount=2 owner=Job:a");
    assert_snapshot!(world.decide(), @"other: wait (podgroup ns/g belongs to another owner than this pod)");
    world.apply("group g gang minCount=2");
    assert_snapshot!(world.decide(), @"g: bind own to a, other to a");
}

#[test]
fn a_terminating_member_pins_no_rack_after_its_group_changed_either() {
    let mut world = TextCluster::of("node a pods=1 rack=r1; group g gang minCount=1 pods=2 key=rack");
    assert_snapshot!(world.decide(), @"g: bind g-0 to a (no more pods fit in the domain of its members rack=r1 (Too many pods on 1 of 1 nodes))");
    world.show_bound("g-0", "a");
    world.change_pod("g-0", |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    world.apply("group g gang minCount=1 key=rack groupPriority=1; node b pods=1 rack=r2");
    assert_snapshot!(world.decide(), @"g: bind g-1 to b");
}

// Shows: U-TestPodGroupDependentRequiredValidation
#[test]
fn a_member_of_another_scheduler_blocks_only_itself() {
    let mut world = TextCluster::of(
        "node a gpu=8; group g gang minCount=2 pods=2 gpu=1; pod theirs group=g scheduler=other gpu=1;
         group h gang minCount=2 pods=1 gpu=1; pod his group=h scheduler=other gpu=1",
    );
    assert_snapshot!(world.decide(), @"g: bind g-0 to a, g-1 to a");
    world.now += Duration::from_secs(1);
    assert_snapshot!(world.decide(), @"h: wait (waiting for pods: 1 of minCount 2 exist (1 belongs to another scheduler))");
    // Once it is bound, by whichever scheduler, it is a placed member.
    world.change_pod("his", |pod| pod["spec"]["nodeName"] = json!("a"));
    assert_snapshot!(world.decide(), @"h: bind h-0 to a");
}

// Shows: S002-23
// Shows: U-TestPodGroupDependentRequiredValidation
#[test]
fn a_pod_of_another_priority_counts_or_is_refused_alone_as_configured() {
    let text = "node a gpu=8; group g gang minCount=2 groupPriority=5; pod same group=g priority=5; pod low group=g";
    let mut world = TextCluster::of(text);
    assert_snapshot!(world.decide(), @"g: bind same to a, low to a");
    let mut world =
        TextCluster::with(Config { priority_mismatch: PriorityMismatch::Refused, ..Config::default() }, text);
    assert_snapshot!(world.decide(), @"low: wait (the priority of this pod differs from that of podgroup ns/g)");
    world.apply("pod more group=g priority=5");
    assert_snapshot!(world.decide(), @"g: bind same to a, more to a");
}

// Shows: S002-38
#[test]
fn a_gated_member_blocks_a_basic_group_with_a_topology_key() {
    let mut world = TextCluster::of(
        "node a gpu=1 rack=r; node b gpu=4 rack=s; group g basic key=rack pods=1 gpu=1; pod late group=g gpu=1 gate=x",
    );
    assert_eq!(world.decide(), "");
    world.now += Duration::from_secs(1);
    let decision = world.core.next(world.now).unwrap();
    let DecisionAction::Wait(refusal) = decision.action else { panic!("{decision:?}") };
    assert_eq!(refusal.cause, RefusalCause::Gated);
    assert_snapshot!(refusal.message(), @"waiting for all pods of the group, which must share one topology domain (1 is gated)");
    world.change_pod("late", |pod| pod["spec"]["schedulingGates"] = json!([]));
    assert_snapshot!(world.decide(), @"g: bind g-0 to b, late to b");
    // Once started, the group has its domain, and a gated pod blocks only itself.
    world.apply("pod later group=g gpu=1 gate=x; pod more group=g gpu=1");
    assert_snapshot!(world.decide(), @"g: bind more to b");
}

// Shows: S002-38
// Shows: S004-14
#[test]
fn a_gated_member_of_any_other_group_blocks_only_itself() {
    for policy in ["basic", "gang minCount=2", "gang minCount=2 key=rack"] {
        let mut world = TextCluster::of(&format!(
            "node a gpu=4 rack=r; group g {policy} pods=2 gpu=1; pod late group=g gpu=1 gate=x"
        ));
        assert_eq!(world.decide(), "g: bind g-0 to a, g-1 to a", "{policy}");
    }
}

#[test]
fn late_pods_join_and_replacements_need_no_second_quorum() {
    let mut world = TextCluster::of("node a gpu=3; group g gang minCount=2 pods=2 gpu=1");
    world.decide_and_bind();
    world.apply("pod late group=g gpu=1; pod later group=g gpu=1");
    assert_snapshot!(world.decide_and_bind(), @"g: bind late to a (no more pods fit (Insufficient nvidia.com/gpu on 1 of 1 nodes))");
    world.apply("delete g-0");
    assert_snapshot!(world.decide(), @"g: bind later to a");
}

#[test]
fn a_group_that_is_deleted_and_created_again_gets_its_pods_back() {
    let mut world = TextCluster::of("node a gpu=2; group g gang minCount=2 pods=2 gpu=2");
    assert!(world.decide().starts_with("g: wait"));
    world.forget_group("g");
    world.apply("node b gpu=2");
    assert_eq!(world.decide(), "", "no group, no bind");
    world.apply("group g gang minCount=2");
    assert_snapshot!(world.decide(), @"g: bind g-0 to a, g-1 to b");
}

#[test]
fn a_succeeded_pod_of_another_owner_does_not_count_either() {
    let mut world = TextCluster::of(
        "node a gpu=8; group g gang minCount=2 owner=Job:a; pod own group=g owner=Job:a gpu=1 created=10;
         pod other group=g owner=Job:b node=a gpu=1 created=10; finish other at=20",
    );
    assert_eq!(world.decide(), "");
    // It does once the group has no owner, and no longer when it has one again.
    world.apply("group g gang minCount=2");
    assert_snapshot!(world.decide(), @"g: bind own to a");
    world.apply("fail own; group g gang minCount=2 owner=Job:a");
    world.now += Duration::from_secs(10);
    assert_eq!(world.decide(), "");
    world.now += Duration::from_secs(10);
    assert_snapshot!(world.decide(), @"g: wait (waiting for pods: 1 of minCount 2 exist)");
}

// The owner of a pod was read once, when the pod was first observed.
#[test]
fn a_pod_that_the_owner_of_its_group_adopts_becomes_a_member() {
    let mut world =
        TextCluster::of("node a gpu=8; group g gang minCount=2 owner=Job:a pods=1 gpu=1; pod bare group=g gpu=1");
    assert_snapshot!(world.decide(), @"bare: wait (podgroup ns/g belongs to another owner than this pod)");
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "a", "controller": true}]);
    world.change_pod("bare", |pod| pod["metadata"]["ownerReferences"] = owner);
    assert_snapshot!(world.decide_and_bind(), @"g: bind g-0 to a, bare to a");
    // Its owner abandons it while it runs.
    world.change_pod("bare", |pod| pod["metadata"]["ownerReferences"] = json!([]));
    world.apply("delete g-0; pod g-1 group=g owner=Job:a gpu=1");
    world.now += Duration::from_secs(1);
    assert_eq!(world.decide(), "");
    world.now += Duration::from_secs(1);
    assert_snapshot!(world.decide(), @"g: wait (waiting for pods: 1 of minCount 2 exist)");
}

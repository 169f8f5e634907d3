//! Gangs and Basic groups: all or nothing, which pods count, what wakes a group.

use std::time::Duration;

use insta::assert_snapshot;
use serde_json::json;

use super::text_cluster::{TextCluster, decide_text};
use crate::{DecisionAction, RefusalCause};

// Most pods here request only GPUs. On nodes of 96 CPUs their default of 100m does not change a score in whole
// percents, so ties go to the node observed first and fill it.

#[test]
fn gang_is_bound_when_all_of_it_fits() {
    let cluster = "node a gpu=2; node b gpu=1; group trainer gang minCount=3 pods=3 gpu=1";
    assert_snapshot!(decide_text(cluster), @"trainer: bind trainer-0 to a, trainer-1 to a, trainer-2 to b");
}

// Shows: S002-30
// Shows: S003-16
#[test]
fn gang_waits_when_one_pod_does_not_fit() {
    let cluster = "node a gpu=2; node b gpu=1; group trainer gang minCount=4 pods=4 gpu=1";
    assert_snapshot!(
        decide_text(cluster),
        @"trainer: wait (gang of 4 does not fit: 3 of 4 pods fit (1 more needed; Insufficient nvidia.com/gpu on 2 of 2 nodes))"
    );
}

#[test]
fn pods_beyond_min_count_are_placed_as_far_as_they_fit() {
    let cluster = "node a gpu=3; group trainer gang minCount=2 pods=5 gpu=1";
    assert_snapshot!(
        decide_text(cluster),
        @"trainer: bind trainer-0 to a, trainer-1 to a, trainer-2 to a (no more pods fit (Insufficient nvidia.com/gpu on 1 of 1 nodes))"
    );
}

// Shows: S002-26
// Shows: S002-27
#[test]
fn basic_group_places_each_pod_that_fits() {
    let cluster = "node a gpu=1; group batch basic pods=3 gpu=1";
    assert_snapshot!(
        decide_text(cluster),
        @"batch: bind batch-0 to a (no more pods fit (Insufficient nvidia.com/gpu on 1 of 1 nodes))"
    );
    let cluster = "node a gpu=1; group batch basic pods=3 gpu=2";
    assert_snapshot!(
        decide_text(cluster),
        @"batch: wait (no pod fits (Insufficient nvidia.com/gpu on 1 of 1 nodes))"
    );
}

#[test]
fn competing_gangs_never_share_the_capacity_of_one() {
    let mut world = TextCluster::of(
        "node a gpu=3; node b gpu=3; group first gang minCount=4 pods=4 gpu=1; group second gang minCount=4 pods=4 gpu=1",
    );
    assert_snapshot!(world.decide_and_bind(), @"
    first: bind first-0 to a, first-1 to a, first-2 to a, first-3 to b
    second: wait (gang of 4 does not fit: 2 of 4 pods fit (2 more needed; Insufficient nvidia.com/gpu on 2 of 2 nodes))
    ");
    world.apply("delete first-0; delete first-1; delete first-2; delete first-3");
    assert_snapshot!(world.decide(), @"second: bind second-0 to a, second-1 to a, second-2 to a, second-3 to b");
}

// Shows: S002-19
// Shows: U-TestPodGroupSequentialQueueing
#[test]
fn higher_priority_is_first_and_equals_are_in_order() {
    let mut world = TextCluster::of(
        "group low gang minCount=1 pods=1 gpu=1; group also gang minCount=1 pods=1 gpu=1;
         group high gang minCount=1 groupPriority=10 pods=1 gpu=1; node a gpu=2",
    );
    assert_snapshot!(world.decide(), @"
    high: bind high-0 to a
    low: bind low-0 to a
    also: wait (gang of 1 does not fit: 0 of 1 pods fit (1 more needed; Insufficient nvidia.com/gpu on 1 of 1 nodes))
    ");
}

// Shows: S003-15
#[test]
fn gang_is_not_decided_before_its_pods_exist() {
    let mut world = TextCluster::of("node a gpu=8; group trainer gang minCount=4 pods=3 gpu=1");
    assert_eq!(world.decide(), "");
    assert_eq!(world.core.next_at(), Some(world.now + Duration::from_secs(1)));
    world.now += Duration::from_secs(1);
    assert_snapshot!(world.decide(), @"trainer: wait (waiting for pods: 3 of minCount 4 exist)");
    assert_eq!((world.decide().as_str(), world.core.next_at()), ("", None));
    world.apply("pod trainer-3 group=trainer gpu=1");
    assert_snapshot!(world.decide(), @"trainer: bind trainer-0 to a, trainer-1 to a, trainer-2 to a, trainer-3 to a");
}

// Shows: S000-46
// Shows: S003-15
// Shows: S003-18
#[test]
fn pods_wait_for_their_pod_group_by_name() {
    let mut world = TextCluster::of("node a gpu=8; pods trainer 2 group=trainer gpu=1");
    assert_eq!(world.decide(), "");
    world.now += Duration::from_secs(1);
    assert_snapshot!(world.decide(), @"trainer: wait (waiting for podgroup ns/trainer to exist)");
    world.apply("group trainer gang minCount=2");
    assert_snapshot!(world.decide(), @"trainer: bind trainer-0 to a, trainer-1 to a");
}

#[test]
fn replacement_pod_joins_running_gang() {
    let mut world = TextCluster::of("node a gpu=4; group trainer gang minCount=4 pods=4 gpu=1");
    world.decide_and_bind();
    world.apply("delete trainer-1; pod trainer-new group=trainer gpu=1");
    assert_snapshot!(world.decide(), @"trainer: bind trainer-new to a");
}

#[test]
fn replacement_joins_although_other_members_have_finished() {
    let mut world = TextCluster::of("node a gpu=3; group trainer gang minCount=3 pods=3 gpu=1 owner=Job:j");
    world.decide_and_bind();
    world
        .apply("finish trainer-0; finish trainer-1; delete trainer-2; pod trainer-new group=trainer gpu=1 owner=Job:j");
    assert_snapshot!(world.decide(), @"trainer: bind trainer-new to a");
}

#[test]
fn later_pods_of_a_satisfied_gang_are_placed_as_they_arrive_while_others_run() {
    // With AlwaysMin there is nothing to decide: three of four pods are too few.
    for (later, want) in [("OnceSatisfied", "trainer: bind trainer-new to a"), ("AlwaysMin", "")] {
        let mut world = TextCluster::of("node a gpu=4; group trainer gang minCount=4 pods=4 gpu=1");
        world.decide_and_bind();
        world.apply(&format!("group trainer gang minCount=4 placed=True later={later}"));
        world.apply("delete trainer-1; delete trainer-2; pod trainer-new group=trainer gpu=1");
        assert_eq!(world.decide(), want, "{later}");
    }
}

#[test]
fn a_satisfied_gang_without_running_pods_starts_as_a_whole() {
    let mut world = TextCluster::of("node a gpu=3; group trainer gang minCount=3 pods=3 gpu=1");
    world.decide_and_bind();
    world.apply("group trainer gang minCount=3 placed=True; delete trainer-0; delete trainer-1; delete trainer-2");
    world.apply("pod again-0 group=trainer gpu=1; pod again-1 group=trainer gpu=1");
    assert_eq!(world.decide(), "", "two of three");
    world.apply("pod again-2 group=trainer gpu=1");
    assert_snapshot!(world.decide(), @"trainer: bind again-0 to a, again-1 to a, again-2 to a");
}

#[test]
fn gang_in_flight_is_decided_again_only_for_new_pods() {
    let mut world = TextCluster::of("node a gpu=4; group trainer gang minCount=2 pods=2 gpu=1");
    assert_snapshot!(world.decide(), @"trainer: bind trainer-0 to a, trainer-1 to a");
    // The watch shows the pod once more in a state from before its bind.
    world.change_pod("trainer-0", |pod| pod["status"]["conditions"] = json!([]));
    assert_eq!(world.decide(), "");
    world.apply("pod trainer-2 group=trainer gpu=1");
    assert_snapshot!(world.decide(), @"trainer: bind trainer-2 to a");
}

#[test]
fn failed_bind_frees_the_capacity_and_backs_off_longer_each_time() {
    let mut world = TextCluster::of("node a gpu=2; group trainer gang minCount=2 pods=2 gpu=1");
    for seconds in [1, 2, 4, 8, 10, 10] {
        assert_eq!(world.decide(), "trainer: bind trainer-0 to a, trainer-1 to a");
        world.apply("fail trainer-0; fail trainer-1");
        assert_eq!(world.core.next_at(), Some(world.now + Duration::from_secs(seconds)));
        assert_eq!(world.decide(), "");
        world.now += Duration::from_secs(seconds);
    }
    world.decide_and_bind();
    world.apply("delete trainer-1; pod trainer-2 group=trainer gpu=1");
    world.decide();
    world.apply("fail trainer-2");
    assert_eq!(world.core.next_at(), Some(world.now + Duration::from_secs(1)));
}

// Shows: U-TestPodGroupQueueing
#[test]
fn refused_gang_is_retried_when_capacity_grows_and_not_before() {
    let mut world = TextCluster::of(
        "node a gpu=2; node b gpu=2 taint=k:NoSchedule; pod x node=a gpu=1 cpu=1; pod y node=a cpu=1;
         group trainer gang minCount=2 pods=2 gpu=1",
    );
    assert!(world.decide().starts_with("trainer: wait"));
    for irrelevant in [
        "delete y",
        "node a gpu=2 label=new",
        "node b gpu=2 taint=other:NoSchedule",
        "node c gpu=0",
        "pod z node=a",
        "node a gpu=1 label=new",
    ] {
        world.apply(irrelevant);
        assert_eq!(world.decide(), "", "{irrelevant}");
    }
    world.apply("node b gpu=2");
    assert_snapshot!(world.decide(), @"trainer: bind trainer-0 to b, trainer-1 to b");
}

#[test]
fn capacity_behind_a_removed_taint_is_noticed_when_it_grows_later() {
    // The node was tainted and full. Removing the taint alone does not help, the pod that leaves next does.
    let mut world = TextCluster::of("node a gpu=1 taint=k:NoSchedule; pod x node=a gpu=1; pod p gpu=1");
    assert!(world.decide().starts_with("p: wait"));
    world.apply("node a gpu=1");
    assert_snapshot!(world.decide(), @"p: wait (0/1 nodes are available: 1 Insufficient nvidia.com/gpu.)");
    world.apply("delete x");
    assert_snapshot!(world.decide(), @"p: bind p to a");
}

#[test]
fn refusal_says_whether_waiting_can_help() {
    for (case, text, can_fit_later) in [
        ("capacity is in use", "node a gpu=2; pod x node=a gpu=1; group g gang minCount=2 pods=2 gpu=1", true),
        ("never enough capacity", "node a gpu=1; pod x node=a gpu=1; group g gang minCount=2 pods=2 gpu=1", false),
        ("node is tainted", "node a gpu=2 taint=k:NoSchedule; group g gang minCount=2 pods=2 gpu=1", false),
        (
            "domains too small",
            "node a gpu=1 rack=r; node b gpu=1 rack=s; group g gang minCount=2 pods=2 gpu=1 key=rack",
            false,
        ),
    ] {
        let mut world = TextCluster::of(text);
        let decision = world.core.next(world.now).unwrap();
        let DecisionAction::Wait(refusal) = decision.action else { panic!("{case}") };
        assert_eq!(
            (refusal.cause, refusal.can_fit_later, refusal.proven),
            (RefusalCause::DoesNotFit, can_fit_later, true),
            "{case}"
        );
    }
}

#[test]
fn gated_and_deleting_members_neither_count_nor_are_placed() {
    let mut world = TextCluster::of("node a gpu=4; group g gang minCount=2 pods=1 gpu=1; pod g-1 group=g gpu=1 gate=x");
    assert_eq!(world.decide(), "");
    world.change_pod("g-1", |pod| pod["spec"]["schedulingGates"] = json!([]));
    world.change_pod("g-0", |pod| pod["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z"));
    assert_eq!(world.decide(), "");
    world.apply("pod g-2 group=g gpu=1");
    assert_snapshot!(world.decide(), @"g: bind g-1 to a, g-2 to a");
}

// It backed off and then had nothing to decide, and was never reported.
#[test]
fn a_gang_that_lacks_pods_when_its_bind_fails_is_reported() {
    let mut world = TextCluster::of("node a gpu=2; group g gang minCount=2 pods=2 gpu=1");
    assert_eq!(world.decide(), "g: bind g-0 to a, g-1 to a");
    world.apply("delete g-0; fail g-1");
    assert_eq!(world.decide(), "");
    world.now += Duration::from_secs(20);
    assert_snapshot!(world.decide(), @"g: wait (waiting for pods: 1 of minCount 2 exist)");
    world.apply("pod g-2 group=g gpu=1");
    assert_snapshot!(world.decide(), @"g: bind g-1 to a, g-2 to a");
}

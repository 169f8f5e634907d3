//! CompositePodGroups: until they are placed as a whole, groups below one that requests more than Basic wait.

use std::time::Duration;

use insta::assert_snapshot;

use super::text_cluster::TextCluster;

const SECOND: Duration = Duration::from_secs(1);

/// What is decided once the groups have been incomplete for long enough.
fn late_decisions(world: &mut TextCluster) -> String {
    assert_eq!(world.decide(), "", "nothing is bound");
    world.now += SECOND;
    world.decide()
}

#[test]
fn a_child_of_a_gang_of_groups_does_not_start_alone() {
    let mut world = TextCluster::of(
        "node a gpu=3; composite both gang; group one gang minCount=2 pods=2 gpu=1 parent=both;
         group two gang minCount=2 pods=2 gpu=1 parent=both; group free gang minCount=1 gpu=1",
    );
    assert_snapshot!(late_decisions(&mut world), @"
    one: wait (compositepodgroup ns/both requests more than Basic, which this scheduler does not support yet; the pods wait because they would start without their sibling groups)
    two: wait (compositepodgroup ns/both requests more than Basic, which this scheduler does not support yet; the pods wait because they would start without their sibling groups)
    ");
    world.apply("pod free-0 group=free gpu=1");
    assert_snapshot!(world.decide(), @"free: bind free-0 to a");
    // The policy is immutable, but the object can be recreated.
    world.apply("forget both");
    assert_snapshot!(late_decisions(&mut world), @"
    one: wait (waiting for compositepodgroup ns/both to exist)
    two: wait (waiting for compositepodgroup ns/both to exist)
    ");
    world.apply("composite both basic");
    assert!(world.decide().starts_with("one: bind one-0 to a, one-1 to a"));
}

#[test]
fn groups_in_one_domain_are_more_than_basic() {
    let mut world =
        TextCluster::of("node a gpu=3; composite both basic key=rack; group g basic pods=1 gpu=1 parent=both");
    assert!(late_decisions(&mut world).starts_with("g: wait (compositepodgroup ns/both requests more than Basic"));
}

#[test]
fn every_level_counts_in_any_order_of_arrival() {
    let mut world = TextCluster::of("node a gpu=3; pod g-0 group=g gpu=1; group g basic parent=inner");
    assert_snapshot!(late_decisions(&mut world), @"g: wait (waiting for compositepodgroup ns/inner to exist)");
    world.apply("composite inner basic parent=outer");
    assert_snapshot!(late_decisions(&mut world), @"g: wait (waiting for compositepodgroup ns/outer to exist)");
    world.apply("composite outer gang");
    assert!(late_decisions(&mut world).starts_with("g: wait (compositepodgroup ns/outer requests more than Basic"));
    world.apply("composite outer basic");
    assert_snapshot!(world.decide(), @"g: bind g-0 to a");
}

#[test]
fn a_group_below_a_cycle_of_parents_waits() {
    let mut world = TextCluster::of(
        "node a gpu=3; composite one basic parent=two; composite two basic parent=one; group g basic pods=1 parent=one",
    );
    assert_snapshot!(late_decisions(&mut world), @"g: wait (the parents of the group form a cycle, compositepodgroup ns/one → ns/two → ns/one: delete one of them)");
    // A parent that leads into the cycle is not part of it.
    world.apply("composite low basic parent=two; group g basic parent=low");
    assert_snapshot!(late_decisions(&mut world), @"g: wait (the parents of the group form a cycle, compositepodgroup ns/two → ns/one → ns/two: delete one of them)");
    world.apply("composite one basic");
    assert_snapshot!(world.decide(), @"g: bind g-0 to a");
    world.apply("composite self basic parent=self; group h basic pods=1 parent=self");
    assert_snapshot!(late_decisions(&mut world), @"h: wait (the parents of the group form a cycle, compositepodgroup ns/self → ns/self: delete one of them)");
}

#[test]
fn a_group_that_leaves_its_parent_is_placed() {
    let mut world = TextCluster::of("node a gpu=3; composite both gang; group g basic pods=1 parent=both");
    assert!(late_decisions(&mut world).starts_with("g: wait"));
    world.apply("group g basic");
    assert_snapshot!(world.decide(), @"g: bind g-0 to a");
    world.forget_group("g");
    world.apply("delete g-0; forget both");
    assert_eq!(world.decide(), "");
}

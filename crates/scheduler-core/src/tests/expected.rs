//! The expected count of a group: a gang does not wait for more pods than it can have, and its domain is chosen for
//! all.

use insta::assert_snapshot;

use super::text_cluster::{TextCluster, decide_text};

#[test]
fn a_failed_member_is_replaced_although_the_succeeded_one_is_gone() {
    let mut world = TextCluster::of("node a gpu=2; group g gang minCount=2 expected=2 pods=2 gpu=1 owner=Job:j");
    world.decide_and_bind();
    world.apply("group g gang minCount=2 placed=True expected=2; finish g-0; delete g-0");
    world.apply("delete g-1; pod again group=g gpu=1 owner=Job:j");
    assert_eq!(world.decide(), "", "two are expected");
    // The Job has one index left to complete. The change of the annotation alone wakes the group.
    world.apply("group g gang minCount=2 placed=True expected=1");
    assert_snapshot!(world.decide(), @"g: bind again to a");
}

#[test]
fn a_gang_waits_for_at_least_one_pod_and_at_most_min_count() {
    for (expected, want) in [("0", "g: bind g-0 to a"), ("8", ""), ("-1", ""), ("some", "")] {
        let cluster = format!("node a gpu=8; group g gang minCount=2 expected={expected} pods=1 gpu=1");
        assert_eq!(decide_text(&cluster), want, "{expected}");
    }
}

#[test]
fn the_rest_of_a_gang_starts_as_a_whole() {
    let mut world = TextCluster::of("node a gpu=3; group g gang minCount=3 expected=3 pods=3 gpu=1 owner=Job:j");
    world.decide_and_bind();
    world.apply("finish g-0; group g gang minCount=3 placed=True expected=2; delete g-1; delete g-2");
    world.apply("pod other node=a gpu=2; pods again 2 group=g gpu=1 owner=Job:j");
    assert!(world.decide().starts_with("g: wait (gang of 2 does not fit: 1 of 2 pods fit"), "one of two is too few");
    world.apply("delete other");
    assert_snapshot!(world.decide(), @"g: bind again-0 to a, again-1 to a");
}

const RACKS: &str = "node a gpu=4 rack=small; node b gpu=6 rack=medium; node c gpu=9 rack=large;";

#[test]
fn a_gang_that_arrives_in_batches_is_placed_in_a_domain_with_capacity_for_all_of_it() {
    for (expected, rack) in [("", "a"), (" expected=4", "a"), (" expected=8", "c"), (" expected=5", "b")] {
        let group = format!("group g gang minCount=4 key=rack{expected} pods=4 gpu=1");
        let mut world = TextCluster::of(&format!("{RACKS} {group}"));
        let want = format!("g: bind g-0 to {rack}, g-1 to {rack}, g-2 to {rack}, g-3 to {rack}");
        assert_eq!(world.decide_and_bind(), want, "{expected}");
    }
    let mut world = TextCluster::of(&format!("{RACKS} group g gang minCount=4 key=rack expected=8 pods=4 gpu=1"));
    world.decide_and_bind();
    world.apply("pods more 4 group=g gpu=1");
    assert_snapshot!(world.decide(), @"g: bind more-0 to c, more-1 to c, more-2 to c, more-3 to c");
}

#[test]
fn if_no_domain_has_capacity_for_all_the_best_one_is_chosen() {
    let cluster = format!("{RACKS} group g gang minCount=4 key=rack expected=10 pods=4 gpu=1");
    assert_snapshot!(decide_text(&cluster), @"g: bind g-0 to a, g-1 to a, g-2 to a, g-3 to a");
}

#[test]
fn a_basic_group_is_placed_in_a_domain_with_capacity_for_all_of_it() {
    let cluster = format!("{RACKS} group g basic key=rack expected=9 pods=1 gpu=1");
    assert_snapshot!(decide_text(&cluster), @"g: bind g-0 to c");
}

#[test]
fn pods_of_two_sizes_are_placed_in_a_domain_with_capacity_for_all_of_them() {
    let cluster = format!(
        "{RACKS} group g gang minCount=2 key=rack expected=7; pods small 2 group=g gpu=1; pod large group=g gpu=2"
    );
    // Four more of the small ones are expected: eight GPUs in all.
    assert_snapshot!(decide_text(&cluster), @"g: bind large to c, small-0 to c, small-1 to c");
}

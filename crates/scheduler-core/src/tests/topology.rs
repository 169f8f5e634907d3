//! Groups whose pods must share one topology domain.

use std::time::Duration;

use insta::assert_snapshot;

use super::text_cluster::{TextCluster, decide_text};
use crate::{Config, DecisionAction};

const RACKS: &str =
    "node a gpu=4 rack=r1; node b gpu=4 rack=r1; node c gpu=2 rack=r2; node d gpu=2 rack=r2; node e gpu=9;";

// Shows: S002-32
// Shows: S002-43
#[test]
fn gang_is_placed_in_the_tightest_domain_in_which_it_fits() {
    let cluster = format!("{RACKS} group g gang minCount=4 pods=4 gpu=1 key=rack");
    assert_snapshot!(decide_text(&cluster), @"g: bind g-0 to c, g-1 to c, g-2 to d, g-3 to d");
}

#[test]
fn gang_is_placed_in_a_larger_domain_in_which_more_of_its_pods_fit() {
    let cluster = format!("{RACKS} group g gang minCount=4 pods=5 gpu=1 key=rack");
    assert_snapshot!(decide_text(&cluster), @"g: bind g-0 to a, g-1 to a, g-2 to a, g-3 to a, g-4 to b");
}

// Kubernetes' topology suite found that an empty rack was chosen although a rack in use had exactly as many slots.
#[test]
fn of_two_domains_with_equally_many_slots_left_over_the_one_in_use_is_chosen() {
    let racks = "node a gpu=4 rack=r1; node b gpu=4 rack=r2; node c gpu=2 rack=r2; pod x node=b gpu=2;";
    let cluster = format!("{racks} group g gang minCount=3 pods=3 gpu=1 key=rack");
    assert_snapshot!(decide_text(&cluster), @"g: bind g-0 to b, g-1 to b, g-2 to c");
}

// Shows: S002-33
#[test]
fn refusal_names_the_nearest_domain_and_what_is_missing() {
    let cluster = format!("{RACKS} pod x node=a gpu=2; group g gang minCount=9 pods=9 gpu=1 key=rack");
    let mut world = TextCluster::of(&cluster);
    let decision = world.core.next(world.now).unwrap();
    let DecisionAction::Wait(refusal) = decision.action else { panic!("{decision:?}") };
    assert_snapshot!(refusal.message(), @"gang of 9 does not fit: 6 of 9 pods fit in the nearest domain rack=r1 (3 more needed; Insufficient nvidia.com/gpu on 2 of 2 nodes)");
    assert_snapshot!(refusal.pod_message(), @"pod group is unschedulable, 6 of 9 pods fit; for one more 0/5 nodes are available: 1 node(s) didn't have the topology label of the group, 2 Insufficient nvidia.com/gpu, 2 node(s) were in a topology domain without capacity for the group.");
    let nearest = refusal.nearest.unwrap();
    assert_eq!((nearest.value.as_str(), nearest.fits_count, nearest.missing_count), ("r1", 6, 3));
    let slots: Vec<_> = refusal.domains.iter().map(|domain| (domain.value.as_str(), domain.fits_count)).collect();
    assert_eq!(slots, [("r1", 6), ("r2", 4)]);
}

// Shows: S002-34
// Shows: S002-35
#[test]
fn later_pods_are_pinned_to_the_domain_of_the_first() {
    let mut world = TextCluster::of(&format!("{RACKS} group g gang minCount=3 pods=3 gpu=1 key=rack"));
    world.decide_and_bind();
    world.apply("pods more 2 group=g gpu=1");
    assert_snapshot!(world.decide_and_bind(), @"g: bind more-0 to d (no more pods fit in the domain of its members rack=r2 (Insufficient nvidia.com/gpu on 2 of 2 nodes))");
    world.apply("delete g-0");
    assert_snapshot!(world.decide(), @"g: bind more-1 to c");
}

// Shows: S002-39
#[test]
fn basic_group_stays_in_one_domain_too() {
    let cluster = format!("{RACKS} group g basic pods=9 gpu=1 key=rack");
    assert_snapshot!(decide_text(&cluster), @"g: bind g-0 to a, g-1 to a, g-2 to a, g-3 to a, g-4 to b, g-5 to b, g-6 to b, g-7 to b (no more pods fit in the domain of its members rack=r1 (Insufficient nvidia.com/gpu on 2 of 2 nodes))");
}

#[test]
fn members_in_two_domains_are_named() {
    let cluster = format!(
        "{RACKS} pod x node=a group=g gpu=1; pod y node=c group=g gpu=1; group g gang minCount=3 pods=1 gpu=1 key=rack"
    );
    let mut world = TextCluster::of(&cluster);
    assert_snapshot!(world.decide(), @"g: wait (members already run in several domains of rack: r1, r2)");
    world.apply("delete y; pod z group=g gpu=1");
    assert_snapshot!(world.decide(), @"g: bind g-0 to a, z to a");
}

// Shows: S002-34
#[test]
fn members_on_a_node_that_lost_its_label_block_pods_in_other_domains() {
    // Such a group counted as one without members, and its next pod was placed in another rack.
    let mut world = TextCluster::of(&format!("{RACKS} group g gang minCount=2 pods=2 gpu=1 key=rack"));
    assert_snapshot!(world.decide_and_bind(), @"g: bind g-0 to c, g-1 to c");
    world.apply("node c gpu=2; pod late group=g gpu=1");
    assert_snapshot!(world.decide(), @"g: wait (members already run on node c, which has no label rack: label the node, or delete the members on it)");
    world.apply("node c gpu=2 rack=r2");
    assert_snapshot!(world.decide(), @"g: bind late to d");
}

#[test]
fn members_of_a_deleted_node_do_not_pin_new_pods() {
    let mut world = TextCluster::of("node a gpu=2 rack=r1; node b gpu=2 rack=r2");
    world.apply("group g basic key=rack; pod old node=a group=g gpu=2; node a gpu=2; pod new group=g gpu=1");
    assert_snapshot!(world.decide(), @"g: wait (members already run on node a, which has no label rack: label the node, or delete the members on it)");
    world.apply("drop a");
    assert_snapshot!(world.decide(), @"g: bind new to b");
}

#[test]
fn many_nodes_without_the_label_are_counted() {
    let mut world = TextCluster::of("group g basic key=rack; pod late group=g");
    for node in ["a", "b", "c", "d", "e"] {
        world.apply(&format!("node {node}; pod on-{node} node={node} group=g"));
    }
    assert_snapshot!(world.decide(), @"g: wait (members already run on nodes a, b, c and 2 more, which have no label rack: label the nodes, or delete the members on them)");
}

#[test]
fn a_topology_key_that_no_node_has_is_named() {
    let cluster = "node a gpu=1; group g gang minCount=1 pods=1 gpu=1 key=rack";
    let mut world = TextCluster::of(cluster);
    assert_snapshot!(world.decide(), @"g: wait (no node has the topology label rack)");
    world.apply("node a gpu=1 rack=r");
    assert_snapshot!(world.decide(), @"g: bind g-0 to a");
}

// The reservation counted free slots of all pods alike. It chose the rack with many slots for workers and none for the
// leader, while the refusal named the other one.
#[test]
fn capacity_is_reserved_in_the_domain_that_a_decision_ranks_first() {
    let config = Config { reserve_after: Some(Duration::from_secs(10)), ..Config::default() };
    let mut world = TextCluster::with(config, "node a gpu=4 rack=r1; node b gpu=4 rack=r1; node c gpu=4 rack=r1");
    world.apply("node d gpu=4 rack=r2; node e gpu=4 rack=r2; pods long 4 gpu=1 node=e");
    world.apply("pod x node=a gpu=1; pod y node=b gpu=1; pod z node=c gpu=1");
    world.apply("group g gang minCount=5 key=rack; pod leader gpu=4 group=g; pods worker 4 gpu=1 group=g");
    let refusal = world.decide();
    assert!(refusal.contains("nearest domain rack=r2"), "{refusal}");
    world.now += Duration::from_secs(11);
    assert_eq!(world.decide(), "");
    assert!(world.core.has_reservation());
    // Without the reservation it would get the empty node of the second rack.
    world.apply("pod small gpu=1");
    assert_snapshot!(world.decide(), @"small: bind small to a");
}

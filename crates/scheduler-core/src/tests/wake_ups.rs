//! Every kind of change that lets a waiting gang fit wakes it, for gangs of one class and of two.

use std::time::Duration;

use serde_json::json;

use super::text_cluster::TextCluster;

/// Applies each change to a cluster in which `g` waits. It is bound at once, and no wake-up is missed.
fn check_wakes(cases: &[(&str, &str, &str)]) {
    for (case, cluster, change) in cases {
        let mut world = waiting(cluster, case);
        world.apply(change);
        check_bound(&mut world, case);
    }
}

fn waiting(cluster: &str, case: &str) -> TextCluster {
    let mut world = TextCluster::of(cluster);
    let first = world.decide_and_bind();
    world.now += Duration::from_secs(1);
    let refused = first + &world.decide_and_bind();
    assert!(refused.contains("g: wait") && !refused.contains("g: bind"), "{case}: {refused}");
    world
}

fn check_bound(world: &mut TextCluster, case: &str) {
    let decided = world.decide_and_bind();
    assert!(decided.contains("g: bind"), "{case}: {decided}");
    assert_eq!(world.core.take_missed_wakeups(), 0, "{case}");
    world.core.assert_consistent();
}

/// A leader of 3 GPUs and a worker of 2.
const PAIR: &str = "group g gang minCount=2; pod leader group=g gpu=3; pod worker group=g gpu=2";

#[test]
fn a_member_that_is_added_or_removed_wakes_the_gang_that_it_lets_fit() {
    check_wakes(&[
        ("the last one", "node a gpu=2; group g gang minCount=2 pods=1 gpu=1", "pod h group=g gpu=1"),
        ("a smaller one", "node a gpu=3; group g gang minCount=2 pods=2 gpu=2", "pod h group=g gpu=1"),
        ("instead of a larger one", &format!("node a gpu=4; {PAIR}"), "delete leader; pod h group=g gpu=2"),
        (
            "one with an unsupported term is removed",
            "node a gpu=2; group g gang minCount=2 pods=2 gpu=1; pod h group=g gpu=1 apart=rack",
            "delete h",
        ),
    ]);
}

#[test]
fn a_pod_that_is_resized_wakes_the_gang_that_it_lets_fit() {
    for (case, cluster, resized, gpu) in [
        ("a member", "node a gpu=3; group g gang minCount=2 pods=2 gpu=2", "g-0", 1),
        ("the leader", &*format!("node a gpu=4; {PAIR}"), "leader", 2),
        ("a bound pod", "node a gpu=3; pod x node=a gpu=2; group g gang minCount=2 pods=2 gpu=1", "x", 1),
        ("a bound pod beside a mixed gang", &*format!("node a gpu=6; pod x node=a gpu=2; {PAIR}"), "x", 1),
    ] {
        let mut world = waiting(cluster, case);
        world.change_pod(resized, |pod| {
            pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = json!(gpu.to_string());
        });
        check_bound(&mut world, case);
    }
}

#[test]
fn a_gate_that_is_removed_wakes_the_gang_that_waits_for_it() {
    for (case, cluster) in [
        ("too few without it", "node a gpu=2; group g gang minCount=2 pods=1 gpu=1; pod h group=g gpu=1 gate=x"),
        ("too large without it", "node a gpu=3; group g gang minCount=2 pods=2 gpu=2; pod h group=g gpu=1 gate=x"),
        ("a Basic group in one rack", "node a gpu=2 rack=r; group g basic key=rack pods=1; pod h group=g gate=x"),
    ] {
        let mut world = waiting(cluster, case);
        world.change_pod("h", |pod| pod["spec"]["schedulingGates"] = json!([]));
        check_bound(&mut world, case);
    }
}

#[test]
fn a_lower_quorum_wakes_the_gang_that_it_lets_fit() {
    check_wakes(&[
        ("minCount", "node a gpu=2; group g gang minCount=3 pods=3 gpu=1", "group g gang minCount=2"),
        (
            "minCount of one that lacks pods",
            "node a gpu=2; group g gang minCount=3 pods=2 gpu=1",
            "group g gang minCount=2",
        ),
        ("minCount of a mixed gang", &format!("node a gpu=4; {PAIR}"), "group g gang minCount=1"),
        ("expected count", "node a gpu=2; group g gang minCount=3 pods=2 gpu=1", "group g gang minCount=3 expected=2"),
        (
            "no topology key",
            "node a gpu=1 rack=r; node b gpu=1; group g gang minCount=2 pods=2 gpu=1 key=rack",
            "group g gang minCount=2",
        ),
    ]);
}

#[test]
fn a_change_of_a_node_wakes_the_gang_that_it_lets_fit() {
    let selects = "group g gang minCount=2 pods=2 gpu=1 selects=disk:ssd";
    let in_rack = "group g gang minCount=2 pods=2 gpu=1 key=rack";
    let pair_in_rack = "group g gang minCount=2 key=rack; pod leader group=g gpu=3; pod worker group=g gpu=2";
    let plain = "group g gang minCount=2 pods=2 gpu=1";
    check_wakes(&[
        ("label", &format!("node a gpu=2; {selects}"), "node a gpu=2 disk=ssd"),
        ("label, second node", &format!("node a gpu=1 disk=ssd; node b gpu=1; {selects}"), "node b gpu=1 disk=ssd"),
        ("taint removed", &format!("node a gpu=2 taint=k:NoSchedule; {plain}"), "node a gpu=2"),
        (
            "taint weakened",
            &format!("node a gpu=2 taint=k:NoSchedule; {plain}"),
            "node a gpu=2 taint=k:PreferNoSchedule",
        ),
        ("mixed gang, taint", &format!("node a gpu=5 taint=k:NoSchedule; {PAIR}"), "node a gpu=5"),
        ("uncordoned", &format!("node a gpu=2 cordoned; {plain}"), "node a gpu=2"),
        ("moved to the rack", &format!("node a gpu=1 rack=r; node b gpu=1 rack=s; {in_rack}"), "node b gpu=1 rack=r"),
        ("first rack", &format!("node a gpu=2; {in_rack}"), "node a gpu=2 rack=r"),
        ("mixed gang, rack", &format!("node a gpu=3 rack=r; node b gpu=2; {pair_in_rack}"), "node b gpu=2 rack=r"),
        ("allocatable", &format!("node a gpu=1; {plain}"), "node a gpu=2"),
        (
            "allocatable of another resource",
            "node a gpu=2 cpu=1; group g gang minCount=2 pods=2 gpu=1 cpu=1",
            "node a gpu=2 cpu=2",
        ),
        ("pod slots", &format!("node a gpu=2 pods=1; {plain}"), "node a gpu=2 pods=2"),
        ("mixed gang, allocatable", &format!("node a gpu=4; {PAIR}"), "node a gpu=5"),
        ("a node is added", &format!("node a gpu=1; {plain}"), "node b gpu=1"),
        ("declared feature", "node a; group g gang minCount=2 pods=2 needs=restart", "node a declares=restart"),
    ]);
}

#[test]
fn a_reservation_that_ends_wakes_the_gangs_that_it_kept_out() {
    for (case, waits) in [
        ("one class", "group g gang minCount=2 pods=2 gpu=2"),
        ("two classes", "group g gang minCount=2; pod leader group=g gpu=3; pod worker group=g gpu=1"),
    ] {
        // The large gang lacks one GPU, so all that is free is reserved for it.
        let mut world =
            TextCluster::of("node a gpu=8; pods run 8 node=a gpu=1; group large gang minCount=8 pods=8 gpu=1");
        world.decide();
        for _ in 0..61 {
            world.now += Duration::from_secs(1);
            world.decide();
        }
        assert!(world.core.has_reservation(), "{case}");
        world.apply(&format!("delete run-0; delete run-1; delete run-2; delete run-3; {waits}"));
        assert!(world.decide_and_bind().contains("g: wait"), "{case}");
        // Nothing more becomes free, so it ends.
        let start = world.now;
        let mut decided = String::new();
        while !decided.contains("g: bind") {
            world.now =
                world.core.next_at().expect("a reservation has an end").max(world.now + Duration::from_millis(1));
            assert!(world.now < start + Duration::from_secs(120), "{case}: nothing is bound");
            decided = world.decide_and_bind();
            assert_eq!(decided.contains("g: bind"), !world.core.has_reservation(), "{case}: {decided}");
        }
        assert_eq!(world.core.take_missed_wakeups(), 0, "{case}");
    }
}

//! What is reserved for whom. Reservations do not starve later units: they end if nothing becomes free, and there are
//! gaps between them.

use std::time::Duration;

use insta::assert_snapshot;

use super::text_cluster::TextCluster;
use crate::Config;

const SECOND: Duration = Duration::from_secs(1);

/// Two nodes with five long pods each, and gangs that would need both nodes whole, with the default settings.
fn hopeless_gangs(count: usize) -> TextCluster {
    let mut world = TextCluster::with(Config::default(), "node a gpu=8; node b gpu=8");
    world.apply("pods long-a 5 gpu=1 node=a; pods long-b 5 gpu=1 node=b");
    for number in 0..count {
        world.apply(&format!("group g{number} gang minCount=2 pods=2 gpu=8"));
    }
    world.decide();
    world
}

/// How long it takes until the pod is bound, if nothing else happens.
fn bound_after(world: &mut TextCluster, name: &str) -> Duration {
    let start = world.now;
    while !world.decide_and_bind().contains(&format!("{name}: bind")) {
        world.now =
            world.core.next_at().expect("the core has something to do").max(world.now + Duration::from_millis(1));
        assert!(world.now < start + 3600 * SECOND, "{name} is not bound in an hour");
    }
    world.now.duration_since(start).unsigned_abs()
}

/// Lets time pass, with decisions whenever the core requests them.
fn pass(world: &mut TextCluster, time: Duration) {
    let end = world.now + time;
    while let Some(at) = world.core.next_at().filter(|at| *at <= end) {
        world.now = world.now.max(at);
        world.decide_and_bind();
    }
    world.now = end;
}

#[test]
fn a_small_pod_is_placed_within_90_seconds_beside_ten_waiting_gangs() {
    let mut world = hopeless_gangs(10);
    pass(&mut world, 61 * SECOND);
    assert!(world.core.has_reservation());
    // One after the other for six hours, at various moments.
    for number in 0..300 {
        let name = format!("small-{number}");
        world.apply(&format!("pod {name} gpu=1"));
        let waited = bound_after(&mut world, &name);
        assert!(waited <= 90 * SECOND, "{name} waited {waited:?}");
        world.apply(&format!("delete {name}"));
        pass(&mut world, 37 * SECOND);
    }
}

#[test]
fn a_reservation_lasts_while_something_becomes_free_and_ends_when_nothing_does() {
    let mut world = hopeless_gangs(1);
    pass(&mut world, 61 * SECOND);
    for (at, pod) in ["a-0", "b-0", "a-1", "b-1"].into_iter().enumerate() {
        pass(&mut world, 50 * SECOND);
        world.apply(&format!("delete long-{pod}; pod small-{at} gpu=1"));
        assert!(!world.decide_and_bind().contains("bind"));
    }
    pass(&mut world, 61 * SECOND);
    assert!(!world.core.has_reservation());
    assert_eq!(world.pods.values().filter(|pod| pod.node_name().is_some()).count(), 6 + 4);
    // The gang is placed under a later reservation, when the others end in time.
    pass(&mut world, 121 * SECOND);
    assert!(world.core.has_reservation());
    world.apply("pods late 8 gpu=1; pods more 8 gpu=1");
    let mut left: Vec<String> =
        world.pods.iter().filter(|(_, pod)| pod.node_name().is_some()).map(|(name, _)| name.clone()).collect();
    while let Some(name) = left.pop() {
        pass(&mut world, 50 * SECOND);
        world.apply(&format!("delete {name}"));
        let decided = world.decide_and_bind();
        assert_eq!(decided.contains("g0: bind"), left.is_empty(), "{decided}");
    }
}

#[test]
fn reservations_for_many_gangs_keep_at_most_a_tenth_idle_in_the_long_run() {
    let mut world = hopeless_gangs(200);
    let (mut reserved, start) = (Duration::ZERO, world.now);
    let day = 24 * 3600 * SECOND;
    while world.now < start + day {
        let has_reservation = world.core.has_reservation();
        let before = world.now;
        let next = world.core.next_at().expect("there is always a next reservation");
        world.now = next.max(before + Duration::from_millis(1));
        if has_reservation {
            reserved += world.now.duration_since(before).unsigned_abs();
        }
        world.decide();
    }
    // A reservation keeps six of sixteen GPUs idle. The initial balance is an hour's share.
    let idle = reserved.as_secs_f64() * 6.0 / 16.0;
    let share = 0.1 * (day + 3600 * SECOND).as_secs_f64();
    assert!(idle <= share + 60.0, "{idle} cluster-seconds of {share} were kept idle");
    assert!(idle >= 0.9 * share, "{idle} cluster-seconds of {share}: the budget is the limit");
}

// A pod bound to an unobserved node adds a column entry, and the cached slots of empty nodes were from before.
#[test]
fn a_pod_on_an_unobserved_node_does_not_break_the_planning_of_reservations() {
    let mut world = TextCluster::of("node a gpu=2; pod x gpu=1 node=a; group g gang minCount=2 pods=2 gpu=1");
    assert!(world.decide().starts_with("g: wait"));
    world.apply("pod y gpu=1 node=unseen");
    for _ in 0..4 {
        world.now += Duration::from_secs(60);
        world.decide();
    }
    world.apply("delete x");
    assert_eq!(world.decide(), "g: bind g-0 to a, g-1 to a");
}

/// The units that room is reserved for, each as `unit: pods on nodes`.
fn reserved(world: &TextCluster) -> Vec<String> {
    let queue = world.core.queue();
    let with = queue.into_iter().filter_map(|queued| Some((queued.unit, queued.reservation?)));
    with.map(|(unit, one)| format!("{}: {} on {}", unit.key().name, one.pods_count, one.nodes_count)).collect()
}

#[test]
fn a_large_pod_is_overtaken_by_small_ones_only_until_the_limit() {
    let mut world = TextCluster::of("node a gpu=4; pods run 4 gpu=1");
    world.decide_and_bind();
    world.apply("pod large gpu=4; pod small-0 gpu=1; delete run-0");
    assert!(world.decide_and_bind().contains("small-0: bind"));
    pass(&mut world, 61 * SECOND);
    assert_eq!(reserved(&world), ["large: 1 on 1"]);
    world.apply("delete run-1; delete run-2; pod small-1 gpu=1");
    assert!(!world.decide_and_bind().contains("bind"));
    world.apply("delete run-3; delete small-0");
    assert!(world.decide_and_bind().starts_with("large: bind large to a"));
    assert!(!world.core.has_reservation());
}

#[test]
fn pods_that_fit_into_what_becomes_free_get_no_reservation() {
    let mut world = TextCluster::of("node a gpu=2; pods run 2 gpu=1");
    world.decide_and_bind();
    world.apply("pods small 20 gpu=1; pod large gpu=2 priority=1");
    world.decide_and_bind();
    // Nothing becomes free, so nothing overtakes the large pod.
    pass(&mut world, 600 * SECOND);
    assert!(!world.core.has_reservation());
    world.apply("delete large; delete run-0");
    world.decide_and_bind();
    for number in 0..15 {
        pass(&mut world, 70 * SECOND);
        assert!(!world.core.has_reservation());
        world.apply(&format!("delete small-{number}"));
        assert!(world.decide_and_bind().contains(&format!("small-{}: bind", number + 1)));
    }
}

#[test]
fn the_next_of_equal_large_pods_gets_a_reservation_when_the_first_is_deleted() {
    let mut world = TextCluster::of("node a gpu=4; pods run 4 gpu=1; pods large 2 gpu=4");
    world.apply("pods small 2 gpu=1");
    world.decide_and_bind();
    world.apply("delete large-0");
    world.decide();
    world.apply("delete run-0");
    assert!(world.decide_and_bind().contains("small-0: bind"));
    pass(&mut world, 61 * SECOND);
    assert_eq!(reserved(&world), ["large-1: 1 on 1"]);
}

#[test]
fn a_mixed_gang_whose_pods_must_share_a_node_gets_a_reservation() {
    let mut world = TextCluster::of("node a gpu=5; pods run 5 gpu=1; group g gang minCount=2");
    world.decide_and_bind();
    world.apply("pod leader group=g gpu=2; pod worker group=g gpu=3");
    world.decide();
    pass(&mut world, 61 * SECOND);
    assert_eq!(reserved(&world), ["g: 2 on 1"]);
    for number in 0..4 {
        world.apply(&format!("delete run-{number}; pod small-{number} gpu=1"));
        assert!(!world.decide_and_bind().contains("bind"));
    }
    world.apply("delete run-4");
    assert!(world.decide_and_bind().starts_with("g: bind worker to a, leader to a"));
}

#[test]
fn missing_members_of_a_running_gang_get_a_reservation_in_its_domain() {
    let mut world = TextCluster::of(
        "node a gpu=4 rack=r; node b gpu=4 rack=s; pods run-b 4 gpu=1 node=b; group g gang minCount=2 pods=2 gpu=2 key=rack",
    );
    assert!(world.decide_and_bind().starts_with("g: bind g-0 to a, g-1 to a"));
    world.apply("delete g-1; pods small 2 gpu=1");
    world.decide_and_bind();
    world.apply("pod g-2 group=g gpu=2");
    world.decide();
    pass(&mut world, 61 * SECOND);
    assert_eq!(reserved(&world), ["g: 1 on 1"]);
    world.apply("delete small-0; pod late gpu=1");
    assert!(!world.decide_and_bind().contains("bind"));
    world.apply("delete run-b-0");
    assert!(world.decide_and_bind().contains("late: bind late to b"));
    world.apply("delete small-1");
    assert!(world.decide_and_bind().starts_with("g: bind g-2 to a"));
}

#[test]
fn several_units_have_reservations_at_once_and_never_for_the_same_room() {
    let mut world = TextCluster::of("node a gpu=2; node b gpu=3; pods run 5 gpu=1");
    world.decide_and_bind();
    for name in ["g", "h", "i"] {
        world.apply(&format!("group {name} gang minCount=2 pods=2 gpu=1"));
    }
    world.decide();
    pass(&mut world, 61 * SECOND);
    assert_eq!(reserved(&world), ["g: 2 on 1", "h: 2 on 2"]);
    // The pod is behind both, and the third gang too.
    world.apply("pod small gpu=1");
    world.decide();
    let mut end_one_on = |node: &str| {
        let name = world.pods.iter().find(|(_, pod)| pod.node_name() == Some(node)).map(|(name, _)| name.clone());
        world.apply(&format!("delete {}", name.unwrap()));
        let decided = world.decide_and_bind();
        world.core.assert_consistent();
        decided.lines().find(|line| line.contains(": bind")).unwrap_or_default().to_owned()
    };
    assert_eq!(end_one_on("a"), "");
    assert_eq!(end_one_on("a"), "g: bind g-0 to a, g-1 to a");
    assert_eq!(end_one_on("b"), "");
    assert_eq!(end_one_on("b"), "h: bind h-0 to b, h-1 to b");
    assert!(!world.core.has_reservation());
}

#[test]
fn a_reservation_moves_to_other_nodes_or_ends_when_its_nodes_take_no_pods_any_more() {
    let mut world = TextCluster::of(
        "node a gpu=2 name=a; node b gpu=2 name=b; pod run-a gpu=1 node=a; pod run-b gpu=1 node=b;
         group g gang minCount=1 pods=1 gpu=2",
    );
    world.decide();
    pass(&mut world, 61 * SECOND);
    let held = |world: &mut TextCluster, node: &str| {
        world.apply(&format!("pod probe gpu=1 selects=name:{node}"));
        let decided = world.decide();
        world.apply("delete probe");
        decided.contains("reserved for ns/g")
    };
    assert!(held(&mut world, "a") && !held(&mut world, "b"));
    world.apply("node a gpu=2 name=a cordoned");
    pass(&mut world, 2 * SECOND);
    assert!(!held(&mut world, "a") && held(&mut world, "b"));
    world.apply("node b gpu=1 name=b");
    pass(&mut world, 2 * SECOND);
    assert_eq!(reserved(&world), [""; 0]);
    world.core.assert_consistent();
}

#[test]
fn without_a_share_nothing_is_reserved() {
    let config = Config { reservation_share: 0.0, ..Config::default() };
    let mut world = TextCluster::with(config, "node a gpu=2; pods run 2 gpu=1; group g gang minCount=2 pods=2 gpu=1");
    world.decide_and_bind();
    pass(&mut world, 600 * SECOND);
    world.apply("delete run-0; pod small gpu=1");
    assert!(world.decide_and_bind().contains("small: bind"));
}

// The gang lacks several slots, and what ghosts leave is no growth of a node.
#[test]
fn a_gang_that_ghosts_keep_out_is_woken_when_they_go() {
    let mut world = TextCluster::of(
        "node a gpu=6; pods run 6 gpu=1 node=a; group g gang minCount=6 pods=6 gpu=1; group h gang minCount=3 pods=3 gpu=1",
    );
    world.decide();
    pass(&mut world, 61 * SECOND);
    assert_eq!(reserved(&world), ["g: 6 on 1"]);
    world.apply("delete run-0; delete run-1; delete run-2");
    assert_eq!(world.decide_and_bind(), "");
    world.apply("delete g-0");
    let decided = world.decide_and_bind();
    assert!(decided.contains("h: bind h-0 to a, h-1 to a, h-2 to a"), "{decided}");
    world.core.assert_consistent();
}

// A reservation for a pod or group that is deleted must not outlive its id, which another one may get.
#[test]
fn a_reservation_ends_at_once_when_its_pod_is_deleted() {
    let mut world = TextCluster::of("node a gpu=4; pods run 4 gpu=1; pod large gpu=4; pod small-0 gpu=1");
    world.decide_and_bind();
    world.apply("delete run-0");
    world.decide_and_bind();
    pass(&mut world, 61 * SECOND);
    assert_eq!(reserved(&world), ["large: 1 on 1"]);
    world.apply("pod small-1 gpu=1; delete large; pod other gpu=1; delete run-1");
    assert_eq!(reserved(&world), [""; 0]);
    assert!(world.decide_and_bind().starts_with("small-1: bind"));
    world.core.assert_consistent();
}

// A pod kept the reason "reserved for big" when big had started.
#[test]
fn a_pod_has_other_reasons_when_the_reservation_has_ended() {
    let mut world =
        TextCluster::of("node n gpu=8; pods run 2 gpu=4; group big gang minCount=1; pod whole gpu=8 group=big");
    world.decide_and_bind();
    pass(&mut world, 61 * SECOND);
    world.apply("delete run-0; pod late gpu=4");
    let reserved = world.decide_and_bind();
    assert!(reserved.contains("late: wait") && reserved.contains("reserved for ns/big"), "{reserved}");
    world.apply("delete run-1");
    assert!(world.decide_and_bind().contains("big: bind whole to n"));
    world.now += 2 * SECOND;
    assert_snapshot!(world.decide_and_bind(), @"late: wait (0/1 nodes are available: 1 Insufficient nvidia.com/gpu.)");
}

// Half a pod's room on each of two nodes was shown as room for one.
#[test]
fn only_room_for_whole_pods_is_shown_as_free() {
    let mut world = TextCluster::of(
        "node n-0 gpu=8; node n-1 gpu=8; pods run 4 gpu=4; group big gang minCount=2; pods big 2 gpu=8 group=big",
    );
    world.decide_and_bind();
    pass(&mut world, 61 * SECOND);
    let free = |world: &mut TextCluster| world.core.queue()[0].reservation.clone().unwrap().free_pods_count;
    assert_eq!(free(&mut world), 0);
    let runs_on = |world: &TextCluster, node: &str| -> Vec<String> {
        let pods = world.pods.values().filter(|pod| pod.node_name() == Some(node));
        pods.map(|pod| pod.metadata.name.clone()).collect()
    };
    for node in ["n-0", "n-1"] {
        let pod = runs_on(&world, node)[0].clone();
        world.apply(&format!("delete {pod}"));
    }
    pass(&mut world, 2 * SECOND);
    assert_eq!(free(&mut world), 0);
    let pod = runs_on(&world, "n-0")[0].clone();
    world.apply(&format!("delete {pod}"));
    pass(&mut world, 2 * SECOND);
    assert_eq!(free(&mut world), 1);
}

#[test]
fn what_is_reserved_is_shown_in_the_queue_and_in_the_explanation() {
    let mut world = hopeless_gangs(1);
    pass(&mut world, 61 * SECOND);
    let queued = &world.core.queue()[0];
    let reservation = queued.reservation.clone().unwrap();
    assert_eq!((reservation.pods_count, reservation.free_pods_count, reservation.nodes_count), (2, 0, 2));
    let unit = queued.unit.clone();
    let lines = world.core.explain(&unit, &[]).unwrap().lines();
    assert_eq!(
        lines[1],
        "room for 2 pods is reserved for it on 2 nodes, 0 of it free; until 1970-01-01T00:16:00Z at the latest"
    );
    assert_eq!(world.core.reservations_counts(), (0, 1));
    // Six of sixteen GPUs are idle.
    assert_eq!(world.core.reserved_idle_share(), 0.375);
    pass(&mut world, 10 * SECOND);
    world.decide();
    let spent = world.core.take_reserved_idle_seconds();
    assert!((3.0..5.0).contains(&spent), "{spent}");
}

#[test]
fn a_decision_behind_a_reservation_costs_the_same_whatever_is_reserved() {
    let cost = |size: usize| {
        let gang = format!("group g gang minCount={size} pods={size} gpu=1");
        let mut world = TextCluster::of(&format!("node a gpu={size} pods=1000; pods run {size} gpu=1 node=a; {gang}"));
        world.decide();
        pass(&mut world, 61 * SECOND);
        assert!(world.core.has_reservation());
        // The first one makes the ghosts count.
        world.apply("pod first cpu=1");
        world.decide_and_bind();
        let before = world.core.steps_count();
        world.apply("pods small 10 cpu=1");
        assert_eq!(world.decide_and_bind().matches("bind").count(), 10);
        world.core.steps_count() - before
    };
    assert_eq!(cost(10), cost(100));
}

// The nodes were kept although the unit could not use them together any more.
#[test]
fn a_reservation_moves_to_one_domain_when_its_nodes_are_in_several() {
    let mut world = TextCluster::of(
        "node a gpu=2 rack=r name=a; node b gpu=2 rack=r name=b; node c gpu=2 rack=s name=c; group g gang minCount=2 pods=2 gpu=2 key=rack;
         pod run-a gpu=1 node=a; pod run-b gpu=1 node=b; pod run-c gpu=1 node=c",
    );
    world.decide();
    pass(&mut world, 61 * SECOND);
    assert_eq!(reserved(&world), ["g: 2 on 2"]);
    let held = |world: &mut TextCluster, node: &str| {
        world.apply(&format!("pod probe gpu=1 selects=name:{node}"));
        let decided = world.decide();
        world.apply("delete probe");
        decided.contains("reserved for ns/g")
    };
    world.apply("node b gpu=2 rack=s name=b");
    pass(&mut world, 2 * SECOND);
    assert_eq!(["a", "b", "c"].map(|node| held(&mut world, node)), [false, true, true]);
    world.apply("node b gpu=2 name=b");
    pass(&mut world, 2 * SECOND);
    assert_eq!(reserved(&world), [""; 0]);
    world.core.assert_consistent();
}

// What became free within a second of the last check was charged only when something else happened.
#[test]
fn what_becomes_free_is_charged_although_nothing_happens_afterwards() {
    let mut world = TextCluster::of("node a gpu=8; pods run 8 gpu=1 node=a; group g gang minCount=1 pods=1 gpu=8");
    world.decide();
    pass(&mut world, 60 * SECOND);
    assert_eq!(reserved(&world), ["g: 1 on 1"]);
    world.now += SECOND / 2;
    world.apply("delete run-0; delete run-1; delete run-2; delete run-3");
    assert_eq!(world.decide(), "");
    pass(&mut world, 50 * SECOND);
    world.decide();
    let spent = world.core.take_reserved_idle_seconds();
    assert!((24.0..25.5).contains(&spent), "{spent}");
}

// Nothing looked at the unit again before one of its pods fitted, so it never got a reservation.
#[test]
fn a_unit_for_which_the_nodes_were_too_small_gets_a_reservation_when_they_no_longer_are() {
    for unit in ["group g gang minCount=2 pods=2 gpu=4", "pod g gpu=4"] {
        let mut world = TextCluster::of(
            "node a gpu=4 cordoned; node b gpu=4 cordoned; pods run-a 4 gpu=1 node=a; pods run-b 4 gpu=1 node=b",
        );
        world.apply(unit);
        assert!(world.decide().starts_with("g: wait"), "{unit}");
        world.apply("node a gpu=4; node b gpu=4");
        let mut ended = ["run-a-0".to_owned(), "run-b-0".to_owned()];
        for number in 0..4 {
            pass(&mut world, 30 * SECOND);
            let next = ["a", "b"].map(|node| format!("small-{node}-{number}"));
            world.apply(&format!(
                "delete {}; delete {}; pod {} gpu=1; pod {} gpu=1",
                ended[0], ended[1], next[0], next[1]
            ));
            world.decide_and_bind();
            ended = next;
        }
        assert!(world.core.has_reservation(), "{unit}");
    }
}

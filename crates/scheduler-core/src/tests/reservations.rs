//! Reservations do not starve later units: they end if nothing becomes free, and there are gaps between them.

use std::time::Duration;

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

//! Who is next, and that nobody is passed over for ever.

use std::time::Duration;

use insta::assert_snapshot;

use super::world::World;
use crate::Config;

const MINUTE: Duration = Duration::from_secs(60);
/// The hold's limit in these tests.
const HOLD: Duration = Duration::from_secs(300);

fn world(text: &str) -> World {
    World::with(Config { hold_after: Some(MINUTE), hold_for: HOLD, ..Config::default() }, text)
}

/// Two nodes full of small pods, and a gang that needs one of them whole.
fn passed_over() -> World {
    let mut world = world("node a gpu=2; node b gpu=2; pods run 4 gpu=1");
    world.decide_and_bind();
    world.say("group g gang minCount=2 pods=2 gpu=1");
    assert!(world.decide().starts_with("g: wait (gang of 2 does not fit: 0 of 2"));
    world
}

/// The next small pod comes, and one that runs goes.
fn small_pod(world: &mut World, number: usize, leaves: &str) -> String {
    world.say(&format!("pod small-{number} gpu=1; delete {leaves}"));
    world.decide_and_bind()
}

#[test]
fn equals_that_wait_go_in_the_order_they_came() {
    let mut world = World::of(
        "node a gpu=1; pod x node=a gpu=1; group b gang minCount=1 pods=1 gpu=1; group a gang minCount=1 pods=1 gpu=1;
         group c gang minCount=1 pods=1 gpu=1",
    );
    world.decide();
    let mut bound = Vec::new();
    let mut last = "x".to_owned();
    for _ in 0..3 {
        world.say(&format!("delete {last}"));
        let line = world.decide_and_bind().lines().next().unwrap().to_owned();
        last = line.split_whitespace().nth(2).unwrap().to_owned();
        bound.push(line);
    }
    assert_eq!(bound, ["b: bind b-0 to a", "a: bind a-0 to a", "c: bind c-0 to a"]);
}

#[test]
fn a_gang_is_passed_by_small_pods_only_until_the_bound() {
    let mut world = passed_over();
    // Its own turn is first whenever something leaves, but one slot is not enough, and the small pod takes it.
    assert!(small_pod(&mut world, 0, "run-0").ends_with("small-0: bind small-0 to a"));
    world.now += MINUTE - Duration::from_secs(1);
    assert!(small_pod(&mut world, 1, "run-1").ends_with("small-1: bind small-1 to a"));
    // From now on what comes free on one of the nodes is kept.
    world.now += Duration::from_secs(1);
    assert_snapshot!(small_pod(&mut world, 2, "small-0"), @"
    g: wait (gang of 2 does not fit: 1 of 2 pods fit (1 more needed; Insufficient nvidia.com/gpu on 2 of 2 nodes))
    small-2: wait (0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) were held for a group that waits longer.)
    ");
    assert_snapshot!(small_pod(&mut world, 3, "small-1"), @"
    g: bind g-0 to a, g-1 to a
    small-2: wait (0/2 nodes are available: 2 Insufficient nvidia.com/gpu.)
    small-3: wait (0/2 nodes are available: 2 Insufficient nvidia.com/gpu.)
    ");
}

#[test]
fn nodes_that_are_not_held_are_open_to_all() {
    let mut world = world("node a gpu=2; node b gpu=2; node c gpu=2; pods run 6 gpu=1");
    world.decide_and_bind();
    world.say("group g gang minCount=3 pods=3 gpu=1");
    world.decide();
    world.now += MINUTE;
    world.decide();
    assert!(small_pod(&mut world, 0, "run-4").contains("small-0: bind small-0 to c"));
    assert!(!small_pod(&mut world, 1, "run-0").contains("bind"));
    assert!(small_pod(&mut world, 2, "run-5").contains("small-1: bind small-1 to c"));
}

#[test]
fn a_hold_ends_with_the_gangs_bind() {
    let mut world = passed_over();
    world.now += MINUTE;
    assert_eq!(world.core.next_at(), Some(world.now));
    small_pod(&mut world, 0, "run-0");
    world.say("delete run-1");
    assert_snapshot!(world.decide_and_bind(), @"
    g: bind g-0 to a, g-1 to a
    small-0: wait (0/2 nodes are available: 2 Insufficient nvidia.com/gpu.)
    ");
    world.say("delete g-0");
    assert_snapshot!(world.decide_and_bind(), @"small-0: bind small-0 to a");
}

#[test]
fn a_hold_ends_by_itself_and_the_wait_begins_anew() {
    let mut world = passed_over();
    world.now += MINUTE;
    assert!(!small_pod(&mut world, 0, "run-0").contains("bind"));
    assert_eq!(world.core.next_at(), Some(world.now + HOLD));
    world.now += HOLD;
    assert!(world.decide_and_bind().contains("small-0: bind small-0 to a"));
    assert_eq!(world.core.next_at(), Some(world.now + MINUTE));
}

#[test]
fn a_hold_ends_when_the_gang_goes() {
    let mut world = passed_over();
    world.now += MINUTE;
    assert!(!small_pod(&mut world, 0, "run-0").contains("bind"));
    world.say("delete g-0; delete g-1");
    assert_snapshot!(world.decide_and_bind(), @"small-0: bind small-0 to a");
}

#[test]
fn a_hold_does_not_bind_units_that_come_first() {
    let mut world = passed_over();
    world.now += MINUTE;
    assert!(!small_pod(&mut world, 0, "run-0").contains("bind"));
    world.say("pod urgent gpu=1 priority=10");
    assert_snapshot!(world.decide_and_bind(), @"urgent: bind urgent to a");
}

#[test]
fn nothing_is_held_for_a_gang_that_no_pod_that_leaves_can_help() {
    let mut world = world("node a gpu=2; pod run gpu=1; group g gang minCount=3 pods=3 gpu=1");
    world.decide_and_bind();
    world.now += 10 * MINUTE;
    world.say("pod small gpu=1");
    assert_snapshot!(world.decide_and_bind(), @"small: bind small to a");
}

#[test]
fn a_hold_for_a_gang_with_a_key_is_in_one_domain_that_could_take_it() {
    // Rack s is too small for it at any time; the freest of the others is chosen.
    let mut world = world(
        "node a gpu=2 rack=r; node b gpu=2 rack=r; node c gpu=1 rack=s; node d gpu=3 rack=t; pods run 8 gpu=1;
         group g gang minCount=3 pods=3 gpu=1 key=rack",
    );
    world.decide_and_bind();
    world.say("delete run-4");
    world.decide_and_bind();
    world.now += MINUTE;
    world.say("pods small 2 gpu=1");
    let decided = world.decide_and_bind();
    assert!(decided.contains("node(s) were held"), "{decided}");
}

#[test]
fn without_the_setting_nothing_is_held() {
    let mut world = World::with(Config { hold_after: None, ..Config::default() }, "node a gpu=1; pod run gpu=1");
    world.decide_and_bind();
    world.say("group g gang minCount=2 pods=2 gpu=1; node b gpu=1; pod run-b gpu=1");
    world.decide_and_bind();
    world.now += 100 * MINUTE;
    world.say("delete run; pod small gpu=1");
    assert!(world.decide_and_bind().contains("small: bind"));
}

/// What it costs to decide about a group of `size` pods that come, wait, and then find room one by one.
fn steps_for(size: usize) -> (u64, usize) {
    let mut world = World::of(&format!("node a gpu={size} pods=100000; group g basic"));
    world.say(&format!("pods run {size} gpu=1"));
    world.decide_and_bind();
    let before = world.core.steps_count();
    let mut decisions = 0;
    for number in 0..size {
        world.say(&format!("pod g-{number} group=g gpu=1"));
        decisions += world.decide().lines().count();
    }
    for number in 0..size {
        world.say(&format!("delete run-{number}"));
        decisions += world.decide_and_bind().lines().count();
    }
    (world.core.steps_count() - before, decisions)
}

// Shows: U-TestPodGroupCycleStatePreserved
#[test]
fn work_grows_with_the_size_of_a_group_and_not_with_its_square() {
    let (small, small_decisions) = steps_for(50);
    let (large, large_decisions) = steps_for(200);
    assert!(small_decisions <= 52 && large_decisions <= 202, "{small_decisions} {large_decisions}");
    assert!(large <= 5 * small, "four times the pods took {large} steps after {small}");
}

/// The same for a gang: its pods come, it is refused, they are deleted one by one and come again.
fn steps_for_gang(size: usize) -> u64 {
    let mut world = World::of(&format!("node a gpu=1 pods=100000; group g gang minCount={}", size / 2));
    let before = world.core.steps_count();
    for number in 0..size {
        world.say(&format!("pod g-{number} group=g gpu=1"));
        world.decide();
    }
    for number in 0..size {
        world.say(&format!("delete g-{number}"));
        world.decide();
    }
    world.core.steps_count() - before
}

#[test]
fn a_refused_gang_costs_the_same_for_each_pod_that_comes_or_goes() {
    let (small, large) = (steps_for_gang(50), steps_for_gang(200));
    assert!(large <= 5 * small, "four times the pods took {large} steps after {small}");
}

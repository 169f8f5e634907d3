//! Gangs that were left half bound, as by a crash between two binds: completed, or released.

use std::time::Duration;

use insta::assert_snapshot;

use super::world::World;
use crate::Config;

const PAUSE: Duration = Duration::from_secs(15);

#[test]
fn a_half_bound_gang_is_completed_where_that_can_be() {
    let mut world = World::of(
        "node a gpu=4; pods g 2 node=a group=g gpu=1 owner=Job:j; group g gang minCount=4; pods h 2 group=g gpu=1 owner=Job:j",
    );
    assert_snapshot!(world.decide_and_bind(), @"g: bind h-0 to a, h-1 to a");
    world.now += 10 * PAUSE;
    assert_eq!(world.decide(), "");
}

#[test]
fn a_half_bound_gang_that_cannot_be_completed_is_released() {
    let mut world = World::of(
        "node a gpu=3; pods g 2 node=a group=g gpu=1 owner=Job:j; group g gang minCount=4; pods h 2 group=g gpu=1 owner=Job:j",
    );
    assert!(world.decide().starts_with("g: wait"));
    assert_eq!(world.core.next_at(), Some(world.now + PAUSE));
    world.now += PAUSE;
    assert_snapshot!(world.decide(), @"g: release g-0, g-1");
    assert_eq!(world.decide(), "", "once");
    world.say("delete g-0; delete g-1; pods i 2 group=g gpu=1 owner=Job:j");
    assert_snapshot!(world.decide(), @"g: wait (gang of 4 does not fit: 3 of 4 pods fit (1 more needed; Insufficient nvidia.com/gpu on 1 of 1 nodes))");
    world.now += 2 * PAUSE;
    assert_eq!(world.decide(), "");
}

#[test]
fn a_half_bound_gang_without_the_rest_of_its_pods_is_released() {
    let mut world = World::of(
        "node a gpu=3; pods g 2 node=a group=g gpu=1 owner=Job:j; group g gang minCount=4; pod h group=g gpu=1 owner=Job:j",
    );
    assert_eq!(world.decide(), "");
    world.now += PAUSE;
    assert_snapshot!(world.decide(), @"
    g: release g-0, g-1
    g: wait (waiting for pods: 3 of minCount 4 exist)
    ");
}

#[test]
fn a_gang_that_once_had_its_min_count_keeps_its_pods() {
    for later in ["OnceSatisfied", "AlwaysMin"] {
        let mut world = World::of(&format!(
            "node a gpu=2; pods g 2 node=a group=g gpu=1 owner=Job:j; group g gang minCount=4 placed=True later={later}"
        ));
        world.say("pods h 2 group=g gpu=1 owner=Job:j");
        world.decide();
        world.now += 10 * PAUSE;
        assert!(!world.decide().contains("release"), "{later}");
    }
}

#[test]
fn a_basic_group_is_never_released() {
    let mut world = World::of(
        "node a gpu=1; pod g node=a group=g gpu=1 owner=Job:j; group g basic; pods h 2 group=g gpu=1 owner=Job:j",
    );
    world.decide();
    world.now += 10 * PAUSE;
    assert!(!world.decide().contains("release"));
}

#[test]
fn binds_under_way_are_waited_for() {
    let mut world = World::of("node a gpu=4; group g gang minCount=3 pods=3 gpu=1 owner=Job:j");
    world.decide();
    // One bind failed, and its place is taken before it can be tried again.
    world.say("fail g-0; pods other 2 node=a gpu=1");
    world.decide();
    world.now += PAUSE;
    let waits = world.decide();
    assert!(!waits.contains("release"), "{waits}");
    world.show_bound("g-1", "a");
    world.show_bound("g-2", "a");
    world.now += Duration::from_secs(1);
    assert_snapshot!(world.decide(), @"g: release g-1, g-2");
}

#[test]
fn without_the_setting_nothing_is_released() {
    let mut world = World::with(
        Config { release_after: None, ..Config::default() },
        "node a gpu=3; pods g 2 node=a group=g gpu=1 owner=Job:j; group g gang minCount=4; pods h 2 group=g gpu=1 owner=Job:j",
    );
    world.decide();
    world.now += 100 * PAUSE;
    assert!(!world.decide().contains("release"));
}

#[test]
fn pods_that_nobody_would_make_anew_stay() {
    let mut world =
        World::of("node a gpu=3; pods g 2 node=a group=g gpu=1; group g gang minCount=4; pods h 2 group=g gpu=1");
    world.decide();
    world.now += 10 * PAUSE;
    assert!(!world.decide().contains("release"));
}

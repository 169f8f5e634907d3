//! Groups that are used again: each run starts as a whole, and members that succeeded before do not count toward it.

use std::time::Duration;

use insta::assert_snapshot;

use super::text_cluster::TextCluster;

const PAUSE: Duration = Duration::from_secs(15);

/// A gang of three whose pods succeeded ten seconds after creation, on a node where another pod leaves capacity for
/// one.
fn succeeded(owner: &str) -> TextCluster {
    let mut world = TextCluster::of(&format!("node a gpu=3; group g gang minCount=3 pods=3 gpu=1 created=10{owner}"));
    world.decide_and_bind();
    world.apply("group g gang minCount=3 placed=True; finish g-0 at=20; finish g-1 at=20; finish g-2 at=20");
    world.apply("pod other node=a gpu=2");
    world
}

#[test]
fn members_that_succeeded_in_an_earlier_run_do_not_count_toward_the_next() {
    for (before, after) in [("", ""), (" owner=Job:a", " owner=Job:b"), (" owner=Job:a", "")] {
        let mut world = succeeded(before);
        // One by one, as the watch shows them.
        for name in ["n-0", "n-1"] {
            world.apply(&format!("pod {name} group=g gpu=1 created=30{after}"));
            assert_eq!(world.decide(), "", "{name}");
        }
        world.apply(&format!("pod n-2 group=g gpu=1 created=30{after}"));
        let decided = world.decide();
        assert!(decided.starts_with("g: wait (gang of 3 does not fit: 1 of 3 pods fit"), "{before},{after}: {decided}");
        world.apply("delete other");
        assert_eq!(world.decide(), "g: bind n-0 to a, n-1 to a, n-2 to a", "{before},{after}");
    }
}

#[test]
fn a_core_that_starts_later_distinguishes_the_runs_as_well() {
    let mut world = TextCluster::of("node a gpu=1; pods g 3 group=g gpu=1 node=a created=10");
    world.apply("finish g-0 at=20; finish g-1 at=20; finish g-2 at=20; pods n 3 group=g gpu=1 created=30");
    world.apply("group g gang minCount=3 placed=True");
    assert!(world.decide().starts_with("g: wait (gang of 3 does not fit: 1 of 3 pods fit"));
}

#[test]
fn a_few_members_that_succeeded_for_another_controller_do_not_count() {
    let mut world = TextCluster::of("node a gpu=3; group g gang minCount=3 pods=3 gpu=1 created=10 owner=Job:a");
    world.decide_and_bind();
    world.apply("finish g-0 at=20; finish g-1 at=20; delete g-2; pod other node=a gpu=2");
    world.apply("group g gang minCount=3 placed=True; pods n 3 group=g gpu=1 created=30 owner=Job:b");
    assert!(world.decide().starts_with("g: wait (gang of 3 does not fit: 1 of 3 pods fit"));
}

// Two succeeded and one failed: as with three that succeeded, nothing of that run remains to be completed.
#[test]
fn members_that_succeeded_beside_one_that_failed_do_not_count_toward_the_next_run() {
    for owner in ["", " owner=Job:b"] {
        let mut world = TextCluster::of("node a gpu=3; group g gang minCount=3 pods=3 gpu=1 created=10");
        world.decide_and_bind();
        world.apply("group g gang minCount=3 placed=True; finish g-0 at=20; finish g-1 at=20; delete g-2");
        world.apply("pod other node=a gpu=2");
        for name in ["n-0", "n-1"] {
            world.apply(&format!("pod {name} group=g gpu=1 created=30{owner}"));
            assert_eq!(world.decide(), "", "{name}");
        }
        world.apply(&format!("pod n-2 group=g gpu=1 created=30{owner}"));
        let decided = world.decide();
        assert!(decided.starts_with("g: wait (gang of 3 does not fit: 1 of 3 pods fit"), "{owner}: {decided}");
        world.apply("delete other");
        assert_eq!(world.decide(), "g: bind n-0 to a, n-1 to a, n-2 to a", "{owner}");
    }
}

// Without an expected count it is unknown whether more pods of the same Job come. Those that exist start together.
#[test]
fn pods_of_a_job_created_after_all_others_have_ended_start_together() {
    let mut world = TextCluster::of("node a gpu=3; group g gang minCount=3 pods=3 gpu=1 created=10 owner=Job:a");
    world.decide_and_bind();
    world.apply("group g gang minCount=3 placed=True; finish g-0 at=20; finish g-1 at=20; delete g-2");
    world.apply("pod other node=a gpu=2; pods n 3 group=g gpu=1 created=30 owner=Job:a");
    assert!(world.decide().starts_with("g: wait (gang of 3 does not fit: 1 of 3 pods fit"));
    world.apply("delete other");
    assert_snapshot!(world.decide(), @"g: bind n-0 to a, n-1 to a, n-2 to a");
}

#[test]
fn a_new_run_that_lacks_pods_does_not_count_those_that_succeeded_before() {
    let mut world = TextCluster::of("node a gpu=3; group g gang minCount=3 pods=3 gpu=1 created=10");
    world.decide_and_bind();
    world.apply("group g gang minCount=3 placed=True; finish g-0 at=20; delete g-1; delete g-2");
    world.apply("pod n-0 group=g gpu=1 created=30");
    assert_eq!(world.decide(), "");
    world.now += PAUSE;
    assert_snapshot!(world.decide(), @"g: wait (waiting for pods: 1 of minCount 3 exist)");
}

#[test]
fn a_replacement_by_a_controller_of_the_run_starts_alone() {
    // Of the same Job, and of another Job of the same gang.
    for (first, second, group) in [
        (" owner=Job:a", " owner=Job:a", ""),
        (" owner=Job:a", " owner=Job:b", " owner=Workload:w"),
        (" owner=Job:a", " owner=Job:b", ""),
    ] {
        let text = format!("node a gpu=3; group g gang minCount=3{group}; pods g 2 group=g gpu=1 created=10{first}");
        let mut world = TextCluster::of(&format!("{text}; pod h group=g gpu=1 created=10{second}"));
        assert_eq!(world.decide_and_bind(), "g: bind g-0 to a, g-1 to a, h to a");
        world.apply(&format!(
            "group g gang minCount=3 placed=True{group}; finish g-0 at=20; finish g-1 at=20; delete h"
        ));
        world.apply(&format!("pod again group=g gpu=1 created=30{second}"));
        assert_eq!(world.decide(), "g: bind again to a", "{first},{second},{group}");
    }
}

#[test]
fn members_that_succeeded_in_the_current_run_count_and_those_of_an_earlier_one_do_not() {
    let mut world = succeeded("");
    world.apply("delete other; pods n 3 group=g gpu=1 created=30");
    assert_snapshot!(world.decide_and_bind(), @"g: bind n-0 to a, n-1 to a, n-2 to a");
    // The run continues while one of its pods runs.
    world
        .apply("group g gang minCount=3 later=AlwaysMin; finish n-0 at=40; delete n-1; pod m group=g gpu=1 created=50");
    assert_snapshot!(world.decide_and_bind(), @"g: bind m to a");
    world.apply("delete n-0; delete m; pod k group=g gpu=1 created=50");
    assert_eq!(world.decide(), "", "those of the first run do not count");
}

#[test]
fn the_next_pods_of_a_job_start_together_and_wait_for_no_more_than_exist() {
    // A Job with five completions, three at once: the number of further pods is not declared.
    let mut world = succeeded(" owner=Job:a");
    world.apply("pods n 2 group=g gpu=1 created=30 owner=Job:a");
    assert!(world.decide().starts_with("g: wait (gang of 2 does not fit: 1 of 2 pods fit"));
    world.apply("delete other");
    assert_snapshot!(world.decide_and_bind(), @"g: bind n-0 to a, n-1 to a");
    world.now += 10 * PAUSE;
    assert_eq!(world.decide(), "", "two is all there is");
}

/// A gang of three that started, was suspended, and starts again. One bind of the second start fails, and another pod
/// uses its capacity.
fn second_start_half_bound() -> TextCluster {
    let mut world = TextCluster::of("node a gpu=3; group g gang minCount=3 pods=3 gpu=1 owner=Job:j");
    world.decide_and_bind();
    world.apply("group g gang minCount=3 placed=True; delete g-0; delete g-1; delete g-2");
    world.apply("pods n 3 group=g gpu=1 owner=Job:j");
    assert_eq!(world.decide(), "g: bind n-0 to a, n-1 to a, n-2 to a");
    world.apply("fail n-2; pod other node=a gpu=1");
    world.show_bound("n-0", "a");
    world.show_bound("n-1", "a");
    world.now += Duration::from_secs(1);
    assert!(world.decide().starts_with("g: wait (gang of 3 does not fit: 2 of 3 pods fit"));
    world
}

#[test]
fn a_half_bound_second_start_is_completed_if_possible() {
    let mut world = second_start_half_bound();
    world.apply("delete other");
    assert_snapshot!(world.decide_and_bind(), @"g: bind n-2 to a");
    world.now += 10 * PAUSE;
    assert_eq!(world.decide(), "");
    // It has its quorum: later pods are placed as they arrive.
    world.apply("delete n-0; delete n-1; pod again group=g gpu=1 owner=Job:j");
    assert_snapshot!(world.decide(), @"g: bind again to a");
}

#[test]
fn a_second_start_that_cannot_be_completed_is_released() {
    let mut world = second_start_half_bound();
    world.now += PAUSE;
    assert_snapshot!(world.decide(), @"g: release n-1, n-0");
}

// Fewer pods did not help a gang that provably did not fit, but such a run needs only as many as exist.
#[test]
fn the_next_pods_of_a_job_are_decided_again_when_fewer_of_them_exist() {
    let mut world = succeeded(" owner=Job:a");
    world.apply("pods n 3 group=g gpu=1 created=30 owner=Job:a");
    assert!(world.decide().starts_with("g: wait (gang of 3 does not fit: 1 of 3 pods fit"));
    world.apply("delete n-2");
    assert!(world.decide().starts_with("g: wait (gang of 2 does not fit: 1 of 2 pods fit"));
    world.apply("delete n-1");
    assert_snapshot!(world.decide(), @"g: bind n-0 to a");
}

// The place of its pods by their creation was kept.
#[test]
fn a_second_run_has_the_place_of_its_group_in_the_queue() {
    let mut world = succeeded("");
    world.apply("pods n 3 group=g gpu=1 created=30; pod between gpu=3 created=20");
    world.decide();
    let queue: Vec<String> = world.core.queue().into_iter().map(|queued| queued.unit.key().name.clone()).collect();
    assert_eq!(queue, ["g", "between"]);
}

// That a run continues the one before was kept for any later run, and the pods of another Job started one by one.
#[test]
fn the_pods_of_another_job_start_together_after_a_run_that_continued() {
    let mut world = succeeded(" owner=Job:a");
    world.apply("delete other; pods n 2 group=g gpu=1 created=30 owner=Job:a");
    assert_eq!(world.decide_and_bind(), "g: bind n-0 to a, n-1 to a");
    // The same Job again, for what has failed.
    world.apply("delete n-0; delete n-1; pod k group=g gpu=1 created=40 owner=Job:a");
    assert_eq!(world.decide_and_bind(), "g: bind k to a");
    world.apply("delete k; pod m-0 group=g gpu=1 created=50 owner=Job:b");
    assert_eq!(world.decide(), "");
    world.apply("pods l 2 group=g gpu=1 created=50 owner=Job:b");
    assert_eq!(world.decide(), "g: bind m-0 to a, l-0 to a, l-1 to a");
}

// The second run had only the controller of its own pods, although it continued the first.
#[test]
fn each_controller_of_a_gang_may_continue_a_run_that_another_one_continued() {
    let mut world = TextCluster::of(
        "node a gpu=3; group g gang minCount=3 owner=Workload:w; pods g 2 group=g gpu=1 created=10 owner=Job:a;
         pod h group=g gpu=1 created=10 owner=Job:b",
    );
    assert_eq!(world.decide_and_bind(), "g: bind g-0 to a, g-1 to a, h to a");
    world.apply("finish g-0 at=20; delete g-1; finish h at=20; pod i group=g gpu=1 created=30 owner=Job:a");
    assert_eq!(world.decide_and_bind(), "g: bind i to a");
    world.apply("finish i at=40; pod j group=g gpu=1 created=50 owner=Job:b");
    assert_eq!(world.decide_and_bind(), "g: bind j to a");
}

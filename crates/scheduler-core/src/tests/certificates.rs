//! A change wakes only units whose certificate it breaks.

use super::text_cluster::{TextCluster, line};
use crate::{QueueStatus, SubQueue};

/// The units that are decided, each with the start of its decision.
fn decided(world: &mut TextCluster) -> Vec<String> {
    let lines = world.decide_and_bind();
    lines.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect()
}

fn waiting(world: &TextCluster) -> usize {
    world.core.queue().iter().filter(|queued| queued.state == QueueStatus::Waiting).count()
}

// Each slot that came free woke every gang that waited for one.
#[test]
fn a_gang_that_lacks_forty_slots_is_woken_by_the_fortieth() {
    let mut world = TextCluster::of("node a gpu=40; pods used 40 node=a gpu=1; group g gang minCount=40 pods=40 gpu=1");
    assert_eq!(decided(&mut world), ["g: wait"]);
    for used in 0..39 {
        world.apply(&format!("delete used-{used}"));
        assert_eq!(decided(&mut world), [""; 0], "{used}");
    }
    world.apply("delete used-39");
    assert_eq!(decided(&mut world), ["g: bind"]);
}

#[test]
fn slots_that_come_and_go_wake_no_gang() {
    let mut world = TextCluster::of("node a gpu=4; pods used 4 node=a gpu=1; group g gang minCount=4 pods=4 gpu=1");
    world.decide();
    for round in 0..20 {
        let used = if round == 0 { "used-3".to_owned() } else { format!("other-{}", round - 1) };
        world.apply(&format!("delete {used}"));
        assert_eq!(decided(&mut world), [""; 0], "{round}");
        world.apply(&format!("pod other-{round} node=a gpu=1"));
    }
    world.apply("delete used-0; delete used-1; delete used-2");
    assert_eq!(decided(&mut world), [""; 0]);
    world.apply("delete other-19");
    assert_eq!(decided(&mut world), ["g: bind"]);
}

#[test]
fn a_gang_in_one_rack_is_woken_when_one_rack_has_what_it_needs() {
    let mut world = TextCluster::of(
        "node a gpu=4 rack=r1; node b gpu=4 rack=r2; pods x 4 node=a gpu=1; pods y 4 node=b gpu=1;
         group g gang minCount=4 pods=4 gpu=1 key=rack",
    );
    world.decide();
    // Six slots, three in each rack.
    for pod in ["x-0", "y-0", "x-1", "y-1", "x-2", "y-2"] {
        world.apply(&format!("delete {pod}"));
        assert_eq!(decided(&mut world), [""; 0], "{pod}");
    }
    world.apply("delete y-3");
    assert_eq!(decided(&mut world), ["g: bind"]);
}

#[test]
fn a_change_of_labels_wakes_a_gang_in_one_rack_only_if_a_rack_is_large_enough() {
    let mut world = TextCluster::of(
        "node a gpu=4 rack=r1; pods used 2 node=a gpu=1; node b gpu=2 rack=r2; node c gpu=2;
         group g gang minCount=4 pods=4 gpu=1 key=rack",
    );
    world.decide();
    world.apply("node c gpu=1 rack=r2");
    assert_eq!(decided(&mut world), [""; 0]);
    world.apply("node c gpu=2 rack=r2");
    assert_eq!(decided(&mut world), ["g: bind"]);
}

#[test]
fn members_that_run_in_a_rack_are_joined_only_by_growth_there() {
    let mut world = TextCluster::of(
        "node a gpu=4 rack=r1; node b gpu=4 rack=r2; pods x 2 node=a gpu=1; pods y 4 node=b gpu=1;
         group g gang minCount=2 pods=2 gpu=1 key=rack",
    );
    assert_eq!(decided(&mut world), ["g: bind"]);
    world.apply("pod g-2 group=g gpu=1");
    assert_eq!(decided(&mut world), ["g: wait"]);
    world.apply("delete y-0; delete y-1; delete y-2; delete y-3");
    assert_eq!(decided(&mut world), [""; 0]);
    world.apply("delete x-0");
    assert_eq!(decided(&mut world), ["g: bind"]);
}

// A leader and its workers were tried again for every pod that left any node.
#[test]
fn a_mixed_gang_is_woken_by_growth_only_where_the_sums_accept_it() {
    let mut world = TextCluster::of(
        "node a gpu=5 rack=r1; node b gpu=5 rack=r2; pod x node=a gpu=1; pods y 5 node=b gpu=1;
         group g gang minCount=2 key=rack; pod leader group=g gpu=3; pod worker group=g gpu=2",
    );
    world.decide();
    // Each fits alone in r1. In r2 only the worker fits after this.
    world.apply("delete y-0; delete y-1");
    assert_eq!(decided(&mut world), [""; 0]);
    world.apply("delete x");
    assert_eq!(decided(&mut world), ["g: bind"]);
}

// Each change was followed by a decision about every unit before the one that it helped.
#[test]
fn units_that_cannot_fit_do_not_delay_one_that_can() {
    let gangs: String =
        (0..100).map(|n| format!("group g{n} gang minCount={0} pods={0} gpu=1 groupPriority=5; ", n % 7 + 3)).collect();
    let mixed: String = (0..20)
        .map(|n| {
            format!(
                "group m{n} gang minCount=3 groupPriority=5; pods s{n} 2 group=m{n} gpu=1; pod l{n} group=m{n} gpu=2; "
            )
        })
        .collect();
    let mut world = TextCluster::of(&format!("node a gpu=2; pods used 2 node=a gpu=1; {gangs}{mixed}pod small gpu=1"));
    world.decide();
    assert_eq!(waiting(&world), 121);
    world.apply("delete used-0");
    assert_eq!(decided(&mut world), ["small: bind"]);
    // A new one costs its own decision and no more.
    world.apply("delete small; pod next gpu=1; group late gang minCount=9 pods=9 gpu=1 groupPriority=9");
    assert_eq!(decided(&mut world), ["late: wait", "next: bind"]);
    assert_eq!(world.core.sub_queue_counts(SubQueue::Active).groups, 0);
}

/// Ten thousand in the benchmark; here fewer, with the same number of decisions per change.
const GANGS: usize = 1_000;

/// Ten nodes full of small pods, which are replaced one after the other. Returns the number of decisions about gangs.
fn decisions_under_churn(gangs: &str, changes: usize) -> usize {
    let nodes: String = (0..10).map(|n| format!("node n{n} gpu=8; pods old-{n} 8 node=n{n} gpu=1; ")).collect();
    let mut world = TextCluster::of(&format!("{nodes}{gangs}"));
    world.decide();
    assert_eq!(waiting(&world), GANGS);
    let mut decisions_count = 0;
    for change in 0..changes {
        let (node, pod) = (change % 10, change / 10);
        world.apply(&format!("delete old-{node}-{pod}"));
        decisions_count += decided(&mut world).len();
        world.apply(&format!("pod new-{change} node=n{node} gpu=1"));
        decisions_count += decided(&mut world).len();
    }
    decisions_count
}

#[test]
fn changes_that_help_no_gang_cause_no_decision() {
    let equal: String = (0..GANGS).map(|n| format!("group g{n} gang minCount=2 pods=2 gpu=1; ")).collect();
    assert_eq!(decisions_under_churn(&equal, 80), 0);
    let different: String =
        (0..GANGS).map(|n| format!("group g{n} gang minCount=2 pods=2 gpu=1 cpu={}m; ", 1 + n)).collect();
    assert_eq!(decisions_under_churn(&different, 20), 0);
}

#[test]
fn a_change_that_helps_equal_gangs_causes_two_decisions() {
    let gangs: String = (0..GANGS).map(|n| format!("group g{n} gang minCount=2 pods=2 gpu=1; ")).collect();
    let mut world = TextCluster::of(&format!("node n gpu=8; pods old 8 node=n gpu=1; {gangs}"));
    world.decide();
    for pair in 0..4 {
        world.apply(&format!("delete old-{}", 2 * pair));
        assert_eq!(decided(&mut world), [""; 0]);
        world.apply(&format!("delete old-{}", 2 * pair + 1));
        assert_eq!(decided(&mut world), [format!("g{pair}: bind"), format!("g{}: wait", pair + 1)]);
    }
}

// All units that one change woke were decided, although the first of them used the room.
#[test]
fn of_different_units_that_a_change_wakes_only_the_one_that_uses_the_room_is_decided() {
    let gangs: String = (1..50).map(|n| format!("group g{n} gang minCount=2 pods=2 gpu=1 cpu={n}m; ")).collect();
    let mut world = TextCluster::of(&format!("node a gpu=2; pods used 2 node=a gpu=1; {gangs}"));
    world.decide();
    world.apply("delete used-0; delete used-1");
    assert_eq!(decided(&mut world), ["g1: bind"]);
    world.apply("delete g1-0; delete g1-1");
    assert_eq!(decided(&mut world), ["g2: bind"]);
}

// The slots that came free before were forgotten.
#[test]
fn a_gang_that_loses_a_pending_pod_still_counts_the_slots_that_came_free() {
    let mut world = TextCluster::of("node a gpu=2; pods used 2 node=a gpu=1; group g gang minCount=2 pods=3 gpu=1");
    world.decide();
    world.apply("delete used-0; delete g-2");
    assert_eq!(decided(&mut world), [""; 0]);
    world.apply("delete used-1");
    assert_eq!(decided(&mut world), ["g: bind"]);
}

// What grew while an equal unit was awake was lost for a unit that came before it meanwhile, and that unit waited for more
// than it lacked.
#[test]
fn what_grows_while_an_equal_unit_is_awake_counts_for_the_first_of_them() {
    let mut world = TextCluster::of(
        "node a gpu=4 rack=r1; node c gpu=3; pods used 4 node=a gpu=1; group later gang minCount=4 key=rack pods=4 gpu=1",
    );
    world.decide();
    // The gang is woken, its room is used by another scheduler, and an equal gang comes before it.
    world.apply("delete used-0; delete used-1; delete used-2; delete used-3; pods other 4 node=a gpu=1");
    world.apply("group first gang minCount=4 key=rack groupPriority=10 pods=4 gpu=1");
    assert!(line(&world.core.next(world.now).unwrap()).starts_with("first: wait"));
    world.apply("node c gpu=3 rack=r1");
    world.decide();
    world.apply("delete other-0");
    let decided = world.decide_and_bind();
    assert!(decided.starts_with("first: bind"), "{decided}");
}

// A gang that was larger than all nodes together is not starved by pods. When larger nodes came that were in use, nothing
// looked at it again before enough slots were free at once, so it never got a reservation.
#[test]
fn a_gang_that_was_too_large_for_the_nodes_gets_a_reservation_when_it_no_longer_is() {
    let mut world = TextCluster::of("node a gpu=4; pods used 4 node=a gpu=1; group g gang minCount=8 pods=8 gpu=1");
    world.decide();
    world.apply("pods more 4 node=b gpu=1; node b gpu=4");
    for (second, gone) in [(10, "used-0"), (20, "more-0"), (80, "used-1")] {
        world.now += std::time::Duration::from_secs(second);
        world.apply(&format!("delete {gone}; pod small-{second} priority=1 gpu=1"));
        let decided = world.decide_and_bind();
        assert!(decided.contains(&format!("small-{second}: bind")), "{decided}");
    }
    world.now += std::time::Duration::from_secs(1);
    world.decide();
    assert!(world.core.has_reservation());
}

// A class that the gang no longer had stayed listed for ever.
#[test]
fn a_gang_that_loses_a_class_while_it_is_awake_waits_only_for_what_it_has() {
    let mut world = TextCluster::of(
        "node a gpu=4; pods used 4 node=a gpu=1;
         group g gang minCount=3; pod leader group=g gpu=2; pods worker 3 group=g gpu=1",
    );
    world.decide();
    assert_eq!(world.core.waiting_classes_count(), 2);
    // Its room is used by another scheduler before it is decided.
    world.apply("delete used-0; delete used-1; pods other 2 node=a gpu=1; delete leader");
    world.decide();
    assert_eq!(world.core.waiting_classes_count(), 1);
    world.apply("delete other-0; delete other-1; delete used-2");
    assert_eq!(decided(&mut world), ["g: bind"]);
    assert_eq!(world.core.waiting_classes_count(), 0);
}

// It was no longer equal to the unit that was awake for all of them, and its own certificate was from before the change.
#[test]
fn a_gang_that_changes_while_an_equal_one_is_awake_does_not_miss_what_woke_that_one() {
    for change in ["delete h-1", "pod h-2 group=h gpu=1"] {
        let mut world = TextCluster::of(
            "node a gpu=1; pod used gpu=1 node=a; group g gang minCount=1 pods=2 gpu=1; group h gang minCount=1 pods=2 gpu=1",
        );
        world.decide();
        world.apply("node b gpu=3");
        world.apply(change);
        let lines = world.decide_and_bind();
        assert!(
            lines.contains("g: bind g-0 to b, g-1 to b") && lines.contains("h: bind h-0 to b"),
            "{change}: {lines}"
        );
    }
}

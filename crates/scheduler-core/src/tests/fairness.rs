//! Queue order, and that no unit starves.

use std::sync::Arc;
use std::time::Duration;

use insta::assert_snapshot;

use super::text_cluster::TextCluster;
use crate::cluster::NodeRef;
use crate::demand::classes::Class;
use crate::demand::reads::ReadSet;
use crate::plugins::filters::{Filter, LoadAssumption, PluginKind, Reason};
use crate::plugins::id::PluginId;
use crate::queue::cluster_events::ClusterEvents;
use crate::{Config, Profile};

const MINUTE: Duration = Duration::from_secs(60);
/// The limit of a reservation in these tests.
const MAX_RESERVATION: Duration = Duration::from_secs(300);

fn world(text: &str) -> TextCluster {
    TextCluster::with(
        Config { reserve_after: Some(MINUTE), max_reservation: MAX_RESERVATION, ..Config::default() },
        text,
    )
}

/// Two nodes full of small pods, and a gang that needs a whole one.
fn starved_gang() -> TextCluster {
    let mut world = world("node a gpu=2; node b gpu=2; pods run 4 gpu=1");
    world.decide_and_bind();
    world.apply("group g gang minCount=2 pods=2 gpu=1");
    assert!(world.decide().starts_with("g: wait (gang of 2 does not fit: 0 of 2"));
    world
}

/// The next small pod arrives, and a running pod leaves.
fn small_pod(world: &mut TextCluster, number: usize, deleted: &str) -> String {
    world.apply(&format!("pod small-{number} gpu=1; delete {deleted}"));
    world.decide_and_bind()
}

/// The units that decisions are about, in order.
fn decided(world: &mut TextCluster) -> String {
    let lines = world.decide_and_bind();
    lines
        .lines()
        .map(|line| line.split_once(" (").map_or(line, |(decision, _)| decision))
        .collect::<Vec<_>>()
        .join("\n")
}

// Ten thousand equal gangs were all decided again for every change that helped at most one of them.
#[test]
fn of_equal_waiting_units_the_next_is_woken_only_while_capacity_is_left() {
    let groups: String = (0..50).map(|n| format!("group g{n} gang minCount=2 pods=2 gpu=1; ")).collect();
    let mut world = TextCluster::of(&format!("node a gpu=5; pods used 5 node=a gpu=1; {groups}"));
    world.decide();
    world.apply("delete used-0");
    assert_eq!(decided(&mut world), "", "one slot is not enough for any of them");
    world.apply("delete used-1; delete used-2");
    assert_snapshot!(decided(&mut world), @"
    g0: bind g0-0 to a, g0-1 to a
    g1: wait
    ");
    world.apply("node b gpu=5");
    assert_snapshot!(decided(&mut world), @"
    g1: bind g1-0 to a, g1-1 to b
    g2: bind g2-0 to b, g2-1 to b
    g3: bind g3-0 to b, g3-1 to b
    g4: wait
    ");
}

#[test]
fn equal_units_are_woken_although_the_first_of_them_is_deleted_changed_or_incomplete() {
    let groups = "group g gang minCount=2 pods=2 gpu=1; group h gang minCount=2 pods=2 gpu=1; group i gang minCount=2 pods=2 gpu=1";
    for (case, change) in [
        ("a pod of it is deleted", "delete g-0"),
        ("both are deleted", "delete g-0; delete g-1"),
        ("it needs more pods", "group g gang minCount=3; pod g-2 group=g gpu=1"),
        ("it has another pod, of another size", "pod g-2 group=g gpu=2"),
    ] {
        let mut world = TextCluster::of(&format!("node a gpu=3; pods used 2 node=a gpu=1; {groups}"));
        world.decide();
        // It is ready when it changes.
        world.apply("delete used-0");
        world.apply(change);
        let lines = decided(&mut world);
        assert!(lines.contains("h: bind") || lines.contains("g: bind"), "{case}: {lines}");
        world.apply("delete used-1; node b gpu=1");
        assert!(!world.decide_and_bind().is_empty(), "{case}");
        assert!(world.core.find_remedies(world.now, 10).iter().all(|(_, refusal)| refusal.is_some()), "{case}");
    }
}

#[test]
fn equal_waiting_units_are_placed_in_order_of_arrival() {
    let mut world = TextCluster::of(
        "node a gpu=1; pod x node=a gpu=1; group b gang minCount=1 pods=1 gpu=1; group a gang minCount=1 pods=1 gpu=1;
         group c gang minCount=1 pods=1 gpu=1",
    );
    world.decide();
    let mut bound = Vec::new();
    let mut last = "x".to_owned();
    for _ in 0..3 {
        world.apply(&format!("delete {last}"));
        let line = world.decide_and_bind().lines().next().unwrap().to_owned();
        last = line.split_whitespace().nth(2).unwrap().to_owned();
        bound.push(line);
    }
    assert_eq!(bound, ["b: bind b-0 to a", "a: bind a-0 to a", "c: bind c-0 to a"]);
}

/// A pod of a Job ends, and the Job creates another, as a Job does whose completions exceed its parallelism. Returns
/// the pods that are bound then.
fn replaced(world: &mut TextCluster, ended: &str, by: &str) -> String {
    let (group, _) = by.split_once('-').unwrap();
    world.apply(&format!("finish {ended}; pod {by} group={group} gpu=1"));
    let decided = world.decide_and_bind();
    let bound = decided.lines().filter_map(|line| line.split_once(": bind ")).map(|(_, spots)| spots);
    bound.collect::<Vec<_>>().join(", ")
}

#[test]
fn replacements_of_a_jobs_pods_queue_behind_older_pods() {
    let mut world = TextCluster::of("node a gpu=2; group old basic pods=4 gpu=1");
    assert!(world.decide_and_bind().starts_with("old: bind old-0 to a, old-1 to a"));
    world.apply("group new basic pods=1 gpu=1; pod alone gpu=1");
    world.decide();
    // The first pods are older than the others and precede them; their replacements are not.
    let more = "(no more pods fit (Insufficient nvidia.com/gpu on 1 of 1 nodes))";
    assert_eq!(replaced(&mut world, "old-0", "old-4"), format!("old-2 to a {more}"));
    assert_eq!(replaced(&mut world, "old-1", "old-5"), format!("old-3 to a {more}"));
    assert_eq!(replaced(&mut world, "old-2", "old-6"), "new-0 to a");
    assert_eq!(replaced(&mut world, "old-3", "old-7"), "alone to a");
    world.apply("delete alone");
    assert!(world.decide_and_bind().starts_with("old: bind old-4 to a"));
    // A Job between the oldest and the youngest pending pod, once the oldest is gone.
    world.apply("group late basic pods=1 gpu=1; delete old-5; delete old-6; delete old-7; pod old-8 group=old gpu=1");
    world.decide();
    assert_eq!(replaced(&mut world, "new-0", "old-9"), "late-0 to a");
    assert_eq!(replaced(&mut world, "late-0", "old-10"), format!("old-8 to a {more}"));
    world.apply("delete old-10");
    assert_eq!(replaced(&mut world, "old-8", "old-11"), format!("old-9 to a {more}"));
    world.core.assert_consistent();
}

#[test]
fn pods_that_a_gang_needs_use_its_order_and_extra_pods_their_own() {
    let mut world = TextCluster::of("node a gpu=3; group g gang minCount=2 pods=3 gpu=1");
    world.decide_and_bind();
    world.apply("group new basic pods=2 gpu=1");
    world.decide();
    // With two of three left the gang has its minCount, with one it does not.
    world.apply("delete g-0; pod g-3 group=g gpu=1");
    assert!(world.decide_and_bind().contains("new: bind new-0 to a"));
    world.apply("delete g-1; pod g-4 group=g gpu=1");
    let decided = world.decide_and_bind();
    assert!(decided.starts_with("g: bind g-3 to a"), "{decided}");
    assert!(!decided.contains("new: bind"), "{decided}");
    world.apply("delete g-2");
    assert!(world.decide_and_bind().starts_with("g: bind g-4 to a"));
}

#[test]
fn a_gang_is_overtaken_by_replacements_of_an_older_jobs_pods_only_until_the_limit() {
    let mut world = world("node a gpu=2; group old basic pods=3 gpu=1");
    world.decide_and_bind();
    world.apply("group g gang minCount=2 pods=2 gpu=1");
    world.decide();
    assert!(replaced(&mut world, "old-0", "old-3").starts_with("old-2 to a"));
    assert!(replaced(&mut world, "old-1", "old-4").starts_with("old-3 to a"));
    world.now += MINUTE;
    assert_eq!(replaced(&mut world, "old-2", "old-5"), "");
    assert_eq!(replaced(&mut world, "old-3", "old-6"), "g-0 to a, g-1 to a");
}

#[test]
fn the_oldest_pending_pod_counts_in_any_order_of_observation() {
    // As after a restart, when pods are observed in the order of their names.
    let mut world = TextCluster::of("node a gpu=1; pod run gpu=1 node=a; group b basic; group a basic");
    for (name, second) in [("a-0", 40), ("a-1", 10), ("b-0", 20)] {
        world.apply(&format!("pod {name} group={} gpu=1 created={second}", &name[..1]));
    }
    world.apply("delete run");
    assert!(world.decide_and_bind().starts_with("a: bind"));
}

#[test]
fn a_gang_is_overtaken_by_small_pods_only_until_the_limit() {
    let mut world = starved_gang();
    // The gang is first whenever a pod leaves, but one slot is not enough, and the small pod uses it.
    assert!(small_pod(&mut world, 0, "run-0").ends_with("small-0: bind small-0 to a"));
    world.now += MINUTE - Duration::from_secs(1);
    assert!(small_pod(&mut world, 1, "run-1").ends_with("small-1: bind small-1 to a"));
    // From now on capacity that becomes free on one of the nodes is reserved.
    world.now += Duration::from_secs(1);
    assert_snapshot!(small_pod(&mut world, 2, "small-0"), @"small-2: wait (0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) were reserved for ns/g, which waits longer, until 1970-01-01T00:06:00Z at the latest.)");
    assert_snapshot!(small_pod(&mut world, 3, "small-1"), @"
    g: bind g-0 to a, g-1 to a
    small-3: wait (0/2 nodes are available: 2 Insufficient nvidia.com/gpu.)
    ");
}

#[test]
fn unreserved_nodes_are_open_to_all() {
    let mut world = world("node a gpu=2; node b gpu=2; node c gpu=2; pods run 6 gpu=1");
    world.decide_and_bind();
    world.apply("group g gang minCount=3 pods=3 gpu=1");
    world.decide();
    world.now += MINUTE;
    world.decide();
    assert!(small_pod(&mut world, 0, "run-4").contains("small-0: bind small-0 to c"));
    assert!(!small_pod(&mut world, 1, "run-0").contains("bind"));
    assert!(small_pod(&mut world, 2, "run-5").contains("small-1: bind small-1 to c"));
}

/// One long pod blocks a gang that needs all GPUs of both nodes, and half of each node's CPUs.
fn blocked_by_one_pod(profile: Profile) -> TextCluster {
    let config = Config {
        profiles: vec![profile],
        reserve_after: Some(MINUTE),
        max_reservation: MAX_RESERVATION,
        ..Config::default()
    };
    let mut world =
        TextCluster::with(config, "node a gpu=2 cpu=4 pods=6; node b gpu=2 cpu=4 pods=6; pod long gpu=1 node=a");
    world.apply("group g gang minCount=4 pods=4 gpu=1 cpu=1");
    world.decide();
    world.now += MINUTE;
    world.decide();
    assert!(world.core.has_reservation());
    world
}

// The search for a gang of two sizes did not respect the reservation, so it took what was reserved.
#[test]
fn a_mixed_gang_does_not_take_what_is_reserved_for_another() {
    let mut world = blocked_by_one_pod(Profile::default());
    // Two of four CPUs are not reserved on each node. The sums accept each size alone; together they need six.
    world.apply("group m gang minCount=4; pods x 2 group=m cpu=2; pods y 2 group=m cpu=1");
    let decided = world.decide();
    assert!(decided.starts_with("m: wait (gang of 4 does not fit"), "{decided}");
    world.apply("group n gang minCount=3; pods v 1 group=n cpu=2; pods w 2 group=n cpu=1");
    assert_snapshot!(world.decide(), @"n: bind v-0 to a, w-0 to b, w-1 to b");
}

#[test]
fn a_reservation_admits_pods_that_fit_beside_the_gang() {
    let mut world = blocked_by_one_pod(Profile::default());
    world.apply("pods small 2 gpu=1; pods plain 5 cpu=1");
    assert_snapshot!(world.decide_and_bind(), @"
    small-0: wait (0/2 nodes are available: 2 node(s) were reserved for ns/g, which waits longer, until 1970-01-01T00:06:00Z at the latest.)
    small-1: wait (0/2 nodes are available: 2 node(s) were reserved for ns/g, which waits longer, until 1970-01-01T00:06:00Z at the latest.)
    plain-0: bind plain-0 to b
    plain-1: bind plain-1 to a
    plain-2: bind plain-2 to a
    plain-3: bind plain-3 to b
    plain-4: wait (0/2 nodes are available: 2 node(s) were reserved for ns/g, which waits longer, until 1970-01-01T00:06:00Z at the latest.)
    ");
    world.core.assert_consistent();
    // What the gang waits for is still reserved.
    world.apply("delete long");
    assert!(world.decide_and_bind().starts_with("g: bind g-0 to a, g-1 to b, g-2 to a, g-3 to b"));
}

#[test]
fn a_unit_blocked_only_by_a_reservation_gets_its_end_as_remedy() {
    let mut world = blocked_by_one_pod(Profile::default());
    world.apply("group h gang minCount=2 pods=2 gpu=1");
    world.decide();
    let reports = world.core.find_remedies(world.now, 4);
    let (_, refusal) = reports.iter().find(|(unit, _)| unit.key().name == "h").unwrap();
    assert_snapshot!(refusal.as_ref().unwrap().message(), @"gang of 2 does not fit: 0 of 2 pods fit (2 more needed; 2 of 2 nodes were reserved for ns/g, which waits longer, until 1970-01-01T00:06:00Z at the latest); remedy: wait until the reservation for ns/g ends, 1970-01-01T00:06:00Z at the latest");
    let reasons = &refusal.as_ref().unwrap().reasons;
    assert!(reasons.0.keys().all(|reason| reason.plugin == PluginId::RESERVATION));
    // Four would not fit without it either.
    world.apply("group i gang minCount=4 pods=4 gpu=1");
    world.decide();
    let reports = world.core.find_remedies(world.now, 4);
    let (_, refusal) = reports.iter().find(|(unit, _)| unit.key().name == "i").unwrap();
    assert!(!refusal.as_ref().unwrap().message().contains("wait until the reservation"));
    world.core.assert_consistent();
}

#[test]
fn a_reservation_includes_pod_slots() {
    let mut world = blocked_by_one_pod(Profile::default());
    world.apply("pods tiny 9");
    let decided = world.decide_and_bind();
    // Of twelve pod slots four are the gang's and one is used.
    assert_eq!(decided.matches("bind").count(), 7, "{decided}");
    world.apply("delete long");
    assert!(world.decide_and_bind().starts_with("g: bind g-0"));
}

/// A filter that counts pods: a node has four licences.
#[derive(Debug)]
struct Licences;

impl Filter for Licences {
    fn name(&self) -> &str {
        "Licences"
    }

    fn kind(&self) -> PluginKind {
        PluginKind::Counted
    }

    fn reads(&self) -> ReadSet {
        ReadSet::default()
    }

    fn events_to_register(&self, _: &Class) -> ClusterEvents {
        ClusterEvents::ASSIGNED_POD_DELETE
    }

    fn slots(&self, _: &Class, node: NodeRef<'_>, load: LoadAssumption) -> u32 {
        let used = if load == LoadAssumption::Now { node.pods_count() } else { 0 };
        u32::try_from(4 - used).unwrap_or(0)
    }

    fn reasons(&self, _: &Class, _: NodeRef<'_>, _: u32, _: &mut dyn FnMut(Reason)) {}
}

#[test]
fn a_custom_filter_counts_what_is_reserved_like_pods() {
    let profile = Profile::default().with_filter(Arc::new(Licences)).unwrap();
    let mut world = blocked_by_one_pod(profile);
    world.apply("pods plain 4 cpu=1");
    // Two of four licences on each node are the gang's, and one is used. Four CPUs are not reserved.
    assert_snapshot!(world.decide_and_bind(), @"
    plain-0: bind plain-0 to b
    plain-1: bind plain-1 to a
    plain-2: bind plain-2 to b
    plain-3: wait (0/2 nodes are available: 2 node(s) were reserved for ns/g, which waits longer, until 1970-01-01T00:06:00Z at the latest.)
    ");
    world.apply("delete long");
    assert!(world.decide_and_bind().starts_with("g: bind g-0"));
}

#[test]
fn a_pod_is_woken_when_only_the_unreserved_capacity_grows() {
    // Two of a's GPUs are reserved for the gang, which is all that is free. Then one more becomes free. By CPU there is
    // one slot for the small pod, before and after.
    let mut world = world(
        "node a gpu=4 cpu=1 memory=2; node b gpu=1 memory=1; pods x 2 gpu=1 node=a; pod y gpu=1 node=b;
         group g gang minCount=3 pods=3 gpu=1 memory=1",
    );
    world.decide();
    world.now += MINUTE;
    world.apply("pod small gpu=1 cpu=1");
    assert!(world.decide().starts_with("small: wait"));
    assert!(world.core.has_reservation());
    world.apply("delete x-0");
    assert!(world.decide().ends_with("small: bind small to a"));
}

#[test]
fn a_reservation_includes_host_ports() {
    let mut world = world("node a gpu=2; pod run gpu=2; group g gang minCount=1 pods=1 gpu=1 port=80");
    world.decide_and_bind();
    world.now += MINUTE;
    world.apply("pod other port=81; pod same port=80");
    assert_snapshot!(world.decide_and_bind(), @"
    other: bind other to a
    same: wait (0/1 nodes are available: 1 node(s) were reserved for ns/g, which waits longer, until 1970-01-01T00:06:00Z at the latest.)
    ");
    world.apply("delete run");
    assert!(world.decide_and_bind().starts_with("g: bind g-0 to a"));
}

#[test]
fn a_reservation_ends_with_the_gangs_bind() {
    let mut world = starved_gang();
    world.now += MINUTE;
    assert_eq!(world.core.next_at(), Some(world.now));
    small_pod(&mut world, 0, "run-0");
    world.apply("delete run-1");
    assert_snapshot!(world.decide_and_bind(), @"g: bind g-0 to a, g-1 to a");
    world.apply("delete g-0");
    assert_snapshot!(world.decide_and_bind(), @"small-0: bind small-0 to a");
}

#[test]
fn a_reservation_ends_by_itself_and_the_wait_starts_again() {
    let mut world = starved_gang();
    world.now += MINUTE;
    assert!(!small_pod(&mut world, 0, "run-0").contains("bind"));
    // Nothing more becomes free.
    assert_eq!(world.core.next_at(), Some(world.now + MINUTE));
    world.now += MINUTE;
    assert!(world.decide_and_bind().contains("small-0: bind small-0 to a"));
    assert_eq!(world.core.next_at(), Some(world.now + 2 * MINUTE));
}

/// How many minutes pass from each reservation without success to the next.
fn pauses_between_reservations(world: &mut TextCluster, count: usize) -> Vec<u64> {
    let mut minutes = Vec::new();
    for _ in 0..count {
        let before = world.now;
        world.now = world.core.next_at().unwrap();
        assert!(!world.core.has_reservation());
        world.decide();
        assert!(world.core.has_reservation());
        minutes.push(world.now.duration_since(before).as_secs().unsigned_abs() / 60);
        world.now += MAX_RESERVATION;
        world.decide();
    }
    minutes
}

#[test]
fn pauses_between_unsuccessful_reservations_double_until_the_gang_changes() {
    let mut world = starved_gang();
    // The longest pause is eight times the length of a reservation.
    assert_eq!(pauses_between_reservations(&mut world, 8), [1, 2, 4, 8, 16, 32, 40, 40]);
    // All nodes are full, but the gang has changed.
    world.apply("group g gang minCount=1");
    world.decide();
    assert_eq!(pauses_between_reservations(&mut world, 2), [1, 2]);
    world.apply("delete run-0; delete run-1");
    assert!(world.decide_and_bind().contains("g: bind g-0 to a, g-1 to a"));
    world.apply("delete g-0; delete g-1; pods run 2 gpu=1 node=a; pods g 2 group=g gpu=1");
    world.decide();
    assert_eq!(pauses_between_reservations(&mut world, 2), [1, 2]);
}

#[test]
fn a_reservation_ends_when_the_gang_is_deleted() {
    let mut world = starved_gang();
    world.now += MINUTE;
    assert!(!small_pod(&mut world, 0, "run-0").contains("bind"));
    world.apply("delete g-0; delete g-1");
    assert_snapshot!(world.decide_and_bind(), @"small-0: bind small-0 to a");
}

#[test]
fn a_reservation_does_not_apply_to_units_before_the_gang() {
    let mut world = starved_gang();
    world.now += MINUTE;
    assert!(!small_pod(&mut world, 0, "run-0").contains("bind"));
    world.apply("pod urgent gpu=1 priority=10");
    assert_snapshot!(world.decide_and_bind(), @"urgent: bind urgent to a");
}

#[test]
fn nothing_is_reserved_for_a_gang_that_would_not_fit_on_empty_nodes() {
    let mut world = world("node a gpu=2; pod run gpu=1; group g gang minCount=3 pods=3 gpu=1");
    world.decide_and_bind();
    world.now += 10 * MINUTE;
    world.apply("pod small gpu=1");
    assert_snapshot!(world.decide_and_bind(), @"small: bind small to a");
}

#[test]
fn a_reservation_for_a_gang_with_a_key_is_in_one_domain_where_it_would_fit() {
    // Rack s is always too small. Of the others, the one with the most free slots is chosen.
    let mut world = world(
        "node a gpu=2 rack=r; node b gpu=2 rack=r; node c gpu=1 rack=s; node d gpu=3 rack=t;
         pods ra 2 gpu=1 node=a; pods rb 2 gpu=1 node=b; pods rc 1 gpu=1 node=c; pods rd 3 gpu=1 node=d;
         group g gang minCount=3 pods=3 gpu=1 key=rack",
    );
    world.decide_and_bind();
    world.apply("delete rd-0");
    world.decide_and_bind();
    world.now += MINUTE;
    world.apply("pod small gpu=1");
    let decided = world.decide_and_bind();
    assert!(
        decided.contains("1 node(s) were reserved for ns/g, which")
            && decided.contains("3 Insufficient nvidia.com/gpu."),
        "{decided}"
    );
    world.apply("delete rb-0");
    assert!(world.decide_and_bind().contains("small: bind small to b"));
    world.apply("delete rd-1; delete rd-2");
    assert!(world.decide_and_bind().contains("g: bind g-0 to d, g-1 to d, g-2 to d"));
}

#[test]
fn without_the_setting_nothing_is_reserved() {
    let mut world =
        TextCluster::with(Config { reserve_after: None, ..Config::default() }, "node a gpu=1; pod run gpu=1");
    world.decide_and_bind();
    world.apply("group g gang minCount=2 pods=2 gpu=1; node b gpu=1; pod run-b gpu=1");
    world.decide_and_bind();
    world.now += 100 * MINUTE;
    world.apply("delete run; pod small gpu=1");
    assert!(world.decide_and_bind().contains("small: bind"));
}

/// The cost of deciding about a group of `size` pods that arrive, wait, and then fit one by one.
fn steps_for(size: usize) -> (u64, usize) {
    let mut world = TextCluster::of(&format!("node a gpu={size} pods=100000; group g basic"));
    world.apply(&format!("pods run {size} gpu=1"));
    world.decide_and_bind();
    let before = world.core.steps_count();
    let mut decisions = 0;
    for number in 0..size {
        world.apply(&format!("pod g-{number} group=g gpu=1"));
        decisions += world.decide().lines().count();
    }
    for number in 0..size {
        world.apply(&format!("delete run-{number}"));
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

/// The same for a gang: its pods arrive, it is refused, and they are deleted one by one.
fn steps_for_gang(size: usize) -> u64 {
    let mut world = TextCluster::of(&format!("node a gpu=1 pods=100000; group g gang minCount={}", size / 2));
    let before = world.core.steps_count();
    for number in 0..size {
        world.apply(&format!("pod g-{number} group=g gpu=1"));
        world.decide();
    }
    for number in 0..size {
        world.apply(&format!("delete g-{number}"));
        world.decide();
    }
    world.core.steps_count() - before
}

#[test]
fn a_refused_gang_costs_the_same_for_each_pod_that_arrives_or_leaves() {
    let (small, large) = (steps_for_gang(50), steps_for_gang(200));
    assert!(large <= 5 * small, "four times the pods took {large} steps after {small}");
}

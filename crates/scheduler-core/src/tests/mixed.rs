//! Gangs with pods of several classes: a placement is found if one exists, and the refusal is proven if the search
//! ends.

use std::time::Duration;

use insta::assert_snapshot;
use types::views::ObjectKey;

use super::text_cluster::{TextCluster, decide_text};
use crate::{Config, DecisionAction, Refusal, Unit};

/// A core that does not search.
fn without_search(text: &str) -> TextCluster {
    TextCluster::with(Config { max_search_steps: 0, ..Config::default() }, text)
}

fn refused(world: &mut TextCluster) -> Refusal {
    let decision = world.core.next(world.now).unwrap();
    let DecisionAction::Wait(refusal) = decision.action else { panic!("{decision:?}") };
    refusal
}

#[test]
fn mixed_gang_places_large_pods_first() {
    let cluster = "node a gpu=4; node b gpu=3;
        group trainer gang minCount=4; pods worker 3 group=trainer gpu=1; pod leader group=trainer gpu=4";
    assert_snapshot!(
        decide_text(cluster),
        @"trainer: bind leader to a, worker-0 to b, worker-1 to b, worker-2 to b"
    );
}

#[test]
fn large_extra_pods_do_not_keep_a_gang_from_its_min_count() {
    let cluster = "node a gpu=4; group g gang minCount=4; pods s 4 group=g gpu=1; pod l group=g gpu=3";
    assert_snapshot!(decide_text(cluster), @"g: bind s-0 to a, s-1 to a, s-2 to a, s-3 to a (no more pods fit (Insufficient nvidia.com/gpu on 1 of 1 nodes))");
}

/// Only 3 + 3 and 2 + 2 + 2 fill both nodes. Pods are placed on the emptier node, so neither order of the classes
/// finds this.
const ONE_PLACEMENT: &str = "node a cpu=6; node b cpu=6;
    group g gang minCount=5; pods x 2 group=g cpu=3; pods y 3 group=g cpu=2";

#[test]
fn a_placement_that_only_a_search_finds_is_found() {
    assert_snapshot!(decide_text(ONE_PLACEMENT), @"g: bind x-0 to a, x-1 to a, y-0 to b, y-1 to b, y-2 to b");
}

// One domain used up the search steps of the whole decision.
#[test]
fn a_hard_domain_leaves_search_steps_for_the_next() {
    // By the sums, all pods fit in r1, which has less to spare. Together they need 83 of its 80 CPUs.
    let tight: String = (0..8).map(|n| format!("node h{n} cpu=10 rack=r1; ")).collect();
    let sizes = [(7, 2), (6, 3), (5, 4), (4, 4), (3, 5)];
    let pods: String = sizes.iter().map(|(cpu, count)| format!("; pods p{cpu} {count} group=g cpu={cpu}")).collect();
    let group = |nodes: &str| format!("{tight}{nodes}group g gang minCount=18 key=rack{pods}");
    assert!(!refused(&mut TextCluster::of(&group(""))).proven, "r1 takes more steps than a decision has");
    // The simple orders put a pod of 7 on the node of 13, which must take 4 + 3 + 3 + 3.
    let exact: String = (0..8).map(|n| format!("node l{n} cpu={} rack=r2; ", if n == 0 { 13 } else { 10 })).collect();
    assert!(TextCluster::of(&group(&exact)).decide().starts_with("g: bind p7-0 to l1"));
}

// The best domain got the smallest share of the steps and was never searched again.
#[test]
fn steps_that_easy_domains_leave_go_to_the_hard_one() {
    let sizes = [(18, 3), (16, 6), (15, 3), (6, 6)];
    let pods: String = sizes.iter().map(|(cpu, count)| format!("; pods p{cpu} {count} group=g cpu={cpu}")).collect();
    // The pods fill all of it.
    let hard: String = [73, 53, 45, 60].iter().map(|cpu| format!("node l{cpu} cpu={cpu} rack=r0; ")).collect();
    // Each takes every size alone, but only 17 of the 18 pods, which takes few steps to find out.
    let easy: String = (1..30).map(|n| format!("node e{n} cpu=300 pods=17 rack=r{n}; ")).collect();
    let text = |nodes: &str| format!("{nodes}group g gang minCount=18 key=rack{pods}");
    let few_steps = Config { max_search_steps: 1000, ..Config::default() };
    assert!(TextCluster::with(few_steps, &text(&hard)).decide().contains("wait"));
    assert!(TextCluster::of(&text(&(easy + &hard))).decide().contains("bind"));
}

#[test]
fn a_refusal_is_proven_when_the_search_ended_and_not_when_it_gave_up() {
    let short_of_one = format!("{ONE_PLACEMENT}; pod z node=b cpu=1");
    let mut complete = TextCluster::of(&short_of_one);
    let refusal = refused(&mut complete);
    assert_eq!((refusal.proven, refusal.can_fit_later), (true, true));
    assert_snapshot!(refusal.message(), @"gang of 5 does not fit: 4 of 5 pods fit (1 more needed; Insufficient cpu on 2 of 2 nodes)");
    assert!(!refused(&mut without_search(&short_of_one)).proven);
    assert!(!refused(&mut without_search(ONE_PLACEMENT)).proven, "it fits, but there was no search");
}

#[test]
fn what_the_sums_reject_is_proven_without_a_search() {
    let refusal = refused(&mut without_search(
        "node a gpu=4; group g gang minCount=4; pods s 3 group=g gpu=1; pod l group=g gpu=5",
    ));
    assert_eq!((refusal.proven, refusal.can_fit_later, refusal.fits_count), (true, false, 3));
}

#[test]
fn the_number_that_fits_is_one_that_fits_together() {
    // Alone, three small pods or one large one fit: four. Together, three.
    let refusal = refused(&mut TextCluster::of(
        "node a gpu=4; group g gang minCount=8; pods s 7 group=g gpu=1; pod l group=g gpu=3",
    ));
    assert_eq!(refusal.fits_count, 4);
    let refusal = refused(&mut TextCluster::of(
        "node a gpu=4; group g gang minCount=5; pods s 3 group=g gpu=1; pods l 2 group=g gpu=3",
    ));
    assert_eq!(refusal.fits_count, 3);
}

#[test]
fn a_waiting_gang_is_tried_again_when_the_pod_in_its_way_is_deleted() {
    // A gang of mixed pods was refused, unproven, because of the order in which its pods were tried. Then the largest pod
    // was deleted, and the others would have fitted. The gang was not tried again, because fewer pods were thought not to
    // help.
    let mut world = without_search(
        "node a cpu=6; node b cpu=6; group g gang minCount=4;
         pod w group=g cpu=4; pods x 2 group=g cpu=3; pod y group=g cpu=2; pod large group=g cpu=5",
    );
    assert!(!refused(&mut world).proven);
    world.apply("delete large");
    assert_snapshot!(world.decide(), @"g: bind w to a, x-0 to b, x-1 to b, y to a");
}

/// A gang of a 2-GPU and a 3-GPU pod waits; each of them fits on the node, but not both.
fn waiting_leader_and_worker(cluster: &str) -> TextCluster {
    let mut world = TextCluster::of(cluster);
    world.apply("group g gang minCount=2; pod leader group=g gpu=3; pod worker group=g gpu=2");
    assert!(refused(&mut world).proven);
    world
}

#[test]
fn a_gang_of_two_sizes_is_woken_when_what_both_use_grows() {
    // A leader fits before and after, and so do one or two workers: neither class has more slots on the node.
    let bound = "g: bind leader to a, worker to a";
    let mut world = waiting_leader_and_worker("node a gpu=5; pod small node=a gpu=1");
    world.apply("delete small");
    assert_eq!(world.decide(), bound);
    let mut world = waiting_leader_and_worker("node a gpu=4");
    world.apply("node a gpu=5");
    assert_eq!(world.decide(), bound);
    // The same where pod slots are scarce.
    let mut world = waiting_leader_and_worker("node a gpu=8 pods=3; pod x node=a; pod y node=a");
    world.apply("delete x");
    assert_eq!(world.decide(), bound);
    assert_eq!(world.core.take_missed_wakeups(), 0);
}

#[test]
fn a_unit_that_an_explanation_or_remedy_search_finds_to_fit_is_decided_next_and_counted() {
    let unit = Unit::Group(ObjectKey::new("ns", "g"));
    for by_remedy_search in [true, false] {
        // Without a search the one placement is missed. A pod that uses memory changes the order of nodes, which finds
        // it. No resource has grown, so no event wakes the gang.
        let mut world = without_search(ONE_PLACEMENT);
        assert!(!refused(&mut world).proven);
        world.apply("pod z node=b memory=1Ti");
        assert_eq!((world.decide().as_str(), world.core.take_missed_wakeups()), ("", 0));
        if by_remedy_search {
            assert_eq!(world.core.find_remedies(world.now, 1), [(unit.clone(), None)]);
        } else {
            assert!(world.core.explain(&unit, &[]).unwrap().fits_now);
        }
        assert!(world.core.has_ready());
        assert_eq!(world.decide(), "g: bind x-0 to a, x-1 to a, y-0 to b, y-1 to b, y-2 to b");
        assert_eq!((world.core.take_missed_wakeups(), world.core.take_missed_wakeups()), (1, 0));
    }
}

#[test]
fn a_missed_wake_up_counts_only_while_the_unit_still_waits() {
    let unit = Unit::Group(ObjectKey::new("ns", "g"));
    for (case, change, decided, missed) in [
        ("other pods came", "pod small node=b", "g: bind", 1),
        ("a change woke it", "node c gpu=9", "g: bind", 0),
        ("it is gone", "delete x-0; delete x-1", "", 0),
    ] {
        let mut world = without_search(ONE_PLACEMENT);
        assert!(!refused(&mut world).proven);
        world.apply("pod z node=b memory=1Ti");
        assert_eq!(world.decide(), "");
        let task = world.core.explain_task(&unit, &[]).unwrap();
        let (mut fork, remedies) = (world.core.fork(), world.core.remedy_tasks(world.now, 1).remove(0));
        world.apply(change);
        let (explanation, found) = fork.explain(task);
        assert!(explanation.fits_now, "{case}");
        world.core.offer(found.unwrap());
        // Its report is accepted while it waits for the same reason, and then it is no second missed wake-up.
        assert_eq!(world.core.accept_remedies(fork.find_remedies(remedies)), None, "{case}");
        assert_eq!(world.core.take_missed_wakeups(), missed, "{case}");
        assert!(world.decide().starts_with(decided), "{case}");
        world.core.offer(found.unwrap());
        assert_eq!((world.core.take_missed_wakeups(), world.core.has_ready()), (0, false), "{case}");
    }
}

#[test]
fn a_gang_of_two_sizes_is_not_woken_by_what_it_does_not_use() {
    let mut world = waiting_leader_and_worker("node a gpu=4 cpu=8; pod plain node=a cpu=8");
    world.apply("delete plain; node a gpu=4 cpu=16");
    assert_eq!(world.decide(), "");
}

#[test]
fn a_gang_with_one_large_pod_too_many_is_bound_without_it() {
    // The history in which the property test found the missed wake-up.
    let mut world = without_search("pod p0 gpu=0; node n0 gpu=0 pods=1; group g gang minCount=4 pods=6 gpu=1 key=rack");
    world.decide_and_bind();
    world.apply("finish p0; pod p1 gpu=0; pod m group=g gpu=2; pod n group=g gpu=1; node n0 gpu=4 pods=5 rack=r1");
    let first = world.decide();
    world.apply("delete m; delete p1");
    let bound = format!("{first}\n{}", world.decide());
    assert!(bound.contains("g: bind"), "{bound}");
}

#[test]
fn pods_that_cannot_help_requeue_a_refused_gang_only_for_its_numbers() {
    let mut world = TextCluster::of("node a gpu=2; pod x node=a gpu=1; group g gang minCount=2 pods=2 gpu=1");
    assert!(refused(&mut world).proven);
    world.apply("pod g-2 group=g gpu=1; delete g-0");
    assert_eq!(world.decide(), "");
    assert_eq!(world.core.next_at(), Some(world.now + Duration::from_secs(1)));
    world.now += Duration::from_secs(1);
    assert_snapshot!(world.decide(), @"g: wait (gang of 2 does not fit: 1 of 2 pods fit (1 more needed; Insufficient nvidia.com/gpu on 1 of 1 nodes))");
    // A pod of another class may help: it needs no GPU.
    world.apply("pod g-3 group=g");
    assert_snapshot!(world.decide(), @"g: bind g-1 to a, g-3 to a (no more pods fit (Insufficient nvidia.com/gpu on 1 of 1 nodes))");
}

#[test]
fn a_search_in_each_of_several_domains_finds_the_one_that_fits() {
    let cluster = "node a cpu=6 rack=r1; node b cpu=5 rack=r1; node c cpu=6 rack=r2; node d cpu=6 rack=r2;
        group g gang minCount=5 key=rack; pods x 2 group=g cpu=3; pods y 3 group=g cpu=2";
    assert_snapshot!(decide_text(cluster), @"g: bind x-0 to c, x-1 to c, y-0 to d, y-1 to d, y-2 to d");
}

/// No pod of 5 fits beside one of 6, so one of each four is too many. The sums accept each size.
const NO_PLACEMENT: &str = "node a cpu=10; node b cpu=10; node c cpu=10; node d cpu=10; group g gang minCount=12;
    pods p6 4 group=g cpu=6; pods p5 4 group=g cpu=5; pods p2 2 group=g cpu=2; pods p1 2 group=g cpu=1";

// A unit on which the search gave up was never searched again while nothing changed.
#[test]
fn a_search_that_gave_up_is_repeated_with_more_effort_until_it_ends() {
    let config = Config { max_search_steps: 5, reserve_after: None, ..Config::default() };
    let mut world = TextCluster::with(config, NO_PLACEMENT);
    assert!(!refused(&mut world).proven);
    let (mut pauses, mut proven) = (Vec::new(), false);
    while let Some(at) = world.core.next_at() {
        assert!(world.core.next(at - Duration::from_millis(1)).is_none());
        pauses.push(at.duration_since(world.now).as_secs());
        world.now = at;
        // An idle core does it, a busy one decides first.
        world.apply(&format!("pod other-{} cpu=11", pauses.len()));
        assert!(world.core.next(world.now).unwrap().unit.key().name.starts_with("other"));
        let refusal = refused(&mut world);
        assert_eq!(world.decide(), "");
        proven = refusal.proven;
    }
    assert!(pauses.len() > 1 && [1, 2, 4, 8, 16, 32].starts_with(&pauses), "{pauses:?}");
    assert!(proven && world.core.next_at().is_none());
}

#[test]
fn a_placement_that_needs_more_effort_is_found_when_the_core_is_idle() {
    let config = Config { max_search_steps: 1, ..Config::default() };
    let mut world = TextCluster::with(config, ONE_PLACEMENT);
    let mut waited = 0;
    while !world.decide().contains("g: bind") {
        waited += 1;
        assert!(waited < 10, "effort grows");
        world.now = world.core.next_at().unwrap();
    }
    assert!(waited > 0, "it is not found without more effort");
}

// Only the first of equal units was searched again, and the others lost that when it was deleted.
#[test]
fn an_equal_unit_is_searched_with_more_effort_when_the_first_is_deleted() {
    let config = Config { max_search_steps: 1, reserve_after: None, ..Config::default() };
    let mut world = TextCluster::with(config, "");
    for name in ["g", "h"] {
        world.apply(&format!(
            "group {name} gang minCount=5; pods {name}x 2 group={name} cpu=3; pods {name}y 3 group={name} cpu=2"
        ));
    }
    assert_eq!(world.decide().matches(": wait").count(), 2);
    world.apply("node a cpu=6; node b cpu=6");
    assert!(world.decide().starts_with("g: wait"));
    for name in world.pods.keys().filter(|name| name.starts_with('g')).cloned().collect::<Vec<_>>() {
        world.delete(&name);
    }
    let mut waited = 0;
    while !world.decide().contains("h: bind") {
        waited += 1;
        assert!(waited < 10, "effort grows");
        world.now = world.core.next_at().unwrap();
    }
}

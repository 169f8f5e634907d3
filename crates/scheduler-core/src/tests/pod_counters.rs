//! Filters that count pods on nodes, and filters that more pods can help.

use std::sync::Arc;

use insta::assert_snapshot;
use types::views::PodView;

use super::text_cluster::TextCluster;
use crate::{
    Class, ClusterEvents, Config, DecisionAction, Filter, LoadAssumption, NO_LIMIT, NodeRef, PluginKind, PodCounter,
    PodSpecFields, Profile, ReadSet, Reason, RefusalCause, Unit,
};

const COUNTERS: [PodCounter; 2] =
    [PodCounter { name: "leader", count: is_leader }, PodCounter { name: "worker", count: is_worker }];

fn is_leader(pod: &PodView) -> u32 {
    u32::from(pod.metadata.labels.get("app").is_some_and(|app| app.starts_with("leader")))
}

fn is_worker(pod: &PodView) -> u32 {
    u32::from(pod.metadata.labels.get("app").is_some_and(|app| app.starts_with("worker")))
}

/// A simple affinity: `app=…-near-leader` fits only on a node with a leader, `app=…-near-worker` on one with a worker.
#[derive(Debug)]
struct Near;

impl Near {
    fn wanted(class: &Class) -> Option<&str> {
        class.label("app")?.split_once("-near-").map(|(_, wanted)| wanted)
    }
}

impl Filter for Near {
    fn name(&self) -> &str {
        "Near"
    }

    fn kind(&self) -> PluginKind {
        PluginKind::Counted
    }

    fn reads(&self) -> ReadSet {
        ReadSet::fields(PodSpecFields::NONE).with_label("app")
    }

    fn counters(&self) -> Vec<PodCounter> {
        COUNTERS.to_vec()
    }

    fn is_monotone(&self) -> bool {
        false
    }

    fn events_to_register(&self, class: &Class) -> ClusterEvents {
        if Near::wanted(class).is_some() { ClusterEvents::ASSIGNED_POD_ADD } else { ClusterEvents::NONE }
    }

    fn slots(&self, class: &Class, node: NodeRef<'_>, load: LoadAssumption) -> u32 {
        match Near::wanted(class) {
            Some(wanted) if load == LoadAssumption::Empty || node.counted(wanted) == 0 => 0,
            _ => NO_LIMIT,
        }
    }

    fn reasons(&self, _: &Class, _: NodeRef<'_>, _: u32, report: &mut dyn FnMut(Reason)) {
        report(Reason::new("node(s) had no pod to be near to"));
    }
}

fn world(text: &str) -> TextCluster {
    let profile = Profile::default().with_filter(Arc::new(Near)).unwrap();
    TextCluster::with(Config { profiles: vec![profile], ..Config::default() }, text)
}

#[test]
fn a_pod_that_needs_another_one_is_woken_when_that_one_comes() {
    let mut world = world("node a gpu=4; node b gpu=4; pod x label=app:x-near-leader gpu=1");
    assert_snapshot!(world.decide(), @"x: wait (0/2 nodes are available: 2 node(s) had no pod to be near to.)");
    // Another scheduler binds it.
    world.apply("pod other node=b label=app:other gpu=1");
    assert_eq!(world.decide(), "", "nothing has come that it needs");
    world.apply("pod leader node=b label=app:leader gpu=1");
    assert_snapshot!(world.decide_and_bind(), @"x: bind x to b");
    world.core.assert_consistent();
}

#[test]
fn a_pod_that_needs_another_one_follows_a_decision() {
    let mut world = world("node a gpu=4; node b gpu=4; pods x 2 label=app:x-near-leader gpu=1");
    world.decide();
    world.apply("pod leader label=app:leader gpu=3");
    assert_snapshot!(world.decide_and_bind(), @"
    leader: bind leader to a
    x-0: bind x-0 to a
    x-1: wait (0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had no pod to be near to.)
    ");
    world.core.assert_consistent();
    world.apply("delete x-0");
    assert_snapshot!(world.decide_and_bind(), @"x-1: bind x-1 to a");
    // The label of a running pod changes: nothing is near a leader now.
    world.change_pod("leader", |pod| pod["metadata"]["labels"]["app"] = "former".into());
    world.core.assert_consistent();
    world.apply("delete x-1; pod y label=app:y-near-leader gpu=1");
    assert!(world.decide().starts_with("y: wait"));
    world.change_pod("leader", |pod| pod["metadata"]["labels"]["app"] = "leader".into());
    assert_snapshot!(world.decide_and_bind(), @"y: bind y to a");
}

#[test]
fn no_refusal_is_proven_while_other_pods_can_help() {
    let text = "node a gpu=4 rack=r1; node b gpu=4 rack=r2; group g gang minCount=2 pods=2 label=app:x-near-leader";
    for (case, key) in [("everywhere", ""), ("one rack", "key=rack")] {
        let mut world = world(&format!("{text} {key}; pods y 2 label=app:y-near-leader"));
        while let Some(decision) = world.core.next(world.now) {
            let DecisionAction::Wait(refusal) = decision.action else { panic!("{case}: {decision:?}") };
            assert_eq!(refusal.cause, RefusalCause::DoesNotFit, "{case}");
            assert!(!refusal.proven && refusal.can_fit_later, "{case}: {refusal:?}");
            let is_gang = matches!(decision.unit, Unit::Group(_));
            assert_eq!(refusal.nearest.is_some(), is_gang && !key.is_empty(), "{case}");
        }
    }
    // Whether it fits on a node without pods proves as little for a gang of leaders and followers.
    let mut mixed = world("node a gpu=2; group g gang minCount=3; pods l 2 group=g gpu=1 label=app:leader");
    mixed.apply("pod x group=g gpu=1 label=app:x-near-worker");
    let DecisionAction::Wait(refusal) = mixed.core.next(mixed.now).unwrap().action else { panic!("it was placed") };
    assert!(!refusal.proven && refusal.can_fit_later, "{refusal:?}");
}

#[test]
fn a_gang_is_placed_in_a_domain_whose_sums_are_too_small() {
    // Before the leader is placed, no node has a slot for its followers.
    let racks = "node a gpu=1 rack=r1; node b gpu=4 rack=r2; node c gpu=2 rack=r3;";
    let mut world = world(&format!("{racks} group g gang minCount=4 key=rack"));
    world.apply("pod leader group=g gpu=1 label=app:leader; pods x 3 group=g gpu=1 label=app:x-near-leader");
    assert_snapshot!(world.decide_and_bind(), @"g: bind leader to b, x-0 to b, x-1 to b, x-2 to b");
    world.core.assert_consistent();
}

#[test]
fn pods_that_need_each_other_are_placed_in_any_order_of_their_sizes() {
    // The middle one helps the large one, which helps the small one: neither order places all of them at once.
    let mut world = world("node a gpu=6; group g gang minCount=3");
    world.apply("pod middle group=g gpu=2 label=app:leader; pod large group=g gpu=3 label=app:worker-near-leader");
    world.apply("pod small group=g gpu=1 label=app:x-near-worker");
    assert_snapshot!(world.decide_and_bind(), @"g: bind middle to a, large to a, small to a");
    world.core.assert_consistent();
}

#[test]
fn a_filter_counts_only_the_pods_that_it_selects() {
    let mut world =
        world("node a gpu=4; pods l 2 label=app:leader node=a; pod w label=app:worker node=a; pod o node=a");
    world.apply("pod x gpu=1");
    world.decide_and_bind();
    world.apply("delete l-0");
    // The sums are compared with those of all pods.
    world.core.assert_consistent();
}

#[test]
fn a_counter_counts_the_pods_that_other_schedulers_nominate() {
    let mut world = world("node a gpu=4; node b gpu=4; pod x label=app:x-near-leader gpu=1");
    assert!(world.decide().starts_with("x: wait"));
    world.apply("pod leader label=app:leader gpu=1 scheduler=other nominated=b");
    assert_snapshot!(world.decide_and_bind(), @"x: bind x to b");
    world.apply("delete leader; pod y label=app:y-near-leader gpu=1");
    assert!(world.decide().starts_with("y: wait"));
    world.core.assert_consistent();
}

// A decision wakes the pod near the leader, which sees no ghosts.
#[test]
fn the_rest_of_a_group_is_refused_beside_the_ghosts_that_the_group_sees() {
    let mut world = world(
        "node a gpu=2 cpu=8 disk=ssd; node b gpu=2 cpu=8 disk=ssd; node c gpu=1 cpu=8; pods run 2 gpu=1 node=b;
        group g gang minCount=4 pods=4 gpu=1 selects=disk:ssd; pod x label=app:x-near-leader cpu=1 priority=20",
    );
    world.decide();
    world.now += std::time::Duration::from_secs(61);
    world.apply("group u basic pods=2 gpu=1 label=app:leader");
    let mut unplaced = None;
    while let Some(decision) = world.core.next(world.now) {
        unplaced = unplaced.or(decision.unplaced);
    }
    let message = unplaced.unwrap().plain_message();
    assert!(message.contains("reserved for ns/g"), "{message}");
}

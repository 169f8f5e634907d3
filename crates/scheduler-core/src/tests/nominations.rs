//! Room of pods that other schedulers have nominated to a node.

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::json;
use types::views::{ObjectKey, PodView};

use super::property_config::property_config;
use super::text_cluster::{TextCluster, line};
use crate::{DecisionAction, Unit};

/// A node with one GPU, which another scheduler has nominated a pod of priority 5 to.
fn nominated() -> TextCluster {
    TextCluster::of("node a gpu=1; pod foreign gpu=1 scheduler=other priority=5 nominated=a")
}

#[test]
fn the_room_of_a_nominated_pod_is_open_only_to_units_of_higher_priority() {
    let mut world = nominated();
    world.apply("pod low gpu=1; pod equal gpu=1 priority=5; group g gang minCount=1 pods=1 gpu=1 groupPriority=5");
    assert_snapshot!(world.decide(), @"
    equal: wait (0/1 nodes are available: 1 node(s) had room only for nominated pods.)
    g: wait (gang of 1 does not fit: 0 of 1 pods fit (1 more needed; 1 of 1 nodes had room only for nominated pods))
    low: wait (0/1 nodes are available: 1 node(s) had room only for nominated pods.)
    ");
    world.apply("pod high gpu=1 priority=6");
    assert_snapshot!(world.decide_and_bind(), @"high: bind high to a");
    world.core.assert_consistent();
}

#[test]
fn the_room_is_free_again_when_the_nominated_pod_is_gone_or_nominated_elsewhere() {
    for (case, change) in [
        ("deleted", None),
        ("no longer nominated", Some(json!({"phase": "Pending"}))),
        ("nominated to another node", Some(json!({"phase": "Pending", "nominatedNodeName": "b"}))),
        ("finished", Some(json!({"phase": "Failed"}))),
    ] {
        let mut world = nominated();
        world.apply("pod low gpu=1");
        assert!(world.decide().starts_with("low: wait"), "{case}");
        match change {
            None => world.delete("foreign"),
            Some(status) => world.change_pod("foreign", |pod| {
                (pod["status"], pod["spec"]["priority"]) = (status, json!(5));
            }),
        }
        assert_eq!(world.decide_and_bind(), "low: bind low to a", "{case}");
        world.core.assert_consistent();
    }
}

#[test]
fn a_nominated_pod_that_is_bound_counts_once() {
    let mut world = TextCluster::of("node a gpu=3; node b gpu=1");
    world.apply("pod here gpu=1 scheduler=other nominated=a; pod there gpu=1 scheduler=other nominated=a");
    world.apply("pod full gpu=1 node=b; pods ours 3 gpu=1");
    assert_eq!(world.decide_and_bind().matches(": bind").count(), 1);
    world.show_bound("here", "a");
    assert_eq!(world.decide_and_bind(), "");
    // One that is bound elsewhere leaves its room to others.
    world.show_bound("there", "b");
    assert!(world.decide_and_bind().starts_with("ours-1: bind ours-1 to a"));
    world.core.assert_consistent();
    assert_eq!(world.core.nominations_count(), 0);
}

#[test]
fn a_nomination_to_an_unknown_node_counts_once_the_node_exists() {
    let mut world = TextCluster::of("pod foreign gpu=1 scheduler=other nominated=a; pod ours gpu=1");
    world.decide();
    world.apply("node a gpu=1");
    assert_snapshot!(world.decide(), @"ours: wait (0/1 nodes are available: 1 node(s) had room only for nominated pods.)");
    // The node is deleted and returns; the pod is still nominated to it.
    world.apply("drop a; node a gpu=2");
    assert_snapshot!(world.decide_and_bind(), @"ours: bind ours to a");
    world.apply("drop a; delete ours; delete foreign; node b gpu=1; pod next gpu=1");
    assert_snapshot!(world.decide_and_bind(), @"next: bind next to b");
    world.core.assert_consistent();
}

#[test]
fn a_nomination_of_our_own_pod_changes_nothing() {
    let mut world = TextCluster::of("node a gpu=1; node b gpu=2; pod ours gpu=2 nominated=a; pod other gpu=1");
    assert_snapshot!(world.decide_and_bind(), @"
    ours: bind ours to b
    other: bind other to a
    ");
    assert_eq!(world.core.nominations_count(), 0);
}

#[test]
fn the_report_of_a_placement_leaves_out_nodes_with_room_only_for_nominated_pods() {
    let mut world = nominated();
    world.apply("node b gpu=1; pod ours gpu=1");
    assert_eq!(world.decide(), "ours: bind ours to b");
    // A decision about a unit that does not respect the nominated pod comes between.
    world.apply("pod high gpu=2 priority=6");
    assert!(world.decide().starts_with("high: wait"));
    world.core.cache_placement_reports(world.now, 1);
    let explanation = world.core.explain(&Unit::Pod(ObjectKey::new("ns", "ours")), &[]).unwrap();
    assert_eq!(explanation.placement.unwrap().feasible_count, 1);
}

#[test]
fn nominated_pods_use_none_of_the_reservation_budget() {
    let mut world = nominated();
    world.apply("group g gang minCount=1 pods=1 gpu=1");
    world.decide();
    for _ in 0..10 {
        world.now += std::time::Duration::from_secs(60);
        world.decide();
        assert_eq!(world.core.reserved_idle_share(), 0.0);
    }
    assert_eq!(world.core.take_reserved_idle_seconds(), 0.0);
}

/// A change of a cluster with two nodes, our pods and those of another scheduler.
#[derive(Clone, Debug)]
enum Step {
    Ours { gpu: u8, priority: u8 },
    Foreign { gpu: u8, priority: u8, node: u8 },
    Nominate { pod: u8, node: u8 },
    BindForeign { pod: u8, node: u8 },
    Delete { pod: u8 },
    Resize { node: u8, gpu: u8 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..3u8, 0..3u8).prop_map(|(gpu, priority)| Step::Ours { gpu, priority }),
        3 => (1..3u8, 0..3u8, 0..2u8).prop_map(|(gpu, priority, node)| Step::Foreign { gpu, priority, node }),
        1 => (any::<u8>(), 0..2u8).prop_map(|(pod, node)| Step::Nominate { pod, node }),
        1 => (any::<u8>(), 0..2u8).prop_map(|(pod, node)| Step::BindForeign { pod, node }),
        3 => any::<u8>().prop_map(|pod| Step::Delete { pod }),
        1 => (0..2u8, 1..6u8).prop_map(|(node, gpu)| Step::Resize { node, gpu }),
    ];
    prop::collection::vec(step, 1..40)
}

struct Run {
    world: TextCluster,
    created_count: usize,
}

impl Run {
    fn apply(&mut self, step: &Step) {
        let name = format!("p{:02}", self.created_count);
        self.created_count += 1;
        let world = &mut self.world;
        let foreign = |pod: u8| {
            let is_foreign = |pod: &PodView| &*pod.spec.scheduler_name == "other" && pod.node_name().is_none();
            let names: Vec<_> =
                world.pods.iter().filter(|(_, pod)| is_foreign(pod)).map(|(name, _)| name.clone()).collect();
            names.get(usize::from(pod) % names.len().max(1)).cloned()
        };
        match *step {
            Step::Ours { gpu, priority } => world.apply(&format!("pod {name} gpu={gpu} priority={priority}")),
            Step::Foreign { gpu, priority, node } => {
                world.apply(&format!("pod {name} gpu={gpu} priority={priority} scheduler=other nominated=n{node}"))
            }
            Step::Nominate { pod, node } => {
                if let Some(name) = foreign(pod) {
                    world.change_pod(&name, |pod| pod["status"] = json!({"nominatedNodeName": format!("n{node}")}));
                }
            }
            Step::BindForeign { pod, node } => {
                if let Some(name) = foreign(pod) {
                    world.show_bound(&name, &format!("n{node}"));
                }
            }
            Step::Delete { pod } => {
                let names: Vec<_> = world.pods.keys().cloned().collect();
                if let Some(name) = names.get(usize::from(pod) % names.len().max(1)) {
                    world.delete(name);
                }
            }
            Step::Resize { node, gpu } => world.apply(&format!("node n{node} gpu={gpu}")),
        }
        self.decide();
    }

    /// What the pods use of a node that a pod of this priority must respect: those on it and those nominated to it.
    fn used(&self, node: &str, priority: i32) -> i64 {
        let counts = |pod: &PodView| {
            let is_foreign = &*pod.spec.scheduler_name == "other" && pod.node_name().is_none();
            let nominated = is_foreign && pod.spec.priority.unwrap_or(0) >= priority;
            pod.node_name() == Some(node) || (nominated && pod.status.nominated_node_name.as_deref() == Some(node))
        };
        let gpus = |pod: &PodView| {
            pod.spec.containers[0].resources.requests.get("nvidia.com/gpu").map_or(0, |gpu| gpu.value())
        };
        self.world.pods.values().filter(|pod| counts(pod)).map(|pod| gpus(pod)).sum()
    }

    fn decide(&mut self) {
        while let Some(decision) = self.world.core.next(self.world.now) {
            self.world.bind(&decision);
            let DecisionAction::Bind(placements) = &decision.action else { continue };
            for placement in placements {
                let priority = self.world.pods[&placement.pod.name].spec.priority.unwrap_or(0);
                let allocatable =
                    self.world.nodes[&placement.node].status.allocatable.get("nvidia.com/gpu").unwrap().value();
                let used = self.used(&placement.node, priority);
                assert!(used <= allocatable, "{}: {used} of {allocatable}", line(&decision));
            }
        }
        self.world.core.assert_consistent();
        for queued in self.world.core.queue() {
            self.world.core.explain(&queued.unit, &[]);
            assert_eq!(self.world.core.take_missed_wakeups(), 0, "{} fits and was not woken", queued.unit);
        }
    }
}

proptest! {
    #![proptest_config(property_config(100))]

    #[test]
    fn no_pod_takes_the_room_of_a_nominated_pod_and_none_waits_that_fits(steps in steps()) {
        let mut run = Run { world: TextCluster::of("node n0 gpu=4; node n1 gpu=3"), created_count: 0 };
        steps.iter().for_each(|step| run.apply(step));
    }
}

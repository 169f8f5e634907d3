//! Pods that name their nodes, as those of a DaemonSet do: only these nodes are evaluated.

use std::sync::Arc;

use insta::assert_snapshot;
use serde_json::json;
use types::Random;
use types::views::{NodeView, PodView, View};

use super::text_cluster::{TextCluster, decide_text};
use crate::cluster::Cluster;
use crate::demand::classes::Classes;
use crate::index::ClassIndex;
use crate::{DecisionAction, Profile, Unit};

#[test]
fn pods_that_name_their_nodes_build_no_index_over_all_nodes() {
    let mut world = TextCluster::of("");
    for node in 0..30 {
        world.apply(&format!("node n{node} cpu=4; pod d{node} cpu=1 names=n{node}"));
        world.apply(&format!("pod h{node} cpu=1 selects=kubernetes.io/hostname:n{node}"));
        world.apply(&format!("node n{node} cpu=4 kubernetes.io/hostname=n{node}"));
    }
    let decisions = world.decide_and_bind();
    for node in 0..30 {
        assert!(decisions.contains(&format!("d{node}: bind d{node} to n{node}")), "{decisions}");
        assert!(decisions.contains(&format!("h{node}: bind h{node} to n{node}")), "{decisions}");
    }
    assert_eq!(world.core.index_builds_count(), 0);
    assert_eq!(world.core.classes_and_tables_count().0, 0, "no later pod uses such a class");
    world.core.assert_consistent();
}

#[test]
fn the_refusal_of_a_pod_that_names_its_node_counts_all_nodes() {
    let nodes = "node a cpu=4; node b cpu=1; node c cpu=4; node d cpu=4 taint=k:NoSchedule;";
    let full =
        format!("{nodes} pod p cpu=2 names=b; pod q cpu=2 names=d; pod r cpu=2 names=gone; pod s cpu=2 names=b,c");
    assert_snapshot!(decide_text(&full), @"
    p: wait (0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't match Pod's node affinity/selector.)
    q: wait (0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 node(s) didn't match Pod's node affinity/selector.)
    r: wait (0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector.)
    s: bind s to c
    ");
}

#[test]
fn a_pod_that_names_a_node_is_placed_when_the_node_comes() {
    let mut world = TextCluster::of("node a cpu=4; pod p cpu=2 names=b");
    world.decide();
    world.apply("node b cpu=1");
    world.decide();
    world.apply("node b cpu=2");
    assert_snapshot!(world.decide_and_bind(), @"p: bind p to b");
    world.apply("delete p; pod p cpu=2 names=b; node b cpu=2 taint=k:NoSchedule");
    assert_snapshot!(world.decide_and_bind(), @"p: wait (0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s).)");
    let unit = Unit::Pod(types::views::ObjectKey::new("ns", "p"));
    assert!(world.core.explain(&unit, &[]).is_some());
    assert_eq!((world.core.index_builds_count(), world.core.take_missed_wakeups()), (0, 0));
}

#[test]
fn a_gang_that_names_its_nodes_shares_a_domain() {
    let racks = "node a gpu=2 rack=r1; node b gpu=2 rack=r2; node c gpu=4 rack=r2; node d gpu=9; node e gpu=9 rack=r3;";
    let gang = format!("{racks} group g gang minCount=4 pods=4 gpu=1 names=a,b,c,d key=rack");
    assert_snapshot!(decide_text(&gang), @"g: bind g-0 to b, g-1 to b, g-2 to c, g-3 to c");
    let gang = format!("{racks} group g gang minCount=7 pods=7 gpu=1 names=a,b,c,d key=rack");
    let mut world = TextCluster::of(&gang);
    let decision = world.core.next(world.now).unwrap();
    let DecisionAction::Wait(refusal) = decision.action else { panic!("{decision:?}") };
    assert_snapshot!(refusal.message(), @"gang of 7 does not fit: 6 of 7 pods fit in the nearest domain rack=r2 (1 more needed; Insufficient nvidia.com/gpu on 2 of 2 nodes)");
    assert_snapshot!(refusal.pod_message(), @"pod group is unschedulable, 6 of 7 pods fit; for one more 0/5 nodes are available: 1 node(s) didn't have the topology label of the group, 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) were in a topology domain without capacity for the group, 2 Insufficient nvidia.com/gpu.");
}

#[test]
fn the_index_of_named_nodes_equals_one_over_all_nodes() {
    let random = Random::seeded(7);
    for _ in 0..300 {
        let mut cluster = Cluster::default();
        let classes = Classes::new(1 << 20, &[Profile::default()], &mut cluster);
        for node in 0..6 {
            cluster.set_node(&random_node(&random, node));
        }
        cluster.index_of("n6");
        let names = [random.below(8), random.below(8)].map(|name| format!("n{name}"));
        let required = match random.below(4) {
            0 => json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": names}]}]),
            1 => json!([{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": names}]}]),
            2 => json!(names.each_ref().map(|name| {
                json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}],
                    "matchExpressions": [{"key": "disk", "operator": "Exists"}]})
            })),
            _ => json!(null),
        };
        let preferred =
            json!([{"weight": 7, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]);
        let mut spec = json!({"containers": [{"image": "x:1", "resources": {"requests": {"cpu": "1"}}}]});
        let affinity = &mut spec["affinity"]["nodeAffinity"];
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred;
        if required.is_null() {
            spec["nodeSelector"] = json!({"kubernetes.io/hostname": names[0]});
        } else {
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = json!({"nodeSelectorTerms": required});
        }
        let pod = PodView::decode(json!({"metadata": {"name": "p"}, "spec": spec}).to_string().as_bytes()).unwrap();
        let class = classes.class_of(&pod, &mut cluster);
        let plugins = Arc::clone(classes.plugins(&class));
        let mut index = ClassIndex::of(&class, Arc::clone(&plugins), &cluster);
        assert!(index.named_nodes().is_some());
        for _ in 0..3 {
            let mut all = ClassIndex::of_all_nodes(&class, Arc::clone(&plugins), &cluster);
            assert_eq!((index.best(), index.slots_total()), (all.best(), all.slots_total()));
            assert_eq!(index.slots_when_empty(&class, &cluster), all.slots_when_empty(&class, &cluster));
            for node in cluster.indices() {
                assert_eq!((index.slots(node), index.key(node)), (all.slots(node), all.key(node)));
                if index.slots(node) > 0 {
                    assert_eq!(index.points(node, &class, &cluster), all.points(node, &class, &cluster));
                }
            }
            for node in index.named_nodes().unwrap() {
                assert_eq!(index.refuser(node), all.refuser(node));
            }
            let node = random.below(8) as usize;
            cluster.set_node(&random_node(&random, node));
            cluster.remove_node(&format!("n{}", random.below(8)));
            index.catch_up(&class, &cluster);
        }
    }
}

fn random_node(random: &Random, node: usize) -> NodeView {
    let some = |part| random.below(part) == 0;
    let hostname = random.below(8);
    let mut labels = json!({"kubernetes.io/hostname": format!("n{hostname}")});
    if some(2) {
        labels["disk"] = json!("ssd");
    }
    let taints = if some(3) { json!([{"key": "k", "effect": "PreferNoSchedule"}]) } else { json!([]) };
    let images = if some(2) { json!([{"names": ["x:1"], "sizeBytes": 900_000_000}]) } else { json!([]) };
    let document = json!({
        "metadata": {"name": format!("n{node}"), "labels": labels},
        "spec": {"unschedulable": some(5), "taints": taints},
        "status": {"allocatable": {"cpu": random.below(4).to_string(), "pods": "3"}, "images": images},
    });
    NodeView::decode(document.to_string().as_bytes()).unwrap()
}

// Such a node has an index while a nomination is to it. The class index of the pod that names it was not told.
#[test]
fn a_nomination_to_a_node_that_does_not_exist_updates_the_pods_that_name_it() {
    let mut world = TextCluster::of("node a; pod first scheduler=other nominated=x; delete first; pod p names=n");
    world.decide();
    world.apply("pod second scheduler=other nominated=n");
    world.core.assert_consistent();
    world.decide();
    world.apply("delete second");
    world.core.assert_consistent();
    world.apply("node n");
    assert_eq!(world.decide(), "p: bind p to n");
}

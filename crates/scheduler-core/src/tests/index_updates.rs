//! What a change of the cluster costs the indexes: they follow it without being built again from all nodes.

use serde_json::{Value, json};
use types::Random;
use types::quantity::Quantity;
use types::views::{ImageView, NodeView, PodView, View};

use crate::Profile;
use crate::cluster::{Cluster, NodeIndex};
use crate::demand::classes::{ClassId, Classes};

const GIB: i64 = 1 << 30;

/// A cluster with one class of pods.
struct IndexedCluster {
    cluster: Cluster,
    classes: Classes,
    class: ClassId,
    nodes: Vec<NodeView>,
}

impl IndexedCluster {
    fn new(nodes_count: usize, spec: Value) -> IndexedCluster {
        let mut cluster = Cluster::default();
        let mut classes = Classes::new(1 << 30, &[Profile::default()], &mut cluster);
        let class = acquire(spec, &mut cluster, &mut classes);
        let mut all = IndexedCluster { cluster, classes, class, nodes: Vec::new() };
        (0..nodes_count).for_each(|_| all.add_node());
        all
    }

    fn class_of(&mut self, spec: Value) -> ClassId {
        acquire(spec, &mut self.cluster, &mut self.classes)
    }

    fn add_node(&mut self) {
        let mut node = NodeView::default();
        node.metadata.name = format!("n{}", self.nodes.len());
        let allocatable = [("cpu", 8), ("memory", 64 * GIB), ("pods", 110)];
        node.status.allocatable = allocatable.map(|(name, amount)| (name.to_owned(), Quantity::whole(amount))).into();
        self.cluster.set_node(&node);
        self.nodes.push(node);
    }

    fn change_node(&mut self, at: usize, change: impl FnOnce(&mut NodeView)) {
        change(&mut self.nodes[at]);
        self.cluster.set_node(&self.nodes[at]);
    }

    /// Brings the index up to date. Returns how many nodes that evaluated.
    fn catch_up(&mut self) -> u64 {
        let (_, index) = self.classes.with_current_index(self.class, &self.cluster);
        std::mem::take(&mut index.evaluated_count)
    }
}

fn acquire(spec: Value, cluster: &mut Cluster, classes: &mut Classes) -> ClassId {
    let pod = json!({"metadata": {"name": "p"}, "spec": spec}).to_string();
    let class = classes.class_of(&PodView::decode(pod.as_bytes()).unwrap(), cluster);
    classes.acquire(class)
}

fn image(name: &str, size_bytes: i64) -> ImageView {
    ImageView { names: vec![name.into()], size_bytes }
}

fn taint(effect: &str) -> Value {
    json!({"key": "k", "effect": effect})
}

fn container_with(image: &str) -> Value {
    json!([{"name": "c", "image": image, "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}])
}

#[test]
fn image_and_label_churn_on_a_thousand_nodes_builds_no_index_again() {
    let prefers = json!([{"weight": 5, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]);
    let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": prefers}});
    let mut all = IndexedCluster::new(1000, json!({"containers": container_with("x:1"), "affinity": affinity}));
    all.catch_up();
    let (random, mut evaluated) = (Random::seeded(1), 0);
    let changes_count = 1000;
    for change in 0..changes_count {
        let at = random.below(all.nodes.len() as u64) as usize;
        match random.below(5) {
            0 => all.change_node(at, |node| node.status.images = vec![image("x:1", GIB)]),
            1 => all.change_node(at, |node| node.status.images = vec![image("x:1", GIB / 3), image("y:1", GIB)]),
            2 => all.change_node(at, |node| node.metadata.labels = [("disk".to_owned(), "ssd".to_owned())].into()),
            3 => all.change_node(at, |node| node.metadata.labels = [("version".to_owned(), "2".to_owned())].into()),
            _ => all.add_node(),
        }
        evaluated += all.catch_up();
        if change % 100 == 0 {
            all.classes.assert_fresh(&all.cluster);
        }
    }
    all.classes.assert_fresh(&all.cluster);
    assert_eq!(all.classes.builds_count(), 1);
    // The changed node each time, and all nodes with the image when their points change: by a hundredth at most.
    assert!(evaluated < 30 * changes_count, "{evaluated}");
}

#[test]
fn an_image_that_changes_no_points_costs_the_changed_node_only() {
    let mut all = IndexedCluster::new(1000, json!({"containers": container_with("x:1")}));
    all.change_node(0, |node| node.status.images = vec![image("x:1", 10 << 20)]);
    all.catch_up();
    for at in 1..100 {
        all.change_node(at, |node| node.status.images = vec![image("x:1", 10 << 20)]);
        assert_eq!(all.catch_up(), 1);
    }
    all.classes.assert_fresh(&all.cluster);
}

#[test]
fn a_soft_taint_evaluates_the_tainted_node_only() {
    let mut all = IndexedCluster::new(200, json!({"containers": container_with("x:1")}));
    all.catch_up();
    for (count, effects) in [(2, vec!["PreferNoSchedule"; 2]), (3, vec!["PreferNoSchedule"; 3]), (0, vec![])] {
        let taints: Vec<_> = effects.iter().map(|effect| serde_json::from_value(taint(effect)).unwrap()).collect();
        all.change_node(7, |node| node.spec.taints = taints);
        assert_eq!(all.catch_up(), 1, "{count} taints");
        all.classes.assert_fresh(&all.cluster);
    }
    assert_eq!(all.classes.builds_count(), 1);
}

#[test]
fn slots_on_empty_nodes_follow_the_nodes_that_changed() {
    let mut all = IndexedCluster::new(50, json!({"containers": container_with("x:1")}));
    for at in [3, 4, 3] {
        let cordoned = !all.nodes[at].spec.unschedulable;
        all.change_node(at, |node| node.spec.unschedulable = cordoned);
        all.cluster.index_of(&format!("named-{at}"));
        let (class, index) = all.classes.with_current_index(all.class, &all.cluster);
        let mut slots = vec![0; all.cluster.width()];
        for (node, count) in index.slots_when_empty(class, &all.cluster) {
            slots[node.at()] = count;
        }
        let slots_of = |node: &NodeView| if node.spec.unschedulable { 0 } else { 8 };
        for (at, node) in all.nodes.iter().enumerate() {
            assert_eq!(slots[all.cluster.find(&node.metadata.name).unwrap().at()], slots_of(node), "{at}");
        }
        assert_eq!(slots.iter().sum::<u32>(), all.nodes.iter().map(slots_of).sum::<u32>());
    }
}

#[test]
fn a_node_that_changes_often_is_evaluated_once() {
    let mut all = IndexedCluster::new(100, json!({"containers": container_with("x:1")}));
    all.catch_up();
    let usage = std::sync::Arc::clone(&all.classes.get(all.class).unwrap().usage);
    for _ in 0..1000 {
        all.cluster.add_pod(NodeIndex(7), &usage);
        all.cluster.remove_pod(NodeIndex(7), &usage);
    }
    assert_eq!((all.catch_up(), all.classes.builds_count()), (1, 1));
}

#[test]
fn an_undone_overlay_costs_only_the_class_that_looked_during_it() {
    let mut all = IndexedCluster::new(100, json!({"containers": container_with("x:1")}));
    let other = all.class_of(json!({"containers": container_with("y:1"), "nodeSelector": {"disk": "ssd"}}));
    let placing = all.class;
    let evaluated = |all: &mut IndexedCluster| {
        [placing, other].map(|class| {
            all.class = class;
            all.catch_up()
        })
    };
    assert_eq!(evaluated(&mut all), [0, 0]);
    let usage = std::sync::Arc::clone(&all.classes.get(placing).unwrap().usage);
    let mut overlay = all.cluster.overlay();
    (0..50).for_each(|node| overlay.place(NodeIndex(node), &usage));
    all.classes.with_current_index(placing, overlay.cluster());
    drop(overlay);
    assert_eq!(evaluated(&mut all), [100, 0], "50 nodes during the overlay, and 50 after it");
    let mut overlay = all.cluster.overlay();
    (0..50).for_each(|node| overlay.place(NodeIndex(node), &usage));
    overlay.rollback_to(10);
    overlay.commit();
    assert_eq!(evaluated(&mut all), [10, 10], "the pods that stay");
    all.classes.assert_fresh(&all.cluster);
}

//! What does not grow with the history of the cluster: domains, names and tables are freed once nothing uses them.

use std::sync::Arc;

use insta::assert_snapshot;
use types::SmallMap;
use types::quantity::Quantity;
use types::views::NodeView;

use super::text_cluster::TextCluster;
use crate::ClusterChange;

/// How many different names each test brings.
const NAMES: usize = 10_000;

fn node(name: &str, label: (&str, &str)) -> NodeView {
    let mut node = NodeView::default();
    node.metadata.name = name.to_owned();
    node.metadata.labels = SmallMap::from([(label.0.to_owned(), label.1.to_owned())]);
    let allocatable = [("cpu", 8), ("memory", 64 << 30), ("pods", 110)];
    node.status.allocatable = allocatable.map(|(name, amount)| (name.to_owned(), Quantity::whole(amount))).into();
    node
}

fn observe_node(world: &mut TextCluster, node: NodeView) {
    world.core.observe(ClusterChange::Node { old: None, new: Some(Arc::new(node)) });
}

#[test]
fn domains_without_nodes_are_reused() {
    let mut world = TextCluster::of("node b cpu=8 rack=last; group g gang minCount=9 pods=9 cpu=1 key=rack");
    for number in 0..NAMES {
        observe_node(&mut world, node("a", ("rack", &format!("r{number}"))));
        if number % 1000 == 0 {
            world.decide();
            world.core.assert_consistent();
        }
    }
    assert_eq!(world.core.domains_count(), 3, "of a before and after its last change, and of b");
    observe_node(&mut world, node("a", ("rack", "last")));
    assert_snapshot!(world.decide(), @"g: bind g-0 to b, g-1 to a, g-2 to b, g-3 to a, g-4 to b, g-5 to a, g-6 to b, g-7 to a, g-8 to b");
}

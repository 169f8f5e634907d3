//! Members with a completion index are placed along the nodes in index order.

use insta::assert_snapshot;

use super::text_cluster::TextCluster;
use crate::Config;

/// Two racks whose nodes were observed in another order, and a gang whose pods arrive in the order of their names.
const NODES: &str =
    "node node-10 gpu=2 topology.kubernetes.io/rack=r1; node node-2 gpu=2 topology.kubernetes.io/rack=r2;
    node node-1 gpu=2 topology.kubernetes.io/rack=r2; node node-9 gpu=2 topology.kubernetes.io/rack=r1";

fn world(config: Config, indexes: &[u32]) -> TextCluster {
    let pods: String = indexes.iter().map(|index| format!("; pod w-{index} group=g gpu=1 index={index}")).collect();
    TextCluster::with(config, &format!("{NODES}; group g gang minCount={}{pods}", indexes.len()))
}

#[test]
fn consecutive_indexes_share_a_node_and_nodes_of_a_rack_follow_each_other() {
    let decided = world(Config::default(), &[0, 1, 7, 6, 2, 3, 5, 4]).decide();
    assert_snapshot!(decided, @"g: bind w-0 to node-9, w-1 to node-9, w-2 to node-10, w-3 to node-10, w-4 to node-1, w-5 to node-1, w-6 to node-2, w-7 to node-2");
}

#[test]
fn the_indexes_of_several_jobs_in_one_group_do_not_interleave() {
    let pods: String = (0..4)
        .flat_map(|n| ["x", "y"].map(|job| format!("; pod {job}-{n} group=g gpu=1 index={n} owner=Job:{job}")))
        .collect();
    let mut world = TextCluster::of(&format!("node a gpu=4; node b gpu=4; group g gang minCount=8{pods}"));
    assert_snapshot!(world.decide(), @"g: bind x-0 to a, x-1 to a, x-2 to a, x-3 to a, y-0 to b, y-1 to b, y-2 to b, y-3 to b");
}

#[test]
fn without_index_order_pods_are_placed_as_they_arrived() {
    let config = Config { index_order: false, ..Config::default() };
    let decided = world(config, &[3, 2, 1, 0]).decide();
    assert_snapshot!(decided, @"g: bind w-3 to node-10, w-2 to node-10, w-1 to node-2, w-0 to node-2");
}

#[test]
fn classes_keep_their_nodes_and_a_leader_without_index_is_placed_too() {
    let mut world = TextCluster::of(
        "node a gpu=4; node b gpu=2; group g gang minCount=3; pod leader group=g gpu=4; pod w-1 group=g gpu=1 index=1;
         pod w-0 group=g gpu=1 index=0",
    );
    assert_snapshot!(world.decide(), @"g: bind leader to a, w-0 to b, w-1 to b");
}

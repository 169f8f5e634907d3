//! What does not grow with the history of the cluster: domains, names and tables are freed once nothing uses them.

use std::sync::Arc;

use insta::assert_snapshot;
use types::SmallMap;
use types::quantity::Quantity;
use types::views::{ContainerView, NodeView, PodView, PortView};

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

fn container(resource: &str, host_port: i32) -> ContainerView {
    let mut container = ContainerView::default();
    container.resources.requests = SmallMap::from([(resource.to_owned(), Quantity::whole(1))]);
    container.ports = [PortView { host_port, ..PortView::default() }].into();
    container
}

fn bound_pod(node: &str, host_port: i32, resource: &str) -> Arc<PodView> {
    let mut pod = PodView::default();
    pod.metadata.name = "bound".to_owned();
    pod.spec.node_name = node.to_owned();
    pod.spec.containers = vec![container(resource, host_port)];
    pod.spec.containers[0].ports[0].host_ip = format!("10.0.0.{host_port}");
    Arc::new(pod)
}

fn observe_bound_pod(world: &mut TextCluster, node: &str, host_port: i32, resource: &str) {
    world.core.observe(ClusterChange::Pod { old: None, new: Some(bound_pod(node, host_port, resource)) });
}

/// Removes a node, then the pod that was on it.
fn remove_pod_and_node(world: &mut TextCluster, name: &str) {
    world.core.observe(ClusterChange::Node { old: Some(Arc::new(node(name, ("", "")))), new: None });
    world.core.observe(ClusterChange::Pod { old: Some(bound_pod(name, 0, "cpu")), new: None });
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

#[test]
fn names_of_nodes_and_labels_that_are_gone_are_freed() {
    let mut world = TextCluster::of("node b cpu=8 rack=r0; group g gang minCount=20 pods=20 cpu=1 key=rack");
    for number in 0..NAMES {
        let name = format!("n{number}");
        observe_node(&mut world, node(&name, ("version", &format!("v{number}"))));
        observe_bound_pod(&mut world, &name, 9000 + number as i32 % 100, "cpu");
        remove_pod_and_node(&mut world, &name);
    }
    let [names, ..] = world.core.interned_counts();
    assert!(names < 3000, "{names} names");
    world.core.assert_consistent();
    // Names in use keep their meaning.
    world.apply("node c cpu=16 rack=r0");
    assert_snapshot!(world.decide(), @"g: bind g-0 to c, g-1 to c, g-2 to b, g-3 to c, g-4 to c, g-5 to b, g-6 to c, g-7 to c, g-8 to b, g-9 to c, g-10 to c, g-11 to b, g-12 to c, g-13 to c, g-14 to b, g-15 to c, g-16 to c, g-17 to b, g-18 to c, g-19 to c");
}

#[test]
fn names_that_only_pending_pods_had_are_freed() {
    let mut world = TextCluster::of("node a cpu=8 disk=ssd; pod p cpu=9 selects=disk:ssd tolerates=k");
    world.decide();
    for number in 0..NAMES {
        let mut pod = PodView::default();
        pod.metadata.name = "q".to_owned();
        pod.metadata.uid = format!("q{number}");
        pod.spec.scheduler_name = "default-scheduler".into();
        pod.spec.node_selector = SmallMap::from([("disk".to_owned(), format!("d{number}"))]);
        pod.spec.containers = vec![container(&format!("vendor.com/device-{number}"), 0)];
        world.core.observe(ClusterChange::Pod { old: None, new: Some(Arc::new(pod)) });
    }
    let [names, resources, _] = world.core.interned_counts();
    assert!(names < 3000 && resources < 200, "{names} names, {resources} resources");
    world.apply("node b cpu=16 disk=ssd taint=k:NoSchedule");
    let decisions = world.decide();
    assert!(decisions.lines().any(|line| line == "p: bind p to b"), "{decisions}");
}

#[test]
fn names_and_resources_of_ghosts_are_kept() {
    let mut world = TextCluster::of("node c cpu=8");
    let pending = |name: &str, uid: usize, resource: &str| {
        let mut pod = PodView::default();
        (pod.metadata.name, pod.metadata.uid) = (name.to_owned(), format!("{name}-{uid}"));
        pod.spec.scheduler_name = "default-scheduler".into();
        pod.spec.containers = vec![container(resource, 0)];
        pod
    };
    let mut nominated = pending("nominated", 0, "vendor.com/kept");
    nominated.spec.scheduler_name = "other".into();
    nominated.status.nominated_node_name = Some("b".into());
    let mut observe = |pod| world.core.observe(ClusterChange::Pod { old: None, new: Some(Arc::new(pod)) });
    observe(nominated);
    (0..NAMES).for_each(|number| observe(pending("q", number, &format!("vendor.com/device-{number}"))));
    observe(pending("q", NAMES, "vendor.com/kept"));
    let mut view = node("b", ("rack", "r"));
    view.status.allocatable.insert("vendor.com/kept".to_owned(), Quantity::whole(1));
    observe_node(&mut world, view);
    assert!(world.decide().contains("1 node(s) had room only for nominated pods"));
    world.core.assert_consistent();
}

#[test]
fn resources_that_no_node_and_no_pod_has_are_freed() {
    let mut world = TextCluster::of("node b cpu=8 gpu=4; pod p gpu=3; pod q gpu=2");
    assert_snapshot!(world.decide_and_bind(), @"
    p: bind p to b
    q: wait (0/1 nodes are available: 1 Insufficient nvidia.com/gpu.)
    ");
    for number in 0..NAMES {
        let resource = format!("vendor.com/device-{number}");
        let mut view = node("a", ("rack", "r"));
        view.status.allocatable = SmallMap::from([(resource.clone(), Quantity::whole(4))]);
        observe_node(&mut world, view);
        observe_bound_pod(&mut world, "a", 80, &resource);
        remove_pod_and_node(&mut world, "a");
    }
    let [_, resources, _] = world.core.interned_counts();
    assert!(resources < 200, "{resources} resources");
    world.core.assert_consistent();
    world.apply("delete p");
    assert_snapshot!(world.decide(), @"q: bind q to b");
}

#[test]
fn topology_keys_that_no_group_has_are_freed() {
    let mut world = TextCluster::of("node b cpu=8 rack=r0; group kept gang minCount=2 key=rack");
    for number in 0..500 {
        let key = format!("key-{number}");
        observe_node(&mut world, node("a", (&key, "v")));
        world.apply(&format!("group g gang minCount=3 pods=3 cpu=5 key={key}"));
        world.decide();
        (0..3).for_each(|pod| world.delete(&format!("g-{pod}")));
        world.forget_group("g");
    }
    let [.., topologies] = world.core.interned_counts();
    assert!(topologies < 40, "{topologies} topologies");
    world.core.assert_consistent();
    world.apply("pods kept 2 group=kept cpu=3");
    assert_snapshot!(world.decide(), @"kept: bind kept-0 to b, kept-1 to b");
}

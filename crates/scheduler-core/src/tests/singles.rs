//! Single pods: filters and their messages, and the scores of the default profile.

use insta::assert_snapshot;
use serde_json::json;

use super::text_cluster::{TextCluster, decide_text};

#[test]
fn each_filter_has_its_own_message() {
    for (case, text, want) in [
        ("no nodes", "pod p", "p: wait (no nodes available to schedule pods)"),
        ("gpu", "node a; pod p gpu=1", "p: wait (0/1 nodes are available: 1 Insufficient nvidia.com/gpu.)"),
        (
            "two",
            "node a cpu=1; pod p gpu=1 cpu=2",
            "p: wait (0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient nvidia.com/gpu.)",
        ),
        ("pods", "node a pods=1; pod x node=a; pod p", "p: wait (0/1 nodes are available: 1 Too many pods.)"),
        ("cordon", "node a cordoned; pod p", "p: wait (0/1 nodes are available: 1 node(s) were unschedulable.)"),
        (
            "taint",
            "node a taint=k:NoExecute; pod p",
            "p: wait (0/1 nodes are available: 1 node(s) had untolerated taint(s).)",
        ),
        (
            "selector",
            "node a disk=hdd; pod p selects=disk:ssd",
            "p: wait (0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.)",
        ),
        (
            "port",
            "node a; pod x node=a port=80; pod p port=80",
            "p: wait (0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.)",
        ),
        ("tolerated", "node a taint=k:NoExecute; pod p tolerates=k", "p: bind p to a"),
        ("tolerated cordon", "node a cordoned; pod p tolerates=node.kubernetes.io/unschedulable", "p: bind p to a"),
        ("selected", "node a; node b disk=ssd; pod p selects=disk:ssd", "p: bind p to b"),
        ("other port", "node a; pod x node=a port=80; pod p port=81", "p: bind p to a"),
    ] {
        assert_eq!(decide_text(text), want, "{case}");
    }
}

#[test]
fn node_affinity_operators_match_as_documented() {
    let matches = |term: serde_json::Value| {
        let mut world = TextCluster::of("node n cores=8 disk=ssd");
        let required = json!({"nodeSelectorTerms": [term]});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
        let spec = json!({"schedulerName": "default-scheduler", "containers": [{}], "affinity": affinity});
        world.observe_pod("p", &json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec}));
        world.decide() == "p: bind p to n"
    };
    let label = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    let name =
        |operator: &str| json!({"matchFields": [{"key": "metadata.name", "operator": operator, "values": ["n"]}]});
    for (case, term, want) in [
        ("in", label("disk", "In", &["hdd", "ssd"]), true),
        ("not among", label("disk", "In", &["hdd"]), false),
        ("not in", label("disk", "NotIn", &["hdd"]), true),
        ("not in, absent", label("gpu", "NotIn", &["x"]), true),
        ("not in, present", label("disk", "NotIn", &["ssd"]), false),
        ("exists", label("disk", "Exists", &[]), true),
        ("exists, absent", label("gpu", "Exists", &[]), false),
        ("does not exist", label("gpu", "DoesNotExist", &[]), true),
        ("greater", label("cores", "Gt", &["7"]), true),
        ("greater, equal", label("cores", "Gt", &["8"]), false),
        ("less", label("cores", "Lt", &["9"]), true),
        ("less, not a number", label("disk", "Lt", &["9"]), false),
        ("name", name("In"), true),
        ("another name", name("NotIn"), false),
        ("empty term", json!({}), false),
    ] {
        assert_eq!(matches(term), want, "{case}");
    }
}

#[test]
fn gang_with_host_ports_uses_one_node_per_pod() {
    assert_snapshot!(
        decide_text("node a; node b; group g gang minCount=2 pods=2 port=80"),
        @"g: bind g-0 to a, g-1 to b"
    );
    assert_snapshot!(
        decide_text("node a; node b; group g gang minCount=3 pods=3 port=80"),
        @"g: wait (gang of 3 does not fit: 2 of 3 pods fit (1 more needed; 2 of 2 nodes didn't have free ports for the requested pod ports))"
    );
}

#[test]
fn scores_are_those_of_the_default_profile() {
    for (case, text, want) in [
        ("less allocated", "node a cpu=4; node b cpu=8; pod p cpu=1", "p: bind p to b"),
        ("first observed of equal nodes", "node b; node a; pod p", "p: bind p to b"),
        // b: 75 free and balanced. a: 75 on average as well, but with different shares of CPU and memory.
        (
            "balanced",
            "node a cpu=4 memory=4Gi; node b cpu=4 memory=4Gi; pod x node=a cpu=2; pod y node=b cpu=1 memory=1Gi;
             pod p cpu=1 memory=1Gi",
            "p: bind p to b",
        ),
        ("soft taint", "node a cpu=9 taint=k:PreferNoSchedule; node b cpu=2; pod p cpu=1", "p: bind p to b"),
        ("preferred label", "node a cpu=9; node b cpu=2 disk=ssd; pod p cpu=1 prefers=disk:ssd", "p: bind p to b"),
    ] {
        assert_eq!(decide_text(text), want, "{case}");
    }
}

#[test]
fn scores_are_normalized_again_when_the_extreme_node_fills_up() {
    // c has the largest value of the preferred term. Once it is full, the others are normalized without it.
    let mut world = TextCluster::of(
        "node a cpu=96; node b cpu=1; node c cpu=80 disk=ssd; pod x cpu=1 prefers=disk:ssd; pod y cpu=79 prefers=disk:ssd;
         pod z cpu=1 prefers=disk:ssd",
    );
    assert_snapshot!(world.decide(), @"
    x: bind x to c
    y: bind y to c
    z: bind z to a
    ");
}

#[test]
fn only_pods_of_our_scheduler_are_placed_and_others_count_once_bound() {
    let mut world = TextCluster::of("node a gpu=1; pod foreign gpu=1 scheduler=other");
    assert_eq!(world.decide(), "");
    world.change_pod("foreign", |pod| pod["spec"]["nodeName"] = json!("a"));
    world.apply("pod p gpu=1");
    assert!(world.decide().starts_with("p: wait"));
}

#[test]
fn pods_observed_before_their_node_count_when_it_is_added() {
    let mut world = TextCluster::of("pod x node=a gpu=1; pod p gpu=1; node a gpu=1");
    assert!(world.decide().starts_with("p: wait"));
    world.apply("finish x");
    assert_snapshot!(world.decide(), @"p: bind p to a");
}

#[test]
fn a_node_that_is_deleted_and_returns_has_the_pods_still_on_it() {
    let mut world =
        TextCluster::of("node a gpu=2; pod x node=a gpu=1; drop a; node b gpu=1; node a gpu=2; pods p 3 gpu=1");
    assert_snapshot!(world.decide(), @"
    p-0: bind p-0 to a
    p-1: bind p-1 to b
    p-2: wait (0/2 nodes are available: 2 Insufficient nvidia.com/gpu.)
    ");
    world.core.assert_consistent();
}

#[test]
fn a_pod_recreated_under_its_name_is_another_pod() {
    let mut world = TextCluster::of("node a gpu=1; pod p gpu=1");
    assert_snapshot!(world.decide(), @"p: bind p to a");
    // The watch skips the deletion. The bind in flight is for the old uid.
    world.apply("pod p gpu=1");
    assert_snapshot!(world.decide(), @"p: bind p to a");
}

// What changed while the bind was in flight was forgotten, and the pod was bound to a node that is too small for it.
#[test]
fn a_pod_that_changes_while_its_bind_is_in_flight_is_decided_as_it_is_when_the_bind_fails() {
    for pod in ["pod p gpu=1", "group g gang minCount=1; pod p group=g gpu=1"] {
        let mut world = TextCluster::of(&format!("node a gpu=1; {pod}"));
        assert!(world.decide().contains("bind p to a"), "{pod}");
        world.change_pod("p", |pod| {
            pod["spec"]["containers"][0]["resources"]["requests"] = json!({"nvidia.com/gpu": "2"});
        });
        world.apply("fail p");
        world.now += std::time::Duration::from_secs(1);
        assert!(world.decide().contains("wait"), "{pod}");
        world.core.assert_consistent();
        world.apply("node a gpu=2");
        assert!(world.decide().contains("bind p to a"), "{pod}");
    }
}

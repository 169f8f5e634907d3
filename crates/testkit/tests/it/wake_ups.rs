//! Changes of nodes and pods that let a waiting gang start, on both test clusters.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{TestCluster, on_test_cluster, pod};

use crate::pod_groups::{MINUTE, delete_pods, group, members, until_bound, until_refused};

const RACK: &str = "topology.kubernetes.io/rack";

async fn patch_node(cluster: &TestCluster, node: &str, patch: Value) {
    cluster.request("PATCH", &format!("/api/v1/nodes/{node}"), &patch).await.unwrap();
}

/// Two nodes of 8 GPUs in one rack.
async fn two_nodes() -> TestCluster {
    let cluster = TestCluster::start(3, 2).await;
    cluster
        .eventually("both nodes exist", MINUTE, |cluster| {
            (cluster.cache::<api::views::NodeView>().len() == 2).then_some(())
        })
        .await;
    cluster
}

/// Creates a gang of two pods that need a node each, and waits until it is refused.
async fn refused_pair(cluster: &TestCluster, name: &str, selector: Value, topology: Option<&str>) {
    let constraints = topology.map(|key| json!({"topology": [{"key": key}]}));
    let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": 2}}});
    if let Some(constraints) = constraints {
        spec["schedulingConstraints"] = constraints;
    }
    let api_version = "scheduling.k8s.io/v1beta1";
    cluster
        .create(&json!({"apiVersion": api_version, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}))
        .await;
    for number in 0..2 {
        let member = pod(&format!("{name}-{number}")).group(name).gpus(8);
        let mut member = member.annotate("phalanx.dev/run-seconds", "100000").build();
        member["spec"]["nodeSelector"] = selector.clone();
        cluster.create(&member).await;
    }
    until_refused(cluster, name).await;
}

/// The gang starts, and leaves.
async fn starts(cluster: &TestCluster, name: &str) {
    until_bound(cluster, name, 2).await;
    delete_pods(cluster, &[&format!("{name}-0"), &format!("{name}-1")]).await;
    cluster.eventually("its pods are gone", MINUTE, |cluster| cluster.pods().is_empty().then_some(())).await;
}

#[test]
fn a_waiting_gang_starts_when_labels_taints_topology_or_allocatable_of_a_node_change() {
    on_test_cluster(async {
        let cluster = two_nodes().await;
        patch_node(&cluster, "node-0", json!({"metadata": {"labels": {"pool": "a"}}})).await;
        refused_pair(&cluster, "labels", json!({"pool": "a"}), None).await;
        patch_node(&cluster, "node-1", json!({"metadata": {"labels": {"pool": "a"}}})).await;
        starts(&cluster, "labels").await;
        let taint = json!([{"key": "example.com/maintenance", "effect": "NoSchedule"}]);
        patch_node(&cluster, "node-1", json!({"spec": {"taints": taint}})).await;
        refused_pair(&cluster, "taints", json!({}), None).await;
        patch_node(&cluster, "node-1", json!({"spec": {"taints": null}})).await;
        starts(&cluster, "taints").await;
        patch_node(&cluster, "node-1", json!({"metadata": {"labels": {RACK: "elsewhere"}}})).await;
        refused_pair(&cluster, "topology", json!({}), Some(RACK)).await;
        patch_node(&cluster, "node-1", json!({"metadata": {"labels": {RACK: "rack-0"}}})).await;
        starts(&cluster, "topology").await;
        let gpus = |count: &str| json!({"status": {"allocatable": {"nvidia.com/gpu": count}}});
        let status = "/api/v1/nodes/node-1/status";
        cluster.request("PATCH", status, &gpus("7")).await.unwrap();
        refused_pair(&cluster, "allocatable", json!({}), None).await;
        cluster.request("PATCH", status, &gpus("8")).await.unwrap();
        starts(&cluster, "allocatable").await;
    });
}

#[test]
fn a_waiting_gang_starts_when_a_gate_is_removed_or_a_large_member_is_replaced() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 1).await;
        group(&cluster, "gated", Some(2)).await;
        members(&cluster, "gated", 0..1, 1).await;
        let mut gated = pod("gated-1").group("gated").annotate("phalanx.dev/run-seconds", "100000").build();
        gated["spec"]["schedulingGates"] = json!([{"name": "example.com/quota"}]);
        cluster.create(&gated).await;
        until_refused(&cluster, "gated").await;
        cluster.patch("pods/gated-1", &json!({"spec": {"schedulingGates": null}})).await;
        starts(&cluster, "gated").await;
        // A worker of four GPUs fits beside one of four, not beside a leader of five.
        group(&cluster, "mixed", Some(2)).await;
        members(&cluster, "mixed", 0..1, 5).await;
        members(&cluster, "mixed", 1..2, 4).await;
        until_refused(&cluster, "mixed").await;
        delete_pods(&cluster, &["mixed-0"]).await;
        members(&cluster, "mixed", 2..3, 4).await;
        until_bound(&cluster, "mixed", 2).await;
        cluster.advance(Duration::from_secs(1)).await;
    });
}

//! What the scheduler leaves to others, on both test clusters: autoscalers, volumes and devices, other schedulers.

use api::views::{Condition, NodeView};
use serde_json::{Value, json};
use testkit::{TestCluster, on_test_cluster, pod};

use crate::pod_groups::{MINUTE, count_bound, delete_pods, group, members, until_bound, until_refused};

/// The condition `PodScheduled` of a pod.
fn scheduled(cluster: &TestCluster, name: &str) -> Option<Condition> {
    let pod = cluster.pods().into_iter().find(|pod| pod.metadata.name == *name)?;
    pod.status.conditions.iter().find(|one| one.kind == "PodScheduled").cloned()
}

async fn until_reason(cluster: &TestCluster, name: &str, reason: &str) -> Condition {
    cluster
        .eventually(&format!("{name} has the reason {reason}"), MINUTE, |cluster| {
            scheduled(cluster, name).filter(|condition| condition.status == "False" && condition.reason == reason)
        })
        .await
}

/// A pod with this field in its spec, in a group or alone.
async fn pod_with(cluster: &TestCluster, name: &str, group: Option<&str>, field: &str, value: Value) {
    let builder = pod(name);
    let mut pod = group.map_or(builder.clone(), |group| builder.group(group)).build();
    pod["spec"][field] = value;
    cluster.create(&pod).await;
}

// An autoscaler adds nodes for pods with the reason Unschedulable.
#[test]
fn members_of_an_incomplete_gang_are_not_marked_unschedulable_until_they_were_tried() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 1).await;
        group(&cluster, "g", Some(3)).await;
        members(&cluster, "g", 0..2, 4).await;
        let message = until_refused(&cluster, "g").await;
        assert!(message.contains("2 of minCount 3"), "{message}");
        cluster.advance(MINUTE).await;
        assert!(["g-0", "g-1"].iter().all(|name| scheduled(&cluster, name).is_none()));
        members(&cluster, "g", 2..3, 4).await;
        for name in ["g-0", "g-1", "g-2"] {
            until_reason(&cluster, name, "Unschedulable").await;
        }
    });
}

#[test]
fn pods_with_volumes_or_claims_wait_with_the_reason() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 1).await;
        let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        let claims = json!([{"name": "device", "resourceClaimName": "device"}]);
        pod_with(&cluster, "volume", None, "volumes", volumes.clone()).await;
        pod_with(&cluster, "claim", None, "resourceClaims", claims).await;
        group(&cluster, "gang", Some(2)).await;
        members(&cluster, "gang", 0..1, 1).await;
        pod_with(&cluster, "gang-1", Some("gang"), "volumes", volumes).await;
        for (name, field) in [
            ("volume", "volumes[].persistentVolumeClaim"),
            ("claim", "resourceClaims"),
            ("gang-0", "volumes[].persistentVolumeClaim"),
            ("gang-1", "volumes[].persistentVolumeClaim"),
        ] {
            let condition = until_reason(&cluster, name, "Unschedulable").await;
            let want = format!("this scheduler does not support {field}");
            assert!(condition.message.contains(&want), "{name}: {}", condition.message);
        }
        cluster.advance(MINUTE).await;
        assert!(cluster.pods().iter().all(|pod| pod.node_name().is_none()));
    });
}

#[test]
fn the_room_of_a_pod_that_another_scheduler_has_nominated_stays_free() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 1).await;
        let node = cluster
            .eventually("the node exists", MINUTE, |cluster| cluster.cache::<NodeView>().all().first().cloned())
            .await;
        let mut foreign = pod("foreign").gpus(6).build();
        foreign["spec"]["schedulerName"] = "another".into();
        cluster.create(&foreign).await;
        cluster.patch("pods/foreign/status", &json!({"status": {"nominatedNodeName": node.metadata.name}})).await;
        cluster
            .eventually("the nomination is observed", MINUTE, |cluster| {
                cluster.pods().iter().any(|pod| pod.status.nominated_node_name.is_some()).then_some(())
            })
            .await;
        group(&cluster, "small", Some(2)).await;
        members(&cluster, "small", 0..2, 1).await;
        until_bound(&cluster, "small", 2).await;
        group(&cluster, "large", Some(2)).await;
        members(&cluster, "large", 0..2, 2).await;
        let message = until_refused(&cluster, "large").await;
        assert!(message.contains("had room only for nominated pods"), "{message}");
        assert_eq!(count_bound(&cluster, "large"), 0);
        delete_pods(&cluster, &["foreign"]).await;
        until_bound(&cluster, "large", 2).await;
    });
}

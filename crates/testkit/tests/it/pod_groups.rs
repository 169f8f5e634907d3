//! PodGroups and pods created by a user, on both test clusters: when a group waits, for what, and the queue order.

use std::time::Duration;

use api::views::{Condition, NodeView};
use nodes::cluster::Cluster;
use serde_json::json;
use testkit::fault::{Fault, FaultRule, Verb, verb, writes};
use testkit::{TestCluster, job, on_paused_clock, on_test_cluster, pod};

const GROUPS: &str = "scheduling.k8s.io/podgroups";
pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// Creates a gang, or without `min_count` a Basic group.
pub(super) async fn group(cluster: &TestCluster, name: &str, min_count: Option<u32>) {
    let policy = min_count.map_or(json!({"basic": {}}), |min_count| json!({"gang": {"minCount": min_count}}));
    let spec = json!({"schedulingPolicy": policy});
    let api_version = "scheduling.k8s.io/v1beta1";
    cluster
        .create(&json!({"apiVersion": api_version, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}))
        .await;
}

/// Creates pods of a group that run until they are deleted.
pub(super) async fn members(cluster: &TestCluster, group: &str, numbers: std::ops::Range<u32>, gpus: i32) {
    for number in numbers {
        let member = pod(&format!("{group}-{number}")).group(group).gpus(gpus);
        cluster.create(&member.annotate("phalanx.dev/run-seconds", "100000").build()).await;
    }
}

/// How many pods of a group are bound and not being deleted.
pub(super) fn count_bound(cluster: &TestCluster, group: &str) -> usize {
    let of_group = cluster.pods().into_iter().filter(|pod| pod.group_name() == Some(group));
    of_group.filter(|pod| pod.node_name().is_some() && !pod.metadata.is_deleting()).count()
}

pub(super) async fn until_bound(cluster: &TestCluster, group: &str, count: usize) {
    cluster
        .eventually(&format!("{count} pods of {group} are bound"), MINUTE, |cluster| {
            (count_bound(cluster, group) == count).then_some(())
        })
        .await;
}

/// Waits until a condition reports that the group waits, and returns its message.
pub(super) async fn until_refused(cluster: &TestCluster, name: &str) -> String {
    cluster
        .eventually(&format!("{name} is reported as waiting"), MINUTE, |cluster| {
            let group = cluster.pod_groups().into_iter().find(|group| group.metadata.name == *name)?;
            let waits = |one: &&Condition| one.kind == "PodGroupInitiallyScheduled" && one.status == "False";
            group.status.conditions.iter().find(waits).map(|one| one.message.clone())
        })
        .await
}

pub(super) async fn delete_pods(cluster: &TestCluster, names: &[&str]) {
    for name in names {
        cluster.delete(&format!("pods/{name}")).await;
    }
}

pub(super) async fn cordon(cluster: &TestCluster, node: &str, cordoned: bool) {
    let patch = json!({"spec": {"unschedulable": cordoned}});
    cluster.request("PATCH", &format!("/api/v1/nodes/{node}"), &patch).await.unwrap();
}

// Shows: U-TestPodGroupScheduling
#[test]
fn gangs_wait_for_group_quorum_and_capacity_without_blocking_each_other() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 1).await;
        members(&cluster, "early", 0..2, 2).await;
        group(&cluster, "few", Some(3)).await;
        members(&cluster, "few", 0..2, 0).await;
        let message = until_refused(&cluster, "few").await;
        assert!(message.contains("2 of minCount 3"), "{message}");
        assert_eq!(
            (count_bound(&cluster, "early"), count_bound(&cluster, "few")),
            (0, 0),
            "one lacks its group, the other lacks a pod"
        );
        group(&cluster, "early", Some(2)).await;
        members(&cluster, "few", 2..3, 0).await;
        until_bound(&cluster, "early", 2).await;
        until_bound(&cluster, "few", 3).await;
        group(&cluster, "large", Some(3)).await;
        members(&cluster, "large", 0..3, 2).await;
        until_refused(&cluster, "large").await;
        group(&cluster, "small", Some(1)).await;
        members(&cluster, "small", 0..1, 2).await;
        until_bound(&cluster, "small", 1).await;
        members(&cluster, "small", 1..2, 0).await;
        until_bound(&cluster, "small", 2).await;
        assert_eq!(count_bound(&cluster, "large"), 0, "a gang of which one pod of three fits is not placed");
        // Every pod of a Basic group that fits is placed.
        group(&cluster, "basic", None).await;
        members(&cluster, "basic", 0..3, 1).await;
        until_bound(&cluster, "basic", 2).await;
        delete_pods(&cluster, &["early-0", "early-1", "basic-0", "basic-1", "basic-2"]).await;
        until_bound(&cluster, "large", 3).await;
    });
}

// Shows: U-TestPodGroupQueueing
#[test]
fn a_waiting_gang_is_retried_on_uncordon_pod_deletion_and_lower_min_count() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 2).await;
        let node = cluster
            .eventually("both nodes exist", MINUTE, |cluster| cluster.cache::<NodeView>().all().get(1).cloned())
            .await;
        let node = node.metadata.name.as_str();
        cordon(&cluster, node, true).await;
        group(&cluster, "first", Some(2)).await;
        members(&cluster, "first", 0..2, 8).await;
        until_refused(&cluster, "first").await;
        cordon(&cluster, node, false).await;
        until_bound(&cluster, "first", 2).await;
        group(&cluster, "second", Some(2)).await;
        members(&cluster, "second", 0..2, 8).await;
        until_refused(&cluster, "second").await;
        delete_pods(&cluster, &["first-0", "first-1"]).await;
        until_bound(&cluster, "second", 2).await;
        group(&cluster, "third", Some(3)).await;
        members(&cluster, "third", 0..3, 8).await;
        delete_pods(&cluster, &["second-0", "second-1"]).await;
        until_refused(&cluster, "third").await;
        assert_eq!(count_bound(&cluster, "third"), 0);
        cluster.patch("podgroups/third", &json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}})).await;
        until_bound(&cluster, "third", 2).await;
    });
}

// Shows: U-TestPodGroupSequentialQueueing
#[test]
fn waiting_gangs_are_placed_in_creation_order() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 1).await;
        group(&cluster, "filler", Some(1)).await;
        members(&cluster, "filler", 0..1, 8).await;
        until_bound(&cluster, "filler", 1).await;
        // The order of their names is the reverse.
        for name in ["c", "b", "a"] {
            group(&cluster, name, Some(2)).await;
            members(&cluster, name, 0..2, 4).await;
            until_refused(&cluster, name).await;
            cluster.advance(Duration::from_secs(20)).await;
        }
        delete_pods(&cluster, &["filler-0"]).await;
        for (name, later) in [("c", ["b", "a"]), ("b", ["a", "a"]), ("a", ["filler", "filler"])] {
            until_bound(&cluster, name, 2).await;
            assert!(later.iter().all(|later| count_bound(&cluster, later) == 0), "{name} is before {later:?}");
            delete_pods(&cluster, &[&format!("{name}-0"), &format!("{name}-1")]).await;
        }
    });
}

// They were written in the order of names, so that groups late in the alphabet could wait for ever behind others.
#[test]
fn refusals_are_written_in_the_order_in_which_they_were_made() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(5, Cluster::default_of(1)).await;
        // Only 16 writes are in flight at once, so most groups wait for their turn.
        let statuses = writes().on_resource(GROUPS).on_subresource("status");
        let delayed = cluster.inject_fault(FaultRule::on(statuses, Fault::DelayResponse(Duration::from_secs(2))));
        let names: Vec<String> = (10..50).rev().map(|number| format!("g{number}")).collect();
        for name in &names {
            group(&cluster, name, Some(1)).await;
            members(&cluster, name, 0..1, 9).await;
        }
        for name in &names {
            until_refused(&cluster, name).await;
        }
        let mut written: Vec<String> = Vec::new();
        for change in cluster.history().iter().filter(|change| change.resource == GROUPS) {
            let name = change.object["metadata"]["name"].as_str().unwrap().to_owned();
            if change.object["status"]["conditions"].is_array() && !written.contains(&name) {
                written.push(name);
            }
        }
        assert_eq!(written, names);
        assert!(cluster.faults().counts(delayed).applied >= 40);
    });
}

// Shows: U-TestPodGroupRequeueRemainingOnSchedulingSuccess
#[test]
fn pods_beyond_min_count_are_placed_when_capacity_is_free() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 1).await;
        group(&cluster, "gang", Some(2)).await;
        members(&cluster, "gang", 0..4, 4).await;
        until_bound(&cluster, "gang", 2).await;
        cluster
            .eventually("the gang is reported as scheduled", MINUTE, |cluster| {
                let group = cluster.pod_groups().pop()?;
                Condition::is_true(&group.status.conditions, "PodGroupInitiallyScheduled").then_some(())
            })
            .await;
        let on_node = cluster.pods().into_iter().find(|pod| pod.node_name().is_some()).expect("two pods are bound");
        let deleted = on_node.metadata.name.as_str();
        delete_pods(&cluster, &[deleted]).await;
        cluster
            .eventually("another pod is bound instead", MINUTE, |cluster| {
                let names =
                    cluster.pods().into_iter().filter(|pod| pod.node_name().is_some() && !pod.metadata.is_deleting());
                (names.filter(|pod| pod.metadata.name != *deleted).count() == 2).then_some(())
            })
            .await;
    });
}

#[test]
fn a_gang_with_pod_anti_affinity_waits_and_reports_that_it_is_unsupported() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 1).await;
        group(&cluster, "gang", Some(2)).await;
        members(&cluster, "gang", 0..2, 1).await;
        until_bound(&cluster, "gang", 2).await;
        let selector = json!({"matchLabels": {"app": "apart"}});
        let term = json!([{"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}]);
        let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}});
        let mut single = pod("single").build();
        single["spec"]["affinity"] = apart.clone();
        cluster.create(&single).await;
        group(&cluster, "apart", Some(2)).await;
        for number in 0..2 {
            let mut member = pod(&format!("apart-{number}")).group("apart").build();
            // One such pod is enough.
            if number == 1 {
                member["spec"]["affinity"] = apart.clone();
            }
            cluster.create(&member).await;
        }
        let message = until_refused(&cluster, "apart").await;
        assert!(message.contains("does not support affinity.podAntiAffinity"), "{message}");
        cluster
            .eventually("the single pod reports it, too", MINUTE, |cluster| {
                let single = cluster.pods().into_iter().find(|pod| pod.metadata.name == "single")?;
                let scheduled = single.status.conditions.iter().find(|one| one.kind == "PodScheduled")?;
                scheduled.message.contains("does not support affinity.podAntiAffinity").then_some(())
            })
            .await;
        assert_eq!(count_bound(&cluster, "apart"), 0);
    });
}

// Shows: S003-14
#[test]
fn the_scheduler_reads_only_from_its_caches() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, nodes::cluster::Cluster::default_of(1)).await;
        let read = cluster.inject_fault(FaultRule::on(verb(Verb::Get).by_user("system:kube-scheduler"), Fault::Count));
        let listed =
            cluster.inject_fault(FaultRule::on(verb(Verb::List).by_user("system:kube-scheduler"), Fault::Count));
        cluster.create(&job("gang").pods(4).indexed().gang().gpus(1).build()).await;
        cluster.wait_until_ended("gang", 3 * MINUTE).await;
        group(&cluster, "large", Some(9)).await;
        members(&cluster, "large", 0..9, 1).await;
        until_refused(&cluster, "large").await;
        assert_eq!(
            [read, listed].map(|rule| cluster.faults().counts(rule).matched),
            [0, 0],
            "it reads only from the caches"
        );
    });
}

// Shows: S003-38
#[test]
fn without_groups_the_gate_does_not_change_scheduling() {
    let run = |gate_on: bool| {
        on_paused_clock(async {
            let cluster = match gate_on {
                true => TestCluster::embedded(3, nodes::cluster::Cluster::default_of(2)).await,
                false => TestCluster::with_gate_off("GenericWorkload", 3, 2).await,
            };
            for number in 0..12 {
                let single = pod(&format!("p{number}")).gpus(1 + number % 3);
                cluster.create(&single.annotate("phalanx.dev/run-seconds", &(20 + number).to_string()).build()).await;
            }
            cluster
                .eventually("all have run", 10 * MINUTE, |cluster| {
                    cluster.pods().iter().all(|pod| pod.is_finished()).then_some(())
                })
                .await;
            let history = cluster.history();
            let pods = history.iter().filter(|change| change.resource == "pods");
            let events = history.iter().filter(|change| change.resource == "events").map(|event| {
                let text = |field: &str| event.object[field].as_str().unwrap_or_default().to_owned();
                format!("{} {}", text("reason"), text("message"))
            });
            let states = pods.map(|pod| format!("{} {} {}", pod.name(), pod.object["spec"], pod.object["status"]));
            states.chain(events).collect::<Vec<String>>()
        })
    };
    let (with, without) = (run(true), run(false));
    assert!(with.len() > 36, "{}", with.len());
    assert_eq!(with, without);
}

#[test]
fn a_gang_that_requires_a_feature_starts_when_its_node_declares_it() {
    on_test_cluster(async {
        let cluster = TestCluster::start(9, 1).await;
        let first = |cluster: &TestCluster| Some(cluster.cache::<NodeView>().all().first()?.metadata.name.clone());
        let node = cluster.eventually("the node is in the cache", MINUTE, first).await;
        declare(&cluster, &node, json!(null)).await;
        group(&cluster, "restarting", Some(2)).await;
        for number in 0..2 {
            let mut member = pod(&format!("restarting-{number}")).group("restarting").gpus(1).build();
            member["spec"]["containers"][0]["restartPolicy"] = "Never".into();
            member["spec"]["containers"][0]["restartPolicyRules"] =
                json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]);
            member["metadata"]["annotations"]["phalanx.dev/run-seconds"] = "100000".into();
            cluster.create(&member).await;
        }
        let message = until_refused(&cluster, "restarting").await;
        assert!(message.contains("didn't match Pod's required features"), "{message}");
        declare(&cluster, &node, json!(["RestartAllContainersOnContainerExits"])).await;
        until_bound(&cluster, "restarting", 2).await;
    });
}

async fn declare(cluster: &TestCluster, node: &str, features: serde_json::Value) {
    let patch = json!({"status": {"declaredFeatures": features}});
    cluster.request("PATCH", &format!("/api/v1/nodes/{node}/status"), &patch).await.unwrap();
}

//! Deletion of finished Jobs, pods and groups, on both test clusters.

use std::time::Duration;

use api::clock::rfc3339;
use api::views::PodPhase;
use serde_json::{Value, json};
use testkit::{JobBuilder, TestCluster, job, on_shared_test_cluster, pod};

const MINUTE: Duration = Duration::from_secs(60);
const NODES: &str = "/api/v1/nodes";

// Shows: U-e2e-ttl
#[test]
fn a_finished_job_is_deleted_with_its_pods_after_its_ttl() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("brief").pods(2).gang().spec("ttlSecondsAfterFinished", 3).build()).await;
        cluster
            .eventually("all are deleted", 2 * MINUTE, |cluster| {
                let left = cluster.jobs().len()
                    + cluster.pods().len()
                    + cluster.workloads().len()
                    + cluster.pod_groups().len();
                (left == 0 && cluster.created_count("pods") == 2).then_some(())
            })
            .await;
        let history = cluster.history();
        let ended =
            |job: &Value| job["status"]["completionTime"].as_str().and_then(|at| at.parse::<api::Timestamp>().ok());
        let ended =
            history.iter().filter(|change| change.resource == "batch/jobs").find_map(|c| ended(&c.object)).unwrap();
        let marked = history
            .iter()
            .find(|c| c.resource == "batch/jobs" && c.object["metadata"]["deletionTimestamp"].is_string());
        let marked: api::Timestamp =
            marked.unwrap().object["metadata"]["deletionTimestamp"].as_str().unwrap().parse().unwrap();
        assert!(marked.duration_since(ended).as_secs() >= 3, "it is not deleted before its TTL");
    });
}

/// Creates a user's Workload for the Job of this name, and optionally a PodGroup.
async fn create_user_objects(cluster: &TestCluster, job: &str, with_group: bool) {
    let policy = json!({"gang": {"minCount": 2}});
    let controller_ref = json!({"apiGroup": "batch", "kind": "Job", "name": job});
    let templates = json!([{"name": "workers", "schedulingPolicy": policy}]);
    let workload = format!("w-{job}");
    cluster
        .create(&json!({
            "kind": "Workload", "metadata": {"name": workload},
            "spec": {"controllerRef": controller_ref, "podGroupTemplates": templates},
        }))
        .await;
    if with_group {
        let workload_ref = json!({"workloadName": workload, "templateName": "workers"});
        let spec = json!({"schedulingPolicy": policy, "workloadRef": workload_ref});
        cluster.create(&json!({"kind": "PodGroup", "metadata": {"name": format!("g-{job}")}, "spec": spec})).await;
    }
}

/// Waits until all Jobs and pods are deleted, and only the user's objects remain.
async fn wait_until_only_user_objects_remain(cluster: &TestCluster, case: &str, workloads: usize, groups: usize) {
    cluster
        .eventually(&format!("{case}: Jobs and pods are deleted"), 3 * MINUTE, |cluster| {
            let left =
                (cluster.jobs().len() + cluster.pods().len(), cluster.workloads().len(), cluster.pod_groups().len());
            (left == (0, workloads, groups) && cluster.created_count("pods") > 0).then_some(())
        })
        .await;
}

// Observed: the PodGroup of the user's Workload was a second owner of the pods, so they kept running after the
// deletion.
// Shows: U-trap-user-objects
#[test]
fn deleting_a_job_deletes_its_pods_despite_user_created_objects() {
    for (policy, with_group) in
        [("Background", false), ("Background", true), ("Foreground", false), ("Foreground", true)]
    {
        let case = format!("{policy}, with a PodGroup of the user: {with_group}");
        on_shared_test_cluster(async |cluster| {
            create_user_objects(&cluster, "tr", with_group).await;
            cluster.create(&job("tr").pods(2).run_forever().build()).await;
            let pods = cluster.wait_until_running("tr", 2).await;
            assert!(pods.iter().all(|pod| pod.group_name().is_some()), "{case}");
            cluster.delete_with_policy(policy, "jobs/tr").await;
            wait_until_only_user_objects_remain(&cluster, &case, 1, usize::from(with_group)).await;
            cluster.create(&job("tr").pods(2).run_forever().build()).await;
            cluster.wait_until_running("tr", 2).await;
            assert_eq!(cluster.pods().len(), 2, "{case}: no pod of the deleted Job runs");
        });
    }
}

#[test]
fn ttl_deletes_a_job_and_its_pods_although_its_workload_stays() {
    for with_group in [false, true] {
        on_shared_test_cluster(async |cluster| {
            create_user_objects(&cluster, "tr", with_group).await;
            cluster.create(&job("tr").pods(2).spec("ttlSecondsAfterFinished", 1).build()).await;
            let case = format!("with a PodGroup of the user: {with_group}");
            wait_until_only_user_objects_remain(&cluster, &case, 1, usize::from(with_group)).await;
        });
    }
}

/// Creates a CronJob `c` that keeps no finished Jobs and has a missed time.
async fn create_overdue_cron_job(cluster: &TestCluster, job: JobBuilder) {
    let template = json!({"spec": job.build()["spec"]});
    let spec = json!({
        "schedule": "* * * * *", "suspend": true, "successfulJobsHistoryLimit": 0, "jobTemplate": template,
        "concurrencyPolicy": "Forbid",
    });
    cluster
        .create(&json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec}))
        .await;
    let last = cluster.now().checked_sub(2 * MINUTE).unwrap();
    cluster.patch("cronjobs/c/status", &json!({"status": {"lastScheduleTime": rfc3339(last)}})).await;
    cluster.patch("cronjobs/c", &json!({"spec": {"suspend": false}})).await;
}

#[test]
fn the_history_limit_deletes_a_job_and_its_pods_although_its_workload_stays() {
    on_shared_test_cluster(async |cluster| {
        // The name of the Job has its minute, which is one of these.
        let minute = cluster.now().as_second() / 60;
        for minute in minute - 1..minute + 4 {
            create_user_objects(&cluster, &format!("c-{minute}"), false).await;
        }
        create_overdue_cron_job(&cluster, job("x").pods(2)).await;
        cluster
            .eventually("one of its Jobs has finished", 3 * MINUTE, |cluster| {
                let history = cluster.history();
                let is_job = |change: &&testkit::RecordedWrite| change.resource == "batch/jobs";
                history.iter().filter(is_job).any(|change| change.object["status"]["succeeded"] == 2).then_some(())
            })
            .await;
        cluster.patch("cronjobs/c", &json!({"spec": {"suspend": true}})).await;
        wait_until_only_user_objects_remain(&cluster, "history", 5, 0).await;
        let history = cluster.history();
        let mut pods = history.iter().filter(|change| change.resource == "pods" && change.created);
        assert!(pods.all(|pod| pod.object["spec"]["schedulingGroup"]["podGroupName"].is_string()));
    });
}

/// Creates a node for this test only, without a kubelet.
async fn own_node(cluster: &TestCluster, is_out_of_service: bool) -> String {
    let name = format!("away-{}", cluster.namespace());
    let mut taints = vec![];
    if is_out_of_service {
        taints
            .push(json!({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}));
    }
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "spec": {"unschedulable": true, "taints": taints}});
    cluster.request("POST", NODES, &node).await.unwrap();
    let now = api::clock::rfc3339(cluster.now());
    let condition = json!({"type": "Ready", "status": if is_out_of_service { "False" } else { "True" },
        "reason": "Test", "lastHeartbeatTime": now, "lastTransitionTime": now});
    let status = json!({"status": {"conditions": [condition]}});
    cluster.request("PATCH", &format!("{NODES}/{name}/status"), &status).await.unwrap();
    name
}

/// Creates a pod that runs on the node according to its status.
async fn pod_on(cluster: &TestCluster, node: &str, name: &str, change: impl FnOnce(&mut Value)) {
    let mut manifest = pod(name).build();
    manifest["spec"]["nodeName"] = json!(node);
    manifest["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    change(&mut manifest);
    cluster.create(&manifest).await;
    cluster.patch(&format!("pods/{name}/status"), &json!({"status": {"phase": "Running"}})).await;
}

// Shows: U-TestPodGcOrphanedPodsWithFinalizer, U-TestPodGcForPodsWithDuplicatedFieldKeys
#[test]
fn pods_of_a_missing_node_fail_as_disrupted_despite_finalizers_or_duplicate_list_keys() {
    on_shared_test_cluster(async |cluster| {
        let node = own_node(&cluster, false).await;
        pod_on(&cluster, &node, "held", |pod| pod["metadata"]["finalizers"] = json!(["example.com/held"])).await;
        pod_on(&cluster, &node, "doubled", |pod| {
            pod["metadata"]["finalizers"] = json!(["example.com/held"]);
            let twice = json!({"name": "A", "value": "1"});
            pod["spec"]["containers"][0]["env"] = json!([twice, {"name": "A", "value": "2"}]);
        })
        .await;
        cluster.request("DELETE", &format!("{NODES}/{node}"), &json!({})).await.unwrap();
        for name in ["held", "doubled"] {
            cluster
                .eventually(&format!("{name} has failed"), 3 * MINUTE, |cluster| {
                    let pods = cluster.pods();
                    let pod = pods.iter().find(|pod| pod.metadata.name == name)?;
                    (pod.status.phase == PodPhase::Failed && pod.metadata.is_deleting()).then_some(())
                })
                .await;
            let pod = cluster.get(&format!("pods/{name}")).await;
            let conditions = pod["status"]["conditions"].as_array().unwrap();
            let target = conditions.iter().find(|one| one["type"] == "DisruptionTarget").unwrap();
            assert_eq!((&target["status"], &target["reason"]), (&json!("True"), &json!("DeletionByPodGC")), "{name}");
            cluster.patch(&format!("pods/{name}"), &json!({"metadata": {"finalizers": null}})).await;
        }
        cluster.eventually("then they are removed", MINUTE, |cluster| cluster.pods().is_empty().then_some(())).await;
    });
}

// Shows: U-TestTerminatingOnOutOfServiceNode
#[test]
fn a_terminating_pod_on_an_out_of_service_node_is_deleted() {
    on_shared_test_cluster(async |cluster| {
        let node = own_node(&cluster, true).await;
        pod_on(&cluster, &node, "stuck", |_| {}).await;
        cluster.delete("pods/stuck").await;
        cluster.eventually("it is removed", 3 * MINUTE, |cluster| cluster.pods().is_empty().then_some(())).await;
        cluster.request("DELETE", &format!("{NODES}/{node}"), &json!({})).await.unwrap();
    });
}

// Shows: U-TestDoubleDeletionWithFinalizer
#[test]
fn a_pod_deleted_twice_is_removed_when_its_finalizer_is() {
    on_shared_test_cluster(async |cluster| {
        let mut held = pod("held").annotate("phalanx.dev/run-seconds", "100000").build();
        held["metadata"]["finalizers"] = json!(["example.com/held"]);
        cluster.create(&held).await;
        let is_in =
            |cluster: &TestCluster, phase: PodPhase| (cluster.pods().first()?.status.phase == phase).then_some(());
        cluster.eventually("it runs", MINUTE, |cluster| is_in(cluster, PodPhase::Running)).await;
        for _ in 0..2 {
            cluster.delete("pods/held").await;
            cluster.eventually("it has ended", MINUTE, |cluster| is_in(cluster, PodPhase::Failed)).await;
        }
        cluster.advance(MINUTE / 6).await;
        assert_eq!(cluster.pods().len(), 1, "the finalizer keeps it");
        cluster.patch("pods/held", &json!({"metadata": {"finalizers": null}})).await;
        cluster.eventually("it is removed", MINUTE, |cluster| cluster.pods().is_empty().then_some(())).await;
    });
}

// Shows: U-TestPodGroupProtectionController, U-TestHandlePodChange, U-TestHasActivePods, U-TestHandlePodGroupUpdate
// Shows: U-TestActivePodSchedulingGroupIndexer
#[test]
fn a_deleted_group_is_removed_when_its_last_pod_has_finished() {
    on_shared_test_cluster(async |cluster| {
        let policy = json!({"basic": {}});
        let group = json!({"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}});
        cluster.create(&group).await;
        for name in ["first", "second"] {
            cluster.create(&pod(name).group("g").annotate("phalanx.dev/run-seconds", "100000").build()).await;
        }
        let pods = cluster
            .eventually("both run", MINUTE, |cluster| {
                let pods = cluster.pods();
                (pods.iter().filter(|pod| pod.status.phase == PodPhase::Running).count() == 2).then_some(pods)
            })
            .await;
        cluster.delete("podgroups/g").await;
        cluster.end_pod(&pods[0], 0).await;
        cluster.advance(MINUTE / 6).await;
        assert!(
            cluster.pod_groups().first().is_some_and(|group| group.metadata.is_deleting()),
            "one pod is not finished"
        );
        cluster.end_pod(&pods[1], 1).await;
        cluster
            .eventually("the group is removed", MINUTE, |cluster| cluster.pod_groups().is_empty().then_some(()))
            .await;
        assert_eq!(cluster.pods().len(), 2, "its pods stay");
        cluster.create(&group).await;
        cluster.delete("podgroups/g").await;
        cluster
            .eventually("finished pods do not block the deletion", MINUTE, |cluster| {
                cluster.pod_groups().is_empty().then_some(())
            })
            .await;
    });
}

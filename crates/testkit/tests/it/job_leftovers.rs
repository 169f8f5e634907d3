//! Jobs and pods whose time is over, on both homes.

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
    on_shared_test_cluster(async |home| {
        home.create(&job("brief").pods(2).gang().spec("ttlSecondsAfterFinished", 3).build()).await;
        home.eventually("all gone", 2 * MINUTE, |home| {
            let left = home.jobs().len() + home.pods().len() + home.workloads().len() + home.pod_groups().len();
            (left == 0 && home.created_count("pods") == 2).then_some(())
        })
        .await;
        let history = home.history();
        let ended =
            |job: &Value| job["status"]["completionTime"].as_str().and_then(|at| at.parse::<api::Timestamp>().ok());
        let ended =
            history.iter().filter(|change| change.resource == "batch/jobs").find_map(|c| ended(&c.object)).unwrap();
        let marked = history
            .iter()
            .find(|c| c.resource == "batch/jobs" && c.object["metadata"]["deletionTimestamp"].is_string());
        let marked: api::Timestamp =
            marked.unwrap().object["metadata"]["deletionTimestamp"].as_str().unwrap().parse().unwrap();
        assert!(marked.duration_since(ended).as_secs() >= 3, "not too early");
    });
}

/// A Workload that a user made for the Job of this name, and a PodGroup of it if there is to be one.
async fn create_user_objects(home: &TestCluster, job: &str, with_group: bool) {
    let policy = json!({"gang": {"minCount": 2}});
    let stands_for = json!({"apiGroup": "batch", "kind": "Job", "name": job});
    let templates = json!([{"name": "workers", "schedulingPolicy": policy}]);
    let workload = format!("w-{job}");
    home.create(&json!({
        "kind": "Workload", "metadata": {"name": workload},
        "spec": {"controllerRef": stands_for, "podGroupTemplates": templates},
    }))
    .await;
    if with_group {
        let origin = json!({"workloadName": workload, "templateName": "workers"});
        let spec = json!({"schedulingPolicy": policy, "workloadRef": origin});
        home.create(&json!({"kind": "PodGroup", "metadata": {"name": format!("g-{job}")}, "spec": spec})).await;
    }
}

/// Waits until neither a Job nor a pod is left, and only the user's objects are.
async fn wait_until_only_user_objects_remain(home: &TestCluster, case: &str, workloads: usize, groups: usize) {
    home.eventually(&format!("{case}: Jobs and pods go"), 3 * MINUTE, |home| {
        let left = (home.jobs().len() + home.pods().len(), home.workloads().len(), home.pod_groups().len());
        (left == (0, workloads, groups) && home.created_count("pods") > 0).then_some(())
    })
    .await;
}

// The pods' second owner was the PodGroup, which the user's Workload kept: they ran on beside those of a new Job.
// Shows: U-trap-user-objects
#[test]
fn deleting_a_job_deletes_its_pods_despite_user_created_objects() {
    for (policy, with_group) in
        [("Background", false), ("Background", true), ("Foreground", false), ("Foreground", true)]
    {
        let case = format!("{policy}, with a PodGroup of the user: {with_group}");
        on_shared_test_cluster(async |home| {
            create_user_objects(&home, "tr", with_group).await;
            home.create(&job("tr").pods(2).run_forever().build()).await;
            let pods = home.wait_until_running("tr", 2).await;
            assert!(pods.iter().all(|pod| pod.group_name().is_some()), "{case}");
            home.delete_with_policy(policy, "jobs/tr").await;
            wait_until_only_user_objects_remain(&home, &case, 1, usize::from(with_group)).await;
            home.create(&job("tr").pods(2).run_forever().build()).await;
            home.wait_until_running("tr", 2).await;
            assert_eq!(home.pods().len(), 2, "{case}: none of the Job before runs beside them");
        });
    }
}

#[test]
fn ttl_deletes_a_job_and_its_pods_although_its_workload_stays() {
    for with_group in [false, true] {
        on_shared_test_cluster(async |home| {
            create_user_objects(&home, "tr", with_group).await;
            home.create(&job("tr").pods(2).spec("ttlSecondsAfterFinished", 1).build()).await;
            let case = format!("with a PodGroup of the user: {with_group}");
            wait_until_only_user_objects_remain(&home, &case, 1, usize::from(with_group)).await;
        });
    }
}

/// A CronJob `c` that keeps none of its ended Jobs, and has one to make up for now.
async fn create_overdue_cron_job(home: &TestCluster, job: JobBuilder) {
    let template = json!({"spec": job.build()["spec"]});
    let spec = json!({
        "schedule": "* * * * *", "suspend": true, "successfulJobsHistoryLimit": 0, "jobTemplate": template,
        "concurrencyPolicy": "Forbid",
    });
    home.create(&json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": spec})).await;
    let last = home.now().checked_sub(2 * MINUTE).unwrap();
    home.patch("cronjobs/c/status", &json!({"status": {"lastScheduleTime": rfc3339(last)}})).await;
    home.patch("cronjobs/c", &json!({"spec": {"suspend": false}})).await;
}

#[test]
fn the_history_limit_deletes_a_job_and_its_pods_although_its_workload_stays() {
    on_shared_test_cluster(async |home| {
        // The Job is named after its minute, which is one of these.
        let minute = home.now().as_second() / 60;
        for minute in minute - 1..minute + 4 {
            create_user_objects(&home, &format!("c-{minute}"), false).await;
        }
        create_overdue_cron_job(&home, job("x").pods(2)).await;
        home.eventually("a Job of it has ended", 3 * MINUTE, |home| {
            let history = home.history();
            let is_it = |change: &&testkit::RecordedWrite| change.resource == "batch/jobs";
            history.iter().filter(is_it).any(|change| change.object["status"]["succeeded"] == 2).then_some(())
        })
        .await;
        home.patch("cronjobs/c", &json!({"spec": {"suspend": true}})).await;
        wait_until_only_user_objects_remain(&home, "history", 5, 0).await;
        let history = home.history();
        let mut pods = history.iter().filter(|change| change.resource == "pods" && change.created);
        assert!(pods.all(|pod| pod.object["spec"]["schedulingGroup"]["podGroupName"].is_string()));
    });
}

/// A node of the test's own, which no kubelet stands behind and nobody else uses.
async fn own_node(home: &TestCluster, is_out_of_service: bool) -> String {
    let name = format!("away-{}", home.namespace());
    let mut taints = vec![];
    if is_out_of_service {
        taints
            .push(json!({"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}));
    }
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "spec": {"unschedulable": true, "taints": taints}});
    home.request("POST", NODES, &node).await.unwrap();
    let now = api::clock::rfc3339(home.now());
    let condition = json!({"type": "Ready", "status": if is_out_of_service { "False" } else { "True" },
        "reason": "Test", "lastHeartbeatTime": now, "lastTransitionTime": now});
    let status = json!({"status": {"conditions": [condition]}});
    home.request("PATCH", &format!("{NODES}/{name}/status"), &status).await.unwrap();
    name
}

/// A pod that runs there, as far as anybody can tell.
async fn pod_on(home: &TestCluster, node: &str, name: &str, change: impl FnOnce(&mut Value)) {
    let mut manifest = pod(name).build();
    manifest["spec"]["nodeName"] = json!(node);
    manifest["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    change(&mut manifest);
    home.create(&manifest).await;
    home.patch(&format!("pods/{name}/status"), &json!({"status": {"phase": "Running"}})).await;
}

// Shows: U-TestPodGcOrphanedPodsWithFinalizer, U-TestPodGcForPodsWithDuplicatedFieldKeys
#[test]
fn pods_of_a_missing_node_fail_as_disrupted_despite_finalizers_or_duplicate_list_keys() {
    on_shared_test_cluster(async |home| {
        let node = own_node(&home, false).await;
        pod_on(&home, &node, "held", |pod| pod["metadata"]["finalizers"] = json!(["example.com/held"])).await;
        pod_on(&home, &node, "doubled", |pod| {
            pod["metadata"]["finalizers"] = json!(["example.com/held"]);
            let twice = json!({"name": "A", "value": "1"});
            pod["spec"]["containers"][0]["env"] = json!([twice, {"name": "A", "value": "2"}]);
        })
        .await;
        home.request("DELETE", &format!("{NODES}/{node}"), &json!({})).await.unwrap();
        for name in ["held", "doubled"] {
            home.eventually(&format!("{name} is ended"), 3 * MINUTE, |home| {
                let pods = home.pods();
                let pod = pods.iter().find(|pod| pod.metadata.name == name)?;
                (pod.status.phase == PodPhase::Failed && pod.metadata.is_deleting()).then_some(())
            })
            .await;
            let pod = home.get(&format!("pods/{name}")).await;
            let conditions = pod["status"]["conditions"].as_array().unwrap();
            let said = conditions.iter().find(|held| held["type"] == "DisruptionTarget").unwrap();
            assert_eq!((&said["status"], &said["reason"]), (&json!("True"), &json!("DeletionByPodGC")), "{name}");
            home.patch(&format!("pods/{name}"), &json!({"metadata": {"finalizers": null}})).await;
        }
        home.eventually("then they go", MINUTE, |home| home.pods().is_empty().then_some(())).await;
    });
}

// Shows: U-TestTerminatingOnOutOfServiceNode
#[test]
fn a_terminating_pod_on_an_out_of_service_node_is_deleted() {
    on_shared_test_cluster(async |home| {
        let node = own_node(&home, true).await;
        pod_on(&home, &node, "stuck", |_| {}).await;
        home.delete("pods/stuck").await;
        home.eventually("it goes", 3 * MINUTE, |home| home.pods().is_empty().then_some(())).await;
        home.request("DELETE", &format!("{NODES}/{node}"), &json!({})).await.unwrap();
    });
}

// Shows: U-TestDoubleDeletionWithFinalizer
#[test]
fn a_pod_deleted_twice_is_removed_when_its_finalizer_is() {
    on_shared_test_cluster(async |home| {
        let mut held = pod("held").annotate("phalanx.dev/run-seconds", "100000").build();
        held["metadata"]["finalizers"] = json!(["example.com/held"]);
        home.create(&held).await;
        let is_in = |home: &TestCluster, phase: PodPhase| (home.pods().first()?.status.phase == phase).then_some(());
        home.eventually("it runs", MINUTE, |home| is_in(home, PodPhase::Running)).await;
        for _ in 0..2 {
            home.delete("pods/held").await;
            home.eventually("it has ended", MINUTE, |home| is_in(home, PodPhase::Failed)).await;
        }
        home.advance(MINUTE / 6).await;
        assert_eq!(home.pods().len(), 1, "it is held");
        home.patch("pods/held", &json!({"metadata": {"finalizers": null}})).await;
        home.eventually("it goes", MINUTE, |home| home.pods().is_empty().then_some(())).await;
    });
}

// Shows: U-TestPodGroupProtectionController, U-TestHandlePodChange, U-TestHasActivePods, U-TestHandlePodGroupUpdate
// Shows: U-TestActivePodSchedulingGroupIndexer
#[test]
fn a_deleted_group_is_removed_when_its_last_pod_has_finished() {
    on_shared_test_cluster(async |home| {
        let policy = json!({"basic": {}});
        let group = json!({"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}});
        home.create(&group).await;
        for name in ["first", "second"] {
            home.create(&pod(name).group("g").annotate("phalanx.dev/run-seconds", "100000").build()).await;
        }
        let pods = home
            .eventually("both run", MINUTE, |home| {
                let pods = home.pods();
                (pods.iter().filter(|pod| pod.status.phase == PodPhase::Running).count() == 2).then_some(pods)
            })
            .await;
        home.delete("podgroups/g").await;
        home.end_pod(&pods[0], 0).await;
        home.advance(MINUTE / 6).await;
        assert!(home.pod_groups().first().is_some_and(|group| group.metadata.is_deleting()), "one lives");
        home.end_pod(&pods[1], 1).await;
        home.eventually("the group goes", MINUTE, |home| home.pod_groups().is_empty().then_some(())).await;
        assert_eq!(home.pods().len(), 2, "and its pods stay");
        home.create(&group).await;
        home.delete("podgroups/g").await;
        home.eventually("ended pods hold nothing", MINUTE, |home| home.pod_groups().is_empty().then_some(())).await;
    });
}

//! Jobs and pods whose time is over, on both homes.

use std::time::Duration;

use api::views::PodPhase;
use serde_json::{Value, json};
use testkit::{Home, job, on_shared_home, pod};

const MINUTE: Duration = Duration::from_secs(60);
const NODES: &str = "/api/v1/nodes";

// Shows: U-e2e-ttl
#[test]
fn an_ended_job_goes_with_its_pods_when_its_time_is_over() {
    on_shared_home(async |home| {
        home.create(&job("brief").pods(2).gang().spec("ttlSecondsAfterFinished", 3).build()).await;
        home.eventually("all gone", 2 * MINUTE, |home| {
            let left = home.jobs().len() + home.pods().len() + home.workloads().len() + home.pod_groups().len();
            (left == 0 && home.made("pods") == 2).then_some(())
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

/// A node of the test's own, which no kubelet stands behind and nobody else uses.
async fn own_node(home: &Home, is_out_of_service: bool) -> String {
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
async fn pod_on(home: &Home, node: &str, name: &str, change: impl FnOnce(&mut Value)) {
    let mut manifest = pod(name).build();
    manifest["spec"]["nodeName"] = json!(node);
    manifest["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    change(&mut manifest);
    home.create(&manifest).await;
    home.patch(&format!("pods/{name}/status"), &json!({"status": {"phase": "Running"}})).await;
}

// Shows: U-TestPodGcOrphanedPodsWithFinalizer, U-TestPodGcForPodsWithDuplicatedFieldKeys
#[test]
fn pods_whose_node_is_gone_end_as_disrupted_though_somebody_holds_them_or_their_lists_have_doubles() {
    on_shared_home(async |home| {
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
fn a_pod_that_is_ending_on_a_node_out_of_service_is_taken_away() {
    on_shared_home(async |home| {
        let node = own_node(&home, true).await;
        pod_on(&home, &node, "stuck", |_| {}).await;
        home.delete("pods/stuck").await;
        home.eventually("it goes", 3 * MINUTE, |home| home.pods().is_empty().then_some(())).await;
        home.request("DELETE", &format!("{NODES}/{node}"), &json!({})).await.unwrap();
    });
}

// Shows: U-TestDoubleDeletionWithFinalizer
#[test]
fn a_held_pod_that_is_deleted_twice_goes_when_it_is_let_go() {
    on_shared_home(async |home| {
        let mut held = pod("held").annotate("phalanx.dev/run-seconds", "100000").build();
        held["metadata"]["finalizers"] = json!(["example.com/held"]);
        home.create(&held).await;
        let is_in = |home: &Home, phase: PodPhase| (home.pods().first()?.status.phase == phase).then_some(());
        home.eventually("it runs", MINUTE, |home| is_in(home, PodPhase::Running)).await;
        for _ in 0..2 {
            home.delete("pods/held").await;
            home.eventually("it has ended", MINUTE, |home| is_in(home, PodPhase::Failed)).await;
        }
        home.pass(MINUTE / 6).await;
        assert_eq!(home.pods().len(), 1, "it is held");
        home.patch("pods/held", &json!({"metadata": {"finalizers": null}})).await;
        home.eventually("it goes", MINUTE, |home| home.pods().is_empty().then_some(())).await;
    });
}

// Shows: U-TestPodGroupProtectionController, U-TestHandlePodChange, U-TestHasActivePods, U-TestHandlePodGroupUpdate
// Shows: U-TestActivePodSchedulingGroupIndexer
#[test]
fn a_deleted_group_goes_when_the_last_pod_that_names_it_has_ended_and_not_before() {
    on_shared_home(async |home| {
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
        home.end(&pods[0], 0).await;
        home.pass(MINUTE / 6).await;
        assert!(home.pod_groups().first().is_some_and(|group| group.metadata.is_deleting()), "one lives");
        home.end(&pods[1], 1).await;
        home.eventually("the group goes", MINUTE, |home| home.pod_groups().is_empty().then_some(())).await;
        assert_eq!(home.pods().len(), 2, "and its pods stay");
        home.create(&group).await;
        home.delete("podgroups/g").await;
        home.eventually("ended pods hold nothing", MINUTE, |home| home.pod_groups().is_empty().then_some(())).await;
    });
}

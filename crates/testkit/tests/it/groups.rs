//! Groups as independent objects: their lifetime, their state, and what the scheduler reads of them.

use api::views::{JobView, PodGroupView, PodView, WorkloadView};
use std::collections::BTreeMap;
use std::time::Duration;

use api::gates::{AutoGang, Gate, Gates};
use controlplane::{Config, ControlPlane};
use nodes::cluster::Cluster;
use serde_json::{Value, json};
use testkit::{TestCluster, job, on_paused_clock, pod};

const MINUTE: Duration = Duration::from_secs(60);
const SCHEDULING: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default";

fn all_bound(cluster: &TestCluster, count: usize) -> Option<()> {
    let pods = cluster.cache::<PodView>().all();
    (pods.len() == count && pods.iter().all(|pod| pod.node_name().is_some())).then_some(())
}

// Shows: S003-01
#[test]
fn a_group_survives_the_deletion_of_its_workload() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(1)).await;
        cluster.create(&job("train").pods(4).gang().annotate("phalanx.dev/run-seconds", "100").build()).await;
        cluster.eventually("the gang runs", MINUTE, |cluster| all_bound(cluster, 4)).await;
        let workload = cluster.cache::<WorkloadView>().all().pop().unwrap();
        let group = cluster.cache::<PodGroupView>().all().pop().unwrap();
        let path = format!("{SCHEDULING}/workloads/{}", workload.metadata.name);
        cluster.request("DELETE", &path, &json!({})).await.unwrap();
        cluster
            .eventually("the Workload is deleted", MINUTE, |cluster| {
                cluster.cache::<WorkloadView>().all().is_empty().then_some(())
            })
            .await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        let left = cluster.cache::<PodGroupView>().all();
        assert_eq!(left.iter().map(|left| &left.metadata.uid).collect::<Vec<_>>(), [&group.metadata.uid]);
        assert!(!left[0].metadata.is_deleting(), "it does not belong to its Workload");
        let done =
            |cluster: &TestCluster| cluster.cache::<JobView>().all().pop().filter(|job| job.status.succeeded == 4);
        cluster.eventually("the Job completes", 3 * MINUTE, done).await;
    });
}

// Shows: S002-13
#[test]
fn the_scheduler_ignores_the_controller_ref_of_a_workload() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(1)).await;
        let template = json!({"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}});
        let controller_ref = json!({"apiGroup": "training.example.com", "kind": "Training", "name": "not-there"});
        cluster
            .create(&json!({
                "kind": "Workload", "metadata": {"name": "w"},
                "spec": {"podGroupTemplates": [template], "controllerRef": controller_ref},
            }))
            .await;
        cluster
            .create(&json!({
                "kind": "PodGroup", "metadata": {"name": "g"},
                "spec": {
                    "schedulingPolicy": {"gang": {"minCount": 2}},
                    "workloadRef": {"workloadName": "w", "templateName": "workers"},
                },
            }))
            .await;
        for name in ["a", "b"] {
            cluster.create(&pod(name).group("g").build()).await;
        }
        cluster.eventually("both are placed", MINUTE, |cluster| all_bound(cluster, 2)).await;
    });
}

// Shows: S003-03
#[test]
fn the_state_of_a_group_is_written_only_to_that_group() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(4)).await;
        for name in ["red", "green", "blue"] {
            cluster.create(&job(name).pods(4).gang().gpus(1).build()).await;
        }
        cluster
            .eventually("all complete", 3 * MINUTE, |cluster| {
                cluster.cache::<JobView>().all().iter().all(|job| job.status.completion_time.is_some()).then_some(())
            })
            .await;
        let history = cluster.history();
        let writes = |resource: &str| {
            let mut writes: BTreeMap<String, usize> = BTreeMap::new();
            for change in history.iter().filter(|change| change.resource == resource) {
                *writes.entry(change.name().to_owned()).or_default() += 1;
            }
            writes.into_values().collect::<Vec<usize>>()
        };
        assert_eq!(writes("scheduling.k8s.io/workloads"), [1, 1, 1], "a Workload is created and never written again");
        let groups = writes("scheduling.k8s.io/podgroups");
        assert!(groups.len() == 3 && groups.iter().all(|count| (2..=3).contains(count)), "{groups:?}");
        for change in history.iter().filter(|change| change.resource == "scheduling.k8s.io/podgroups") {
            let others = cluster.cache::<PodGroupView>().all();
            let others = others.iter().map(|group| group.metadata.name.as_str()).filter(|name| *name != change.name());
            let text = change.object.to_string();
            others.for_each(|other| assert!(!text.contains(other), "{other} is in {text}"));
        }
    });
}

// Shows: S000-14
#[test]
fn the_example_of_the_proposal_is_a_gang_of_eight() {
    let text = include_str!("../../../../examples/seeds/000-job.yaml");
    let manifest: Value = api_form(text);
    on_paused_clock(async {
        let gates = Gates::default().with_auto_gang(AutoGang::Indexed);
        let cluster =
            TestCluster::with_config(3, Config { gates, ..Config::for_cluster(Cluster::default_of(1)) }).await;
        cluster.request("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "training"}})).await.unwrap();
        cluster.request("POST", "/apis/batch/v1/namespaces/training/jobs", &manifest).await.unwrap();
        let done =
            |cluster: &TestCluster| cluster.cache::<JobView>().all().pop().filter(|job| job.status.succeeded == 8);
        cluster.eventually("it completes", 3 * MINUTE, done).await;
        let group = cluster.cache::<PodGroupView>().all().pop().unwrap();
        assert_eq!(group.min_count(), Some(8));
        let workload = cluster.cache::<WorkloadView>().all().pop().unwrap();
        let templates = workload.spec.pod_group_templates.clone().unwrap();
        let counts: Vec<_> = templates.iter().map(|t| t.scheduling_policy.gang.as_ref().map(|g| g.min_count)).collect();
        assert_eq!(counts, [Some(8)]);
    });
}

/// The manifest as JSON.
fn api_form(yaml: &str) -> Value {
    serde_saphyr::from_str(yaml).unwrap()
}

// Shows: S003-33
#[test]
fn while_the_gates_are_off_pods_of_groups_are_placed_one_by_one() {
    on_paused_clock(async {
        let origin = "2026-01-01T00:00:00Z".parse().unwrap();
        let environment = testkit::virtual_time::environment(9, origin, store::HistoryLimits::default());
        let config = |gates: Gates| Config { gates, ..Config::for_cluster(Cluster::default_of(1)) };
        let off = Gate::ALL.into_iter().fold(Gates::default(), |gates, gate| gates.with(gate, false));
        let bound = |plane: &ControlPlane| {
            plane.cache::<PodView>().all().iter().filter(|pod| pod.node_name().is_some()).count()
        };
        let wait = async || tokio::time::sleep(MINUTE).await;

        let plane = ControlPlane::start(environment.clone(), config(Gates::default())).await.unwrap();
        let group = json!({"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 12}}}});
        send(&plane, &format!("{SCHEDULING}/podgroups"), &group).await;
        for index in 0..12 {
            let pod = pod(&format!("p{index}")).gpus(1).group("g").annotate("phalanx.dev/run-seconds", "100000");
            send(&plane, "/api/v1/namespaces/default/pods", &pod.build()).await;
        }
        wait().await;
        assert_eq!(bound(&plane), 0, "eight of twelve fit");
        plane.stop().await;

        let plane = ControlPlane::start(environment.clone(), config(off)).await.unwrap();
        wait().await;
        assert_eq!(bound(&plane), 8, "each pod that fits is placed");
        plane.stop().await;

        let plane = ControlPlane::start(environment, config(Gates::default())).await.unwrap();
        wait().await;
        assert_eq!(plane.cache::<PodGroupView>().all().len(), 1, "the group is served again");
        assert_eq!(bound(&plane), 8, "running pods keep running");
        plane.stop().await;
    });
}

async fn send(plane: &ControlPlane, path: &str, body: &Value) {
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(serde_json::to_vec(body).unwrap()).unwrap();
    plane.client().request::<Value>(request).await.unwrap();
}

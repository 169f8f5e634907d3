//! Gates and settings through the whole control plane, changed while objects exist.

use std::time::Duration;

use api::gates::{AutoGang, Gate, Gates};
use api::views::{Condition, JobView, PodGroupView, PodView, WorkloadView};
use controlplane::{Config, ControlPlane, ControlPlaneEnvironment};
use nodes::cluster::Cluster;
use serde_json::{Value, json};
use testkit::{TestCluster, job, on_paused_clock};

const MINUTE: Duration = Duration::from_secs(60);

fn config(gates: Gates) -> Config {
    Config { gates, ..Config::for_cluster(Cluster::default_of(4)) }
}

fn all_complete(cluster: &TestCluster, jobs: usize) -> Option<()> {
    let all = cluster.cache::<JobView>().all();
    (all.len() == jobs && all.iter().all(|job| Condition::is_true(&job.status.conditions, "Complete"))).then_some(())
}

// Shows: S000-06
// Shows: S000-54
#[test]
fn auto_gang_creates_groups_only_for_indexed_jobs_that_run_all_pods_at_once() {
    on_paused_clock(async {
        let cluster = TestCluster::with_config(3, config(Gates::default().with_auto_gang(AutoGang::Indexed))).await;
        cluster.create(&job("whole").pods(8).indexed().gpus(1).build()).await;
        cluster.create(&job("waves").spec("parallelism", 2).spec("completions", 4).indexed().build()).await;
        cluster.create(&job("plain").pods(3).build()).await;
        cluster.eventually("complete", 3 * MINUTE, |cluster| all_complete(cluster, 3)).await;
        let groups = cluster.cache::<PodGroupView>().all();
        let counts: Vec<Option<i32>> = groups.iter().map(|group| group.min_count()).collect();
        assert_eq!((counts, cluster.cache::<WorkloadView>().all().len()), (vec![Some(8)], 1));
        for pod in cluster.cache::<PodView>().all() {
            assert_eq!(pod.group_name().is_some(), pod.metadata.name.starts_with("whole-"), "{}", pod.metadata.name);
        }
    });
}

// Shows: S000-56
#[test]
fn resizing_is_refused_for_auto_gangs_and_allowed_by_default() {
    for (auto_gang, refused) in [(AutoGang::Indexed, true), (AutoGang::Explicit, false)] {
        on_paused_clock(async {
            let cluster = TestCluster::with_config(3, config(Gates::default().with_auto_gang(auto_gang))).await;
            let manifest = job("whole").pods(4).indexed().annotate("phalanx.dev/run-seconds", "1000").build();
            cluster.create(&manifest).await;
            let path = "/apis/batch/v1/namespaces/default/jobs/whole";
            let larger = json!({"spec": {"parallelism": 6, "completions": 6}});
            let result = cluster.request("PATCH", path, &larger).await;
            cluster.create(&job("waves").spec("parallelism", 2).spec("completions", 4).indexed().build()).await;
            let more = json!({"spec": {"parallelism": 3}});
            cluster.request("PATCH", "/apis/batch/v1/namespaces/default/jobs/waves", &more).await.unwrap();
            match result {
                Err(kube::Error::Api(status)) if refused => {
                    assert!(status.code == 422 && status.message.contains("spec.parallelism"), "{}", status.message);
                }
                other => assert!(!refused && other.is_ok(), "{auto_gang:?}: {other:?}"),
            }
        });
    }
}

// Observed: these Jobs could not be resized either, although none of them is a gang.
// Shows: S000-25
// Shows: S000-56
#[test]
fn jobs_that_auto_gang_skips_can_be_resized() {
    on_paused_clock(async {
        let gates = Gates::default().with_auto_gang(AutoGang::Indexed).with(Gate::JobWorkloadRef, true);
        let cluster = TestCluster::with_config(3, config(gates)).await;
        let labels = json!({"phalanx.dev/groups": "disabled"});
        let namespace = json!({"metadata": {"name": "without", "labels": labels}});
        cluster.request("POST", "/api/v1/namespaces", &namespace).await.unwrap();
        for (job, policy) in [("basic", json!({"basic": {}})), ("shared", json!({"basic": {}}))] {
            let controller_ref = json!({"apiGroup": "batch", "kind": "Job", "name": job});
            let templates = json!([{"name": "t", "schedulingPolicy": policy}]);
            let spec = json!({"controllerRef": controller_ref, "podGroupTemplates": templates});
            cluster.create(&json!({"kind": "Workload", "metadata": {"name": job}, "spec": spec})).await;
        }
        let owner = cluster.create(&testkit::pod("parent").annotate("phalanx.dev/run-seconds", "100000").build()).await;
        let uid = &owner["metadata"]["uid"];
        let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "parent", "uid": uid, "controller": true}]);
        let whole = |name: &str| job(name).pods(4).indexed().run_forever();
        for (namespace, manifest, refused) in [
            ("default", whole("gang"), true),
            ("default", whole("opted-out").meta("labels", labels.clone()), false),
            ("default", whole("owned").meta("ownerReferences", owner), false),
            ("default", whole("basic"), false),
            ("default", whole("names").spec("workloadRef", json!({"name": "shared"})), false),
            ("without", whole("plain"), false),
            ("without", whole("asks").gang(), true),
            ("without", whole("opted-in").meta("labels", json!({"phalanx.dev/groups": "enabled"})), true),
        ] {
            let mut manifest = manifest.build();
            manifest["metadata"]["namespace"] = json!(namespace);
            let path = format!("/apis/batch/v1/namespaces/{namespace}/jobs");
            cluster.request("POST", &path, &manifest).await.unwrap();
            let name = manifest["metadata"]["name"].as_str().unwrap();
            let larger = json!({"spec": {"parallelism": 6, "completions": 6}});
            let result = cluster.request("PATCH", &format!("{path}/{name}"), &larger).await;
            match result {
                Err(kube::Error::Api(status)) if refused => assert!(
                    status.code == 422
                        && status.message.contains("spec.parallelism: Invalid value: 6: cannot be changed"),
                    "{name}: {}",
                    status.message
                ),
                other => assert!(!refused && other.is_ok(), "{name}: {other:?}"),
            }
        }
        let sized = |cluster: &TestCluster, name: &str| {
            let of = |pod: &&std::sync::Arc<api::views::PodView>| {
                pod.metadata.name.starts_with(&format!("{name}-")) && pod.node_name().is_some()
            };
            cluster.cache::<PodView>().all().iter().filter(of).count()
        };
        for name in ["opted-out", "owned", "basic", "names", "plain"] {
            cluster.eventually(name, 3 * MINUTE, |cluster| (sized(cluster, name) == 6).then_some(())).await;
        }
    });
}

/// A control plane on an environment that may have the store of an earlier one.
async fn start(environment: &ControlPlaneEnvironment, gates: Gates) -> ControlPlane {
    ControlPlane::start(environment.clone(), config(gates)).await.unwrap()
}

async fn wait_until(plane: &ControlPlane, what: &str, holds: impl Fn(&ControlPlane) -> bool) {
    for _ in 0..3000 {
        if holds(plane) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("timed out: {what}");
}

async fn post_job(plane: &ControlPlane, manifest: &Value) {
    send(plane, "POST", "", manifest).await;
}

/// Sends a request about Jobs.
async fn send(plane: &ControlPlane, method: &str, name: &str, body: &Value) {
    let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let path = format!("/apis/batch/v1/namespaces/default/jobs{name}");
    let request = http::Request::builder().method(method).uri(path).header("content-type", content);
    let request = request.body(serde_json::to_vec(body).unwrap()).unwrap();
    plane.client().request::<Value>(request).await.unwrap();
}

async fn delete_pod(plane: &ControlPlane, name: &str) {
    let path = format!("/api/v1/namespaces/default/pods/{name}");
    let request = http::Request::delete(path).body(Vec::new()).unwrap();
    plane.client().request::<Value>(request).await.unwrap();
}

// Shows: S000-58
// Shows: S000-80
// Shows: S000-82
// Shows: S000-83
// Shows: S000-85
// Shows: S000-86
// Shows: S004-33
// Shows: U-gap-gates
#[test]
fn objects_are_created_only_while_the_gate_is_on_and_never_for_jobs_with_pods() {
    on_paused_clock(async {
        let origin = "2026-01-01T00:00:00Z".parse().unwrap();
        let environment = testkit::virtual_time::environment(9, origin, store::HistoryLimits::default());
        let long = |name: &str| job(name).pods(2).gang().annotate("phalanx.dev/run-seconds", "100000");
        let off = Gates::default().with(Gate::WorkloadWithJob, false);
        let groups_of = |plane: &ControlPlane, name: &str| {
            let groups = plane.cache::<PodGroupView>().all();
            groups.iter().filter(|group| group.metadata.name.starts_with(name)).count()
        };
        let running = |plane: &ControlPlane, name: &str| {
            let pods = plane.cache::<PodView>().all();
            pods.iter().filter(|pod| pod.metadata.name.starts_with(name) && pod.node_name().is_some()).count() == 2
        };

        let plane = start(&environment, off).await;
        post_job(&plane, &long("early").build()).await;
        post_job(&plane, &long("held").spec("suspend", true).build()).await;
        wait_until(&plane, "plain pods run", |plane| running(plane, "early")).await;
        assert!(plane.cache::<WorkloadView>().all().is_empty() && plane.cache::<PodGroupView>().all().is_empty());
        plane.stop().await;

        let plane = start(&environment, Gates::default()).await;
        post_job(&plane, &long("fresh").build()).await;
        post_job(&plane, &long("stored").spec("suspend", true).build()).await;
        wait_until(&plane, "the new gang runs", |plane| running(plane, "fresh")).await;
        wait_until(&plane, "the suspended Job has its group", |plane| groups_of(plane, "held") == 1).await;
        wait_until(&plane, "so has the other one", |plane| groups_of(plane, "stored") == 1).await;
        assert_eq!(groups_of(&plane, "early"), 0, "its pods exist already");
        plane.stop().await;

        let plane = start(&environment, off).await;
        post_job(&plane, &long("late").build()).await;
        send(&plane, "PATCH", "/stored", &json!({"spec": {"suspend": false}})).await;
        wait_until(&plane, "plain pods run again", |plane| running(plane, "late") && running(plane, "stored")).await;
        let pods = plane.cache::<PodView>().all();
        let grouped = pods.iter().filter(|pod| pod.group_name().is_some());
        assert!(grouped.map(|pod| pod.metadata.name.as_str()).all(|name| name.starts_with("fresh")));
        assert_eq!((groups_of(&plane, "late"), groups_of(&plane, "fresh")), (0, 1), "existing groups stay");
        assert!(running(&plane, "fresh"), "members of a gang keep running");
        let member = pods.iter().find(|pod| pod.group_name().is_some()).unwrap().metadata.name.clone();
        delete_pod(&plane, &member).await;
        wait_until(&plane, "a pod without a group replaces it", |plane| {
            let pods = plane.cache::<PodView>().all();
            let fresh = pods.iter().filter(|pod| pod.metadata.name.starts_with("fresh") && pod.node_name().is_some());
            fresh.filter(|pod| pod.group_name().is_none()).count() == 1 && running(plane, "fresh")
        })
        .await;
        plane.stop().await;
    });
}

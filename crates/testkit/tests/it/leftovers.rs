//! TTL of Jobs and pod garbage collection: pods without a node, terminated pods.

use api::views::PodView;
use std::collections::BTreeSet;
use std::time::Duration;

use api::Timestamp;
use controlplane::Config;
use nodes::cluster::Cluster;
use serde_json::{Value, json};
use testkit::fault::{EventFault, FaultRule, events_of};
use testkit::{RecordedWrite, TestCluster, job, on_paused_clock, pod};

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
const JOB: &str = "/apis/batch/v1/namespaces/default/jobs/j";

/// The existing Jobs, pods, Workloads and PodGroups.
fn existing_objects(cluster: &TestCluster) -> BTreeSet<String> {
    let kinds = ["batch/jobs", "pods", "scheduling.k8s.io/workloads", "scheduling.k8s.io/podgroups"];
    let mut objects = BTreeSet::new();
    for change in cluster.history().iter().filter(|change| kinds.contains(&change.resource.as_str())) {
        let id = format!("{} {}", change.resource, change.name());
        if change.deleted {
            objects.remove(&id)
        } else {
            objects.insert(id)
        };
    }
    objects
}

async fn read(cluster: &TestCluster, path: &str) -> Value {
    cluster.request("GET", path, &Value::Null).await.unwrap()
}

fn ended_at(job: &Value) -> Option<Timestamp> {
    let conditions = job["status"]["conditions"].as_array()?;
    conditions.iter().find(|one| one["type"] == "Complete")?["lastTransitionTime"].as_str()?.parse().ok()
}

async fn wait_until_ended(cluster: &TestCluster) -> Timestamp {
    cluster
        .eventually("the Job finishes", MINUTE, |cluster| {
            let history = cluster.history();
            let mut jobs = history.iter().filter(|change| change.resource == "batch/jobs");
            jobs.find_map(|change| ended_at(&change.object))
        })
        .await
}

// Shows: S000-64
#[test]
fn a_finished_job_is_deleted_with_its_objects_exactly_at_its_ttl() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(1)).await;
        cluster.create(&job("j").pods(2).gang().spec("ttlSecondsAfterFinished", 100).build()).await;
        let at = wait_until_ended(&cluster).await + SECOND * 100;
        cluster.advance(Duration::try_from(at.duration_since(cluster.now())).unwrap() - SECOND / 10).await;
        assert_eq!(
            read(&cluster, JOB).await["metadata"]["deletionTimestamp"],
            Value::Null,
            "it is not deleted before its TTL"
        );
        cluster.advance(SECOND * 5).await;
        assert_eq!(existing_objects(&cluster), BTreeSet::new());
        let history = cluster.history();
        let is_deleted = |change: &&RecordedWrite| change.object["metadata"]["deletionTimestamp"].is_string();
        let marked = history.iter().filter(|change| change.resource == "batch/jobs").find(is_deleted).unwrap();
        assert_eq!(marked.object["metadata"]["deletionTimestamp"], api::clock::rfc3339(at));
        assert_eq!(
            marked.object["metadata"]["finalizers"],
            json!(["foregroundDeletion"]),
            "its pods are deleted first"
        );
    });
}

#[test]
fn a_job_whose_ttl_is_raised_at_the_last_moment_is_kept() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(1)).await;
        cluster.create(&job("j").spec("ttlSecondsAfterFinished", 10).build()).await;
        let at = wait_until_ended(&cluster).await + SECOND * 10;
        cluster.advance(Duration::try_from(at.duration_since(cluster.now())).unwrap() - SECOND / 100).await;
        // The controller sees the change long after the first TTL.
        cluster.inject_fault(FaultRule::on_events(events_of("batch/jobs"), EventFault::Delay(MINUTE)).nth(1));
        cluster.request("PATCH", JOB, &json!({"spec": {"ttlSecondsAfterFinished": 600}})).await.unwrap();
        cluster.advance(SECOND * 500).await;
        assert_eq!(read(&cluster, JOB).await["metadata"]["deletionTimestamp"], Value::Null);
        cluster.advance(SECOND * 100).await;
        assert_eq!(existing_objects(&cluster), BTreeSet::new());
    });
}

#[test]
fn pods_of_a_deleted_node_fail_after_a_quarantine_and_are_replaced() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(2)).await;
        cluster.create(&job("j").pods(2).gpus(8).annotate("phalanx.dev/run-seconds", "300").build()).await;
        let lost = cluster
            .eventually("both run", MINUTE, |cluster| {
                let pods = cluster.cache::<PodView>().all();
                let bound = pods.iter().filter(|pod| pod.node_name().is_some() && pod.status.start_time.is_some());
                (bound.count() == 2).then(|| pods[0].clone())
            })
            .await;
        let node = lost.node_name().unwrap();
        cluster.request("DELETE", &format!("/api/v1/nodes/{node}"), &json!({})).await.unwrap();
        cluster.advance(SECOND * 39).await;
        let pod = format!("/api/v1/namespaces/default/pods/{}", lost.metadata.name);
        assert_eq!(read(&cluster, &pod).await["status"]["phase"], "Running", "the node may be recreated");
        cluster.advance(SECOND * 3).await;
        assert!(cluster.request("GET", &pod, &Value::Null).await.is_err(), "it is deleted");
        let history = cluster.history();
        let last = history.iter().rev().find(|change| change.name() == lost.metadata.name && !change.deleted).unwrap();
        assert_eq!(last.object["status"]["phase"], "Failed");
        let conditions = last.object["status"]["conditions"].as_array().unwrap();
        let condition = conditions.iter().find(|one| one["type"] == "DisruptionTarget").unwrap();
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("True"), &json!("DeletionByPodGC")));
        let observed = (&condition["observedGeneration"], &last.object["status"]["observedGeneration"]);
        assert_eq!(observed, (&json!(1), &json!(1)), "both have the observed generation");
        cluster
            .eventually("its replacement exists", MINUTE, |cluster| {
                let pods = cluster.cache::<PodView>().all();
                (pods.len() == 2 && pods.iter().all(|pod| pod.metadata.uid != lost.metadata.uid)).then_some(())
            })
            .await;
    });
}

#[test]
fn a_node_recreated_within_the_quarantine_keeps_its_pods() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(1)).await;
        cluster.create(&pod("p").annotate("phalanx.dev/run-seconds", "1000").build()).await;
        let bound = |cluster: &TestCluster| cluster.cache::<PodView>().all().pop()?.node_name().map(str::to_owned);
        let node = cluster.eventually("bound", MINUTE, bound).await;
        let path = format!("/api/v1/nodes/{node}");
        let mut document = read(&cluster, &path).await;
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            document["metadata"].as_object_mut().unwrap().remove(field);
        }
        // The node is missing twice: the second quarantine starts from zero.
        for seconds in [30, 30] {
            cluster.request("DELETE", &path, &json!({})).await.unwrap();
            cluster.advance(SECOND * seconds).await;
            cluster.request("POST", "/api/v1/nodes", &document).await.unwrap();
            cluster.advance(SECOND).await;
        }
        cluster.advance(MINUTE).await;
        let pod = read(&cluster, "/api/v1/namespaces/default/pods/p").await;
        assert_eq!(pod["metadata"]["deletionTimestamp"], Value::Null);
    });
}

#[test]
fn a_deleted_unbound_pod_fails_despite_a_finalizer() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(3, Cluster::default_of(1)).await;
        let mut held = pod("p").gpus(64).build();
        held["metadata"]["finalizers"] = json!(["example.com/held"]);
        cluster.create(&held).await;
        let path = "/api/v1/namespaces/default/pods/p";
        cluster.request("DELETE", path, &json!({})).await.unwrap();
        cluster.advance(SECOND).await;
        assert_eq!(read(&cluster, path).await["status"]["phase"], "Failed");
        let writes = cluster.history().len();
        cluster.advance(MINUTE * 5).await;
        assert_eq!(cluster.history().len(), writes, "it is not written again");
    });
}

#[test]
fn pod_gc_periods_are_configurable() {
    on_paused_clock(async {
        let mut config = Config::for_cluster(Cluster::default_of(1));
        config.pod_gc = controllers::podgc::Config {
            terminated_pod_threshold: 1,
            gc_period: SECOND,
            quarantine: SECOND * 3,
            ..config.pod_gc
        };
        let cluster = TestCluster::with_config(3, config).await;
        let mut lost = pod("lost").build();
        lost["spec"]["nodeName"] = json!("nowhere");
        cluster.create(&lost).await;
        for name in ["a", "b"] {
            cluster.create(&pod(name).annotate("phalanx.dev/run-seconds", "1").build()).await;
        }
        let path = "/api/v1/namespaces/default/pods/lost";
        cluster.advance(SECOND * 2).await;
        assert_eq!(read(&cluster, path).await["metadata"]["deletionTimestamp"], Value::Null, "still in quarantine");
        cluster.advance(SECOND * 3).await;
        assert!(cluster.request("GET", path, &Value::Null).await.is_err(), "it is deleted");
        assert_eq!(existing_objects(&cluster).len(), 1, "one of the two terminated pods remains");
    });
}

#[test]
fn pod_gc_deletes_the_oldest_terminated_pods_above_the_threshold() {
    on_paused_clock(async {
        let mut config = Config::for_cluster(Cluster::default_of(1));
        config.pod_gc.terminated_pod_threshold = 2;
        let cluster = TestCluster::with_config(3, config).await;
        for name in ["a", "b", "c", "d"] {
            cluster.create(&pod(name).annotate("phalanx.dev/run-seconds", "1").build()).await;
            cluster.advance(SECOND * 2).await;
        }
        cluster.advance(SECOND * 30).await;
        assert_eq!(existing_objects(&cluster), BTreeSet::from(["pods c".to_owned(), "pods d".to_owned()]));
    });
}

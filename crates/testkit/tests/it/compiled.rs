//! A running control plane creates the objects that the library compiles, and updates them with the Job.

use api::views::{JobView, PodGroupView, PodView, WorkloadView};
use std::time::Duration;

use controllers::job::scheduling::compile_objects;
use nodes::cluster::Cluster;
use serde_json::{Value, json};
use testkit::{TestCluster, job, on_paused_clock};

const MINUTE: Duration = Duration::from_secs(60);
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const SCHEDULING: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default";

/// The object without what the server sets.
fn as_sent(mut object: Value, sent: &Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "finalizers"] {
        metadata.remove(field);
    }
    object.as_object_mut().unwrap().remove("status");
    // Defaults and admission fill in fields that a group does not set.
    let spec = object["spec"].as_object_mut().unwrap();
    for field in ["disruptionMode", "preemptionPolicy", "priority"] {
        if sent["spec"].get(field).is_none() {
            spec.remove(field);
        }
    }
    // A template has null for missing constraints.
    for template in object.pointer_mut("/spec/podGroupTemplates").and_then(Value::as_array_mut).into_iter().flatten() {
        template.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    }
    object
}

// Shows: S003-32
// Shows: S004-04
// Shows: S004-46
// Shows: S004-51
// Shows: S004-64
#[test]
fn the_jobs_of_the_proposal_get_the_objects_that_compile_prints() {
    let gang = include_str!("../../../../examples/seeds/004-job-gang.yaml");
    let plain = include_str!("../../../../examples/seeds/004-job-plain.yaml");
    let dotted = job("train.v1").pods(3).gang().build();
    let manifests = [serde_saphyr::from_str(gang).unwrap(), serde_saphyr::from_str(plain).unwrap(), dotted];
    on_paused_clock(async move {
        for manifest in &manifests {
            let cluster = TestCluster::embedded(5, Cluster::default_of(1)).await;
            cluster.request("POST", JOBS, manifest).await.unwrap();
            let (job, workload, group) = cluster
                .eventually("the objects exist", MINUTE, |cluster| {
                    let caches = cluster.caches();
                    Some((
                        caches.get::<JobView>().all().pop()?,
                        caches.get::<WorkloadView>().all().pop()?,
                        caches.get::<PodGroupView>().all().pop()?,
                    ))
                })
                .await;
            let (want_workload, want_group) = compile_objects(&job, &workload.metadata.uid).unwrap().unwrap();
            for (resource, name, want) in [
                ("workloads", &workload.metadata.name, serde_json::to_value(want_workload).unwrap()),
                ("podgroups", &group.metadata.name, serde_json::to_value(want_group).unwrap()),
            ] {
                let path = format!("{SCHEDULING}/{resource}/{name}");
                let stored = cluster.request("GET", &path, &Value::Null).await.unwrap();
                assert_eq!(as_sent(stored, &want), want);
            }
        }
    });
}

// Shows: S000-73
// Shows: S000-75
// Shows: S003-09
// Shows: S004-65
#[test]
fn a_resized_gang_keeps_its_objects() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(5, Cluster::default_of(1)).await;
        let train = job("train").pods(4).indexed().gang().annotate("phalanx.dev/run-seconds", "600").build();
        cluster.create(&train).await;
        let counts = |cluster: &TestCluster| {
            let (workload, group) =
                (cluster.cache::<WorkloadView>().all().pop()?, cluster.cache::<PodGroupView>().all().pop()?);
            let templates = workload.spec.pod_group_templates.as_ref()?;
            let min_count = templates[0].scheduling_policy.gang.as_ref()?.min_count;
            let running = cluster.cache::<PodView>().all().iter().filter(|pod| pod.node_name().is_some()).count();
            Some((
                (min_count, group.min_count()?, running),
                (workload.metadata.uid.clone(), group.metadata.uid.clone()),
            ))
        };
        let settled = async |want: (i32, i32, usize)| {
            let what = format!("template, group and pods are {want:?}");
            cluster.eventually(&what, MINUTE, |cluster| counts(cluster).filter(|(now, _)| *now == want)).await.1
        };
        let objects = settled((4, 4, 4)).await;
        // More pods, an explicit minCount, and fewer pods: each changes only the Job.
        for (spec, want) in [
            (json!({"parallelism": 8, "completions": 8}), (8, 8, 8)),
            (json!({"scheduling": {"schedulingPolicy": {"gang": {"minCount": 6}}}}), (6, 6, 8)),
            (
                json!({
                    "parallelism": 2, "completions": 2,
                    "scheduling": {"schedulingPolicy": {"gang": {"minCount": null}}},
                }),
                (2, 2, 2),
            ),
        ] {
            cluster.request("PATCH", &format!("{JOBS}/train"), &json!({ "spec": spec })).await.unwrap();
            assert_eq!(settled(want).await, objects, "the same Workload and PodGroup");
        }
    });
}

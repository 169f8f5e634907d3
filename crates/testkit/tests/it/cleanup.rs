//! Deletion: namespaces with all their objects, and groups that are no longer used.

use std::time::Duration;

use api::views::{Condition, JobView, NamespaceView, ObjectKey, PodGroupView, PodView};
use controlplane::Component;
use nodes::cluster::Cluster;
use serde_json::{Value, json};
use testkit::{TestCluster, job, on_paused_clock, pod};

const MINUTE: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "/api/v1/namespaces/lab";
const GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";

/// Creates a namespace with a running gang, a gang that does not fit, a pod that does not fit and an unused PodGroup.
async fn populate_namespace(cluster: &TestCluster) {
    cluster.request("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "lab"}})).await.unwrap();
    let mut manifests = vec![
        job("runs").pods(2).indexed().gang().gpus(8).annotate("phalanx.dev/run-seconds", "100000").build(),
        job("waits").pods(8).gang().gpus(8).build(),
        pod("alone").gpus(64).build(),
        json!({
            "kind": "PodGroup", "metadata": {"name": "free"}, "spec": {"schedulingPolicy": {"basic": {}}},
        }),
    ];
    for manifest in &mut manifests {
        manifest["metadata"]["namespace"] = json!("lab");
        let collection = match manifest["kind"].as_str() {
            Some("Job") => "/apis/batch/v1/namespaces/lab/jobs",
            Some("Pod") => "/api/v1/namespaces/lab/pods",
            _ => "/apis/scheduling.k8s.io/v1beta1/namespaces/lab/podgroups",
        };
        cluster.request("POST", collection, manifest).await.unwrap();
    }
    cluster
        .eventually("the gang runs", MINUTE, |cluster| {
            let pods = cluster.cache::<PodView>().all();
            (pods.iter().filter(|pod| pod.metadata.name.starts_with("runs-") && pod.node_name().is_some()).count() == 2)
                .then_some(())
        })
        .await;
}

fn lab(cluster: &TestCluster) -> Option<std::sync::Arc<NamespaceView>> {
    cluster.cache::<NamespaceView>().get(&ObjectKey::new("", "lab"))
}

/// All objects in the namespace, from the history.
fn objects_in_namespace(cluster: &TestCluster) -> Vec<String> {
    let mut objects = std::collections::BTreeSet::new();
    for change in cluster.history().iter().filter(|change| change.object["metadata"]["namespace"] == "lab") {
        let id = format!("{} {}", change.resource, change.name());
        if change.deleted {
            objects.remove(&id)
        } else {
            objects.insert(id)
        };
    }
    objects.into_iter().collect()
}

#[test]
fn a_deleted_namespace_is_removed_with_all_its_objects() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(5, Cluster::default_of(4)).await;
        populate_namespace(&cluster).await;
        cluster.request("DELETE", NAMESPACE, &json!({})).await.unwrap();
        cluster.eventually("it is removed", 3 * MINUTE, |cluster| lab(cluster).is_none().then_some(())).await;
        assert_eq!(objects_in_namespace(&cluster), Vec::<String>::new());
        assert!(cluster.request("GET", NAMESPACE, &Value::Null).await.is_err());
        cluster.request("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "lab"}})).await.unwrap();
        cluster.create(&job("next").build()).await;
    });
}

#[test]
fn a_namespace_waits_for_finalizers_and_reports_them() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(5, Cluster::default_of(1)).await;
        cluster.request("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "lab"}})).await.unwrap();
        let mut held = pod("held").build();
        held["metadata"]["namespace"] = json!("lab");
        held["metadata"]["finalizers"] = json!(["example.com/x"]);
        cluster.request("POST", "/api/v1/namespaces/lab/pods", &held).await.unwrap();
        cluster.request("DELETE", NAMESPACE, &json!({})).await.unwrap();
        let namespace = cluster
            .eventually("the condition is written", MINUTE, |cluster| {
                lab(cluster).filter(|lab| Condition::is_true(&lab.status.conditions, "NamespaceFinalizersRemaining"))
            })
            .await;
        let condition = |kind: &str| {
            let found = namespace.status.conditions.iter().find(|one| one.kind == kind).unwrap();
            (found.reason.clone(), found.message.clone())
        };
        let want = "Some content in the namespace has finalizers remaining: example.com/x in 1 resource instances";
        assert_eq!(condition("NamespaceFinalizersRemaining"), ("SomeFinalizersRemain".to_owned(), want.to_owned()));
        assert_eq!(
            condition("NamespaceContentRemaining").1,
            "Some resources are remaining: pods. has 1 resource instances"
        );
        assert_eq!(condition("NamespaceDeletionDiscoveryFailure").0, "ResourcesDiscovered");
        tokio::time::sleep(10 * MINUTE).await;
        assert!(lab(&cluster).is_some(), "it waits without a time limit");
        let release = json!({"metadata": {"finalizers": null}});
        cluster.request("PATCH", "/api/v1/namespaces/lab/pods/held", &release).await.unwrap();
        cluster.eventually("it is removed", MINUTE, |cluster| lab(cluster).is_none().then_some(())).await;
    });
}

#[test]
fn repeatedly_restarted_controllers_still_empty_a_namespace() {
    for seed in 0..4 {
        on_paused_clock(async {
            let mut cluster = TestCluster::embedded(seed, Cluster::default_of(4)).await;
            populate_namespace(&cluster).await;
            cluster.request("DELETE", NAMESPACE, &json!({})).await.unwrap();
            for turn in 0..600 {
                tokio::time::sleep(Duration::from_millis(37 * (1 + (seed + turn) % 29))).await;
                if lab(&cluster).is_none() {
                    assert_eq!(objects_in_namespace(&cluster), Vec::<String>::new());
                    return;
                }
                cluster.restart_component(Component::Controllers);
            }
            panic!("seed {seed}: objects remain: {:?}", objects_in_namespace(&cluster));
        });
    }
}

#[test]
fn a_deleted_group_stays_until_its_pods_have_finished() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(5, Cluster::default_of(1)).await;
        let group = json!({
            "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
        });
        cluster.create(&group).await;
        for (name, seconds) in [("short", "30"), ("long", "90")] {
            cluster.create(&pod(name).group("g").annotate("phalanx.dev/run-seconds", seconds).build()).await;
        }
        let bound = |cluster: &TestCluster| {
            cluster.cache::<PodView>().all().iter().all(|pod| pod.node_name().is_some()).then_some(())
        };
        cluster.eventually("bound", MINUTE, bound).await;
        cluster.request("DELETE", &format!("{GROUPS}/g"), &json!({})).await.unwrap();
        tokio::time::sleep(MINUTE).await;
        let key = ObjectKey::new("default", "g");
        assert!(cluster.cache::<PodGroupView>().get(&key).is_some_and(|group| group.metadata.is_deleting()));
        cluster
            .eventually("it is removed", MINUTE, |cluster| {
                cluster.cache::<PodGroupView>().get(&key).is_none().then_some(())
            })
            .await;
        let history = cluster.history();
        let revision = |found: &dyn Fn(&testkit::RecordedWrite) -> bool| {
            history.iter().find(|change| found(change)).unwrap().revision
        };
        let ended = revision(&|change| change.name() == "long" && change.object["status"]["phase"] == "Succeeded");
        let deleted = revision(&|change| change.name() == "g" && change.deleted);
        assert!(ended < deleted);
    });
}

// Observed: a pod that named the group without being a member waited without end, and blocked the deletion of the group
// and its Job. On the real control plane kube-controller-manager removes the finalizer, and any pod blocks it.
#[test]
fn a_foreign_pod_blocks_neither_the_deletion_of_a_group_nor_of_its_job() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(5, Cluster::default_of(1)).await;
        cluster.create(&job("train").pods(2).gang().annotate("phalanx.dev/run-seconds", "100000").build()).await;
        let group = cluster.eventually("a group", MINUTE, |cluster| cluster.cache::<PodGroupView>().all().pop()).await;
        cluster.create(&pod("foreign").group(&group.metadata.name).build()).await;
        cluster
            .eventually("the gang runs", MINUTE, |cluster| {
                let pods = cluster.cache::<PodView>().all();
                (pods.iter().filter(|pod| pod.node_name().is_some()).count() == 2).then_some(())
            })
            .await;
        let path = "/apis/batch/v1/namespaces/default/jobs/train";
        cluster.request("DELETE", path, &json!({"propagationPolicy": "Foreground"})).await.unwrap();
        cluster
            .eventually("Job and group are deleted", MINUTE, |cluster| {
                (cluster.cache::<JobView>().all().is_empty() && cluster.cache::<PodGroupView>().all().is_empty())
                    .then_some(())
            })
            .await;
        let left = cluster.cache::<PodView>().all();
        assert_eq!(left.iter().map(|pod| pod.metadata.name.as_str()).collect::<Vec<_>>(), ["foreign"]);
        assert_eq!(left[0].node_name(), None, "it waits for another group of that name");
    });
}

#[test]
fn an_unused_group_is_deleted_at_once() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(5, Cluster::default_of(1)).await;
        let group = json!({"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}}});
        cluster.create(&group).await;
        cluster.request("DELETE", &format!("{GROUPS}/g"), &json!({})).await.unwrap();
        let is_deleted = |cluster: &TestCluster| cluster.cache::<PodGroupView>().all().is_empty().then_some(());
        cluster.eventually("it is removed", Duration::from_secs(5), is_deleted).await;
    });
}

//! Things that go: namespaces with all that is in them, and groups once nobody needs them.

use std::time::Duration;

use api::views::{Condition, NamespaceView, ObjectKey};
use controlplane::Component;
use nodes::cluster::Cluster;
use serde_json::{Value, json};
use testkit::{TestCluster, job, on_paused_clock, pod};

const MINUTE: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "/api/v1/namespaces/lab";
const GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";

/// A namespace with a gang that runs for ever, a gang that does not fit, a pod nobody places and a free PodGroup.
async fn populate_namespace(home: &TestCluster) {
    home.request("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "lab"}})).await.unwrap();
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
        home.request("POST", collection, manifest).await.unwrap();
    }
    home.eventually("the gang runs", MINUTE, |home| {
        let pods = home.caches().pods.all();
        (pods.iter().filter(|pod| pod.metadata.name.starts_with("runs-") && pod.node_name().is_some()).count() == 2)
            .then_some(())
    })
    .await;
}

fn lab(home: &TestCluster) -> Option<std::sync::Arc<NamespaceView>> {
    home.caches().namespaces.get(&ObjectKey::new("", "lab"))
}

/// Everything that lives in the namespace, as the history has it.
fn objects_in_namespace(home: &TestCluster) -> Vec<String> {
    let mut there = std::collections::BTreeSet::new();
    for change in home.history().iter().filter(|change| change.object["metadata"]["namespace"] == "lab") {
        let id = format!("{} {}", change.resource, change.name());
        if change.deleted {
            there.remove(&id)
        } else {
            there.insert(id)
        };
    }
    there.into_iter().collect()
}

#[test]
fn a_deleted_namespace_is_removed_with_all_its_objects() {
    on_paused_clock(async {
        let home = TestCluster::embedded(5, Cluster::default_of(4)).await;
        populate_namespace(&home).await;
        home.request("DELETE", NAMESPACE, &json!({})).await.unwrap();
        home.eventually("gone", 3 * MINUTE, |home| lab(home).is_none().then_some(())).await;
        assert_eq!(objects_in_namespace(&home), Vec::<String>::new());
        assert!(home.request("GET", NAMESPACE, &Value::Null).await.is_err());
        home.request("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "lab"}})).await.unwrap();
        home.create(&job("next").build()).await;
    });
}

#[test]
fn a_namespace_waits_for_finalizers_and_reports_them() {
    on_paused_clock(async {
        let home = TestCluster::embedded(5, Cluster::default_of(1)).await;
        home.request("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "lab"}})).await.unwrap();
        let mut held = pod("held").build();
        held["metadata"]["namespace"] = json!("lab");
        held["metadata"]["finalizers"] = json!(["example.com/x"]);
        home.request("POST", "/api/v1/namespaces/lab/pods", &held).await.unwrap();
        home.request("DELETE", NAMESPACE, &json!({})).await.unwrap();
        let namespace = home
            .eventually("told", MINUTE, |home| {
                lab(home).filter(|lab| Condition::is_true(&lab.status.conditions, "NamespaceFinalizersRemaining"))
            })
            .await;
        let said = |kind: &str| {
            let found = namespace.status.conditions.iter().find(|condition| condition.kind == kind).unwrap();
            (found.reason.clone(), found.message.clone())
        };
        let want = "Some content in the namespace has finalizers remaining: example.com/x in 1 resource instances";
        assert_eq!(said("NamespaceFinalizersRemaining"), ("SomeFinalizersRemain".to_owned(), want.to_owned()));
        assert_eq!(said("NamespaceContentRemaining").1, "Some resources are remaining: pods. has 1 resource instances");
        assert_eq!(said("NamespaceDeletionDiscoveryFailure").0, "ResourcesDiscovered");
        tokio::time::sleep(10 * MINUTE).await;
        assert!(lab(&home).is_some(), "it waits as long as it takes");
        let release = json!({"metadata": {"finalizers": null}});
        home.request("PATCH", "/api/v1/namespaces/lab/pods/held", &release).await.unwrap();
        home.eventually("gone", MINUTE, |home| lab(home).is_none().then_some(())).await;
    });
}

#[test]
fn repeatedly_restarted_controllers_still_empty_a_namespace() {
    for seed in 0..4 {
        on_paused_clock(async {
            let mut home = TestCluster::embedded(seed, Cluster::default_of(4)).await;
            populate_namespace(&home).await;
            home.request("DELETE", NAMESPACE, &json!({})).await.unwrap();
            for turn in 0..600 {
                tokio::time::sleep(Duration::from_millis(37 * (1 + (seed + turn) % 29))).await;
                if lab(&home).is_none() {
                    assert_eq!(objects_in_namespace(&home), Vec::<String>::new());
                    return;
                }
                home.restart_component(Component::Controllers);
            }
            panic!("seed {seed}: still there: {:?}", objects_in_namespace(&home));
        });
    }
}

#[test]
fn a_deleted_group_stays_until_its_pods_have_finished() {
    on_paused_clock(async {
        let home = TestCluster::embedded(5, Cluster::default_of(1)).await;
        let group = json!({
            "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
        });
        home.create(&group).await;
        for (name, seconds) in [("short", "30"), ("long", "90")] {
            home.create(&pod(name).group("g").annotate("phalanx.dev/run-seconds", seconds).build()).await;
        }
        let bound =
            |home: &TestCluster| home.caches().pods.all().iter().all(|pod| pod.node_name().is_some()).then_some(());
        home.eventually("bound", MINUTE, bound).await;
        home.request("DELETE", &format!("{GROUPS}/g"), &json!({})).await.unwrap();
        tokio::time::sleep(MINUTE).await;
        let key = ObjectKey::new("default", "g");
        assert!(home.caches().pod_groups.get(&key).is_some_and(|group| group.metadata.is_deleting()));
        home.eventually("gone", MINUTE, |home| home.caches().pod_groups.get(&key).is_none().then_some(())).await;
        let history = home.history();
        let revision = |found: &dyn Fn(&testkit::RecordedWrite) -> bool| {
            history.iter().find(|change| found(change)).unwrap().revision
        };
        let ended = revision(&|change| change.name() == "long" && change.object["status"]["phase"] == "Succeeded");
        let went = revision(&|change| change.name() == "g" && change.deleted);
        assert!(ended < went);
    });
}

// A pod that named the group and was no member waited for ever, and kept the group and the Job whose it was. On the real
// home the finalizer is taken off by kube-controller-manager, which any pod keeps from it.
#[test]
fn a_foreign_pod_blocks_neither_the_deletion_of_a_group_nor_of_its_job() {
    on_paused_clock(async {
        let home = TestCluster::embedded(5, Cluster::default_of(1)).await;
        home.create(&job("train").pods(2).gang().annotate("phalanx.dev/run-seconds", "100000").build()).await;
        let group = home.eventually("a group", MINUTE, |home| home.caches().pod_groups.all().pop()).await;
        home.create(&pod("foreign").group(&group.metadata.name).build()).await;
        home.eventually("the gang runs", MINUTE, |home| {
            let pods = home.caches().pods.all();
            (pods.iter().filter(|pod| pod.node_name().is_some()).count() == 2).then_some(())
        })
        .await;
        let path = "/apis/batch/v1/namespaces/default/jobs/train";
        home.request("DELETE", path, &json!({"propagationPolicy": "Foreground"})).await.unwrap();
        home.eventually("Job and group go", MINUTE, |home| {
            (home.caches().jobs.all().is_empty() && home.caches().pod_groups.all().is_empty()).then_some(())
        })
        .await;
        let left = home.caches().pods.all();
        assert_eq!(left.iter().map(|pod| pod.metadata.name.as_str()).collect::<Vec<_>>(), ["foreign"]);
        assert_eq!(left[0].node_name(), None, "it waits for another group of that name");
    });
}

#[test]
fn an_unused_group_is_deleted_at_once() {
    on_paused_clock(async {
        let home = TestCluster::embedded(5, Cluster::default_of(1)).await;
        let group = json!({"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}}});
        home.create(&group).await;
        home.request("DELETE", &format!("{GROUPS}/g"), &json!({})).await.unwrap();
        let gone = |home: &TestCluster| home.caches().pod_groups.all().is_empty().then_some(());
        home.eventually("gone", Duration::from_secs(5), gone).await;
    });
}

//! CompositePodGroups, created from a tree by the library, as a controller with two levels would create them.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use nodes::cluster::Cluster;
use serde_json::{Value, json};
use testkit::{TestCluster, job, on_paused_clock, on_test_cluster, pod};
use workloadbuilder::field::Path;
use workloadbuilder::groups::workload_owner;
use workloadbuilder::target::SchedulingVersion;
use workloadbuilder::{BuildOptions, Builder, BuiltGroup, SchedulingConfig, SchedulingPolicy, WorkloadItem, names};

const BETA: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default";
const ALPHA: &str = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default";

fn item(name: &str, min_count: i32, children: Vec<WorkloadItem>) -> WorkloadItem {
    let policy = Some(SchedulingPolicy::Gang { min_count: Some(min_count) });
    WorkloadItem {
        default_config: SchedulingConfig { policy, ..SchedulingConfig::default() },
        children,
        ..WorkloadItem::new(name, Path::new("spec").child(name))
    }
}

/// Creates a Workload and its groups in the order that the library gives. The owner is a suspended Job.
async fn create_tree(cluster: &TestCluster) -> Vec<BuiltGroup> {
    let mut idle = job("owner").pods(1).spec("suspend", true).build();
    idle["spec"]["template"]["spec"]["schedulingGroup"] = json!({"podGroupName": "another"});
    let owner = cluster.create(&idle).await;
    let owner = OwnerReference {
        api_version: "batch/v1".to_owned(),
        kind: "Job".to_owned(),
        name: "owner".to_owned(),
        uid: owner["metadata"]["uid"].as_str().unwrap().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let stage = item("stage", 1, vec![item("workers", 4, vec![])]);
    let root = item("set", 2, vec![item("driver", 1, vec![]), stage]);
    let options = BuildOptions {
        name: names::workload_name(&owner.name, &owner.uid),
        namespace: "default".to_owned(),
        owner: Some(owner),
        ..BuildOptions::default()
    };
    let workload = Builder::new(root, options.clone()).build_workload().unwrap();
    let stored = cluster.create(&serde_json::to_value(workload).unwrap()).await;
    let stored = serde_json::from_value(stored).unwrap();
    let group_owners = vec![workload_owner(&stored, SchedulingVersion::V1beta1)];
    let groups = Builder::from_workload(stored, BuildOptions { group_owners, ..options }).build_groups().unwrap();
    for group in &groups {
        let (path, document) = match group {
            BuiltGroup::Composite(group) => (format!("{ALPHA}/compositepodgroups"), serde_json::to_value(group)),
            BuiltGroup::Pods(group) => (format!("{BETA}/podgroups"), serde_json::to_value(group)),
        };
        if let Some(parent) = group.parent() {
            let path = format!("{ALPHA}/compositepodgroups/{parent}");
            cluster.request("GET", &path, &Value::Null).await.expect("a parent exists before its children");
        }
        cluster.request("POST", &path, &document.unwrap()).await.unwrap();
    }
    groups
}

/// The templates of all groups.
async fn remaining_templates(cluster: &TestCluster) -> Vec<String> {
    let mut templates = Vec::new();
    for path in [format!("{ALPHA}/compositepodgroups"), format!("{BETA}/podgroups")] {
        let list = cluster.request("GET", &path, &Value::Null).await.unwrap();
        let items = list["items"].as_array().unwrap();
        let template = |item: &Value| item["spec"]["workloadRef"]["templateName"].as_str().unwrap().to_owned();
        templates.extend(items.iter().map(template));
    }
    templates.sort();
    templates
}

/// Waits, up to a minute of virtual time, until only groups of these templates remain.
async fn wait_until_remaining(cluster: &TestCluster, want: &[&str]) {
    for _ in 0..300 {
        if remaining_templates(cluster).await == want {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(remaining_templates(cluster).await, want);
}

// Shows: S004-52
#[test]
fn a_tree_of_groups_is_created_parents_first_and_deleted_with_its_owner() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(11, Cluster::default_of(1)).await;
        create_tree(&cluster).await;
        assert_eq!(remaining_templates(&cluster).await, ["driver", "set", "stage", "workers"]);
        let path = "/apis/batch/v1/namespaces/default/jobs/owner";
        cluster.request("DELETE", path, &json!({"propagationPolicy": "Background"})).await.unwrap();
        wait_until_remaining(&cluster, &[]).await;
        let workloads = cluster.request("GET", &format!("{BETA}/workloads"), &Value::Null).await.unwrap();
        assert_eq!(workloads["items"], json!([]));
    });
}

#[test]
fn a_protected_composite_stays_until_its_last_child_is_deleted() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(11, Cluster::default_of(1)).await;
        let groups = create_tree(&cluster).await;
        let path = |template: &str| {
            let group = groups.iter().find(|group| group.template() == template).unwrap();
            match group {
                BuiltGroup::Composite(_) => format!("{ALPHA}/compositepodgroups/{}", group.name()),
                BuiltGroup::Pods(_) => format!("{BETA}/podgroups/{}", group.name()),
            }
        };
        let protected = json!({"metadata": {"finalizers": [api::scheduling::PROTECTION_FINALIZER]}});
        for template in ["set", "stage"] {
            cluster.request("PATCH", &path(template), &protected).await.unwrap();
            cluster.request("DELETE", &path(template), &json!({})).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(
            remaining_templates(&cluster).await,
            ["driver", "set", "stage", "workers"],
            "both have child groups"
        );
        cluster.request("DELETE", &path("workers"), &json!({})).await.unwrap();
        wait_until_remaining(&cluster, &["driver", "set"]).await;
        cluster.request("DELETE", &path("driver"), &json!({})).await.unwrap();
        wait_until_remaining(&cluster, &[]).await;
    });
}

// Shows: S003-02
// Shows: S003-24
#[test]
fn a_child_group_can_be_deleted_and_recreated_without_affecting_the_others() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(11, Cluster::default_of(1)).await;
        let groups = create_tree(&cluster).await;
        let Some(BuiltGroup::Pods(workers)) = groups.iter().find(|group| group.template() == "workers") else {
            panic!("workers are a PodGroup")
        };
        let name = workers.metadata.name.as_deref().unwrap();
        cluster.request("DELETE", &format!("{BETA}/podgroups/{name}"), &json!({})).await.unwrap();
        wait_until_remaining(&cluster, &["driver", "set", "stage"]).await;
        let again = serde_json::to_value(workers).unwrap();
        cluster.request("POST", &format!("{BETA}/podgroups"), &again).await.unwrap();
        assert_eq!(remaining_templates(&cluster).await, ["driver", "set", "stage", "workers"]);
    });
}

/// Creates a gang of two pods below a composite.
async fn child(cluster: &TestCluster, name: &str, parent: &str) {
    let document = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {
            "parentCompositePodGroupName": parent,
            "workloadRef": {"workloadName": parent, "templateName": "child"},
            "schedulingPolicy": {"gang": {"minCount": 2}},
        },
    });
    cluster.create(&document).await;
    for number in 0..2 {
        let member = pod(&format!("{name}-{number}")).group(name).gpus(1);
        cluster.create(&member.annotate("phalanx.dev/run-seconds", "100000").build()).await;
    }
}

/// Creates a CompositePodGroup with this policy, and its Workload.
async fn composite(cluster: &TestCluster, name: &str, policy: &Value) {
    let child = json!({"name": "child", "schedulingPolicy": {"gang": {"minCount": 2}}});
    let template = json!({"name": "root", "schedulingPolicy": policy, "podGroupTemplates": [child]});
    let workload = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"compositePodGroupTemplates": [template]},
    });
    cluster.create(&workload).await;
    let document = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": name, "namespace": cluster.namespace()},
        "spec": {"schedulingPolicy": policy, "workloadRef": {"workloadName": name, "templateName": "root"}},
    });
    let path = format!("/apis/scheduling.k8s.io/v1alpha3/namespaces/{}/compositepodgroups", cluster.namespace());
    cluster.request("POST", &path, &document).await.unwrap();
}

#[test]
fn a_child_of_a_composite_gang_does_not_start_alone() {
    on_test_cluster(async {
        // One child and a half fit.
        let cluster = TestCluster::start(3, 1).await;
        cluster.create(&pod("filler").gpus(5).annotate("phalanx.dev/run-seconds", "100000").build()).await;
        composite(&cluster, "both", &json!({"gang": {"minGroupCount": 2}})).await;
        composite(&cluster, "loose", &json!({"basic": {}})).await;
        child(&cluster, "one", "both").await;
        child(&cluster, "two", "both").await;
        for name in ["one", "two"] {
            let why = cluster
                .eventually(&format!("{name} is reported as waiting"), Duration::from_secs(60), |cluster| {
                    let group = cluster.pod_groups().into_iter().find(|group| group.metadata.name == *name)?;
                    let condition = group.status.conditions.iter().find(|one| one.kind == "PodGroupInitiallyScheduled");
                    condition.filter(|one| one.status == "False").map(|one| one.message.clone())
                })
                .await;
            assert!(why.contains("compositepodgroup") && why.contains("/both requests more than Basic"), "{why}");
        }
        let bound = |cluster: &TestCluster, name: &str| {
            let of_group = cluster.pods().into_iter().filter(|pod| pod.group_name() == Some(name));
            of_group.filter(|pod| pod.node_name().is_some()).count()
        };
        child(&cluster, "three", "loose").await;
        cluster
            .eventually("a child of a Basic composite starts", Duration::from_secs(60), |cluster| {
                (bound(cluster, "three") == 2).then_some(())
            })
            .await;
        assert_eq!((bound(&cluster, "one"), bound(&cluster, "two")), (0, 0));
    });
}

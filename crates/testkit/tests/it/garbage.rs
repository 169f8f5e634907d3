//! The garbage collector, on virtual time only: on the real control plane the one of kube-controller-manager runs
//! instead of ours.

use std::collections::BTreeSet;
use std::time::Duration;

use nodes::cluster::Cluster;
use serde_json::{Value, json};
use testkit::{TestCluster, on_paused_clock};

const MINUTE: Duration = Duration::from_secs(60);
const FINALIZER: &str = "example.com/held";

async fn test_cluster() -> TestCluster {
    TestCluster::embedded(5, Cluster::default_of(1)).await
}

/// Creates a Workload with these owners, and returns a reference to it.
async fn create_workload(cluster: &TestCluster, name: &str, owners: &[Value], finalizers: &[&str]) -> Value {
    let templates = json!([{"name": "t", "schedulingPolicy": {"basic": {}}}]);
    let metadata = json!({"name": name, "ownerReferences": owners, "finalizers": finalizers});
    let manifest = json!({"kind": "Workload", "metadata": metadata, "spec": {"podGroupTemplates": templates}});
    reference(name, &cluster.create(&manifest).await["metadata"]["uid"])
}

fn reference(name: &str, uid: &Value) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "name": name, "uid": uid})
}

fn blocking(reference: &Value) -> Value {
    let mut reference = reference.clone();
    reference["blockOwnerDeletion"] = json!(true);
    reference
}

fn names(cluster: &TestCluster) -> BTreeSet<String> {
    cluster.workloads().iter().map(|workload| workload.metadata.name.clone()).collect()
}

async fn wait_until_remaining(cluster: &TestCluster, want: &[&str]) {
    let want: BTreeSet<String> = want.iter().map(|name| (*name).to_owned()).collect();
    cluster.eventually(&format!("{want:?} remain"), MINUTE, |cluster| (names(cluster) == want).then_some(())).await;
    cluster.advance(MINUTE).await;
    assert_eq!(names(cluster), want, "they are kept");
}

async fn owners(cluster: &TestCluster, name: &str) -> Vec<String> {
    let found = cluster.get(&format!("workloads/{name}")).await;
    let owners = found["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    owners.iter().map(|owner| owner["name"].as_str().unwrap().to_owned()).collect()
}

// Shows: U-TestCascadingDeletion, U-e2e-gc-background
#[test]
fn an_object_is_deleted_with_its_last_owner_and_kept_with_another() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        let gone = create_workload(&cluster, "gone", &[], &[]).await;
        let stays = create_workload(&cluster, "stays", &[], &[]).await;
        create_workload(&cluster, "only", std::slice::from_ref(&gone), &[]).await;
        create_workload(&cluster, "both", &[gone, stays], &[]).await;
        create_workload(&cluster, "free", &[], &[]).await;
        cluster.delete("workloads/gone").await;
        wait_until_remaining(&cluster, &["stays", "both", "free"]).await;
        assert_eq!(owners(&cluster, "both").await, ["stays"], "the reference to the deleted owner is removed");
    });
}

// The collector had its own list of kinds: claims, Leases and budgets of a deleted owner stayed.
#[test]
fn objects_of_every_namespaced_kind_are_deleted_with_their_owner() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        let owner = create_workload(&cluster, "owner", &[], &[]).await;
        let resources = cluster.plane().server().resources().to_vec();
        // As in Kubernetes, Events are not collected.
        let collected = resources.iter().filter(|resource| resource.namespaced && resource.kind != "Event");
        let mut paths = Vec::new();
        for resource in collected {
            let (path, mut object) = testkit::fuzz::sample_object(resource);
            object["metadata"]["name"] = "dependent".into();
            object["metadata"]["ownerReferences"] = json!([owner]);
            // Finalizers of the sample have no controller here.
            object["metadata"]["finalizers"] = json!([]);
            cluster.request("POST", &path, &object).await.unwrap_or_else(|error| panic!("{path}: {error}"));
            paths.push(format!("{path}/dependent"));
        }
        cluster.delete("workloads/owner").await;
        cluster.advance(5 * MINUTE).await;
        for path in paths {
            let result = cluster.request("GET", &path, &Value::Null).await;
            assert!(result.is_err_and(|error| error.to_string().contains("not found")), "{path} is still there");
        }
    });
}

// A reference has no namespace: the owner of a Namespace or Node cannot be a namespaced object.
#[test]
fn an_object_without_namespace_is_kept_whatever_namespaced_owner_it_names() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        let owner = create_workload(&cluster, "owner", &[], &[]).await;
        let missing = reference("missing", &json!("7d0c9b59-2b7c-4a6f-8e61-8b8a7f4c0f10"));
        for (name, owner) in [("team-a", owner), ("team-b", missing)] {
            cluster.create(&json!({"kind": "Namespace", "metadata": {"name": name, "ownerReferences": [owner]}})).await;
        }
        cluster.delete("workloads/owner").await;
        cluster.advance(5 * MINUTE).await;
        for name in ["team-a", "team-b"] {
            let path = format!("/api/v1/namespaces/{name}");
            let namespace = cluster.request("GET", &path, &Value::Null).await.expect("it is kept");
            assert_eq!(namespace["metadata"]["deletionTimestamp"], Value::Null, "{name}");
        }
    });
}

// Objects of a kind whose gate is off stay in the store, and so do the objects that they own.
#[test]
fn an_object_is_kept_while_the_kind_of_its_owner_is_not_served() {
    on_paused_clock(async {
        let cluster = TestCluster::with_gate_off("CompositePodGroup", 5, 1).await;
        let uid = "7d0c9b59-2b7c-4a6f-8e61-8b8a7f4c0f10";
        let owner = json!({"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup", "name": "parent", "uid": uid});
        create_workload(&cluster, "child", &[owner], &[]).await;
        cluster.advance(5 * MINUTE).await;
        assert_eq!(names(&cluster), BTreeSet::from(["child".to_owned()]));
    });
}

// Shows: U-TestCreateWithNonExistentOwner
#[test]
fn an_object_whose_owner_does_not_exist_is_deleted() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        let missing = reference("missing", &json!("7d0c9b59-2b7c-4a6f-8e61-8b8a7f4c0f10"));
        let other = create_workload(&cluster, "other", &[], &[]).await;
        // The name of an existing object with another uid.
        create_workload(
            &cluster,
            "namesake",
            &[reference("other", &json!("7d0c9b59-2b7c-4a6f-8e61-8b8a7f4c0f11"))],
            &[],
        )
        .await;
        create_workload(&cluster, "lost", &[missing], &[]).await;
        // An invalid name that would read another object if it were used in a path without encoding.
        let namespace = cluster.request("GET", "/api/v1/namespaces/default", &json!({})).await.unwrap();
        let uid = &namespace["metadata"]["uid"];
        let elsewhere = json!({"apiVersion": "v1", "kind": "Namespace", "name": "default?pretty=true", "uid": uid});
        create_workload(&cluster, "elsewhere", &[elsewhere], &[]).await;
        create_workload(&cluster, "found", &[other], &[]).await;
        wait_until_remaining(&cluster, &["other", "found"]).await;
    });
}

// Shows: U-TestStressingCascadingDeletion
#[test]
fn deleting_many_owners_leaves_exactly_the_orphaned_dependents() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        for index in 0..30 {
            let owner = create_workload(&cluster, &format!("owner-{index}"), &[], &[]).await;
            for dependent in 0..3 {
                create_workload(&cluster, &format!("dependent-{index}-{dependent}"), &[blocking(&owner)], &[]).await;
            }
        }
        for index in 0..30 {
            let policy = ["Background", "Foreground", "Orphan"][index % 3];
            cluster.delete_with_policy(policy, &format!("workloads/owner-{index}")).await;
        }
        let orphaned: Vec<String> = (0..30)
            .filter(|index| index % 3 == 2)
            .flat_map(|index| (0..3).map(move |dependent| format!("dependent-{index}-{dependent}")))
            .collect();
        wait_until_remaining(&cluster, &orphaned.iter().map(String::as_str).collect::<Vec<_>>()).await;
        for name in &orphaned {
            assert!(owners(&cluster, name).await.is_empty(), "{name}");
        }
    });
}

// Shows: U-TestOrphaning, U-e2e-gc-orphan
#[test]
fn orphaned_dependents_lose_their_owner_references() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        let owner = create_workload(&cluster, "owner", &[], &[]).await;
        for name in ["one", "two"] {
            create_workload(&cluster, name, &[blocking(&owner)], &[]).await;
        }
        cluster.delete_with_policy("Orphan", "workloads/owner").await;
        wait_until_remaining(&cluster, &["one", "two"]).await;
        assert!(owners(&cluster, "one").await.is_empty() && owners(&cluster, "two").await.is_empty());
    });
}

// Shows: U-TestSolidOwnerDoesNotBlockWaitingOwner, U-e2e-gc-two-owners
#[test]
fn foreground_deletion_does_not_wait_for_dependents_with_another_owner() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        let waits = create_workload(&cluster, "waits", &[], &[]).await;
        let solid = create_workload(&cluster, "solid", &[], &[]).await;
        create_workload(&cluster, "shared", &[blocking(&waits), solid], &[]).await;
        cluster.delete_with_policy("Foreground", "workloads/waits").await;
        wait_until_remaining(&cluster, &["solid", "shared"]).await;
        assert_eq!(owners(&cluster, "shared").await, ["solid"]);
    });
}

// Shows: U-TestNonBlockingOwnerRefDoesNotBlock
#[test]
fn a_non_blocking_dependent_does_not_delay_foreground_deletion() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        let owner = create_workload(&cluster, "owner", &[], &[]).await;
        create_workload(&cluster, "slow", &[owner], &[FINALIZER]).await;
        cluster.delete_with_policy("Foreground", "workloads/owner").await;
        wait_until_remaining(&cluster, &["slow"]).await;
        cluster.patch("workloads/slow", &json!({"metadata": {"finalizers": null}})).await;
        wait_until_remaining(&cluster, &[]).await;
    });
}

// Shows: U-TestBlockingOwnerRefDoesBlock, U-e2e-gc-foreground
#[test]
fn foreground_deletion_waits_for_blocking_dependents() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        let owner = create_workload(&cluster, "owner", &[], &[]).await;
        create_workload(&cluster, "quick", &[blocking(&owner)], &[]).await;
        create_workload(&cluster, "slow", &[blocking(&owner)], &[FINALIZER]).await;
        cluster.delete_with_policy("Foreground", "workloads/owner").await;
        wait_until_remaining(&cluster, &["owner", "slow"]).await;
        let finalizers = cluster.get("workloads/owner").await["metadata"]["finalizers"].clone();
        assert_eq!(finalizers, json!(["foregroundDeletion"]));
        cluster.patch("workloads/slow", &json!({"metadata": {"finalizers": null}})).await;
        wait_until_remaining(&cluster, &[]).await;
    });
}

// Shows: U-gc-cross-namespace
#[test]
fn an_owner_reference_into_another_namespace_does_not_count() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        cluster.request("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "far"}})).await.unwrap();
        let owner = create_workload(&cluster, "owner", &[], &[]).await;
        let templates = json!([{"name": "t", "schedulingPolicy": {"basic": {}}}]);
        let path = "/apis/scheduling.k8s.io/v1beta1/namespaces/far/workloads";
        let child = json!({"metadata": {"name": "child", "ownerReferences": [owner]}, "spec": {"podGroupTemplates": templates}});
        cluster.request("POST", path, &child).await.unwrap();
        cluster.advance(MINUTE).await;
        let found = cluster.request("GET", &format!("{path}/child"), &Value::Null).await;
        assert!(found.is_err(), "its owner does not exist in its namespace");
        assert_eq!(names(&cluster), ["owner".to_owned()].into());
    });
}

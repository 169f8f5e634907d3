//! What has lost its owners, on virtual time: on the real home the garbage collector is that of kube-controller-manager,
//! and nothing would be shown about ours.

use std::collections::BTreeSet;
use std::time::Duration;

use nodes::cluster::Cluster;
use serde_json::{Value, json};
use testkit::{Home, on_paused_clock};

const MINUTE: Duration = Duration::from_secs(60);
const HELD: &str = "example.com/held";

async fn home() -> Home {
    Home::embedded(5, Cluster::default_of(1)).await
}

/// Makes a Workload that belongs to these, and returns a reference to it.
async fn object(home: &Home, name: &str, owners: &[Value], finalizers: &[&str]) -> Value {
    let templates = json!([{"name": "t", "schedulingPolicy": {"basic": {}}}]);
    let metadata = json!({"name": name, "ownerReferences": owners, "finalizers": finalizers});
    let manifest = json!({"kind": "Workload", "metadata": metadata, "spec": {"podGroupTemplates": templates}});
    reference(name, &home.create(&manifest).await["metadata"]["uid"])
}

fn reference(name: &str, uid: &Value) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "name": name, "uid": uid})
}

fn blocking(reference: &Value) -> Value {
    let mut reference = reference.clone();
    reference["blockOwnerDeletion"] = json!(true);
    reference
}

fn names(home: &Home) -> BTreeSet<String> {
    home.workloads().iter().map(|workload| workload.metadata.name.clone()).collect()
}

async fn left(home: &Home, want: &[&str]) {
    let want: BTreeSet<String> = want.iter().map(|name| (*name).to_owned()).collect();
    home.eventually(&format!("{want:?} are left"), MINUTE, |home| (names(home) == want).then_some(())).await;
    home.pass(MINUTE).await;
    assert_eq!(names(home), want, "and stay");
}

async fn owners(home: &Home, name: &str) -> Vec<String> {
    let found = home.get(&format!("workloads/{name}")).await;
    let owners = found["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    owners.iter().map(|owner| owner["name"].as_str().unwrap().to_owned()).collect()
}

// Shows: U-TestCascadingDeletion, U-e2e-gc-background
#[test]
fn what_has_lost_its_last_owner_goes_and_what_has_another_stays() {
    on_paused_clock(async {
        let home = home().await;
        let gone = object(&home, "gone", &[], &[]).await;
        let stays = object(&home, "stays", &[], &[]).await;
        object(&home, "only", std::slice::from_ref(&gone), &[]).await;
        object(&home, "both", &[gone, stays], &[]).await;
        object(&home, "free", &[], &[]).await;
        home.delete("workloads/gone").await;
        left(&home, &["stays", "both", "free"]).await;
        assert_eq!(owners(&home, "both").await, ["stays"], "the lost one is struck off");
    });
}

// Shows: U-TestCreateWithNonExistentOwner
#[test]
fn what_is_made_for_an_owner_that_is_not_there_goes() {
    on_paused_clock(async {
        let home = home().await;
        let nobody = reference("nobody", &json!("7d0c9b59-2b7c-4a6f-8e61-8b8a7f4c0f10"));
        let other = object(&home, "other", &[], &[]).await;
        // Of the right name, but another object.
        object(&home, "namesake", &[reference("other", &json!("7d0c9b59-2b7c-4a6f-8e61-8b8a7f4c0f11"))], &[]).await;
        object(&home, "lost", &[nobody], &[]).await;
        // Of a name that nothing can have, and that would lead to another object if it were asked for as it stands.
        let namespace = home.request("GET", "/api/v1/namespaces/default", &json!({})).await.unwrap();
        let uid = &namespace["metadata"]["uid"];
        let elsewhere = json!({"apiVersion": "v1", "kind": "Namespace", "name": "default?pretty=true", "uid": uid});
        object(&home, "elsewhere", &[elsewhere], &[]).await;
        object(&home, "found", &[other], &[]).await;
        left(&home, &["other", "found"]).await;
    });
}

// Shows: U-TestStressingCascadingDeletion
#[test]
fn many_owners_deleted_in_every_way_leave_exactly_what_was_orphaned() {
    on_paused_clock(async {
        let home = home().await;
        for index in 0..30 {
            let owner = object(&home, &format!("owner-{index}"), &[], &[]).await;
            for part in 0..3 {
                object(&home, &format!("part-{index}-{part}"), &[blocking(&owner)], &[]).await;
            }
        }
        for index in 0..30 {
            let policy = ["Background", "Foreground", "Orphan"][index % 3];
            home.delete_by(policy, &format!("workloads/owner-{index}")).await;
        }
        let orphaned: Vec<String> = (0..30)
            .filter(|index| index % 3 == 2)
            .flat_map(|index| (0..3).map(move |part| format!("part-{index}-{part}")))
            .collect();
        left(&home, &orphaned.iter().map(String::as_str).collect::<Vec<_>>()).await;
        for name in &orphaned {
            assert!(owners(&home, name).await.is_empty(), "{name}");
        }
    });
}

// Shows: U-TestOrphaning, U-e2e-gc-orphan
#[test]
fn what_an_orphaning_deletion_leaves_has_no_owner_any_more() {
    on_paused_clock(async {
        let home = home().await;
        let owner = object(&home, "owner", &[], &[]).await;
        for name in ["one", "two"] {
            object(&home, name, &[blocking(&owner)], &[]).await;
        }
        home.delete_by("Orphan", "workloads/owner").await;
        left(&home, &["one", "two"]).await;
        assert!(owners(&home, "one").await.is_empty() && owners(&home, "two").await.is_empty());
    });
}

// Shows: U-TestSolidOwnerDoesNotBlockWaitingOwner, U-e2e-gc-two-owners
#[test]
fn an_owner_that_waits_does_not_wait_for_what_others_own_too() {
    on_paused_clock(async {
        let home = home().await;
        let waits = object(&home, "waits", &[], &[]).await;
        let solid = object(&home, "solid", &[], &[]).await;
        object(&home, "shared", &[blocking(&waits), solid], &[]).await;
        home.delete_by("Foreground", "workloads/waits").await;
        left(&home, &["solid", "shared"]).await;
        assert_eq!(owners(&home, "shared").await, ["solid"]);
    });
}

// Shows: U-TestNonBlockingOwnerRefDoesNotBlock
#[test]
fn a_dependent_that_does_not_block_holds_up_nobody() {
    on_paused_clock(async {
        let home = home().await;
        let owner = object(&home, "owner", &[], &[]).await;
        object(&home, "slow", &[owner], &[HELD]).await;
        home.delete_by("Foreground", "workloads/owner").await;
        left(&home, &["slow"]).await;
        home.patch("workloads/slow", &json!({"metadata": {"finalizers": null}})).await;
        left(&home, &[]).await;
    });
}

// Shows: U-TestBlockingOwnerRefDoesBlock, U-e2e-gc-foreground
#[test]
fn an_owner_that_waits_stays_until_what_blocks_it_is_gone() {
    on_paused_clock(async {
        let home = home().await;
        let owner = object(&home, "owner", &[], &[]).await;
        object(&home, "quick", &[blocking(&owner)], &[]).await;
        object(&home, "slow", &[blocking(&owner)], &[HELD]).await;
        home.delete_by("Foreground", "workloads/owner").await;
        left(&home, &["owner", "slow"]).await;
        let finalizers = home.get("workloads/owner").await["metadata"]["finalizers"].clone();
        assert_eq!(finalizers, json!(["foregroundDeletion"]));
        home.patch("workloads/slow", &json!({"metadata": {"finalizers": null}})).await;
        left(&home, &[]).await;
    });
}

// Shows: U-gc-cross-namespace
#[test]
fn an_owner_in_another_namespace_is_none() {
    on_paused_clock(async {
        let home = home().await;
        home.request("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "far"}})).await.unwrap();
        let owner = object(&home, "owner", &[], &[]).await;
        let templates = json!([{"name": "t", "schedulingPolicy": {"basic": {}}}]);
        let path = "/apis/scheduling.k8s.io/v1beta1/namespaces/far/workloads";
        let child = json!({"metadata": {"name": "child", "ownerReferences": [owner]}, "spec": {"podGroupTemplates": templates}});
        home.request("POST", path, &child).await.unwrap();
        home.pass(MINUTE).await;
        let found = home.request("GET", &format!("{path}/child"), &Value::Null).await;
        assert!(found.is_err(), "it belongs to nobody who is there");
        assert_eq!(names(&home), ["owner".to_owned()].into());
    });
}

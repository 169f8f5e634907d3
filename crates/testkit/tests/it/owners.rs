//! Jobs whose Workload belongs to an ancestor other than their parent: how they find it, and what they do until then.

use std::time::Duration;

use api::views::{Condition, JobView};
use nodes::cluster::Cluster;
use serde_json::{Value, json};
use testkit::fault::{Fault, FaultRule, InjectedStatus, RequestMatcher, Verb, verb};
use testkit::{TestCluster, job, on_paused_clock, pod};

const MINUTE: Duration = Duration::from_secs(60);

async fn test_cluster() -> TestCluster {
    TestCluster::embedded(3, Cluster::default_of(2)).await
}

/// A Workload of this object, with a template `workers`.
fn workload(name: &str, group: &str, kind: &str, of: &str) -> Value {
    let template = json!({"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}});
    let reference = json!({"apiGroup": group, "kind": kind, "name": of});
    json!({"kind": "Workload", "metadata": {"name": name}, "spec": {"controllerRef": reference, "podGroupTemplates": [template]}})
}

fn controlled_by(api_version: &str, owner: &Value) -> Value {
    let (kind, name, uid) = (&owner["kind"], &owner["metadata"]["name"], &owner["metadata"]["uid"]);
    json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true}])
}

/// A pod in the role of an owner of another kind.
async fn root(cluster: &TestCluster) -> Value {
    cluster.create(&pod("root").annotate("phalanx.dev/run-seconds", "100000").build()).await
}

/// A Job without pods, owned by the pod.
async fn create_intermediate_job(cluster: &TestCluster, root: &Value) -> Value {
    cluster
        .create(&job("middle").meta("ownerReferences", controlled_by("v1", root)).spec("suspend", true).build())
        .await
}

/// A Job owned by the intermediate Job, with a group from the template.
fn child(name: &str, owner: &Value) -> Value {
    let annotation = json!({"scheduling.k8s.io/group-template-name": "workers"});
    job(name).pods(2).meta("ownerReferences", controlled_by("batch/v1", owner)).meta("annotations", annotation).build()
}

fn endless_child(name: &str, owner: &Value) -> Value {
    let mut manifest = child(name, owner);
    manifest["spec"]["template"]["metadata"]["annotations"] = json!({"phalanx.dev/run-seconds": "100000"});
    manifest
}

/// The reads by which the Job controller finds the owner of the intermediate Job.
fn reads_of_middle() -> RequestMatcher {
    verb(Verb::Get).by_user("job-controller").on_resource("batch/jobs").named("middle")
}

fn blocked(job: &JobView) -> Option<&Condition> {
    job.status.conditions.iter().find(|one| one.kind == "SchedulingBlocked" && one.status == "True")
}

async fn wait_for_blocked_message(cluster: &TestCluster, name: &str) -> String {
    let job = cluster.wait_for_job(name, "waits", |job| blocked(job).is_some()).await;
    blocked(&job).map(|one| one.message.clone()).unwrap_or_default()
}

/// The Workload of the only group.
fn source_workload(cluster: &TestCluster) -> Option<String> {
    let group = cluster.pod_groups().pop()?;
    group.spec.workload_ref.as_ref().map(|reference| reference.workload_name.clone())
}

async fn wait_until_complete(cluster: &TestCluster, name: &str) {
    let (_, condition) = cluster.wait_until_ended(name, 2 * MINUTE).await;
    assert_eq!(condition.kind, "Complete", "{name}: {condition:?}");
    assert!(cluster.pods_of(name).iter().all(|pod| pod.group_name().is_some()), "{name}: no plain pod");
}

#[test]
fn the_workload_of_an_ancestor_wakes_its_jobs_at_once() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        let middle = create_intermediate_job(&cluster, &root(&cluster).await).await;
        cluster.create(&child("c", &middle)).await;
        wait_for_blocked_message(&cluster, "c").await;
        let reads = cluster.inject_fault(FaultRule::on(reads_of_middle(), Fault::Count));
        cluster.advance(5 * MINUTE).await;
        let read_count = cluster.faults().counts(reads).matched;
        assert!((3..=12).contains(&read_count), "read again with backoff: {read_count} times");
        // Right after a read, so that the next one is a minute away.
        cluster
            .eventually("a read", MINUTE, |cluster| (cluster.faults().counts(reads).matched > read_count).then_some(()))
            .await;
        cluster.create(&workload("up", "", "Pod", "root")).await;
        cluster.eventually("a group", Duration::from_secs(5), source_workload).await;
        assert_eq!(cluster.faults().counts(reads).matched, read_count + 1, "no further read was needed");
        wait_until_complete(&cluster, "c").await;
    });
}

#[test]
fn a_job_whose_parent_has_a_workload_reads_no_other_ancestor() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        let middle = create_intermediate_job(&cluster, &root(&cluster).await).await;
        cluster.create(&workload("near", "batch", "Job", "middle")).await;
        cluster.create(&workload("up", "", "Pod", "root")).await;
        let reads = cluster.inject_fault(FaultRule::on(reads_of_middle(), Fault::Count));
        cluster.create(&child("c", &middle)).await;
        wait_until_complete(&cluster, "c").await;
        assert_eq!((source_workload(&cluster).as_deref(), cluster.faults().counts(reads).matched), (Some("near"), 0));
    });
}

#[test]
fn a_job_keeps_its_group_when_a_nearer_owner_gets_a_workload() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        let middle = create_intermediate_job(&cluster, &root(&cluster).await).await;
        cluster.create(&workload("up", "", "Pod", "root")).await;
        cluster.create(&endless_child("c", &middle)).await;
        let pods = cluster.wait_until_running("c", 2).await;
        cluster.create(&workload("near", "batch", "Job", "middle")).await;
        cluster.delete(&format!("pods/{}", pods[0].metadata.name)).await;
        cluster.eventually("another pod", MINUTE, |cluster| (cluster.created_count("pods") == 4).then_some(())).await;
        cluster.wait_until_running("c", 2).await;
        assert!(cluster.pods_of("c").iter().all(|pod| pod.group_name() == pods[1].group_name()));
        assert_eq!((cluster.pod_groups().len(), source_workload(&cluster).as_deref()), (1, Some("up")));
    });
}

// Observed: a changed Workload of a Job woke only that Job, not the Jobs that it controls.
#[test]
fn a_job_owned_by_a_job_follows_the_min_count_of_its_parents_template() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        let middle = create_intermediate_job(&cluster, &root(&cluster).await).await;
        cluster.create(&workload("near", "batch", "Job", "middle")).await;
        cluster.create(&endless_child("c", &middle)).await;
        cluster.wait_until_running("c", 2).await;
        cluster.advance(MINUTE).await;
        let template = json!({"name": "workers", "schedulingPolicy": {"gang": {"minCount": 1}}});
        cluster.patch("workloads/near", &json!({"spec": {"podGroupTemplates": [template]}})).await;
        cluster
            .eventually("the group follows", MINUTE, |cluster| {
                cluster.pod_groups().pop().filter(|group| group.min_count() == Some(1))
            })
            .await;
    });
}

#[test]
fn a_forbidden_owner_is_reported_and_found_once_it_can_be_read() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        let middle = create_intermediate_job(&cluster, &root(&cluster).await).await;
        cluster.create(&workload("up", "", "Pod", "root")).await;
        let denied = cluster.inject_fault(FaultRule::on(reads_of_middle(), Fault::Respond(InjectedStatus::Forbidden)));
        cluster.create(&child("c", &middle)).await;
        let message = wait_for_blocked_message(&cluster, "c").await;
        let want = "; the controller of Job middle cannot be read: jobs \"middle\" is forbidden (injected)";
        assert!(message.starts_with("there is no Workload of Job middle, which owns this Job"), "{message}");
        assert!(message.ends_with(want), "{message}");
        assert_eq!(cluster.wait_for_event("ParentWorkloadNotFound", "c").await, Some(message));
        cluster.advance(MINUTE).await;
        assert!(cluster.pods_of("c").is_empty());
        cluster.faults().remove(denied);
        wait_until_complete(&cluster, "c").await;
        assert_eq!(source_workload(&cluster).as_deref(), Some("up"));
    });
}

#[test]
fn the_workload_of_the_parent_is_used_when_other_ancestors_are_forbidden() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        let middle = create_intermediate_job(&cluster, &root(&cluster).await).await;
        cluster.inject_fault(FaultRule::on(reads_of_middle(), Fault::Respond(InjectedStatus::Forbidden)));
        cluster.create(&child("c", &middle)).await;
        wait_for_blocked_message(&cluster, "c").await;
        cluster.create(&workload("near", "batch", "Job", "middle")).await;
        wait_until_complete(&cluster, "c").await;
        assert_eq!(source_workload(&cluster).as_deref(), Some("near"));
    });
}

#[test]
fn while_reading_an_owner_fails_no_pod_is_created_and_the_job_is_not_blocked() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        let middle = create_intermediate_job(&cluster, &root(&cluster).await).await;
        cluster.create(&workload("up", "", "Pod", "root")).await;
        let fails = cluster
            .inject_fault(FaultRule::on(reads_of_middle(), Fault::Respond(InjectedStatus::Unavailable)).first_n(4));
        cluster.create(&child("c", &middle)).await;
        wait_until_complete(&cluster, "c").await;
        assert_eq!(cluster.faults().counts(fails).applied, 4);
        let message = cluster.wait_for_event("FailedOwnerRead", "c").await.unwrap();
        assert!(message.starts_with("Error reading Job middle, an owner of this Job: "), "{message}");
        let is_job = |change: &testkit::RecordedWrite| change.resource == "batch/jobs" && change.name() == "c";
        let is_blocked = |change: &testkit::RecordedWrite| change.object.to_string().contains("SchedulingBlocked");
        assert!(!cluster.history().iter().filter(|change| is_job(change)).any(is_blocked));
    });
}

#[test]
fn an_owner_that_is_set_later_is_found() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        let root = root(&cluster).await;
        let middle = cluster
            .create(
                &job("middle").spec("suspend", true).meta("labels", json!({"phalanx.dev/groups": "disabled"})).build(),
            )
            .await;
        cluster.create(&workload("up", "", "Pod", "root")).await;
        cluster.create(&child("c", &middle)).await;
        let message = wait_for_blocked_message(&cluster, "c").await;
        assert!(message.starts_with("there is no Workload of Job middle, which owns this Job"), "{message}");
        cluster.advance(MINUTE).await;
        cluster.patch("jobs/middle", &json!({"metadata": {"ownerReferences": controlled_by("v1", &root)}})).await;
        wait_until_complete(&cluster, "c").await;
    });
}

#[test]
fn an_owner_of_an_unserved_kind_ends_the_search_and_is_reported() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        let owner =
            json!([{"apiVersion": "example.com/v1", "kind": "Training", "name": "t", "uid": "u", "controller": true}]);
        let annotation = json!({"scheduling.k8s.io/group-template-name": "workers"});
        cluster.create(&job("c").pods(2).meta("ownerReferences", owner).meta("annotations", annotation).build()).await;
        let message = wait_for_blocked_message(&cluster, "c").await;
        assert!(
            message.ends_with(
                "; the controller of Training t cannot be read: the API server serves no Training in example.com/v1"
            ),
            "{message}"
        );
        cluster.create(&workload("near", "example.com", "Training", "t")).await;
        wait_until_complete(&cluster, "c").await;
    });
}

#[test]
fn the_workload_of_an_earlier_owner_with_the_same_name_does_not_count() {
    on_paused_clock(async {
        let cluster = test_cluster().await;
        let middle = create_intermediate_job(&cluster, &root(&cluster).await).await;
        let mut leftover = workload("leftover", "batch", "Job", "middle");
        leftover["metadata"]["ownerReferences"] = controlled_by("batch/v1", &middle);
        leftover["metadata"]["ownerReferences"][0]["uid"] = json!("7d0c9b59-2b7c-4a6f-8e61-8b8a7f4c0f10");
        // The finalizer keeps it from being collected.
        leftover["metadata"]["finalizers"] = json!(["example.com/held"]);
        cluster.create(&leftover).await;
        cluster.create(&endless_child("a", &middle)).await;
        wait_for_blocked_message(&cluster, "a").await;
        cluster.advance(MINUTE).await;
        assert_eq!(source_workload(&cluster), None, "no group is created from it");
        cluster.create(&workload("right", "batch", "Job", "middle")).await;
        cluster.eventually("its group", MINUTE, source_workload).await;
        assert_eq!(source_workload(&cluster).as_deref(), Some("right"));
    });
}

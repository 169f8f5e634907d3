//! Jobs whose Workload is that of an owner further up than their parent: how they hear of it, and what they do while they
//! cannot.

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

/// A pod that stands for an owner of another kind.
async fn root(home: &TestCluster) -> Value {
    home.create(&pod("root").annotate("phalanx.dev/run-seconds", "100000").build()).await
}

/// A Job without pods, of the pod.
async fn create_intermediate_job(home: &TestCluster, root: &Value) -> Value {
    home.create(&job("middle").meta("ownerReferences", controlled_by("v1", root)).spec("suspend", true).build()).await
}

/// A Job of the one in between that makes its group from the template.
fn child(name: &str, owner: &Value) -> Value {
    let annotation = json!({"scheduling.k8s.io/group-template-name": "workers"});
    job(name).pods(2).meta("ownerReferences", controlled_by("batch/v1", owner)).meta("annotations", annotation).build()
}

fn endless_child(name: &str, owner: &Value) -> Value {
    let mut manifest = child(name, owner);
    manifest["spec"]["template"]["metadata"]["annotations"] = json!({"phalanx.dev/run-seconds": "100000"});
    manifest
}

/// The reads by which the Job controller learns who controls the Job in between.
fn reads_of_middle() -> RequestMatcher {
    verb(Verb::Get).by_user("job-controller").on_resource("batch/jobs").named("middle")
}

fn blocked(job: &JobView) -> Option<&Condition> {
    job.status.conditions.iter().find(|held| held.kind == "SchedulingBlocked" && held.status == "True")
}

async fn wait_for_blocked_message(home: &TestCluster, name: &str) -> String {
    let job = home.wait_for_job(name, "waits", |job| blocked(job).is_some()).await;
    blocked(&job).map(|held| held.message.clone()).unwrap_or_default()
}

/// The Workload that the one group of the one child was made from.
fn source_workload(home: &TestCluster) -> Option<String> {
    let group = home.pod_groups().pop()?;
    group.spec.workload_ref.as_ref().map(|origin| origin.workload_name.clone())
}

async fn wait_until_complete(home: &TestCluster, name: &str) {
    let (_, condition) = home.wait_until_ended(name, 2 * MINUTE).await;
    assert_eq!(condition.kind, "Complete", "{name}: {condition:?}");
    assert!(home.pods_of(name).iter().all(|pod| pod.group_name().is_some()), "{name}: no plain pod");
}

#[test]
fn the_workload_of_an_ancestor_wakes_its_jobs_at_once() {
    on_paused_clock(async {
        let home = test_cluster().await;
        let middle = create_intermediate_job(&home, &root(&home).await).await;
        home.create(&child("c", &middle)).await;
        wait_for_blocked_message(&home, "c").await;
        let asked = home.inject_fault(FaultRule::on(reads_of_middle(), Fault::Count));
        home.advance(5 * MINUTE).await;
        let seen = home.faults().counts(asked).matched;
        assert!((3..=12).contains(&seen), "asked again, less and less often: {seen} times");
        // Right after a look, so that the next one is a minute away.
        home.eventually("a look", MINUTE, |home| (home.faults().counts(asked).matched > seen).then_some(())).await;
        home.create(&workload("up", "", "Pod", "root")).await;
        home.eventually("a group", Duration::from_secs(5), source_workload).await;
        assert_eq!(home.faults().counts(asked).matched, seen + 1, "nobody had to ask");
        wait_until_complete(&home, "c").await;
    });
}

#[test]
fn a_job_whose_parent_has_a_workload_reads_no_other_ancestor() {
    on_paused_clock(async {
        let home = test_cluster().await;
        let middle = create_intermediate_job(&home, &root(&home).await).await;
        home.create(&workload("near", "batch", "Job", "middle")).await;
        home.create(&workload("up", "", "Pod", "root")).await;
        let asked = home.inject_fault(FaultRule::on(reads_of_middle(), Fault::Count));
        home.create(&child("c", &middle)).await;
        wait_until_complete(&home, "c").await;
        assert_eq!((source_workload(&home).as_deref(), home.faults().counts(asked).matched), (Some("near"), 0));
    });
}

#[test]
fn a_job_keeps_its_group_when_a_nearer_owner_gets_a_workload() {
    on_paused_clock(async {
        let home = test_cluster().await;
        let middle = create_intermediate_job(&home, &root(&home).await).await;
        home.create(&workload("up", "", "Pod", "root")).await;
        home.create(&endless_child("c", &middle)).await;
        let pods = home.wait_until_running("c", 2).await;
        home.create(&workload("near", "batch", "Job", "middle")).await;
        home.delete(&format!("pods/{}", pods[0].metadata.name)).await;
        home.eventually("another pod", MINUTE, |home| (home.created_count("pods") == 4).then_some(())).await;
        home.wait_until_running("c", 2).await;
        assert!(home.pods_of("c").iter().all(|pod| pod.group_name() == pods[1].group_name()));
        assert_eq!((home.pod_groups().len(), source_workload(&home).as_deref()), (1, Some("up")));
    });
}

// The Workload of a Job woke that Job alone: Jobs that it controls heard of a change by chance.
#[test]
fn a_job_owned_by_a_job_follows_the_min_count_of_its_parents_template() {
    on_paused_clock(async {
        let home = test_cluster().await;
        let middle = create_intermediate_job(&home, &root(&home).await).await;
        home.create(&workload("near", "batch", "Job", "middle")).await;
        home.create(&endless_child("c", &middle)).await;
        home.wait_until_running("c", 2).await;
        home.advance(MINUTE).await;
        let template = json!({"name": "workers", "schedulingPolicy": {"gang": {"minCount": 1}}});
        home.patch("workloads/near", &json!({"spec": {"podGroupTemplates": [template]}})).await;
        home.eventually("the group follows", MINUTE, |home| {
            home.pod_groups().pop().filter(|group| group.min_count() == Some(1))
        })
        .await;
    });
}

#[test]
fn a_forbidden_owner_is_reported_and_found_once_it_can_be_read() {
    on_paused_clock(async {
        let home = test_cluster().await;
        let middle = create_intermediate_job(&home, &root(&home).await).await;
        home.create(&workload("up", "", "Pod", "root")).await;
        let denied = home.inject_fault(FaultRule::on(reads_of_middle(), Fault::Respond(InjectedStatus::Forbidden)));
        home.create(&child("c", &middle)).await;
        let said = wait_for_blocked_message(&home, "c").await;
        let want = "; who controls Job middle cannot be read: jobs \"middle\" is forbidden (injected)";
        assert!(said.starts_with("there is no Workload of Job middle, which owns this Job"), "{said}");
        assert!(said.ends_with(want), "{said}");
        assert_eq!(home.wait_for_event("ParentWorkloadNotFound", "c").await, Some(said));
        home.advance(MINUTE).await;
        assert!(home.pods_of("c").is_empty());
        home.faults().remove(denied);
        wait_until_complete(&home, "c").await;
        assert_eq!(source_workload(&home).as_deref(), Some("up"));
    });
}

#[test]
fn the_workload_of_the_parent_is_used_when_other_ancestors_are_forbidden() {
    on_paused_clock(async {
        let home = test_cluster().await;
        let middle = create_intermediate_job(&home, &root(&home).await).await;
        home.inject_fault(FaultRule::on(reads_of_middle(), Fault::Respond(InjectedStatus::Forbidden)));
        home.create(&child("c", &middle)).await;
        wait_for_blocked_message(&home, "c").await;
        home.create(&workload("near", "batch", "Job", "middle")).await;
        wait_until_complete(&home, "c").await;
        assert_eq!(source_workload(&home).as_deref(), Some("near"));
    });
}

#[test]
fn while_reading_an_owner_fails_no_pod_is_created_and_the_job_is_not_blocked() {
    on_paused_clock(async {
        let home = test_cluster().await;
        let middle = create_intermediate_job(&home, &root(&home).await).await;
        home.create(&workload("up", "", "Pod", "root")).await;
        let fails =
            home.inject_fault(FaultRule::on(reads_of_middle(), Fault::Respond(InjectedStatus::Unavailable)).first_n(4));
        home.create(&child("c", &middle)).await;
        wait_until_complete(&home, "c").await;
        assert_eq!(home.faults().counts(fails).applied, 4);
        let said = home.wait_for_event("FailedOwnerRead", "c").await.unwrap();
        assert!(said.starts_with("Error reading Job middle, an owner of this Job: "), "{said}");
        let of_it = |change: &testkit::RecordedWrite| change.resource == "batch/jobs" && change.name() == "c";
        let is_blocked = |change: &testkit::RecordedWrite| change.object.to_string().contains("SchedulingBlocked");
        assert!(!home.history().iter().filter(|change| of_it(change)).any(is_blocked));
    });
}

#[test]
fn an_owner_that_is_set_later_is_found() {
    on_paused_clock(async {
        let home = test_cluster().await;
        let root = root(&home).await;
        let middle = home
            .create(
                &job("middle").spec("suspend", true).meta("labels", json!({"phalanx.dev/groups": "disabled"})).build(),
            )
            .await;
        home.create(&workload("up", "", "Pod", "root")).await;
        home.create(&child("c", &middle)).await;
        let said = wait_for_blocked_message(&home, "c").await;
        assert!(said.starts_with("there is no Workload of Job middle, which owns this Job"), "{said}");
        home.advance(MINUTE).await;
        home.patch("jobs/middle", &json!({"metadata": {"ownerReferences": controlled_by("v1", &root)}})).await;
        wait_until_complete(&home, "c").await;
    });
}

#[test]
fn an_owner_of_an_unserved_kind_ends_the_search_and_is_reported() {
    on_paused_clock(async {
        let home = test_cluster().await;
        let owner =
            json!([{"apiVersion": "example.com/v1", "kind": "Training", "name": "t", "uid": "u", "controller": true}]);
        let annotation = json!({"scheduling.k8s.io/group-template-name": "workers"});
        home.create(&job("c").pods(2).meta("ownerReferences", owner).meta("annotations", annotation).build()).await;
        let said = wait_for_blocked_message(&home, "c").await;
        assert!(
            said.ends_with(
                "; who controls Training t cannot be read: the API server serves no Training in example.com/v1"
            ),
            "{said}"
        );
        home.create(&workload("near", "example.com", "Training", "t")).await;
        wait_until_complete(&home, "c").await;
    });
}

#[test]
fn the_workload_of_an_earlier_owner_with_the_same_name_does_not_count() {
    on_paused_clock(async {
        let home = test_cluster().await;
        let middle = create_intermediate_job(&home, &root(&home).await).await;
        let mut leftover = workload("leftover", "batch", "Job", "middle");
        leftover["metadata"]["ownerReferences"] = controlled_by("batch/v1", &middle);
        leftover["metadata"]["ownerReferences"][0]["uid"] = json!("7d0c9b59-2b7c-4a6f-8e61-8b8a7f4c0f10");
        // Otherwise it is collected at once.
        leftover["metadata"]["finalizers"] = json!(["example.com/held"]);
        home.create(&leftover).await;
        home.create(&endless_child("a", &middle)).await;
        wait_for_blocked_message(&home, "a").await;
        home.advance(MINUTE).await;
        assert_eq!(source_workload(&home), None, "nothing is made from it");
        home.create(&workload("right", "batch", "Job", "middle")).await;
        home.eventually("its group", MINUTE, source_workload).await;
        assert_eq!(source_workload(&home).as_deref(), Some("right"));
    });
}

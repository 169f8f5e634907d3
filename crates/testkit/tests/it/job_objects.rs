//! Workloads and PodGroups of Jobs, created by the controller or by a user: found, completed, recreated, never guessed.

use std::time::Duration;

use api::views::{Condition, JobView};
use serde_json::{Value, json};
use testkit::fault::{EventFault, Fault, FaultRule, InjectedStatus, events_of, writes};
use testkit::{TestCluster, job, on_shared_test_cluster};

const MINUTE: Duration = Duration::from_secs(60);
const WORKLOADS: &str = "scheduling.k8s.io/workloads";
const POD_GROUPS: &str = "scheduling.k8s.io/podgroups";

async fn wait_until_complete(cluster: &TestCluster, name: &str) {
    let (_, condition) = cluster.wait_until_ended(name, 3 * MINUTE).await;
    assert_eq!(condition.kind, "Complete", "{name}: {condition:?}");
}

/// A user's Workload for a Job, with templates of these names.
fn workload(name: &str, job: &str, templates: &[&str]) -> Value {
    let template = |name: &&str| json!({"name": name, "schedulingPolicy": {"gang": {"minCount": 2}}});
    json!({
        "kind": "Workload", "metadata": {"name": name},
        "spec": {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": job},
            "podGroupTemplates": templates.iter().map(template).collect::<Vec<_>>(),
        },
    })
}

fn group_of(workload: &str) -> Value {
    json!({
        "kind": "PodGroup", "metadata": {"name": "theirs"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "workloadRef": {"workloadName": workload, "templateName": "workers"},
        },
    })
}

/// How often an object was written, including its creation.
fn writes_to(cluster: &TestCluster, resource: &str, name: &str) -> usize {
    cluster.history().iter().filter(|change| change.resource == resource && change.name() == name).count()
}

// Shows: U-TestCreateWorkloadForJob, U-TestCreatePodGroup, U-TestEnsureWorkloadAndPodGroup
#[test]
fn created_objects_are_reported_in_events() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("new").pods(2).gang().build()).await;
        wait_until_complete(&cluster, "new").await;
        let (workload, group) = (cluster.workloads().pop().unwrap(), cluster.pod_groups().pop().unwrap());
        let event = cluster.wait_for_event("WorkloadCreated", "new").await;
        assert!(event.is_none_or(|message| message.contains(&workload.metadata.name)));
        let event = cluster.wait_for_event("PodGroupCreated", "new").await;
        assert!(event.is_none_or(|message| message.contains(&group.metadata.name)));
    });
}

// Shows: U-trap-user-objects, U-TestEnsureWorkloadAndPodGroup
#[test]
fn user_created_objects_are_used_and_never_written() {
    for with_group in [true, false] {
        on_shared_test_cluster(async |cluster| {
            cluster.create(&workload("mine", "train", &["workers"])).await;
            if with_group {
                cluster.create(&group_of("mine")).await;
            }
            cluster.create(&job("train").pods(2).build()).await;
            wait_until_complete(&cluster, "train").await;
            assert_eq!((cluster.workloads().len(), cluster.pod_groups().len()), (1, 1), "with a group: {with_group}");
            let group = cluster.pod_groups().pop().unwrap();
            assert_eq!(group.min_count(), Some(2), "as in the user's Workload");
            assert!(cluster.pods_of("train").iter().all(|pod| pod.group_name() == Some(group.metadata.name.as_str())));
            assert_eq!(writes_to(&cluster, WORKLOADS, "mine"), 1);
            assert_eq!(group.metadata.name == "theirs", with_group);
            if with_group {
                assert!(group.metadata.owner_references.is_empty(), "it was not adopted");
            }
        });
    }
}

// Shows: U-trap-ambiguous, U-trap-shape, U-TestEnsureWorkloadAndPodGroup
#[test]
fn ambiguous_workloads_give_a_condition_an_event_and_plain_pods() {
    for (case, workloads) in [
        ("two Workloads", vec![workload("one", "train", &["workers"]), workload("two", "train", &["workers"])]),
        ("two templates", vec![workload("one", "train", &["workers", "servers"])]),
    ] {
        on_shared_test_cluster(async |cluster| {
            for workload in &workloads {
                cluster.create(workload).await;
            }
            // A cache with the objects of this Job has the older ones too.
            cluster.create(&job("before").build()).await;
            wait_until_complete(&cluster, "before").await;
            cluster.create(&job("train").pods(2).build()).await;
            let is_fallback = |job: &JobView| Condition::is_true(&job.status.conditions, "SchedulingFallback");
            let job = cluster.wait_for_job("train", case, is_fallback).await;
            let condition = job.status.conditions.iter().find(|one| one.kind == "SchedulingFallback").unwrap().clone();
            wait_until_complete(&cluster, "train").await;
            assert!(cluster.pods_of("train").iter().all(|pod| pod.group_name().is_none()), "{case}");
            let left = (cluster.workloads().len(), cluster.pod_groups().len());
            assert_eq!(left, (workloads.len() + 1, 1), "{case}: only the user's objects and those of the first Job");
            cluster.wait_for_event(&condition.reason, "train").await;
        });
    }
}

// Shows: U-trap-recreated, U-TestEnsureWorkloadAndPodGroup
#[test]
fn deleted_objects_are_recreated_while_the_job_has_no_pods() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("later").pods(2).gang().spec("suspend", true).build()).await;
        let both = |cluster: &TestCluster| Some((cluster.workloads().pop()?, cluster.pod_groups().pop()?));
        let (workload, group) = cluster.eventually("both objects", MINUTE, both).await;
        cluster.delete(&format!("podgroups/{}", group.metadata.name)).await;
        cluster
            .eventually("another group", MINUTE, |cluster| {
                cluster.pod_groups().into_iter().find(|found| found.metadata.uid != group.metadata.uid)
            })
            .await;
        assert_eq!(cluster.workloads()[0].metadata.uid, workload.metadata.uid, "the existing Workload is kept");
        cluster.patch("jobs/later", &json!({"spec": {"suspend": false}})).await;
        wait_until_complete(&cluster, "later").await;
        assert!(cluster.pods_of("later").iter().all(|pod| pod.group_name().is_some()));
    });
}

// Shows: U-gap-api-unavailable, U-TestCreateWorkloadForJob
#[test]
fn a_job_waits_while_the_server_refuses_its_objects() {
    for resource in [WORKLOADS, POD_GROUPS] {
        on_shared_test_cluster(async |cluster| {
            let refused = Fault::Respond(InjectedStatus::InternalError);
            let rule =
                FaultRule::on(writes().on_resource(resource).in_namespace(cluster.namespace()), refused).first_n(3);
            let rule = cluster.inject_fault(rule);
            cluster.create(&job("waits").pods(2).gang().build()).await;
            wait_until_complete(&cluster, "waits").await;
            assert_eq!(cluster.faults().counts(rule).applied, 3, "{resource}");
            assert!(cluster.pods_of("waits").iter().all(|pod| pod.group_name().is_some()), "{resource}");
            assert_eq!((cluster.workloads().len(), cluster.pod_groups().len()), (1, 1), "{resource}");
            if resource == WORKLOADS {
                cluster.wait_for_event("FailedWorkloadCreate", "waits").await;
            }
        });
    }
}

// Shows: U-gap-stale-caches, U-trap-no-plain-pod
#[test]
fn stale_caches_cause_no_pod_without_group_and_no_second_object() {
    on_shared_test_cluster(async |cluster| {
        for resource in [WORKLOADS, POD_GROUPS] {
            let of = events_of(resource).in_namespace(cluster.namespace());
            cluster.inject_fault(FaultRule::on_events(of, EventFault::Delay(Duration::from_secs(5))));
        }
        cluster.create(&job("quick").spec("parallelism", 2).spec("completions", 6).gang().build()).await;
        wait_until_complete(&cluster, "quick").await;
        assert_eq!((cluster.created_count(WORKLOADS), cluster.created_count(POD_GROUPS)), (1, 1));
        let group = cluster.get("podgroups").await["items"][0]["metadata"]["name"].clone();
        assert!(cluster.pods_of("quick").iter().all(|pod| pod.group_name() == group.as_str()));
    });
}

// Shows: U-TestSyncJobPodSchedulingGroup
#[test]
fn later_pods_join_the_group_of_earlier_pods() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("grows").spec("parallelism", 1).run_forever().build()).await;
        cluster.wait_until_running("grows", 1).await;
        cluster.patch("jobs/grows", &json!({"spec": {"parallelism": 3}})).await;
        let pods = cluster.wait_until_running("grows", 3).await;
        let group = cluster.pod_groups().pop().unwrap();
        assert!(pods.iter().all(|pod| pod.group_name() == Some(group.metadata.name.as_str())));
    });
}

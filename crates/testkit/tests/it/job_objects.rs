//! Workloads and PodGroups of Jobs, whoever made them: found, completed, made again, and never guessed.

use std::time::Duration;

use api::views::{Condition, JobView};
use serde_json::{Value, json};
use testkit::fault::{EventFault, Fault, FaultRule, InjectedStatus, events_of, writes};
use testkit::{TestCluster, job, on_shared_test_cluster};

const MINUTE: Duration = Duration::from_secs(60);
const WORKLOADS: &str = "scheduling.k8s.io/workloads";
const POD_GROUPS: &str = "scheduling.k8s.io/podgroups";

async fn wait_until_complete(home: &TestCluster, name: &str) {
    let (_, condition) = home.wait_until_ended(name, 3 * MINUTE).await;
    assert_eq!(condition.kind, "Complete", "{name}: {condition:?}");
}

/// A Workload that a user made for a Job, with templates of these names.
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

/// How often an object was written, its creation included.
fn writes_to(home: &TestCluster, resource: &str, name: &str) -> usize {
    home.history().iter().filter(|change| change.resource == resource && change.name() == name).count()
}

// Shows: U-TestCreateWorkloadForJob, U-TestCreatePodGroup, U-TestEnsureWorkloadAndPodGroup
#[test]
fn created_objects_are_reported_in_events() {
    on_shared_test_cluster(async |home| {
        home.create(&job("new").pods(2).gang().build()).await;
        wait_until_complete(&home, "new").await;
        let (workload, group) = (home.workloads().pop().unwrap(), home.pod_groups().pop().unwrap());
        let told = home.wait_for_event("WorkloadCreated", "new").await;
        assert!(told.is_none_or(|message| message.contains(&workload.metadata.name)));
        let told = home.wait_for_event("PodGroupCreated", "new").await;
        assert!(told.is_none_or(|message| message.contains(&group.metadata.name)));
    });
}

// Shows: U-trap-user-objects, U-TestEnsureWorkloadAndPodGroup
#[test]
fn user_created_objects_are_used_and_never_written() {
    for with_group in [true, false] {
        on_shared_test_cluster(async |home| {
            home.create(&workload("mine", "train", &["workers"])).await;
            if with_group {
                home.create(&group_of("mine")).await;
            }
            home.create(&job("train").pods(2).build()).await;
            wait_until_complete(&home, "train").await;
            assert_eq!((home.workloads().len(), home.pod_groups().len()), (1, 1), "with a group: {with_group}");
            let group = home.pod_groups().pop().unwrap();
            assert_eq!(group.min_count(), Some(2), "as the user's Workload says");
            assert!(home.pods_of("train").iter().all(|pod| pod.group_name() == Some(group.metadata.name.as_str())));
            assert_eq!(writes_to(&home, WORKLOADS, "mine"), 1);
            assert_eq!(group.metadata.name == "theirs", with_group);
            if with_group {
                assert!(group.metadata.owner_references.is_empty(), "nobody adopted it");
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
        on_shared_test_cluster(async |home| {
            for workload in &workloads {
                home.create(workload).await;
            }
            // Whoever has seen the objects of this Job has seen those made before it.
            home.create(&job("before").build()).await;
            wait_until_complete(&home, "before").await;
            home.create(&job("train").pods(2).build()).await;
            let is_told = |job: &JobView| Condition::is_true(&job.status.conditions, "SchedulingFallback");
            let told = home.wait_for_job("train", case, is_told).await;
            let condition =
                told.status.conditions.iter().find(|held| held.kind == "SchedulingFallback").unwrap().clone();
            wait_until_complete(&home, "train").await;
            assert!(home.pods_of("train").iter().all(|pod| pod.group_name().is_none()), "{case}");
            let left = (home.workloads().len(), home.pod_groups().len());
            assert_eq!(left, (workloads.len() + 1, 1), "{case}: none beside the user's and those of the Job before");
            home.wait_for_event(&condition.reason, "train").await;
        });
    }
}

// Shows: U-trap-recreated, U-TestEnsureWorkloadAndPodGroup
#[test]
fn deleted_objects_are_recreated_while_the_job_has_no_pods() {
    on_shared_test_cluster(async |home| {
        home.create(&job("later").pods(2).gang().spec("suspend", true).build()).await;
        let both = |home: &TestCluster| Some((home.workloads().pop()?, home.pod_groups().pop()?));
        let (workload, group) = home.eventually("both objects", MINUTE, both).await;
        home.delete(&format!("podgroups/{}", group.metadata.name)).await;
        home.eventually("another group", MINUTE, |home| {
            home.pod_groups().into_iter().find(|found| found.metadata.uid != group.metadata.uid)
        })
        .await;
        assert_eq!(home.workloads()[0].metadata.uid, workload.metadata.uid, "the half that was there is kept");
        home.patch("jobs/later", &json!({"spec": {"suspend": false}})).await;
        wait_until_complete(&home, "later").await;
        assert!(home.pods_of("later").iter().all(|pod| pod.group_name().is_some()));
    });
}

// Shows: U-gap-api-unavailable, U-TestCreateWorkloadForJob
#[test]
fn a_job_waits_while_the_server_refuses_its_objects() {
    for resource in [WORKLOADS, POD_GROUPS] {
        on_shared_test_cluster(async |home| {
            let refused = Fault::Respond(InjectedStatus::InternalError);
            let rule = FaultRule::on(writes().on_resource(resource).in_namespace(home.namespace()), refused).first_n(3);
            let rule = home.inject_fault(rule);
            home.create(&job("waits").pods(2).gang().build()).await;
            wait_until_complete(&home, "waits").await;
            assert_eq!(home.faults().counts(rule).applied, 3, "{resource}");
            assert!(home.pods_of("waits").iter().all(|pod| pod.group_name().is_some()), "{resource}");
            assert_eq!((home.workloads().len(), home.pod_groups().len()), (1, 1), "{resource}");
            if resource == WORKLOADS {
                home.wait_for_event("FailedWorkloadCreate", "waits").await;
            }
        });
    }
}

// Shows: U-gap-stale-caches, U-trap-no-plain-pod
#[test]
fn stale_caches_cause_no_pod_without_group_and_no_second_object() {
    on_shared_test_cluster(async |home| {
        for resource in [WORKLOADS, POD_GROUPS] {
            let of = events_of(resource).in_namespace(home.namespace());
            home.inject_fault(FaultRule::on_events(of, EventFault::Delay(Duration::from_secs(5))));
        }
        home.create(&job("quick").spec("parallelism", 2).spec("completions", 6).gang().build()).await;
        wait_until_complete(&home, "quick").await;
        assert_eq!((home.created_count(WORKLOADS), home.created_count(POD_GROUPS)), (1, 1));
        let group = home.get("podgroups").await["items"][0]["metadata"]["name"].clone();
        assert!(home.pods_of("quick").iter().all(|pod| pod.group_name() == group.as_str()));
    });
}

// Shows: U-TestSyncJobPodSchedulingGroup
#[test]
fn later_pods_join_the_group_of_earlier_pods() {
    on_shared_test_cluster(async |home| {
        home.create(&job("grows").spec("parallelism", 1).run_forever().build()).await;
        home.wait_until_running("grows", 1).await;
        home.patch("jobs/grows", &json!({"spec": {"parallelism": 3}})).await;
        let pods = home.wait_until_running("grows", 3).await;
        let group = home.pod_groups().pop().unwrap();
        assert!(pods.iter().all(|pod| pod.group_name() == Some(group.metadata.name.as_str())));
    });
}

//! The groups of Jobs: who gets which objects, what stands on them, and what becomes of them.

use std::sync::Arc;
use std::time::Duration;

use api::views::{Condition, JobView, PodGroupView, PodView, WorkloadView};
use controlplane::Component;
use serde_json::{Value, json};
use testkit::{JobBuilder, TestCluster, job, on_shared_test_cluster, pod};

const MINUTE: Duration = Duration::from_secs(60);
const RACK: &str = "topology.kubernetes.io/rack";

fn min_counts(home: &TestCluster) -> (Vec<Option<i32>>, Vec<Option<i32>>) {
    let of = |workload: &Arc<WorkloadView>| {
        let templates = workload.spec.pod_group_templates.clone().unwrap_or_default();
        templates.iter().map(|template| template.scheduling_policy.gang.as_ref().map(|gang| gang.min_count)).collect()
    };
    let workloads: Vec<Vec<Option<i32>>> = home.workloads().iter().map(of).collect();
    (workloads.concat(), home.pod_groups().iter().map(|group| group.min_count()).collect())
}

/// The one Workload and the one PodGroup there are, by uid.
fn uids(home: &TestCluster) -> Option<(String, String)> {
    let (workloads, groups) = (home.workloads(), home.pod_groups());
    assert!(workloads.len() <= 1 && groups.len() <= 1, "one of each: {workloads:?} {groups:?}");
    Some((workloads.first()?.metadata.uid.clone(), groups.first()?.metadata.uid.clone()))
}

fn all_joined(pods: &[Arc<PodView>], group: &PodGroupView) -> bool {
    pods.iter().all(|pod| pod.group_name() == Some(group.metadata.name.as_str()))
}

async fn wait_until_complete(home: &TestCluster, name: &str) -> Arc<JobView> {
    let (job, condition) = home.wait_until_ended(name, MINUTE).await;
    assert_eq!(condition.kind, "Complete", "{name}: {condition:?}");
    job
}

// Shows: U-TestJobGangScheduling
// Shows: U-e2e-job-gang, U-e2e-job-gang-indexed, U-e2e-job-completes
#[test]
fn every_kind_of_job_gets_one_workload_and_one_group_before_its_pods() {
    let shapes: [(&str, JobBuilder); 5] = [
        ("one pod", job("a")),
        ("many pods", job("a").pods(3)),
        ("indexed", job("a").pods(3).indexed()),
        ("fewer at once than in all", job("a").spec("parallelism", 2).spec("completions", 5).indexed()),
        ("gang", job("a").pods(3).indexed().gang()),
    ];
    for (case, manifest) in shapes {
        on_shared_test_cluster(async |home| {
            home.create(&manifest.build()).await;
            let job = wait_until_complete(&home, "a").await;
            let (workload, group) = (home.workloads().pop().unwrap(), home.pod_groups().pop().unwrap());
            assert_eq!((home.workloads().len(), home.pod_groups().len()), (1, 1), "{case}");
            let owner = workload.metadata.controller().unwrap();
            assert_eq!((&owner.kind[..], &owner.uid), ("Job", &job.metadata.uid), "{case}");
            let owners: Vec<(&str, &str, bool)> = group
                .metadata
                .owner_references
                .iter()
                .map(|owner| (owner.kind.as_str(), owner.uid.as_str(), owner.controller))
                .collect();
            let want = [("Job", &*job.metadata.uid, true), ("Workload", &*workload.metadata.uid, false)];
            assert_eq!(owners, want, "{case}");
            assert!(all_joined(&home.pods_of("a"), &group), "{case}");
            let history = home.history();
            let first = |resource: &str| history.iter().position(|change| change.resource == resource).unwrap();
            let order = ["scheduling.k8s.io/workloads", "scheduling.k8s.io/podgroups", "pods"].map(first);
            assert!(order.is_sorted(), "{case}: {order:?}");
        });
    }
}

// Shows: U-TestJobGangScheduling, U-TestShouldManageWorkloadForJob
#[test]
fn a_job_that_names_a_group_or_has_a_controller_gets_no_objects() {
    on_shared_test_cluster(async |home| {
        let policy = json!({"basic": {}});
        home.create(&json!({"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}}))
            .await;
        home.create(&job("named").pods(2).pod_spec("schedulingGroup", json!({"podGroupName": "g"})).build()).await;
        let owner = create_parent(&home).await;
        home.create(&job("owned").meta("ownerReferences", owner).build()).await;
        wait_until_complete(&home, "owned").await;
        assert!(home.pods_of("owned").iter().all(|pod| pod.group_name().is_none()));
        wait_until_complete(&home, "named").await;
        assert_eq!((home.workloads().len(), home.pod_groups().len()), (0, 1));
        assert!(home.pods_of("named").iter().all(|pod| pod.group_name() == Some("g")));
    });
}

// Shows: U-TestJobGangScheduling, U-TestSuspendJobControllerRestart
#[test]
fn a_suspended_job_gets_its_objects_and_keeps_them_across_controller_restarts() {
    on_shared_test_cluster(async |mut home| {
        home.create(&job("later").pods(3).gang().spec("suspend", true).build()).await;
        home.wait_for_job("later", "suspended", |job| Condition::is_true(&job.status.conditions, "Suspended")).await;
        let before = home.eventually("both objects", MINUTE, uids).await;
        home.restart_component(Component::Controllers);
        home.advance(MINUTE / 6).await;
        assert!(home.pods_of("later").is_empty(), "still suspended");
        home.patch("jobs/later", &json!({"spec": {"suspend": false}})).await;
        wait_until_complete(&home, "later").await;
        assert_eq!(uids(&home), Some(before));
        assert!(all_joined(&home.pods_of("later"), &home.pod_groups()[0]));
    });
}

// Shows: U-TestJobGangScheduling
#[test]
fn the_scheduling_fields_of_a_job_are_copied_to_both_objects() {
    on_shared_test_cluster(async |home| {
        let mut manifest = job("asks").pods(3).indexed().gang().in_topology(RACK).build();
        manifest["spec"]["scheduling"]["schedulingPolicy"]["gang"]["minCount"] = json!(2);
        manifest["spec"]["scheduling"]["disruptionMode"] = json!({"all": {}});
        home.create(&manifest).await;
        wait_until_complete(&home, "asks").await;
        let workload = home.get(&format!("workloads/{}", home.workloads()[0].metadata.name)).await;
        let group = home.get(&format!("podgroups/{}", home.pod_groups()[0].metadata.name)).await;
        for asked in [&workload["spec"]["podGroupTemplates"][0], &group["spec"]] {
            assert_eq!(asked["schedulingPolicy"], json!({"gang": {"minCount": 2}}));
            assert_eq!(asked["schedulingConstraints"], json!({"topology": [{"key": RACK}]}));
            assert_eq!(asked["disruptionMode"], json!({"all": {}}));
        }
        let reference = json!({"workloadName": workload["metadata"]["name"],
            "templateName": workload["spec"]["podGroupTemplates"][0]["name"]});
        assert_eq!(group["spec"]["workloadRef"], reference);
        assert_eq!(workload["spec"]["controllerRef"], json!({"apiGroup": "batch", "kind": "Job", "name": "asks"}));
    });
}

// Shows: U-TestJobGangScheduling, U-TestJobGangSchedulingElasticScaling, U-e2e-job-gang-lower
#[test]
fn a_changed_min_count_of_a_running_gang_is_copied_to_both_objects() {
    on_shared_test_cluster(async |mut home| {
        let mut manifest = job("elastic").spec("parallelism", 6).run_forever().gang().build();
        manifest["spec"]["scheduling"]["schedulingPolicy"]["gang"]["minCount"] = json!(4);
        home.create(&manifest).await;
        home.wait_until_running("elastic", 6).await;
        let before = uids(&home);
        assert_eq!(min_counts(&home), (vec![Some(4)], vec![Some(4)]));
        for count in [6, 2] {
            let gang = json!({"gang": {"minCount": count}});
            home.patch("jobs/elastic", &json!({"spec": {"scheduling": {"schedulingPolicy": gang}}})).await;
            let want = (vec![Some(count)], vec![Some(count)]);
            home.eventually("both follow", MINUTE, |home| (min_counts(home) == want).then_some(())).await;
            home.restart_component(Component::Controllers);
        }
        assert_eq!(uids(&home), before);
        assert_eq!((home.running_pods("elastic").len(), home.created_count("pods")), (6, 6), "no pod was touched");
    });
}

// Shows: U-TestSyncGangMinCount, U-trap-wakes
#[test]
fn a_gang_without_min_count_follows_parallelism_and_reverts_foreign_changes() {
    on_shared_test_cluster(async |home| {
        home.create(&job("follows").spec("parallelism", 2).gang().run_forever().build()).await;
        home.wait_until_running("follows", 2).await;
        home.patch("jobs/follows", &json!({"spec": {"parallelism": 4}})).await;
        home.wait_until_running("follows", 4).await;
        let want = (vec![Some(4)], vec![Some(4)]);
        home.eventually("both follow", MINUTE, |home| (min_counts(home) == want).then_some(())).await;
        let group = format!("podgroups/{}", home.pod_groups()[0].metadata.name);
        home.patch(&group, &json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}})).await;
        home.eventually("moved", MINUTE, |home| {
            let moved = |c: &testkit::RecordedWrite| c.object["spec"]["schedulingPolicy"]["gang"]["minCount"] == 1;
            (home.history().iter().any(moved) && min_counts(home) == want).then_some(())
        })
        .await;
    });
}

// Shows: U-TestJobGangSchedulingSuspendResume, U-e2e-job-suspend-deletes, U-TestSuspendJob
#[test]
fn repeated_suspension_deletes_the_pods_and_keeps_the_objects() {
    on_shared_test_cluster(async |home| {
        home.create(&job("rests").pods(3).gang().run_forever().build()).await;
        home.wait_until_running("rests", 3).await;
        let before = uids(&home);
        for round in 1..=2 {
            home.patch("jobs/rests", &json!({"spec": {"suspend": true}})).await;
            home.eventually("no pods", MINUTE, |home| home.pods_of("rests").is_empty().then_some(())).await;
            let job = home
                .wait_for_job("rests", "suspended", |job| {
                    Condition::is_true(&job.status.conditions, "Suspended") && job.status.active == 0
                })
                .await;
            assert_eq!((job.status.failed, job.status.start_time), (0, None), "round {round}: nobody failed");
            home.patch("jobs/rests", &json!({"spec": {"suspend": false}})).await;
            let pods = home.wait_until_running("rests", 3).await;
            assert_eq!(uids(&home), before, "round {round}");
            assert!(all_joined(&pods, &home.pod_groups()[0]), "round {round}");
        }
        home.wait_for_event("Suspended", "rests").await;
        home.wait_for_event("Resumed", "rests").await;
    });
}

/// A gang of two of which index 0 has succeeded and its pod is gone, and index 1 has then failed.
async fn create_gang_with_deleted_success(home: &TestCluster, name: &str) {
    let pods = home.wait_until_running(name, 2).await;
    let of_index = |index: &str| {
        let key = "batch.kubernetes.io/job-completion-index";
        pods.iter().find(|pod| pod.metadata.annotations.get(key).is_some_and(|held| held == index)).unwrap()
    };
    let (first, second) = (of_index("0"), of_index("1"));
    home.end_pod(first, 0).await;
    home.wait_for_job(name, "index 0 is counted", |job| job.status.succeeded == 1).await;
    home.delete(&format!("pods/{}", first.metadata.name)).await;
    home.eventually("its pod is gone", MINUTE, |home| (home.pods_of(name).len() == 1).then_some(())).await;
    home.end_pod(second, 1).await;
}

/// What the annotation of the one PodGroup said over time.
fn expected_counts(home: &TestCluster) -> Vec<String> {
    let groups = home.history().into_iter().filter(|change| change.resource == "scheduling.k8s.io/podgroups");
    let said = |change: testkit::RecordedWrite| {
        Some(change.object["metadata"]["annotations"][PodGroupView::EXPECTED_COUNT_ANNOTATION].as_str()?.to_owned())
    };
    let mut counts: Vec<String> = groups.filter_map(said).collect();
    counts.dedup();
    counts
}

// The replacement waited for ever: 1 of minCount 2 exist.
#[test]
fn a_gang_whose_finished_pod_is_deleted_replaces_a_failed_pod() {
    on_shared_test_cluster(async |mut home| {
        home.create(&job("train").pods(2).indexed().gang().run_forever().build()).await;
        create_gang_with_deleted_success(&home, "train").await;
        home.restart_component(Component::Controllers);
        let pod = home.wait_until_running("train", 1).await.pop().unwrap();
        assert_eq!(expected_counts(&home), ["2", "1"], "written when the group was made, and when it was too much");
        home.end_pod(&pod, 0).await;
        wait_until_complete(&home, "train").await;
        assert_eq!(expected_counts(&home), ["2", "1"]);
    });
}

// It waited without a word on the Job.
#[test]
fn a_job_reports_how_to_set_the_expected_count_of_a_user_created_group() {
    on_shared_test_cluster(async |home| {
        let policy = json!({"gang": {"minCount": 2}});
        let stands_for = json!({"apiGroup": "batch", "kind": "Job", "name": "train"});
        let spec =
            json!({"controllerRef": stands_for, "podGroupTemplates": [{"name": "t", "schedulingPolicy": policy}]});
        home.create(&json!({"kind": "Workload", "metadata": {"name": "mine"}, "spec": spec})).await;
        let origin = json!({"workloadName": "mine", "templateName": "t"});
        let spec = json!({"schedulingPolicy": policy, "workloadRef": origin});
        home.create(&json!({"kind": "PodGroup", "metadata": {"name": "theirs"}, "spec": spec})).await;
        home.create(&job("train").pods(2).indexed().run_forever().build()).await;
        create_gang_with_deleted_success(&home, "train").await;
        let waits = |job: &JobView| {
            let mut conditions = job.status.conditions.iter();
            conditions.any(|held| {
                held.kind == "PodGroupScheduled"
                    && held.status == "False"
                    && held.message.contains("PodGroup theirs: 0 of minCount 2 pods bound")
                    && held.message.contains("annotation phalanx.dev/expected-count")
            })
        };
        home.wait_for_job("train", "it says so", waits).await;
        let annotations = json!({"phalanx.dev/expected-count": "1"});
        home.patch("podgroups/theirs", &json!({"metadata": {"annotations": annotations}})).await;
        home.wait_until_running("train", 1).await;
        home.wait_for_job("train", "it waits no longer", |job| {
            Condition::is_true(&job.status.conditions, "PodGroupScheduled")
        })
        .await;
    });
}

#[test]
fn a_child_that_names_a_missing_parent_group_reports_it() {
    on_shared_test_cluster(async |home| {
        let owner = create_parent(&home).await;
        home.create(&parent_workload(&["workers"])).await;
        let mut manifest = child("lost", &owner, "workers");
        manifest["metadata"]["annotations"]["scheduling.k8s.io/parent-compositepodgroup"] = json!("nothing");
        home.create(&manifest).await;
        let told = home.wait_for_event("ParentGroupNotFound", "lost").await;
        assert!(told.is_none_or(|message| message.contains("there is no CompositePodGroup nothing")));
    });
}

/// A Workload whose owner would be somebody else's kind, with gangs of these names, two pods each.
fn parent_workload(templates: &[&str]) -> Value {
    let template = |name: &&str| json!({"name": name, "schedulingPolicy": {"gang": {"minCount": 2}}});
    json!({
        "kind": "Workload", "metadata": {"name": "parents"},
        "spec": {
            "controllerRef": {"apiGroup": "", "kind": "Pod", "name": "parent"},
            "podGroupTemplates": templates.iter().map(template).collect::<Vec<_>>(),
        },
    })
}

/// A pod that stands for a parent of another kind; a real one, since owners that are not there do not count.
async fn create_parent(home: &TestCluster) -> Value {
    let pod = home.create(&pod("parent").annotate("phalanx.dev/run-seconds", "100000").build()).await;
    json!([{"apiVersion": "v1", "kind": "Pod", "name": "parent", "uid": pod["metadata"]["uid"], "controller": true}])
}

fn child(name: &str, owner: &Value, template: &str) -> Value {
    let annotation = json!({"scheduling.k8s.io/group-template-name": template});
    job(name).pods(2).meta("ownerReferences", owner.clone()).meta("annotations", annotation).build()
}

// Shows: U-TestJobDelegatedPodGroup, U-TestShouldManageWorkloadForJob, U-gap-two-children
#[test]
fn children_get_groups_from_the_template_of_their_parent_and_no_workload() {
    on_shared_test_cluster(async |home| {
        let owner = create_parent(&home).await;
        let workload = home.create(&parent_workload(&["workers", "servers"])).await;
        for name in ["left", "right"] {
            home.create(&child(name, &owner, "servers")).await;
        }
        for name in ["left", "right"] {
            let job = wait_until_complete(&home, name).await;
            let group = home.pods_of(name)[0].group_name().unwrap().to_owned();
            let group = home.get(&format!("podgroups/{group}")).await;
            let owners = group["metadata"]["ownerReferences"].as_array().unwrap();
            assert_eq!((owners.len(), &owners[0]["uid"]), (1, &json!(job.metadata.uid)), "{name}");
            let reference = json!({"workloadName": "parents", "templateName": "servers"});
            assert_eq!(group["spec"]["workloadRef"], reference, "{name}");
            assert_eq!(group["spec"]["schedulingPolicy"], json!({"gang": {"minCount": 2}}), "{name}");
        }
        assert_eq!((home.workloads().len(), home.pod_groups().len()), (1, 2), "a group for each, no Workload");
        assert_eq!(home.get("workloads/parents").await, workload, "the parent's is as it was");
    });
}

// Shows: U-gap-missing-parent, U-trap-no-plain-pod
#[test]
fn a_child_waits_for_the_workload_of_its_parent() {
    on_shared_test_cluster(async |home| {
        let owner = create_parent(&home).await;
        home.create(&child("early", &owner, "workers")).await;
        home.create(&job("beside").build()).await;
        wait_until_complete(&home, "beside").await;
        home.advance(MINUTE / 3).await;
        assert!(home.pods_of("early").is_empty());
        home.create(&parent_workload(&["workers"])).await;
        wait_until_complete(&home, "early").await;
        assert!(home.pods_of("early").iter().all(|pod| pod.group_name().is_some()));
    });
}

/// A Job between a parent and its children, which makes no pods of its own.
async fn create_intermediate_job(home: &TestCluster, owner: &Value) -> Value {
    let middle = home.create(&job("middle").meta("ownerReferences", owner.clone()).spec("suspend", true).build()).await;
    let uid = &middle["metadata"]["uid"];
    json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "middle", "uid": uid, "controller": true}])
}

fn waiting_message(job: &JobView) -> Option<&str> {
    let waits = job.status.conditions.iter().find(|held| held.kind == "SchedulingBlocked" && held.status == "True");
    waits.filter(|held| held.reason == "ParentWorkloadNotFound").map(|held| held.message.as_str())
}

// One row of the requirements, S004-21, asks for this and for JobSets that compile nothing under a parent.
#[test]
fn a_child_finds_the_workload_of_its_root_owner_whenever_it_is_created() {
    on_shared_test_cluster(async |mut home| {
        let root = create_parent(&home).await;
        let middle = create_intermediate_job(&home, &root).await;
        home.create(&child("early", &middle, "workers")).await;
        let job = home.wait_for_job("early", "waits", |job| waiting_message(job).is_some()).await;
        let said = waiting_message(&job).unwrap();
        assert!(said.starts_with("there is no Workload of Job middle or Pod parent, which own this Job"), "{said}");
        home.restart_component(Component::Controllers);
        home.advance(MINUTE / 3).await;
        assert!(home.pods_of("early").is_empty());
        home.create(&parent_workload(&["workers"])).await;
        home.create(&child("late", &middle, "workers")).await;
        for name in ["early", "late"] {
            let job = wait_until_complete(&home, name).await;
            assert_eq!(waiting_message(&job), None, "{name}");
            let group = home.pods_of(name)[0].group_name().unwrap().to_owned();
            let group = home.get(&format!("podgroups/{group}")).await;
            let reference = json!({"workloadName": "parents", "templateName": "workers"});
            assert_eq!(group["spec"]["workloadRef"], reference, "{name}");
            assert!(
                home.pods_of(name).iter().all(|pod| pod.group_name() == group["metadata"]["name"].as_str()),
                "{name}"
            );
        }
        assert_eq!((home.workloads().len(), home.pod_groups().len()), (1, 2), "a group for each, no Workload");
    });
}

#[test]
fn new_pods_join_the_group_of_an_ancestor_after_a_restart() {
    on_shared_test_cluster(async |mut home| {
        let root = create_parent(&home).await;
        let middle = create_intermediate_job(&home, &root).await;
        home.create(&parent_workload(&["workers"])).await;
        let mut manifest = child("goes-on", &middle, "workers");
        manifest["spec"]["template"]["metadata"]["annotations"] = json!({"phalanx.dev/run-seconds": "100000"});
        home.create(&manifest).await;
        let before = home.wait_until_running("goes-on", 2).await;
        home.stop_component(Component::Controllers);
        home.delete(&format!("pods/{}", before[0].metadata.name)).await;
        home.start_component(Component::Controllers);
        let pods = home
            .eventually("a pod in its place", MINUTE, |home| {
                let pods = home.running_pods("goes-on");
                let is_new = |pod: &Arc<PodView>| before.iter().all(|old| old.metadata.uid != pod.metadata.uid);
                (pods.len() == 2 && pods.iter().any(is_new)).then_some(pods)
            })
            .await;
        assert!(all_joined(&pods, &home.pod_groups()[0]));
        assert_eq!(home.pod_groups().len(), 1);
    });
}

// Shows: U-trap-parent-change
#[test]
fn a_child_follows_the_min_count_of_its_parents_template() {
    on_shared_test_cluster(async |home| {
        let owner = create_parent(&home).await;
        home.create(&parent_workload(&["workers"])).await;
        let mut manifest = child("grows", &owner, "workers");
        manifest["spec"]["template"]["metadata"]["annotations"] = json!({"phalanx.dev/run-seconds": "100000"});
        home.create(&manifest).await;
        home.wait_until_running("grows", 2).await;
        let template = json!({"name": "workers", "schedulingPolicy": {"gang": {"minCount": 1}}});
        home.patch("workloads/parents", &json!({"spec": {"podGroupTemplates": [template]}})).await;
        home.eventually("the group follows", MINUTE, |home| {
            (home.pod_groups().iter().map(|group| group.min_count()).collect::<Vec<_>>() == [Some(1)]).then_some(())
        })
        .await;
    });
}

// Shows: U-e2e-gang-quorum
#[test]
fn pods_of_a_gang_wait_for_quorum() {
    on_shared_test_cluster(async |home| {
        let policy = json!({"gang": {"minCount": 2}});
        home.create(&json!({"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}}))
            .await;
        home.create(&pod("first").group("g").build()).await;
        home.advance(MINUTE / 3).await;
        assert!(home.pods().iter().all(|pod| pod.node_name().is_none()), "one is not enough");
        home.create(&pod("second").group("g").build()).await;
        home.eventually("both run", MINUTE, |home| home.pods().iter().all(|pod| pod.is_finished()).then_some(())).await;
    });
}

// Shows: U-e2e-basic-at-once
#[test]
fn pods_of_a_basic_group_start_as_they_are_created() {
    on_shared_test_cluster(async |home| {
        let policy = json!({"basic": {}});
        home.create(&json!({"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}}))
            .await;
        for name in ["first", "second"] {
            home.create(&pod(name).group("g").build()).await;
            home.eventually("it has run", MINUTE, |home| {
                home.pods().iter().find(|pod| pod.metadata.name == name).filter(|pod| pod.is_finished()).map(|_| ())
            })
            .await;
        }
    });
}

// Shows: U-gap-cascade, U-e2e-job-pods-removed, U-e2e-job-delete
#[test]
fn deleting_a_job_deletes_its_pods_and_objects() {
    for policy in ["Background", "Foreground"] {
        on_shared_test_cluster(async |home| {
            home.create(&job("gone").pods(3).gang().run_forever().build()).await;
            home.wait_until_running("gone", 3).await;
            home.delete_with_policy(policy, "jobs/gone").await;
            home.eventually("all gone", MINUTE, |home| {
                let left = home.pods().len() + home.pod_groups().len() + home.workloads().len() + home.jobs().len();
                (left == 0).then_some(())
            })
            .await;
        });
    }
}

// Shows: U-gap-cascade, U-TestPodGroupProtectionController
#[test]
fn a_group_outlives_its_workload_and_a_deleted_group_stays_until_its_pods_finish() {
    on_shared_test_cluster(async |home| {
        home.create(&job("stays").pods(2).gang().run_forever().build()).await;
        let pods = home.wait_until_running("stays", 2).await;
        let group = home.pod_groups().pop().unwrap();
        home.delete(&format!("workloads/{}", home.workloads()[0].metadata.name)).await;
        home.eventually("the Workload goes", MINUTE, |home| home.workloads().is_empty().then_some(())).await;
        home.advance(MINUTE / 6).await;
        assert!(
            home.pod_groups()
                .iter()
                .any(|left| left.metadata.uid == group.metadata.uid && !left.metadata.is_deleting())
        );
        home.delete(&format!("podgroups/{}", group.metadata.name)).await;
        home.advance(MINUTE / 6).await;
        assert!(home.pod_groups()[0].metadata.is_deleting(), "its pods live");
        for pod in &pods {
            home.end_pod(pod, 0).await;
        }
        wait_until_complete(&home, "stays").await;
        home.eventually("then it goes", MINUTE, |home| home.pod_groups().is_empty().then_some(())).await;
    });
}

// Shows: U-gap-names
#[test]
fn jobs_with_long_or_dotted_names_get_their_groups() {
    on_shared_test_cluster(async |home| {
        for name in [format!("very.long.{}", "n".repeat(52)), "l".repeat(63), "d.o.t.s".to_owned()] {
            home.create(&job(&name).pods(2).gang().build()).await;
            wait_until_complete(&home, &name).await;
            assert!(home.pods_of(&name).iter().all(|pod| pod.group_name().is_some()), "{name}");
        }
        assert_eq!((home.workloads().len(), home.pod_groups().len()), (3, 3));
    });
}

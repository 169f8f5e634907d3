//! The groups of Jobs: which Jobs get which objects, their content, and their deletion.

use std::sync::Arc;
use std::time::Duration;

use api::views::{Condition, JobView, PodGroupView, PodView, WorkloadView};
use controlplane::Component;
use serde_json::{Value, json};
use testkit::{JobBuilder, TestCluster, job, on_shared_test_cluster, pod};

const MINUTE: Duration = Duration::from_secs(60);
const RACK: &str = "topology.kubernetes.io/rack";

fn min_counts(cluster: &TestCluster) -> (Vec<Option<i32>>, Vec<Option<i32>>) {
    let of = |workload: &Arc<WorkloadView>| {
        let templates = workload.spec.pod_group_templates.clone().unwrap_or_default();
        templates.iter().map(|template| template.scheduling_policy.gang.as_ref().map(|gang| gang.min_count)).collect()
    };
    let workloads: Vec<Vec<Option<i32>>> = cluster.workloads().iter().map(of).collect();
    (workloads.concat(), cluster.pod_groups().iter().map(|group| group.min_count()).collect())
}

/// The uids of the only Workload and the only PodGroup.
fn uids(cluster: &TestCluster) -> Option<(String, String)> {
    let (workloads, groups) = (cluster.workloads(), cluster.pod_groups());
    assert!(workloads.len() <= 1 && groups.len() <= 1, "one of each: {workloads:?} {groups:?}");
    Some((workloads.first()?.metadata.uid.clone(), groups.first()?.metadata.uid.clone()))
}

fn all_joined(pods: &[Arc<PodView>], group: &PodGroupView) -> bool {
    pods.iter().all(|pod| pod.group_name() == Some(group.metadata.name.as_str()))
}

async fn wait_until_complete(cluster: &TestCluster, name: &str) -> Arc<JobView> {
    let (job, condition) = cluster.wait_until_ended(name, MINUTE).await;
    assert_eq!(condition.kind, "Complete", "{name}: {condition:?}");
    job
}

// Shows: U-TestJobGangScheduling
// Shows: U-e2e-job-gang, U-e2e-job-gang-indexed, U-e2e-job-completes
#[test]
fn every_kind_of_job_gets_one_workload_and_one_group_before_its_pods() {
    let jobs: [(&str, JobBuilder); 5] = [
        ("one pod", job("a")),
        ("many pods", job("a").pods(3)),
        ("indexed", job("a").pods(3).indexed()),
        ("less parallelism than completions", job("a").spec("parallelism", 2).spec("completions", 5).indexed()),
        ("gang", job("a").pods(3).indexed().gang()),
    ];
    for (case, manifest) in jobs {
        on_shared_test_cluster(async |cluster| {
            cluster.create(&manifest.build()).await;
            let job = wait_until_complete(&cluster, "a").await;
            let (workload, group) = (cluster.workloads().pop().unwrap(), cluster.pod_groups().pop().unwrap());
            assert_eq!((cluster.workloads().len(), cluster.pod_groups().len()), (1, 1), "{case}");
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
            assert!(all_joined(&cluster.pods_of("a"), &group), "{case}");
            let history = cluster.history();
            let first = |resource: &str| history.iter().position(|change| change.resource == resource).unwrap();
            let order = ["scheduling.k8s.io/workloads", "scheduling.k8s.io/podgroups", "pods"].map(first);
            assert!(order.is_sorted(), "{case}: {order:?}");
        });
    }
}

// Shows: U-TestJobGangScheduling, U-TestShouldManageWorkloadForJob
#[test]
fn a_job_that_names_a_group_or_has_a_controller_gets_no_objects() {
    on_shared_test_cluster(async |cluster| {
        let policy = json!({"basic": {}});
        cluster
            .create(&json!({"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}}))
            .await;
        cluster.create(&job("named").pods(2).pod_spec("schedulingGroup", json!({"podGroupName": "g"})).build()).await;
        let owner = create_parent(&cluster).await;
        cluster.create(&job("owned").meta("ownerReferences", owner).build()).await;
        wait_until_complete(&cluster, "owned").await;
        assert!(cluster.pods_of("owned").iter().all(|pod| pod.group_name().is_none()));
        wait_until_complete(&cluster, "named").await;
        assert_eq!((cluster.workloads().len(), cluster.pod_groups().len()), (0, 1));
        assert!(cluster.pods_of("named").iter().all(|pod| pod.group_name() == Some("g")));
    });
}

// Shows: U-TestJobGangScheduling, U-TestSuspendJobControllerRestart
#[test]
fn a_suspended_job_gets_its_objects_and_keeps_them_across_controller_restarts() {
    on_shared_test_cluster(async |mut cluster| {
        cluster.create(&job("later").pods(3).gang().spec("suspend", true).build()).await;
        cluster.wait_for_job("later", "suspended", |job| Condition::is_true(&job.status.conditions, "Suspended")).await;
        let before = cluster.eventually("both objects", MINUTE, uids).await;
        cluster.restart_component(Component::Controllers);
        cluster.advance(MINUTE / 6).await;
        assert!(cluster.pods_of("later").is_empty(), "still suspended");
        cluster.patch("jobs/later", &json!({"spec": {"suspend": false}})).await;
        wait_until_complete(&cluster, "later").await;
        assert_eq!(uids(&cluster), Some(before));
        assert!(all_joined(&cluster.pods_of("later"), &cluster.pod_groups()[0]));
    });
}

// Shows: U-TestJobGangScheduling
#[test]
fn the_scheduling_fields_of_a_job_are_copied_to_both_objects() {
    on_shared_test_cluster(async |cluster| {
        let mut manifest = job("asks").pods(3).indexed().gang().in_topology(RACK).build();
        manifest["spec"]["scheduling"]["schedulingPolicy"]["gang"]["minCount"] = json!(2);
        manifest["spec"]["scheduling"]["disruptionMode"] = json!({"all": {}});
        cluster.create(&manifest).await;
        wait_until_complete(&cluster, "asks").await;
        let workload = cluster.get(&format!("workloads/{}", cluster.workloads()[0].metadata.name)).await;
        let group = cluster.get(&format!("podgroups/{}", cluster.pod_groups()[0].metadata.name)).await;
        for fields in [&workload["spec"]["podGroupTemplates"][0], &group["spec"]] {
            assert_eq!(fields["schedulingPolicy"], json!({"gang": {"minCount": 2}}));
            assert_eq!(fields["schedulingConstraints"], json!({"topology": [{"key": RACK}]}));
            assert_eq!(fields["disruptionMode"], json!({"all": {}}));
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
    on_shared_test_cluster(async |mut cluster| {
        let mut manifest = job("elastic").spec("parallelism", 6).run_forever().gang().build();
        manifest["spec"]["scheduling"]["schedulingPolicy"]["gang"]["minCount"] = json!(4);
        cluster.create(&manifest).await;
        cluster.wait_until_running("elastic", 6).await;
        let before = uids(&cluster);
        assert_eq!(min_counts(&cluster), (vec![Some(4)], vec![Some(4)]));
        for count in [6, 2] {
            let gang = json!({"gang": {"minCount": count}});
            cluster.patch("jobs/elastic", &json!({"spec": {"scheduling": {"schedulingPolicy": gang}}})).await;
            let want = (vec![Some(count)], vec![Some(count)]);
            cluster.eventually("both follow", MINUTE, |cluster| (min_counts(cluster) == want).then_some(())).await;
            cluster.restart_component(Component::Controllers);
        }
        assert_eq!(uids(&cluster), before);
        assert_eq!(
            (cluster.running_pods("elastic").len(), cluster.created_count("pods")),
            (6, 6),
            "no pod was replaced"
        );
    });
}

// Shows: U-TestSyncGangMinCount, U-trap-wakes
#[test]
fn a_gang_without_min_count_follows_parallelism_and_reverts_foreign_changes() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("follows").spec("parallelism", 2).gang().run_forever().build()).await;
        cluster.wait_until_running("follows", 2).await;
        cluster.patch("jobs/follows", &json!({"spec": {"parallelism": 4}})).await;
        cluster.wait_until_running("follows", 4).await;
        let want = (vec![Some(4)], vec![Some(4)]);
        cluster.eventually("both follow", MINUTE, |cluster| (min_counts(cluster) == want).then_some(())).await;
        let group = format!("podgroups/{}", cluster.pod_groups()[0].metadata.name);
        cluster.patch(&group, &json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}})).await;
        cluster
            .eventually("moved", MINUTE, |cluster| {
                let moved = |c: &testkit::RecordedWrite| c.object["spec"]["schedulingPolicy"]["gang"]["minCount"] == 1;
                (cluster.history().iter().any(moved) && min_counts(cluster) == want).then_some(())
            })
            .await;
    });
}

// Shows: U-TestJobGangSchedulingSuspendResume, U-e2e-job-suspend-deletes, U-TestSuspendJob
#[test]
fn repeated_suspension_deletes_the_pods_and_keeps_the_objects() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("rests").pods(3).gang().run_forever().build()).await;
        cluster.wait_until_running("rests", 3).await;
        let before = uids(&cluster);
        for round in 1..=2 {
            cluster.patch("jobs/rests", &json!({"spec": {"suspend": true}})).await;
            cluster.eventually("no pods", MINUTE, |cluster| cluster.pods_of("rests").is_empty().then_some(())).await;
            let job = cluster
                .wait_for_job("rests", "suspended", |job| {
                    Condition::is_true(&job.status.conditions, "Suspended") && job.status.active == 0
                })
                .await;
            assert_eq!((job.status.failed, job.status.start_time), (0, None), "round {round}: no pod failed");
            cluster.patch("jobs/rests", &json!({"spec": {"suspend": false}})).await;
            let pods = cluster.wait_until_running("rests", 3).await;
            assert_eq!(uids(&cluster), before, "round {round}");
            assert!(all_joined(&pods, &cluster.pod_groups()[0]), "round {round}");
        }
        cluster.wait_for_event("Suspended", "rests").await;
        cluster.wait_for_event("Resumed", "rests").await;
    });
}

/// A gang of two: index 0 has succeeded and its pod is deleted, then index 1 has failed.
async fn create_gang_with_deleted_success(cluster: &TestCluster, name: &str) {
    let pods = cluster.wait_until_running(name, 2).await;
    let of_index = |index: &str| {
        let key = "batch.kubernetes.io/job-completion-index";
        pods.iter().find(|pod| pod.metadata.annotations.get(key).is_some_and(|found| found == index)).unwrap()
    };
    let (first, second) = (of_index("0"), of_index("1"));
    cluster.end_pod(first, 0).await;
    cluster.wait_for_job(name, "index 0 is counted", |job| job.status.succeeded == 1).await;
    cluster.delete(&format!("pods/{}", first.metadata.name)).await;
    cluster.eventually("its pod is deleted", MINUTE, |cluster| (cluster.pods_of(name).len() == 1).then_some(())).await;
    cluster.end_pod(second, 1).await;
}

/// The values of the only PodGroup's annotation over time.
fn expected_counts(cluster: &TestCluster) -> Vec<String> {
    let groups = cluster.history().into_iter().filter(|change| change.resource == "scheduling.k8s.io/podgroups");
    let expected_count = |change: testkit::RecordedWrite| {
        Some(change.object["metadata"]["annotations"][PodGroupView::EXPECTED_COUNT_ANNOTATION].as_str()?.to_owned())
    };
    let mut counts: Vec<String> = groups.filter_map(expected_count).collect();
    counts.dedup();
    counts
}

// Observed: the replacement waited without end, because 1 of minCount 2 pods existed.
#[test]
fn a_gang_whose_finished_pod_is_deleted_replaces_a_failed_pod() {
    on_shared_test_cluster(async |mut cluster| {
        cluster.create(&job("train").pods(2).indexed().gang().run_forever().build()).await;
        create_gang_with_deleted_success(&cluster, "train").await;
        cluster.restart_component(Component::Controllers);
        let pod = cluster.wait_until_running("train", 1).await.pop().unwrap();
        assert_eq!(
            expected_counts(&cluster),
            ["2", "1"],
            "written when the group was created, and when fewer pods remained"
        );
        cluster.end_pod(&pod, 0).await;
        wait_until_complete(&cluster, "train").await;
        assert_eq!(expected_counts(&cluster), ["2", "1"]);
    });
}

// Observed: it waited, and the Job did not report it.
#[test]
fn a_job_reports_how_to_set_the_expected_count_of_a_user_created_group() {
    on_shared_test_cluster(async |cluster| {
        let policy = json!({"gang": {"minCount": 2}});
        let controller_ref = json!({"apiGroup": "batch", "kind": "Job", "name": "train"});
        let spec =
            json!({"controllerRef": controller_ref, "podGroupTemplates": [{"name": "t", "schedulingPolicy": policy}]});
        cluster.create(&json!({"kind": "Workload", "metadata": {"name": "mine"}, "spec": spec})).await;
        let workload_ref = json!({"workloadName": "mine", "templateName": "t"});
        let spec = json!({"schedulingPolicy": policy, "workloadRef": workload_ref});
        cluster.create(&json!({"kind": "PodGroup", "metadata": {"name": "theirs"}, "spec": spec})).await;
        cluster.create(&job("train").pods(2).indexed().run_forever().build()).await;
        create_gang_with_deleted_success(&cluster, "train").await;
        let waits = |job: &JobView| {
            let mut conditions = job.status.conditions.iter();
            conditions.any(|one| {
                one.kind == "PodGroupScheduled"
                    && one.status == "False"
                    && one.message.contains("PodGroup theirs: 0 of minCount 2 pods bound")
                    && one.message.contains("annotation phalanx.dev/expected-count")
            })
        };
        cluster.wait_for_job("train", "it reports why it waits", waits).await;
        let annotations = json!({"phalanx.dev/expected-count": "1"});
        cluster.patch("podgroups/theirs", &json!({"metadata": {"annotations": annotations}})).await;
        cluster.wait_until_running("train", 1).await;
        cluster
            .wait_for_job("train", "it no longer waits", |job| {
                Condition::is_true(&job.status.conditions, "PodGroupScheduled")
            })
            .await;
    });
}

#[test]
fn a_child_that_names_a_missing_parent_group_reports_it() {
    on_shared_test_cluster(async |cluster| {
        let owner = create_parent(&cluster).await;
        cluster.create(&parent_workload(&["workers"])).await;
        let mut manifest = child("lost", &owner, "workers");
        manifest["metadata"]["annotations"]["scheduling.k8s.io/parent-compositepodgroup"] = json!("nothing");
        cluster.create(&manifest).await;
        let event = cluster.wait_for_event("ParentGroupNotFound", "lost").await;
        assert!(
            event.is_none_or(|message| message.contains("the parent CompositePodGroup nothing, which does not exist"))
        );
    });
}

/// A Workload of a parent of another kind, with gangs of two pods with these names.
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

/// A pod in the role of a parent of another kind. It must exist, because missing owners do not count.
async fn create_parent(cluster: &TestCluster) -> Value {
    let pod = cluster.create(&pod("parent").annotate("phalanx.dev/run-seconds", "100000").build()).await;
    json!([{"apiVersion": "v1", "kind": "Pod", "name": "parent", "uid": pod["metadata"]["uid"], "controller": true}])
}

fn child(name: &str, owner: &Value, template: &str) -> Value {
    let annotation = json!({"scheduling.k8s.io/group-template-name": template});
    job(name).pods(2).meta("ownerReferences", owner.clone()).meta("annotations", annotation).build()
}

// Shows: U-TestJobDelegatedPodGroup, U-TestShouldManageWorkloadForJob, U-gap-two-children
#[test]
fn children_get_groups_from_the_template_of_their_parent_and_no_workload() {
    on_shared_test_cluster(async |cluster| {
        let owner = create_parent(&cluster).await;
        let workload = cluster.create(&parent_workload(&["workers", "servers"])).await;
        for name in ["left", "right"] {
            cluster.create(&child(name, &owner, "servers")).await;
        }
        for name in ["left", "right"] {
            let job = wait_until_complete(&cluster, name).await;
            let group = cluster.pods_of(name)[0].group_name().unwrap().to_owned();
            let group = cluster.get(&format!("podgroups/{group}")).await;
            let owners = group["metadata"]["ownerReferences"].as_array().unwrap();
            assert_eq!((owners.len(), &owners[0]["uid"]), (1, &json!(job.metadata.uid)), "{name}");
            let reference = json!({"workloadName": "parents", "templateName": "servers"});
            assert_eq!(group["spec"]["workloadRef"], reference, "{name}");
            assert_eq!(group["spec"]["schedulingPolicy"], json!({"gang": {"minCount": 2}}), "{name}");
        }
        assert_eq!((cluster.workloads().len(), cluster.pod_groups().len()), (1, 2), "a group for each, no Workload");
        assert_eq!(cluster.get("workloads/parents").await, workload, "the parent's Workload is unchanged");
    });
}

// Shows: U-gap-missing-parent, U-trap-no-plain-pod
#[test]
fn a_child_waits_for_the_workload_of_its_parent() {
    on_shared_test_cluster(async |cluster| {
        let owner = create_parent(&cluster).await;
        cluster.create(&child("early", &owner, "workers")).await;
        cluster.create(&job("beside").build()).await;
        wait_until_complete(&cluster, "beside").await;
        cluster.advance(MINUTE / 3).await;
        assert!(cluster.pods_of("early").is_empty());
        cluster.create(&parent_workload(&["workers"])).await;
        wait_until_complete(&cluster, "early").await;
        assert!(cluster.pods_of("early").iter().all(|pod| pod.group_name().is_some()));
    });
}

/// A Job between a parent and its children, without pods.
async fn create_intermediate_job(cluster: &TestCluster, owner: &Value) -> Value {
    let middle =
        cluster.create(&job("middle").meta("ownerReferences", owner.clone()).spec("suspend", true).build()).await;
    let uid = &middle["metadata"]["uid"];
    json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "middle", "uid": uid, "controller": true}])
}

fn waiting_message(job: &JobView) -> Option<&str> {
    let blocked = job.status.conditions.iter().find(|one| one.kind == "SchedulingBlocked" && one.status == "True");
    blocked.filter(|one| one.reason == "ParentWorkloadNotFound").map(|one| one.message.as_str())
}

// The requirement S004-21 includes this, and JobSets that compile nothing under a parent.
#[test]
fn a_child_finds_the_workload_of_its_root_owner_whenever_it_is_created() {
    on_shared_test_cluster(async |mut cluster| {
        let root = create_parent(&cluster).await;
        let middle = create_intermediate_job(&cluster, &root).await;
        cluster.create(&child("early", &middle, "workers")).await;
        let job = cluster.wait_for_job("early", "waits", |job| waiting_message(job).is_some()).await;
        let message = waiting_message(&job).unwrap();
        assert!(
            message.starts_with("there is no Workload of Job middle or Pod parent, which own this Job"),
            "{message}"
        );
        cluster.restart_component(Component::Controllers);
        cluster.advance(MINUTE / 3).await;
        assert!(cluster.pods_of("early").is_empty());
        cluster.create(&parent_workload(&["workers"])).await;
        cluster.create(&child("late", &middle, "workers")).await;
        for name in ["early", "late"] {
            let job = wait_until_complete(&cluster, name).await;
            assert_eq!(waiting_message(&job), None, "{name}");
            let group = cluster.pods_of(name)[0].group_name().unwrap().to_owned();
            let group = cluster.get(&format!("podgroups/{group}")).await;
            let reference = json!({"workloadName": "parents", "templateName": "workers"});
            assert_eq!(group["spec"]["workloadRef"], reference, "{name}");
            assert!(
                cluster.pods_of(name).iter().all(|pod| pod.group_name() == group["metadata"]["name"].as_str()),
                "{name}"
            );
        }
        assert_eq!((cluster.workloads().len(), cluster.pod_groups().len()), (1, 2), "a group for each, no Workload");
    });
}

#[test]
fn new_pods_join_the_group_of_an_ancestor_after_a_restart() {
    on_shared_test_cluster(async |mut cluster| {
        let root = create_parent(&cluster).await;
        let middle = create_intermediate_job(&cluster, &root).await;
        cluster.create(&parent_workload(&["workers"])).await;
        let mut manifest = child("goes-on", &middle, "workers");
        manifest["spec"]["template"]["metadata"]["annotations"] = json!({"phalanx.dev/run-seconds": "100000"});
        cluster.create(&manifest).await;
        let before = cluster.wait_until_running("goes-on", 2).await;
        cluster.stop_component(Component::Controllers);
        cluster.delete(&format!("pods/{}", before[0].metadata.name)).await;
        cluster.start_component(Component::Controllers);
        let pods = cluster
            .eventually("a replacement pod", MINUTE, |cluster| {
                let pods = cluster.running_pods("goes-on");
                let is_new = |pod: &Arc<PodView>| before.iter().all(|old| old.metadata.uid != pod.metadata.uid);
                (pods.len() == 2 && pods.iter().any(is_new)).then_some(pods)
            })
            .await;
        assert!(all_joined(&pods, &cluster.pod_groups()[0]));
        assert_eq!(cluster.pod_groups().len(), 1);
    });
}

// Shows: U-trap-parent-change
#[test]
fn a_child_follows_the_min_count_of_its_parents_template() {
    on_shared_test_cluster(async |cluster| {
        let owner = create_parent(&cluster).await;
        cluster.create(&parent_workload(&["workers"])).await;
        let mut manifest = child("grows", &owner, "workers");
        manifest["spec"]["template"]["metadata"]["annotations"] = json!({"phalanx.dev/run-seconds": "100000"});
        cluster.create(&manifest).await;
        cluster.wait_until_running("grows", 2).await;
        let template = json!({"name": "workers", "schedulingPolicy": {"gang": {"minCount": 1}}});
        cluster.patch("workloads/parents", &json!({"spec": {"podGroupTemplates": [template]}})).await;
        cluster
            .eventually("the group follows", MINUTE, |cluster| {
                (cluster.pod_groups().iter().map(|group| group.min_count()).collect::<Vec<_>>() == [Some(1)])
                    .then_some(())
            })
            .await;
    });
}

// Shows: U-e2e-gang-quorum
#[test]
fn pods_of_a_gang_wait_for_quorum() {
    on_shared_test_cluster(async |cluster| {
        let policy = json!({"gang": {"minCount": 2}});
        cluster
            .create(&json!({"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}}))
            .await;
        cluster.create(&pod("first").group("g").build()).await;
        cluster.advance(MINUTE / 3).await;
        assert!(cluster.pods().iter().all(|pod| pod.node_name().is_none()), "one pod is not enough");
        cluster.create(&pod("second").group("g").build()).await;
        cluster
            .eventually("both finish", MINUTE, |cluster| {
                cluster.pods().iter().all(|pod| pod.is_finished()).then_some(())
            })
            .await;
    });
}

// Shows: U-e2e-basic-at-once
#[test]
fn pods_of_a_basic_group_start_as_they_are_created() {
    on_shared_test_cluster(async |cluster| {
        let policy = json!({"basic": {}});
        cluster
            .create(&json!({"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}}))
            .await;
        for name in ["first", "second"] {
            cluster.create(&pod(name).group("g").build()).await;
            cluster
                .eventually("it has run", MINUTE, |cluster| {
                    cluster
                        .pods()
                        .iter()
                        .find(|pod| pod.metadata.name == name)
                        .filter(|pod| pod.is_finished())
                        .map(|_| ())
                })
                .await;
        }
    });
}

// Shows: U-gap-cascade, U-e2e-job-pods-removed, U-e2e-job-delete
#[test]
fn deleting_a_job_deletes_its_pods_and_objects() {
    for policy in ["Background", "Foreground"] {
        on_shared_test_cluster(async |cluster| {
            cluster.create(&job("gone").pods(3).gang().run_forever().build()).await;
            cluster.wait_until_running("gone", 3).await;
            cluster.delete_with_policy(policy, "jobs/gone").await;
            cluster
                .eventually("all are deleted", MINUTE, |cluster| {
                    let left = cluster.pods().len()
                        + cluster.pod_groups().len()
                        + cluster.workloads().len()
                        + cluster.jobs().len();
                    (left == 0).then_some(())
                })
                .await;
        });
    }
}

// Shows: U-gap-cascade, U-TestPodGroupProtectionController
#[test]
fn a_group_outlives_its_workload_and_a_deleted_group_stays_until_its_pods_finish() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("stays").pods(2).gang().run_forever().build()).await;
        let pods = cluster.wait_until_running("stays", 2).await;
        let group = cluster.pod_groups().pop().unwrap();
        cluster.delete(&format!("workloads/{}", cluster.workloads()[0].metadata.name)).await;
        cluster
            .eventually("the Workload is deleted", MINUTE, |cluster| cluster.workloads().is_empty().then_some(()))
            .await;
        cluster.advance(MINUTE / 6).await;
        assert!(
            cluster
                .pod_groups()
                .iter()
                .any(|left| left.metadata.uid == group.metadata.uid && !left.metadata.is_deleting())
        );
        cluster.delete(&format!("podgroups/{}", group.metadata.name)).await;
        cluster.advance(MINUTE / 6).await;
        assert!(cluster.pod_groups()[0].metadata.is_deleting(), "its pods are not finished");
        for pod in &pods {
            cluster.end_pod(pod, 0).await;
        }
        wait_until_complete(&cluster, "stays").await;
        cluster.eventually("then it is removed", MINUTE, |cluster| cluster.pod_groups().is_empty().then_some(())).await;
    });
}

// Shows: U-gap-names
#[test]
fn jobs_with_long_or_dotted_names_get_their_groups() {
    on_shared_test_cluster(async |cluster| {
        for name in [format!("very.long.{}", "n".repeat(52)), "l".repeat(63), "d.o.t.s".to_owned()] {
            cluster.create(&job(&name).pods(2).gang().build()).await;
            wait_until_complete(&cluster, &name).await;
            assert!(cluster.pods_of(&name).iter().all(|pod| pod.group_name().is_some()), "{name}");
        }
        assert_eq!((cluster.workloads().len(), cluster.pod_groups().len()), (3, 3));
    });
}

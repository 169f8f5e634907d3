//! Ownership of Jobs and pods: Jobs of other controllers, adoption and release, terminating pods.

use std::time::Duration;

use api::views::{Condition, JobView};
use controlplane::Component;
use serde_json::{Value, json};
use testkit::{JobBuilder, TestCluster, job, on_shared_test_cluster, pod};

const MINUTE: Duration = Duration::from_secs(60);
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const OTHERS: &str = "example.com/other";

/// Pods that ignore termination and end only when the test ends them.
fn ignoring_termination(job: JobBuilder) -> JobBuilder {
    job.run_forever().annotate("phalanx.dev/ignore-stop", "true").pod_spec("terminationGracePeriodSeconds", 3600)
}

async fn wait_until_complete(cluster: &TestCluster, name: &str) {
    let (_, condition) = cluster.wait_until_ended(name, MINUTE).await;
    assert_eq!(condition.kind, "Complete", "{name}: {condition:?}");
}

/// The number of writes to a Job, including its creation.
fn writes_to(cluster: &TestCluster, name: &str) -> usize {
    cluster.history().iter().filter(|change| change.resource == "batch/jobs" && change.name() == name).count()
}

// Shows: U-TestManagedBy, U-TestManagedBy_Reenabling, U-e2e-job-managed-by
#[test]
fn a_job_managed_by_another_controller_is_ignored_and_one_managed_by_ours_is_not() {
    on_shared_test_cluster(async |mut cluster| {
        cluster.create(&job("theirs").spec("managedBy", OTHERS).build()).await;
        cluster.create(&job("ours").spec("managedBy", "kubernetes.io/job-controller").build()).await;
        wait_until_complete(&cluster, "ours").await;
        cluster.restart_component(Component::Controllers);
        cluster.create(&job("after").build()).await;
        wait_until_complete(&cluster, "after").await;
        assert_eq!((cluster.pods_of("theirs").len(), writes_to(&cluster, "theirs")), (0, 1));
        assert_eq!(cluster.workloads().len(), 2, "it has no scheduling objects");
    });
}

// Shows: U-TestManagedBy_RecreatedJob
#[test]
fn a_recreated_job_managed_by_another_controller_is_ignored() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("name").pods(2).run_forever().build()).await;
        cluster.wait_until_running("name", 2).await;
        cluster.delete("jobs/name").await;
        cluster.eventually("it is deleted", MINUTE, |cluster| cluster.job("name").is_none().then_some(())).await;
        cluster.create(&job("name").pods(2).spec("managedBy", OTHERS).build()).await;
        cluster.create(&job("after").build()).await;
        wait_until_complete(&cluster, "after").await;
        cluster
            .eventually("the pods of the first Job are deleted", MINUTE, |cluster| {
                cluster.pods_of("name").is_empty().then_some(())
            })
            .await;
        let uid = cluster.job("name").unwrap().metadata.uid.clone();
        let writes = cluster.history().into_iter().filter(|change| change.object["metadata"]["uid"] == *uid).count();
        assert_eq!(writes, 1, "only its creation");
    });
}

// Shows: U-TestManagedBy_UsingReservedJobFinalizers
#[test]
fn tracking_finalizers_of_another_controllers_pods_are_not_removed() {
    on_shared_test_cluster(async |mut cluster| {
        let theirs = cluster.create(&job("theirs").spec("managedBy", OTHERS).build()).await;
        let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "theirs", "controller": true,
            "uid": theirs["metadata"]["uid"]}]);
        let mut held = pod("held").build();
        held["metadata"]["ownerReferences"] = owner;
        held["metadata"]["finalizers"] = json!([TRACKING]);
        held["metadata"]["labels"] = theirs["spec"]["template"]["metadata"]["labels"].clone();
        cluster.create(&held).await;
        cluster.eventually("it ends", MINUTE, |cluster| cluster.pods().first()?.is_finished().then_some(())).await;
        cluster.restart_component(Component::Controllers);
        cluster.create(&job("after").build()).await;
        wait_until_complete(&cluster, "after").await;
        cluster.advance(MINUTE / 6).await;
        let pods = cluster.pods_of("theirs");
        assert!(pods[0].metadata.has_finalizer(TRACKING), "the finalizer belongs to the other controller");
        cluster.patch("pods/held", &json!({"metadata": {"finalizers": null}})).await;
    });
}

// Shows: U-e2e-job-adopt-release
#[test]
fn a_matching_pod_is_adopted_and_a_pod_that_no_longer_matches_is_released() {
    on_shared_test_cluster(async |cluster| {
        let created = cluster.create(&job("family").spec("parallelism", 2).run_forever().build()).await;
        let pods = cluster.wait_until_running("family", 2).await;
        let path = format!("pods/{}", pods[0].metadata.name);
        cluster.patch(&path, &json!({"metadata": {"labels": {"batch.kubernetes.io/controller-uid": null}}})).await;
        cluster
            .eventually("it is released", MINUTE, |cluster| {
                let pods = cluster.pods();
                let pod = pods.iter().find(|pod| pod.metadata.uid == pods_uid(&pods, &path))?;
                (pod.metadata.controller().is_none() && !pod.metadata.has_finalizer(TRACKING)).then_some(())
            })
            .await;
        cluster.wait_until_running("family", 2).await;
        let labels = json!({"batch.kubernetes.io/controller-uid": created["metadata"]["uid"]});
        cluster.patch(&path, &json!({"metadata": {"labels": labels}})).await;
        cluster
            .eventually("it is adopted", MINUTE, |cluster| {
                let pods = cluster.pods();
                let pod = pods.iter().find(|pod| pod.metadata.uid == pods_uid(&pods, &path))?;
                let owner = pod.metadata.controller()?;
                (owner.uid == created["metadata"]["uid"] && pod.metadata.has_finalizer(TRACKING)).then_some(())
            })
            .await;
        cluster.wait_until_running("family", 2).await;
    });
}

/// The uid of the pod at a path.
fn pods_uid(pods: &[std::sync::Arc<api::views::PodView>], path: &str) -> String {
    let name = path.rsplit('/').next().unwrap();
    pods.iter().find(|pod| pod.metadata.name == name).map(|pod| pod.metadata.uid.clone()).unwrap_or_default()
}

// Shows: U-TestJobPodReplacementPolicy, U-e2e-job-replacement-failed
#[test]
fn terminating_pods_are_replaced_as_the_pod_replacement_policy_says() {
    for (policy, indexed, at_once) in [
        ("TerminatingOrFailed", false, true),
        ("TerminatingOrFailed", true, true),
        ("Failed", false, false),
        ("Failed", true, false),
    ] {
        on_shared_test_cluster(async |cluster| {
            let manifest = ignoring_termination(job("ends").pods(2)).spec("podReplacementPolicy", policy);
            cluster.create(&if indexed { manifest.indexed() } else { manifest }.build()).await;
            let pods = cluster.wait_until_running("ends", 2).await;
            for pod in &pods {
                cluster.delete(&format!("pods/{}", pod.metadata.name)).await;
            }
            let case = format!("{policy}, indexed {indexed}");
            let want = if at_once { 2 } else { 0 };
            cluster
                .eventually(&case, MINUTE, |cluster| {
                    let status = &cluster.job("ends")?.status;
                    (status.terminating == Some(2) && status.active == want).then_some(())
                })
                .await;
            if !at_once {
                cluster.advance(MINUTE / 2).await;
                assert_eq!(cluster.created_count("pods"), 2, "{case}");
                assert_eq!(cluster.job("ends").unwrap().status.failed, 0, "{case}: no pod has failed yet");
            }
            for pod in &pods {
                cluster.end_pod(pod, 137).await;
            }
            cluster
                .eventually(&case, 3 * MINUTE, |cluster| {
                    let status = &cluster.job("ends")?.status;
                    (status.terminating.unwrap_or(0) == 0 && status.active == 2 && status.failed == 2).then_some(())
                })
                .await;
            assert_eq!(cluster.created_count("pods"), 4, "{case}");
        });
    }
}

// Shows: U-TestDelayTerminalPhaseCondition
#[test]
fn a_job_finishes_only_after_its_last_pod() {
    let deadline: fn(JobBuilder) -> JobBuilder = |job| job.spec("activeDeadlineSeconds", 20);
    let policy = json!({"rules": [{"succeededCount": 1}]});
    let success_policy = |job: JobBuilder| job.spec("successPolicy", policy.clone());
    for (interim, last, manifest) in [
        ("FailureTarget", "Failed", deadline(ignoring_termination(job("ends").pods(2).indexed()))),
        ("SuccessCriteriaMet", "Complete", success_policy(ignoring_termination(job("ends").pods(2).indexed()))),
    ] {
        on_shared_test_cluster(async |mut cluster| {
            cluster.create(&manifest.clone().build()).await;
            let pods = cluster.wait_until_running("ends", 2).await;
            if interim == "SuccessCriteriaMet" {
                cluster.end_pod(&pods[0], 0).await;
            }
            let is_interim = |job: &JobView| Condition::is_true(&job.status.conditions, interim);
            cluster.wait_for_job("ends", interim, is_interim).await;
            cluster
                .wait_for_job("ends", "its pods are terminating", |job| job.status.terminating.unwrap_or(0) > 0)
                .await;
            cluster.restart_component(Component::Controllers);
            cluster.advance(MINUTE / 6).await;
            let job = cluster.job("ends").unwrap();
            assert!(!Condition::is_true(&job.status.conditions, last), "{last} is too early: {:?}", job.status);
            for pod in cluster.pods_of("ends").iter().filter(|pod| !pod.is_finished()) {
                cluster.end_pod(pod, 137).await;
            }
            let (job, condition) = cluster.wait_until_ended("ends", MINUTE).await;
            assert_eq!((condition.kind.as_str(), job.status.terminating.unwrap_or(0)), (last, 0));
        });
    }
}

/// Kind and controller flag of a pod's owners.
fn owners(pod: &Value) -> Vec<(&str, bool)> {
    let owners = pod["metadata"]["ownerReferences"].as_array().unwrap();
    owners.iter().map(|owner| (owner["kind"].as_str().unwrap(), owner["controller"] == true)).collect()
}

// Shows: U-gap-pod-owners
#[test]
fn pods_are_owned_by_their_group_only_with_our_garbage_collector() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("owned").gang().run_forever().build()).await;
        let pod = cluster.wait_until_running("owned", 1).await.pop().unwrap();
        let pod = cluster.get(&format!("pods/{}", pod.metadata.name)).await;
        // Upstream: its garbage collector would wait for the group, and the group waits for the pod.
        let want = if cluster.has_own_gc() { vec![("Job", true), ("PodGroup", false)] } else { vec![("Job", true)] };
        assert_eq!(owners(&pod), want);
    });
}

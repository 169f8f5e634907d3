//! How Jobs count: the number of pods, which of them are replaced, and completion.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::views::{JobView, PodView};
use controlplane::Component;
use serde_json::{Value, json};
use testkit::{TestCluster, job, on_shared_test_cluster};

const MINUTE: Duration = Duration::from_secs(60);
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

fn counts(job: &JobView) -> (i32, i32, i32) {
    (job.status.active, job.status.succeeded, job.status.failed)
}

async fn wait_for_counts(cluster: &TestCluster, name: &str, want: (i32, i32, i32)) {
    cluster.wait_for_job(name, &format!("active, succeeded, failed are {want:?}"), |job| counts(job) == want).await;
}

async fn wait_until_complete(cluster: &TestCluster, name: &str) -> Arc<JobView> {
    let (job, condition) = cluster.wait_until_ended(name, MINUTE).await;
    assert_eq!(condition.kind, "Complete", "{name}: {condition:?}");
    job
}

/// Waits until the tracking finalizer is removed from all pods.
async fn wait_until_finalizers_removed(cluster: &TestCluster) {
    cluster
        .eventually("every finalizer is removed", MINUTE, |cluster| {
            cluster.pods().iter().all(|pod| !pod.metadata.has_finalizer(TRACKING)).then_some(())
        })
        .await;
}

fn index_of(pod: &PodView) -> u32 {
    pod.metadata.labels.get(INDEX).unwrap().parse().unwrap()
}

fn with_index(pods: &[Arc<PodView>], index: u32) -> Arc<PodView> {
    pods.iter().find(|pod| index_of(pod) == index).unwrap().clone()
}

fn indexes(pods: &[Arc<PodView>]) -> BTreeSet<u32> {
    pods.iter().map(|pod| index_of(pod)).collect()
}

// Shows: U-TestNonParallelJob, U-e2e-job-restart-elsewhere
#[test]
fn a_failed_pod_is_replaced_and_counted_across_controller_restarts() {
    on_shared_test_cluster(async |mut cluster| {
        cluster.create(&job("one").run_forever().build()).await;
        let pods = cluster.wait_until_running("one", 1).await;
        assert!(pods[0].metadata.has_finalizer(TRACKING), "the finalizer stays until the pod is counted");
        cluster.restart_component(Component::Controllers);
        cluster.end_pod(&pods[0], 1).await;
        let pods = cluster.wait_until_running("one", 1).await;
        wait_for_counts(&cluster, "one", (1, 0, 1)).await;
        cluster.restart_component(Component::Controllers);
        cluster.end_pod(&pods[0], 0).await;
        let job = wait_until_complete(&cluster, "one").await;
        assert_eq!((counts(&job), job.status.ready), ((0, 1, 1), Some(0)));
        wait_until_finalizers_removed(&cluster).await;
        cluster.wait_for_event("Completed", "one").await;
    });
}

// Shows: U-TestParallelJob
#[test]
fn a_job_without_completions_creates_no_pods_after_the_first_success() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("some").spec("parallelism", 4).run_forever().build()).await;
        let pods = cluster.wait_until_running("some", 4).await;
        for pod in &pods[..2] {
            cluster.end_pod(pod, 1).await;
        }
        cluster.wait_until_running("some", 4).await;
        wait_for_counts(&cluster, "some", (4, 0, 2)).await;
        let pods = cluster.running_pods("some");
        cluster.end_pod(&pods[0], 0).await;
        wait_for_counts(&cluster, "some", (3, 1, 2)).await;
        cluster.end_pod(&pods[1], 1).await;
        wait_for_counts(&cluster, "some", (2, 1, 3)).await;
        for pod in &pods[2..] {
            cluster.end_pod(pod, 0).await;
        }
        let job = wait_until_complete(&cluster, "some").await;
        assert_eq!(counts(&job), (0, 3, 3));
        assert_eq!(cluster.created_count("pods"), 6, "no pod was created after the first success");
        wait_until_finalizers_removed(&cluster).await;
    });
}

// Shows: U-TestParallelJobChangingParallelism
#[test]
fn the_number_of_pods_follows_parallelism_up_and_down() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("moves").spec("parallelism", 4).spec("completions", 8).run_forever().build()).await;
        cluster.wait_until_running("moves", 4).await;
        for parallelism in [6, 2, 0, 3] {
            cluster.patch("jobs/moves", &json!({"spec": {"parallelism": parallelism}})).await;
            cluster.wait_until_running("moves", usize::try_from(parallelism).unwrap()).await;
            cluster.wait_for_job("moves", "follows", |job| job.status.active == parallelism).await;
        }
        let job = cluster.job("moves").unwrap();
        assert_eq!((job.status.succeeded, job.status.completion_time), (0, None));
    });
}

// Shows: U-TestParallelJobWithCompletions
#[test]
fn active_pods_never_exceed_the_missing_completions() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("counted").spec("parallelism", 6).spec("completions", 4).run_forever().build()).await;
        let pods = cluster.wait_until_running("counted", 4).await;
        cluster.end_pod(&pods[0], 1).await;
        cluster.wait_until_running("counted", 4).await;
        wait_for_counts(&cluster, "counted", (4, 0, 1)).await;
        let pods = cluster.running_pods("counted");
        for pod in &pods[..2] {
            cluster.end_pod(pod, 0).await;
        }
        wait_for_counts(&cluster, "counted", (2, 2, 1)).await;
        for pod in &pods[2..] {
            cluster.end_pod(pod, 0).await;
        }
        assert_eq!(counts(&*wait_until_complete(&cluster, "counted").await), (0, 4, 1));
        assert_eq!(cluster.created_count("pods"), 5);
        wait_until_finalizers_removed(&cluster).await;
    });
}

// Shows: U-TestIndexedJob
#[test]
fn every_index_has_one_pod_at_a_time_until_it_succeeds() {
    on_shared_test_cluster(async |mut cluster| {
        cluster
            .create(&job("each").spec("parallelism", 3).spec("completions", 4).indexed().run_forever().build())
            .await;
        let pods = cluster.wait_until_running("each", 3).await;
        assert_eq!(indexes(&pods), [0, 1, 2].into());
        cluster.end_pod(&with_index(&pods, 1), 0).await;
        cluster
            .eventually("the next index runs", MINUTE, |cluster| {
                (indexes(&cluster.running_pods("each")) == [0, 2, 3].into()).then_some(())
            })
            .await;
        cluster.restart_component(Component::Controllers);
        cluster.end_pod(&with_index(&pods, 2), 1).await;
        wait_for_counts(&cluster, "each", (3, 1, 1)).await;
        let pods = cluster.wait_until_running("each", 3).await;
        assert_eq!(indexes(&pods), [0, 2, 3].into(), "the failed index is retried");
        assert_eq!(cluster.job("each").unwrap().status.completed_indexes, "1");
        for pod in &pods {
            cluster.end_pod(pod, 0).await;
        }
        let job = wait_until_complete(&cluster, "each").await;
        assert_eq!((job.status.completed_indexes.as_str(), counts(&job)), ("0-3", (0, 4, 1)));
        wait_until_finalizers_removed(&cluster).await;
    });
}

// Shows: U-e2e-job-indexed
#[test]
fn an_indexed_pod_has_its_index_in_name_hostname_label_annotation_and_variable() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("knows").pods(2).indexed().run_forever().build()).await;
        for pod in cluster.wait_until_running("knows", 2).await {
            let index = index_of(&pod).to_string();
            let object = cluster.get(&format!("pods/{}", pod.metadata.name)).await;
            let metadata = &object["metadata"];
            assert!(pod.metadata.name.starts_with(&format!("knows-{index}-")), "{}", pod.metadata.name);
            assert_eq!(object["spec"]["hostname"], format!("knows-{index}"));
            assert_eq!((&metadata["labels"][INDEX], &metadata["annotations"][INDEX]), (&json!(index), &json!(index)));
            let variables = object["spec"]["containers"][0]["env"].as_array().unwrap();
            let variable = variables.iter().find(|variable| variable["name"] == "JOB_COMPLETION_INDEX").unwrap();
            let field = format!("metadata.labels['{INDEX}']");
            assert_eq!(variable["valueFrom"]["fieldRef"]["fieldPath"], field);
        }
    });
}

// Shows: U-e2e-job-ready
#[test]
fn the_status_reports_the_number_of_ready_pods() {
    on_shared_test_cluster(async |cluster| {
        let manifest =
            job("ready").pods(3).run_forever().annotate("phalanx.dev/start-seconds", &cluster.scaled_seconds(50));
        cluster.create(&manifest.build()).await;
        let none = |job: &JobView| job.status.active == 3 && job.status.ready == Some(0);
        cluster.wait_for_job("ready", "three pods, none ready", none).await;
        cluster.wait_for_job("ready", "three ready", |job| job.status.ready == Some(3)).await;
    });
}

// Shows: U-TestImmediateJobRecreation
#[test]
fn a_job_recreated_under_the_same_name_gets_its_own_pods() {
    on_shared_test_cluster(async |cluster| {
        for round in 1..=3 {
            let created = cluster.create(&job("again").pods(2).run_forever().build()).await;
            let is_of = |pod: &Arc<PodView>| pod.metadata.controller().unwrap().uid == created["metadata"]["uid"];
            cluster
                .eventually("it has its own pods", Duration::from_secs(10), |cluster| {
                    (cluster.running_pods("again").iter().filter(|pod| is_of(pod)).count() == 2).then_some(())
                })
                .await;
            cluster.delete("jobs/again").await;
            let is_deleted = |cluster: &TestCluster| cluster.job("again").is_none().then_some(());
            cluster.eventually(&format!("it is deleted, round {round}"), MINUTE, is_deleted).await;
        }
    });
}

// Shows: U-TestElasticIndexedJob
#[test]
fn a_resized_indexed_job_counts_only_its_current_indexes() {
    on_shared_test_cluster(async |cluster| {
        let resize = |to: i32| json!({"spec": {"parallelism": to, "completions": to}});
        cluster.create(&job("elastic").pods(3).indexed().run_forever().build()).await;
        cluster.wait_until_running("elastic", 3).await;
        cluster.patch("jobs/elastic", &resize(5)).await;
        let pods = cluster.wait_until_running("elastic", 5).await;
        assert_eq!(indexes(&pods), (0..5).collect());
        cluster.end_pod(&with_index(&pods, 4), 0).await;
        wait_for_counts(&cluster, "elastic", (4, 1, 0)).await;
        cluster.patch("jobs/elastic", &resize(3)).await;
        let pods = cluster.wait_until_running("elastic", 3).await;
        assert_eq!(indexes(&pods), (0..3).collect());
        cluster
            .wait_for_job("elastic", "the removed index is not counted", |job| {
                job.status.succeeded == 0 && job.status.completed_indexes.is_empty() && job.status.active == 3
            })
            .await;
        cluster.patch("jobs/elastic", &resize(5)).await;
        let pods = cluster.wait_until_running("elastic", 5).await;
        assert_eq!(indexes(&pods), (0..5).collect(), "the index runs again");
        for pod in &pods {
            cluster.end_pod(pod, 0).await;
        }
        assert_eq!(wait_until_complete(&cluster, "elastic").await.status.completed_indexes, "0-4");
    });
}

// Shows: U-TestElasticIndexedJob
#[test]
fn an_indexed_job_resized_to_zero_is_complete() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("none").pods(2).indexed().run_forever().build()).await;
        cluster.wait_until_running("none", 2).await;
        cluster.patch("jobs/none", &json!({"spec": {"parallelism": 0, "completions": 0}})).await;
        let job = wait_until_complete(&cluster, "none").await;
        assert_eq!((counts(&job), job.status.completed_indexes.as_str()), ((0, 0, 0), ""));
    });
}

// Shows: U-TestOrphanPodsFinalizersClearedWithGC
#[test]
fn deleting_a_job_with_any_policy_removes_the_finalizers_of_its_pods() {
    for policy in ["Background", "Foreground", "Orphan"] {
        on_shared_test_cluster(async |cluster| {
            cluster.create(&job("left").pods(2).run_forever().build()).await;
            cluster.wait_until_running("left", 2).await;
            cluster.delete_with_policy(policy, "jobs/left").await;
            cluster.eventually("the Job is deleted", MINUTE, |cluster| cluster.jobs().is_empty().then_some(())).await;
            wait_until_finalizers_removed(&cluster).await;
            let want = if policy == "Orphan" { 2 } else { 0 };
            cluster.eventually(policy, MINUTE, |cluster| (cluster.pods().len() == want).then_some(())).await;
            assert!(cluster.pods().iter().all(|pod| pod.metadata.controller().is_none()), "{policy}");
        });
    }
}

// Shows: U-TestOrphanPodsFinalizersClearedOnRestart
#[test]
fn finalizers_of_pods_that_lose_their_job_while_the_controllers_are_down_are_removed() {
    on_shared_test_cluster(async |mut cluster| {
        cluster.create(&job("left").pods(2).run_forever().build()).await;
        cluster.wait_until_running("left", 2).await;
        cluster.stop_component(Component::Controllers);
        // No controller removes their owner references: they keep the reference to a deleted Job.
        cluster
            .request("DELETE", &cluster.path("jobs/left"), &json!({"propagationPolicy": "Background"}))
            .await
            .unwrap();
        cluster.start_component(Component::Controllers);
        cluster.eventually("all are deleted", MINUTE, |cluster| cluster.pods().is_empty().then_some(())).await;
    });
}

// Shows: U-e2e-job-cpu-requests
#[test]
fn a_job_whose_pods_do_not_all_fit_at_once_completes() {
    on_shared_test_cluster(async |cluster| {
        let mut manifest = job("wide").pods(40).build();
        let container = &mut manifest["spec"]["template"]["spec"]["containers"][0];
        container["resources"] = json!({"requests": {"cpu": "60"}});
        cluster.create(&manifest).await;
        let (job, condition) = cluster.wait_until_ended("wide", 3 * MINUTE).await;
        assert_eq!((condition.kind.as_str(), job.status.succeeded), ("Complete", 40));
    });
}

// Shows: U-TestDelayedJobUpdateEvent
#[test]
fn no_pod_is_created_after_the_last_success() {
    on_shared_test_cluster(async |mut cluster| {
        cluster.create(&job("last").spec("parallelism", 2).spec("completions", 3).build()).await;
        cluster.restart_component(Component::Controllers);
        wait_until_complete(&cluster, "last").await;
        cluster.restart_component(Component::Controllers);
        cluster.create(&job("after").build()).await;
        wait_until_complete(&cluster, "after").await;
        assert_eq!(cluster.pods_of("last").len(), 3);
    });
}

// Shows: U-e2e-job-lifecycle
#[test]
fn a_job_can_be_created_patched_replaced_listed_and_deleted_by_selector() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("life").meta("labels", json!({"of": "life"})).spec("suspend", true).build()).await;
        let patched = cluster.patch("jobs/life", &json!({"metadata": {"annotations": {"a": "1"}}})).await;
        assert_eq!(patched["metadata"]["annotations"]["a"], "1");
        cluster.wait_for_job("life", "suspended", |job| !job.status.conditions.is_empty()).await;
        let mut document = cluster.get("jobs/life").await;
        document["spec"]["suspend"] = json!(false);
        document["metadata"]["annotations"]["a"] = json!("2");
        cluster.request("PUT", &cluster.path("jobs/life"), &document).await.unwrap();
        wait_until_complete(&cluster, "life").await;
        let listed = cluster.get("jobs?labelSelector=of%3Dlife").await;
        let names: Vec<&Value> =
            listed["items"].as_array().unwrap().iter().map(|job| &job["metadata"]["name"]).collect();
        assert_eq!(names, ["life"]);
        cluster.delete("jobs?labelSelector=of%3Dlife").await;
        cluster.eventually("it is deleted", MINUTE, |cluster| cluster.jobs().is_empty().then_some(())).await;
        let kinds: Vec<bool> =
            cluster.history().iter().filter(|c| c.resource == "batch/jobs").map(|change| change.deleted).collect();
        assert_eq!((kinds[0], kinds.last()), (false, Some(&true)), "the history has every write");
    });
}

// Shows: U-e2e-job-status-apply
#[test]
fn the_status_of_a_job_can_be_read_patched_and_replaced() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("reported").pods(2).spec("managedBy", "example.com/other").build()).await;
        let condition = json!({"type": "Reported", "status": "True", "reason": "Test"});
        cluster.patch("jobs/reported/status", &json!({"status": {"conditions": [condition]}})).await;
        let mut document = cluster.get("jobs/reported/status").await;
        assert_eq!(document["status"]["conditions"][0]["type"], "Reported");
        document["status"]["conditions"][0]["message"] = json!("replaced");
        cluster.request("PUT", &cluster.path("jobs/reported/status"), &document).await.unwrap();
        assert_eq!(cluster.get("jobs/reported").await["status"]["conditions"][0]["message"], "replaced");
    });
}

//! Jobs as they count: how many pods there are, which of them are replaced, and when it is over.

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

async fn wait_for_counts(home: &TestCluster, name: &str, want: (i32, i32, i32)) {
    home.wait_for_job(name, &format!("active, succeeded, failed are {want:?}"), |job| counts(job) == want).await;
}

async fn wait_until_complete(home: &TestCluster, name: &str) -> Arc<JobView> {
    let (job, condition) = home.wait_until_ended(name, MINUTE).await;
    assert_eq!(condition.kind, "Complete", "{name}: {condition:?}");
    job
}

/// Nobody holds a pod of an ended Job any more.
async fn wait_until_finalizers_removed(home: &TestCluster) {
    home.eventually("every pod is let go", MINUTE, |home| {
        home.pods().iter().all(|pod| !pod.metadata.has_finalizer(TRACKING)).then_some(())
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
    on_shared_test_cluster(async |mut home| {
        home.create(&job("one").run_forever().build()).await;
        let pods = home.wait_until_running("one", 1).await;
        assert!(pods[0].metadata.has_finalizer(TRACKING), "held until it is counted");
        home.restart_component(Component::Controllers);
        home.end_pod(&pods[0], 1).await;
        let pods = home.wait_until_running("one", 1).await;
        wait_for_counts(&home, "one", (1, 0, 1)).await;
        home.restart_component(Component::Controllers);
        home.end_pod(&pods[0], 0).await;
        let job = wait_until_complete(&home, "one").await;
        assert_eq!((counts(&job), job.status.ready), ((0, 1, 1), Some(0)));
        wait_until_finalizers_removed(&home).await;
        home.wait_for_event("Completed", "one").await;
    });
}

// Shows: U-TestParallelJob
#[test]
fn a_job_without_completions_creates_no_pods_after_the_first_success() {
    on_shared_test_cluster(async |home| {
        home.create(&job("some").spec("parallelism", 4).run_forever().build()).await;
        let pods = home.wait_until_running("some", 4).await;
        for pod in &pods[..2] {
            home.end_pod(pod, 1).await;
        }
        home.wait_until_running("some", 4).await;
        wait_for_counts(&home, "some", (4, 0, 2)).await;
        let pods = home.running_pods("some");
        home.end_pod(&pods[0], 0).await;
        wait_for_counts(&home, "some", (3, 1, 2)).await;
        home.end_pod(&pods[1], 1).await;
        wait_for_counts(&home, "some", (2, 1, 3)).await;
        for pod in &pods[2..] {
            home.end_pod(pod, 0).await;
        }
        let job = wait_until_complete(&home, "some").await;
        assert_eq!(counts(&job), (0, 3, 3));
        assert_eq!(home.created_count("pods"), 6, "none was made after the first success");
        wait_until_finalizers_removed(&home).await;
    });
}

// Shows: U-TestParallelJobChangingParallelism
#[test]
fn the_number_of_pods_follows_parallelism_up_and_down() {
    on_shared_test_cluster(async |home| {
        home.create(&job("moves").spec("parallelism", 4).spec("completions", 8).run_forever().build()).await;
        home.wait_until_running("moves", 4).await;
        for parallelism in [6, 2, 0, 3] {
            home.patch("jobs/moves", &json!({"spec": {"parallelism": parallelism}})).await;
            home.wait_until_running("moves", usize::try_from(parallelism).unwrap()).await;
            home.wait_for_job("moves", "follows", |job| job.status.active == parallelism).await;
        }
        let job = home.job("moves").unwrap();
        assert_eq!((job.status.succeeded, job.status.completion_time), (0, None));
    });
}

// Shows: U-TestParallelJobWithCompletions
#[test]
fn active_pods_never_exceed_the_missing_completions() {
    on_shared_test_cluster(async |home| {
        home.create(&job("counted").spec("parallelism", 6).spec("completions", 4).run_forever().build()).await;
        let pods = home.wait_until_running("counted", 4).await;
        home.end_pod(&pods[0], 1).await;
        home.wait_until_running("counted", 4).await;
        wait_for_counts(&home, "counted", (4, 0, 1)).await;
        let pods = home.running_pods("counted");
        for pod in &pods[..2] {
            home.end_pod(pod, 0).await;
        }
        wait_for_counts(&home, "counted", (2, 2, 1)).await;
        for pod in &pods[2..] {
            home.end_pod(pod, 0).await;
        }
        assert_eq!(counts(&*wait_until_complete(&home, "counted").await), (0, 4, 1));
        assert_eq!(home.created_count("pods"), 5);
        wait_until_finalizers_removed(&home).await;
    });
}

// Shows: U-TestIndexedJob
#[test]
fn every_index_has_one_pod_at_a_time_until_it_succeeds() {
    on_shared_test_cluster(async |mut home| {
        home.create(&job("each").spec("parallelism", 3).spec("completions", 4).indexed().run_forever().build()).await;
        let pods = home.wait_until_running("each", 3).await;
        assert_eq!(indexes(&pods), [0, 1, 2].into());
        home.end_pod(&with_index(&pods, 1), 0).await;
        home.eventually("the next has its turn", MINUTE, |home| {
            (indexes(&home.running_pods("each")) == [0, 2, 3].into()).then_some(())
        })
        .await;
        home.restart_component(Component::Controllers);
        home.end_pod(&with_index(&pods, 2), 1).await;
        wait_for_counts(&home, "each", (3, 1, 1)).await;
        let pods = home.wait_until_running("each", 3).await;
        assert_eq!(indexes(&pods), [0, 2, 3].into(), "the failed one is tried again");
        assert_eq!(home.job("each").unwrap().status.completed_indexes, "1");
        for pod in &pods {
            home.end_pod(pod, 0).await;
        }
        let job = wait_until_complete(&home, "each").await;
        assert_eq!((job.status.completed_indexes.as_str(), counts(&job)), ("0-3", (0, 4, 1)));
        wait_until_finalizers_removed(&home).await;
    });
}

// Shows: U-e2e-job-indexed
#[test]
fn an_indexed_pod_has_its_index_in_name_hostname_label_annotation_and_variable() {
    on_shared_test_cluster(async |home| {
        home.create(&job("knows").pods(2).indexed().run_forever().build()).await;
        for pod in home.wait_until_running("knows", 2).await {
            let index = index_of(&pod).to_string();
            let object = home.get(&format!("pods/{}", pod.metadata.name)).await;
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
    on_shared_test_cluster(async |home| {
        let manifest =
            job("ready").pods(3).run_forever().annotate("phalanx.dev/start-seconds", &home.scaled_seconds(50));
        home.create(&manifest.build()).await;
        let none = |job: &JobView| job.status.active == 3 && job.status.ready == Some(0);
        home.wait_for_job("ready", "three pods, none ready", none).await;
        home.wait_for_job("ready", "three ready", |job| job.status.ready == Some(3)).await;
    });
}

// Shows: U-TestImmediateJobRecreation
#[test]
fn a_job_recreated_under_the_same_name_gets_its_own_pods() {
    on_shared_test_cluster(async |home| {
        for round in 1..=3 {
            let made = home.create(&job("again").pods(2).run_forever().build()).await;
            let is_of = |pod: &Arc<PodView>| pod.metadata.controller().unwrap().uid == made["metadata"]["uid"];
            home.eventually("it has its pods", Duration::from_secs(10), |home| {
                (home.running_pods("again").iter().filter(|pod| is_of(pod)).count() == 2).then_some(())
            })
            .await;
            home.delete("jobs/again").await;
            let gone = |home: &TestCluster| home.job("again").is_none().then_some(());
            home.eventually(&format!("gone, round {round}"), MINUTE, gone).await;
        }
    });
}

// Shows: U-TestElasticIndexedJob
#[test]
fn a_resized_indexed_job_counts_only_its_current_indexes() {
    on_shared_test_cluster(async |home| {
        let resize = |to: i32| json!({"spec": {"parallelism": to, "completions": to}});
        home.create(&job("elastic").pods(3).indexed().run_forever().build()).await;
        home.wait_until_running("elastic", 3).await;
        home.patch("jobs/elastic", &resize(5)).await;
        let pods = home.wait_until_running("elastic", 5).await;
        assert_eq!(indexes(&pods), (0..5).collect());
        home.end_pod(&with_index(&pods, 4), 0).await;
        wait_for_counts(&home, "elastic", (4, 1, 0)).await;
        home.patch("jobs/elastic", &resize(3)).await;
        let pods = home.wait_until_running("elastic", 3).await;
        assert_eq!(indexes(&pods), (0..3).collect());
        home.wait_for_job("elastic", "the index beyond is gone", |job| {
            job.status.succeeded == 0 && job.status.completed_indexes.is_empty() && job.status.active == 3
        })
        .await;
        home.patch("jobs/elastic", &resize(5)).await;
        let pods = home.wait_until_running("elastic", 5).await;
        assert_eq!(indexes(&pods), (0..5).collect(), "and has to be done again");
        for pod in &pods {
            home.end_pod(pod, 0).await;
        }
        assert_eq!(wait_until_complete(&home, "elastic").await.status.completed_indexes, "0-4");
    });
}

// Shows: U-TestElasticIndexedJob
#[test]
fn an_indexed_job_resized_to_zero_is_complete() {
    on_shared_test_cluster(async |home| {
        home.create(&job("none").pods(2).indexed().run_forever().build()).await;
        home.wait_until_running("none", 2).await;
        home.patch("jobs/none", &json!({"spec": {"parallelism": 0, "completions": 0}})).await;
        let job = wait_until_complete(&home, "none").await;
        assert_eq!((counts(&job), job.status.completed_indexes.as_str()), ((0, 0, 0), ""));
    });
}

// Shows: U-TestOrphanPodsFinalizersClearedWithGC
#[test]
fn deleting_a_job_with_any_policy_removes_the_finalizers_of_its_pods() {
    for policy in ["Background", "Foreground", "Orphan"] {
        on_shared_test_cluster(async |home| {
            home.create(&job("left").pods(2).run_forever().build()).await;
            home.wait_until_running("left", 2).await;
            home.delete_with_policy(policy, "jobs/left").await;
            home.eventually("the Job goes", MINUTE, |home| home.jobs().is_empty().then_some(())).await;
            wait_until_finalizers_removed(&home).await;
            let want = if policy == "Orphan" { 2 } else { 0 };
            home.eventually(policy, MINUTE, |home| (home.pods().len() == want).then_some(())).await;
            assert!(home.pods().iter().all(|pod| pod.metadata.controller().is_none()), "{policy}");
        });
    }
}

// Shows: U-TestOrphanPodsFinalizersClearedOnRestart
#[test]
fn finalizers_of_pods_that_lose_their_job_while_the_controllers_are_down_are_removed() {
    on_shared_test_cluster(async |mut home| {
        home.create(&job("left").pods(2).run_forever().build()).await;
        home.wait_until_running("left", 2).await;
        home.stop_component(Component::Controllers);
        // Nobody is there to orphan them: they keep the reference to a Job that is gone.
        home.request("DELETE", &home.path("jobs/left"), &json!({"propagationPolicy": "Background"})).await.unwrap();
        home.start_component(Component::Controllers);
        home.eventually("all gone", MINUTE, |home| home.pods().is_empty().then_some(())).await;
    });
}

// Shows: U-e2e-job-cpu-requests
#[test]
fn a_job_whose_pods_do_not_all_fit_at_once_completes() {
    on_shared_test_cluster(async |home| {
        let mut manifest = job("wide").pods(40).build();
        let container = &mut manifest["spec"]["template"]["spec"]["containers"][0];
        container["resources"] = json!({"requests": {"cpu": "60"}});
        home.create(&manifest).await;
        let (job, condition) = home.wait_until_ended("wide", 3 * MINUTE).await;
        assert_eq!((condition.kind.as_str(), job.status.succeeded), ("Complete", 40));
    });
}

// Shows: U-TestDelayedJobUpdateEvent
#[test]
fn no_pod_is_created_after_the_last_success() {
    on_shared_test_cluster(async |mut home| {
        home.create(&job("last").spec("parallelism", 2).spec("completions", 3).build()).await;
        home.restart_component(Component::Controllers);
        wait_until_complete(&home, "last").await;
        home.restart_component(Component::Controllers);
        home.create(&job("after").build()).await;
        wait_until_complete(&home, "after").await;
        assert_eq!(home.pods_of("last").len(), 3);
    });
}

// Shows: U-e2e-job-lifecycle
#[test]
fn a_job_can_be_created_patched_replaced_listed_and_deleted_by_selector() {
    on_shared_test_cluster(async |home| {
        home.create(&job("life").meta("labels", json!({"of": "life"})).spec("suspend", true).build()).await;
        let patched = home.patch("jobs/life", &json!({"metadata": {"annotations": {"a": "1"}}})).await;
        assert_eq!(patched["metadata"]["annotations"]["a"], "1");
        home.wait_for_job("life", "suspended", |job| !job.status.conditions.is_empty()).await;
        let mut document = home.get("jobs/life").await;
        document["spec"]["suspend"] = json!(false);
        document["metadata"]["annotations"]["a"] = json!("2");
        home.request("PUT", &home.path("jobs/life"), &document).await.unwrap();
        wait_until_complete(&home, "life").await;
        let listed = home.get("jobs?labelSelector=of%3Dlife").await;
        let names: Vec<&Value> =
            listed["items"].as_array().unwrap().iter().map(|job| &job["metadata"]["name"]).collect();
        assert_eq!(names, ["life"]);
        home.delete("jobs?labelSelector=of%3Dlife").await;
        home.eventually("gone", MINUTE, |home| home.jobs().is_empty().then_some(())).await;
        let kinds: Vec<bool> =
            home.history().iter().filter(|c| c.resource == "batch/jobs").map(|change| change.deleted).collect();
        assert_eq!((kinds[0], kinds.last()), (false, Some(&true)), "a watch tells all of it");
    });
}

// Shows: U-e2e-job-status-apply
#[test]
fn the_status_of_a_job_can_be_read_patched_and_replaced() {
    on_shared_test_cluster(async |home| {
        home.create(&job("told").pods(2).spec("managedBy", "example.com/other").build()).await;
        let condition = json!({"type": "Told", "status": "True", "reason": "Test"});
        home.patch("jobs/told/status", &json!({"status": {"conditions": [condition]}})).await;
        let mut document = home.get("jobs/told/status").await;
        assert_eq!(document["status"]["conditions"][0]["type"], "Told");
        document["status"]["conditions"][0]["message"] = json!("replaced");
        home.request("PUT", &home.path("jobs/told/status"), &document).await.unwrap();
        assert_eq!(home.get("jobs/told").await["status"]["conditions"][0]["message"], "replaced");
    });
}

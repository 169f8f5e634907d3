//! Suspended Jobs: no pods, no time, and a template that may change.

use std::time::Duration;

use api::views::{Condition, JobView};
use serde_json::{Value, json};
use testkit::{TestCluster, job, on_shared_test_cluster};

const MINUTE: Duration = Duration::from_secs(60);

fn is_suspended(job: &JobView) -> bool {
    Condition::is_true(&job.status.conditions, "Suspended")
}

async fn suspend(home: &TestCluster, name: &str) {
    home.patch(&format!("jobs/{name}"), &json!({"spec": {"suspend": true}})).await;
    home.wait_for_job(name, "suspended", |job| is_suspended(job) && job.status.active == 0).await;
    home.eventually("no pods", MINUTE, |home| home.pods_of(name).is_empty().then_some(())).await;
}

async fn resume(home: &TestCluster, name: &str) {
    home.patch(&format!("jobs/{name}"), &json!({"spec": {"suspend": false}})).await;
}

// Shows: U-TestSuspendJob, U-e2e-job-created-suspended
#[test]
fn a_job_created_suspended_has_no_pods_until_it_is_resumed() {
    on_shared_test_cluster(async |home| {
        home.create(&job("later").pods(2).spec("suspend", true).build()).await;
        let job = home.wait_for_job("later", "suspended", is_suspended).await;
        assert_eq!((job.status.active, job.status.start_time), (0, None));
        home.advance(MINUTE / 3).await;
        assert_eq!(home.created_count("pods"), 0);
        resume(&home, "later").await;
        let (job, condition) = home.wait_until_ended("later", MINUTE).await;
        assert_eq!((condition.kind.as_str(), job.status.succeeded), ("Complete", 2));
        let said = job.status.conditions.iter().find(|held| held.kind == "Suspended").unwrap();
        assert_eq!((said.status.as_str(), said.reason.as_str()), ("False", "JobResumed"));
    });
}

// Shows: U-TestStartTimeUpdateOnResume
#[test]
fn resuming_a_job_resets_its_start_time_and_deadline() {
    on_shared_test_cluster(async |home| {
        home.create(&job("timed").spec("activeDeadlineSeconds", 3000).run_forever().build()).await;
        home.wait_until_running("timed", 1).await;
        let first = home.job("timed").unwrap().status.start_time.unwrap();
        suspend(&home, "timed").await;
        assert_eq!(home.job("timed").unwrap().status.start_time, None);
        home.advance(MINUTE / 2).await;
        resume(&home, "timed").await;
        home.wait_until_running("timed", 1).await;
        let job = home.wait_for_job("timed", "has a start", |job| job.status.start_time.is_some()).await;
        assert!(job.status.start_time.unwrap() > first);
    });
}

// Shows: U-TestSuspendJobWithZeroCompletions
#[test]
fn a_suspended_job_with_zero_completions_is_complete() {
    on_shared_test_cluster(async |home| {
        home.create(&job("idle").spec("completions", 0).spec("suspend", true).build()).await;
        let (_, condition) = home.wait_until_ended("idle", MINUTE).await;
        assert_eq!((condition.kind.as_str(), home.created_count("pods")), ("Complete", 0));
    });
}

/// A change of a template, and where it shows in a pod.
fn changes() -> Vec<(&'static str, Value)> {
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]},
    ]}}});
    let toleration = json!([{"key": "special", "operator": "Exists", "effect": "NoSchedule"}]);
    vec![
        ("/spec/nodeSelector", json!({"kubernetes.io/arch": "amd64"})),
        ("/spec/affinity", affinity),
        ("/spec/tolerations", toleration),
        ("/metadata/labels/colour", json!("green")),
        ("/metadata/annotations/colour", json!("green")),
    ]
}

async fn change_template(home: &TestCluster, name: &str) {
    let mut template = json!({"spec": {}, "metadata": {"labels": {}, "annotations": {}}});
    for (pointer, value) in changes() {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        template.pointer_mut(parent).unwrap()[field] = value;
    }
    home.patch(&format!("jobs/{name}"), &json!({"spec": {"template": template}})).await;
}

async fn new_pod_has_changes(home: &TestCluster, name: &str) {
    let pod = home.wait_until_running(name, 1).await.pop().unwrap();
    let pod = home.get(&format!("pods/{}", pod.metadata.name)).await;
    for (pointer, value) in changes() {
        let found = pod.pointer(pointer).cloned().unwrap_or_default();
        // The server adds tolerations of its own.
        let has = found == value
            || found.as_array().is_some_and(|list| value.as_array().is_some_and(|want| list.contains(&want[0])));
        assert!(has, "{pointer}: {found}");
    }
}

// Shows: U-TestNodeSelectorUpdate, U-TestMutableSchedulingDirectivesForSuspendedJobsNotYetStarted
#[test]
fn scheduling_directives_of_a_never_started_job_are_mutable() {
    on_shared_test_cluster(async |home| {
        home.create(&job("moves").spec("suspend", true).run_forever().build()).await;
        change_template(&home, "moves").await;
        resume(&home, "moves").await;
        new_pod_has_changes(&home, "moves").await;
    });
}

// Shows: U-TestMutableSchedulingDirectivesForSuspendedJobs
#[test]
fn scheduling_directives_of_a_suspended_job_are_mutable() {
    on_shared_test_cluster(async |home| {
        home.create(&job("moves").run_forever().build()).await;
        home.wait_until_running("moves", 1).await;
        let selector = json!({"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}});
        let refused = home.request("PATCH", &home.path("jobs/moves"), &selector).await;
        assert!(refused.is_err_and(|error| error.to_string().contains("immutable")), "not while it runs");
        suspend(&home, "moves").await;
        change_template(&home, "moves").await;
        resume(&home, "moves").await;
        new_pod_has_changes(&home, "moves").await;
    });
}

fn more_cpu() -> Value {
    let container =
        json!({"name": "main", "image": "registry.example/main:1", "resources": {"requests": {"cpu": "2"}}});
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

async fn new_pod_has_more_cpu(home: &TestCluster, name: &str) {
    let pod = home.wait_until_running(name, 1).await.pop().unwrap();
    let pod = home.get(&format!("pods/{}", pod.metadata.name)).await;
    assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "2");
}

// Shows: U-TestMutablePodResourcesForSuspendedJobsNotYetStarted, U-e2e-job-resources-never-started
#[test]
fn pod_resources_of_a_never_started_job_are_mutable() {
    on_shared_test_cluster(async |home| {
        home.create(&job("grows").spec("suspend", true).run_forever().build()).await;
        home.patch("jobs/grows", &more_cpu()).await;
        resume(&home, "grows").await;
        new_pod_has_more_cpu(&home, "grows").await;
    });
}

// Shows: U-TestUpdateJobPodResources, U-e2e-job-resources-started
#[test]
fn pod_resources_are_mutable_while_suspended_and_immutable_while_running() {
    on_shared_test_cluster(async |home| {
        home.create(&job("grows").run_forever().build()).await;
        home.wait_until_running("grows", 1).await;
        let refused = home.request("PATCH", &home.path("jobs/grows"), &more_cpu()).await;
        assert!(refused.is_err_and(|error| error.to_string().contains("immutable")), "not while it runs");
        suspend(&home, "grows").await;
        home.patch("jobs/grows", &more_cpu()).await;
        resume(&home, "grows").await;
        new_pod_has_more_cpu(&home, "grows").await;
    });
}

// Shows: U-TestMutablePodResourcesWithPodReplacementPolicyFailed
#[test]
fn a_resumed_job_waits_for_terminating_pods_before_it_creates_others() {
    on_shared_test_cluster(async |home| {
        let manifest = job("slow").run_forever().spec("podReplacementPolicy", "Failed");
        let manifest =
            manifest.annotate("phalanx.dev/ignore-stop", "true").pod_spec("terminationGracePeriodSeconds", 3600);
        home.create(&manifest.build()).await;
        let pods = home.wait_until_running("slow", 1).await;
        home.patch("jobs/slow", &json!({"spec": {"suspend": true}})).await;
        home.wait_for_job("slow", "its pod is ending", |job| {
            is_suspended(job) && job.status.active == 0 && job.status.terminating == Some(1)
        })
        .await;
        home.patch("jobs/slow", &more_cpu()).await;
        resume(&home, "slow").await;
        home.advance(MINUTE / 3).await;
        assert_eq!(home.created_count("pods"), 1, "the one before has not ended");
        home.end_pod(&pods[0], 137).await;
        new_pod_has_more_cpu(&home, "slow").await;
    });
}

//! Suspended Jobs: no pods, no start time, and a mutable template.

use std::time::Duration;

use api::views::{Condition, JobView};
use serde_json::{Value, json};
use testkit::{TestCluster, job, on_shared_test_cluster};

const MINUTE: Duration = Duration::from_secs(60);

fn is_suspended(job: &JobView) -> bool {
    Condition::is_true(&job.status.conditions, "Suspended")
}

async fn suspend(cluster: &TestCluster, name: &str) {
    cluster.patch(&format!("jobs/{name}"), &json!({"spec": {"suspend": true}})).await;
    cluster.wait_for_job(name, "suspended", |job| is_suspended(job) && job.status.active == 0).await;
    cluster.eventually("no pods", MINUTE, |cluster| cluster.pods_of(name).is_empty().then_some(())).await;
}

async fn resume(cluster: &TestCluster, name: &str) {
    cluster.patch(&format!("jobs/{name}"), &json!({"spec": {"suspend": false}})).await;
}

// Shows: U-TestSuspendJob, U-e2e-job-created-suspended
#[test]
fn a_job_created_suspended_has_no_pods_until_it_is_resumed() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("later").pods(2).spec("suspend", true).build()).await;
        let job = cluster.wait_for_job("later", "suspended", is_suspended).await;
        assert_eq!((job.status.active, job.status.start_time), (0, None));
        cluster.advance(MINUTE / 3).await;
        assert_eq!(cluster.created_count("pods"), 0);
        resume(&cluster, "later").await;
        let (job, condition) = cluster.wait_until_ended("later", MINUTE).await;
        assert_eq!((condition.kind.as_str(), job.status.succeeded), ("Complete", 2));
        let suspended = job.status.conditions.iter().find(|one| one.kind == "Suspended").unwrap();
        assert_eq!((suspended.status.as_str(), suspended.reason.as_str()), ("False", "JobResumed"));
    });
}

// Shows: U-TestStartTimeUpdateOnResume
#[test]
fn resuming_a_job_resets_its_start_time_and_deadline() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("timed").spec("activeDeadlineSeconds", 3000).run_forever().build()).await;
        cluster.wait_until_running("timed", 1).await;
        let first = cluster.job("timed").unwrap().status.start_time.unwrap();
        suspend(&cluster, "timed").await;
        assert_eq!(cluster.job("timed").unwrap().status.start_time, None);
        cluster.advance(MINUTE / 2).await;
        resume(&cluster, "timed").await;
        cluster.wait_until_running("timed", 1).await;
        let job = cluster.wait_for_job("timed", "has a start time", |job| job.status.start_time.is_some()).await;
        assert!(job.status.start_time.unwrap() > first);
    });
}

// Shows: U-TestSuspendJobWithZeroCompletions
#[test]
fn a_suspended_job_with_zero_completions_is_complete() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("idle").spec("completions", 0).spec("suspend", true).build()).await;
        let (_, condition) = cluster.wait_until_ended("idle", MINUTE).await;
        assert_eq!((condition.kind.as_str(), cluster.created_count("pods")), ("Complete", 0));
    });
}

/// Changes of a template: the JSON pointer in a pod, and the value.
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

async fn change_template(cluster: &TestCluster, name: &str) {
    let mut template = json!({"spec": {}, "metadata": {"labels": {}, "annotations": {}}});
    for (pointer, value) in changes() {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        template.pointer_mut(parent).unwrap()[field] = value;
    }
    cluster.patch(&format!("jobs/{name}"), &json!({"spec": {"template": template}})).await;
}

async fn new_pod_has_changes(cluster: &TestCluster, name: &str) {
    let pod = cluster.wait_until_running(name, 1).await.pop().unwrap();
    let pod = cluster.get(&format!("pods/{}", pod.metadata.name)).await;
    for (pointer, value) in changes() {
        let found = pod.pointer(pointer).cloned().unwrap_or_default();
        // The server adds its own tolerations.
        let has = found == value
            || found.as_array().is_some_and(|list| value.as_array().is_some_and(|want| list.contains(&want[0])));
        assert!(has, "{pointer}: {found}");
    }
}

// Shows: U-TestNodeSelectorUpdate, U-TestMutableSchedulingDirectivesForSuspendedJobsNotYetStarted
#[test]
fn scheduling_directives_of_a_never_started_job_are_mutable() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("moves").spec("suspend", true).run_forever().build()).await;
        change_template(&cluster, "moves").await;
        resume(&cluster, "moves").await;
        new_pod_has_changes(&cluster, "moves").await;
    });
}

// Shows: U-TestMutableSchedulingDirectivesForSuspendedJobs
#[test]
fn scheduling_directives_of_a_suspended_job_are_mutable() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("moves").run_forever().build()).await;
        cluster.wait_until_running("moves", 1).await;
        let selector = json!({"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}});
        let refused = cluster.request("PATCH", &cluster.path("jobs/moves"), &selector).await;
        assert!(refused.is_err_and(|error| error.to_string().contains("immutable")), "not while it runs");
        suspend(&cluster, "moves").await;
        change_template(&cluster, "moves").await;
        resume(&cluster, "moves").await;
        new_pod_has_changes(&cluster, "moves").await;
    });
}

fn more_cpu() -> Value {
    let container =
        json!({"name": "main", "image": "registry.example/main:1", "resources": {"requests": {"cpu": "2"}}});
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}

async fn new_pod_has_more_cpu(cluster: &TestCluster, name: &str) {
    let pod = cluster.wait_until_running(name, 1).await.pop().unwrap();
    let pod = cluster.get(&format!("pods/{}", pod.metadata.name)).await;
    assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "2");
}

// Shows: U-TestMutablePodResourcesForSuspendedJobsNotYetStarted, U-e2e-job-resources-never-started
#[test]
fn pod_resources_of_a_never_started_job_are_mutable() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("grows").spec("suspend", true).run_forever().build()).await;
        cluster.patch("jobs/grows", &more_cpu()).await;
        resume(&cluster, "grows").await;
        new_pod_has_more_cpu(&cluster, "grows").await;
    });
}

// Shows: U-TestUpdateJobPodResources, U-e2e-job-resources-started
#[test]
fn pod_resources_are_mutable_while_suspended_and_immutable_while_running() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("grows").run_forever().build()).await;
        cluster.wait_until_running("grows", 1).await;
        let refused = cluster.request("PATCH", &cluster.path("jobs/grows"), &more_cpu()).await;
        assert!(refused.is_err_and(|error| error.to_string().contains("immutable")), "not while it runs");
        suspend(&cluster, "grows").await;
        cluster.patch("jobs/grows", &more_cpu()).await;
        resume(&cluster, "grows").await;
        new_pod_has_more_cpu(&cluster, "grows").await;
    });
}

// Shows: U-TestMutablePodResourcesWithPodReplacementPolicyFailed
#[test]
fn a_resumed_job_waits_for_terminating_pods_before_it_creates_others() {
    on_shared_test_cluster(async |cluster| {
        let manifest = job("slow").run_forever().spec("podReplacementPolicy", "Failed");
        let manifest =
            manifest.annotate("phalanx.dev/ignore-stop", "true").pod_spec("terminationGracePeriodSeconds", 3600);
        cluster.create(&manifest.build()).await;
        let pods = cluster.wait_until_running("slow", 1).await;
        cluster.patch("jobs/slow", &json!({"spec": {"suspend": true}})).await;
        cluster
            .wait_for_job("slow", "its pod is terminating", |job| {
                is_suspended(job) && job.status.active == 0 && job.status.terminating == Some(1)
            })
            .await;
        cluster.patch("jobs/slow", &more_cpu()).await;
        resume(&cluster, "slow").await;
        cluster.advance(MINUTE / 3).await;
        assert_eq!(cluster.created_count("pods"), 1, "the first pod has not ended");
        cluster.end_pod(&pods[0], 137).await;
        new_pod_has_more_cpu(&cluster, "slow").await;
    });
}

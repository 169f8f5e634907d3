//! Jobs whose pods fail: limits, policies, backoff and deadlines.

use std::time::Duration;

use api::Timestamp;
use api::views::{Condition, PodPhase};
use controlplane::Component;
use serde_json::{Value, json};
use testkit::{JobBuilder, TestCluster, job, on_shared_test_cluster};

const MINUTE: Duration = Duration::from_secs(60);
const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// A Job with this pod failure policy.
fn job_with_failure_policy(name: &str, rules: Value) -> JobBuilder {
    job(name).run_forever().spec("podFailurePolicy", json!({"rules": rules}))
}

fn on_exit(action: &str, operator: &str, codes: &[i32]) -> Value {
    json!({"action": action, "onExitCodes": {"operator": operator, "values": codes}})
}

async fn wait_until_failed(cluster: &TestCluster, name: &str, reason: &str) -> (i32, Condition) {
    let (job, condition) = cluster.wait_until_ended(name, 3 * MINUTE).await;
    assert_eq!((condition.kind.as_str(), condition.reason.as_str()), ("Failed", reason), "{name}: {condition:?}");
    let target = job.status.conditions.iter().find(|one| one.kind == "FailureTarget").unwrap();
    assert_eq!((&target.status[..], &target.reason, &target.message), ("True", &condition.reason, &condition.message));
    (job.status.failed, condition)
}

async fn wait_until_finalizers_removed(cluster: &TestCluster) {
    cluster
        .eventually("every finalizer is removed", MINUTE, |cluster| {
            cluster.pods().iter().all(|pod| !pod.metadata.has_finalizer(TRACKING)).then_some(())
        })
        .await;
}

// Shows: U-TestJobPodFailurePolicy, U-e2e-job-policy-fail
#[test]
fn fail_job_ends_the_job_and_its_other_pods_at_once() {
    for restarted in [false, true] {
        on_shared_test_cluster(async |mut cluster| {
            cluster
                .create(&job_with_failure_policy("strict", json!([on_exit("FailJob", "In", &[5])])).pods(3).build())
                .await;
            let pods = cluster.wait_until_running("strict", 3).await;
            cluster.end_pod(&pods[1], 5).await;
            if restarted {
                cluster.restart_component(Component::Controllers);
            }
            let (failures, condition) = wait_until_failed(&cluster, "strict", "PodFailurePolicy").await;
            assert_eq!(failures, 3, "the pods that were ended with it count too");
            let pod = format!("{}/{}", cluster.namespace(), pods[1].metadata.name);
            for text in ["main", &pod, "exit code 5", "FailJob", "rule at index 0"] {
                assert!(condition.message.contains(text), "{text} in {}", condition.message);
            }
            assert_eq!(cluster.created_count("pods"), 3);
            wait_until_finalizers_removed(&cluster).await;
        });
    }
}

// Shows: U-TestJobPodFailurePolicy, U-e2e-job-policy-ignore-exit
#[test]
fn an_ignored_failure_does_not_count_toward_the_limit() {
    on_shared_test_cluster(async |cluster| {
        let manifest =
            job_with_failure_policy("lenient", json!([on_exit("Ignore", "In", &[42])])).spec("backoffLimit", 0);
        cluster.create(&manifest.build()).await;
        for _ in 0..2 {
            let pods = cluster.wait_until_running("lenient", 1).await;
            cluster.end_pod(&pods[0], 42).await;
        }
        let pods = cluster.wait_until_running("lenient", 1).await;
        cluster.end_pod(&pods[0], 0).await;
        let (job, condition) = cluster.wait_until_ended("lenient", MINUTE).await;
        assert_eq!((condition.kind.as_str(), job.status.failed, job.status.succeeded), ("Complete", 0, 1));
        wait_until_finalizers_removed(&cluster).await;
    });
}

// Shows: U-TestJobPodFailurePolicy, U-e2e-job-policy-ignore-disruption
#[test]
fn an_ignored_disruption_does_not_count_toward_the_limit() {
    on_shared_test_cluster(async |cluster| {
        let rule = json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
        cluster.create(&job_with_failure_policy("drained", json!([rule])).spec("backoffLimit", 0).build()).await;
        let pods = cluster.wait_until_running("drained", 1).await;
        cluster.evict(&pods[0]).await;
        cluster
            .eventually("its replacement runs", 3 * MINUTE, |cluster| {
                cluster.running_pods("drained").iter().any(|pod| pod.metadata.uid != pods[0].metadata.uid).then_some(())
            })
            .await;
        cluster.end_pod(&cluster.running_pods("drained")[0], 0).await;
        let (job, condition) = cluster.wait_until_ended("drained", MINUTE).await;
        assert_eq!((condition.kind.as_str(), job.status.failed), ("Complete", 0));
    });
}

// Shows: U-TestJobPodFailurePolicy
#[test]
fn a_failure_counts_by_a_count_rule_or_without_a_matching_rule() {
    for (case, rule, exit_code) in [
        ("count", on_exit("Count", "In", &[7]), 7),
        ("no rule matches", on_exit("Ignore", "In", &[8]), 7),
        ("the first match decides", on_exit("Count", "NotIn", &[8]), 7),
        ("negative codes match", on_exit("Count", "In", &[-7]), -7),
        ("a negative code is no match for a positive one", on_exit("Ignore", "In", &[7]), -7),
    ] {
        on_shared_test_cluster(async |cluster| {
            let rules = json!([rule, on_exit("FailJob", "In", &[-7, 7])]);
            // Without the second rule if the first does not match.
            let rules = if case.contains("no match") || case.contains("no rule") { json!([rules[0]]) } else { rules };
            cluster.create(&job_with_failure_policy("counts", rules).spec("backoffLimit", 0).build()).await;
            let pods = cluster.wait_until_running("counts", 1).await;
            cluster.end_pod_as(&pods[0], PodPhase::Failed, exit_code, &[]).await;
            assert_eq!(wait_until_failed(&cluster, "counts", "BackoffLimitExceeded").await.0, 1, "{case}");
        });
    }
}

// Shows: U-TestJobPodFailurePolicyWithFailedPodDeletedDuringControllerRestart
#[test]
fn a_job_fails_even_if_its_failed_pod_is_deleted_while_the_controllers_are_down() {
    on_shared_test_cluster(async |mut cluster| {
        // The other pod ignores termination, so that the Job cannot finish before the controllers stop.
        let manifest = job_with_failure_policy("strict", json!([on_exit("FailJob", "In", &[5])])).pods(2);
        let manifest =
            manifest.annotate("phalanx.dev/ignore-stop", "true").pod_spec("terminationGracePeriodSeconds", 3600);
        cluster.create(&manifest.build()).await;
        let pods = cluster.wait_until_running("strict", 2).await;
        cluster.end_pod(&pods[0], 5).await;
        cluster
            .wait_for_job("strict", "has FailureTarget", |job| {
                Condition::is_true(&job.status.conditions, "FailureTarget")
            })
            .await;
        cluster.stop_component(Component::Controllers);
        cluster.delete(&format!("pods/{}", pods[0].metadata.name)).await;
        cluster.start_component(Component::Controllers);
        cluster.end_pod(&pods[1], 137).await;
        wait_until_failed(&cluster, "strict", "PodFailurePolicy").await;
    });
}

// Shows: U-e2e-job-backoff-limit, U-TestFinalizersClearedWhenBackoffLimitExceeded
#[test]
fn exceeding_the_backoff_limit_ends_the_job_and_its_running_pods() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("bad").pods(3).spec("backoffLimit", 1).run_forever().build()).await;
        let pods = cluster.wait_until_running("bad", 3).await;
        for pod in &pods[..2] {
            cluster.end_pod(pod, 1).await;
        }
        let (failures, _) = wait_until_failed(&cluster, "bad", "BackoffLimitExceeded").await;
        // On the wall clock the first pod may have been replaced before the second ended.
        assert!((3..=4).contains(&failures), "{failures}: two failed pods, and the pods that were ended with them");
        wait_until_finalizers_removed(&cluster).await;
        cluster
            .eventually("no pod runs", MINUTE, |cluster| {
                cluster.pods().iter().all(|pod| pod.is_finished()).then_some(())
            })
            .await;
        cluster.wait_for_event("BackoffLimitExceeded", "bad").await;
    });
}

// Shows: U-TestJobFailedWithInterrupts
#[test]
fn a_job_that_fails_during_controller_restarts_ends_with_all_its_pods() {
    on_shared_test_cluster(async |mut cluster| {
        cluster.create(&job("shaken").pods(8).spec("backoffLimit", 0).run_forever().build()).await;
        let pods = cluster.wait_until_running("shaken", 8).await;
        cluster.end_pod(&pods[0], 1).await;
        for _ in 0..3 {
            cluster.restart_component(Component::Controllers);
            cluster.advance(Duration::from_millis(700)).await;
        }
        assert_eq!(wait_until_failed(&cluster, "shaken", "BackoffLimitExceeded").await.0, 8);
        wait_until_finalizers_removed(&cluster).await;
        assert_eq!(cluster.created_count("pods"), 8);
    });
}

fn created(pod: &api::views::PodView) -> Timestamp {
    pod.metadata.creation_timestamp.unwrap()
}

// Shows: U-TestJobPodsCreatedWithExponentialBackoff
#[test]
fn each_failure_doubles_the_pod_backoff_and_a_success_resets_it() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("waits").spec("parallelism", 1).spec("completions", 3).run_forever().build()).await;
        let (unit, second) = (cluster.pod_backoff(), Duration::from_secs(1));
        let waited = async |exit_code: i32| {
            let pods = cluster.wait_until_running("waits", 1).await;
            // Times have a resolution of one second: the order of ends within one second is unknown.
            let at = cluster.now() + 2 * second;
            cluster.eventually("a second passes", MINUTE, |cluster| (cluster.now() >= at).then_some(())).await;
            cluster.end_pod(&pods[0], exit_code).await;
            let next = cluster.wait_until_running("waits", 1).await;
            Duration::try_from(created(&next[0]).duration_since(at)).unwrap_or_default()
        };
        // The machine may be slow: only a start that is too early is an error.
        assert!(waited(1).await + second >= unit, "after the first failure");
        assert!(waited(1).await + second >= 2 * unit, "after the second");
        assert!(waited(1).await + second >= 4 * unit, "after the third");
        assert!(waited(0).await < 8 * unit, "after a success");
        let after_success = waited(1).await;
        assert!(after_success + second >= unit && after_success < 8 * unit, "backoff starts again: {after_success:?}");
    });
}

// Shows: U-e2e-job-deadline
#[test]
fn a_job_past_its_deadline_fails_and_its_pods_end() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job("late").pods(2).spec("activeDeadlineSeconds", 5).run_forever().build()).await;
        cluster.wait_until_running("late", 2).await;
        assert_eq!(wait_until_failed(&cluster, "late", "DeadlineExceeded").await.0, 2);
        wait_until_finalizers_removed(&cluster).await;
        cluster.wait_for_event("DeadlineExceeded", "late").await;
    });
}

// The API accepts any number of seconds. Observed: the longest one crashed the whole control plane, at each start
// again.
#[test]
fn the_longest_deadline_is_accepted_and_never_expires() {
    on_shared_test_cluster(async |cluster| {
        let longest = job("patient").spec("activeDeadlineSeconds", i64::MAX).spec("ttlSecondsAfterFinished", i32::MAX);
        cluster.create(&longest.build()).await;
        assert_eq!(cluster.wait_until_ended("patient", MINUTE).await.1.kind, "Complete");
    });
}

// Shows: U-e2e-job-restart-local
#[test]
fn a_job_completes_with_containers_restarted_in_place() {
    on_shared_test_cluster(async |cluster| {
        let manifest = job("local").spec("backoffLimit", 3).pod_spec("restartPolicy", "OnFailure");
        let manifest = manifest.annotate("phalanx.dev/run-seconds", &cluster.scaled_seconds(10));
        cluster.create(&manifest.annotate("phalanx.dev/exit-code", "1").build()).await;
        let restarted = |cluster: &TestCluster| {
            let pods = cluster.pods_of("local");
            pods.iter().find(|pod| pod.status.container_statuses.iter().any(|c| c.restart_count > 0)).cloned()
        };
        let pod = cluster.eventually("its container was restarted", MINUTE, restarted).await;
        cluster.end_pod(&pod, 0).await;
        let (job, condition) = cluster.wait_until_ended("local", MINUTE).await;
        assert_eq!((condition.kind.as_str(), job.status.failed, cluster.created_count("pods")), ("Complete", 0, 1));
    });
}

// Shows: U-TestJobBackoffForOnFailure
#[test]
fn container_restarts_count_toward_the_limit() {
    on_shared_test_cluster(async |cluster| {
        let manifest = job("loops").spec("backoffLimit", 1).pod_spec("restartPolicy", "OnFailure");
        cluster.create(&manifest.annotate("phalanx.dev/exit-code", "1").build()).await;
        wait_until_failed(&cluster, "loops", "BackoffLimitExceeded").await;
        assert_eq!(cluster.created_count("pods"), 1, "the container was restarted, not the pod");
        wait_until_finalizers_removed(&cluster).await;
    });
}

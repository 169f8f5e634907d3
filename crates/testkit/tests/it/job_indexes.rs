//! Backoff limits per index and success policies.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::views::PodView;
use controlplane::Component;
use serde_json::{Value, json};
use testkit::{JobBuilder, TestCluster, job, on_shared_test_cluster};

const MINUTE: Duration = Duration::from_secs(60);
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const TRACKING: &str = "batch.kubernetes.io/job-tracking";

fn job_with_index_limit(name: &str, pods: i32, limit: i32) -> JobBuilder {
    job(name).pods(pods).indexed().run_forever().spec("backoffLimitPerIndex", limit)
}

/// The running pods, by index.
fn by_index(cluster: &TestCluster, name: &str) -> BTreeMap<u32, Arc<PodView>> {
    cluster
        .running_pods(name)
        .into_iter()
        .map(|pod| (pod.metadata.labels.get(INDEX).unwrap().parse().unwrap(), pod))
        .collect()
}

/// Waits until exactly these indexes run.
async fn wait_until_indexes_run(cluster: &TestCluster, name: &str, indexes: &[u32]) -> BTreeMap<u32, Arc<PodView>> {
    cluster
        .eventually(&format!("{indexes:?} run"), 3 * MINUTE, |cluster| {
            let running = by_index(cluster, name);
            (running.keys().copied().collect::<Vec<_>>() == indexes).then_some(running)
        })
        .await
}

async fn wait_until_ended(cluster: &TestCluster, name: &str, kind: &str, reason: &str) -> Value {
    let (_, condition) = cluster.wait_until_ended(name, 3 * MINUTE).await;
    assert_eq!((condition.kind.as_str(), condition.reason.as_str()), (kind, reason), "{name}: {condition:?}");
    cluster
        .eventually("every finalizer is removed", MINUTE, |cluster| {
            cluster.pods().iter().all(|pod| !pod.metadata.has_finalizer(TRACKING)).then_some(())
        })
        .await;
    cluster.get(&format!("jobs/{name}")).await["status"].clone()
}

/// Completed and failed indexes.
fn reported_indexes(status: &Value) -> (&str, &str) {
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    (text("completedIndexes"), text("failedIndexes"))
}

// Shows: U-TestBackoffLimitPerIndex
#[test]
fn an_index_that_fails_within_its_limit_is_retried_and_the_job_completes() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job_with_index_limit("tries", 2, 1).build()).await;
        let pods = wait_until_indexes_run(&cluster, "tries", &[0, 1]).await;
        cluster.end_pod(&pods[&0], 1).await;
        cluster
            .eventually("counted", MINUTE, |cluster| cluster.job("tries").filter(|job| job.status.failed == 1))
            .await;
        let pods = wait_until_indexes_run(&cluster, "tries", &[0, 1]).await;
        for pod in pods.values() {
            cluster.end_pod(pod, 0).await;
        }
        let status = wait_until_ended(&cluster, "tries", "Complete", "CompletionsReached").await;
        assert_eq!(
            (reported_indexes(&status), &status["failed"], &status["succeeded"]),
            (("0,1", ""), &json!(1), &json!(2))
        );
    });
}

// Shows: U-TestBackoffLimitPerIndex, U-e2e-job-per-index-all-run
#[test]
fn other_indexes_continue_when_one_has_failed() {
    on_shared_test_cluster(async |mut cluster| {
        cluster.create(&job_with_index_limit("goes-on", 3, 0).spec("parallelism", 2).build()).await;
        let pods = wait_until_indexes_run(&cluster, "goes-on", &[0, 1]).await;
        cluster.end_pod(&pods[&0], 1).await;
        let pods = wait_until_indexes_run(&cluster, "goes-on", &[1, 2]).await;
        cluster.restart_component(Component::Controllers);
        for pod in pods.values() {
            cluster.end_pod(pod, 0).await;
        }
        let status = wait_until_ended(&cluster, "goes-on", "Failed", "FailedIndexes").await;
        assert_eq!((reported_indexes(&status), &status["failed"]), (("1,2", "0"), &json!(1)));
    });
}

// Shows: U-TestBackoffLimitPerIndex
#[test]
fn backoff_limit_fails_the_job_before_the_limit_per_index() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job_with_index_limit("whole", 3, 1).spec("backoffLimit", 1).build()).await;
        let pods = wait_until_indexes_run(&cluster, "whole", &[0, 1, 2]).await;
        cluster.end_pod(&pods[&0], 1).await;
        cluster
            .eventually("counted", MINUTE, |cluster| cluster.job("whole").filter(|job| job.status.failed == 1))
            .await;
        let pods = wait_until_indexes_run(&cluster, "whole", &[0, 1, 2]).await;
        cluster.end_pod(&pods[&1], 1).await;
        let status = wait_until_ended(&cluster, "whole", "Failed", "BackoffLimitExceeded").await;
        // The second pod of index 0 and the first of index 2 were stopped: they count as failed, but no index has
        // failed.
        assert_eq!((reported_indexes(&status), &status["failed"]), (("", ""), &json!(4)));
    });
}

// Shows: U-TestBackoffLimitPerIndex, U-e2e-job-per-index-max-failed
#[test]
fn exceeding_max_failed_indexes_ends_the_job_and_its_other_pods() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job_with_index_limit("few", 4, 0).spec("maxFailedIndexes", 1).build()).await;
        let pods = wait_until_indexes_run(&cluster, "few", &[0, 1, 2, 3]).await;
        cluster.end_pod(&pods[&3], 0).await;
        for index in [0, 2] {
            cluster.end_pod(&pods[&index], 1).await;
        }
        let status = wait_until_ended(&cluster, "few", "Failed", "MaxFailedIndexesExceeded").await;
        // The pod of index 1 was stopped: it counts as failed, but its index has not failed.
        assert_eq!((reported_indexes(&status), &status["failed"]), (("3", "0,2"), &json!(3)));
        cluster.eventually("no pod runs", MINUTE, |cluster| cluster.running_pods("few").is_empty().then_some(())).await;
    });
}

// Shows: U-TestBackoffLimitPerIndex, U-e2e-job-per-index-fail-index
#[test]
fn fail_index_fails_only_that_index_at_once() {
    on_shared_test_cluster(async |cluster| {
        let rule = json!({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3]}});
        cluster
            .create(&job_with_index_limit("rule", 2, 5).spec("podFailurePolicy", json!({"rules": [rule]})).build())
            .await;
        let pods = wait_until_indexes_run(&cluster, "rule", &[0, 1]).await;
        cluster.end_pod(&pods[&1], 3).await;
        cluster.end_pod(&pods[&0], 0).await;
        let status = wait_until_ended(&cluster, "rule", "Failed", "FailedIndexes").await;
        assert_eq!((reported_indexes(&status), cluster.created_count("pods")), (("0", "1"), 2));
    });
}

// Shows: U-TestBackoffLimitPerIndex_DelayedPodDeletion, U-e2e-job-per-index-annotation
#[test]
fn the_last_failed_pod_of_an_index_is_kept_until_its_replacement_has_the_count() {
    on_shared_test_cluster(async |mut cluster| {
        cluster.create(&job_with_index_limit("carries", 1, 2).build()).await;
        for round in 0..3 {
            let pods = wait_until_indexes_run(&cluster, "carries", &[0]).await;
            let count = pods[&0].metadata.annotations.get(FAILURES);
            assert_eq!(count.map(String::as_str), Some(round.to_string().as_str()));
            if round == 2 {
                break;
            }
            cluster.end_pod(&pods[&0], 1).await;
            // A deleted pod stays while no other pod has the count.
            cluster.delete(&format!("pods/{}", pods[&0].metadata.name)).await;
            cluster.restart_component(Component::Controllers);
            let replacement = |cluster: &TestCluster| {
                by_index(cluster, "carries").into_values().find(|pod| pod.metadata.uid != pods[&0].metadata.uid)
            };
            cluster.eventually("its replacement runs", 3 * MINUTE, replacement).await;
            let name = pods[&0].metadata.name.clone();
            cluster
                .eventually("then it is removed", MINUTE, |cluster| {
                    cluster.pods().iter().all(|pod| pod.metadata.name != name).then_some(())
                })
                .await;
            let history = cluster.history();
            let position = |found: &dyn Fn(&testkit::RecordedWrite) -> bool| history.iter().position(found).unwrap();
            let deleted = position(&|change| change.resource == "pods" && change.name() == name && change.deleted);
            let next = json!((round + 1).to_string());
            let created = position(&|change| {
                let annotation = &change.object["metadata"]["annotations"][FAILURES];
                change.resource == "pods" && change.created && *annotation == next
            });
            assert!(created < deleted, "round {round}");
        }
        cluster.end_pod(&by_index(&cluster, "carries")[&0], 1).await;
        let status = wait_until_ended(&cluster, "carries", "Failed", "FailedIndexes").await;
        assert_eq!((reported_indexes(&status), &status["failed"]), (("", "0"), &json!(3)));
    });
}

// Shows: U-TestBackoffLimitPerIndex_JobPodsCreatedWithExponentialBackoff
#[test]
fn backoff_is_counted_per_index() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job_with_index_limit("apart", 2, 4).build()).await;
        let unit = cluster.pod_backoff();
        let second = Duration::from_secs(1);
        let created = |pod: &PodView| pod.metadata.creation_timestamp.unwrap();
        for factor in [1, 2] {
            let pods = wait_until_indexes_run(&cluster, "apart", &[0, 1]).await;
            let at = cluster.now();
            cluster.end_pod(&pods[&0], 1).await;
            let next = wait_until_indexes_run(&cluster, "apart", &[0, 1]).await;
            let waited = Duration::try_from(created(&next[&0]).duration_since(at)).unwrap_or_default();
            assert!(waited + second >= factor * unit, "{waited:?}");
            assert_eq!(next[&1].metadata.uid, pods[&1].metadata.uid, "the other pod is unchanged");
        }
        let pods = by_index(&cluster, "apart");
        let at = cluster.now();
        cluster.end_pod(&pods[&1], 1).await;
        let next = wait_until_indexes_run(&cluster, "apart", &[0, 1]).await;
        let waited = Duration::try_from(created(&next[&1]).duration_since(at)).unwrap_or_default();
        let limit = cluster.scaled_timeout(unit + 2 * second);
        assert!(waited + second >= unit && waited <= limit, "its first failure: {waited:?}");
    });
}

fn job_with_success_policy(name: &str, pods: i32, rules: Value) -> JobBuilder {
    job(name).pods(pods).indexed().run_forever().spec("successPolicy", json!({"rules": rules}))
}

// Shows: U-TestSuccessPolicy, U-e2e-job-success-policy
#[test]
fn a_met_success_policy_completes_the_job_and_ends_its_remaining_pods() {
    for (case, rules, indexes, completed) in [
        ("some indexes", json!([{"succeededIndexes": "0-1"}]), vec![0, 1], "0,1"),
        ("a count", json!([{"succeededCount": 2}]), vec![1, 3], "1,3"),
        ("a count among some indexes", json!([{"succeededIndexes": "1-3", "succeededCount": 1}]), vec![2], "2"),
        ("any rule", json!([{"succeededIndexes": "0"}, {"succeededIndexes": "3"}]), vec![3], "3"),
    ] {
        on_shared_test_cluster(async |cluster| {
            cluster.create(&job_with_success_policy("enough", 4, rules).build()).await;
            let pods = wait_until_indexes_run(&cluster, "enough", &[0, 1, 2, 3]).await;
            for index in &indexes {
                cluster.end_pod(&pods[index], 0).await;
            }
            let status = wait_until_ended(&cluster, "enough", "Complete", "SuccessPolicy").await;
            assert_eq!(
                (reported_indexes(&status).0, &status["succeeded"]),
                (completed, &json!(indexes.len())),
                "{case}"
            );
            assert_eq!(status["failed"].as_i64().unwrap_or(0), 0, "stopped pods did not fail: {case}");
            let conditions = status["conditions"].as_array().unwrap();
            let met = conditions.iter().find(|one| one["type"] == "SuccessCriteriaMet").unwrap();
            assert_eq!((&met["status"], &met["reason"]), (&json!("True"), &json!("SuccessPolicy")), "{case}");
            cluster
                .eventually("the remaining pods end", MINUTE, |cluster| {
                    cluster.running_pods("enough").is_empty().then_some(())
                })
                .await;
        });
    }
}

// Shows: U-TestSuccessPolicy
#[test]
fn without_a_met_rule_all_indexes_must_succeed() {
    on_shared_test_cluster(async |cluster| {
        cluster.create(&job_with_success_policy("all", 2, json!([{"succeededIndexes": "0-1"}])).build()).await;
        let pods = wait_until_indexes_run(&cluster, "all", &[0, 1]).await;
        cluster.end_pod(&pods[&1], 0).await;
        wait_until_indexes_run(&cluster, "all", &[0]).await;
        assert!(cluster.job("all").unwrap().status.completion_time.is_none());
        cluster.end_pod(&pods[&0], 0).await;
        wait_until_ended(&cluster, "all", "Complete", "SuccessPolicy").await;
    });
}

// Shows: U-TestSuccessPolicy
#[test]
fn a_job_with_failed_indexes_does_not_succeed_by_its_policy() {
    on_shared_test_cluster(async |cluster| {
        let manifest =
            job_with_success_policy("loses", 2, json!([{"succeededIndexes": "0-1"}])).spec("backoffLimitPerIndex", 0);
        cluster.create(&manifest.build()).await;
        let pods = wait_until_indexes_run(&cluster, "loses", &[0, 1]).await;
        cluster.end_pod(&pods[&0], 1).await;
        cluster.end_pod(&pods[&1], 0).await;
        let status = wait_until_ended(&cluster, "loses", "Failed", "FailedIndexes").await;
        assert_eq!(reported_indexes(&status), ("1", "0"));
    });
}

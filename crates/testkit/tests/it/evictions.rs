//! Evictions, as `kubectl drain` sends them.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{TestCluster, job, on_test_cluster};

const MINUTE: Duration = Duration::from_secs(60);

async fn evict(cluster: &TestCluster, pod: &str) -> Result<Value, kube::Error> {
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
    cluster.request("POST", &cluster.path(&format!("pods/{pod}/eviction")), &eviction).await
}

// Observed: without evictions a drain deleted pods, and the Job counted each as a failure.
#[test]
fn a_job_survives_a_node_drain() {
    on_test_cluster(async {
        let cluster = TestCluster::start(1, 2).await;
        cluster.create(&job("drained").pods(2).spec("backoffLimit", 0).run_forever().build()).await;
        let pods = cluster.wait_until_running("drained", 2).await;
        for pod in &pods {
            evict(&cluster, &pod.metadata.name).await.unwrap();
        }
        cluster
            .eventually("two others run", 3 * MINUTE, |cluster| {
                let now = cluster.running_pods("drained");
                let are_new = now.iter().all(|pod| pods.iter().all(|old| old.metadata.uid != pod.metadata.uid));
                (now.len() == 2 && are_new).then_some(())
            })
            .await;
        let job = cluster.job("drained").unwrap();
        assert_eq!((job.finished_condition().is_none(), job.status.failed), (true, 0), "{:?}", job.status.conditions);
    });
}

/// On virtual time the disruption controller is ours; on the real control plane it is kube-controller-manager's.
#[test]
fn a_budget_allows_evictions_one_at_a_time() {
    on_test_cluster(async {
        let cluster = TestCluster::start(1, 2).await;
        cluster.create(&job("guarded").pods(2).run_forever().build()).await;
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"batch.kubernetes.io/job-name": "guarded"}}}});
        let budgets = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", cluster.namespace());
        cluster.request("POST", &budgets, &budget).await.unwrap();
        let pods = cluster.wait_until_running("guarded", 2).await;
        wait_until_allowed(&cluster, &budgets, 1).await;
        evict(&cluster, &pods[0].metadata.name).await.unwrap();
        let refused = evict(&cluster, &pods[1].metadata.name).await.unwrap_err();
        assert!(refused.to_string().contains("disruption budget"), "{refused}");
        // The first pod is replaced, then the second may be evicted.
        wait_until_allowed(&cluster, &budgets, 1).await;
        evict(&cluster, &pods[1].metadata.name).await.unwrap();
    });
}

// The expected number of a Job's pods is unknown, so maxUnavailable cannot be computed. Observed: only a condition said
// so.
#[test]
fn a_budget_that_cannot_be_computed_gets_a_warning_event() {
    on_test_cluster(async {
        let cluster = TestCluster::start(1, 2).await;
        cluster.create(&job("guarded").pods(2).run_forever().build()).await;
        cluster.wait_until_running("guarded", 2).await;
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "share"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"batch.kubernetes.io/job-name": "guarded"}}}});
        let budgets = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", cluster.namespace());
        cluster.request("POST", &budgets, &budget).await.unwrap();
        let events = cluster
            .eventually("the budget has an Event", MINUTE, |cluster| {
                Some(cluster.events("share")).filter(|events| !events.is_empty())
            })
            .await;
        let (reason, message) = &events[0];
        assert_eq!(reason, "CalculateExpectedPodCountFailed");
        let want =
            "Failed to calculate the number of expected pods: jobs.batch does not implement the scale subresource";
        assert_eq!(message, want);
        let budget = cluster.request("GET", &format!("{budgets}/share"), &json!({})).await.unwrap();
        assert_eq!(budget["status"]["disruptionsAllowed"], 0);
        assert_eq!(budget["status"]["conditions"][0]["reason"], "SyncFailed");
    });
}

/// Waits until the budget allows `count` evictions and has no pending ones.
async fn wait_until_allowed(cluster: &TestCluster, budgets: &str, count: i64) {
    for _ in 0..1800 {
        let budget = cluster.request("GET", &format!("{budgets}/b"), &json!({})).await.unwrap();
        let status = &budget["status"];
        if status["disruptionsAllowed"] == count
            && status["disruptedPods"].as_object().is_none_or(serde_json::Map::is_empty)
        {
            assert_eq!(status["desiredHealthy"], 1);
            return;
        }
        cluster.advance(Duration::from_millis(100)).await;
    }
    panic!("the budget never allows {count}");
}

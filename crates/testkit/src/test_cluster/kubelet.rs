//! Pod statuses that a kubelet or an eviction writes, for tests in which it matters which pod ends, and how.

use std::time::Duration;

use api::clock::rfc3339;
use api::views::{PodPhase, PodView};
use serde_json::{Value, json};

use super::TestCluster;

impl TestCluster {
    /// Ends a pod: its containers terminate with this exit code.
    pub async fn end_pod(&self, pod: &PodView, exit_code: i32) {
        let phase = if exit_code == 0 { PodPhase::Succeeded } else { PodPhase::Failed };
        self.end_pod_as(pod, phase, exit_code, &[]).await;
    }

    /// Ends a pod in this phase, with this exit code of its containers, and sets these conditions to True.
    pub async fn end_pod_as(&self, pod: &PodView, phase: PodPhase, exit_code: i32, conditions: &[&str]) {
        let now = rfc3339(self.now());
        let path = format!("pods/{}", pod.metadata.name);
        let found = self.get(&path).await;
        let mut all = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.retain(|condition| !["Ready", "ContainersReady"].contains(&condition["type"].as_str().unwrap_or_default()));
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": now});
        all.extend(["Ready", "ContainersReady"].map(|kind| condition(kind, "False")));
        all.extend(conditions.iter().map(|kind| condition(kind, "True")));
        let ended = json!({"terminated": {
            "exitCode": exit_code, "reason": "Ended", "startedAt": now, "finishedAt": now,
        }});
        let container = |container: &Value| {
            json!({
                "name": container["name"], "image": container["image"], "imageID": "", "ready": false, "started": false,
                "restartCount": 0, "state": ended,
            })
        };
        let containers: Vec<Value> =
            found["spec"]["containers"].as_array().expect("a pod has containers").iter().map(container).collect();
        let phase = format!("{phase:?}");
        let status = json!({"phase": phase, "conditions": all, "containerStatuses": containers});
        self.patch(&format!("{path}/status"), &json!({"status": status})).await;
        // The cache that the test reads next is not older than this write.
        self.eventually("the cache has the end of the pod", Duration::from_secs(10), |cluster| {
            let pods = cluster.pods();
            let cached = pods.iter().find(|cached| cached.metadata.uid == pod.metadata.uid);
            cached.is_none_or(|cached| cached.is_finished()).then_some(())
        })
        .await;
    }

    /// Evicts a pod: sets the condition DisruptionTarget, then deletes it.
    pub async fn evict(&self, pod: &PodView) {
        let path = format!("pods/{}", pod.metadata.name);
        let mut all = self.get(&path).await["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.push(json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "lastTransitionTime": rfc3339(self.now()),
        }));
        self.patch(&format!("{path}/status"), &json!({"status": {"conditions": all}})).await;
        self.delete(&path).await;
    }
}

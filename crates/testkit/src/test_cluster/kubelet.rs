//! What only a kubelet, or who evicts, may say of a pod: said by the test where it matters which pod ends, and how.

use std::time::Duration;

use api::clock::rfc3339;
use api::views::{PodPhase, PodView};
use serde_json::{Value, json};

use super::TestCluster;

impl TestCluster {
    /// The containers of a pod end with this code, and with them the pod.
    pub async fn end_pod(&self, pod: &PodView, exit_code: i32) {
        let phase = if exit_code == 0 { PodPhase::Succeeded } else { PodPhase::Failed };
        self.end_pod_as(pod, phase, exit_code, &[]).await;
    }

    /// The pod ends in this phase, its containers with this code, and with conditions that are true besides.
    pub async fn end_pod_as(&self, pod: &PodView, phase: PodPhase, exit_code: i32, conditions: &[&str]) {
        let now = rfc3339(self.now());
        let path = format!("pods/{}", pod.metadata.name);
        let found = self.get(&path).await;
        let mut held = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        held.retain(|condition| {
            !["Ready", "ContainersReady"].contains(&condition["type"].as_str().unwrap_or_default())
        });
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "lastTransitionTime": now});
        held.extend(["Ready", "ContainersReady"].map(|kind| condition(kind, "False")));
        held.extend(conditions.iter().map(|kind| condition(kind, "True")));
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
        let status = json!({"phase": phase, "conditions": held, "containerStatuses": containers});
        self.patch(&format!("{path}/status"), &json!({"status": status})).await;
        // What the test looks at next is not older than that.
        self.eventually("the end is seen", Duration::from_secs(10), |home| {
            let pods = home.pods();
            let seen = pods.iter().find(|seen| seen.metadata.uid == pod.metadata.uid);
            seen.is_none_or(|seen| seen.is_finished()).then_some(())
        })
        .await;
    }

    /// Somebody evicts a pod: it is marked as disrupted, then deleted.
    pub async fn evict(&self, pod: &PodView) {
        let path = format!("pods/{}", pod.metadata.name);
        let mut held = self.get(&path).await["status"]["conditions"].as_array().cloned().unwrap_or_default();
        held.push(json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "lastTransitionTime": rfc3339(self.now()),
        }));
        self.patch(&format!("{path}/status"), &json!({"status": {"conditions": held}})).await;
        self.delete(&path).await;
    }
}

//! Pods that change hands: adopted by selector, let go when their labels change, never counted twice.

use api::views::{Condition, ObjectKey, PodView, View};
use phalanx_controllers::job::job_params::TRACKING_FINALIZER;
use runtime::PatchKind;
use runtime::request::{patch, post};
use serde_json::json;

use crate::test_controllers::{TestControllers, with_controllers};

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

async fn patch_pod(cluster: &TestControllers, name: &str, body: serde_json::Value) {
    let path = PodView::RESOURCE.object_path(&ObjectKey::new("default", name));
    let answer = patch(&cluster.client, &path, PatchKind::Merge, &body).await.unwrap();
    cluster.pods.wait_for_revision(answer.revision).await;
}

fn controlled(cluster: &TestControllers) -> usize {
    cluster.pods.all().iter().filter(|pod| pod.metadata.controller().is_some()).count()
}

// Shows: U-e2e-job-adopt-release
#[tokio::test(start_paused = true)]
async fn a_pod_that_was_orphaned_is_taken_back_and_one_with_other_labels_is_let_go() {
    with_controllers(|home| async move {
        home.post_job(json!({ "parallelism": 2, "completions": 2 })).await;
        home.eventually("all pods are there", |home| home.job().status.active == 2).await;
        let name = home.pods.all()[0].metadata.name.clone();
        patch_pod(&home, &name, json!({ "metadata": { "ownerReferences": null, "finalizers": null } })).await;
        let back = |home: &TestControllers| {
            let pods = home.pods.all();
            let pod = pods.iter().find(|pod| pod.metadata.name == name);
            pod.is_some_and(|pod| pod.metadata.controller().is_some() && pod.metadata.has_finalizer(TRACKING_FINALIZER))
        };
        home.eventually("it is adopted and held", back).await;
        home.eventually("there are two again", |home| controlled(home) == 2).await;
        patch_pod(&home, &name, json!({ "metadata": { "labels": { CONTROLLER_UID: "nobody" } } })).await;
        let free = |home: &TestControllers| {
            let pod = home.pods.get(&ObjectKey::new("default", &name)).unwrap();
            pod.metadata.owner_references.iter().all(|owner| owner.kind != "Job") && pod.metadata.finalizers.is_empty()
        };
        home.eventually("it is let go", free).await;
        home.eventually("another stands in for it", |home| home.pods.len() == 3 && controlled(home) == 2).await;
        home.end_pods("Succeeded").await;
        let complete = |home: &TestControllers| Condition::is_true(&home.job().status.conditions, "Complete");
        home.eventually("it completes", complete).await;
        assert_eq!((home.job().status.succeeded, home.job().status.failed), (2, 0), "the stray is not counted");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_came_before_its_job_is_adopted_in_place_of_a_new_one() {
    with_controllers(|home| async move {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "early", "labels": { "app": "mine" } },
            "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "app" }] },
        });
        let answer = post(&home.client, &PodView::RESOURCE.collection_path("default"), &pod).await.unwrap();
        home.pods.wait_for_revision(answer.revision).await;
        let template = json!({
            "metadata": { "labels": { "app": "mine" } },
            "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "app" }] },
        });
        let selector = json!({ "matchLabels": { "app": "mine" } });
        let spec = json!({ "completions": 1, "manualSelector": true, "selector": selector, "template": template });
        home.post_job(spec).await;
        home.eventually("it counts", |home| home.job().status.active == 1).await;
        assert_eq!(home.pods.len(), 1);
        home.end_pods("Succeeded").await;
        let complete = |home: &TestControllers| Condition::is_true(&home.job().status.conditions, "Complete");
        home.eventually("it completes", complete).await;
        assert_eq!((home.pods.len(), home.job().status.succeeded), (1, 1));
    })
    .await;
}

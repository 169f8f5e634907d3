//! Pods are adopted by selector, released when their labels change, and never counted twice.

use api::views::{Condition, ObjectKey, PodView, View};
use phalanx_controllers::job::job_params::TRACKING_FINALIZER;
use runtime::PatchKind;
use runtime::request::{patch, post};
use serde_json::json;

use crate::test_controllers::{TestControllers, with_controllers};

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

async fn patch_pod(cluster: &TestControllers, name: &str, body: serde_json::Value) {
    let path = PodView::RESOURCE.object_path(&ObjectKey::new("default", name));
    let response = patch(&cluster.client, &path, PatchKind::Merge, &body).await.unwrap();
    cluster.pods.wait_for_revision(response.revision).await;
}

fn controlled(cluster: &TestControllers) -> usize {
    cluster.pods.all().iter().filter(|pod| pod.metadata.controller().is_some()).count()
}

// Shows: U-e2e-job-adopt-release
#[tokio::test(start_paused = true)]
async fn an_orphaned_pod_is_adopted_again_and_one_with_other_labels_is_released() {
    with_controllers(|cluster| async move {
        cluster.post_job(json!({ "parallelism": 2, "completions": 2 })).await;
        cluster.eventually("all pods exist", |cluster| cluster.job().status.active == 2).await;
        let name = cluster.pods.all()[0].metadata.name.clone();
        patch_pod(&cluster, &name, json!({ "metadata": { "ownerReferences": null, "finalizers": null } })).await;
        let adopted = |cluster: &TestControllers| {
            let pods = cluster.pods.all();
            let pod = pods.iter().find(|pod| pod.metadata.name == name);
            pod.is_some_and(|pod| pod.metadata.controller().is_some() && pod.metadata.has_finalizer(TRACKING_FINALIZER))
        };
        cluster.eventually("it is adopted and has the finalizer", adopted).await;
        cluster.eventually("there are two again", |cluster| controlled(cluster) == 2).await;
        patch_pod(&cluster, &name, json!({ "metadata": { "labels": { CONTROLLER_UID: "none" } } })).await;
        let released = |cluster: &TestControllers| {
            let pod = cluster.pods.get(&ObjectKey::new("default", &name)).unwrap();
            pod.metadata.owner_references.iter().all(|owner| owner.kind != "Job") && pod.metadata.finalizers.is_empty()
        };
        cluster.eventually("it is released", released).await;
        cluster.eventually("another replaces it", |cluster| cluster.pods.len() == 3 && controlled(cluster) == 2).await;
        cluster.end_pods("Succeeded").await;
        let complete = |cluster: &TestControllers| Condition::is_true(&cluster.job().status.conditions, "Complete");
        cluster.eventually("it completes", complete).await;
        assert_eq!(
            (cluster.job().status.succeeded, cluster.job().status.failed),
            (2, 0),
            "the released pod is not counted"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_older_than_its_job_is_adopted_instead_of_a_new_one() {
    with_controllers(|cluster| async move {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "early", "labels": { "app": "mine" } },
            "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "app" }] },
        });
        let response = post(&cluster.client, &PodView::RESOURCE.collection_path("default"), &pod).await.unwrap();
        cluster.pods.wait_for_revision(response.revision).await;
        let template = json!({
            "metadata": { "labels": { "app": "mine" } },
            "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "app" }] },
        });
        let selector = json!({ "matchLabels": { "app": "mine" } });
        let spec = json!({ "completions": 1, "manualSelector": true, "selector": selector, "template": template });
        cluster.post_job(spec).await;
        cluster.eventually("it counts", |cluster| cluster.job().status.active == 1).await;
        assert_eq!(cluster.pods.len(), 1);
        cluster.end_pods("Succeeded").await;
        let complete = |cluster: &TestControllers| Condition::is_true(&cluster.job().status.conditions, "Complete");
        cluster.eventually("it completes", complete).await;
        assert_eq!((cluster.pods.len(), cluster.job().status.succeeded), (1, 1));
    })
    .await;
}

//! From a Job to its objects, its end and its deletion.

use api::views::Condition;
use serde_json::json;

use crate::test_controllers::{TestControllers, with_controllers, with_crashing_controllers};

fn gang(pods: i32) -> serde_json::Value {
    json!({ "parallelism": pods, "completions": pods, "scheduling": { "schedulingPolicy": { "gang": {} } } })
}

// Shows: S000-11
// Shows: S000-45
// Shows: S000-55
// Shows: S000-95
#[tokio::test(start_paused = true)]
async fn a_gang_job_gets_its_objects_in_order_and_completes_with_exact_counts() {
    with_controllers(|cluster| async move {
        cluster.post_job(gang(600)).await;
        cluster.eventually("all pods exist", |cluster| cluster.pods.len() == 600).await;
        let group = cluster.pod_groups.all().pop().expect("one group");
        let workload = cluster.workloads.all().pop().expect("one workload");
        assert_eq!((cluster.pod_groups.len(), cluster.workloads.len()), (1, 1));
        assert_eq!(group.min_count(), Some(600));
        assert_eq!(workload.spec.pod_group_templates.as_ref().map(Vec::len), Some(1));
        assert!(workload.metadata.resource_version < group.metadata.resource_version);
        for pod in cluster.pods.all() {
            assert!(group.metadata.resource_version < pod.metadata.resource_version);
            assert_eq!(pod.group_name(), Some(group.metadata.name.as_str()));
            assert_eq!(pod.metadata.owner_references.len(), 2);
        }
        cluster.eventually("they are counted", |cluster| cluster.job().status.active == 600).await;
        cluster.end_pods("Succeeded").await;
        let complete = |cluster: &TestControllers| Condition::is_true(&cluster.job().status.conditions, "Complete");
        cluster.eventually("it completes", complete).await;
        let job = cluster.job();
        assert_eq!((job.status.succeeded, job.status.failed, job.status.active), (600, 0, 0));
        assert!(cluster.pods.all().iter().all(|pod| pod.metadata.finalizers.is_empty()));
        let events = cluster.events().await;
        for reason in ["WorkloadCreated", "PodGroupCreated", "SuccessfulCreate", "Completed"] {
            assert!(events.iter().any(|seen| seen == reason), "{reason} in {events:?}");
        }
    })
    .await;
}

// Shows: S000-57
// Shows: S003-04
#[tokio::test(start_paused = true)]
async fn deleting_a_job_deletes_all_its_objects() {
    for policy in ["Background", "Foreground"] {
        with_controllers(|cluster| async move {
            cluster.post_job(gang(20)).await;
            cluster.eventually("all pods exist", |cluster| cluster.job().status.active == 20).await;
            cluster.delete_job(policy).await;
            cluster.eventually("nothing remains", |cluster| cluster.objects().is_empty()).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn orphaned_objects_stay_and_orphaned_pods_lose_their_finalizer() {
    with_controllers(|cluster| async move {
        cluster.post_job(gang(3)).await;
        cluster.eventually("all pods exist", |cluster| cluster.job().status.active == 3).await;
        cluster.delete_job("Orphan").await;
        cluster.eventually("the Job is gone", |cluster| cluster.jobs.is_empty()).await;
        let released = |cluster: &TestControllers| {
            cluster
                .pods
                .all()
                .iter()
                .all(|pod| pod.metadata.finalizers.is_empty() && pod.metadata.controller().is_none())
        };
        cluster.eventually("pods have no owner and no finalizer", released).await;
        assert_eq!((cluster.workloads.len(), cluster.pod_groups.len(), cluster.pods.len()), (1, 1, 3));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn min_count_follows_parallelism() {
    with_controllers(|cluster| async move {
        let indexed = json!({
            "parallelism": 2, "completions": 2, "completionMode": "Indexed",
            "scheduling": { "schedulingPolicy": { "gang": {} } },
        });
        cluster.post_job(indexed).await;
        cluster.eventually("all pods exist", |cluster| cluster.job().status.active == 2).await;
        cluster.patch_job(json!({ "spec": { "parallelism": 3, "completions": 3 } })).await;
        let followed =
            |cluster: &TestControllers| cluster.pod_groups.all()[0].min_count() == Some(3) && cluster.pods.len() == 3;
        cluster.eventually("the group follows", followed).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn suspend_and_resume_keep_the_group() {
    with_controllers(|cluster| async move {
        cluster.post_job(gang(4)).await;
        cluster.eventually("all pods exist", |cluster| cluster.job().status.active == 4).await;
        let group = cluster.pod_groups.all()[0].metadata.uid.clone();
        cluster.patch_job(json!({ "spec": { "suspend": true } })).await;
        let suspended = |cluster: &TestControllers| {
            cluster.pods.is_empty() && Condition::is_true(&cluster.job().status.conditions, "Suspended")
        };
        cluster.eventually("pods are gone", suspended).await;
        assert_eq!((cluster.job().status.failed, cluster.job().status.start_time), (0, None));
        cluster.patch_job(json!({ "spec": { "suspend": false } })).await;
        cluster.eventually("pods are back", |cluster| cluster.job().status.active == 4).await;
        assert!(cluster.job().status.start_time.is_some());
        assert_eq!(cluster.pod_groups.all()[0].metadata.uid, group);
        assert!(cluster.pods.all().iter().all(|pod| pod.group_name().is_some()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_fails_too_often_fails() {
    with_controllers(|cluster| async move {
        cluster.post_job(json!({ "parallelism": 2, "completions": 3, "backoffLimit": 1 })).await;
        cluster.eventually("all pods exist", |cluster| cluster.job().status.active == 2).await;
        assert_eq!(cluster.end_pods("Failed").await, 2);
        let failed = |cluster: &TestControllers| Condition::is_true(&cluster.job().status.conditions, "Failed");
        cluster.eventually("it fails", failed).await;
        let job = cluster.job();
        assert_eq!((job.status.failed, job.status.succeeded, job.status.active), (2, 0, 0));
        assert_eq!(job.status.conditions[0].reason, "BackoffLimitExceeded");
    })
    .await;
}

// Shows: S000-35
#[tokio::test(start_paused = true)]
async fn controllers_that_crash_at_any_moment_create_everything_once_and_count_exactly() {
    for seed in 0..10 {
        with_crashing_controllers(seed, |cluster| async move {
            cluster
                .post_job(json!({
                    "parallelism": 6, "completions": 10, "backoffLimit": 100,
                    "scheduling": { "schedulingPolicy": { "gang": {} } },
                }))
                .await;
            cluster.eventually("all pods exist", |cluster| cluster.job().status.active == 6).await;
            let mut to_count = cluster.end_pods("Failed").await;
            let complete = |cluster: &TestControllers| Condition::is_true(&cluster.job().status.conditions, "Complete");
            while !complete(&cluster) {
                let busy = |cluster: &TestControllers| {
                    complete(cluster) || cluster.pods.all().iter().any(|pod| !pod.is_finished())
                };
                cluster.eventually("the Job continues", busy).await;
                to_count += cluster.end_pods("Succeeded").await;
            }
            let status = &cluster.job().status;
            assert_eq!((status.succeeded + status.failed) as usize, to_count, "seed {seed}");
            assert!(status.succeeded >= 10 && status.failed > 0, "seed {seed}");
            assert_eq!((cluster.workloads.len(), cluster.pod_groups.len()), (1, 1), "seed {seed}");
            assert!(cluster.pods.all().iter().all(|pod| pod.group_name().is_some()), "seed {seed}");
            cluster.delete_job("Background").await;
            cluster.eventually("nothing remains", |cluster| cluster.objects().is_empty()).await;
        })
        .await;
    }
}

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
    with_controllers(|home| async move {
        home.post_job(gang(600)).await;
        home.eventually("all pods are there", |home| home.pods.len() == 600).await;
        let group = home.pod_groups.all().pop().expect("one group");
        let workload = home.workloads.all().pop().expect("one workload");
        assert_eq!((home.pod_groups.len(), home.workloads.len()), (1, 1));
        assert_eq!(group.min_count(), Some(600));
        assert_eq!(workload.spec.pod_group_templates.as_ref().map(Vec::len), Some(1));
        assert!(workload.metadata.resource_version < group.metadata.resource_version);
        for pod in home.pods.all() {
            assert!(group.metadata.resource_version < pod.metadata.resource_version);
            assert_eq!(pod.group_name(), Some(group.metadata.name.as_str()));
            assert_eq!(pod.metadata.owner_references.len(), 2);
        }
        home.eventually("they are counted", |home| home.job().status.active == 600).await;
        home.end_pods("Succeeded").await;
        let complete = |home: &TestControllers| Condition::is_true(&home.job().status.conditions, "Complete");
        home.eventually("it completes", complete).await;
        let job = home.job();
        assert_eq!((job.status.succeeded, job.status.failed, job.status.active), (600, 0, 0));
        assert!(home.pods.all().iter().all(|pod| pod.metadata.finalizers.is_empty()));
        let events = home.events().await;
        for reason in ["WorkloadCreated", "PodGroupCreated", "SuccessfulCreate", "Completed"] {
            assert!(events.iter().any(|seen| seen == reason), "{reason} in {events:?}");
        }
    })
    .await;
}

// Shows: S000-57
// Shows: S003-04
#[tokio::test(start_paused = true)]
async fn deleting_a_job_takes_everything_along() {
    for policy in ["Background", "Foreground"] {
        with_controllers(|home| async move {
            home.post_job(gang(20)).await;
            home.eventually("all pods are there", |home| home.job().status.active == 20).await;
            home.delete_job(policy).await;
            home.eventually("nothing is left", |home| home.objects().is_empty()).await;
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn orphaned_objects_stay_and_orphaned_pods_are_let_go() {
    with_controllers(|home| async move {
        home.post_job(gang(3)).await;
        home.eventually("all pods are there", |home| home.job().status.active == 3).await;
        home.delete_job("Orphan").await;
        home.eventually("the Job is gone", |home| home.jobs.is_empty()).await;
        let released = |home: &TestControllers| {
            home.pods.all().iter().all(|pod| pod.metadata.finalizers.is_empty() && pod.metadata.controller().is_none())
        };
        home.eventually("pods are nobody's", released).await;
        assert_eq!((home.workloads.len(), home.pod_groups.len(), home.pods.len()), (1, 1, 3));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn min_count_follows_parallelism() {
    with_controllers(|home| async move {
        let indexed = json!({
            "parallelism": 2, "completions": 2, "completionMode": "Indexed",
            "scheduling": { "schedulingPolicy": { "gang": {} } },
        });
        home.post_job(indexed).await;
        home.eventually("all pods are there", |home| home.job().status.active == 2).await;
        home.patch_job(json!({ "spec": { "parallelism": 3, "completions": 3 } })).await;
        let followed = |home: &TestControllers| home.pod_groups.all()[0].min_count() == Some(3) && home.pods.len() == 3;
        home.eventually("the group follows", followed).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn suspend_and_resume_keep_the_group() {
    with_controllers(|home| async move {
        home.post_job(gang(4)).await;
        home.eventually("all pods are there", |home| home.job().status.active == 4).await;
        let group = home.pod_groups.all()[0].metadata.uid.clone();
        home.patch_job(json!({ "spec": { "suspend": true } })).await;
        let suspended = |home: &TestControllers| {
            home.pods.is_empty() && Condition::is_true(&home.job().status.conditions, "Suspended")
        };
        home.eventually("pods are gone", suspended).await;
        assert_eq!((home.job().status.failed, home.job().status.start_time), (0, None));
        home.patch_job(json!({ "spec": { "suspend": false } })).await;
        home.eventually("pods are back", |home| home.job().status.active == 4).await;
        assert!(home.job().status.start_time.is_some());
        assert_eq!(home.pod_groups.all()[0].metadata.uid, group);
        assert!(home.pods.all().iter().all(|pod| pod.group_name().is_some()));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_fails_too_often_fails() {
    with_controllers(|home| async move {
        home.post_job(json!({ "parallelism": 2, "completions": 3, "backoffLimit": 1 })).await;
        home.eventually("all pods are there", |home| home.job().status.active == 2).await;
        assert_eq!(home.end_pods("Failed").await, 2);
        let failed = |home: &TestControllers| Condition::is_true(&home.job().status.conditions, "Failed");
        home.eventually("it fails", failed).await;
        let job = home.job();
        assert_eq!((job.status.failed, job.status.succeeded, job.status.active), (2, 0, 0));
        assert_eq!(job.status.conditions[0].reason, "BackoffLimitExceeded");
    })
    .await;
}

// Shows: S000-35
#[tokio::test(start_paused = true)]
async fn controllers_that_die_at_any_moment_make_everything_once_and_count_exactly() {
    for seed in 0..10 {
        with_crashing_controllers(seed, |home| async move {
            home.post_job(json!({
                "parallelism": 6, "completions": 10, "backoffLimit": 100,
                "scheduling": { "schedulingPolicy": { "gang": {} } },
            }))
            .await;
            home.eventually("all pods are there", |home| home.job().status.active == 6).await;
            let mut owed = home.end_pods("Failed").await;
            let complete = |home: &TestControllers| Condition::is_true(&home.job().status.conditions, "Complete");
            while !complete(&home) {
                let busy =
                    |home: &TestControllers| complete(home) || home.pods.all().iter().any(|pod| !pod.is_finished());
                home.eventually("it goes on", busy).await;
                owed += home.end_pods("Succeeded").await;
            }
            let status = &home.job().status;
            assert_eq!((status.succeeded + status.failed) as usize, owed, "seed {seed}");
            assert!(status.succeeded >= 10 && status.failed > 0, "seed {seed}");
            assert_eq!((home.workloads.len(), home.pod_groups.len()), (1, 1), "seed {seed}");
            assert!(home.pods.all().iter().all(|pod| pod.group_name().is_some()), "seed {seed}");
            home.delete_job("Background").await;
            home.eventually("nothing is left", |home| home.objects().is_empty()).await;
        })
        .await;
    }
}

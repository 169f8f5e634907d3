//! Jobs through the whole control plane: counted exactly, failed in time, restarted, suspended, deleted.

use std::collections::BTreeSet;
use std::time::Duration;

use api::views::{Condition, JobView, PodGroupView, PodView, WorkloadView};
use controlplane::Component;
use nodes::cluster::Cluster;
use serde_json::json;
use testkit::{TestCluster, job, on_paused_clock};

const MINUTE: Duration = Duration::from_secs(60);

fn finished(cluster: &TestCluster) -> Option<std::sync::Arc<JobView>> {
    let job = cluster.cache::<JobView>().all().pop()?;
    let is_finished = ["Complete", "Failed"].iter().any(|kind| Condition::is_true(&job.status.conditions, kind));
    is_finished.then_some(job)
}

#[test]
fn completions_are_counted_exactly_and_never_overshoot() {
    for (case, manifest, succeeded) in [
        ("non-indexed", job("a").spec("parallelism", 3).spec("completions", 10).build(), 10),
        ("indexed", job("b").spec("parallelism", 4).spec("completions", 9).indexed().build(), 9),
        ("one success ends it", job("c").spec("parallelism", 1).build(), 1),
        ("nothing to do", job("d").spec("parallelism", 2).spec("completions", 0).build(), 0),
    ] {
        on_paused_clock(async {
            let cluster = TestCluster::embedded(11, Cluster::default_of(2)).await;
            cluster.create(&manifest).await;
            let job = cluster.eventually(case, MINUTE, finished).await;
            assert!(Condition::is_true(&job.status.conditions, "Complete"), "{case}: {:?}", job.status);
            assert_eq!((job.status.succeeded, job.status.failed, job.status.active), (succeeded, 0, 0), "{case}");
            let pods = cluster.cache::<PodView>().all();
            assert_eq!(pods.len(), succeeded as usize, "{case}: as many pods as successes");
            assert!(pods.iter().all(|pod| pod.metadata.finalizers.is_empty()), "{case}: every finalizer is removed");
            let uncounted = job.status.uncounted_terminated_pods.clone().unwrap_or_default();
            assert!(uncounted.succeeded.is_empty() && uncounted.failed.is_empty(), "{case}");
        });
    }
}

#[test]
fn every_index_succeeds_once_and_pods_have_their_index() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(11, Cluster::default_of(2)).await;
        cluster.create(&job("many").spec("parallelism", 5).spec("completions", 12).indexed().build()).await;
        let job = cluster.eventually("complete", MINUTE, finished).await;
        assert_eq!(job.status.completed_indexes, "0-11");
        let label = "batch.kubernetes.io/job-completion-index";
        let indexes: BTreeSet<String> =
            cluster.cache::<PodView>().all().iter().map(|pod| pod.metadata.labels[label].clone()).collect();
        assert_eq!(indexes.len(), 12);
        assert!(cluster.cache::<PodView>().all().iter().all(|pod| pod.metadata.name.starts_with("many-")));
    });
}

#[test]
fn a_job_fails_when_its_backoff_limit_is_exceeded() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(11, Cluster::default_of(1)).await;
        cluster.create(&job("bad").spec("backoffLimit", 2).annotate("phalanx.dev/exit-code", "1").build()).await;
        let job = cluster.eventually("failed", Duration::from_secs(600), finished).await;
        let condition = job.status.conditions.iter().find(|c| c.kind == "Failed" && c.status == "True").unwrap();
        assert_eq!(condition.reason, "BackoffLimitExceeded");
        assert_eq!((job.status.failed, job.status.succeeded), (3, 0));
        assert!(job.status.completion_time.is_none(), "only a complete Job has a completion time");
    });
}

// A component that crashes between any two writes resumes (promise 8).
// Shows: S000-35
#[test]
fn repeatedly_restarted_components_count_exactly() {
    for seed in 0..6 {
        on_paused_clock(async {
            let mut cluster = TestCluster::embedded(seed, Cluster::default_of(2)).await;
            let manifest = job("steady").spec("parallelism", 6).spec("completions", 30).indexed();
            cluster.create(&manifest.gang().annotate("phalanx.dev/run-seconds", "2").build()).await;
            let mut turn = seed;
            while finished(&cluster).is_none() {
                let component = Component::ALL[turn as usize % 3];
                cluster.restart_component(component);
                tokio::time::sleep(Duration::from_millis(37 + 61 * (turn % 17))).await;
                turn += 1;
                assert!(turn < 2000, "seed {seed}: the Job does not finish");
            }
            let job = finished(&cluster).unwrap();
            assert_eq!((job.status.succeeded, job.status.failed), (30, 0), "seed {seed}");
            assert_eq!(job.status.completed_indexes, "0-29");
            let (workloads, groups) =
                (cluster.cache::<WorkloadView>().all().len(), cluster.cache::<PodGroupView>().all().len());
            assert_eq!((workloads, groups), (1, 1), "seed {seed}: no object was created twice");
            let created = cluster.history().iter().filter(|c| c.resource == "pods" && c.created).count();
            assert_eq!(created, 30, "seed {seed}: one pod for each index");
            let grouped = cluster.cache::<PodView>().all().iter().all(|pod| pod.group_name().is_some());
            assert!(grouped, "seed {seed}: no pod outside the group");
        });
    }
}

#[test]
fn a_suspended_job_has_its_group_but_no_pods_and_resumes() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(2, Cluster::default_of(1)).await;
        cluster.create(&job("later").pods(4).gang().spec("suspend", true).build()).await;
        cluster
            .eventually("suspended", MINUTE, |cluster| {
                let job = cluster.cache::<JobView>().all().pop()?;
                Condition::is_true(&job.status.conditions, "Suspended").then_some(())
            })
            .await;
        assert_eq!(cluster.cache::<PodGroupView>().all().len(), 1);
        assert!(cluster.cache::<PodView>().all().is_empty());
        let path = "/apis/batch/v1/namespaces/default/jobs/later";
        cluster.request("PATCH", path, &json!({"spec": {"suspend": false}})).await.unwrap();
        let job = cluster.eventually("complete", MINUTE, finished).await;
        assert_eq!(job.status.succeeded, 4);
        assert!(job.status.conditions.iter().any(|c| c.kind == "Suspended" && c.status == "False"));
    });
}

// Shows: S000-44
// Shows: S003-20
#[test]
fn deleting_a_running_job_deletes_all_its_objects() {
    for policy in ["Background", "Foreground"] {
        on_paused_clock(async {
            let cluster = TestCluster::embedded(2, Cluster::default_of(1)).await;
            cluster.create(&job("gone").pods(4).gang().annotate("phalanx.dev/run-seconds", "1000").build()).await;
            cluster
                .eventually("runs", MINUTE, |cluster| {
                    cluster.cache::<JobView>().all().pop().filter(|job| job.status.ready == Some(4))
                })
                .await;
            let path = "/apis/batch/v1/namespaces/default/jobs/gone";
            cluster.request("DELETE", path, &json!({"propagationPolicy": policy})).await.unwrap();
            cluster
                .eventually("all are deleted", MINUTE, |cluster| {
                    let caches = cluster.caches();
                    let left = caches.get::<PodView>().all().len()
                        + caches.get::<PodGroupView>().all().len()
                        + caches.get::<WorkloadView>().all().len();
                    (left == 0 && caches.get::<JobView>().all().is_empty()).then_some(())
                })
                .await;
        });
    }
}

#[test]
fn orphaning_a_job_leaves_its_pods_running() {
    on_paused_clock(async {
        let cluster = TestCluster::embedded(2, Cluster::default_of(1)).await;
        cluster.create(&job("left").pods(2).annotate("phalanx.dev/run-seconds", "1000").build()).await;
        cluster
            .eventually("runs", MINUTE, |cluster| {
                cluster.cache::<JobView>().all().pop().filter(|job| job.status.ready == Some(2))
            })
            .await;
        let path = "/apis/batch/v1/namespaces/default/jobs/left";
        cluster.request("DELETE", path, &json!({"propagationPolicy": "Orphan"})).await.unwrap();
        cluster
            .eventually("the Job is gone", MINUTE, |cluster| cluster.cache::<JobView>().all().is_empty().then_some(()))
            .await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        let pods = cluster.cache::<PodView>().all();
        assert_eq!(pods.len(), 2);
        for pod in pods {
            assert!(pod.metadata.controller().is_none(), "it has no controller");
            assert!(!pod.metadata.is_deleting() && pod.metadata.finalizers.is_empty());
        }
    });
}

// Shows: U-e2e-gc-circle
#[test]
fn a_cycle_of_owners_is_deleted_in_background_and_foreground() {
    for policy in ["Background", "Foreground"] {
        on_paused_clock(async {
            let cluster = TestCluster::embedded(2, Cluster::default_of(1)).await;
            let mut uids = Vec::new();
            for name in ["a", "b", "c"] {
                let workload = json!({
                    "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload",
                    "metadata": {"name": name, "namespace": "default"},
                    "spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": {"basic": {}}}]},
                });
                uids.push(cluster.create(&workload).await["metadata"]["uid"].clone());
            }
            let path = |name: &str| format!("/apis/scheduling.k8s.io/v1beta1/namespaces/default/workloads/{name}");
            for (name, owner, uid) in [("a", "c", &uids[2]), ("b", "a", &uids[0]), ("c", "b", &uids[1])] {
                let reference = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "name": owner,
                    "uid": uid, "blockOwnerDeletion": true});
                let patch = json!({"metadata": {"ownerReferences": [reference]}});
                cluster.request("PATCH", &path(name), &patch).await.unwrap();
            }
            tokio::time::sleep(MINUTE).await;
            assert_eq!(cluster.cache::<WorkloadView>().all().len(), 3, "{policy}: a cycle of owners is not collected");
            cluster.request("DELETE", &path("a"), &json!({"propagationPolicy": policy})).await.unwrap();
            cluster
                .eventually(policy, MINUTE, |cluster| cluster.cache::<WorkloadView>().all().is_empty().then_some(()))
                .await;
        });
    }
}

// Shows: S000-61
#[test]
fn a_job_with_a_long_dotted_name_gets_its_group() {
    // Upstream: a Job name longer than 57 characters or with a dot never gets a Workload and never starts.
    on_paused_clock(async {
        let cluster = TestCluster::embedded(2, Cluster::default_of(1)).await;
        let name = format!("very.long.{}", "n".repeat(52));
        cluster.create(&job(&name).pods(2).gang().build()).await;
        let job = cluster.eventually("complete", MINUTE, finished).await;
        assert_eq!(job.status.succeeded, 2);
        assert_eq!(cluster.cache::<PodGroupView>().all().len(), 1);
    });
}

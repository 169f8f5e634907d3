//! Gangs are placed as a whole or not at all: on virtual time and on the real control plane.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::views::{Condition, JobView, PodGroupView, PodView, WorkloadView};
use controlplane::Component;
use serde_json::json;
use testkit::fault::{Fault, FaultRule, InjectedStatus, writes};
use testkit::{RecordedWrite, TestCluster, job, on_test_cluster, pod, seeds};

const MINUTE: Duration = Duration::from_secs(60);

/// The group of every pod that was ever bound, in the order of the binds.
fn groups_in_bind_order(history: &[RecordedWrite]) -> Vec<String> {
    let mut bound = BTreeSet::new();
    let mut groups = Vec::new();
    for change in history.iter().filter(|change| change.resource == "pods") {
        if is_bound(change) && bound.insert(change.name().to_owned()) {
            groups.push(change.object["spec"]["schedulingGroup"]["podGroupName"].as_str().unwrap().to_owned());
        }
    }
    groups
}

fn is_bound(change: &RecordedWrite) -> bool {
    change.object["spec"]["nodeName"].is_string()
}

fn initially_scheduled(group: &PodGroupView) -> Option<Condition> {
    group.status.conditions.iter().find(|c| c.kind == "PodGroupInitiallyScheduled").cloned()
}

// Shows: S000-21
// Shows: S003-29
#[test]
fn a_gang_of_eight_with_capacity_for_seven_binds_no_pod() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 1).await;
        cluster.create(&pod("filler").gpus(1).annotate("phalanx.dev/run-seconds", "100000").build()).await;
        cluster
            .eventually("the filler runs", MINUTE, |cluster| {
                cluster.cache::<PodView>().all().iter().any(|pod| pod.node_name().is_some()).then_some(())
            })
            .await;
        cluster.create(&job("eight").pods(8).indexed().gang().gpus(1).build()).await;
        let refused = cluster
            .eventually("the group is refused", MINUTE, |cluster| {
                let group = cluster.cache::<PodGroupView>().all().pop()?;
                initially_scheduled(&group).filter(|condition| condition.status == "False")
            })
            .await;
        assert_eq!(refused.reason, "Unschedulable");
        assert!(refused.message.contains("7 of 8"), "{}", refused.message);
        let history = cluster.history();
        let bound: BTreeSet<&str> =
            history.iter().filter(|c| c.resource == "pods" && is_bound(c)).map(RecordedWrite::name).collect();
        assert_eq!(bound, BTreeSet::from(["filler"]), "no pod of the gang was ever bound");
    });
}

#[test]
fn a_waiting_gang_starts_as_soon_as_capacity_is_freed() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 1).await;
        cluster
            .create(&pod("filler").gpus(1).annotate("phalanx.dev/run-seconds", &cluster.scaled_seconds(100)).build())
            .await;
        cluster
            .eventually("the filler is placed", MINUTE, |cluster| {
                cluster.cache::<PodView>().all().iter().any(|pod| pod.node_name().is_some()).then_some(())
            })
            .await;
        cluster.create(&job("eight").pods(8).indexed().gang().gpus(1).build()).await;
        let budget = Duration::from_secs(200);
        cluster
            .eventually("the gang completes", budget, |cluster| {
                cluster.cache::<JobView>().all().pop().filter(|job| job.status.succeeded == 8)
            })
            .await;
        let history = cluster.history();
        let time_of = |find: &dyn Fn(&&RecordedWrite) -> bool, path: &str| -> api::Timestamp {
            let change = history.iter().find(find).unwrap();
            change.object.pointer(path).and_then(|text| text.as_str()).unwrap().parse().unwrap()
        };
        let freed = time_of(
            &|c| c.name() == "filler" && c.object["status"]["phase"] == "Succeeded",
            "/status/containerStatuses/0/state/terminated/finishedAt",
        );
        let started = time_of(
            &|c| c.name().starts_with("eight-") && c.object["status"]["phase"] == "Running",
            "/status/startTime",
        );
        let waited = started.duration_since(freed);
        let limit = cluster.scaled_timeout(Duration::from_secs(1));
        assert!(waited.unsigned_abs() <= limit, "the gang started {waited:?} after capacity was freed");
    });
}

#[test]
fn a_gang_of_two_pod_sizes_starts_when_a_small_pod_is_deleted() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 1).await;
        // Four of eight GPUs are free: enough for a leader of three or a worker of two, but not for both.
        for (name, gpus) in [("small", 1), ("large", 3)] {
            cluster.create(&pod(name).gpus(gpus).annotate("phalanx.dev/run-seconds", "100000").build()).await;
        }
        cluster
            .eventually("both run", MINUTE, |cluster| {
                (cluster.cache::<PodView>().all().iter().filter(|pod| pod.node_name().is_some()).count() == 2)
                    .then_some(())
            })
            .await;
        cluster
            .create(&json!({
                "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
                "metadata": {"name": "pair", "namespace": "default"},
                "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
            }))
            .await;
        for (name, gpus) in [("leader", 3), ("worker", 2)] {
            cluster.create(&pod(name).gpus(gpus).group("pair").build()).await;
        }
        cluster
            .eventually("the gang is refused", MINUTE, |cluster| {
                let group = cluster.cache::<PodGroupView>().all().pop()?;
                initially_scheduled(&group).filter(|condition| condition.status == "False")
            })
            .await;
        let now = json!({"gracePeriodSeconds": 0});
        cluster.request("DELETE", &cluster.path("pods/small"), &now).await.unwrap();
        cluster
            .eventually("the gang is placed", Duration::from_secs(5), |cluster| {
                let is_placed = |name: &str| {
                    cluster
                        .cache::<PodView>()
                        .all()
                        .iter()
                        .any(|pod| pod.metadata.name == name && pod.node_name().is_some())
                };
                (is_placed("leader") && is_placed("worker")).then_some(())
            })
            .await;
    });
}

#[test]
fn a_small_pod_is_placed_while_ten_gangs_wait() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 2).await;
        let placed = |cluster: &TestCluster| {
            cluster.cache::<PodView>().all().iter().filter(|pod| pod.node_name().is_some()).count()
        };
        for number in 0..10 {
            let long = pod(&format!("long-{number}")).gpus(1).annotate("phalanx.dev/run-seconds", "100000");
            cluster.create(&long.build()).await;
        }
        cluster.eventually("the long pods run", MINUTE, |cluster| (placed(cluster) == 10).then_some(())).await;
        for number in 0..10 {
            cluster.create(&job(&format!("gang-{number}")).pods(2).indexed().gang().gpus(8).build()).await;
        }
        cluster
            .eventually("all gangs wait", MINUTE, |cluster| {
                let groups = cluster.cache::<PodGroupView>().all();
                let refused = groups
                    .iter()
                    .filter_map(|group| initially_scheduled(group))
                    .filter(|condition| condition.status == "False");
                (refused.count() == 10).then_some(())
            })
            .await;
        // By now nodes are reserved for the first gang.
        cluster.advance(MINUTE + MINUTE / 2).await;
        cluster.create(&pod("small").gpus(1).build()).await;
        cluster
            .eventually("the small pod is placed", MINUTE + MINUTE / 2, |cluster| {
                cluster
                    .cache::<PodView>()
                    .all()
                    .iter()
                    .any(|pod| pod.metadata.name == "small" && pod.node_name().is_some())
                    .then_some(())
            })
            .await;
    });
}

// Shows: S000-66
// Shows: S000-100
// Shows: S002-30
// Shows: S003-16
// Shows: S003-25
#[test]
fn competing_gangs_are_never_partial_and_all_finish() {
    for seed in seeds(4) {
        on_test_cluster(async {
            let cluster = TestCluster::start(seed, 16).await;
            for name in ["red", "blue", "green"] {
                let gang = job(name).pods(96).indexed().gang().gpus(1);
                cluster.create(&gang.annotate("phalanx.dev/run-seconds", &cluster.scaled_seconds(5)).build()).await;
            }
            cluster
                .eventually("all three complete", MINUTE, |cluster| {
                    let complete = |job: &&Arc<JobView>| job.status.completion_time.is_some();
                    (cluster.cache::<JobView>().all().iter().filter(complete).count() == 3).then_some(())
                })
                .await;
            // The capacity is enough for one gang and a third. If binds of a gang began before the last one was bound
            // completely, both would be partial.
            let binds = groups_in_bind_order(&cluster.history());
            let gangs: Vec<usize> = binds.chunk_by(|one, next| one == next).map(<[String]>::len).collect();
            assert_eq!(gangs, [96, 96, 96], "one gang after the other, each as a whole");
        });
    }
}

// Shows: S000-08, S004-14
// Shows: S000-22
// Shows: S000-77
// Shows: S004-09
#[test]
fn a_job_without_scheduling_fields_is_placed_pod_by_pod() {
    on_test_cluster(async {
        let cluster = TestCluster::start(5, 1).await;
        // 8 of 12 fit: the others follow as capacity is freed; no pod waits for another.
        let plain = job("plain").pods(12).gpus(1).annotate("phalanx.dev/run-seconds", &cluster.scaled_seconds(50));
        cluster.create(&plain.build()).await;
        cluster
            .eventually("eight run while four wait", MINUTE, |cluster| {
                let pods = cluster.cache::<PodView>().all();
                let bound = pods.iter().filter(|pod| pod.node_name().is_some()).count();
                (pods.len() == 12 && bound == 8).then_some(())
            })
            .await;
        let group = cluster.cache::<PodGroupView>().all().pop().unwrap();
        assert_eq!(group.min_count(), None, "the default policy is Basic");
        assert_eq!(cluster.cache::<WorkloadView>().all().len(), 1, "a Basic Job has a Workload too");
        cluster
            .eventually("all complete", 3 * MINUTE, |cluster| {
                cluster
                    .cache::<JobView>()
                    .all()
                    .pop()
                    .filter(|job| job.status.succeeded == 12 && job.status.completion_time.is_some())
            })
            .await;
    });
}

// Shows: S000-46
// Shows: S002-31
// Shows: S003-13
// Shows: S003-17
// Shows: S003-28
#[test]
fn a_user_created_pod_group_works_without_a_workload() {
    on_test_cluster(async {
        let cluster = TestCluster::start(5, 1).await;
        // Pods first: they wait for the group that they name.
        for index in 0..4 {
            cluster.create(&pod(&format!("w{index}")).gpus(1).group("late").build()).await;
        }
        let group = json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": {"name": "late", "namespace": "default"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}},
        });
        cluster.advance(Duration::from_secs(5)).await;
        assert!(cluster.cache::<PodView>().all().iter().all(|pod| pod.node_name().is_none()));
        cluster.create(&group).await;
        cluster
            .eventually("all four are placed", MINUTE, |cluster| {
                let pods = cluster.cache::<PodView>().all();
                (pods.iter().filter(|pod| pod.node_name().is_some()).count() == 4).then_some(())
            })
            .await;
    });
}

#[test]
fn a_gang_that_cannot_fit_has_all_its_pods_and_none_is_placed() {
    on_test_cluster(async {
        let cluster = TestCluster::start(5, 16).await;
        let gang = job("large").pods(72).indexed().gang().in_topology("topology.kubernetes.io/rack").gpus(1);
        cluster.create(&gang.build()).await;
        cluster
            .eventually("the group is refused", MINUTE, |cluster| {
                let group = cluster.cache::<PodGroupView>().all().pop()?;
                initially_scheduled(&group).filter(|condition| condition.status == "False")
            })
            .await;
        cluster.advance(MINUTE).await;
        let created = cluster.history().iter().filter(|c| c.resource == "pods" && c.created).count();
        assert_eq!(created, 72, "one pod for each index");
        assert!(cluster.cache::<PodView>().all().iter().all(|pod| pod.node_name().is_none()));
    });
}

// Shows: S000-35
#[test]
fn a_gang_completes_when_every_component_is_restarted_once() {
    on_test_cluster(async {
        let mut cluster = TestCluster::start(9, 2).await;
        let gang = job("steady").pods(16).indexed().gang().gpus(1);
        cluster.create(&gang.annotate("phalanx.dev/run-seconds", &cluster.scaled_seconds(60)).build()).await;
        for (component, pods) in [(Component::Controllers, 1), (Component::Scheduler, 16), (Component::Nodes, 16)] {
            cluster
                .eventually("pods exist", MINUTE, |cluster| (cluster.cache::<PodView>().len() >= pods).then_some(()))
                .await;
            cluster.restart_component(component);
        }
        cluster
            .eventually("the gang completes", 3 * MINUTE, |cluster| {
                cluster.cache::<JobView>().all().pop().filter(|job| job.status.completion_time.is_some())
            })
            .await;
        let history = cluster.history();
        let created = |resource: &str| history.iter().filter(|c| c.resource == resource && c.created).count();
        let objects = ["pods", "scheduling.k8s.io/workloads", "scheduling.k8s.io/podgroups"].map(created);
        assert_eq!(objects, [16, 1, 1], "no object was created twice");
        assert_eq!(groups_in_bind_order(&history).len(), 16);
    });
}

#[test]
fn a_gang_completes_when_every_third_bind_gets_429() {
    on_test_cluster(async {
        let cluster = TestCluster::start(9, 2).await;
        let busy = Fault::Respond(InjectedStatus::TooManyRequests { retry_after_seconds: 1 });
        let rule = cluster
            .inject_fault(FaultRule::on(writes().on_resource("pods").on_subresource("binding"), busy).every_nth(3));
        cluster.create(&job("steady").pods(16).indexed().gang().gpus(1).build()).await;
        cluster
            .eventually("the gang completes", 3 * MINUTE, |cluster| {
                cluster.cache::<JobView>().all().pop().filter(|job| job.status.completion_time.is_some())
            })
            .await;
        assert!(cluster.faults().counts(rule).applied >= 5, "sixteen binds and the retries");
        assert_eq!(groups_in_bind_order(&cluster.history()).len(), 16);
    });
}

#[test]
fn consecutive_indexes_share_a_node() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 2).await;
        cluster.create(&job("ranks").pods(16).indexed().gang().gpus(1).run_forever().build()).await;
        let by_index = cluster
            .eventually("all pods are bound", MINUTE, |cluster| {
                let index =
                    |pod: &PodView| pod.metadata.labels.get("batch.kubernetes.io/job-completion-index")?.parse().ok();
                let pods = cluster.pods_of("ranks");
                let nodes: BTreeMap<u32, String> =
                    pods.iter().filter_map(|pod| Some((index(pod)?, pod.node_name()?.to_owned()))).collect();
                (nodes.len() == 16).then_some(nodes)
            })
            .await;
        let nodes: Vec<&String> = by_index.values().collect();
        assert!(nodes[..8].iter().all(|node| *node == nodes[0]), "{by_index:?}");
        assert!(nodes[8..].iter().all(|node| *node == nodes[8]), "{by_index:?}");
        assert_ne!(nodes[0], nodes[8]);
    });
}

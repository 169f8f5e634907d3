//! All or nothing, through the whole control plane.

use std::collections::BTreeMap;
use std::time::Duration;

use api::views::{Condition, PodGroupView};
use nodes::cluster::Cluster;
use serde_json::json;
use testkit::{Change, Home, job, on_paused_clock, pod};

const MINUTE: Duration = Duration::from_secs(60);

/// For each group, after every write: how many of its pods hold a node and have not ended.
fn occupancy(history: &[Change]) -> Vec<BTreeMap<String, usize>> {
    let mut pods: BTreeMap<String, (String, bool)> = BTreeMap::new();
    let mut states = Vec::new();
    for change in history.iter().filter(|change| change.resource == "pods") {
        let group = change.object["spec"]["schedulingGroup"]["podGroupName"].as_str().unwrap_or_default().to_owned();
        let phase = change.object["status"]["phase"].as_str().unwrap_or_default();
        let holds = change.object["spec"]["nodeName"].is_string() && !matches!(phase, "Succeeded" | "Failed");
        if change.deleted {
            pods.remove(change.name());
        } else {
            pods.insert(change.name().to_owned(), (group, holds));
        }
        let mut counts = BTreeMap::new();
        for (group, holds) in pods.values() {
            *counts.entry(group.clone()).or_default() += usize::from(*holds);
        }
        states.push(counts);
    }
    states
}

fn initially_scheduled(group: &PodGroupView) -> Option<Condition> {
    group.status.conditions.iter().find(|c| c.kind == "PodGroupInitiallyScheduled").cloned()
}

// Shows: S000-21
#[test]
fn eight_workers_with_room_for_seven_start_none_and_hold_nothing() {
    on_paused_clock(async {
        let home = Home::embedded(3, Cluster::default_of(1)).await;
        home.create(&pod("filler").gpus(1).annotate("phalanx.dev/run-seconds", "100000").build()).await;
        home.eventually("the filler runs", MINUTE, |home| {
            home.caches().pods.all().iter().all(|pod| pod.node_name().is_some()).then_some(())
        })
        .await;
        home.create(&job("eight").pods(8).indexed().gang().gpus(1).build()).await;
        let refused = home
            .eventually("the group is refused", MINUTE, |home| {
                let group = home.caches().pod_groups.all().pop()?;
                initially_scheduled(&group).filter(|condition| condition.status == "False")
            })
            .await;
        assert_eq!(refused.reason, "Unschedulable");
        assert!(refused.message.contains("7 of 8"), "{}", refused.message);
        let bound =
            home.history().iter().filter(|c| c.resource == "pods" && c.object["spec"]["nodeName"].is_string()).count();
        let of_the_gang = |c: &&Change| c.name() != "filler" && c.object["spec"]["nodeName"].is_string();
        let gang_bound = home.history().iter().filter(|c| c.resource == "pods").filter(of_the_gang).count();
        assert!(bound > 0);
        assert_eq!(gang_bound, 0, "nothing of the gang ever held a node");
    });
}

#[test]
fn a_waiting_gang_starts_at_once_when_room_appears() {
    on_paused_clock(async {
        let home = Home::embedded(3, Cluster::default_of(1)).await;
        home.create(&pod("filler").gpus(1).annotate("phalanx.dev/run-seconds", "100").build()).await;
        home.create(&job("eight").pods(8).indexed().gang().gpus(1).build()).await;
        let budget = Duration::from_secs(200);
        home.eventually("the gang completes", budget, |home| {
            home.caches().jobs.all().pop().filter(|job| job.status.succeeded == 8)
        })
        .await;
        let history = home.history();
        let time_of = |find: &dyn Fn(&&Change) -> bool, path: &str| -> api::Timestamp {
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
        assert!(waited.as_secs() <= 1, "the gang started {waited:?} after there was room");
    });
}

#[test]
fn competing_gangs_are_never_partial_and_both_finish() {
    for seed in 0..4 {
        on_paused_clock(async {
            let home = Home::embedded(seed, Cluster::default_of(16)).await;
            for name in ["red", "blue", "green"] {
                let gang = job(name).pods(96).indexed().gang().gpus(1).annotate("phalanx.dev/run-seconds", "5");
                home.create(&gang.build()).await;
            }
            home.eventually("all three complete", MINUTE, |home| {
                home.caches().jobs.all().iter().all(|job| job.status.completion_time.is_some()).then_some(())
            })
            .await;
            let states = occupancy(&home.history());
            for counts in &states {
                let holding: Vec<_> = counts.iter().filter(|(_, count)| **count > 0).collect();
                assert!(holding.len() <= 1, "two gangs hold nodes at once: {holding:?}");
            }
            let peaks = states.iter().flat_map(|counts| counts.values()).max();
            assert_eq!(peaks, Some(&96));
        });
    }
}

// Shows: S000-08, S004-14
#[test]
fn a_job_that_asks_for_nothing_is_placed_pod_by_pod() {
    on_paused_clock(async {
        let home = Home::embedded(5, Cluster::default_of(1)).await;
        // Room for 8 of 12: the others follow as room appears; no pod waits for another.
        home.create(&job("plain").pods(12).gpus(1).annotate("phalanx.dev/run-seconds", "10").build()).await;
        home.eventually("eight run while four wait", MINUTE, |home| {
            let pods = home.caches().pods.all();
            let bound = pods.iter().filter(|pod| pod.node_name().is_some()).count();
            (pods.len() == 12 && bound == 8).then_some(())
        })
        .await;
        let group = home.caches().pod_groups.all().pop().unwrap();
        assert_eq!(group.min_count(), None, "Basic unless asked for");
        home.eventually("all complete", MINUTE, |home| {
            home.caches()
                .jobs
                .all()
                .pop()
                .filter(|job| job.status.succeeded == 12 && job.status.completion_time.is_some())
        })
        .await;
    });
}

#[test]
fn a_user_made_pod_group_works_without_a_workload() {
    on_paused_clock(async {
        let home = Home::embedded(5, Cluster::default_of(1)).await;
        // Pods first: they wait by name for their group.
        for index in 0..4 {
            home.create(&pod(&format!("w{index}")).gpus(1).group("late").build()).await;
        }
        let group = json!({
            "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": {"name": "late", "namespace": "default"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}},
        });
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(home.caches().pods.all().iter().all(|pod| pod.node_name().is_none()));
        home.create(&group).await;
        home.eventually("all four are placed", MINUTE, |home| {
            home.caches().pods.all().iter().all(|pod| pod.node_name().is_some()).then_some(())
        })
        .await;
    });
}

#[test]
fn a_gang_that_cannot_fit_has_exactly_its_pods_and_none_is_placed() {
    on_paused_clock(async {
        let home = Home::embedded(5, Cluster::default_of(16)).await;
        let gang = job("large").pods(72).indexed().gang().within("topology.kubernetes.io/rack").gpus(1);
        home.create(&gang.build()).await;
        home.eventually("the group is refused", MINUTE, |home| {
            let group = home.caches().pod_groups.all().pop()?;
            initially_scheduled(&group).filter(|condition| condition.status == "False")
        })
        .await;
        tokio::time::sleep(MINUTE).await;
        let made = home.history().iter().filter(|c| c.resource == "pods" && c.created).count();
        assert_eq!(made, 72, "one pod for each index");
        assert!(home.caches().pods.all().iter().all(|pod| pod.node_name().is_none()));
    });
}

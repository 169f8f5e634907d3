//! Gangs that lose pods, gangs whose scheduler crashes between two binds, and many gangs that wait for each other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::views::{Condition, JobView, NodeView, PodGroupView, PodView};
use api::{Random, Timestamp};
use controlplane::{Component, Config};
use nodes::cluster::Cluster;
use serde_json::json;
use testkit::fault::{Fault, FaultRule, writes};
use testkit::{RecordedWrite, TestCluster, is_on_kube, job, on_paused_clock, on_test_cluster, pod};

const MINUTE: Duration = Duration::from_secs(60);
/// The time limit of a new scheduler for gangs that the last one left half bound.
const THIRTY_SECONDS: Duration = Duration::from_secs(30);

async fn cordon(cluster: &TestCluster, node: &str, cordoned: bool) {
    let patch = json!({"spec": {"unschedulable": cordoned}});
    cluster.request("PATCH", &format!("/api/v1/nodes/{node}"), &patch).await.unwrap();
}

async fn cordon_all(cluster: &TestCluster, cordoned: bool) {
    for node in cluster.cache::<NodeView>().all() {
        cordon(cluster, &node.metadata.name, cordoned).await;
    }
}

/// Pods that are bound, not finished and not being deleted.
fn count_bound(cluster: &TestCluster) -> usize {
    let bound = |pod: &&Arc<PodView>| pod.node_name().is_some() && !pod.is_finished() && !pod.metadata.is_deleting();
    cluster.cache::<PodView>().all().iter().filter(bound).count()
}

fn degraded_condition(cluster: &TestCluster, status: &str) -> Option<Condition> {
    let group = cluster.cache::<PodGroupView>().all().pop()?;
    let found = group.status.conditions.iter().find(|condition| condition.kind == "Degraded");
    found.filter(|condition| condition.status == status).cloned()
}

fn writes_of_degraded(history: &[RecordedWrite]) -> Vec<String> {
    let mut conditions_over_time = Vec::new();
    for change in history.iter().filter(|change| change.resource == "scheduling.k8s.io/podgroups") {
        let conditions = change.object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if let Some(one) = conditions.iter().find(|one| one["type"] == "Degraded") {
            conditions_over_time.push(format!(
                "{} {}",
                one["status"].as_str().unwrap(),
                one["message"].as_str().unwrap()
            ));
        }
    }
    conditions_over_time.dedup();
    conditions_over_time
}

// Shows: S000-68
// Shows: S003-26
// Shows: S003-39
#[test]
fn a_running_gang_is_degraded_while_it_lacks_a_pod() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 1).await;
        cluster.create(&job("four").pods(4).indexed().gang().gpus(1).run_forever().build()).await;
        cluster.eventually("all four are bound", MINUTE, |cluster| (count_bound(cluster) == 4).then_some(())).await;
        cluster
            .eventually("the condition is written", MINUTE, |cluster| {
                let group = cluster.cache::<PodGroupView>().all().pop()?;
                Condition::is_true(&group.status.conditions, "PodGroupInitiallyScheduled").then_some(())
            })
            .await;
        cordon_all(&cluster, true).await;
        let one = cluster.cache::<PodView>().all().pop().unwrap().metadata.name.clone();
        cluster.request("DELETE", &format!("/api/v1/namespaces/default/pods/{one}"), &json!({})).await.unwrap();
        let degraded =
            cluster.eventually("the gang is degraded", MINUTE, |cluster| degraded_condition(cluster, "True")).await;
        assert!(degraded.message.starts_with("3 of minCount 4 pods bound"), "{}", degraded.message);
        cluster
            .eventually("its replacement is counted", MINUTE, |cluster| {
                degraded_condition(cluster, "True")
                    .filter(|degraded| degraded.message.starts_with("3 of minCount 4 pods bound, 1 waiting: "))
            })
            .await;
        assert_eq!(count_bound(&cluster), 3, "the others keep running");
        cordon_all(&cluster, false).await;
        let recovered =
            cluster.eventually("it is whole again", MINUTE, |cluster| degraded_condition(cluster, "False")).await;
        assert_eq!(recovered.message, "4 of minCount 4 pods bound, 0 waiting");
        let writes = writes_of_degraded(&cluster.history());
        assert!(writes.len() <= 3, "one write for each change, the first count and the last: {writes:?}");
    });
}

/// A half-bound gang: the scheduler crashes after `k` binds of a gang of `size`, and another one starts, with nodes
/// cordoned or not. Returns the time of its start.
async fn start_half_bound(seed: u64, size: u32, k: usize, cordoned: bool) -> (TestCluster, Timestamp) {
    let mut cluster = TestCluster::start(seed, size.div_ceil(8)).await;
    let never = Fault::Delay(Duration::from_secs(100_000));
    let rule = cluster.inject_fault(
        FaultRule::on(writes().on_resource("pods").on_subresource("binding"), never).starting_at_nth(k as u64 + 1),
    );
    // The backoff limit is 0, so a released pod must not count as a failure.
    let gang = job("gang").pods(size as i32).indexed().gang().gpus(1).spec("backoffLimit", 0);
    cluster.create(&gang.annotate("phalanx.dev/run-seconds", &cluster.scaled_seconds(300)).build()).await;
    cluster.eventually("k pods are bound", MINUTE, |cluster| (count_bound(cluster) == k).then_some(())).await;
    cordon_all(&cluster, cordoned).await;
    cluster.stop_component(Component::Scheduler);
    cluster.faults().remove(rule);
    let begun = cluster.now();
    cluster.start_component(Component::Scheduler);
    (cluster, begun)
}

/// Waits for `count` bound pods, on any clock within the time limit of a new scheduler.
async fn wait_until_bound(cluster: &TestCluster, begun: Timestamp, count: usize, case: &str) {
    cluster.eventually(case, THIRTY_SECONDS, |cluster| (count_bound(cluster) == count).then_some(())).await;
    let took = cluster.now().duration_since(begun).unsigned_abs();
    assert!(took <= THIRTY_SECONDS, "{case}: {took:?}");
}

/// Pods that are being deleted or are deleted, with the condition by which their Job does not count them as failures.
fn released_pods(history: &[RecordedWrite]) -> BTreeSet<&str> {
    let is_released = |change: &&RecordedWrite| {
        let conditions = change.object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let marked = conditions.iter().any(|one| one["type"] == "DisruptionTarget" && one["status"] == "True");
        change.resource == "pods" && marked && change.object["metadata"]["deletionTimestamp"].is_string()
    };
    history.iter().filter(is_released).map(RecordedWrite::name).collect()
}

/// Sizes of gangs, and the number of binds before the scheduler crashes: a random number and, for small gangs, the
/// first and the last bind. On the wall clock one for each size.
fn crash_points(largest: u32) -> Vec<(u64, u32, usize)> {
    let mut crashes = Vec::new();
    for (seed, size) in [(1, 8), (2, 64), (3, largest)] {
        let between = 1 + Random::seeded(seed).below(u64::from(size) - 2) as usize;
        let all = if size < 100 && !is_on_kube() { vec![1, between, size as usize - 1] } else { vec![between] };
        crashes.extend(all.into_iter().map(|k| (seed, size, k)));
    }
    crashes
}

async fn wait_until_complete(cluster: &TestCluster) {
    cluster
        .eventually("the Job completes", 15 * MINUTE, |cluster| {
            cluster
                .cache::<JobView>()
                .all()
                .pop()
                .filter(|job| job.status.completion_time.is_some() && job.status.failed == 0)
        })
        .await;
}

#[test]
fn a_half_bound_gang_is_completed_after_a_scheduler_crash() {
    for (seed, size, k) in crash_points(1000) {
        on_test_cluster(async {
            let (cluster, begun) = start_half_bound(seed, size, k, false).await;
            wait_until_bound(&cluster, begun, size as usize, &format!("all {size}, {k} of them bound before")).await;
        });
    }
}

#[test]
fn a_half_bound_gang_that_no_longer_fits_is_released_and_later_starts_whole() {
    // How many pods can be replaced in time on the wall clock depends on the machine.
    for (seed, size, k) in crash_points(if is_on_kube() { 200 } else { 1000 }) {
        on_test_cluster(async {
            let (cluster, begun) = start_half_bound(seed, size, k, true).await;
            wait_until_bound(&cluster, begun, 0, &format!("none of {size}, {k} of them bound before")).await;
            assert_eq!(released_pods(&cluster.history()).len(), k, "each pod has the condition DisruptionTarget");
            cluster.advance(MINUTE).await;
            assert_eq!(count_bound(&cluster), 0, "no pod of it is bound alone");
            cordon_all(&cluster, false).await;
            cluster
                .eventually("all pods are bound", MINUTE, |cluster| {
                    (count_bound(cluster) == size as usize).then_some(())
                })
                .await;
            wait_until_complete(&cluster).await;
        });
    }
}

#[test]
fn a_degraded_gang_keeps_its_pods_when_the_scheduler_restarts() {
    on_test_cluster(async {
        let mut cluster = TestCluster::start(3, 1).await;
        cluster.create(&job("four").pods(4).indexed().gang().gpus(1).run_forever().build()).await;
        cluster
            .eventually("it is bound and its condition is written", MINUTE, |cluster| {
                let group = cluster.cache::<PodGroupView>().all().pop()?;
                (count_bound(cluster) == 4
                    && Condition::is_true(&group.status.conditions, "PodGroupInitiallyScheduled"))
                .then_some(())
            })
            .await;
        cordon_all(&cluster, true).await;
        let one = cluster.cache::<PodView>().all().pop().unwrap().metadata.name.clone();
        cluster.request("DELETE", &format!("/api/v1/namespaces/default/pods/{one}"), &json!({})).await.unwrap();
        cluster.eventually("one is missing", MINUTE, |cluster| (count_bound(cluster) == 3).then_some(())).await;
        cluster.restart_component(Component::Scheduler);
        cluster.advance(MINUTE).await;
        assert_eq!(count_bound(&cluster), 3);
    });
}

const GANGS: usize = 50;
/// Of 16 GPUs.
const GANG_SIZE: i32 = 10;

fn gang(name: &str) -> serde_json::Value {
    job(name).pods(GANG_SIZE).indexed().gang().gpus(1).annotate("phalanx.dev/run-seconds", "60").build()
}

fn count_complete(cluster: &TestCluster) -> usize {
    let complete = |job: &&Arc<JobView>| job.status.completion_time.is_some();
    cluster.cache::<JobView>().all().iter().filter(complete).count()
}

// Shows: S000-67
// Shows: S004-66
#[test]
fn large_gangs_all_finish_among_other_workloads() {
    on_paused_clock(async {
        let alone = TestCluster::embedded(7, Cluster::default_of(2)).await;
        let begun = alone.now();
        alone.create(&gang("alone")).await;
        alone.eventually("one gang alone", 3 * MINUTE, |cluster| (count_complete(cluster) == 1).then_some(())).await;
        let one = alone.now().duration_since(begun).unsigned_abs();

        // Fifty waiting gangs would write a new condition at each change of the cluster, which this test does not read.
        let mut config = Config::for_cluster(Cluster::default_of(2));
        config.scheduler.refusal_pause = 10 * MINUTE;
        let cluster = TestCluster::with_config(7, config).await;
        let begun = cluster.now();
        for number in 0..GANGS {
            cluster.create(&gang(&format!("gang-{number}"))).await;
            if number % 5 == 0 {
                let basic = job(&format!("basic-{number}")).pods(2).gpus(1);
                cluster.create(&basic.annotate("phalanx.dev/run-seconds", "30").build()).await;
            }
        }
        let nodes: Vec<String> =
            cluster.cache::<NodeView>().all().iter().map(|node| node.metadata.name.clone()).collect();
        let (mut round, limit) = (0, one * GANGS as u32 * 12 / 10);
        while count_complete(&cluster) < GANGS + GANGS / 5 {
            let took = cluster.now().duration_since(begun).unsigned_abs();
            assert!(
                took <= limit,
                "{} Jobs are complete after {took:?}; one gang alone took {one:?}",
                count_complete(&cluster)
            );
            // Small pods are created continuously, and nodes are cordoned for short times.
            cluster
                .create(&pod(&format!("single-{round}")).gpus(1).annotate("phalanx.dev/run-seconds", "30").build())
                .await;
            let node = &nodes[(round / 9) % nodes.len()];
            match round % 9 {
                0 => cordon(&cluster, node, true).await,
                2 => cordon(&cluster, node, false).await,
                _ => {}
            }
            cluster.advance(Duration::from_secs(5)).await;
            round += 1;
        }
    });
}

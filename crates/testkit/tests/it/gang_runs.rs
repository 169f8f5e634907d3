//! Groups that are used again, groups whose pods are created in batches, and gangs after a restart of the scheduler.

use std::time::Duration;

use api::views::{Condition, NodeView, PodPhase, PodView};
use controlplane::Component;
use serde_json::{Value, json};
use testkit::fault::{Fault, FaultRule, writes};
use testkit::{TestCluster, job, on_test_cluster, pod};

const MINUTE: Duration = Duration::from_secs(60);

fn gang(name: &str, min_count: u32) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}},
    })
}

async fn members(cluster: &TestCluster, group: &str, names: &[&str], gpus: i32, run_seconds: &str) {
    members_that_exit(cluster, group, names, gpus, run_seconds, "0").await;
}

async fn members_that_exit(
    cluster: &TestCluster,
    group: &str,
    names: &[&str],
    gpus: i32,
    run_seconds: &str,
    code: &str,
) {
    for name in names {
        let member = pod(name).group(group).gpus(gpus).annotate("phalanx.dev/run-seconds", run_seconds);
        cluster.create(&member.annotate("phalanx.dev/exit-code", code).build()).await;
    }
}

/// Pods of the group that are bound, not finished and not being deleted.
fn bound_pods(cluster: &TestCluster, group: &str) -> Vec<String> {
    let is_bound = |pod: &PodView| pod.node_name().is_some() && !pod.is_finished() && !pod.metadata.is_deleting();
    let of_group = cluster.pods().into_iter().filter(|pod| pod.group_name() == Some(group));
    of_group.filter(|pod| is_bound(pod)).map(|pod| pod.metadata.name.clone()).collect()
}

async fn until_bound(cluster: &TestCluster, group: &str, count: usize) {
    cluster
        .eventually(&format!("{count} pods of {group} are bound"), MINUTE, |cluster| {
            (bound_pods(cluster, group).len() == count).then_some(())
        })
        .await;
}

async fn until_phase(cluster: &TestCluster, phase: PodPhase, count: usize) {
    cluster
        .eventually(&format!("{count} pods are {phase:?}"), 2 * MINUTE, |cluster| {
            (cluster.pods().iter().filter(|pod| pod.status.phase == phase).count() == count).then_some(())
        })
        .await;
}

async fn cordon_all(cluster: &TestCluster, cordoned: bool) {
    for node in cluster.cache::<NodeView>().all() {
        let path = format!("/api/v1/nodes/{}", node.metadata.name);
        cluster.request("PATCH", &path, &json!({"spec": {"unschedulable": cordoned}})).await.unwrap();
    }
}

/// A gang of three has finished, `succeeded` of its pods with success, and three more pods are created while one fits.
/// None of them is bound until all fit.
async fn check_second_run(cluster: &TestCluster, succeeded: usize) {
    cluster.create(&gang("g", 3)).await;
    let (succeeding, failing) = ["a-0", "a-1", "a-2"].split_at(succeeded);
    members(cluster, "g", succeeding, 2, &cluster.scaled_seconds(10)).await;
    members_that_exit(cluster, "g", failing, 2, &cluster.scaled_seconds(10), "1").await;
    until_phase(cluster, PodPhase::Succeeded, succeeded).await;
    until_phase(cluster, PodPhase::Failed, 3 - succeeded).await;
    cluster.create(&pod("filler").gpus(6).annotate("phalanx.dev/run-seconds", "100000").build()).await;
    cluster
        .eventually("the filler runs", MINUTE, |cluster| {
            cluster.pods().iter().any(|pod| pod.metadata.name == "filler" && pod.node_name().is_some()).then_some(())
        })
        .await;
    // Creation times are whole seconds.
    cluster.advance(Duration::from_secs(20)).await;
    members(cluster, "g", &["b-0", "b-1", "b-2"], 2, "100000").await;
    cluster
        .eventually("one of them is reported as waiting", MINUTE, |cluster| {
            let is_reported = |pod: &PodView| pod.status.conditions.iter().any(|one| one.kind == "PodScheduled");
            cluster.pods().iter().any(|pod| pod.metadata.name.starts_with("b-") && is_reported(pod)).then_some(())
        })
        .await;
    cluster.advance(MINUTE).await;
    assert_eq!(bound_pods(cluster, "g"), Vec::<String>::new(), "one of three fits");
    cluster.delete("pods/filler").await;
    until_bound(cluster, "g", 3).await;
}

#[test]
fn the_second_run_of_a_group_starts_whole() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 1).await;
        check_second_run(&cluster, 3).await;
    });
}

// Observed: two pods of the first run had succeeded and were counted, so one of the three new pods was started.
#[test]
fn the_run_after_a_failed_one_starts_whole_and_reports_missing_pods() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 1).await;
        check_second_run(&cluster, 2).await;
        cluster.delete("pods/b-1").await;
        let want = "2 of minCount 3 pods bound, 0 waiting";
        cluster
            .eventually("the missing pod is reported", MINUTE, |cluster| {
                let is_degraded =
                    |one: &Condition| one.kind == "Degraded" && one.status == "True" && one.message == want;
                cluster.pod_groups()[0].status.conditions.iter().any(is_degraded).then_some(())
            })
            .await;
    });
}

#[test]
fn a_gang_created_in_batches_is_placed_in_a_rack_that_fits_all_of_it() {
    on_test_cluster(async {
        // A rack of eight nodes, and one of four, which fits the first batch.
        let cluster = TestCluster::start(3, 12).await;
        let mut group = gang("g", 4);
        group["metadata"]["annotations"] = json!({"phalanx.dev/expected-count": "8"});
        group["spec"]["schedulingConstraints"] = json!({"topology": [{"key": "topology.kubernetes.io/rack"}]});
        cluster.create(&group).await;
        members(&cluster, "g", &["a-0", "a-1", "a-2", "a-3"], 8, "100000").await;
        until_bound(&cluster, "g", 4).await;
        members(&cluster, "g", &["b-0", "b-1", "b-2", "b-3"], 8, "100000").await;
        until_bound(&cluster, "g", 8).await;
    });
}

// Observed: the first pod of a Basic Job chose the tightest rack that it fitted into, and five others waited there.
#[test]
fn a_basic_job_is_placed_in_a_rack_that_fits_all_of_it() {
    on_test_cluster(async {
        // A rack of eight nodes, and one of four.
        let cluster = TestCluster::start(3, 12).await;
        let mut job = job("b").pods(6).gpus(8).run_forever().build();
        let topology = json!({"topology": [{"key": "topology.kubernetes.io/rack"}]});
        job["spec"]["scheduling"] = json!({"schedulingPolicy": {"basic": {}}, "schedulingConstraints": topology});
        cluster.create(&job).await;
        cluster
            .eventually("all six are placed", MINUTE, |cluster| {
                let placed = cluster.pods().iter().filter(|pod| pod.node_name().is_some()).count();
                (placed == 6).then_some(())
            })
            .await;
    });
}

#[test]
fn the_rest_of_a_gang_is_placed_when_no_more_pods_are_expected() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 1).await;
        cluster.create(&gang("g", 2)).await;
        members(&cluster, "g", &["a-0"], 1, &cluster.scaled_seconds(10)).await;
        members(&cluster, "g", &["a-1"], 1, "100000").await;
        until_phase(&cluster, PodPhase::Succeeded, 1).await;
        cluster.delete("pods/a-0").await;
        cluster.delete("pods/a-1").await;
        cluster.eventually("both are deleted", MINUTE, |cluster| cluster.pods().is_empty().then_some(())).await;
        members(&cluster, "g", &["b-1"], 1, "100000").await;
        cluster.advance(MINUTE).await;
        assert_eq!(bound_pods(&cluster, "g"), Vec::<String>::new(), "another pod may still be created");
        cluster.patch("podgroups/g", &json!({"metadata": {"annotations": {"phalanx.dev/expected-count": "1"}}})).await;
        until_bound(&cluster, "g", 1).await;
    });
}

#[test]
fn a_restarted_scheduler_keeps_a_running_gang_that_lacks_its_condition() {
    on_test_cluster(async {
        let mut cluster = TestCluster::start(3, 1).await;
        let never = Fault::Delay(Duration::from_secs(100_000));
        let rule = cluster.inject_fault(FaultRule::on(
            writes().on_resource("scheduling.k8s.io/podgroups").on_subresource("status"),
            never,
        ));
        cluster.create(&job("four").pods(4).indexed().gang().gpus(1).run_forever().build()).await;
        until_phase(&cluster, PodPhase::Running, 4).await;
        // Creation times are whole seconds: the replacement must be created later than the start of the others.
        cluster.advance(Duration::from_secs(20)).await;
        cordon_all(&cluster, true).await;
        cluster.stop_component(Component::Scheduler);
        let one = cluster.pods().pop().unwrap().metadata.name.clone();
        cluster.delete(&format!("pods/{one}")).await;
        cluster
            .eventually("it is replaced", MINUTE, |cluster| {
                let waits = cluster.pods().into_iter().filter(|pod| pod.node_name().is_none()).count();
                (cluster.pods().len() == 4 && waits == 1).then_some(())
            })
            .await;
        cluster.faults().remove(rule);
        assert!(
            cluster
                .pod_groups()
                .iter()
                .all(|group| { !Condition::is_true(&group.status.conditions, "PodGroupInitiallyScheduled") })
        );
        cluster.start_component(Component::Scheduler);
        cluster.advance(2 * MINUTE).await;
        let running =
            cluster.pods().iter().filter(|pod| pod.node_name().is_some() && !pod.metadata.is_deleting()).count();
        assert_eq!(running, 3, "running pods keep running");
    });
}

// The condition that tells a new scheduler that the gang was whole is lost, and half of its nodes are.
#[test]
fn a_running_gang_keeps_its_pods_after_a_failover_although_its_node_died() {
    on_test_cluster(async {
        let mut cluster = TestCluster::start(3, 2).await;
        let never = Fault::Delay(Duration::from_secs(100_000));
        let rule = cluster.inject_fault(FaultRule::on(
            writes().on_resource("scheduling.k8s.io/podgroups").on_subresource("status"),
            never,
        ));
        cluster.create(&job("four").pods(4).indexed().gang().gpus(4).run_forever().build()).await;
        until_phase(&cluster, PodPhase::Running, 4).await;
        // Creation times are whole seconds: the replacements must be created later than the start of the others.
        cluster.advance(Duration::from_secs(20)).await;
        cluster.stop_component(Component::Scheduler);
        let (lost, kept): (Vec<_>, Vec<_>) =
            cluster.pods().into_iter().partition(|pod| pod.node_name() == Some("node-1"));
        assert_eq!((lost.len(), kept.len()), (2, 2));
        cluster.request("DELETE", "/api/v1/nodes/node-1", &json!({})).await.unwrap();
        for pod in &lost {
            let path = cluster.path(&format!("pods/{}", pod.metadata.name));
            cluster.request("DELETE", &path, &json!({"gracePeriodSeconds": 0})).await.unwrap();
        }
        cluster
            .eventually("both are replaced", MINUTE, |cluster| {
                let waits = cluster.pods().into_iter().filter(|pod| pod.node_name().is_none()).count();
                (cluster.pods().len() == 4 && waits == 2).then_some(())
            })
            .await;
        cluster.faults().remove(rule);
        cluster.start_component(Component::Scheduler);
        cluster.advance(2 * MINUTE).await;
        let is_kept = |pod: &PodView| kept.iter().any(|kept| kept.metadata.uid == pod.metadata.uid);
        let running = cluster.pods().into_iter().filter(|pod| is_kept(pod) && !pod.metadata.is_deleting());
        assert_eq!(running.count(), 2, "running pods keep running");
    });
}

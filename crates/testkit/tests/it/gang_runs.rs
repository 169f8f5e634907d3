//! Groups that are used again, groups whose pods come in batches, and what is known of a gang after its scheduler died.

use std::time::Duration;

use api::views::{Condition, PodPhase, PodView};
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

async fn members(home: &TestCluster, group: &str, names: &[&str], gpus: i32, run_seconds: &str) {
    members_that_exit(home, group, names, gpus, run_seconds, "0").await;
}

async fn members_that_exit(home: &TestCluster, group: &str, names: &[&str], gpus: i32, run_seconds: &str, code: &str) {
    for name in names {
        let member = pod(name).group(group).gpus(gpus).annotate("phalanx.dev/run-seconds", run_seconds);
        home.create(&member.annotate("phalanx.dev/exit-code", code).build()).await;
    }
}

/// Pods of the group that have a node, have not ended and are to stay.
fn bound_pods(home: &TestCluster, group: &str) -> Vec<String> {
    let is_bound = |pod: &PodView| pod.node_name().is_some() && !pod.is_finished() && !pod.metadata.is_deleting();
    let of_group = home.pods().into_iter().filter(|pod| pod.group_name() == Some(group));
    of_group.filter(|pod| is_bound(pod)).map(|pod| pod.metadata.name.clone()).collect()
}

async fn until_bound(home: &TestCluster, group: &str, count: usize) {
    home.eventually(&format!("{count} pods of {group} are bound"), MINUTE, |home| {
        (bound_pods(home, group).len() == count).then_some(())
    })
    .await;
}

async fn until_phase(home: &TestCluster, phase: PodPhase, count: usize) {
    home.eventually(&format!("{count} pods are {phase:?}"), 2 * MINUTE, |home| {
        (home.pods().iter().filter(|pod| pod.status.phase == phase).count() == count).then_some(())
    })
    .await;
}

async fn cordon_all(home: &TestCluster, cordoned: bool) {
    for node in home.caches().nodes.all() {
        let path = format!("/api/v1/nodes/{}", node.metadata.name);
        home.request("PATCH", &path, &json!({"spec": {"unschedulable": cordoned}})).await.unwrap();
    }
}

/// A gang of three has run to its end, `succeeded` of it with success, and three more pods come while there is room for
/// one. None of them is bound until there is room for all.
async fn check_second_run(home: &TestCluster, succeeded: usize) {
    home.create(&gang("g", 3)).await;
    let (well, badly) = ["a-0", "a-1", "a-2"].split_at(succeeded);
    members(home, "g", well, 2, &home.scaled_seconds(10)).await;
    members_that_exit(home, "g", badly, 2, &home.scaled_seconds(10), "1").await;
    until_phase(home, PodPhase::Succeeded, succeeded).await;
    until_phase(home, PodPhase::Failed, 3 - succeeded).await;
    home.create(&pod("filler").gpus(6).annotate("phalanx.dev/run-seconds", "100000").build()).await;
    home.eventually("the filler runs", MINUTE, |home| {
        home.pods().iter().any(|pod| pod.metadata.name == "filler" && pod.node_name().is_some()).then_some(())
    })
    .await;
    // Creation times are whole seconds.
    home.advance(Duration::from_secs(20)).await;
    members(home, "g", &["b-0", "b-1", "b-2"], 2, "100000").await;
    home.eventually("one of them is told to wait", MINUTE, |home| {
        let told = |pod: &PodView| pod.status.conditions.iter().any(|one| one.kind == "PodScheduled");
        home.pods().iter().any(|pod| pod.metadata.name.starts_with("b-") && told(pod)).then_some(())
    })
    .await;
    home.advance(MINUTE).await;
    assert_eq!(bound_pods(home, "g"), Vec::<String>::new(), "there is room for one of three");
    home.delete("pods/filler").await;
    until_bound(home, "g", 3).await;
}

#[test]
fn the_second_run_of_a_group_starts_whole() {
    on_test_cluster(async {
        let home = TestCluster::start(3, 1).await;
        check_second_run(&home, 3).await;
    });
}

// Two of the first run succeeded, and counted: one of the three new pods was started.
#[test]
fn the_run_after_a_failed_one_starts_whole_and_reports_missing_pods() {
    on_test_cluster(async {
        let home = TestCluster::start(3, 1).await;
        check_second_run(&home, 2).await;
        home.delete("pods/b-1").await;
        let lacks = "2 of minCount 3 pods bound, 0 waiting";
        home.eventually("that a pod is missing is said", MINUTE, |home| {
            let is_said = |one: &Condition| one.kind == "Degraded" && one.status == "True" && one.message == lacks;
            home.pod_groups()[0].status.conditions.iter().any(is_said).then_some(())
        })
        .await;
    });
}

#[test]
fn a_gang_created_in_batches_is_placed_in_a_rack_that_fits_all_of_it() {
    on_test_cluster(async {
        // A rack of eight nodes, and one of four that would do for the first batch.
        let home = TestCluster::start(3, 12).await;
        let mut group = gang("g", 4);
        group["metadata"]["annotations"] = json!({"phalanx.dev/expected-count": "8"});
        group["spec"]["schedulingConstraints"] = json!({"topology": [{"key": "topology.kubernetes.io/rack"}]});
        home.create(&group).await;
        members(&home, "g", &["a-0", "a-1", "a-2", "a-3"], 8, "100000").await;
        until_bound(&home, "g", 4).await;
        members(&home, "g", &["b-0", "b-1", "b-2", "b-3"], 8, "100000").await;
        until_bound(&home, "g", 8).await;
    });
}

// Seen: the first pod of a Basic Job chose the rack, the tightest one that it fitted into, and five others waited there.
#[test]
fn a_basic_job_is_placed_in_a_rack_that_fits_all_of_it() {
    on_test_cluster(async {
        // A rack of eight nodes, and one of four.
        let home = TestCluster::start(3, 12).await;
        let mut job = job("b").pods(6).gpus(8).run_forever().build();
        let topology = json!({"topology": [{"key": "topology.kubernetes.io/rack"}]});
        job["spec"]["scheduling"] = json!({"schedulingPolicy": {"basic": {}}, "schedulingConstraints": topology});
        home.create(&job).await;
        home.eventually("all six are placed", MINUTE, |home| {
            let placed = home.pods().iter().filter(|pod| pod.node_name().is_some()).count();
            (placed == 6).then_some(())
        })
        .await;
    });
}

#[test]
fn the_rest_of_a_gang_is_placed_when_no_more_pods_are_expected() {
    on_test_cluster(async {
        let home = TestCluster::start(3, 1).await;
        home.create(&gang("g", 2)).await;
        members(&home, "g", &["a-0"], 1, &home.scaled_seconds(10)).await;
        members(&home, "g", &["a-1"], 1, "100000").await;
        until_phase(&home, PodPhase::Succeeded, 1).await;
        home.delete("pods/a-0").await;
        home.delete("pods/a-1").await;
        home.eventually("both are gone", MINUTE, |home| home.pods().is_empty().then_some(())).await;
        members(&home, "g", &["b-1"], 1, "100000").await;
        home.advance(MINUTE).await;
        assert_eq!(bound_pods(&home, "g"), Vec::<String>::new(), "as far as is known another one may come");
        home.patch("podgroups/g", &json!({"metadata": {"annotations": {"phalanx.dev/expected-count": "1"}}})).await;
        until_bound(&home, "g", 1).await;
    });
}

#[test]
fn a_restarted_scheduler_keeps_a_running_gang_that_lacks_its_condition() {
    on_test_cluster(async {
        let mut home = TestCluster::start(3, 1).await;
        let never = Fault::Delay(Duration::from_secs(100_000));
        let rule = home.inject_fault(FaultRule::on(
            writes().on_resource("scheduling.k8s.io/podgroups").on_subresource("status"),
            never,
        ));
        home.create(&job("four").pods(4).indexed().gang().gpus(1).run_forever().build()).await;
        until_phase(&home, PodPhase::Running, 4).await;
        // Times of creation are whole seconds: the replacement is to come later than the start of the others.
        home.advance(Duration::from_secs(20)).await;
        cordon_all(&home, true).await;
        home.stop_component(Component::Scheduler);
        let one = home.pods().pop().unwrap().metadata.name.clone();
        home.delete(&format!("pods/{one}")).await;
        home.eventually("it is replaced", MINUTE, |home| {
            let waits = home.pods().into_iter().filter(|pod| pod.node_name().is_none()).count();
            (home.pods().len() == 4 && waits == 1).then_some(())
        })
        .await;
        home.faults().remove(rule);
        assert!(
            home.pod_groups()
                .iter()
                .all(|group| { !Condition::is_true(&group.status.conditions, "PodGroupInitiallyScheduled") })
        );
        home.start_component(Component::Scheduler);
        home.advance(2 * MINUTE).await;
        let running = home.pods().iter().filter(|pod| pod.node_name().is_some() && !pod.metadata.is_deleting()).count();
        assert_eq!(running, 3, "what runs goes on");
    });
}

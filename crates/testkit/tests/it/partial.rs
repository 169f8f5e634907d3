//! Jobs with fields that the server drops: on virtual time with a gate off, and on the real control plane.

use std::time::Duration;

use api::views::{Condition, JobView, PodGroupView};
use testkit::{TestCluster, job, on_test_cluster};

#[test]
fn a_gang_whose_topology_the_server_drops_reports_it_and_runs_without() {
    on_test_cluster(async {
        let cluster = TestCluster::with_gate_off("TopologyAwareWorkloadScheduling", 4, 2).await;
        let gang = job("gang").pods(4).indexed().gang().in_topology("topology.kubernetes.io/rack").gpus(1);
        cluster.create(&gang.build()).await;
        let job = cluster
            .eventually("the gang completes", Duration::from_secs(60), |cluster| {
                cluster.cache::<JobView>().all().pop().filter(|job| job.status.completion_time.is_some())
            })
            .await;
        let is_fallback = |condition: &&Condition| condition.kind == "SchedulingFallback" && condition.status == "True";
        let fallback = job.status.conditions.iter().find(is_fallback).expect("the Job reports the dropped fields");
        assert_eq!(fallback.reason, "FieldsDropped");
        assert!(
            fallback.message.contains("schedulingConstraints.topology from Workload gang-"),
            "{}",
            fallback.message
        );
        let group = cluster.cache::<PodGroupView>().all().pop().expect("the Job has a group");
        assert_eq!((group.min_count(), group.topology_key()), (Some(4), None), "it is still a gang");
        let history = cluster.history();
        let at = |what: &str, find: &dyn Fn(&serde_json::Value) -> bool, resource: &str| {
            let change = history.iter().find(|change| change.resource == resource && find(&change.object));
            change.unwrap_or_else(|| panic!("{what}: no such write")).revision
        };
        let reported =
            at("condition", &|job| job["status"]["conditions"].to_string().contains("FieldsDropped"), "batch/jobs");
        assert!(reported < at("pod", &|_| true, "pods"), "it is reported before the first pod is created");
    });
}

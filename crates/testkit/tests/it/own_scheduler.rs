//! A second scheduler with a custom filter.

use std::sync::Arc;
use std::time::Duration;

use api::Random;
use runtime::TokioClock;
use scheduler_core::{
    Class, ClusterEvents, Filter, LoadAssumption, NO_LIMIT, NodeRef, PluginKind, PodSpecFields, ReadSet, Reason,
};
use testkit::{TestCluster, job, on_test_cluster};

const SCHEDULER_NAME: &str = "own";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Keeps pods off every node but the last.
#[derive(Debug)]
struct LastNodeOnly;

impl Filter for LastNodeOnly {
    fn name(&self) -> &str {
        "Last"
    }

    fn kind(&self) -> PluginKind {
        PluginKind::Static
    }

    fn reads(&self) -> ReadSet {
        ReadSet::fields(PodSpecFields::NONE)
    }

    fn events_to_register(&self, _: &Class) -> ClusterEvents {
        ClusterEvents::NODE_ADD | ClusterEvents::NODE_LABELS
    }

    fn slots(&self, _: &Class, node: NodeRef<'_>, _: LoadAssumption) -> u32 {
        if node.label(HOSTNAME) == Some("node-3") { NO_LIMIT } else { 0 }
    }

    fn reasons(&self, _: &Class, _: NodeRef<'_>, _: u32, report: &mut dyn FnMut(Reason)) {
        report(Reason::new("node(s) were not the last"));
    }
}

#[test]
fn a_scheduler_with_a_custom_filter_places_the_gangs_that_name_it() {
    on_test_cluster(async {
        let cluster = TestCluster::start(3, 4).await;
        let clock = Arc::new(TokioClock::starting_at(cluster.now()));
        let builder =
            scheduler::Builder::new(cluster.client(), clock, Random::seeded(2)).with_scheduler_name(SCHEDULER_NAME);
        let running =
            tokio::spawn(builder.with_filter(Arc::new(LastNodeOnly)).expect("a static filter can be added").run());
        let gang =
            |name: &str, pods| job(name).pods(pods).indexed().gang().gpus(1).pod_spec("schedulerName", SCHEDULER_NAME);
        cluster
            .create(&gang("fits", 4).annotate("phalanx.dev/run-seconds", &cluster.scaled_seconds(600)).build())
            .await;
        cluster.create(&gang("too-large", 9).build()).await;
        let minute = Duration::from_secs(60);
        let nodes = cluster
            .eventually("it is placed", minute, |cluster| {
                let pods = cluster.pods_of("fits");
                let nodes: Vec<_> = pods.iter().filter_map(|pod| Some(pod.node_name()?.to_owned())).collect();
                (nodes.len() == 4).then_some(nodes)
            })
            .await;
        assert!(nodes.iter().all(|node| node == "node-3"), "{nodes:?}");
        let group = cluster.pods_of("too-large")[0].group_name().unwrap().to_owned();
        let message = cluster.wait_for_event("FailedScheduling", &group).await.expect("the scheduler runs");
        assert!(message.contains("3 of 4 nodes were not the last"), "{message}");
        running.abort();
    });
}

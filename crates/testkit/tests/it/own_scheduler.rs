//! A scheduler with a filter of one's own beside the usual one.

use std::sync::Arc;
use std::time::Duration;

use api::Random;
use runtime::TokioClock;
use scheduler_core::{Class, Filter, Kind, Load, NO_LIMIT, NodeRef, Parts, Reads, Reason, Wakes};
use testkit::{Home, job, on_home};

const OWN: &str = "own";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Keeps pods off every node but the last.
#[derive(Debug)]
struct Last;

impl Filter for Last {
    fn name(&self) -> &str {
        "Last"
    }

    fn kind(&self) -> Kind {
        Kind::Static
    }

    fn reads(&self) -> Reads {
        Reads::parts(Parts::NONE)
    }

    fn wakes(&self, _: &Class) -> Wakes {
        Wakes::NODE_ADDED | Wakes::LABELS
    }

    fn room(&self, _: &Class, node: NodeRef<'_>, _: Load) -> u32 {
        if node.label(HOSTNAME) == Some("node-3") { NO_LIMIT } else { 0 }
    }

    fn reasons(&self, _: &Class, _: NodeRef<'_>, _: u32, say: &mut dyn FnMut(Reason)) {
        say(Reason::new("node(s) were not the last"));
    }
}

#[test]
fn a_scheduler_with_a_filter_of_ones_own_places_the_gangs_that_ask_for_it() {
    on_home(async {
        let home = Home::start(3, 4).await;
        let clock = Arc::new(TokioClock::starting_at(home.now()));
        let builder = scheduler::Builder::new(home.client(), clock, Random::seeded(2)).with_scheduler_name(OWN);
        let running = tokio::spawn(builder.with_filter(Arc::new(Last)).expect("a static filter has a place").run());
        let gang = |name: &str, pods| job(name).pods(pods).indexed().gang().gpus(1).pod_spec("schedulerName", OWN);
        home.create(&gang("fits", 4).annotate("phalanx.dev/run-seconds", &home.seconds(600)).build()).await;
        home.create(&gang("too-large", 9).build()).await;
        let minute = Duration::from_secs(60);
        let nodes = home
            .eventually("it is placed", minute, |home| {
                let pods = home.pods_of("fits");
                let nodes: Vec<_> = pods.iter().filter_map(|pod| Some(pod.node_name()?.to_owned())).collect();
                (nodes.len() == 4).then_some(nodes)
            })
            .await;
        assert!(nodes.iter().all(|node| node == "node-3"), "{nodes:?}");
        let group = home.pods_of("too-large")[0].group_name().unwrap().to_owned();
        let message = home.told("FailedScheduling", &group).await.expect("the scheduler lives");
        assert!(message.contains("3 of 4 nodes were not the last"), "{message}");
        running.abort();
    });
}

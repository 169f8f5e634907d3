//! A custom scheduler for any cluster: pods whose `schedulerName` is `quiet` avoid nodes that are loud.
//!
//! Start a cluster with `phalanx up`, and this program with `KUBECONFIG` set to the file that `phalanx up` prints:
//! `cargo run -p phalanx-scheduler --example own_scheduler`. What a filter has to declare, and how that is checked:
//! `own_filter.rs` of `scheduler-core`.

use std::sync::Arc;

use api::{Random, Timestamp};
use runtime::TokioClock;
use scheduler_core::{
    Class, ClusterEvents, Filter, LoadAssumption, NO_LIMIT, NodeRef, PluginKind, PodSpecFields, ReadSet, Reason,
};

/// Refuses nodes with the label `example.com/loud: "true"`.
#[derive(Debug)]
struct Quiet;

impl Filter for Quiet {
    fn name(&self) -> &str {
        "Quiet"
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
        if node.label("example.com/loud") == Some("true") { 0 } else { NO_LIMIT }
    }

    fn reasons(&self, _: &Class, _: NodeRef<'_>, _: u32, report: &mut dyn FnMut(Reason)) {
        report(Reason::new("node(s) were loud"));
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = kube::Client::try_default().await?;
    let now = Timestamp::now();
    let clock = Arc::new(TokioClock::starting_at(now));
    let random = Random::seeded(now.as_nanosecond() as u64);
    let scheduler = phalanx_scheduler::Builder::new(client, clock, random).with_scheduler_name("quiet");
    println!("placing pods with schedulerName: quiet");
    scheduler.with_filter(Arc::new(Quiet))?.run().await;
    Ok(())
}

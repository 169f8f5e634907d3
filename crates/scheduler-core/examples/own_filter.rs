//! A custom filter: licences that nodes offer and pods use.
//!
//! The node label `example.com/licences` is the number of pods that may use the node's licence at once. A pod with the
//! annotation `example.com/licence: "true"` uses one.
//!
//! Run it with `cargo run -p phalanx-scheduler-core --example own_filter`.

use std::sync::Arc;

use phalanx_scheduler_core::profile::FilterPlugin;
use phalanx_scheduler_core::{
    Class, ClusterChange, ClusterEvents, Config, Core, DecisionAction, Filter, LoadAssumption, NO_LIMIT, NodeRef,
    PluginKind, PodCounter, PodSpecFields, Profile, ReadSet, Reason, declarations,
};
use serde_json::json;
use types::Timestamp;
use types::views::{NodeView, PodView, View};

const USES_LICENCE: &str = "example.com/licence";
const LICENCES: &str = "example.com/licences";

const LICENCES_IN_USE: &str = "licences in use";

fn uses_licence(pod: &PodView) -> u32 {
    u32::from(pod.metadata.annotations.get(USES_LICENCE).is_some_and(|uses| uses == "true"))
}

#[derive(Debug)]
struct Licences;

impl Filter for Licences {
    fn name(&self) -> &str {
        "Licences"
    }

    // A number of slots that shrinks with every pod on the node.
    fn kind(&self) -> PluginKind {
        PluginKind::Counted
    }

    // Pods with the same value of this annotation are equal for this filter. It can read nothing else of a pod.
    fn reads(&self) -> ReadSet {
        ReadSet::fields(PodSpecFields::NONE).with_annotation(USES_LICENCE)
    }

    // The core counts the pods with a licence on each node, tentatively placed ones included.
    fn counters(&self) -> Vec<PodCounter> {
        vec![PodCounter { name: LICENCES_IN_USE, count: uses_licence }]
    }

    // Changes that can turn a "no" into a "yes": a new node, another label, a deleted pod.
    fn events_to_register(&self, class: &Class) -> ClusterEvents {
        match class.annotation(USES_LICENCE) {
            Some("true") => ClusterEvents::NODE_ADD | ClusterEvents::NODE_LABELS | ClusterEvents::ASSIGNED_POD_DELETE,
            _ => ClusterEvents::NONE,
        }
    }

    fn slots(&self, class: &Class, node: NodeRef<'_>, load: LoadAssumption) -> u32 {
        if class.annotation(USES_LICENCE) != Some("true") {
            return NO_LIMIT;
        }
        let licences: i64 = node.label(LICENCES).and_then(|count| count.parse().ok()).unwrap_or(0);
        let used = if load == LoadAssumption::Now { node.counted(LICENCES_IN_USE) } else { 0 };
        u32::try_from(licences - used).unwrap_or(0)
    }

    fn reasons(&self, _: &Class, _: NodeRef<'_>, _: u32, report: &mut dyn FnMut(Reason)) {
        report(Reason::new("node(s) had no free licence"));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A filter that does not do what it declares leaves pods pending forever, so check it, usually in a test.
    let words = [(USES_LICENCE, "true"), (USES_LICENCE, "false"), (LICENCES, "1"), (LICENCES, "3")];
    declarations::check(&FilterPlugin::Custom(Arc::new(Licences)), &words, 1, 2000)?;

    let profile = Profile::default().with_filter(Arc::new(Licences))?;
    let mut core = Core::new(Config { profiles: vec![profile], ..Config::default() });
    for (name, licences) in [("plain", "0"), ("licensed", "2")] {
        let node = json!({
            "metadata": {"name": name, "labels": {LICENCES: licences}},
            "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}},
        });
        let node = Arc::new(NodeView::decode(node.to_string().as_bytes())?);
        core.observe(ClusterChange::Node { old: None, new: Some(node) });
    }
    for (name, licence) in [("free", "false"), ("first", "true"), ("second", "true"), ("third", "true")] {
        let pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": {USES_LICENCE: licence}},
            "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "main", "image": "solver:1"}]},
        });
        let pod = Arc::new(PodView::decode(pod.to_string().as_bytes())?);
        core.observe(ClusterChange::Pod { old: None, new: Some(pod) });
    }
    while let Some(decision) = core.next(Timestamp::UNIX_EPOCH) {
        match decision.action {
            DecisionAction::Bind(placements) => {
                placements.iter().for_each(|placement| println!("{} → {}", placement.pod, placement.node))
            }
            DecisionAction::Wait(refusal) => println!("{}: {}", decision.unit, refusal.message()),
            other => println!("{}: {other:?}", decision.unit),
        }
    }
    Ok(())
}

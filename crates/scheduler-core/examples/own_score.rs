//! A custom score: nodes that already have a pod's model in their cache.
//!
//! The node label `example.com/model` names the model that the node has. A pod with the annotation `example.com/model`
//! prefers nodes with its model; other pods are not affected.
//!
//! Run it with `cargo run -p phalanx-scheduler-core --example own_score`.

use std::sync::Arc;

use phalanx_scheduler_core::{
    Class, ClusterChange, Config, Core, DecisionAction, MAX_SCORE, NodeRef, PluginKind, PodSpecFields, Profile,
    ReadSet, Score,
};
use serde_json::json;
use types::Timestamp;
use types::views::{NodeView, PodView, View};

const MODEL: &str = "example.com/model";

#[derive(Debug)]
struct CachedModel;

impl Score for CachedModel {
    fn name(&self) -> &str {
        "CachedModel"
    }

    // The points of a node change only with the node itself, not with the pods on it.
    fn kind(&self) -> PluginKind {
        PluginKind::Static
    }

    // Pods with the same value of this annotation are equal for this score. It can read nothing else of a pod.
    fn reads(&self) -> ReadSet {
        ReadSet::fields(PodSpecFields::NONE).with_annotation(MODEL)
    }

    fn applies(&self, class: &Class) -> bool {
        class.annotation(MODEL).is_some()
    }

    // Points from 0 to MAX_SCORE; the weight comes with the profile.
    fn raw(&self, class: &Class, node: NodeRef<'_>) -> i64 {
        if node.label(MODEL) == class.annotation(MODEL) { MAX_SCORE } else { 0 }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let profile = Profile::default().with_score(Arc::new(CachedModel), 10)?;
    let mut core = Core::new(Config { profiles: vec![profile], ..Config::default() });
    for (name, model) in [("a", "none"), ("b", "llama"), ("c", "mistral")] {
        let node = json!({
            "metadata": {"name": name, "labels": {MODEL: model}},
            "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}},
        });
        let node = Arc::new(NodeView::decode(node.to_string().as_bytes())?);
        core.observe(ClusterChange::Node { old: None, new: Some(node) });
    }
    for model in ["mistral", "llama"] {
        let pod = json!({
            "metadata": {"name": model, "namespace": "default", "uid": model, "annotations": {MODEL: model}},
            "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "main", "image": "server:1"}]},
        });
        let pod = Arc::new(PodView::decode(pod.to_string().as_bytes())?);
        core.observe(ClusterChange::Pod { old: None, new: Some(pod) });
    }
    while let Some(decision) = core.next(Timestamp::UNIX_EPOCH) {
        match decision.action {
            DecisionAction::Bind(placements) => {
                placements.iter().for_each(|placement| println!("{} → {}", placement.pod, placement.node));
            }
            other => println!("{}: {other:?}", decision.unit),
        }
    }
    Ok(())
}

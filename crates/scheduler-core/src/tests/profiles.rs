//! Profiles: whose pods, which plugins, and what they make alike.

use std::sync::Arc;

use serde_json::{Value, json};
use types::Timestamp;
use types::views::{NodeView, PodView, View};

use crate::classes::Classes;
use crate::cluster::Cluster;
use crate::profile::{FilterPlugin, FitArgs, FitStrategy, ScorePlugin};
use crate::{ClusterChange, Config, Core, DecisionAction, Profile};

fn node(name: &str, images: Value) -> NodeView {
    let allocatable = json!({"cpu": "8", "memory": "8Gi", "pods": "110"});
    let document = json!({"metadata": {"name": name}, "status": {"allocatable": allocatable, "images": images}});
    NodeView::decode(document.to_string().as_bytes()).unwrap()
}

fn pod(name: &str, spec: Value) -> PodView {
    let mut document = json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec});
    if document["spec"]["schedulerName"].is_null() {
        document["spec"]["schedulerName"] = json!("default-scheduler");
    }
    PodView::decode(document.to_string().as_bytes()).unwrap()
}

fn asks(cpu: &str) -> Value {
    json!([{"name": "c", "image": "x:1", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}])
}

#[test]
fn each_pod_is_judged_by_the_profile_of_its_scheduler_name() {
    let mut packing = Profile::named("packing");
    let most = FitArgs { strategy: FitStrategy::MostAllocated, ..FitArgs::default() };
    packing.scores = vec![(ScorePlugin::NodeResourcesFit(most), 1)];
    let mut core = Core::new(Config { profiles: vec![Profile::default(), packing], ..Config::default() });
    for name in ["a", "b"] {
        core.observe(ClusterChange::Node { old: None, new: Some(Arc::new(node(name, json!([])))) });
    }
    let running = pod("running", json!({"containers": asks("1"), "nodeName": "a"}));
    core.observe(ClusterChange::Pod { old: None, new: Some(Arc::new(running)) });
    let mut said = Vec::new();
    for scheduler in ["default-scheduler", "packing", "another"] {
        let pending = pod(scheduler, json!({"containers": asks("1"), "schedulerName": scheduler}));
        core.observe(ClusterChange::Pod { old: None, new: Some(Arc::new(pending)) });
        while let Some(decision) = core.next(Timestamp::UNIX_EPOCH) {
            let DecisionAction::Bind(spots) = decision.action else { panic!("{decision:?}") };
            said.extend(spots.into_iter().map(|spot| format!("{} to {}", spot.pod.name, spot.node)));
        }
    }
    // Once the first pod is on b both are equal, and the first seen wins.
    assert_eq!(said, ["default-scheduler to b", "packing to a"]);
}

#[test]
fn what_no_plugin_of_the_profile_reads_tells_no_pods_apart() {
    let spec = json!({"containers": asks("1")});
    let mut tolerant = spec.clone();
    tolerant["tolerations"] = json!([{"operator": "Exists"}]);
    let alike = |profile: &Profile| {
        let mut cluster = Cluster::default();
        let classes = Classes::new(1, std::slice::from_ref(profile), &mut cluster);
        classes.class_of(&pod("a", spec.clone()), &mut cluster)
            == classes.class_of(&pod("b", tolerant.clone()), &mut cluster)
    };
    assert!(!alike(&Profile::default()));
    let mut blind = Profile::default();
    blind.filters.retain(|filter| !matches!(filter, FilterPlugin::TaintToleration | FilterPlugin::NodeUnschedulable));
    assert!(!alike(&blind), "the score still reads them");
    blind.scores.retain(|(score, _)| !matches!(score, ScorePlugin::TaintToleration));
    assert!(alike(&blind));
}

#[test]
fn a_kept_index_follows_images_on_other_nodes() {
    let mut cluster = Cluster::default();
    let mut classes = Classes::new(1 << 20, &[Profile::default()], &mut cluster);
    let image = |name: &str| json!([{"names": [name], "sizeBytes": 900_000_000}]);
    for (name, images) in [("a", json!([])), ("b", image("x:1")), ("c", json!([]))] {
        cluster.set_node(&node(name, images));
    }
    let class = classes.class_of(&pod("p", json!({"containers": asks("1")})), &mut cluster);
    let id = classes.acquire(class);
    let best = |cluster: &Cluster, classes: &mut Classes| {
        let (_, index) = classes.with_current_index(id, cluster);
        let best = index.best().map(|node| (cluster.node_name(node).to_owned(), index.total(node)));
        classes.assert_fresh(cluster);
        best.unwrap()
    };
    let (first, points) = best(&cluster, &mut classes);
    assert_eq!(first, "b");
    // The image now lies on two of three nodes and counts for more on b, which did not change itself.
    cluster.set_node(&node("c", image("x:1")));
    assert!(best(&cluster, &mut classes).1 > points);
    // Among more nodes it counts for less.
    for name in ["d", "e", "f"] {
        cluster.set_node(&node(name, json!([])));
    }
    assert_eq!(best(&cluster, &mut classes), ("b".to_owned(), points));
    cluster.remove_node("b");
    assert_eq!(best(&cluster, &mut classes).0, "c");
}

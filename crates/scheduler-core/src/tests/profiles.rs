//! Profiles: which pods and which plugins they have, and which pods share a class.

use std::sync::Arc;

use serde_json::{Value, json};
use types::Timestamp;
use types::views::{NodeView, PodView, View};

use crate::cluster::Cluster;
use crate::demand::classes::Classes;
use crate::plugins::profile::{FitArgs, FitStrategy};
use crate::{
    Class, ClusterChange, ClusterEvents, Config, Core, DecisionAction, Filter, InferredValue, LoadAssumption, NO_LIMIT,
    NodeRef, PluginKind, PodSpecFields, Profile, ReadSet, Reason,
};

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

fn containers_with(cpu: &str) -> Value {
    json!([{"name": "c", "image": "x:1", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}])
}

#[test]
fn the_profile_of_its_scheduler_name_applies_to_a_pod() {
    let mut packing = Profile::named("packing");
    packing.args.fit = FitArgs { strategy: FitStrategy::MostAllocated, ..FitArgs::default() };
    packing.scores.retain(|(score, _)| score.name() == "NodeResourcesFit");
    let mut core = Core::new(Config { profiles: vec![Profile::default(), packing], ..Config::default() });
    for name in ["a", "b"] {
        core.observe(ClusterChange::Node { old: None, new: Some(Arc::new(node(name, json!([])))) });
    }
    let running = pod("running", json!({"containers": containers_with("1"), "nodeName": "a"}));
    core.observe(ClusterChange::Pod { old: None, new: Some(Arc::new(running)) });
    let mut bound = Vec::new();
    for scheduler in ["default-scheduler", "packing", "another"] {
        let pending = pod(scheduler, json!({"containers": containers_with("1"), "schedulerName": scheduler}));
        core.observe(ClusterChange::Pod { old: None, new: Some(Arc::new(pending)) });
        while let Some(decision) = core.next(Timestamp::UNIX_EPOCH) {
            let DecisionAction::Bind(placements) = decision.action else { panic!("{decision:?}") };
            bound.extend(placements.into_iter().map(|one| format!("{} to {}", one.pod.name, one.node)));
        }
    }
    // Once the first pod is on b both nodes are equal, and the one observed first wins.
    assert_eq!(bound, ["default-scheduler to b", "packing to a"]);
}

#[test]
fn fields_that_no_plugin_of_the_profile_reads_do_not_distinguish_classes() {
    let spec = json!({"containers": containers_with("1")});
    let mut tolerant = spec.clone();
    tolerant["tolerations"] = json!([{"operator": "Exists"}]);
    let are_equal = |profile: &Profile| {
        let mut cluster = Cluster::default();
        let classes = Classes::new(1, std::slice::from_ref(profile), &mut cluster);
        classes.class_of(&pod("a", spec.clone()), &mut cluster)
            == classes.class_of(&pod("b", tolerant.clone()), &mut cluster)
    };
    assert!(!are_equal(&Profile::default()));
    let mut reduced = Profile::default();
    reduced.filters.retain(|filter| !["TaintToleration", "NodeUnschedulable"].contains(&filter.name()));
    assert!(!are_equal(&reduced), "the score still reads them");
    reduced.scores.retain(|(score, _)| score.name() != "TaintToleration");
    assert!(are_equal(&reduced));
}

/// Infers how many containers a pod has, and refuses no node.
#[derive(Debug)]
struct CountsContainers;

impl Filter for CountsContainers {
    fn name(&self) -> &str {
        "CountsContainers"
    }

    fn kind(&self) -> PluginKind {
        PluginKind::Static
    }

    fn reads(&self) -> ReadSet {
        let count = InferredValue { name: "containers", infer: |spec| spec.containers.len() as u64 };
        ReadSet::fields(PodSpecFields::NONE).with_inferred(count)
    }

    fn events_to_register(&self, _: &Class) -> ClusterEvents {
        ClusterEvents::NONE
    }

    fn slots(&self, _: &Class, _: NodeRef<'_>, _: LoadAssumption) -> u32 {
        NO_LIMIT
    }

    fn reasons(&self, _: &Class, _: NodeRef<'_>, _: u32, _: &mut dyn FnMut(Reason)) {}
}

#[test]
fn pods_with_the_same_inferred_value_share_a_class() {
    let containers = |count: usize| json!({"containers": vec![json!({"name": "c"}); count]});
    let profile = Profile { filters: Vec::new(), scores: Vec::new(), ..Profile::default() };
    let profile = profile.with_filter(Arc::new(CountsContainers)).unwrap();
    let mut cluster = Cluster::default();
    let classes = Classes::new(1, &[profile], &mut cluster);
    let mut class = |spec: Value| classes.class_of(&pod("p", spec), &mut cluster);
    let mut named = containers(2);
    named["containers"][1]["name"] = json!("another");
    named["tolerations"] = json!([{"operator": "Exists"}]);
    assert_eq!(class(containers(2)), class(named));
    assert_ne!(class(containers(2)).inferred("containers"), class(containers(3)).inferred("containers"));
    assert_eq!(class(json!({})).inferred("containers"), 0);
}

#[test]
fn a_cached_index_follows_images_on_other_nodes() {
    let mut cluster = Cluster::default();
    let mut classes = Classes::new(1 << 20, &[Profile::default()], &mut cluster);
    let image = |name: &str| json!([{"names": [name], "sizeBytes": 900_000_000}]);
    for (name, images) in [("a", json!([])), ("b", image("x:1")), ("c", json!([]))] {
        cluster.set_node(&node(name, images));
    }
    let class = classes.class_of(&pod("p", json!({"containers": containers_with("1")})), &mut cluster);
    let id = classes.acquire(class);
    let best = |cluster: &Cluster, classes: &mut Classes| {
        let (_, index) = classes.with_current_index(id, cluster);
        let best = index.best().map(|node| (cluster.node_name(node).to_owned(), index.total(node)));
        classes.assert_fresh(cluster);
        best.unwrap()
    };
    let (first, points) = best(&cluster, &mut classes);
    assert_eq!(first, "b");
    // The image is now on two of three nodes and counts more on b, which did not change itself.
    cluster.set_node(&node("c", image("x:1")));
    assert!(best(&cluster, &mut classes).1 > points);
    // With more nodes it counts less.
    for name in ["d", "e", "f"] {
        cluster.set_node(&node(name, json!([])));
    }
    assert_eq!(best(&cluster, &mut classes), ("b".to_owned(), points));
    cluster.remove_node("b");
    assert_eq!(best(&cluster, &mut classes).0, "c");
}

//! Explanations for a cluster without our scheduler: a scheduler core in this process observes the whole cluster and
//! explains its units. It makes no decisions.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::views::{NodeView, PodGroupView, PodView};
use scheduler_core::{ClusterChange, Config, Core, Profile, Unit, UnitExplanation};

/// All objects of a cluster that scheduling depends on.
pub struct ClusterObjects {
    /// Nodes.
    pub nodes: Vec<Arc<NodeView>>,
    /// PodGroups of all namespaces.
    pub groups: Vec<Arc<PodGroupView>>,
    /// Pods of all namespaces.
    pub pods: Vec<Arc<PodView>>,
}

/// The explanations of `units` by a scheduler with the plugins of kube-scheduler's default profile.
pub fn explain(cluster: &ClusterObjects, units: &[Unit]) -> Vec<UnitExplanation> {
    let mut core = Core::new(Config { profiles: profiles(cluster, units), ..Config::default() });
    for node in &cluster.nodes {
        core.observe(ClusterChange::Node { old: None, new: Some(Arc::clone(node)) });
    }
    for group in &cluster.groups {
        core.observe(ClusterChange::PodGroup { old: None, new: Some(Arc::clone(group)) });
    }
    for pod in &cluster.pods {
        core.observe(ClusterChange::Pod { old: None, new: Some(Arc::clone(pod)) });
    }
    let placed = |unit: &Unit| -> Vec<Arc<PodView>> {
        let pods = cluster.pods.iter().filter(|pod| is_pod_of(pod, unit));
        pods.filter(|pod| pod.node_name().is_some() && !pod.is_finished()).cloned().collect()
    };
    let tasks: Vec<_> = units.iter().filter_map(|unit| core.explain_task(unit, &placed(unit))).collect();
    let mut fork = core.fork();
    tasks.into_iter().map(|task| fork.explain(task).0).collect()
}

/// One default profile for each `schedulerName` of the units' pods. The configuration of that scheduler is not known.
fn profiles(cluster: &ClusterObjects, units: &[Unit]) -> Vec<Profile> {
    let pods = cluster.pods.iter().filter(|pod| units.iter().any(|unit| is_pod_of(pod, unit)));
    let names: BTreeSet<&str> = pods.map(|pod| pod.spec.scheduler_name.as_str()).collect();
    let profile = |name: &&str| Profile { scheduler_name: (*name).to_owned(), ..Profile::default() };
    let profiles: Vec<Profile> = names.iter().map(profile).collect();
    if profiles.is_empty() { vec![Profile::default()] } else { profiles }
}

fn is_pod_of(pod: &PodView, unit: &Unit) -> bool {
    let key = unit.key();
    pod.metadata.namespace == key.namespace
        && match unit {
            Unit::Group(_) => pod.group_name() == Some(key.name.as_str()),
            Unit::Pod(_) => pod.metadata.name == key.name,
        }
}

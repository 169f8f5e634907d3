//! The scheduler's reasoning about a cluster without a scheduler: all there is is shown to a core of our own, and that is
//! asked. It decides nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::views::{NodeView, PodGroupView, PodView};
use scheduler_core::{ClusterChange, Config, Core, Profile, Unit, UnitExplanation};

/// A whole cluster, as far as placement goes.
pub struct ClusterObjects {
    /// Nodes.
    pub nodes: Vec<Arc<NodeView>>,
    /// PodGroups of all namespaces.
    pub groups: Vec<Arc<PodGroupView>>,
    /// Pods of all namespaces.
    pub pods: Vec<Arc<PodView>>,
}

/// What a scheduler with the plugins of kube-scheduler's default profile would say about `units`.
pub fn explain(everything: &ClusterObjects, units: &[Unit]) -> Vec<UnitExplanation> {
    let mut core = Core::new(Config { profiles: profiles(everything, units), ..Config::default() });
    for node in &everything.nodes {
        core.observe(ClusterChange::Node { old: None, new: Some(Arc::clone(node)) });
    }
    for group in &everything.groups {
        core.observe(ClusterChange::PodGroup { old: None, new: Some(Arc::clone(group)) });
    }
    for pod in &everything.pods {
        core.observe(ClusterChange::Pod { old: None, new: Some(Arc::clone(pod)) });
    }
    let placed = |unit: &Unit| -> Vec<Arc<PodView>> {
        let concerned = everything.pods.iter().filter(|pod| is_pod_of(pod, unit));
        concerned.filter(|pod| pod.node_name().is_some() && !pod.is_finished()).cloned().collect()
    };
    units.iter().filter_map(|unit| core.explain(unit, &placed(unit))).collect()
}

/// One for each scheduler that places pods of the units: what its own file says is not known here.
fn profiles(everything: &ClusterObjects, units: &[Unit]) -> Vec<Profile> {
    let concerned = everything.pods.iter().filter(|pod| units.iter().any(|unit| is_pod_of(pod, unit)));
    let names: BTreeSet<&str> = concerned.map(|pod| pod.spec.scheduler_name.as_str()).collect();
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

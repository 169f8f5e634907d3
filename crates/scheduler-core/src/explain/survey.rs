//! The verdict of every filter and score about every node for one pod: a decision in detail.

use types::views::{NodeView, PodView};

use crate::cluster::{Cluster, NodeIndex};
use crate::demand::classes::{Class, Classes};
use crate::demand::requests::Usage;
use crate::index::ClassIndex;
use crate::plugins::filters::LoadAssumption;
use crate::plugins::profile::Profile;

/// The verdict of a profile about a pod on some nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// One per node, by name.
    pub nodes: Vec<NodeSurvey>,
    /// The node that would be chosen.
    pub best: Option<String>,
    /// Whether the pod would be queued: it has no scheduling gates, or the profile ignores them.
    pub admitted: bool,
}

/// The verdict of a profile about a pod on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSurvey {
    /// The node.
    pub node: String,
    /// The filters that refuse it, in their order. Each is evaluated regardless of the others.
    pub objections: Vec<FilterObjection>,
    /// How many pods like this one fit on it.
    pub slots: u32,
    /// The weighted points of each score that applies to the pod; empty when a filter refuses the node.
    pub scores: Vec<(String, i64)>,
    /// Their sum, as placement computes it.
    pub total: i64,
}

/// One filter's "no".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterObjection {
    /// The filter.
    pub filter: String,
    /// Its reasons as text.
    pub reasons: Vec<String>,
    /// Whether it would refuse the empty node too, so that no pod's leaving helps.
    pub even_when_empty: bool,
}

impl Survey {
    /// Evaluates every filter and score of `profile` for `pod` on every node, with `running` on their nodes. A node
    /// that the pod names is a requirement here: the pod does not count as bound to it.
    pub fn of(profile: &Profile, nodes: &[NodeView], running: &[PodView], pod: &PodView) -> Survey {
        let mut cluster = Cluster::default();
        let classes = Classes::new(1, std::slice::from_ref(profile), &mut cluster);
        for node in nodes {
            cluster.set_node(node);
        }
        for pod in running.iter().filter(|pod| !pod.is_finished()) {
            let (index, usage) = (cluster.index_of(&pod.spec.node_name), Usage::of(pod, &mut cluster));
            cluster.add_pod(index, &usage);
        }
        let mut class = classes.class_of(pod, &mut cluster);
        class.node_name = pod.node_name().map(|name| cluster.names.intern(name));
        let plugins = std::sync::Arc::clone(classes.plugins(&class));
        let index = ClassIndex::of(&class, plugins, &cluster);
        let present = cluster.indices().filter(|node| cluster.node(*node).present);
        let mut nodes: Vec<_> = present.map(|node| NodeSurvey::of(node, &class, &index, &cluster)).collect();
        nodes.sort_by(|a, b| a.node.cmp(&b.node));
        Survey {
            nodes,
            best: index.best().map(|node| cluster.node_name(node).to_owned()),
            admitted: !profile.scheduling_gates || pod.spec.scheduling_gates.is_empty(),
        }
    }
}

impl NodeSurvey {
    fn of(node: NodeIndex, class: &Class, index: &ClassIndex, cluster: &Cluster) -> NodeSurvey {
        let mut objections = Vec::new();
        for filter in index.plugins().filters() {
            if filter.slots(class, cluster.node_ref(node), LoadAssumption::Now) == 0 {
                let mut reasons = Vec::new();
                filter.reasons(class, cluster.node_ref(node), 0, &mut |reason| reasons.push(reason.text(cluster)));
                let even_when_empty = filter.slots(class, cluster.node_ref(node), LoadAssumption::Empty) == 0;
                objections.push(FilterObjection { filter: filter.name().to_owned(), reasons, even_when_empty });
            }
        }
        let slots = index.slots(node);
        let points = if slots > 0 { index.points(node, class, cluster) } else { Vec::new() };
        let name = |position: usize| index.plugins().scores[position].0.name().to_owned();
        NodeSurvey {
            node: cluster.node_name(node).to_owned(),
            objections,
            slots,
            scores: points.into_iter().map(|(position, points)| (name(position), points)).collect(),
            total: if slots > 0 { index.total(node) } else { 0 },
        }
    }
}

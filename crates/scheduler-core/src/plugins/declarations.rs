//! Checks what a filter declares against what it does, on generated nodes and pods.
//!
//! Placement relies on a filter's declarations: which pods are equal for it, whether its result may be cached, and
//! which cluster events can free capacity. A filter with wrong declarations places pods where they do not fit, or
//! leaves them pending forever. Authors of filters check them in their own tests.

use k8s_openapi::api::core::v1::{
    NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration,
};
use thiserror::Error;
use types::quantity::Quantity;
use types::views::{ContainerView, ImageView, NodeView, PodView, PortView};
use types::{Random, SmallMap};

use crate::cluster::{Cluster, NodeIndex};
use crate::demand::classes::Class;
use crate::demand::requests::Usage;
use crate::plugins::filters::{Filter, LoadAssumption, NO_LIMIT, PluginKind};
use crate::plugins::profile::{FilterPlugin, PluginArgs};
use crate::queue::cluster_events::ClusterEvents;

/// How a filter violates its declarations.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeclarationViolation {
    /// Two pods that are equal in what it declares to read got different results.
    #[error(
        "{filter} reads more of a pod than it declares: {pod} gets {full} slots, a pod that is equal in all declared fields gets {limited}"
    )]
    UndeclaredRead {
        /// The filter.
        filter: String,
        /// A description of the pod.
        pod: String,
        /// The result with all fields.
        full: u32,
        /// The result with only the declared fields.
        limited: u32,
    },
    /// A static result that is neither 0 nor unlimited, or that changed with the pods on the node.
    #[error("{filter} is not static: it returns {before}, and {after} with another pod on the node")]
    NotStatic {
        /// The filter.
        filter: String,
        /// The result before.
        before: u32,
        /// The result after.
        after: u32,
    },
    /// There were more slots with one more pod on the node.
    #[error("{filter} counts wrongly: {before} pods fit, and {after} once another pod is on the node")]
    SlotsIncrease {
        /// The filter.
        filter: String,
        /// Slots before.
        before: u32,
        /// Slots after.
        after: u32,
    },
    /// Fewer pods fit on the empty node than on the node as it is.
    #[error("{filter} counts wrongly: {now} pods fit, and {empty} if the node were empty")]
    LessWhenEmpty {
        /// The filter.
        filter: String,
        /// Slots now.
        now: u32,
        /// Slots on the empty node.
        empty: u32,
    },
    /// A change freed capacity that the filter registers no cluster event for.
    #[error("{filter} misses a change that freed capacity: {change}, for {pod}")]
    MissedEvent {
        /// The filter.
        filter: String,
        /// What changed.
        change: &'static str,
        /// A description of the pod.
        pod: String,
    },
    /// `limit_slots` and `slots` differ.
    #[error("{filter} contradicts itself: `slots` returns {one}, `limit_slots` {many}")]
    InconsistentSlots {
        /// The filter.
        filter: String,
        /// The result of `slots`.
        one: u32,
        /// The result of `limit_slots`.
        many: u32,
    },
    /// It refuses a node without a reason.
    #[error("{filter} refuses a node without a reason")]
    MissingReason {
        /// The filter.
        filter: String,
    },
}

/// Checks a filter on `cases` generated clusters; the same seed gives the same clusters. Generated pods and nodes
/// have labels and annotations with the keys and values in `words`, and everything that the built-in filters read.
/// A built-in filter has its default arguments.
pub fn check(
    filter: &FilterPlugin,
    words: &[(&str, &str)],
    seed: u64,
    cases: usize,
) -> Result<(), DeclarationViolation> {
    check_with(filter, &PluginArgs::default(), words, seed, cases)
}

fn check_with(
    filter: &FilterPlugin,
    args: &PluginArgs,
    words: &[(&str, &str)],
    seed: u64,
    cases: usize,
) -> Result<(), DeclarationViolation> {
    let mut generator = ClusterGenerator { random: Random::seeded(seed), words: words.to_vec() };
    (0..cases).try_for_each(|_| {
        let mut cluster = Cluster::default();
        let filter = filter.prepare(args, &mut cluster);
        generator.try_case(&*filter, cluster)
    })
}

struct ClusterGenerator<'a> {
    random: Random,
    words: Vec<(&'a str, &'a str)>,
}

impl ClusterGenerator<'_> {
    fn try_case(&mut self, filter: &dyn Filter, mut cluster: Cluster) -> Result<(), DeclarationViolation> {
        filter.counters().into_iter().for_each(|counter| cluster.register_counter(counter));
        let mut view = self.node();
        cluster.set_node(&view);
        let node = cluster.index_of(&view.metadata.name);
        let (pod, mut running) = (self.pod(), Vec::new());
        let class = Class::with_everything(&pod, &filter.reads(), &mut cluster);
        self.check_invariants(filter, &class, &pod, node, &cluster)?;
        for _ in 0..6 {
            let before = filter.slots(&class, cluster.node_ref(node), LoadAssumption::Now);
            let (change, events) = self.change(&mut cluster, node, &mut view, &mut running);
            let after = filter.slots(&class, cluster.node_ref(node), LoadAssumption::Now);
            let name = || filter.name().to_owned();
            let by_pods = matches!(change, POD_ADDED | POD_REMOVED);
            if filter.kind() == PluginKind::Static && by_pods && before != after {
                return Err(DeclarationViolation::NotStatic { filter: name(), before, after });
            }
            if change == POD_ADDED && after > before && filter.is_monotone() {
                return Err(DeclarationViolation::SlotsIncrease { filter: name(), before, after });
            }
            if after > before && !filter.events_to_register(&class).intersects(events) {
                return Err(DeclarationViolation::MissedEvent { filter: name(), change, pod: describe(&pod) });
            }
            self.check_invariants(filter, &class, &pod, node, &cluster)?;
        }
        Ok(())
    }

    /// Checks what must hold at any moment.
    fn check_invariants(
        &self,
        filter: &dyn Filter,
        class: &Class,
        pod: &PodView,
        node: NodeIndex,
        cluster: &Cluster,
    ) -> Result<(), DeclarationViolation> {
        let name = || filter.name().to_owned();
        let limited_class = class.clone().limited_to(&filter.reads());
        for load in [LoadAssumption::Now, LoadAssumption::Empty] {
            let full = filter.slots(class, cluster.node_ref(node), load);
            let limited = filter.slots(&limited_class, cluster.node_ref(node), load);
            if full != limited || filter.events_to_register(class) != filter.events_to_register(&limited_class) {
                return Err(DeclarationViolation::UndeclaredRead { filter: name(), pod: describe(pod), full, limited });
            }
            if filter.kind() == PluginKind::Static && !matches!(full, 0 | NO_LIMIT) {
                return Err(DeclarationViolation::NotStatic { filter: name(), before: full, after: full });
            }
            let mut slots = [NO_LIMIT];
            filter.limit_slots(class, cluster.node_refs(&[node]), load, &mut slots);
            if slots != [full] {
                return Err(DeclarationViolation::InconsistentSlots { filter: name(), one: full, many: slots[0] });
            }
            let mut has_reason = false;
            filter.reasons(class, cluster.node_ref(node), 0, &mut |_| has_reason = true);
            if load == LoadAssumption::Now && full == 0 && !has_reason {
                return Err(DeclarationViolation::MissingReason { filter: name() });
            }
        }
        let [now, empty] =
            [LoadAssumption::Now, LoadAssumption::Empty].map(|load| filter.slots(class, cluster.node_ref(node), load));
        if empty < now && filter.is_monotone() {
            return Err(DeclarationViolation::LessWhenEmpty { filter: name(), now, empty });
        }
        Ok(())
    }

    /// Changes one thing. Returns a description and the cluster event.
    fn change(
        &mut self,
        cluster: &mut Cluster,
        node: NodeIndex,
        view: &mut NodeView,
        running: &mut Vec<Usage>,
    ) -> (&'static str, ClusterEvents) {
        let other = self.node();
        match self.random.below(9) {
            0 => {
                view.metadata.labels = other.metadata.labels;
                cluster.set_node(view);
                ("the node's labels changed", ClusterEvents::NODE_LABELS)
            }
            1 => {
                (view.spec.taints, view.spec.unschedulable) = (other.spec.taints, other.spec.unschedulable);
                cluster.set_node(view);
                ("the node's taints changed", ClusterEvents::NODE_TAINTS)
            }
            2 => {
                view.status.allocatable = other.status.allocatable;
                cluster.set_node(view);
                ("the node's allocatable resources changed", ClusterEvents::NODE_ALLOCATABLE)
            }
            3 => {
                view.status.images = other.status.images;
                cluster.set_node(view);
                ("the node's images changed", ClusterEvents::NODE_IMAGES)
            }
            4 => {
                view.status.declared_features = other.status.declared_features;
                cluster.set_node(view);
                ("the node's declared features changed", ClusterEvents::NODE_DECLARED_FEATURES)
            }
            5 => {
                // Its pods stay: they are deleted later than the node, unless the node returns before.
                cluster.remove_node(&view.metadata.name);
                *view = other;
                cluster.set_node(view);
                ("the node was deleted, and another was added under its name", ClusterEvents::NODE_ADD)
            }
            6 if !running.is_empty() => {
                cluster.remove_pod(node, &running.swap_remove(0));
                (POD_REMOVED, ClusterEvents::ASSIGNED_POD_DELETE)
            }
            _ => {
                let usage = Usage::of(&self.pod(), cluster);
                cluster.add_pod(node, &usage);
                running.push(usage);
                (POD_ADDED, ClusterEvents::ASSIGNED_POD_ADD)
            }
        }
    }

    fn node(&self) -> NodeView {
        let mut node = NodeView::default();
        node.metadata.name = "node".to_owned();
        node.metadata.labels = self.key_values().into_iter().collect();
        node.spec.unschedulable = self.random.below(4) == 0;
        node.spec.taints = (0..self.random.below(3)).map(|_| self.taint()).collect();
        node.status.images = (0..self.random.below(2)).map(|_| image()).collect();
        let features = FEATURES.iter().filter(|_| self.random.below(2) == 0);
        node.status.declared_features = features.map(|feature| (*feature).into()).collect();
        for (resource, most) in [("cpu", 6), ("memory", 6), ("pods", 4), ("example.com/device", 4)] {
            node.status.allocatable.insert(resource, Quantity::whole(self.random.below(most) as i64));
        }
        node
    }

    fn pod(&self) -> PodView {
        let mut pod = PodView::default();
        pod.metadata.labels = self.key_values().into_iter().collect();
        pod.metadata.annotations = self.key_values().into_iter().collect();
        let mut container = ContainerView::default();
        for resource in ["cpu", "memory", "example.com/device"] {
            if self.random.below(2) == 0 {
                container.resources.requests.insert(resource, Quantity::whole(self.random.below(3) as i64));
            }
        }
        if self.random.below(2) == 0 {
            container.image = IMAGE.to_owned();
        }
        if self.random.below(3) == 0 {
            container.ports = [PortView { host_port: 80, ..PortView::default() }].into();
        }
        container.restarts_all = self.random.below(4) == 0;
        container.has_bind_mount_options = self.random.below(4) == 0;
        pod.spec.containers.push(container);
        pod.spec.host_network = self.random.below(2) == 0;
        pod.spec.host_users = [None, Some(false), Some(true)][self.random.below(3) as usize];
        pod.spec.node_name = ["", "node", "elsewhere"][self.random.below(3) as usize].to_owned();
        pod.spec.node_selector = self.selector();
        pod.spec.tolerations = (0..self.random.below(3)).map(|_| self.toleration()).collect();
        let affinity = (self.random.below(3) == 0).then(|| types::views::AffinityView {
            node_affinity: Some(NodeAffinity {
                required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                    node_selector_terms: vec![self.term()],
                }),
                ..NodeAffinity::default()
            }),
            ..types::views::AffinityView::default()
        });
        pod.spec.affinity = affinity.map(Box::new);
        pod
    }

    /// A random selection of the words.
    fn key_values(&self) -> Vec<(String, String)> {
        let usual = [("zone", "a"), ("zone", "b"), ("disk", "1"), ("disk", "2")];
        let all = usual.iter().chain(&self.words).filter(|_| self.random.below(2) == 0);
        all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn selector(&self) -> SmallMap<String> {
        let mut selector = SmallMap::default();
        if self.random.below(4) == 0 {
            selector.insert("zone", "a".to_owned());
        }
        selector
    }

    fn term(&self) -> NodeSelectorTerm {
        let operator = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"][self.random.below(6) as usize];
        NodeSelectorTerm {
            match_expressions: Some(vec![NodeSelectorRequirement {
                key: "disk".to_owned(),
                operator: operator.to_owned(),
                values: (!operator.ends_with("xist") && operator != "Exists").then(|| vec!["1".to_owned()]),
            }]),
            match_fields: None,
        }
    }

    fn taint(&self) -> Taint {
        let effect = ["NoSchedule", "PreferNoSchedule", "NoExecute"][self.random.below(3) as usize];
        Taint { key: "taint".to_owned(), effect: effect.to_owned(), ..Taint::default() }
    }

    fn toleration(&self) -> Toleration {
        let key = ["taint", "node.kubernetes.io/unschedulable", "other"][self.random.below(3) as usize];
        Toleration { key: Some(key.to_owned()), operator: Some("Exists".to_owned()), ..Toleration::default() }
    }
}

/// Features that kubelets declare and pods require.
const FEATURES: [&str; 3] =
    ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "VolumeBindMountOptions"];

const IMAGE: &str = "registry.example.com/image:1";

fn image() -> ImageView {
    ImageView { names: vec![IMAGE.into()], size_bytes: 1 << 30 }
}

const POD_ADDED: &str = "a pod was added to the node";
const POD_REMOVED: &str = "a pod left the node";

fn describe(pod: &PodView) -> String {
    let requests = pod.spec.containers.iter().flat_map(|container| container.resources.requests.keys());
    let requests: Vec<_> = requests.collect();
    let (labels, annotations) = (&pod.metadata.labels, &pod.metadata.annotations);
    format!("a pod with labels {labels:?}, annotations {annotations:?}, requests of {requests:?}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1 as core;

    use super::{DeclarationViolation, check, check_with};
    use crate::plugins::profile::{FilterPlugin, FitArgs, NodeAffinityArgs, PluginArgs};
    use crate::{
        Class, ClusterEvents, Filter, LoadAssumption, NO_LIMIT, NodeRef, NodeRefs, PluginKind, PodSpecFields, Profile,
        ReadSet, Reason,
    };

    #[test]
    fn built_in_filters_do_what_they_declare() {
        let ignoring = FitArgs { ignored_resource_groups: ["example.com".to_owned()].into(), ..FitArgs::default() };
        let requirement = core::NodeSelectorRequirement {
            key: "zone".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec!["a".to_owned()]),
        };
        let term = core::NodeSelectorTerm { match_expressions: Some(vec![requirement]), match_fields: None };
        let added = core::NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(core::NodeSelector {
                node_selector_terms: vec![term],
            }),
            ..core::NodeAffinity::default()
        };
        let with_args = PluginArgs {
            fit: ignoring,
            node_affinity: NodeAffinityArgs { added_affinity: Some(added) },
            ..PluginArgs::default()
        };
        for args in [PluginArgs::default(), with_args] {
            for filter in Profile::default().filters {
                assert_eq!(check_with(&filter, &args, &[], 1, 1000), Ok(()), "{} with {args:?}", filter.name());
            }
        }
    }

    /// A filter that requires a free device for each pod with the annotation, with one wrong declaration.
    #[derive(Debug)]
    enum FaultyFilter {
        None,
        Reads,
        Static,
        Counts,
        Empty,
        Events,
        /// It counts wrongly, but says so.
        Helped,
        NodeAdded,
        Images,
        Features,
        Many,
        Reasons,
    }

    impl Filter for FaultyFilter {
        fn name(&self) -> &str {
            "FaultyFilter"
        }

        fn kind(&self) -> PluginKind {
            if matches!(self, FaultyFilter::Static) { PluginKind::Static } else { PluginKind::Counted }
        }

        fn reads(&self) -> ReadSet {
            let reads = ReadSet::fields(PodSpecFields::NONE);
            if matches!(self, FaultyFilter::Reads) { reads } else { reads.with_annotation("device") }
        }

        fn events_to_register(&self, _: &Class) -> ClusterEvents {
            let events = ClusterEvents::NODE_ALLOCATABLE;
            let events =
                if matches!(self, FaultyFilter::Events) { events } else { events | ClusterEvents::ASSIGNED_POD_DELETE };
            if matches!(self, FaultyFilter::NodeAdded) { events } else { events | ClusterEvents::NODE_ADD }
        }

        fn is_monotone(&self) -> bool {
            !matches!(self, FaultyFilter::Helped)
        }

        fn slots(&self, class: &Class, node: NodeRef<'_>, load: LoadAssumption) -> u32 {
            if class.annotation("device").is_none() {
                return NO_LIMIT;
            }
            let refuses = match self {
                FaultyFilter::Empty => load == LoadAssumption::Empty,
                FaultyFilter::Images => node.info().images.is_empty(),
                FaultyFilter::Features => !node.declares_feature("VolumeBindMountOptions"),
                _ => false,
            };
            if refuses {
                return 0;
            }
            let used = if load == LoadAssumption::Now { node.pods_count() } else { 0 };
            let used = if matches!(self, FaultyFilter::Counts | FaultyFilter::Helped) { -used } else { used };
            u32::try_from(node.allocatable("example.com/device") - used).unwrap_or(0)
        }

        fn limit_slots(&self, class: &Class, nodes: NodeRefs<'_>, load: LoadAssumption, slots: &mut [u32]) {
            let extra = u32::from(matches!(self, FaultyFilter::Many));
            for (node, slots) in nodes.iter().zip(slots) {
                *slots = (*slots).min(self.slots(class, node, load).saturating_add(extra));
            }
        }

        fn reasons(&self, _: &Class, _: NodeRef<'_>, _: u32, report: &mut dyn FnMut(Reason)) {
            if !matches!(self, FaultyFilter::Reasons) {
                report(Reason::new("node(s) had no free device"));
            }
        }
    }

    #[test]
    fn every_wrong_declaration_is_detected() {
        let violation = |filter| check(&FilterPlugin::Custom(Arc::new(filter)), &[("device", "yes")], 1, 1000);
        assert_eq!(violation(FaultyFilter::None), Ok(()));
        assert!(matches!(violation(FaultyFilter::Reads), Err(DeclarationViolation::UndeclaredRead { .. })));
        assert!(matches!(violation(FaultyFilter::Static), Err(DeclarationViolation::NotStatic { .. })));
        assert!(matches!(violation(FaultyFilter::Counts), Err(DeclarationViolation::SlotsIncrease { .. })));
        assert!(matches!(violation(FaultyFilter::Empty), Err(DeclarationViolation::LessWhenEmpty { .. })));
        for (filter, missed) in [
            (FaultyFilter::Events, "left"),
            (FaultyFilter::Helped, "was added to the node"),
            (FaultyFilter::NodeAdded, "was added under"),
            (FaultyFilter::Images, "images"),
            (FaultyFilter::Features, "features"),
        ] {
            let violation = violation(filter);
            let is_missed =
                matches!(&violation, Err(DeclarationViolation::MissedEvent { change, .. }) if change.contains(missed));
            assert!(is_missed, "{violation:?}");
        }
        assert!(matches!(violation(FaultyFilter::Many), Err(DeclarationViolation::InconsistentSlots { .. })));
        assert!(matches!(violation(FaultyFilter::Reasons), Err(DeclarationViolation::MissingReason { .. })));
    }
}

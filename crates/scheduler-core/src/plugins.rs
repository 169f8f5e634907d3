//! A profile made ready: its plugins with their names looked up, in the order they are asked.

use std::sync::Arc;

use crate::classes::{Class, Term};
use crate::cluster::{Cluster, NodeIndex};
use crate::cluster_events::ClusterEvents;
use crate::filters::{self, Filter, LoadAssumption, NO_LIMIT, PluginKind};
use crate::profile::{FilterPlugin, FitArgs, FitStrategy, NodeAffinityArgs, Profile, ScorePlugin};
use crate::reads::ReadSet;
use crate::scores::{self, AllocationStrategy, MAX_SCORE, Score};

/// The filters and scores of one profile.
#[derive(Debug)]
pub(crate) struct Plugins {
    pub(crate) scheduler_name: String,
    /// Static ones first, so that their answer can be kept.
    filters: Vec<Arc<dyn Filter>>,
    static_count: usize,
    pub(crate) scores: Vec<(Arc<dyn Score>, i64)>,
    /// What all of them read.
    pub(crate) reads: ReadSet,
    pub(crate) scheduling_gates: bool,
    /// Whether pods must fit into what their node has, and what then counts.
    fit: Option<filters::NodeResourcesFit>,
}

impl Plugins {
    /// Looks up the names a profile contains.
    pub(crate) fn of(profile: &Profile, cluster: &mut Cluster) -> Plugins {
        let mut filters: Vec<_> = profile.filters.iter().map(|plugin| filter(plugin, cluster)).collect();
        filters.sort_by_key(|filter| filter.kind() != PluginKind::Static);
        let scores = profile.scores.iter().map(|(plugin, weight)| (score(plugin, cluster), *weight));
        let scores: Vec<_> = scores.filter(|(_, weight)| *weight != 0).collect();
        let reads = filters.iter().map(|filter| filter.reads()).chain(scores.iter().map(|(score, _)| score.reads()));
        Plugins {
            scheduler_name: profile.scheduler_name.clone(),
            reads: reads.fold(ReadSet::default(), |all, own| all.union(&own)),
            static_count: filters.iter().filter(|filter| filter.kind() == PluginKind::Static).count(),
            filters,
            scores,
            scheduling_gates: profile.scheduling_gates,
            fit: profile.filters.iter().find_map(fit),
        }
    }

    /// What counts when pods must fit into what their node has; none where they need not.
    pub(crate) fn fit(&self) -> Option<&filters::NodeResourcesFit> {
        self.fit.as_ref()
    }

    /// All filters, in the order they are asked.
    pub(crate) fn filters(&self) -> &[Arc<dyn Filter>] {
        &self.filters
    }

    /// The static filters, each with its place in the list.
    pub(crate) fn static_filters(&self) -> impl Iterator<Item = (usize, &Arc<dyn Filter>)> {
        self.filters[..self.static_count].iter().enumerate()
    }

    /// All other filters, each with its place in the list.
    pub(crate) fn counted_filters(&self) -> impl Iterator<Item = (usize, &Arc<dyn Filter>)> {
        self.filters.iter().enumerate().skip(self.static_count)
    }

    /// Whether requests and host ports are all that can become scarce on a node, as far as the filters know.
    pub(crate) fn counts_only_usage(&self) -> bool {
        self.counted_filters().all(|(_, filter)| matches!(filter.name(), "NodeResourcesFit" | "NodePorts"))
    }

    /// Whether the filter at this place is static.
    pub(crate) fn is_static(&self, at: usize) -> bool {
        at < self.static_count
    }

    /// Which kinds of change can make room for pods of a class.
    pub(crate) fn events_to_register(&self, class: &Class) -> ClusterEvents {
        // A node that is not there refuses, too.
        self.filters.iter().fold(ClusterEvents::NODE_ADD, |wakes, filter| wakes | filter.events_to_register(class))
    }

    /// How many more pods of `class` a node takes, all filters together.
    pub(crate) fn slots(&self, class: &Class, node: NodeIndex, cluster: &Cluster, load: LoadAssumption) -> u32 {
        if !cluster.node(node).present {
            return 0;
        }
        let mut room = NO_LIMIT;
        for filter in &self.filters {
            room = room.min(filter.slots(class, cluster.node_ref(node), load));
            if room == 0 {
                break;
            }
        }
        room
    }
}

fn fit(plugin: &FilterPlugin) -> Option<filters::NodeResourcesFit> {
    match plugin {
        FilterPlugin::NodeResourcesFit(args) => Some(filters::NodeResourcesFit::of(args)),
        _ => None,
    }
}

/// A filter with its names looked up.
pub(crate) fn filter(plugin: &FilterPlugin, cluster: &mut Cluster) -> Arc<dyn Filter> {
    match plugin {
        FilterPlugin::NodeName => Arc::new(filters::NodeName),
        FilterPlugin::NodeUnschedulable => Arc::new(filters::NodeUnschedulable),
        FilterPlugin::TaintToleration => Arc::new(filters::Taints),
        FilterPlugin::NodeAffinity(args) => {
            let required =
                added(args).and_then(|added| added.required_during_scheduling_ignored_during_execution.as_ref());
            let terms = required.map(|any| Term::all_of(&any.node_selector_terms, &mut cluster.names));
            Arc::new(filters::NodeAffinity { added: terms })
        }
        FilterPlugin::NodePorts => Arc::new(filters::HostPorts),
        FilterPlugin::NodeResourcesFit(args) => Arc::new(filters::NodeResourcesFit::of(args)),
        FilterPlugin::Custom(filter) => Arc::clone(filter),
    }
}

fn score(plugin: &ScorePlugin, cluster: &mut Cluster) -> Arc<dyn Score> {
    match plugin {
        ScorePlugin::TaintToleration => Arc::new(scores::SoftTaints),
        ScorePlugin::NodeAffinity(args) => {
            let preferred =
                added(args).and_then(|added| added.preferred_during_scheduling_ignored_during_execution.as_ref());
            let wishes = preferred.map(|wishes| Term::weighted(wishes, &mut cluster.names));
            Arc::new(scores::PreferredNodes { added: wishes.unwrap_or_default() })
        }
        ScorePlugin::NodeResourcesFit(args) => Arc::new(allocation(args, cluster)),
        ScorePlugin::NodeResourcesBalancedAllocation(args) => Arc::new(scores::BalancedAllocation {
            resources: args.resources.iter().map(|name| cluster.resource(name)).collect(),
        }),
        ScorePlugin::ImageLocality => Arc::new(scores::ImageLocality),
        ScorePlugin::Custom(score) => Arc::clone(score),
    }
}

fn added(args: &NodeAffinityArgs) -> Option<&k8s_openapi::api::core::v1::NodeAffinity> {
    args.added_affinity.as_ref()
}

fn allocation(args: &FitArgs, cluster: &mut Cluster) -> scores::Allocation {
    // The file's scale ends at 10.
    let points = |(percent, score): &(i64, i64)| (*percent, score * MAX_SCORE / 10);
    scores::Allocation {
        strategy: match &args.strategy {
            FitStrategy::LeastAllocated => AllocationStrategy::Least,
            FitStrategy::MostAllocated => AllocationStrategy::Most,
            FitStrategy::RequestedToCapacityRatio(line) => AllocationStrategy::Line(line.iter().map(points).collect()),
        },
        resources: args.resources.iter().map(|(name, weight)| (cluster.resource(name), *weight)).collect(),
    }
}

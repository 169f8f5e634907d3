//! A profile prepared for use: its plugins with interned names, in the order they are applied.

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
    /// Static ones first, so that their result can be cached.
    filters: Vec<Arc<dyn Filter>>,
    static_count: usize,
    pub(crate) scores: Vec<(Arc<dyn Score>, i64)>,
    /// What all of them read.
    pub(crate) reads: ReadSet,
    pub(crate) scheduling_gates: bool,
    /// The resource filter of the profile, if it has one.
    fit: Option<filters::NodeResourcesFit>,
}

impl Plugins {
    /// Interns the names in a profile.
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

    /// The resource filter; none if pods need not fit into their node's resources.
    pub(crate) fn fit(&self) -> Option<&filters::NodeResourcesFit> {
        self.fit.as_ref()
    }

    /// All filters, in the order they are applied.
    pub(crate) fn filters(&self) -> &[Arc<dyn Filter>] {
        &self.filters
    }

    /// The static filters, each with its position in the list.
    pub(crate) fn static_filters(&self) -> impl Iterator<Item = (usize, &Arc<dyn Filter>)> {
        self.filters[..self.static_count].iter().enumerate()
    }

    /// All other filters, each with its position in the list.
    pub(crate) fn counted_filters(&self) -> impl Iterator<Item = (usize, &Arc<dyn Filter>)> {
        self.filters.iter().enumerate().skip(self.static_count)
    }

    /// Whether the filters count only requests and host ports.
    pub(crate) fn counts_only_usage(&self) -> bool {
        self.counted_filters().all(|(_, filter)| matches!(filter.name(), "NodeResourcesFit" | "NodePorts"))
    }

    /// Whether the filter at this position is static.
    pub(crate) fn is_static(&self, at: usize) -> bool {
        at < self.static_count
    }

    /// Which cluster events can free capacity for pods of a class.
    pub(crate) fn events_to_register(&self, class: &Class) -> ClusterEvents {
        // An absent node refuses, too.
        self.filters.iter().fold(ClusterEvents::NODE_ADD, |events, filter| events | filter.events_to_register(class))
    }

    /// How many more pods of `class` fit on a node, by all filters together.
    pub(crate) fn slots(&self, class: &Class, node: NodeIndex, cluster: &Cluster, load: LoadAssumption) -> u32 {
        if !cluster.node(node).present {
            return 0;
        }
        let mut slots = NO_LIMIT;
        for filter in &self.filters {
            slots = slots.min(filter.slots(class, cluster.node_ref(node), load));
            if slots == 0 {
                break;
            }
        }
        slots
    }
}

fn fit(plugin: &FilterPlugin) -> Option<filters::NodeResourcesFit> {
    match plugin {
        FilterPlugin::NodeResourcesFit(args) => Some(filters::NodeResourcesFit::of(args)),
        _ => None,
    }
}

/// A filter with interned names.
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
            let terms = preferred.map(|terms| Term::weighted(terms, &mut cluster.names));
            Arc::new(scores::PreferredNodes { added: terms.unwrap_or_default() })
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
    // Scores in the configuration are from 0 to 10.
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

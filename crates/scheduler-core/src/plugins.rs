//! Filters and scores: which nodes a pod may use, and which it prefers.
//!
//! In: a [`Profile`], a class and a node. Out: how many pods of the class fit on the node, the reason of a "no", and
//! the points of the node. [`Plugins`] is a profile prepared for use: its plugins with interned names, in the order
//! they are applied.
//!
//! What holds: a plugin reads only what it declares, and its "no" becomes a "yes" only with a cluster event that it
//! declares. Classes, indexes and wake-ups rely on that; `declarations::check` checks it.

pub(crate) mod filters; // how many pods of a class fit on a node
pub(crate) mod scores; // which of those nodes are preferred
pub(crate) mod class_fields; // what plugins read, with names as text
pub(crate) mod id; // the names of all plugins
pub mod profile; // which filters and scores apply to a pod
pub mod declarations; // checks what a filter declares against what it does

use std::sync::Arc;

use crate::cluster::{Cluster, NodeIndex};
use crate::demand::classes::Class;
use crate::demand::reads::ReadSet;
use crate::plugins::filters::{Filter, LoadAssumption, NO_LIMIT, NodeResourcesFit, PluginKind};
use crate::plugins::id::PluginId;
use crate::plugins::profile::Profile;
use crate::plugins::scores::Score;
use crate::queue::cluster_events::ClusterEvents;

/// The filters and scores of one profile.
#[derive(Debug)]
pub(crate) struct Plugins {
    pub(crate) scheduler_name: String,
    /// Static ones first, so that their result can be cached.
    filters: Vec<Arc<dyn Filter>>,
    /// The id of each filter.
    filter_ids: Vec<PluginId>,
    static_count: usize,
    /// Whether all others count only requests, host ports and the number of pods.
    counts_only_usage: bool,
    is_monotone: bool,
    pub(crate) scores: Vec<(Arc<dyn Score>, i64)>,
    /// What all of them read.
    pub(crate) reads: ReadSet,
    pub(crate) scheduling_gates: bool,
    /// The resource filter of the profile, if it has one.
    fit: Option<NodeResourcesFit>,
}

impl Plugins {
    /// Interns the names in a profile.
    pub(crate) fn of(profile: &Profile, cluster: &mut Cluster) -> Plugins {
        let prepared = profile.filters.iter().map(|plugin| (plugin, plugin.prepare(&profile.args, cluster)));
        let mut prepared: Vec<_> = prepared.collect();
        prepared.sort_by_key(|(_, filter)| filter.kind() != PluginKind::Static);
        let mut counted = prepared.iter().filter(|(_, filter)| filter.kind() != PluginKind::Static);
        let counts_only_usage = counted.all(|(plugin, _)| plugin.counts_usage());
        let filter_ids = prepared.iter().map(|(plugin, _)| plugin.id()).collect();
        let filters: Vec<_> = prepared.into_iter().map(|(_, filter)| filter).collect();
        filters.iter().flat_map(|filter| filter.counters()).for_each(|counter| cluster.register_counter(counter));
        let scores = profile.scores.iter().map(|(plugin, weight)| (plugin.prepare(&profile.args, cluster), *weight));
        let scores: Vec<_> = scores.filter(|(_, weight)| *weight != 0).collect();
        let reads = filters.iter().map(|filter| filter.reads()).chain(scores.iter().map(|(score, _)| score.reads()));
        let has_fit = profile.filters.iter().any(|plugin| plugin.is_resource_filter());
        Plugins {
            scheduler_name: profile.scheduler_name.clone(),
            reads: reads.fold(ReadSet::default(), |all, own| all.union(&own)),
            static_count: filters.iter().filter(|filter| filter.kind() == PluginKind::Static).count(),
            counts_only_usage,
            is_monotone: filters.iter().all(|filter| filter.is_monotone()),
            filters,
            filter_ids,
            scores,
            scheduling_gates: profile.scheduling_gates,
            fit: has_fit.then(|| NodeResourcesFit::of(&profile.args.fit)),
        }
    }

    /// The resource filter; none if pods need not fit into their node's resources.
    pub(crate) fn fit(&self) -> Option<&NodeResourcesFit> {
        self.fit.as_ref()
    }

    /// All filters, in the order they are applied.
    pub(crate) fn filters(&self) -> &[Arc<dyn Filter>] {
        &self.filters
    }

    /// The id of the filter at this position.
    pub(crate) fn filter_id(&self, at: usize) -> &PluginId {
        &self.filter_ids[at]
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
        self.counts_only_usage
    }

    /// Whether more pods on a node never give it more slots.
    pub(crate) fn is_monotone(&self) -> bool {
        self.is_monotone
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

//! The filters and scores for the pods of one `schedulerName`: a plain value.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use thiserror::Error;

use crate::cluster::Cluster;
use crate::plugins::filters::{BUILT_IN_FILTERS, BuiltInFilter, Filter, PluginKind};
use crate::plugins::id::PluginId;
use crate::plugins::scores::{BUILT_IN_SCORES, BuiltInScore, Score};

/// The filters and scores for the pods of one `schedulerName`. The default is kube-scheduler's, as far as its plugins
/// exist here.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The `schedulerName` of its pods.
    pub scheduler_name: String,
    /// Filters, in the order they are applied; the first that refuses a node gives the reason. Static ones are
    /// applied before all others.
    pub filters: Vec<FilterPlugin>,
    /// Scores with their weights.
    pub scores: Vec<(ScorePlugin, i64)>,
    /// Arguments of the built-in filters and scores.
    pub args: PluginArgs,
    /// Whether pods wait while they have scheduling gates (the plugin SchedulingGates).
    pub scheduling_gates: bool,
}

/// A filter of a profile.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FilterPlugin {
    /// A line of [`BUILT_IN_FILTERS`].
    BuiltIn(&'static BuiltInFilter),
    /// A custom filter.
    Custom(Arc<dyn Filter>),
}

/// A score of a profile.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ScorePlugin {
    /// A line of [`BUILT_IN_SCORES`].
    BuiltIn(&'static BuiltInScore),
    /// A custom score.
    Custom(Arc<dyn Score>),
}

/// The arguments of all built-in plugins that take some.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginArgs {
    /// Of the filter and the score NodeResourcesFit.
    pub fit: FitArgs,
    /// Of the score NodeResourcesBalancedAllocation.
    pub balance: BalanceArgs,
    /// Of the filter and the score NodeAffinity.
    pub node_affinity: NodeAffinityArgs,
}

/// Arguments of NodeAffinity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeAffinityArgs {
    /// Applies to every pod of the profile, in addition to its own affinity.
    pub added_affinity: Option<core::NodeAffinity>,
}

/// Arguments of NodeResourcesFit.
#[derive(Clone, Debug, PartialEq)]
pub struct FitArgs {
    /// Extended resources that the filter ignores.
    pub ignored_resources: BTreeSet<String>,
    /// The same by the group: the part of the name before the slash.
    pub ignored_resource_groups: BTreeSet<String>,
    /// How nodes are scored.
    pub strategy: FitStrategy,
    /// The scored resources, with weights.
    pub resources: Vec<(String, i64)>,
}

/// How NodeResourcesFit scores.
#[derive(Clone, Debug, PartialEq)]
pub enum FitStrategy {
    /// Prefers nodes with the most left.
    LeastAllocated,
    /// Prefers nodes with the least left.
    MostAllocated,
    /// Along a curve: used percent (0 to 100, rising), and a score from 0 to 10.
    RequestedToCapacityRatio(Vec<(i64, i64)>),
}

/// Arguments of NodeResourcesBalancedAllocation.
#[derive(Clone, Debug, PartialEq)]
pub struct BalanceArgs {
    /// The resources whose used shares are balanced.
    pub resources: Vec<String>,
}

/// Two custom filters are equal when they are the same object.
impl PartialEq for FilterPlugin {
    fn eq(&self, other: &FilterPlugin) -> bool {
        match (self, other) {
            (FilterPlugin::BuiltIn(ours), FilterPlugin::BuiltIn(theirs)) => ours.id == theirs.id,
            (FilterPlugin::Custom(ours), FilterPlugin::Custom(theirs)) => Arc::ptr_eq(ours, theirs),
            _ => false,
        }
    }
}

/// Two custom scores are equal when they are the same object.
impl PartialEq for ScorePlugin {
    fn eq(&self, other: &ScorePlugin) -> bool {
        match (self, other) {
            (ScorePlugin::BuiltIn(ours), ScorePlugin::BuiltIn(theirs)) => ours.id == theirs.id,
            (ScorePlugin::Custom(ours), ScorePlugin::Custom(theirs)) => Arc::ptr_eq(ours, theirs),
            _ => false,
        }
    }
}

impl Default for FitArgs {
    fn default() -> FitArgs {
        FitArgs {
            ignored_resources: BTreeSet::new(),
            ignored_resource_groups: BTreeSet::new(),
            strategy: FitStrategy::LeastAllocated,
            resources: vec![("cpu".to_owned(), 1), ("memory".to_owned(), 1)],
        }
    }
}

impl Default for BalanceArgs {
    fn default() -> BalanceArgs {
        BalanceArgs { resources: vec!["cpu".to_owned(), "memory".to_owned()] }
    }
}

impl Default for Profile {
    fn default() -> Profile {
        Profile {
            scheduler_name: "default-scheduler".to_owned(),
            filters: BUILT_IN_FILTERS.iter().map(FilterPlugin::BuiltIn).collect(),
            scores: BUILT_IN_SCORES.iter().map(|score| (ScorePlugin::BuiltIn(score), score.default_weight)).collect(),
            args: PluginArgs::default(),
            scheduling_gates: true,
        }
    }
}

/// A plugin of a kind that is not supported yet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{name}: {kind:?} plugins are not supported yet; only Static and Counted ones are")]
pub struct UnsupportedPluginKind {
    /// The plugin.
    pub name: String,
    /// Its kind.
    pub kind: PluginKind,
}

impl FilterPlugin {
    /// Its name in configuration and explanations.
    pub fn name(&self) -> &str {
        match self {
            FilterPlugin::BuiltIn(filter) => filter.id.name(),
            FilterPlugin::Custom(filter) => filter.name(),
        }
    }

    /// Its id.
    pub(crate) fn id(&self) -> PluginId {
        match self {
            FilterPlugin::BuiltIn(filter) => filter.id.clone(),
            FilterPlugin::Custom(filter) => PluginId::new(filter.name().to_owned()),
        }
    }

    /// Whether it is the built-in filter for requests.
    pub(crate) fn is_resource_filter(&self) -> bool {
        matches!(self, FilterPlugin::BuiltIn(filter) if filter.id == PluginId::NODE_RESOURCES_FIT)
    }

    /// Whether its slots follow from requests, host ports and the number of pods alone.
    pub(crate) fn counts_usage(&self) -> bool {
        matches!(self, FilterPlugin::BuiltIn(filter) if filter.counts_usage)
    }

    /// The filter with interned names.
    pub(crate) fn prepare(&self, args: &PluginArgs, cluster: &mut Cluster) -> Arc<dyn Filter> {
        match self {
            FilterPlugin::BuiltIn(filter) => (filter.new)(args, cluster),
            FilterPlugin::Custom(filter) => Arc::clone(filter),
        }
    }
}

impl ScorePlugin {
    /// Its name in configuration and explanations.
    pub fn name(&self) -> &str {
        match self {
            ScorePlugin::BuiltIn(score) => score.id.name(),
            ScorePlugin::Custom(score) => score.name(),
        }
    }

    /// The score with interned names.
    pub(crate) fn prepare(&self, args: &PluginArgs, cluster: &mut Cluster) -> Arc<dyn Score> {
        match self {
            ScorePlugin::BuiltIn(score) => (score.new)(args, cluster),
            ScorePlugin::Custom(score) => Arc::clone(score),
        }
    }
}

impl Profile {
    /// The default filters and scores for pods of this `schedulerName`.
    pub fn named(scheduler_name: &str) -> Profile {
        Profile { scheduler_name: scheduler_name.to_owned(), ..Profile::default() }
    }

    /// Adds a custom filter, which is applied after the others of its kind.
    pub fn with_filter(mut self, filter: Arc<dyn Filter>) -> Result<Profile, UnsupportedPluginKind> {
        check_kind(filter.name(), filter.kind())?;
        self.filters.push(FilterPlugin::Custom(filter));
        Ok(self)
    }

    /// Adds a custom score.
    pub fn with_score(mut self, score: Arc<dyn Score>, weight: i64) -> Result<Profile, UnsupportedPluginKind> {
        check_kind(score.name(), score.kind())?;
        self.scores.push((ScorePlugin::Custom(score), weight));
        Ok(self)
    }
}

fn check_kind(name: &str, kind: PluginKind) -> Result<(), UnsupportedPluginKind> {
    match kind {
        PluginKind::Static | PluginKind::Counted => Ok(()),
        PluginKind::Coupled | PluginKind::Global => Err(UnsupportedPluginKind { name: name.to_owned(), kind }),
    }
}

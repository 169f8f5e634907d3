//! The filters and scores for the pods of one `schedulerName`: a plain value.

use std::collections::BTreeSet;
use std::mem::discriminant;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use thiserror::Error;

use crate::filters::{Filter, PluginKind};
use crate::scores::Score;

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
    /// Whether pods wait while they have scheduling gates (the plugin SchedulingGates).
    pub scheduling_gates: bool,
}

/// A filter of a profile.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FilterPlugin {
    /// A pod that names its node fits only there.
    NodeName,
    /// No pods fit on cordoned nodes.
    NodeUnschedulable,
    /// Only pods that tolerate a node's taints fit on it.
    TaintToleration,
    /// Node selector and required node affinity.
    NodeAffinity(NodeAffinityArgs),
    /// Host ports.
    NodePorts,
    /// Requests, and the number of pods.
    NodeResourcesFit(FitArgs),
    /// A custom filter.
    Custom(Arc<dyn Filter>),
}

/// A score of a profile.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ScorePlugin {
    /// Prefers fewer untolerated soft taints.
    TaintToleration,
    /// Preferred node affinity.
    NodeAffinity(NodeAffinityArgs),
    /// Prefers less usage, or more, or along a curve.
    NodeResourcesFit(FitArgs),
    /// Prefers balanced usage of resources.
    NodeResourcesBalancedAllocation(BalanceArgs),
    /// Prefers nodes that already have the images.
    ImageLocality,
    /// A custom score.
    Custom(Arc<dyn Score>),
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
            (FilterPlugin::NodeAffinity(ours), FilterPlugin::NodeAffinity(theirs)) => ours == theirs,
            (FilterPlugin::NodeResourcesFit(ours), FilterPlugin::NodeResourcesFit(theirs)) => ours == theirs,
            (FilterPlugin::Custom(ours), FilterPlugin::Custom(theirs)) => Arc::ptr_eq(ours, theirs),
            _ => discriminant(self) == discriminant(other),
        }
    }
}

/// Two custom scores are equal when they are the same object.
impl PartialEq for ScorePlugin {
    fn eq(&self, other: &ScorePlugin) -> bool {
        match (self, other) {
            (ScorePlugin::NodeAffinity(ours), ScorePlugin::NodeAffinity(theirs)) => ours == theirs,
            (ScorePlugin::NodeResourcesFit(ours), ScorePlugin::NodeResourcesFit(theirs)) => ours == theirs,
            (
                ScorePlugin::NodeResourcesBalancedAllocation(ours),
                ScorePlugin::NodeResourcesBalancedAllocation(theirs),
            ) => ours == theirs,
            (ScorePlugin::Custom(ours), ScorePlugin::Custom(theirs)) => Arc::ptr_eq(ours, theirs),
            _ => discriminant(self) == discriminant(other),
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
            filters: vec![
                FilterPlugin::NodeName,
                FilterPlugin::NodeUnschedulable,
                FilterPlugin::TaintToleration,
                FilterPlugin::NodeAffinity(NodeAffinityArgs::default()),
                FilterPlugin::NodePorts,
                FilterPlugin::NodeResourcesFit(FitArgs::default()),
            ],
            scores: vec![
                (ScorePlugin::TaintToleration, 3),
                (ScorePlugin::NodeAffinity(NodeAffinityArgs::default()), 2),
                (ScorePlugin::NodeResourcesFit(FitArgs::default()), 1),
                (ScorePlugin::NodeResourcesBalancedAllocation(BalanceArgs::default()), 1),
                (ScorePlugin::ImageLocality, 1),
            ],
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
            FilterPlugin::NodeName => "NodeName",
            FilterPlugin::NodeUnschedulable => "NodeUnschedulable",
            FilterPlugin::TaintToleration => "TaintToleration",
            FilterPlugin::NodeAffinity(_) => "NodeAffinity",
            FilterPlugin::NodePorts => "NodePorts",
            FilterPlugin::NodeResourcesFit(_) => "NodeResourcesFit",
            FilterPlugin::Custom(filter) => filter.name(),
        }
    }
}

impl ScorePlugin {
    /// Its name in configuration and explanations.
    pub fn name(&self) -> &str {
        match self {
            ScorePlugin::TaintToleration => "TaintToleration",
            ScorePlugin::NodeAffinity(_) => "NodeAffinity",
            ScorePlugin::NodeResourcesFit(_) => "NodeResourcesFit",
            ScorePlugin::NodeResourcesBalancedAllocation(_) => "NodeResourcesBalancedAllocation",
            ScorePlugin::ImageLocality => "ImageLocality",
            ScorePlugin::Custom(score) => score.name(),
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

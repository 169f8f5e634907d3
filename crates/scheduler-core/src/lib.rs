//! Decides on which nodes the pods of a group run.
//!
//! In: changes of pods, nodes and PodGroups (`observe`), the time (`next`), results of binds (`settled`).
//! Out: one [`Decision`] at a time: bind these pods to these nodes, wait with a refusal, or release pods of a
//! half-bound gang or of an over-committed node.
//! Promises: same input, same output. A decision brings a gang to its `minCount` or binds none of its pods. No
//! decision over-commits a node. All pods of a group with a topology key are placed in one domain of that key.
//! Never: reads a clock, talks to the API server, spawns a task.
//!
//! Of nodes with equal score, the one observed first wins. Of equal domains, the one with the smaller value wins.

pub mod decision; // the types of inputs and outputs
mod core; // the state machine: observe, next, settled
mod cycle; // one decision from start to end; read this next
mod queue; // which unit is decided next, and which changes wake a waiting one
mod demand; // pods become classes, groups are tracked, a unit becomes one demand
mod cluster; // the cluster in memory, kept up to date
pub mod survey; // the verdict of every filter and score for one pod
mod plugins; // which nodes a pod may use, and which it prefers
mod index; // where a class fits, kept up to date
mod placement; // where the pods of a unit go: domains ranked, pods placed, search
mod release; // pods that must leave: half-placed gangs, over-committed nodes
mod reservation; // which nodes to reserve for a starved group
mod reasons; // counts refusing filters
pub mod refusal; // why a unit does not fit, and its message
pub mod remedies; // changes that would let a unit fit, and their text
mod remedy_search; // searches for remedies
pub mod placement_report; // why pods are on their nodes
pub mod explanation; // everything the core reports about a unit, and the queue
#[cfg(test)]
mod tests;

pub use self::core::Core;
pub use cluster::{NodeRef, NodeRefs};
pub use decision::{
    BindOutcome, ChosenDomain, ClusterChange, Config, Decision, DecisionAction, NewRun, Placement, PodRef,
    PriorityMismatch, Release, ReleaseReason, Unit, UnsupportedTerms,
};
pub use demand::classes::Class;
pub use demand::pods::ExclusionReason;
pub use demand::reads::{InferredValue, PodSpecFields, ReadSet};
pub use explanation::{QueueStatus, QueuedUnit, UnitExplanation};
pub use placement_report::{DomainChoice, NodeChoice, PlacementReport};
pub use plugins::filters::{BUILT_IN_FILTERS, BuiltInFilter, Filter, LoadAssumption, NO_LIMIT, PluginKind, Reason};
pub use plugins::profile::Profile;
pub use plugins::scores::{AllNodes, BUILT_IN_SCORES, BuiltInScore, MAX_SCORE, Score, ScoreNormalization};
pub use plugins::{declarations, profile};
pub use queue::cluster_events::ClusterEvents;
pub use queue::counts::{IncomingCounts, QueueEvent, SubQueue, SubQueueCounts};
pub use refusal::{DomainReport, ExcludedCounts, Histogram, NearestDomain, Refusal, RefusalCause};
pub use release::overcommit::Overcommit;
pub use remedies::{Blocker, Remedy, RemedyReport, RemedyStatus, ResourceShortfall, RootOwner};
pub use survey::Survey;

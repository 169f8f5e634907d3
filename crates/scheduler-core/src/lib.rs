//! Decides on which nodes the pods of a group run.
//!
//! In: changes of pods, nodes and PodGroups (`observe`), the time (`next`), results of binds (`settled`).
//! Out: one [`Decision`] at a time: bind these pods to these nodes, wait with a refusal, or release pods of a
//! half-bound gang or of an over-committed node.
//! Promises: same input, same output. A decision brings a gang to its `minCount` or binds none of its pods. No
//! decision over-commits a node. All pods of a group with a topology key are placed in one domain of that key.
//! Never: reads a clock, talks to the API server, spawns a task.
//!
//! A folder is a step of the walk, and the list of modules is its order. The file beside a folder says what comes in,
//! what goes out and what holds.
//!
//! Of nodes with equal score, the one observed first wins. Of equal domains, the one with the smaller value wins.
#![doc = concat!("\n\n", include_str!("../README.md"))]

pub mod decision; // the types of inputs and outputs
mod core; // the state machine: observe, next, settled; read this next
mod demand; // pods become classes, members are counted by group, a unit becomes one demand
mod queue; // which unit is decided next, and which changes wake a waiting one
mod cluster; // nodes and what their pods use, kept up to date
mod plugins; // filters and scores: which nodes a pod may use, and which it prefers
mod index; // where a class fits, kept up to date
mod cycle; // one decision from start to end
mod placement; // its steps: domains ranked, pods placed, complete search
mod reservation; // room reserved for starved units
mod release; // which pods leave again: half-placed gangs, over-committed nodes
mod explain; // why a unit waits, what would help, why pods are where they are
#[cfg(test)]
mod tests;

pub use types;

pub use self::core::Core;
pub use cluster::{Effect as TaintEffect, NodeRef, NodeRefs, PodCounter};
pub use decision::{
    BindOutcome, ChosenDomain, ClusterChange, Config, Decision, DecisionAction, NewRun, Placement, PodRef,
    PriorityMismatch, Release, ReleaseReason, Unit, UnsupportedTerms,
};
pub use demand::classes::{Class, Operator as RequirementOperator, TolerationOperator};
pub use demand::pods::ExclusionReason;
pub use demand::reads::{InferredValue, PodSpecFields, ReadSet};
pub use explain::explanation::{QueueStatus, QueuedUnit, ReservationReport, UnitExplanation};
pub use explain::fork::Fork;
pub use explain::placement_report::{DomainChoice, NextDomain, NodeChoice, PlacementReport};
pub use explain::refusal::{
    DomainReport, ExcludedCounts, Histogram, NearestDomain, Refusal, RefusalCause, RefusalReason,
};
pub use explain::remedies::{Blocker, Remedy, RemedyReport, RemedyStatus, ResourceShortfall, RootOwner};
pub use explain::survey::Survey;
pub use explain::task::{ExplainTask, QueueTask, RecordedReport, RemedyResult, RemedyTask, ReportTask};
pub use explain::{explanation, placement_report, refusal, remedies, survey};
pub use plugins::class_fields::{ClassFields, HostPortRef, RequirementRef, TaintRef, TermRef, TolerationRef};
pub use plugins::filters::{BUILT_IN_FILTERS, BuiltInFilter, Filter, LoadAssumption, NO_LIMIT, PluginKind, Reason};
pub use plugins::id::PluginId;
pub use plugins::profile::Profile;
pub use plugins::scores::{AllNodes, BUILT_IN_SCORES, BuiltInScore, MAX_SCORE, Score, ScoreNormalization};
pub use plugins::{declarations, profile};
pub use queue::cluster_events::ClusterEvents;
pub use queue::counts::{IncomingCounts, QueueEvent, SubQueue, SubQueueCounts};
pub use queue::listing::UnitWait;
pub use release::overcommit::Overcommit;

//! Decides where the pods of a group go.
//!
//! In: changes of pods, nodes and PodGroups (`observe`), the time (`next`), what became of a bind (`settled`).
//! Out: one [`Decision`] at a time: bind these pods to these nodes, or wait, with reasons, or release pods of a gang
//! that was left half bound, or of a node that was given too many.
//! Promises: same input, same output. A decision brings a gang to its `minCount` or binds none of it. No node is
//! over-committed by a decision. All pods of a group with a topology key go to one domain of that key.
//! Never: reads a clock, talks to the API server, spawns a task.
//!
//! Ties between nodes of equal score go to the node that was seen first; ties between domains to the smaller value.

pub mod decision; // the words of this room: what comes in, what goes out
pub mod state; // the state machine: observe, next, settled
mod cycle; // one decision from start to end; read this next
mod queue; // who is next
mod groups; // groups and who belongs to them
mod pods; // pods as the core keeps them, and where each one stands
mod demand; // what a unit asks for: classes, counts, domain
mod cluster; // what the cluster looks like, kept up to date
pub mod declarations; // holds what a filter declares against what it does
pub mod survey; // what every filter and score says, for one pod
pub mod profile; // which filters and scores judge a pod
mod plugins; // a profile made ready
mod classes; // pods that are alike
mod reads; // what filters and scores read of a pod
mod cluster_events; // what can turn a "no" into "yes"
mod requests; // what one pod takes from its node
mod filters; // where a class may go, and how often
mod scores; // where it had better go
mod index; // where a class fits, kept up to date
mod tournament; // the best of many, again and again
mod slots; // how many fit, per topology domain
mod place; // puts a group's pods on nodes, tentatively
mod search; // pods of several classes: finds a way where there is one
mod overcommit; // who has to leave a node that was given too many
mod timers; // things to look at again after a while
mod reservation; // which nodes to keep free for a group that is passed over
mod reasons; // counts who refused
pub mod refusal; // a "no", and its words
pub mod remedies; // what would turn it into a yes, in words
mod remedy_search; // looks for ways out
mod removal_overlay; // a cluster without some of its pods
pub mod placement_report; // why pods are where they are
pub mod explanation; // all that can be said about a unit, and the queue
mod names; // strings as numbers
mod compact_timestamp; // times in little room

#[cfg(test)]
mod tests;

pub use classes::Class;
pub use cluster::{NodeRef, NodeRefs};
pub use cluster_events::ClusterEvents;
pub use decision::{
    BindOutcome, ChosenDomain, ClusterChange, Config, Decision, DecisionAction, NewRun, Placement, PodRef,
    PriorityMismatch, Release, ReleaseReason, Unit, UnsupportedTerms,
};
pub use explanation::{QueueStatus, QueuedUnit, UnitExplanation};
pub use filters::{Filter, LoadAssumption, NO_LIMIT, PluginKind, Reason};
pub use overcommit::Overcommit;
pub use placement_report::{DomainChoice, NodeChoice, PlacementReport};
pub use pods::ExclusionReason;
pub use profile::Profile;
pub use queue::counts::{IncomingCounts, QueueEvent, SubQueue, SubQueueCounts};
pub use reads::{PodSpecFields, ReadSet};
pub use refusal::{DomainReport, ExcludedCounts, Histogram, NearestDomain, Refusal, RefusalCause};
pub use remedies::{Blocker, Remedy, RemedyReport, RemedyStatus, ResourceShortfall, RootOwner};
pub use scores::{AllNodes, MAX_SCORE, Score, ScoreNormalization};
pub use state::Core;
pub use survey::Survey;

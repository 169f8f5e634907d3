//! Reports, texts and remedies: why a unit waits, what would help, and why pods are on their nodes.
//!
//! In: a refusal or a placement, the cluster and the classes. Out: counts per refusing filter, messages, remedies, and
//! the answers to queries. Queries and searches for remedies run on a [`fork::Fork`]; `core/explain.rs` and
//! `core/remedies.rs` make the tasks for it.
//!
//! What holds: nothing here changes the core. What is tried on a cluster is undone. A remedy is valid for the moment
//! of its fork; other work may take the capacity first.

pub(crate) mod reasons; // counts refusing filters
pub mod refusal; // why a unit does not fit, and its message
pub mod remedies; // changes that would let a unit fit, and their text
pub(crate) mod remedy_search; // searches for remedies
pub(crate) mod remedy_schedule; // for which groups a search is due
pub mod placement_report; // why pods are on their nodes
pub(crate) mod report_cache; // the reports of recently placed units
pub mod task; // what a fork is asked, and what it answers
pub mod fork; // a copy of what explanations read
pub mod explanation; // everything the core reports about a unit, and the queue
pub mod survey; // the verdict of every filter and score for one pod

//! Reports, texts and remedies: why a unit waits, what would help, and why pods are on their nodes.
//!
//! In: a refusal or a placement, the cluster and the classes. Out: counts per refusing filter, messages, remedies, and
//! the answers to queries. `core/remedies.rs` and `core/explain.rs` call these steps.
//!
//! What holds: nothing here changes the cluster. What is tried on it is undone. A remedy is valid when it is reported;
//! other work may take the capacity first.

pub(crate) mod reasons; // counts refusing filters
pub mod refusal; // why a unit does not fit, and its message
pub mod remedies; // changes that would let a unit fit, and their text
pub(crate) mod remedy_search; // searches for remedies
pub(crate) mod remedy_schedule; // for which groups a search is due
pub mod placement_report; // why pods are on their nodes
pub(crate) mod report_cache; // the reports of recently placed units
pub mod explanation; // everything the core reports about a unit, and the queue
pub mod survey; // the verdict of every filter and score for one pod

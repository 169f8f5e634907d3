//! What may be written in the scheduling group, and what may change.
//!
//! Errors come in the order in which an API server reports them: the rules written by hand first, then those that the
//! types declare, a struct's own before its fields'. On an update nothing is judged again that has not changed.

pub mod workload; // trees of templates
pub mod pod_group; // groups and their status
pub mod composite_pod_group; // groups of groups and their status
pub mod priority_class;
mod group; // what groups and templates of groups have in common
pub(crate) mod conditions; // conditions in a status

pub use conditions::with_transition_times;

/// The highest priority a user may give.
pub const MAX_USER_PRIORITY: i32 = 1_000_000_000;

#[cfg(test)]
mod tests;

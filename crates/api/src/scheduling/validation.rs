//! Validation of the scheduling group, at creation and update.
//!
//! Errors have the order of the API server: handwritten rules first, then those that the types declare, a struct's own
//! before those of its fields. An update does not validate unchanged fields again.

pub mod workload; // trees of templates
pub mod pod_group; // groups and their status
pub mod composite_pod_group; // groups of groups and their status
pub mod priority_class;
mod group; // rules that groups and templates share
pub(crate) mod conditions; // conditions in a status

pub use conditions::with_transition_times;

/// The highest priority of users' classes.
pub const MAX_USER_PRIORITY: i32 = 1_000_000_000;

#[cfg(test)]
mod tests;

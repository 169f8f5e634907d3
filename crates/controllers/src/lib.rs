//! Controllers: Jobs, CronJobs, garbage collection, disruption budgets, PodGroup protection, namespaces.
//!
//! In: the shared caches, a client, a clock, settings.
//! Out: one future per controller, which runs forever.
//! Promises: each controller is observe, decide, execute; all state is in the API, so a restart resumes.
//! Never: decides inside I/O.

pub mod job; // Jobs: scheduling objects, pods, counts
pub mod cronjob; // CronJobs: Jobs at given times
pub mod ttl; // deletes Jobs some time after their end
pub mod gc; // deletes objects whose owners are gone
pub mod podgc; // deletes pods that no other controller deletes
pub mod disruption; // how many pods of a budget may be evicted
pub mod podgroup_protection; // keeps deleted PodGroups while live pods name them
pub mod namespace; // empties deleted namespaces
mod finalizer; // removes a finalizer
pub mod metrics; // metrics of all controllers

pub use metrics::Metrics;

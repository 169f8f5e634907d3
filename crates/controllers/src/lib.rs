//! Control loops that turn what users ask for into objects, and clean up after them.
//!
//! In: the shared caches, a client, a clock, settings.
//! Out: one future per controller, which runs for ever.
//! Promises: each controller is `observe`, `next_step`, `carry_out`; all state is in the API, so a restart resumes.
//! Never: decides inside I/O.

pub mod job; // Jobs: scheduling objects, pods, counts
pub mod cronjob; // CronJobs: Jobs at given times
pub mod ttl; // Jobs that ended long enough ago
pub mod gc; // objects whose owners are gone
pub mod podgc; // pods that nobody else takes away
pub mod disruption; // how many pods of a budget may be evicted
pub mod podgroup_protection; // PodGroups that are deleted while pods need them
pub mod namespace; // namespaces that are deleted, and all that is in them
mod finalizer; // how an object is let go
pub mod metrics; // what all of them count

pub use metrics::Metrics;

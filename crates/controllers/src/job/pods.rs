//! The pods of a Job: which belong to it, which are missing, which are too many.
//!
//! In: a Job, its pods as the cache has them, the outcomes of those that ended.
//! Out: pods to adopt, release, create or delete, and how long a replacement waits.
//! Holds: no index gets a second active pod, and no pod is created twice because the cache was late.

mod plan; // which pods are missing or too many, and what a new one looks like; read this first
pub mod claims; // adoption and release by selector
pub mod expectations; // Jobs whose cached pods may be incomplete
pub mod backoff; // the wait before failed pods are replaced
pub mod retries; // the same for each index

pub use plan::{PodFactory, PodPlan, PodSlot, job_owner, plan};

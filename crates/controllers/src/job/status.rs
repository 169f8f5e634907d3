//! The status of a Job: counts, completed indexes and conditions.
//!
//! In: a Job, its pods and their outcomes, its PodGroup.
//! Out: the status to write, the Events that go with it, and the pods that may lose their tracking finalizer.
//! Holds: the end of a pod is counted exactly once, after any crash.

mod next_status; // the status a Job should have; read this first
pub mod tally; // the sums over a Job's pods
pub mod indexes; // sets of completion indexes, `0-3,5`
pub mod group_condition; // the condition about the Job's PodGroup

pub use next_status::{JobEvaluation, JobEvent, next_status, pods_to_remove_finalizer};

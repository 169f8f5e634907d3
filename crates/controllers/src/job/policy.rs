//! What the end of a pod means for its Job, and when the Job ends.
//!
//! In: a Job's rules (`podFailurePolicy`, `successPolicy`, `backoffLimit`, deadlines) and its pods.
//! Out: the outcome of each ended pod, and the outcome of the Job.
//! Holds: pure functions of the Job, its pods and the time.

pub mod job_outcome; // whether the Job has ended, and how; read this first
pub mod pod_outcome; // what the end of a pod counts as
pub mod failure_policy; // the rules of `spec.podFailurePolicy`
pub mod success_policy; // the rules of `spec.successPolicy`

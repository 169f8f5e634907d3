//! The scheduling objects of a Job: its Workload and its PodGroup.
//!
//! In: a Job with the Workloads, PodGroups and owners found for it.
//! Out: the PodGroup that new pods join, or the next write on the way to it.
//! Holds: objects of others are used, never written. No object is created while the Job has pods.

mod objects; // the Workload and PodGroup of a Job; read this first
pub mod workload_ref; // Jobs that name a Workload in `spec.workloadRef`
pub mod owner_chain; // the owners of a child Job, up to the root
pub mod owner_cache; // owners read from the server
pub mod removal; // objects to be deleted
pub mod expected_count; // how many pods a gang can still have
pub mod server_compat; // servers that lack kinds or drop fields

pub use objects::{
    Fallback, JoinedGroup, ManagedObject, ManagementMode, MinCountUpdate, Scheduling, TEMPLATE_ANNOTATION,
    compile_objects, management_mode, no_objects_reason, scheduling, workload_owners,
};

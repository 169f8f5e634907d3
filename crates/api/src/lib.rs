//! The rules of Kubernetes kinds: defaults, validation, conversion, and what Jobs request from the scheduler.
//!
//! In: documents and typed objects of `k8s-openapi`.
//! Out: defaulted documents, field errors, builder items.
//! Promises: pure functions; validation returns every error with its field path.
//! Never: I/O, async; reads a clock or draws random numbers itself.

pub mod metadata; // rules for every kind: names, labels, owners
pub mod schema; // fields of a kind, and their types
pub mod protobuf; // objects in protobuf, decoded to documents
pub mod selector; // label and field selectors
pub mod core; // pods, nodes, namespaces, events: defaults and validation
pub mod batch; // Jobs and CronJobs: defaults, validation, scheduling requests
pub mod job_set; // the scheduling part of JobSets
pub mod scheduling; // Workloads, PodGroups, CompositePodGroups, priority classes: defaults and validation
pub mod coordination; // Leases: validation
pub mod policy; // PodDisruptionBudgets: validation
pub mod conversion; // older versions and drafts, to and from the current one
pub mod cron; // when a CronJob is due

// The shared types, so that a crate that needs rules has one name for both.
pub use types::with_every_view;
pub use types::{Clock, Gate, Gates, InternedStr, Random, Revision, SmallMap, Timestamp, Uid};
pub use types::{clock, gates, interned_str, kinds, quantity, random, revision, small_map, uid, views};

pub use workloadbuilder::field;

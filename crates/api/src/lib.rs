//! The rules of Kubernetes kinds: defaults, validation, conversion, and what Jobs request from the scheduler.
//!
//! In: documents and typed objects of `k8s-openapi`.
//! Out: defaulted documents, field errors, builder items.
//! Promises: pure functions; validation names every error with its field path and never stops at the first.
//! Never: I/O, async, a clock or randomness of its own.

pub mod metadata; // what holds for every kind: names, labels, owners
pub mod schema; // which fields a kind has, and of what type
pub mod protobuf; // objects in protobuf, read as documents
pub mod selector; // objects chosen by label or field
pub mod core; // pods, nodes, namespaces, events: defaults and rules
pub mod batch; // Jobs and CronJobs: defaults, rules, and what they ask of the scheduler
pub mod job_set; // JobSets, as far as the scheduler's part goes
pub mod scheduling; // Workloads, PodGroups, CompositePodGroups, priority classes: defaults and rules
pub mod coordination; // Leases: rules
pub mod policy; // budgets of disruptions: rules
pub mod conversion; // older forms and drafts, to and from the present one
pub mod cron; // when a CronJob is due

// The shared types, so that a crate that needs rules has one name for both.
pub use types::{Clock, Gate, Gates, InternedStr, Random, Revision, SmallMap, Timestamp, Uid};
pub use types::{clock, gates, interned_str, kinds, quantity, random, revision, small_map, uid, views};

pub use workloadbuilder::field;

//! Kubernetes kinds as Phalanx reads, completes and judges them.
//!
//! In: documents and typed objects of `k8s-openapi`.
//! Out: views, defaulted documents, field errors, builder items.
//! Promises: pure functions; validation names every error with its field path and never stops at the first.
//! Never: I/O, async, a clock or randomness of its own.

pub mod views; // kinds as control loops read them; read this first
pub mod gates; // which features are on
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
pub mod small_map; // small maps that take no more room than their entries
pub mod interned_str; // texts that repeat, in little room
pub mod quantity; // amounts of resources
pub mod clock; // the time, as an argument
pub mod random; // randomness, as an argument
pub mod revision; // versions of objects and of the store
pub mod uid; // identities of objects, in little room

pub use clock::{Clock, Timestamp};
pub use gates::{Gate, Gates};
pub use interned_str::InternedStr;
pub use random::Random;
pub use revision::Revision;
pub use small_map::SmallMap;
pub use uid::Uid;

pub use workloadbuilder::field;

//! The shell around `scheduler-core`: views in; bindings, conditions and events out.
//!
//! In: caches of pods, nodes and PodGroups; a client, a clock, a recorder.
//! Out: binds, the conditions `PodGroupInitiallyScheduled`, `Degraded` and `PodScheduled`, events, releases of gangs that
//! were left half bound and of pods that were bound beyond what their node has, and [`Answers`]: what is refused right
//! now, and why.
//! Promises: binds go before all other writes. A PodGroup is called scheduled only once its `minCount` pods are bound.
//! A condition is written when what it says changes, not each time it is found true again.
//! Never: decides where a pod goes; spawns a task (one thread for the core, when asked for).

pub mod run; // the loop: take in, decide, carry out, wait; read this first
mod decide; // the seam to the core: in place, or on a thread of its own
mod execute; // binds and other writes, each kind with its own limit
mod bind; // one bind, until the server has said what became of it
mod bind_monitor; // how long binds have been under way
mod decision_span; // the tracing span of a decision
mod attempts; // binds under way, as they are counted
mod announce; // conditions and events for what is bound and what is refused
mod status_tracker; // what the shell knows about each group: how many are bound, what was last said
pub mod publish; // when a refusal or a success is worth a write (pure)
pub mod degraded; // whether a gang still has its minCount (pure)
pub mod conditions; // the documents of those writes (pure)
pub mod handle; // what is refused right now, and answers to whoever asks
pub mod query; // the query API: /queue and /explain
pub mod metrics; // what is counted
pub mod configuration; // kube-scheduler's file, read as it is (pure)
mod builder; // all of it for whoever brings filters of their own

pub use bind_monitor::BindMonitor;
pub use builder::Builder;
pub use configuration::KubeSchedulerConfiguration;
pub use decide::CoreMode;
pub use handle::{NoScheduler, SchedulerHandle};
pub use metrics::Metrics;
pub use query::{Query, QueryResponse};
pub use run::{Config, SchedulerContext, run};

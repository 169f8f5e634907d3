//! The shell around `scheduler-core`: views in; bindings, conditions and Events out.
//!
//! In: caches of pods, nodes and PodGroups; a client, a clock, a recorder.
//! Out: binds, the conditions `PodGroupInitiallyScheduled`, `Degraded` and `PodScheduled`, Events, releases of half-bound
//! gangs and of pods bound beyond their node's capacity, and [`SchedulerHandle`]: the present refusals and the query API.
//! Promises: binds go before all other writes. A PodGroup is reported as scheduled only once `minCount` pods are bound.
//! A condition is written when its content changes, not each time it is found true again.
//! Never: decides where a pod goes; spawns a task (one thread for the core, if configured).

pub mod run; // the loop: observe, decide, execute, wait; read this first
mod decide; // calls the core: in place, or on its own thread
mod execute; // binds and other writes, each kind with its own limit
pub mod announce; // conditions and Events of bound and refused units
mod decision_span; // the tracing span of a decision
pub mod handle; // the present refusals, and requests to the running scheduler
pub mod query; // the query API: /queue and /explain
pub mod metrics; // Prometheus metrics
pub mod configuration; // KubeSchedulerConfiguration, kube-scheduler's file (pure)
mod builder; // a whole scheduler with custom filters and scores

pub use builder::Builder;
pub use configuration::KubeSchedulerConfiguration;
pub use decide::CoreMode;
pub use execute::bind_monitor::BindMonitor;
pub use handle::{NoScheduler, SchedulerHandle};
pub use metrics::Metrics;
pub use query::{Query, QueryResponse};
pub use run::{Config, SchedulerContext, run};

//! What runs in one process, and how it starts and stops.
//!
//! In: clock, randomness, store (`ControlPlaneEnvironment`) and a configuration (gates, cluster, components).
//! Out: a running control plane: clients with an identity, the shared caches, responses to queries of the scheduler.
//! Promises: one watch and one cache per kind; components start only when the caches are filled; on the paused clock
//! with one seed two runs write the same bytes.
//! Never: decides anything itself.

mod start; // the whole control plane in one process; read this first
mod process; // the components of one process, for any server
mod control_loop; // a control loop as one value
pub mod control_loops; // all of them
pub mod rbac; // their rights as ClusterRoles
mod config; // which of them run, and with which settings
mod caches; // one cache per kind, shared by all control loops
mod identity; // identities of the process itself
mod metrics; // metrics of all control loops
mod queries; // queries to the scheduler
mod remote_components; // components for a server in another process
pub mod health_listener; // health and metrics of such a process
pub mod up; // a process that serves others
mod node_differences; // nodes that differ from the options

pub use caches::Caches;
pub use config::{Component, Config};
pub use control_loop::{ControlLoop, Right, RightTarget, Role};
pub use metrics::Metrics;
pub use node_differences::NodeDifferences;
pub use process::{ClientFactory, ClientWrapper};
pub use queries::SchedulerQueries;
pub use remote_components::RemoteComponents;
pub use start::{ControlPlane, ControlPlaneEnvironment, StartError};

pub use apiserver::{ApiServer, Health, Identity};
pub use scheduler::{CoreMode, SchedulerHandle};

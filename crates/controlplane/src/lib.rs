//! What runs in one process, and how it starts and stops.
//!
//! In: a world (clock, randomness, store) and a configuration (gates, cluster, which parts).
//! Out: a running control plane: clients with an identity, the shared caches, the scheduler's answers.
//! Promises: one watch and one cache per kind; parts start only when the caches are filled; on the paused clock with one
//! seed two runs write the same bytes.
//! Never: decides anything itself.

mod start; // the whole control plane in one process; read this first
mod process; // the list of what runs, whichever server it talks to
mod control_loop; // a control loop as one value
pub mod control_loops; // all of them
pub mod rbac; // their rights as ClusterRoles
mod config; // which of them run, and with which settings
mod caches; // one cache per kind, shared by all parts
mod identity; // identities of the process itself
mod metrics; // what the parts count
mod queries; // what the scheduler answers
mod remote_components; // some parts, against a server elsewhere
pub mod health_listener; // health and metrics of such a process
pub mod up; // a process that serves others
mod node_differences; // nodes that are not as they are asked for
mod edge_thread; // its network edge, on a runtime of its own
mod early_ack; // its disk when a check wants to see a loss

pub use caches::Caches;
pub use config::{Component, Config};
pub use control_loop::{ControlLoop, Right, Role};
pub use metrics::Metrics;
pub use node_differences::NodeDifferences;
pub use process::{ClientFactory, ClientWrapper};
pub use queries::SchedulerQueries;
pub use remote_components::RemoteComponents;
pub use start::{ControlPlane, ControlPlaneEnvironment, StartError};

pub use apiserver::{ApiServer, Health, Identity};
pub use scheduler::{CoreMode, SchedulerHandle};

//! Simulated kubelets: they run every bound pod as its annotations define, and report its status like real ones.
//!
//! In: a cluster file, the shared caches of pods and nodes, the clock.
//! Out: Node objects; pod statuses; the final delete of terminated pods.
//! Promises: thousands of nodes in one task; one write in flight per pod; a pod's next step follows from the pod and the
//! times of its earlier steps, so a restart continues where it stopped.
//! Never: touches a pod on a node that is not simulated, spawns a task, reads the system clock.

pub mod cluster; // the cluster file, and its Node objects
mod register; // creates the Node objects
pub mod pod_lifecycle; // the next step of a pod, and when; read this first
mod status; // the status that the kubelet writes
mod due_queue; // all pods of all nodes, by the time of their next step
mod run; // executes due steps
mod address; // IP addresses of simulated nodes and pods

pub use cluster::Cluster;
pub use register::{clear_not_ready, register};
pub use run::{Config, KubeletContext, run};

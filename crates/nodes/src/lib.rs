//! Simulated kubelets: nodes that take any pod, run it for as long as its annotations say, and report like real ones.
//!
//! In: a cluster file, the shared caches of pods and nodes, the time.
//! Out: Node objects; pod statuses; the final delete of pods that were asked to go.
//! Promises: thousands of nodes in one task; one write in flight per pod; a pod's life follows from the pod and from
//! when its steps were taken, so a restart goes on where it stopped.
//! Never: touches a pod on a node that is not simulated, spawns a task, reads the system's clock.

pub mod cluster; // the cluster file, and the nodes it means
mod register; // makes the Node objects
pub mod pod_lifecycle; // what a pod does next, and when; read this first
mod status; // what the kubelet writes about it
mod due_queue; // all pods of all nodes: who is due
mod run; // carries out what is due
mod address; // made-up addresses

pub use cluster::Cluster;
pub use register::{clear_not_ready, register};
pub use run::{Config, KubeletContext, run};

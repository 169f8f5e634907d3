//! The core group: pods, nodes, namespaces, events, and the binding of a pod to a node.

pub mod defaults; // what is filled in when a field is left out
mod image; // the name of an image, and whether it may move
mod pod_level_resources; // resources of a pod as a whole
pub mod prepare; // fields of features that are off are dropped
pub use types::requests;
pub mod validation; // what may be written, and what may change

//! The core group: pods, nodes, namespaces, events, and the binding of a pod to a node.

pub mod defaults; // what is filled in when a field is left out
pub mod prepare; // fields of features that are off are dropped
pub mod validation; // what may be written, and what may change

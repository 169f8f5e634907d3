//! The core group: pods, nodes, namespaces, events, claims of volumes, and the binding of a pod to a node.

pub mod defaults; // values of fields that are not set
mod image; // references of images
pub mod persistent_volume_claim; // rules of PersistentVolumeClaims
mod pod_level_resources; // resources at pod level
pub mod prepare; // drops fields of features that are off
pub use types::requests;
pub mod validation; // rules for creation and update

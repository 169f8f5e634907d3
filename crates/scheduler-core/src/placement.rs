//! Where the pods of a unit go.
//!
//! In: a demand, the cluster and the indexes of its classes. Out: a node for each pod that fits, or how many fit,
//! whether it is proven that no more do, and a certificate: which changes could let them fit. `cycle.rs` calls the first three steps in the order of this list.
//!
//! What holds: pods are placed in an overlay, so a placement that is given up leaves no trace. No node gets more pods
//! than it has slots, and all pods of a unit with a topology key are placed in one domain.

pub(crate) mod domains; // which domains a unit may use, what they can take, and in which order they are tried
pub(crate) mod place; // places a group's pods on nodes, tentatively
pub(crate) mod packing; // packs pods of several classes by size
pub(crate) mod search; // complete search for units of several classes
pub(crate) mod certificate; // why a refused unit cannot be placed
pub(crate) mod ranks; // which member gets which of the nodes

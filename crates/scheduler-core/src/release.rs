//! Pods that must leave their nodes again: those of half-placed gangs, and those bound beyond their node's capacity.
//!
//! In: members of gangs that never had their quorum, binds in flight, and pods observed on a node with less capacity
//! than they use. Out: the pods to release, with the reason. `core/half_placed_gangs.rs` and
//! `core/overcommitted_nodes.rs` make decisions of them.
//!
//! What holds: only pods with a controller, which recreates them, are released, and only after a pause. Of an
//! over-committed node the pods bound first stay.

pub(crate) mod pending_binds; // binds in flight of a half-placed gang
pub(crate) mod overcommit; // which pods must leave an over-committed node
pub(crate) mod overcommit_tracker; // which nodes are over-committed, and since when

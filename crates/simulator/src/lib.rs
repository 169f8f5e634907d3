//! The control plane on virtual time

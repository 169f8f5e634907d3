//! The commands, one file each; `run` and `explain` have folders of their own.
//!
//! A command is a struct of options, a help text and a function that returns the exit code. `cli.rs` lists them.

pub mod apply; // creates or updates the objects of manifests
pub mod get; // objects as a table, documents or names, once or as a watch
pub mod delete; // deletes objects and waits until they are gone
pub mod wait; // waits until a condition holds
pub mod logs; // logs of a pod, or the state of a simulated one
pub mod compile; // the scheduling objects of a Job, without a server
pub mod up; // the control plane, until a signal
pub mod components; // one component for an existing cluster
pub mod store_check; // verifies a data directory

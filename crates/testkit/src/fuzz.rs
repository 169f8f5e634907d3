//! The checks of the fuzz targets, as plain functions: `fuzz/` calls them with the bytes of a fuzzer, and the tests of
//! this crate with the seeds in `fuzz/seeds`. A target panics when it finds a bug.
//!
//! Inputs begin with letters that select a kind and options. The text itself follows, so that a seed can be read and
//! written by hand.

mod checked_server; // a server whose every response is checked
mod kinds; // an object for every kind, and letters that select one
pub mod body; // a new object
pub mod patch; // a patch of a stored object
pub mod selector; // label and field selectors
pub mod continue_token; // the token of a list's next page
pub mod store_file; // the store's file
mod in_memory_file; // a file in memory

pub use kinds::sample_object;

/// The outcome of an input that passes all checks. The names of seeds state which one they expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FuzzOutcome {
    /// It was accepted, and its result was checked.
    Accepted,
    /// It was refused with a valid error.
    Refused,
}

/// Checks one input.
pub type FuzzTarget = fn(&[u8]) -> FuzzOutcome;

/// Every target by its name, which is also that of its folder in `fuzz/seeds`.
pub const TARGETS: [(&str, FuzzTarget); 5] = [
    ("body", body::check),
    ("patch", patch::check),
    ("selector", selector::check),
    ("continue_token", continue_token::check),
    ("store_file", store_file::check),
];

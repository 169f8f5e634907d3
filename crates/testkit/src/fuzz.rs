//! What the fuzz targets check, as plain functions: `fuzz/` calls them with bytes that a fuzzer makes up, and the tests
//! of this crate with the seeds in `fuzz/seeds`. A target panics when it finds something; that is its only result.
//!
//! Inputs begin with letters that choose (a kind, a form) and go on with the text itself, so that a seed can be read
//! and written by hand.

mod checked_server; // one server, and what every answer must be
mod kinds; // a letter and an object for every kind
pub mod body; // a new object
pub mod patch; // a change of a stored object
pub mod selector; // which objects a list is about
pub mod continue_token; // where a list goes on
pub mod store_file; // the file of the store
mod in_memory_file; // a file in memory

pub use kinds::sample_object;

/// What became of an input that no check complains about. Seeds say in their names which one they expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FuzzOutcome {
    /// It was understood, and everything that follows from it was checked.
    Accepted,
    /// It was refused in good order.
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

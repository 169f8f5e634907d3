//! What people and programs read: results on standard output, messages and the log on standard error.

pub mod print; // to standard output and standard error, without panics
pub mod log; // the log on standard error, as text or JSON
pub mod table; // prints rows and columns
pub mod json_path; // JSON paths into one object

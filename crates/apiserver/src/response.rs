//! Writing a response.
//!
//! In: bytes, or the reason of a refusal. Out: a body, or a `Status`.
//! Promises: every HTTP `Status` is made here.

pub(crate) mod status; // refusals and confirmations
pub(crate) mod body; // bytes, a list written as it is read, or a watch

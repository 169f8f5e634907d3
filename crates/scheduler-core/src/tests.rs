//! The core as a whole: stories in text, and properties on generated clusters.
#![allow(clippy::unwrap_used)]

mod gangs; // stories about groups
mod properties; // what holds on every generated cluster
mod singles; // stories about filters, scores and single pods
mod topology; // stories about groups that share a domain
mod world; // text in, text out

//! The core as a whole: stories in text, and properties on generated clusters.
#![allow(clippy::unwrap_used)]

mod gangs; // stories about groups
mod membership; // stories about who belongs to a group
mod composites; // stories about groups of groups
mod unsupported; // stories about pods that demand what no plugin looks at
mod mixed; // stories about groups whose pods differ
mod fairness; // stories about who is next, and what it costs
mod reservations; // stories about holds that bring nothing
mod release; // stories about gangs that were left half bound
mod runs; // stories about groups that are used again
mod overcommit; // stories about nodes that were given too many pods
mod profiles; // stories about whose pods are judged by which plugins
mod properties; // what holds on every generated cluster
mod singles; // stories about filters, scores and single pods
mod topology; // stories about groups that share a domain
mod expected; // stories about how many pods a group can have
mod explanations; // stories about ways out, and why pods are where they are
mod extremes; // numbers and names that nobody needs and anybody may write
mod remedies; // what is said holds, on every generated cluster
mod text_cluster; // text in, text out

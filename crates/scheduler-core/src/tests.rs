//! The core as a whole: scenarios in text, and properties on generated clusters.
#![allow(clippy::unwrap_used)]

mod gangs; // groups
mod membership; // which pods belong to a group
mod composites; // CompositePodGroups
mod unsupported; // pods with placement terms that no plugin supports
mod mixed; // groups with pods of several classes
mod solver; // placements of mixed groups compared with an exact solver
mod fairness; // queue order, and what it costs
mod wake_ups; // every kind of change that lets a waiting gang fit wakes it
mod certificates; // which changes wake no waiting unit
mod nominations; // pods that other schedulers have nominated to a node
mod reservations; // what is reserved, for whom and for how long
mod release; // half-bound gangs
mod runs; // groups that are used again
mod overcommit; // over-committed nodes
mod pod_counters;
mod profiles; // which plugins apply to which pods
mod property_config; // how many cases a property tries
mod properties; // what holds on every generated cluster
mod reference_model; // a plain model of the cluster
mod oracle; // random changes, after which every waiting unit is decided from scratch
mod declared_features; // features that nodes declare and pods require
mod singles; // filters, scores and single pods
mod topology; // groups that share a domain
mod ranks; // members with a completion index
mod expected; // the expected number of pods of a group
mod forks; // explanations beside decisions
mod explanations; // remedies and placement reports
mod named_nodes; // pods that name their nodes, as those of a DaemonSet do
mod index_updates; // what a change costs the indexes
mod churn; // names, domains and tables are freed
mod extremes; // extreme numbers and names that users may write
mod remedies; // remedies are correct on every generated cluster
mod text_cluster; // text in, text out

//! The kinds that are served, one file each.
//!
//! In: the feature gates. Out: one `Resource` value per kind.
//! Promises: the pipeline knows a kind only by its `Resource`; nothing else matches on a kind.

pub mod resource; // what the pipeline knows about a kind
pub mod object; // a document of any kind
mod composite_pod_groups;
mod cron_jobs;
mod events;
mod jobs;
mod leases;
mod namespaces;
mod nodes;
mod pods;
mod pod_disruption_budgets;
mod pod_groups;
mod priority_classes;
mod workloads;
#[cfg(test)]
mod properties; // what holds for every kind

use api::gates::{Gate, Gates};

use crate::request::Propagation;
use crate::resources::resource::{Resource, Strategy};

/// Every kind, save those that a gate keeps away.
pub(crate) fn all(gates: &Gates) -> Vec<Resource> {
    let mut resources = vec![
        namespaces::resource(),
        nodes::resource(),
        pods::resource(),
        events::resource(),
        events::resource_of_events_group(),
        jobs::resource(),
        cron_jobs::resource(),
        leases::resource(),
        pod_disruption_budgets::resource(),
        priority_classes::resource(),
    ];
    // What is stored of them stays, and is there again when the gate is on again.
    if gates.enabled(Gate::GenericWorkload) {
        resources.extend([workloads::resource(), pod_groups::resource()]);
        resources.extend(gates.enabled(Gate::CompositePodGroup).then(composite_pod_groups::resource));
    }
    resources
}

/// The names of a kind: group, versions (the first is that of storage), plural, singular, kind.
struct KindNames(&'static str, &'static [&'static str], &'static str, &'static str, &'static str);

/// A namespaced kind without subresources, kept in its first version, whose dependents go with it.
fn base_resource(names: KindNames, strategy: Strategy) -> Resource {
    let KindNames(group, versions, plural, singular, kind) = names;
    let store_name = if group.is_empty() { plural.to_owned() } else { format!("{group}/{plural}") };
    Resource {
        group,
        versions,
        conversions: &[],
        storage_group: group,
        storage_version: versions[0],
        storage_version_hash: "",
        plural,
        singular,
        kind,
        short_names: &[],
        categories: &[],
        namespaced: true,
        subresources: &[],
        propagation: Propagation::Background,
        unconditional_update: true,
        counts_generation: false,
        deletes_collections: true,
        returns_deleted: false,
        expires: false,
        strategy,
        store_name: store_name.into(),
    }
}

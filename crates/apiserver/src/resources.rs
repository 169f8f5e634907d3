//! The served kinds, one file each.
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
mod persistent_volume_claims;
mod pods;
mod pod_disruption_budgets;
mod pod_groups;
mod priority_classes;
mod workloads;
#[cfg(test)]
mod properties; // what holds for every kind

use api::gates::Gates;
use api::kinds::{self, ApiResource};

use crate::request::Propagation;
use crate::resources::resource::{Resource, Strategy};

/// How each kind of the registry is served.
const RESOURCES: &[fn() -> Resource] = &[
    namespaces::resource,
    nodes::resource,
    pods::resource,
    events::resource,
    persistent_volume_claims::resource,
    events::resource_of_events_group,
    jobs::resource,
    cron_jobs::resource,
    leases::resource,
    pod_disruption_budgets::resource,
    priority_classes::resource,
    workloads::resource,
    pod_groups::resource,
    composite_pod_groups::resource,
];

/// The kinds of the registry that are served with these gates. Stored objects of other kinds are kept, and are served
/// again when their gate is enabled.
pub(crate) fn all(gates: &Gates) -> Vec<Resource> {
    let resources: Vec<Resource> = RESOURCES.iter().map(|resource| resource()).collect();
    let served = kinds::ALL.iter().filter(|kind| kind.is_served(gates));
    let resource_of = |kind: &&ApiResource| {
        let resource = resources.iter().find(|resource| (resource.group, resource.plural) == (kind.group, kind.plural));
        resource.cloned().expect("every kind of the registry has its line in RESOURCES")
    };
    served.map(resource_of).collect()
}

/// A kind without subresources, stored in its first version, whose dependents are deleted with it.
fn base_resource(kind: &'static ApiResource, strategy: Strategy) -> Resource {
    Resource {
        api: kind,
        conversions: &[],
        storage_group: kind.group,
        storage_version: kind.version(),
        storage_version_hash: "",
        subresources: &[],
        propagation: Propagation::Background,
        unconditional_update: true,
        counts_generation: false,
        deletes_collections: true,
        returns_deleted: false,
        expires: false,
        strategy,
        store_name: kind.store_name().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_the_registry_is_served_as_the_registry_says() {
        let served = all(&Gates::default());
        assert_eq!(RESOURCES.len(), kinds::ALL.len());
        for (resource, kind) in served.iter().zip(kinds::ALL.iter().filter(|kind| kind.is_served(&Gates::default()))) {
            assert_eq!(resource.kind, kind.kind);
            assert!(resource.served_versions().eq(kind.served_versions()), "{}", kind.kind);
        }
    }
}

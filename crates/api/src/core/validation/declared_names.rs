//! What a pod's containers can refer to, gathered once: a pod may have as many of them as fit into a request.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PodSpec, Volume};

/// The names that a spec declares for its containers.
pub struct DeclaredNames<'a> {
    /// The volumes; of those with the same name, the first.
    pub volumes: BTreeMap<&'a str, &'a Volume>,
    /// The names of the volumes that can be mounted.
    pub mountable: BTreeSet<&'a str>,
    /// The names of the claims of devices.
    pub claims: BTreeSet<&'a str>,
}

impl<'a> DeclaredNames<'a> {
    /// Gathers them. `mountable` are the volumes that are in order.
    pub fn of(spec: &'a PodSpec, mountable: BTreeSet<&'a str>) -> DeclaredNames<'a> {
        let mut volumes = BTreeMap::new();
        for volume in spec.volumes.iter().flatten() {
            volumes.entry(volume.name.as_str()).or_insert(volume);
        }
        let claims = spec.resource_claims.iter().flatten().map(|claim| claim.name.as_str());
        DeclaredNames { volumes, mountable, claims: claims.filter(|name| !name.is_empty()).collect() }
    }
}

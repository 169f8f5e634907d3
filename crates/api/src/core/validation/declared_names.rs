//! The names that a pod's containers can refer to, collected once: a pod can have as many as fit into a request.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PodSpec, Volume};

/// The names that a spec declares for its containers.
pub struct DeclaredNames<'a> {
    /// The volumes. Of several with one name, the first.
    pub volumes: BTreeMap<&'a str, &'a Volume>,
    /// The names of the volumes that can be mounted.
    pub mountable: BTreeSet<&'a str>,
    /// The names of the resource claims.
    pub claims: BTreeSet<&'a str>,
}

impl<'a> DeclaredNames<'a> {
    /// Collects the names. `mountable` has the valid volumes.
    pub fn of(spec: &'a PodSpec, mountable: BTreeSet<&'a str>) -> DeclaredNames<'a> {
        let mut volumes = BTreeMap::new();
        for volume in spec.volumes.iter().flatten() {
            volumes.entry(volume.name.as_str()).or_insert(volume);
        }
        let claims = spec.resource_claims.iter().flatten().map(|claim| claim.name.as_str());
        DeclaredNames { volumes, mountable, claims: claims.filter(|name| !name.is_empty()).collect() }
    }
}

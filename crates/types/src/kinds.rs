//! The registry of kinds: one value per kind. The server, caches, controllers, commands and tests take names, versions,
//! scope and paths of a kind from here.
//!
//! A new kind is added here first; [the guide](../../../docs/guides/extending.md) lists the files that follow.

use crate::gates::{Gate, Gates};
use crate::views::ObjectKey;

/// A kind as the API serves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiResource {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Kind, as in `kind: Pod`.
    pub kind: &'static str,
    /// Plural, as in the path.
    pub plural: &'static str,
    /// Singular.
    pub singular: &'static str,
    /// Short names, such as `po`.
    pub short_names: &'static [&'static str],
    /// Names under which several kinds are listed together, such as `all`.
    pub categories: &'static [&'static str],
    /// Whether objects have a namespace.
    pub namespaced: bool,
    /// Versions in which objects have their stored form except for `apiVersion`. The first is the storage version, and
    /// the one that our own code reads and writes. Empty if another group stores the objects.
    pub versions: &'static [&'static str],
    /// Versions that are served by conversion.
    pub converted_versions: &'static [&'static str],
    /// Feature gates that must all be on for our server to serve the kind.
    pub gates: &'static [Gate],
}

impl ApiResource {
    /// A namespaced `v1` kind that is always served, without short names. Other kinds set only what differs.
    const fn new(group: &'static str, kind: &'static str, plural: &'static str, singular: &'static str) -> ApiResource {
        ApiResource {
            group,
            kind,
            plural,
            singular,
            short_names: &[],
            categories: &[],
            namespaced: true,
            versions: &["v1"],
            converted_versions: &[],
            gates: &[],
        }
    }

    /// The version that our own code reads and writes.
    pub const fn version(&self) -> &'static str {
        match (self.versions, self.converted_versions) {
            ([version, ..], _) | ([], [version, ..]) => version,
            ([], []) => panic!("a kind has at least one version"),
        }
    }

    /// Every version that is served, preferred first.
    pub fn served_versions(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.versions.iter().chain(self.converted_versions).copied()
    }

    /// Whether our server serves the kind with these gates.
    pub fn is_served(&self, gates: &Gates) -> bool {
        self.gates.iter().all(|gate| gates.enabled(*gate))
    }

    /// `apiVersion` of its objects: `v1` or `group/version`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version().to_owned() } else { format!("{}/{}", self.group, self.version()) }
    }

    /// Its singular, with the group if the core group has the same kind: `job`, `event.events.k8s.io`. Files of a kind
    /// have this name.
    pub fn unique_name(&self) -> String {
        let is_first = by_kind(self.kind).is_none_or(|first| first.group == self.group);
        if is_first { self.singular.to_owned() } else { format!("{}.{}", self.singular, self.group) }
    }

    /// Whether `name` is one of its names, in any case: the kind, the plural, the singular or a short name.
    pub fn has_name(&self, name: &str) -> bool {
        let names = [self.kind, self.plural, self.singular];
        names.iter().chain(self.short_names).any(|known| known.eq_ignore_ascii_case(name))
    }

    /// `pods`, `jobs.batch`.
    pub fn qualified_plural(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Whether another group stores the objects, and serves them too.
    pub const fn is_stored_elsewhere(&self) -> bool {
        self.versions.is_empty()
    }

    /// The name of its objects in the store: `pods`, `batch/jobs`.
    pub fn store_name(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}/{}", self.group, self.plural) }
    }

    /// The collection's path over all namespaces.
    pub fn path(&self) -> String {
        self.collection_path("")
    }

    /// The collection's path in `namespace`. An empty namespace means all; cluster-scoped kinds ignore it.
    pub fn collection_path(&self, namespace: &str) -> String {
        self.versioned_path(self.version(), namespace)
    }

    /// The same in this version.
    pub fn versioned_path(&self, version: &str, namespace: &str) -> String {
        let ApiResource { group, plural, .. } = self;
        let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        if !self.namespaced || namespace.is_empty() {
            format!("{root}/{version}/{plural}")
        } else {
            format!("{root}/{version}/namespaces/{namespace}/{plural}")
        }
    }

    /// The path of one object.
    pub fn object_path(&self, key: &ObjectKey) -> String {
        format!("{}/{}", self.collection_path(&key.namespace), key.name)
    }
}

/// Namespaces.
pub const NAMESPACE: &ApiResource = &ApiResource {
    short_names: &["ns"],
    namespaced: false,
    ..ApiResource::new("", "Namespace", "namespaces", "namespace")
};

/// Nodes.
pub const NODE: &ApiResource =
    &ApiResource { short_names: &["no"], namespaced: false, ..ApiResource::new("", "Node", "nodes", "node") };

/// Pods.
pub const POD: &ApiResource =
    &ApiResource { short_names: &["po"], categories: &["all"], ..ApiResource::new("", "Pod", "pods", "pod") };

/// Events of the core group, as they are stored.
pub const EVENT: &ApiResource =
    &ApiResource { short_names: &["ev"], ..ApiResource::new("", "Event", "events", "event") };

/// PersistentVolumeClaims.
pub const PERSISTENT_VOLUME_CLAIM: &ApiResource = &ApiResource {
    short_names: &["pvc"],
    ..ApiResource::new("", "PersistentVolumeClaim", "persistentvolumeclaims", "persistentvolumeclaim")
};

/// The same Events in their newer form.
pub const EVENTS_GROUP_EVENT: &ApiResource =
    &ApiResource { group: "events.k8s.io", versions: &[], converted_versions: &["v1"], ..*EVENT };

/// Jobs.
pub const JOB: &ApiResource = &ApiResource { categories: &["all"], ..ApiResource::new("batch", "Job", "jobs", "job") };

/// CronJobs.
pub const CRON_JOB: &ApiResource = &ApiResource {
    short_names: &["cj"],
    categories: &["all"],
    ..ApiResource::new("batch", "CronJob", "cronjobs", "cronjob")
};

/// Leases.
pub const LEASE: &ApiResource = &ApiResource::new("coordination.k8s.io", "Lease", "leases", "lease");

/// PodDisruptionBudgets.
pub const POD_DISRUPTION_BUDGET: &ApiResource = &ApiResource {
    short_names: &["pdb"],
    ..ApiResource::new("policy", "PodDisruptionBudget", "poddisruptionbudgets", "poddisruptionbudget")
};

/// PriorityClasses.
pub const PRIORITY_CLASS: &ApiResource = &ApiResource {
    short_names: &["pc"],
    namespaced: false,
    ..ApiResource::new(SCHEDULING, "PriorityClass", "priorityclasses", "priorityclass")
};

/// Workloads.
pub const WORKLOAD: &ApiResource = &ApiResource {
    versions: &["v1beta1", "v1alpha3"],
    converted_versions: &["v1alpha2", "v1alpha1"],
    gates: &[Gate::GenericWorkload],
    ..ApiResource::new(SCHEDULING, "Workload", "workloads", "workload")
};

/// PodGroups.
pub const POD_GROUP: &ApiResource = &ApiResource {
    versions: &["v1beta1", "v1alpha3"],
    converted_versions: &["v1alpha2", "v1alpha1"],
    gates: &[Gate::GenericWorkload],
    ..ApiResource::new(SCHEDULING, "PodGroup", "podgroups", "podgroup")
};

/// CompositePodGroups.
pub const COMPOSITE_POD_GROUP: &ApiResource = &ApiResource {
    versions: &["v1alpha3"],
    gates: &[Gate::GenericWorkload, Gate::CompositePodGroup],
    ..ApiResource::new(SCHEDULING, "CompositePodGroup", "compositepodgroups", "compositepodgroup")
};

const SCHEDULING: &str = "scheduling.k8s.io";

/// Every kind, in the order in which discovery lists them.
pub const ALL: &[&ApiResource] = &[
    NAMESPACE,
    NODE,
    POD,
    EVENT,
    PERSISTENT_VOLUME_CLAIM,
    EVENTS_GROUP_EVENT,
    JOB,
    CRON_JOB,
    LEASE,
    POD_DISRUPTION_BUDGET,
    PRIORITY_CLASS,
    WORKLOAD,
    POD_GROUP,
    COMPOSITE_POD_GROUP,
];

/// The kind of objects with this `kind`; the one of the core group if two groups have it.
pub fn by_kind(kind: &str) -> Option<&'static ApiResource> {
    ALL.iter().copied().find(|resource| resource.kind == kind)
}

/// The kind with this plural; the one of the core group if two groups have it.
pub fn by_plural(plural: &str) -> Option<&'static ApiResource> {
    ALL.iter().copied().find(|resource| resource.plural == plural)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn paths_are_those_of_the_kubernetes_api() {
        let key = ObjectKey::new("training", "x1");
        assert_eq!(POD.object_path(&key), "/api/v1/namespaces/training/pods/x1");
        assert_eq!(POD_GROUP.object_path(&key), "/apis/scheduling.k8s.io/v1beta1/namespaces/training/podgroups/x1");
        assert_eq!(NODE.object_path(&ObjectKey::new("", "n1")), "/api/v1/nodes/n1");
        assert_eq!(POD.path(), "/api/v1/pods");
        assert_eq!(EVENTS_GROUP_EVENT.path(), "/apis/events.k8s.io/v1/events");
        assert_eq!(WORKLOAD.versioned_path("v1alpha3", "a"), "/apis/scheduling.k8s.io/v1alpha3/namespaces/a/workloads");
    }

    #[test]
    fn every_kind_has_a_version_and_a_name_of_its_own() {
        let names: BTreeSet<_> = ALL.iter().map(|resource| (resource.group, resource.plural)).collect();
        assert_eq!(names.len(), ALL.len());
        assert_eq!(ALL.iter().map(|resource| resource.unique_name()).collect::<BTreeSet<_>>().len(), ALL.len());
        assert_eq!((JOB.unique_name(), EVENTS_GROUP_EVENT.unique_name()), ("job".into(), "event.events.k8s.io".into()));
        assert_eq!((POD.store_name(), JOB.store_name()), ("pods".into(), "batch/jobs".into()));
        for resource in ALL {
            assert!(resource.served_versions().next().is_some(), "{}", resource.kind);
            assert_eq!(resource.singular, resource.kind.to_lowercase());
        }
    }

    #[test]
    fn a_kind_has_its_names_in_any_case() {
        for name in ["pod", "Pod", "pods", "po", "PODS"] {
            assert!(POD.has_name(name), "{name}");
        }
        assert!(POD_GROUP.has_name("podgroup") && !POD_GROUP.has_name("pods") && !POD.has_name(""));
        assert_eq!((POD.qualified_plural(), JOB.qualified_plural()), ("pods".into(), "jobs.batch".into()));
    }

    #[test]
    fn a_kind_is_found_by_its_kind_and_by_its_plural() {
        for resource in ALL {
            assert_eq!(by_kind(resource.kind).unwrap().kind, resource.kind);
            assert_eq!(by_plural(resource.plural).unwrap().plural, resource.plural);
        }
        assert_eq!(by_kind("Event").unwrap().group, "");
        assert!(by_kind("Deployment").is_none());
    }
}

//! The kinds that are asked about.

/// A kind in one version.
#[derive(Debug)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
    /// Its file below tests/kube/corpus.
    pub corpus: &'static str,
    /// How many cases it gets, against the others.
    pub weight: usize,
    /// How many of 100 cases must get the same verdict.
    pub same_verdict_min: f64,
    /// Whether one case can change what another gets, so that they are asked one after another.
    pub alone: bool,
}

const KIND: Kind = Kind {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    namespaced: true,
    corpus: "",
    weight: 10,
    same_verdict_min: 100.0,
    alone: false,
};

const SCHEDULING: Kind = Kind { group: "scheduling.k8s.io", ..KIND };
const WORKLOAD: Kind = Kind { kind: "Workload", plural: "workloads", corpus: "workload", weight: 11, ..SCHEDULING };
const POD_GROUP: Kind = Kind { kind: "PodGroup", plural: "podgroups", corpus: "podgroup", weight: 9, ..SCHEDULING };

const EVENT: Kind = Kind { kind: "Event", plural: "events", weight: 4, ..KIND };

/// In the order they are asked and told.
pub const KINDS: &[Kind] = &[
    Kind { version: "v1beta1", ..WORKLOAD },
    Kind { version: "v1alpha3", ..WORKLOAD },
    Kind { version: "v1beta1", ..POD_GROUP },
    Kind { version: "v1alpha3", ..POD_GROUP },
    Kind {
        version: "v1alpha3",
        kind: "CompositePodGroup",
        plural: "compositepodgroups",
        corpus: "compositepodgroup",
        weight: 8,
        ..SCHEDULING
    },
    Kind {
        kind: "PriorityClass",
        plural: "priorityclasses",
        namespaced: false,
        corpus: "priorityclass",
        weight: 4,
        // There is one global default.
        alone: true,
        ..SCHEDULING
    },
    Kind { group: "coordination.k8s.io", kind: "Lease", plural: "leases", corpus: "lease", weight: 3, ..KIND },
    Kind { group: "batch", kind: "Job", plural: "jobs", corpus: "job", weight: 22, ..KIND },
    Kind { group: "batch", kind: "CronJob", plural: "cronjobs", corpus: "cronjob", weight: 10, ..KIND },
    Kind { corpus: "event", ..EVENT },
    Kind { group: "events.k8s.io", corpus: "event-in-events-group", ..EVENT },
    Kind { kind: "Pod", plural: "pods", corpus: "pod", weight: 16, same_verdict_min: 98.0, ..KIND },
];

/// Where every case's objects live.
pub const NAMESPACE: &str = "conformance";

impl Kind {
    /// As `apiVersion` has it.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// What people read: `PodGroup v1beta1`; with the group where the core group has the same kind.
    pub fn title(&self) -> String {
        let has_namesake = |other: &Kind| other.group.is_empty() && other.kind == self.kind;
        let version = if KINDS.iter().any(has_namesake) { self.api_version() } else { self.version.to_owned() };
        format!("{} {version}", self.kind)
    }

    /// The path of the API's version, whose answer lists its resources.
    pub fn root(&self) -> String {
        if self.group.is_empty() { format!("/api/{}", self.version) } else { format!("/apis/{}", self.api_version()) }
    }

    /// The path of the collection.
    pub fn path(&self) -> String {
        let scope = if self.namespaced { format!("/namespaces/{NAMESPACE}") } else { String::new() };
        format!("{}{scope}/{}", self.root(), self.plural)
    }
}

//! The kinds that are asked about.

/// A kind in one version.
#[derive(Debug)]
pub struct ComparedKind {
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
    pub min_same_verdict_percent: f64,
    /// Whether one case can change what another gets, so that they are asked one after another.
    pub sequential: bool,
}

const KIND: ComparedKind = ComparedKind {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    namespaced: true,
    corpus: "",
    weight: 10,
    min_same_verdict_percent: 100.0,
    sequential: false,
};

const SCHEDULING: ComparedKind = ComparedKind { group: "scheduling.k8s.io", ..KIND };
const WORKLOAD: ComparedKind =
    ComparedKind { kind: "Workload", plural: "workloads", corpus: "workload", weight: 11, ..SCHEDULING };
const POD_GROUP: ComparedKind =
    ComparedKind { kind: "PodGroup", plural: "podgroups", corpus: "podgroup", weight: 9, ..SCHEDULING };

const EVENT: ComparedKind = ComparedKind { kind: "Event", plural: "events", weight: 4, ..KIND };

/// In the order they are asked and told.
pub const KINDS: &[ComparedKind] = &[
    ComparedKind { version: "v1beta1", ..WORKLOAD },
    ComparedKind { version: "v1alpha3", ..WORKLOAD },
    ComparedKind { version: "v1beta1", ..POD_GROUP },
    ComparedKind { version: "v1alpha3", ..POD_GROUP },
    ComparedKind {
        version: "v1alpha3",
        kind: "CompositePodGroup",
        plural: "compositepodgroups",
        corpus: "compositepodgroup",
        weight: 8,
        ..SCHEDULING
    },
    ComparedKind {
        kind: "PriorityClass",
        plural: "priorityclasses",
        namespaced: false,
        corpus: "priorityclass",
        weight: 4,
        // There is one global default.
        sequential: true,
        ..SCHEDULING
    },
    ComparedKind { group: "coordination.k8s.io", kind: "Lease", plural: "leases", corpus: "lease", weight: 3, ..KIND },
    ComparedKind { group: "batch", kind: "Job", plural: "jobs", corpus: "job", weight: 22, ..KIND },
    ComparedKind { group: "batch", kind: "CronJob", plural: "cronjobs", corpus: "cronjob", weight: 10, ..KIND },
    ComparedKind { corpus: "event", ..EVENT },
    ComparedKind { group: "events.k8s.io", corpus: "event-in-events-group", ..EVENT },
    ComparedKind { kind: "Pod", plural: "pods", corpus: "pod", weight: 16, min_same_verdict_percent: 98.0, ..KIND },
];

/// Where every case's objects live.
pub const NAMESPACE: &str = "conformance";

impl ComparedKind {
    /// As `apiVersion` has it.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// What people read: `PodGroup v1beta1`; with the group where the core group has the same kind.
    pub fn title(&self) -> String {
        let has_namesake = |other: &ComparedKind| other.group.is_empty() && other.kind == self.kind;
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

//! The kinds that are compared, from the registry.

use std::ops::Deref;

use api::kinds::{self, ApiResource};

/// A kind in one version.
#[derive(Debug)]
pub struct ComparedKind {
    pub resource: &'static ApiResource,
    pub version: &'static str,
    /// Its file below tests/kube/corpus.
    pub corpus: &'static str,
    /// Its share of the cases, relative to the others.
    pub weight: usize,
    /// How many of 100 cases must get the same verdict.
    pub min_same_verdict_percent: f64,
    /// Whether one case can change the response to another, so that they are sent one after another.
    pub sequential: bool,
}

impl ComparedKind {
    const fn new(resource: &'static ApiResource, corpus: &'static str, weight: usize) -> ComparedKind {
        let version = resource.version();
        ComparedKind { resource, version, corpus, weight, min_same_verdict_percent: 100.0, sequential: false }
    }
}

impl Deref for ComparedKind {
    type Target = ApiResource;

    fn deref(&self) -> &ApiResource {
        self.resource
    }
}

/// In the order in which they are sent and reported.
pub const KINDS: &[ComparedKind] = &[
    ComparedKind::new(kinds::WORKLOAD, "workload", 11),
    ComparedKind { version: "v1alpha3", ..ComparedKind::new(kinds::WORKLOAD, "workload", 11) },
    ComparedKind::new(kinds::POD_GROUP, "podgroup", 9),
    ComparedKind { version: "v1alpha3", ..ComparedKind::new(kinds::POD_GROUP, "podgroup", 9) },
    ComparedKind::new(kinds::COMPOSITE_POD_GROUP, "compositepodgroup", 8),
    // There is one global default.
    ComparedKind { sequential: true, ..ComparedKind::new(kinds::PRIORITY_CLASS, "priorityclass", 4) },
    ComparedKind::new(kinds::LEASE, "lease", 3),
    ComparedKind::new(kinds::JOB, "job", 22),
    ComparedKind::new(kinds::CRON_JOB, "cronjob", 10),
    ComparedKind::new(kinds::EVENT, "event", 4),
    ComparedKind::new(kinds::EVENTS_GROUP_EVENT, "event-in-events-group", 4),
    ComparedKind { min_same_verdict_percent: 98.0, ..ComparedKind::new(kinds::POD, "pod", 16) },
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

//! Workloads as the Job controller reads them.

use k8s_openapi::api::scheduling::v1beta1::WorkloadSpec;
use serde::Deserialize;

use super::meta::{Index, Meta};
use crate::views::view;

/// The template of scheduling policy behind one or more PodGroups.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct WorkloadView {
    /// Metadata.
    pub metadata: Meta,
    /// Templates; small, so the full type.
    pub spec: WorkloadSpec,
}

view!(WorkloadView, "scheduling.k8s.io", "v1beta1", "Workload", "workloads", namespaced: true);

impl WorkloadView {
    /// Workloads by `namespace/group/kind/name` of the object they stand for.
    pub const BY_CONTROLLER_REF: Index<WorkloadView> = Index {
        name: "controller-ref",
        values: |workload| {
            let namespace = &workload.metadata.namespace;
            let reference = workload.spec.controller_ref.iter();
            let group = |r: &k8s_openapi::api::scheduling::v1beta1::TypedLocalObjectReference| {
                r.api_group.clone().unwrap_or_default()
            };
            reference.map(|r| format!("{namespace}/{}/{}/{}", group(r), r.kind, r.name)).collect()
        },
    };
}

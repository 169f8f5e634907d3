//! Workloads as the Job controller reads them.

use k8s_openapi::api::scheduling::v1beta1::WorkloadSpec;
use serde::{Deserialize, Deserializer};

use super::meta::{Index, MetaView};
use crate::kinds;
use crate::views::view;

/// The template of scheduling policy behind one or more PodGroups.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct WorkloadView {
    /// Metadata.
    pub metadata: MetaView,
    /// Templates. They are small, so this is the full type.
    #[serde(deserialize_with = "tight_spec")]
    pub spec: WorkloadSpec,
}

/// Decodes without spare capacity: most Workloads have one template, which is large.
fn tight_spec<'de, D: Deserializer<'de>>(from: D) -> Result<WorkloadSpec, D::Error> {
    let mut spec = WorkloadSpec::deserialize(from)?;
    spec.pod_group_templates.iter_mut().for_each(Vec::shrink_to_fit);
    Ok(spec)
}

view!(WorkloadView, kinds::WORKLOAD, indexes: [WorkloadView::BY_CONTROLLER_REF]);

impl WorkloadView {
    /// Workloads by `namespace/group/kind/name` of the object in `spec.controllerRef`.
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

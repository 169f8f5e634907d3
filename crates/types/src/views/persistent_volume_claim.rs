//! PersistentVolumeClaims as the scheduler reads them.

use serde::Deserialize;

use super::meta::{MetaView, tight};
use crate::kinds;
use crate::quantity::Quantity;
use crate::views::view;

/// The annotation with the node for which a volume is provisioned.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// A claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaimView {
    /// Metadata.
    pub metadata: MetaView,
    /// The requested volume.
    pub spec: PersistentVolumeClaimSpecView,
    /// Observed state.
    pub status: PersistentVolumeClaimStatusView,
}

view!(PersistentVolumeClaimView, kinds::PERSISTENT_VOLUME_CLAIM);

impl PersistentVolumeClaimView {
    /// The node for which a volume is to be provisioned, once the scheduler has chosen one.
    pub fn selected_node(&self) -> Option<&str> {
        self.metadata.annotations.get(SELECTED_NODE).map(String::as_str)
    }

    /// The requested size.
    pub fn requested_storage(&self) -> Quantity {
        self.spec.resources.requests.storage
    }
}

/// `persistentVolumeClaim.spec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimSpecView {
    /// How many nodes and pods may use the volume, and for what.
    #[serde(deserialize_with = "tight")]
    pub access_modes: Vec<String>,
    /// The class that provisions the volume. Empty: only volumes without a class. `None`: the default class.
    pub storage_class_name: Option<String>,
    /// The bound volume; empty before.
    pub volume_name: String,
    /// The requested size.
    pub resources: ClaimResourcesView,
}

/// `persistentVolumeClaim.spec.resources`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimResourcesView {
    /// What the claim requests.
    pub requests: ClaimRequestsView,
}

/// `persistentVolumeClaim.spec.resources.requests`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimRequestsView {
    /// The size.
    pub storage: Quantity,
}

/// `persistentVolumeClaim.status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaimStatusView {
    /// `Pending`, `Bound` or `Lost`.
    pub phase: String,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::views::View;

    #[test]
    fn view_has_what_volume_binding_reads() {
        let bound = PersistentVolumeClaimView::decode(
            br#"{"metadata": {"name": "data", "annotations": {"volume.kubernetes.io/selected-node": "node-1"},
                "deletionTimestamp": "2030-01-01T00:00:00Z"},
                "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "pv-1",
                "resources": {"requests": {"storage": "10Gi"}}}, "status": {"phase": "Bound"}}"#,
        )
        .unwrap();
        assert_eq!(bound.selected_node(), Some("node-1"));
        assert_eq!(bound.requested_storage(), Quantity::parse("10Gi").unwrap());
        assert_eq!((bound.spec.storage_class_name.as_deref(), bound.spec.volume_name.as_str()), (Some(""), "pv-1"));
        assert_eq!(
            (bound.spec.access_modes.as_slice(), bound.status.phase.as_str()),
            (&["ReadWriteOnce".to_owned()][..], "Bound")
        );
        assert!(bound.metadata.is_deleting());
        let new = PersistentVolumeClaimView::decode(br#"{"metadata": {"name": "data"}}"#).unwrap();
        assert_eq!((new.selected_node(), &new.spec.storage_class_name), (None, &None));
    }
}

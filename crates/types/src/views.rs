//! Views: structs with the fields that our code reads of a kind, decoded from the bytes of an object.
//!
//! The caches have views instead of full types, because they hold the whole cluster. A view is never written back.
//! Writes name the fields that they change.

mod composite_pod_group;
mod cron_job;
mod job;
mod lease;
mod meta;
mod namespace;
mod node;
mod persistent_volume_claim;
mod pod;
mod pod_disruption_budget;
mod pod_group;
mod workload;

pub use composite_pod_group::{CompositePodGroupSpecView, CompositePodGroupView};
pub use cron_job::{
    ActiveJobView, CronJobSpecView, CronJobStatusView, CronJobView, JobTemplateMetaView, JobTemplateView,
};
pub use job::{JobSpecView, JobStatusView, JobView, PodTemplateView, UncountedPodsView, WorkloadRefView};
pub use lease::LeaseView;
pub use meta::{Condition, Index, MetaView, ObjectKey, OwnerRef, View};
pub use namespace::{NamespaceSpecView, NamespaceStatusView, NamespaceView};
pub use node::{ImageView, NodeSpecView, NodeStatusView, NodeView};
pub use persistent_volume_claim::{
    ClaimRequestsView, ClaimResourcesView, PersistentVolumeClaimSpecView, PersistentVolumeClaimStatusView,
    PersistentVolumeClaimView,
};
pub use pod::{
    AffinityView, CONTROLLER_UID_LABEL, ContainerRunningView, ContainerStateView, ContainerStatusView,
    ContainerTerminatedView, ContainerView, PodPhase, PodSpecView, PodStatusView, PodView, PortView, ResourcesView,
    SchedulingGateView, SchedulingGroupView,
};
pub use pod_disruption_budget::{PodDisruptionBudgetStatusView, PodDisruptionBudgetView};
pub use pod_group::{PodGroupSpecView, PodGroupStatusView, PodGroupView, quorum};
pub use workload::WorkloadView;

/// Implements [`View`] in this crate, so that decoding is compiled once and not in every crate that uses it.
macro_rules! view {
    ($view:ty, $resource:expr $(, indexes: $indexes:expr)? $(, strip: $strip:expr)?) => {
        impl $crate::views::View for $view {
            const RESOURCE: &'static $crate::kinds::ApiResource = $resource;
            $(const INDEXES: &'static [$crate::views::Index<$view>] = &$indexes;)?

            fn meta(&self) -> &$crate::views::MetaView {
                &self.metadata
            }

            fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
                serde_json::from_slice(bytes)
            }

            $(fn strip(&mut self) {
                $strip(self);
            })?
        }
    };
}
pub(crate) use view;

/// Calls the macro `$use_views` with every view, separated by commas. Code that treats all kinds alike, such as the
/// garbage collector, needs no list of its own.
#[macro_export]
macro_rules! with_every_view {
    ($use_views:ident) => {
        $use_views!(
            CompositePodGroupView,
            CronJobView,
            JobView,
            LeaseView,
            NamespaceView,
            NodeView,
            PersistentVolumeClaimView,
            PodView,
            PodDisruptionBudgetView,
            PodGroupView,
            WorkloadView
        )
    };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::kinds::{self, ApiResource};

    macro_rules! resources {
        ($($view:ident),*) => { [$($view::RESOURCE),*] };
    }

    /// Objects of these kinds have no owners: the garbage collector of Kubernetes ignores Events, and owners of
    /// PriorityClasses do not occur.
    const WITHOUT_VIEW: [&ApiResource; 2] = [kinds::EVENT, kinds::PRIORITY_CLASS];

    #[test]
    fn every_stored_kind_whose_objects_have_owners_has_one_view() {
        let views = with_every_view!(resources);
        let with_view: BTreeSet<&ApiResource> = views.into_iter().collect();
        assert_eq!(with_view.len(), views.len(), "a kind has two views");
        let stored = kinds::ALL.iter().copied().filter(|resource| !resource.is_stored_elsewhere());
        let missing: Vec<&str> = stored
            .filter(|resource| !with_view.contains(resource) && !WITHOUT_VIEW.contains(resource))
            .map(|resource| resource.kind)
            .collect();
        assert!(missing.is_empty(), "no view in with_every_view!: {missing:?}");
    }
}

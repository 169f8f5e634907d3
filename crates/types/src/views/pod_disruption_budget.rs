//! PodDisruptionBudgets as the disruption controller reads them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudgetSpec;
use serde::Deserialize;

use super::meta::{Condition, Index, MetaView};
use crate::kinds;
use crate::views::view;

/// A budget.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudgetView {
    /// Metadata.
    pub metadata: MetaView,
    /// Selector and limits.
    pub spec: PodDisruptionBudgetSpec,
    /// Observed state.
    pub status: PodDisruptionBudgetStatusView,
}

view!(PodDisruptionBudgetView, kinds::POD_DISRUPTION_BUDGET, indexes: [PodDisruptionBudgetView::BY_NAMESPACE]);

impl PodDisruptionBudgetView {
    /// Budgets by namespace.
    pub const BY_NAMESPACE: Index<PodDisruptionBudgetView> =
        Index { name: "namespace", values: |budget| vec![budget.metadata.namespace.clone()] };
}

/// `podDisruptionBudget.status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetStatusView {
    /// The generation for which the status was computed.
    pub observed_generation: i64,
    /// Pods whose eviction the server has accepted and that may still look healthy, with the time of the eviction.
    pub disrupted_pods: BTreeMap<String, Timestamp>,
    /// How many pods may be evicted.
    pub disruptions_allowed: i32,
    /// Number of healthy pods.
    pub current_healthy: i32,
    /// Number of pods that must be healthy.
    pub desired_healthy: i32,
    /// Number of pods that the budget expects.
    pub expected_pods: i32,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

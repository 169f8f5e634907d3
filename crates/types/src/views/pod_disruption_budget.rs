//! PodDisruptionBudgets as the controller that counts for them reads them.

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
    /// Which pods, and how many of them.
    pub spec: PodDisruptionBudgetSpec,
    /// How it stands.
    pub status: PodDisruptionBudgetStatusView,
}

view!(PodDisruptionBudgetView, kinds::POD_DISRUPTION_BUDGET);

impl PodDisruptionBudgetView {
    /// Budgets by their namespace.
    pub const BY_NAMESPACE: Index<PodDisruptionBudgetView> =
        Index { name: "namespace", values: |budget| vec![budget.metadata.namespace.clone()] };
}

/// `podDisruptionBudget.status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetStatusView {
    /// The generation that was counted for.
    pub observed_generation: i64,
    /// Pods whose eviction the server has taken in and that may still look healthy, and since when.
    pub disrupted_pods: BTreeMap<String, Timestamp>,
    /// How many pods may be evicted.
    pub disruptions_allowed: i32,
    /// How many are healthy.
    pub current_healthy: i32,
    /// How many must be.
    pub desired_healthy: i32,
    /// How many there should be.
    pub expected_pods: i32,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

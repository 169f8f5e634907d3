//! Writes the status of a budget.

use api::Timestamp;
use api::clock::rfc3339;
use api::views::{PodDisruptionBudgetStatusView, PodDisruptionBudgetView, View};
use kube::{Client, Error};
use runtime::request::patch;
use runtime::{PatchKind, is_not_found};
use serde_json::{Map, Value, json};

/// Writes `status` unless the budget has it. A budget that changed meanwhile is an error, and is reconciled again.
pub async fn write_status(
    client: &Client,
    budget: &PodDisruptionBudgetView,
    status: &PodDisruptionBudgetStatusView,
    now: Timestamp,
) -> Result<(), Error> {
    if *status == budget.status {
        return Ok(());
    }
    let path = PodDisruptionBudgetView::RESOURCE.object_path(&budget.metadata.key());
    match patch(client, &format!("{path}/status"), PatchKind::Merge, &status_patch(budget, status, now)).await {
        Err(error) if !is_not_found(&error) => Err(error),
        _ => Ok(()),
    }
}

/// The change as a merge patch: evictions that are no longer awaited are removed from the map by name.
fn status_patch(budget: &PodDisruptionBudgetView, status: &PodDisruptionBudgetStatusView, now: Timestamp) -> Value {
    let gone = budget.status.disrupted_pods.keys().filter(|name| !status.disrupted_pods.contains_key(*name));
    let awaited = status.disrupted_pods.iter().map(|(name, since)| (name.clone(), rfc3339(*since).into()));
    let disrupted: Map<String, Value> = gone.map(|name| (name.clone(), Value::Null)).chain(awaited).collect();
    let conditions = status.conditions.iter().map(|condition| {
        let since = rfc3339(condition.last_transition_time.unwrap_or(now));
        json!({
            "type": condition.kind, "status": condition.status, "reason": condition.reason,
            "message": condition.message, "lastTransitionTime": since,
            "observedGeneration": status.observed_generation,
        })
    });
    json!({
        // With the version, so that an eviction that was accepted meanwhile is not overwritten.
        "metadata": {"resourceVersion": budget.metadata.resource_version.to_string(), "uid": budget.metadata.uid},
        "status": {
            "observedGeneration": status.observed_generation,
            "disruptionsAllowed": status.disruptions_allowed,
            "currentHealthy": status.current_healthy,
            "desiredHealthy": status.desired_healthy,
            "expectedPods": status.expected_pods,
            "disruptedPods": disrupted,
            "conditions": conditions.collect::<Vec<_>>(),
        },
    })
}

//! Eviction: deletes a pod within its disruption budgets, and records on the pod that it was evicted.

use std::time::Duration;

use api::clock::rfc3339;
use api::kinds;
use api::policy::{DISRUPTION_ALLOWED, INSUFFICIENT_PODS};
use api::selector::ParsedLabelSelector;
use bytes::Bytes;
use http::Response;
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::{Value, json};
use store::{ListQuery, Op, Precondition, StoredObject};

use crate::read::table;
use crate::resources::object::ApiObject;
use crate::response::body::Body;
use crate::response::status::{ApiResult, Status};
use crate::server::Call;
use crate::write;
use crate::write::delete;

/// The maximum number of evictions that the budget's controller has not confirmed.
const MAX_UNCONFIRMED: usize = 2000;
/// `retryAfterSeconds` while the budget's controller has not observed the last change.
const BEHIND_RETRY_SECONDS: u32 = 10;

/// The maximum number of attempts after conflicts. All evictions of one budget write its status, and of concurrent ones
/// only one succeeds in each round.
const MAX_ATTEMPTS: u32 = 200;
/// The longest pause between two attempts; the first is a millisecond.
const MAX_PAUSE: Duration = Duration::from_millis(50);
/// `retryAfterSeconds` after that many attempts.
const CONFLICT_RETRY_SECONDS: u32 = 1;

/// Evicts the pod in the path.
pub(crate) async fn evict(call: &Call<'_>, body: &Bytes) -> ApiResult<Response<Body>> {
    let eviction: Eviction = serde_json::from_slice(body).map_err(|error| {
        Status::bad_request(format!("Eviction in version \"v1\" cannot be handled as a Eviction: {error}"))
    })?;
    let name = eviction.metadata.name.as_deref().unwrap_or_default();
    if !name.is_empty() && name != call.name() {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = eviction.delete_options.map(|options| serde_json::to_vec(&options).unwrap_or_default());
    let mut options = delete::DeleteOptions::parse(call, &Bytes::from(options.unwrap_or_default()))?;
    let dry_run = call.info.options.dry_run || options.is_dry_run();
    for attempt in 0..MAX_ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(Duration::from_millis(attempt.into()).min(MAX_PAUSE)).await;
        }
        let stored = call.state.store.get(&call.key()).ok_or_else(|| Status::not_found(call.resource, call.name()))?;
        options.check_preconditions(call, &stored)?;
        let pod = ApiObject::from_stored(&stored);
        if !is_budget_exempt(&pod) && !consume_disruption(call, &pod, dry_run).await? {
            continue;
        }
        if !dry_run && !add_disruption_target(call, pod, &stored).await? {
            // The budget now lists the pod by name, and does not count it twice.
            continue;
        }
        // The object was read at the requested version, which has changed since.
        options.require_uid(&stored.meta.uid.to_string());
        delete::delete_one(call, &call.key(), &options).await?;
        return Ok(Status::created().into_response());
    }
    // kubectl fails on a conflict, but retries after this response.
    let cause = "Other changes of the pod or its disruption budget came first each time.".to_owned();
    Err(Status::over_budget(cause, CONFLICT_RETRY_SECONDS))
}

/// Whether no budget counts the pod: it has ended, has never started, or is being deleted.
fn is_budget_exempt(pod: &ApiObject) -> bool {
    pod.is_deleting() || matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed" | "Pending")
}

/// Takes one disruption from the pod's budget, if it has one. `false` after a conflict.
async fn consume_disruption(call: &Call<'_>, pod: &ApiObject, dry_run: bool) -> ApiResult<bool> {
    let mut budgets = budgets_of(call, pod);
    let Some(stored) = budgets.pop() else { return Ok(true) };
    if !budgets.is_empty() {
        let text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(Status::internal(text));
    }
    let mut budget = ApiObject::from_stored(&stored);
    let status = &budget.document()["status"];
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    if !table::is_true(&pod.document()["status"], "Ready") {
        // A pod that is not ready can go if enough others are healthy, or if the budget always allows it.
        let (healthy, desired) = (count("currentHealthy"), count("desiredHealthy"));
        let always = budget.text(&["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
        if always || (healthy >= desired && desired > 0) {
            return Ok(true);
        }
    }
    let unconfirmed = status["disruptedPods"].as_object();
    if unconfirmed.is_some_and(|pods| pods.contains_key(pod.name())) {
        return Ok(true);
    }
    if let Some(refusal) = refusal(call, &budget) {
        return Err(refusal);
    }
    if dry_run {
        return Ok(true);
    }
    record_disruption(&mut budget, pod.name(), &rfc3339(call.state.clock.now()));
    let resource = budget_resource(call);
    let committed =
        write::commit(&Call { resource, ..*call }, &budget, Precondition::At(stored.revision), Op::Put).await?;
    Ok(committed.is_ok())
}

/// Why the budget does not allow the eviction; `None` when it does.
fn refusal(call: &Call<'_>, budget: &ApiObject) -> Option<Status> {
    let (name, document) = (budget.name(), budget.document());
    let status = &document["status"];
    let count = |field: &str| status[field].as_i64().unwrap_or(0);
    let resource = budget_resource(call);
    if count("observedGeneration") < document["metadata"]["generation"].as_i64().unwrap_or(0) {
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        return Some(Status::over_budget(cause, BEHIND_RETRY_SECONDS));
    }
    if count("disruptionsAllowed") < 0 {
        return Some(Status::forbidden(resource, name, "pdb disruptions allowed is negative"));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MAX_UNCONFIRMED) {
        let cause = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Some(Status::forbidden(resource, name, cause));
    }
    (count("disruptionsAllowed") == 0).then(|| {
        let (desired, healthy) = (count("desiredHealthy"), count("currentHealthy"));
        let cause = format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently");
        Status::over_budget(cause, 0)
    })
}

/// Decrements the allowed disruptions, and lists the pod until the budget's controller has observed its deletion.
fn record_disruption(budget: &mut ApiObject, pod: &str, now: &str) {
    let generation = budget.document()["metadata"]["generation"].clone();
    let status = &mut budget.document_mut()["status"];
    let left = status["disruptionsAllowed"].as_i64().unwrap_or(0) - 1;
    status["disruptionsAllowed"] = left.into();
    if !status["disruptedPods"].is_object() {
        status["disruptedPods"] = json!({});
    }
    status["disruptedPods"][pod] = now.into();
    let conditions = status["conditions"].as_array_mut();
    let allowed = conditions.into_iter().flatten().find(|condition| condition["type"] == DISRUPTION_ALLOWED);
    if let Some(condition) = allowed.filter(|_| left == 0) {
        *condition = json!({
            "type": DISRUPTION_ALLOWED, "status": "False", "reason": INSUFFICIENT_PODS, "message": "",
            "observedGeneration": generation, "lastTransitionTime": now,
        });
    }
}

/// The budgets whose selector matches the pod. A pod without labels matches none.
fn budgets_of(call: &Call<'_>, pod: &ApiObject) -> Vec<std::sync::Arc<StoredObject>> {
    let labels = pod.metadata().get("labels").and_then(|labels| api::SmallMap::<String>::deserialize(labels).ok());
    let Some(labels) = labels.filter(|labels| !labels.is_empty()) else { return Vec::new() };
    let resource = budget_resource(call);
    let query = ListQuery { namespace: Some(pod.namespace().to_owned()), ..ListQuery::all(&resource.store_name) };
    let mut selects = |stored: &StoredObject| {
        let budget = ApiObject::from_stored(stored);
        // Without a selector a budget matches no pod; with an empty one, all.
        let selector = budget.document()["spec"].get("selector");
        let selector = selector.and_then(|selector| LabelSelector::deserialize(selector).ok());
        let selector = selector.and_then(|selector| ParsedLabelSelector::from_label_selector(&selector).ok());
        selector.is_some_and(|selector| selector.matches(&labels))
    };
    call.state.store.list(&query, &mut selects).expect("the current revision is never compacted").items
}

fn budget_resource<'a>(call: &Call<'a>) -> &'a crate::Resource {
    call.state.resource_of(kinds::POD_DISRUPTION_BUDGET).expect("disruption budgets are always served")
}

/// Records the reason of the deletion on the pod, so that its Job does not count it as a failure. `false` after a
/// conflict.
async fn add_disruption_target(call: &Call<'_>, mut pod: ApiObject, stored: &StoredObject) -> ApiResult<bool> {
    let now = rfc3339(call.state.clock.now());
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": now,
    });
    // Upstream: also marks pods that have ended. Here their result stays as it is.
    if matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed") {
        return Ok(true);
    }
    let status = &mut pod.document_mut()["status"];
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let conditions = status["conditions"].as_array_mut().expect("set to an array above");
    let is_ours = |condition: &&mut Value| condition["type"] == "DisruptionTarget";
    match conditions.iter_mut().find(is_ours) {
        // The first reason is kept.
        Some(held) if held["status"] == "True" => return Ok(true),
        Some(held) => *held = condition,
        None => conditions.push(condition),
    }
    Ok(write::commit(call, &pod, Precondition::At(stored.revision), Op::Put).await?.is_ok())
}

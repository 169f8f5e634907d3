//! What the server settles before it judges: fields of features that are off go, and a new pod gets its first status.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use serde_json::Value;

use crate::gates::{Gate, Gates};
use crate::quantity::Quantity;

/// Drops what a pod's gates do not allow. `old` is the stored pod when this is an update.
pub fn drop_disabled_pod_fields(pod: &mut Value, old: Option<&Value>, gates: &Gates) {
    drop_disabled_pod_spec_fields(pod.get_mut("spec"), old.and_then(|old| old.get("spec")), gates);
}

/// The same for the spec of a pod or of a pod template.
pub fn drop_disabled_pod_spec_fields(spec: Option<&mut Value>, old: Option<&Value>, gates: &Gates) {
    let was_used = old.is_some_and(|old| old.get("schedulingGroup").is_some());
    if let Some(spec) = spec.and_then(Value::as_object_mut)
        && !gates.enabled(Gate::GenericWorkload)
        && !was_used
    {
        spec.remove("schedulingGroup");
    }
}

/// The class that decides who is evicted first when a node runs short: `Guaranteed`, `Burstable` or `BestEffort`.
/// A new pod's status says it, and it never changes.
pub fn qos_class(spec: &PodSpec) -> &'static str {
    let containers = || spec.containers.iter().chain(spec.init_containers.iter().flatten());
    if containers()
        .all(|container| amounts(container, Side::Requests).is_empty() && amounts(container, Side::Limits).is_empty())
    {
        return "BestEffort";
    }
    let is_guaranteed = |container: &Container| {
        let limits = amounts(container, Side::Limits);
        limits.len() == 2 && amounts(container, Side::Requests) == limits
    };
    if containers().all(is_guaranteed) { "Guaranteed" } else { "Burstable" }
}

enum Side {
    Requests,
    Limits,
}

/// The cpu and memory of a container that are not zero; nothing else counts for the class.
fn amounts(container: &Container, side: Side) -> BTreeMap<&str, Quantity> {
    let resources = container.resources.iter();
    let amounts = resources.filter_map(|resources| match side {
        Side::Requests => resources.requests.as_ref(),
        Side::Limits => resources.limits.as_ref(),
    });
    amounts
        .flatten()
        .filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory"))
        .filter_map(|(name, amount)| Some((name.as_str(), Quantity::parse(&amount.0).ok()?)))
        .filter(|(_, amount)| *amount > Quantity::default())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{drop_disabled_pod_fields, qos_class};
    use crate::gates::{Gate, Gates};

    #[test]
    fn a_group_is_kept_while_its_feature_is_on_or_was_used() {
        let with = json!({"spec": {"schedulingGroup": {"podGroupName": "g"}}});
        let without = json!({"spec": {}});
        let off = Gates::default().with(Gate::GenericWorkload, false);
        for (case, old, gates, want) in [
            ("on", None, Gates::default(), &with),
            ("off", None, off, &without),
            ("off, used before", Some(&with), off, &with),
            ("off, not used before", Some(&without), off, &without),
        ] {
            let mut pod = with.clone();
            drop_disabled_pod_fields(&mut pod, old, &gates);
            assert_eq!(&pod, want, "{case}");
        }
    }
    #[test]
    fn the_class_follows_from_requests_and_limits() {
        let full = json!({"cpu": "1", "memory": "1Gi"});
        for (case, resources, want) in [
            ("nothing", vec![json!({})], "BestEffort"),
            ("only other resources", vec![json!({"limits": {"example.com/x": "1"}})], "BestEffort"),
            ("zero", vec![json!({"requests": {"cpu": "0"}})], "BestEffort"),
            ("all equal", vec![json!({"limits": full, "requests": {"cpu": "1000m", "memory": "1Gi"}})], "Guaranteed"),
            ("one container without", vec![json!({"limits": full, "requests": full}), json!({})], "Burstable"),
            (
                "request below limit",
                vec![json!({"limits": full, "requests": {"cpu": "1", "memory": "1Mi"}})],
                "Burstable",
            ),
            ("only cpu", vec![json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}})], "Burstable"),
        ] {
            let containers: Vec<_> =
                resources.iter().map(|resources| json!({"name": "a", "resources": resources})).collect();
            let spec = serde_json::from_value(json!({"containers": containers})).expect("a pod spec");
            assert_eq!(qos_class(&spec), want, "{case}");
        }
    }
}

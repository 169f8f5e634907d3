//! The resources that a pod requests from its node, including init containers, sidecars and overhead.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::SmallMap;
use crate::quantity::Quantity;

/// Amounts by resource: CPU in thousandths, all others in whole units (bytes, devices).
pub type ResourceAmounts = BTreeMap<String, i64>;

/// The requests of a pod with this spec: the larger of the maximum over the init containers, which run one after
/// another, and the sum of the containers, which run together, plus overhead. Sidecars count in both. Pod-level
/// requests replace the sums. Computed from the document, because the server does it at every bind.
pub fn pod_requests(spec: &Value) -> ResourceAmounts {
    let mut together = ResourceAmounts::new();
    for container in items(&spec["containers"]) {
        add(&mut together, requests_of(container));
    }
    let mut sidecars = ResourceAmounts::new();
    let mut largest_step = ResourceAmounts::new();
    for container in items(&spec["initContainers"]) {
        if container["restartPolicy"] == "Always" {
            add(&mut together, requests_of(container));
            add(&mut sidecars, requests_of(container));
            raise_to_max(&mut largest_step, &sidecars);
        } else {
            let mut step = sidecars.clone();
            add(&mut step, requests_of(container));
            raise_to_max(&mut largest_step, &step);
        }
    }
    raise_to_max(&mut together, &largest_step);
    together.extend(requests_of(spec).map(|(resource, amount)| (resource.clone(), amount)));
    add(&mut together, amounts_in(&spec["overhead"]));
    together.retain(|_, amount| *amount > 0);
    together
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// The requests of a container, or of the pod level.
fn requests_of(of: &Value) -> impl Iterator<Item = (&String, i64)> {
    amounts_in(&of["resources"]["requests"])
}

/// The amounts in a map of resources to quantities, without invalid quantities.
fn amounts_in(quantities: &Value) -> impl Iterator<Item = (&String, i64)> {
    let entries = quantities.as_object().into_iter().flatten();
    entries.filter_map(|(resource, value)| {
        let quantity = match value {
            Value::String(text) => Quantity::parse(text).ok()?,
            number => Quantity::parse(&number.to_string()).ok()?,
        };
        Some((resource, to_resource_unit(resource, quantity)))
    })
}

fn to_resource_unit(resource: &str, quantity: Quantity) -> i64 {
    if resource == "cpu" { quantity.milli_value() } else { quantity.value() }
}

/// Quantities in the unit of their resource.
pub fn amounts(quantities: &SmallMap<Quantity>) -> ResourceAmounts {
    quantities.iter().map(|(resource, quantity)| (resource.to_owned(), to_resource_unit(resource, *quantity))).collect()
}

/// An amount in the usual format: `500m`, `1Gi`, `8`.
pub fn format_amount(resource: &str, amount: i64) -> String {
    let is_bytes = matches!(resource, "memory" | "ephemeral-storage") || resource.starts_with("hugepages-");
    if resource == "cpu" {
        Quantity::milli(amount).to_string()
    } else if is_bytes && amount % 1024 == 0 {
        Quantity::parse(&format!("{}Ki", amount / 1024)).map_or_else(|_| amount.to_string(), |text| text.to_string())
    } else {
        amount.to_string()
    }
}

fn add<'a>(sum: &mut ResourceAmounts, more: impl Iterator<Item = (&'a String, i64)>) {
    for (resource, amount) in more {
        let total = sum.entry(resource.clone()).or_default();
        *total = total.saturating_add(amount);
    }
}

fn raise_to_max(floor: &mut ResourceAmounts, other: &ResourceAmounts) {
    for (resource, amount) in other {
        let value = floor.entry(resource.clone()).or_default();
        *value = (*value).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{format_amount, pod_requests};

    fn cpu(amount: &str) -> Value {
        json!({"requests": {"cpu": amount}})
    }

    #[test]
    fn pod_requests_are_those_of_its_most_demanding_phase() {
        for (case, spec, want) in [
            ("nothing", json!({}), json!({})),
            ("zero", json!({"containers": [{"resources": cpu("0")}]}), json!({})),
            (
                "containers run together",
                json!({"containers": [{"resources": cpu("1")}, {"resources": {"requests": {"cpu": "250m", "memory": "1Ki"}}}]}),
                json!({"cpu": 1250, "memory": 1024}),
            ),
            (
                "init containers one at a time, with the sidecars before them",
                json!({
                    "containers": [{"resources": cpu("1")}],
                    "initContainers": [{"resources": cpu("500m"), "restartPolicy": "Always"}, {"resources": cpu("4")}],
                    "overhead": {"cpu": "100m"},
                }),
                json!({"cpu": 4600}),
            ),
            (
                "pod-level requests",
                json!({"containers": [{"resources": cpu("1")}], "resources": cpu("3")}),
                json!({"cpu": 3000}),
            ),
        ] {
            assert_eq!(json!(pod_requests(&spec)), want, "{case}");
        }
    }

    #[test]
    fn amounts_are_formatted_in_the_usual_units() {
        for (resource, amount, want) in [
            ("cpu", 1500, "1500m"),
            ("cpu", 2000, "2"),
            ("memory", 1 << 30, "1Gi"),
            ("memory", 1000, "1000"),
            ("pods", 1024, "1024"),
        ] {
            assert_eq!(format_amount(resource, amount), want, "{resource}");
        }
    }
}

//! Resources at pod level, in addition to those of containers.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::quantity::Quantity;

type JsonMap = Map<String, Value>;

/// Amounts by resource.
pub(crate) type ResourceSums = BTreeMap<String, Quantity>;

/// Whether the resource can be set at pod level.
pub(crate) fn is_pod_level_resource(resource: &str) -> bool {
    is_overcommittable(resource) || resource.starts_with("hugepages-")
}

/// Whether requests may be lower than limits.
fn is_overcommittable(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory")
}

/// The sum of the containers' `side` (`requests` or `limits`): the larger of the maximum over the init containers,
/// which run one after another, and the sum of the containers, which run together. Sidecars count in both.
pub(crate) fn sum_containers(spec: &JsonMap, side: &str) -> ResourceSums {
    let mut together = ResourceSums::new();
    containers(spec, "containers").for_each(|container| add(&mut together, &amounts(container, side)));
    let (mut sidecars, mut largest_step) = (ResourceSums::new(), ResourceSums::new());
    for container in containers(spec, "initContainers") {
        let own = amounts(container, side);
        let mut step = sidecars.clone();
        add(&mut step, &own);
        if container["restartPolicy"] == "Always" {
            add(&mut together, &own);
            sidecars.clone_from(&step);
        }
        raise_to_max(&mut largest_step, step);
    }
    raise_to_max(&mut together, largest_step);
    together
}

/// Sets the defaults of pod-level resources, if the pod has any: limits that all containers have, the containers'
/// requests, and a request for each limit.
pub(crate) fn set_defaults(spec: &mut JsonMap) {
    let set_amounts =
        |side: &str| spec.get("resources").map(|resources| amounts_in(&resources[side])).unwrap_or_default();
    let (mut requests, mut limits) = (set_amounts("requests"), set_amounts("limits"));
    if requests.is_empty() && limits.is_empty() {
        return;
    }
    let everywhere = |resource: &String| {
        let has = |container: &Value| container["resources"]["limits"].get(resource).is_some();
        ["containers", "initContainers"].into_iter().flat_map(|list| containers(spec, list)).all(has)
    };
    for (resource, sum) in
        sum_containers(spec, "limits").into_iter().filter(|(resource, _)| is_pod_level_resource(resource))
    {
        // The request of huge pages is the limit. One that is set is not changed.
        let follows =
            if is_overcommittable(&resource) { everywhere(&resource) } else { !requests.contains_key(&resource) };
        if follows && !limits.contains_key(&resource) {
            let limit = requests.get(&resource).map_or(sum, |request| sum.max(*request));
            limits.insert(resource, limit);
        }
    }
    for (resource, sum) in
        sum_containers(spec, "requests").into_iter().filter(|(resource, _)| is_overcommittable(resource))
    {
        requests.entry(resource).or_insert(sum);
    }
    for (resource, limit) in limits.iter().filter(|(resource, _)| is_pod_level_resource(resource)) {
        requests.entry(resource.clone()).or_insert(*limit);
    }
    for (side, amounts) in [("requests", requests), ("limits", limits)] {
        let Some(Value::Object(resources)) = spec.get_mut("resources") else { return };
        let current = resources.entry(side).or_insert_with(|| json!({}));
        let Value::Object(current) = current else { continue };
        for (resource, amount) in amounts {
            current.entry(resource).or_insert_with(|| json!(amount.to_string()));
        }
        if current.is_empty() {
            resources.remove(side);
        }
    }
}

fn containers<'a>(spec: &'a JsonMap, list: &str) -> impl Iterator<Item = &'a Value> {
    spec.get(list).and_then(Value::as_array).into_iter().flatten()
}

fn amounts(container: &Value, side: &str) -> ResourceSums {
    amounts_in(&container["resources"][side])
}

/// The amounts in a map of resources to quantities, without invalid quantities.
fn amounts_in(quantities: &Value) -> ResourceSums {
    let entries = quantities.as_object().into_iter().flatten();
    let read = |(resource, value): (&String, &Value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some((resource.clone(), Quantity::parse(&text).ok()?))
    };
    entries.filter_map(read).collect()
}

fn add(sums: &mut ResourceSums, more: &ResourceSums) {
    for (resource, amount) in more {
        let sum = sums.entry(resource.clone()).or_default();
        *sum = sum.plus(*amount);
    }
}

fn raise_to_max(floor: &mut ResourceSums, other: ResourceSums) {
    for (resource, amount) in other {
        let sum = floor.entry(resource).or_insert(amount);
        *sum = (*sum).max(amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::set_defaults;

    fn container(limits: Value, requests: Value) -> Value {
        json!({"resources": {"limits": limits, "requests": requests}})
    }

    // Each row is the response of the real server.
    #[test]
    fn pod_level_resources_default_to_those_of_the_containers() {
        let cpu = |amount: &str| json!({"cpu": amount});
        let expected = |limits: Value, requests: Value| json!({"limits": limits, "requests": requests});
        for (case, resources, containers, init, want) in [
            ("nothing", json!({}), json!([container(cpu("1"), cpu("1"))]), json!([]), json!({})),
            ("a limit", json!({"limits": cpu("2")}), json!([{}]), json!([]), expected(cpu("2"), cpu("2"))),
            (
                "a limit and a container's request",
                json!({"limits": cpu("2")}),
                json!([container(json!({}), cpu("500m"))]),
                json!([]),
                expected(cpu("2"), cpu("500m")),
            ),
            (
                "an init container requests more",
                json!({"limits": cpu("2")}),
                json!([container(json!({}), cpu("500m"))]),
                json!([container(json!({}), cpu("1"))]),
                expected(cpu("2"), cpu("1")),
            ),
            (
                "one container of two has a limit",
                json!({"requests": cpu("3")}),
                json!([container(cpu("1"), cpu("1")), {}]),
                json!([]),
                json!({"requests": cpu("3")}),
            ),
            (
                "all containers have a limit, and less than is requested",
                json!({"requests": cpu("5")}),
                json!([container(cpu("2"), cpu("2"))]),
                json!([container(cpu("4"), cpu("4"))]),
                expected(cpu("5"), cpu("5")),
            ),
            (
                "huge pages of one container",
                json!({"requests": {"memory": "4Gi"}}),
                json!([container(json!({"hugepages-2Mi": "2Mi"}), json!({"hugepages-2Mi": "2Mi"})), {}]),
                json!([]),
                expected(json!({"hugepages-2Mi": "2Mi"}), json!({"hugepages-2Mi": "2Mi", "memory": "4Gi"})),
            ),
            (
                "huge pages that are requested have a limit or none",
                json!({"requests": {"hugepages-2Mi": "4Mi"}}),
                json!([container(json!({"hugepages-2Mi": "2Mi"}), json!({"hugepages-2Mi": "2Mi"}))]),
                json!([]),
                json!({"requests": {"hugepages-2Mi": "4Mi"}}),
            ),
            (
                "a limit of a resource that is not allowed at pod level",
                json!({"limits": {"a.com/x": "1"}}),
                json!([{}]),
                json!([]),
                json!({"limits": {"a.com/x": "1"}}),
            ),
            (
                "other resources are not set at pod level",
                json!({"requests": cpu("4")}),
                json!([container(json!({"a.com/x": "1"}), json!({"a.com/x": "1", "memory": "1Gi"}))]),
                json!([]),
                json!({"requests": {"cpu": "4", "memory": "1Gi"}}),
            ),
            (
                "a sum has the suffix of its first amount",
                json!({"limits": {"memory": "1G"}}),
                json!([
                    container(json!({}), json!({"memory": "500M"})),
                    container(json!({}), json!({"memory": "1Ki"}))
                ]),
                json!([]),
                expected(json!({"memory": "1G"}), json!({"memory": "500001024"})),
            ),
        ] {
            let mut spec = json!({"resources": resources, "containers": containers, "initContainers": init});
            set_defaults(spec.as_object_mut().expect("an object"));
            assert_eq!(spec["resources"], want, "{case}");
            let once = spec.clone();
            set_defaults(spec.as_object_mut().expect("an object"));
            assert_eq!(spec, once, "{case}, twice");
        }
    }
}

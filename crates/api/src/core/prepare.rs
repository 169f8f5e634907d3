//! Changes by the server before validation: fields of disabled features are dropped, and a new pod gets its status.

use serde_json::{Map, Value, json};

use crate::gates::{Gate, Gates};

/// Drops the fields of a pod whose gates are off. `old` is the stored pod if this is an update.
pub fn drop_disabled_pod_fields(pod: &mut Value, old: Option<&Value>, gates: &Gates) {
    drop_disabled_pod_spec_fields(pod.get_mut("spec"), old.and_then(|old| old.get("spec")), gates);
}

/// As [`drop_disabled_pod_fields`], for the spec of a pod or of a pod template.
pub fn drop_disabled_pod_spec_fields(spec: Option<&mut Value>, old: Option<&Value>, gates: &Gates) {
    let Some(spec) = spec.and_then(Value::as_object_mut) else { return };
    // No component handles eviction responders, so the field is dropped, as upstream while its gate is off (default).
    for (field, enabled) in [("schedulingGroup", gates.enabled(Gate::GenericWorkload)), ("evictionResponders", false)] {
        let was_used = old.is_some_and(|old| old.get(field).is_some());
        if !enabled && !was_used {
            spec.remove(field);
        }
    }
    drop_unsupported_fields(spec);
}

/// Drops fields that the schema has but no feature here uses, as upstream while the gates are off. So no stored object
/// has them.
fn drop_unsupported_fields(spec: &mut Map<String, Value>) {
    for volume in items(spec.get_mut("volumes")) {
        if let Some(Value::Object(directory)) = volume.get_mut("emptyDir") {
            directory.remove("mode");
        }
        for source in ["configMap", "secret", "downwardAPI", "projected"] {
            volume.get_mut(source).into_iter().for_each(|source| drop_recursively(source, &["user", "defaultUser"]));
        }
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in items(spec.get_mut(list)) {
            for part in ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle"] {
                container.get_mut(part).into_iter().for_each(|part| drop_recursively(part, &["protocol"]));
            }
            items(container.get_mut("volumeMounts")).for_each(|mount| drop(mount.remove("bindMountOptions")));
            let Some(Value::Object(lifecycle)) = container.get_mut("lifecycle") else { continue };
            if lifecycle.remove("stopSignal").is_some() && lifecycle.is_empty() {
                container.remove("lifecycle");
            }
        }
    }
}

fn drop_recursively(value: &mut Value, names: &[&str]) {
    match value {
        Value::Object(fields) => {
            names.iter().for_each(|name| drop(fields.remove(*name)));
            fields.values_mut().for_each(|value| drop_recursively(value, names));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| drop_recursively(item, names)),
        _ => {}
    }
}

/// The objects of a list.
fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    list.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Merges `matchLabelKeys` and `mismatchLabelKeys` of a new pod into their selectors, so that readers of the pod need
/// not read its labels.
pub fn merge_label_keys(pod: &mut Value) {
    let labels = pod.pointer("/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default();
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    items(spec.get_mut("topologySpreadConstraints")).for_each(|constraint| merge_into_selector(constraint, &labels));
    let Some(Value::Object(affinity)) = spec.get_mut("affinity") else { return };
    for part in ["podAffinity", "podAntiAffinity"] {
        let Some(part) = affinity.get_mut(part) else { continue };
        let required = items(part.get_mut("requiredDuringSchedulingIgnoredDuringExecution"));
        required.for_each(|term| merge_into_selector(term, &labels));
        for preferred in items(part.get_mut("preferredDuringSchedulingIgnoredDuringExecution")) {
            let term = preferred.get_mut("podAffinityTerm").and_then(Value::as_object_mut);
            term.into_iter().for_each(|term| merge_into_selector(term, &labels));
        }
    }
}

fn merge_into_selector(term: &mut Map<String, Value>, labels: &Map<String, Value>) {
    let mut requirements = Vec::new();
    for (list, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        let keys = term.get(list).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let values = keys.filter_map(|key| Some((key, labels.get(key)?)));
        requirements.extend(values.map(|(key, value)| json!({"key": key, "operator": operator, "values": [value]})));
    }
    let Some(Value::Object(selector)) = term.get_mut("labelSelector").filter(|_| !requirements.is_empty()) else {
        return;
    };
    match selector.get_mut("matchExpressions") {
        Some(Value::Array(expressions)) => expressions.extend(requirements),
        _ => drop(selector.insert("matchExpressions".to_owned(), Value::Array(requirements))),
    }
}

/// Makes `podIP` and `podIPs` agree. The older field, with one address, wins.
pub fn normalize_pod_ips(status: &mut Value) {
    let first = status.pointer("/podIPs/0/ip").and_then(Value::as_str).unwrap_or_default().to_owned();
    let one = status.get("podIP").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(status) = status.as_object_mut() else { return };
    if !one.is_empty() && one != first {
        status.insert("podIPs".to_owned(), json!([{ "ip": one }]));
    } else if one.is_empty() && !first.is_empty() {
        status.insert("podIP".to_owned(), json!(first));
    }
}

/// Drops fields of a status that the schema has but no feature here uses, and keeps the observed generation.
pub fn normalize_pod_status(status: &mut Value, old: &Value) {
    let Some(fields) = status.as_object_mut() else { return };
    fields.remove("nodeAllocatableResourceClaimStatuses");
    fields.remove("volumeHealth");
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        for container in items(fields.get_mut(list)) {
            items(container.get_mut("volumeMounts")).for_each(|mount| drop(mount.remove("volumeStatus")));
        }
    }
    // A writer that does not set the observed generation does not reset it.
    if let (None, Some(observed)) = (fields.get("observedGeneration"), old.get("observedGeneration")) {
        fields.insert("observedGeneration".to_owned(), observed.clone());
    }
}

/// An update that leaves out the pod-level resources does not change them.
pub fn keep_pod_level_resources(pod: &mut Value, old: &Value) {
    let Some(before) = old.pointer("/spec/resources") else { return };
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.entry("resources").or_insert_with(|| before.clone());
    }
}

/// The class that decides which pods are evicted first on a node with too few resources: `Guaranteed`, `Burstable` or
/// `BestEffort`. It is in the status of a new pod and never changes. Quantities are canonical here, so equal amounts
/// are equal strings.
pub fn qos_class(spec: &Value) -> &'static str {
    let is_set = |side: &str| spec["resources"][side].as_object().is_some_and(|amounts| !amounts.is_empty());
    let lists = ["containers", "initContainers"].iter().filter_map(|list| spec[*list].as_array());
    let has_pod_level = is_set("requests") || is_set("limits");
    let all: Vec<&Value> = if has_pod_level { vec![spec] } else { lists.flatten().collect() };
    let (mut any, mut guaranteed) = (false, true);
    for (resources, name) in all.iter().flat_map(|of| ["cpu", "memory"].map(|name| (&of["resources"], name))) {
        let positive = |side: &str| Some(&resources[side][name]).filter(|amount| !amount.is_null() && **amount != "0");
        let (request, limit) = (positive("requests"), positive("limits"));
        any |= request.is_some() || limit.is_some();
        guaranteed &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        drop_disabled_pod_fields, keep_pod_level_resources, merge_label_keys, normalize_pod_ips, normalize_pod_status,
        qos_class,
    };
    use crate::gates::{Gate, Gates};

    #[test]
    fn scheduling_group_is_kept_while_its_gate_is_on_or_it_was_set() {
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
    fn fields_that_no_feature_uses_are_dropped() {
        let mut pod = json!({"spec": {
            "volumes": [
                {"emptyDir": {"mode": 1, "medium": "Memory"}},
                {"configMap": {"defaultUser": 1, "items": [{"key": "a", "user": 2}]}},
                {"rbd": {"user": "kept"}},
            ],
            "containers": [
                {"lifecycle": {"stopSignal": "SIGTERM"}, "ports": [{"protocol": "TCP"}], "volumeMounts": [{"bindMountOptions": []}]},
                {"lifecycle": {"stopSignal": "", "preStop": {"httpGet": {"port": 1, "protocol": "x"}}}},
            ],
        }});
        drop_disabled_pod_fields(&mut pod, None, &Gates::default());
        let want = json!({"spec": {
            "volumes": [
                {"emptyDir": {"medium": "Memory"}}, {"configMap": {"items": [{"key": "a"}]}}, {"rbd": {"user": "kept"}}],
            "containers": [
                {"ports": [{"protocol": "TCP"}], "volumeMounts": [{}]}, {"lifecycle": {"preStop": {"httpGet": {"port": 1}}}}],
        }});
        assert_eq!(pod, want);
    }

    #[test]
    fn label_keys_of_a_new_pod_are_merged_into_its_selectors() {
        let mut pod = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {
            "topologySpreadConstraints": [
                {"labelSelector": {"matchLabels": {"x": "y"}}, "matchLabelKeys": ["a", "unknown"]},
                {"matchLabelKeys": ["a"]},
            ],
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {
                "labelSelector": {"matchExpressions": [{"key": "z", "operator": "Exists"}]},
                "matchLabelKeys": ["a"], "mismatchLabelKeys": ["b"]}}]}},
        }});
        merge_label_keys(&mut pod);
        let (a, b) = (
            json!({"key": "a", "operator": "In", "values": ["1"]}),
            json!({"key": "b", "operator": "NotIn", "values": ["2"]}),
        );
        let spread = &pod["spec"]["topologySpreadConstraints"];
        assert_eq!(spread[0]["labelSelector"], json!({"matchLabels": {"x": "y"}, "matchExpressions": [a]}));
        assert_eq!(spread[1], json!({"matchLabelKeys": ["a"]}));
        let terms = &pod["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
        let want = json!({"matchExpressions": [{"key": "z", "operator": "Exists"}, a, b]});
        assert_eq!(terms[0]["podAffinityTerm"]["labelSelector"], want);
    }

    #[test]
    fn older_address_field_wins() {
        let both = |one: &str, all: &[&str]| json!({"podIP": one, "podIPs": all.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>()});
        for (mut status, want) in [
            (json!({"podIP": "1.1.1.1"}), both("1.1.1.1", &["1.1.1.1"])),
            (json!({"podIPs": [{"ip": "1.1.1.1"}]}), both("1.1.1.1", &["1.1.1.1"])),
            (both("1.1.1.1", &["2.2.2.2", "::1"]), both("1.1.1.1", &["1.1.1.1"])),
            (both("1.1.1.1", &["1.1.1.1", "::1"]), both("1.1.1.1", &["1.1.1.1", "::1"])),
            (json!({}), json!({})),
        ] {
            normalize_pod_ips(&mut status);
            assert_eq!(status, want);
        }
    }

    #[test]
    fn status_update_keeps_generation_and_drops_unsupported_fields() {
        let mut status = json!({
            "volumeHealth": [], "containerStatuses": [{"volumeMounts": [{"name": "v", "volumeStatus": {}}]}]});
        normalize_pod_status(&mut status, &json!({"observedGeneration": 3}));
        let want = json!({"observedGeneration": 3, "containerStatuses": [{"volumeMounts": [{"name": "v"}]}]});
        assert_eq!(status, want);
        normalize_pod_status(&mut status, &json!({"observedGeneration": 4}));
        assert_eq!(status, want, "a set value is kept");
    }

    #[test]
    fn pod_level_resources_are_kept_if_an_update_leaves_them_out() {
        let old = json!({"spec": {"resources": {"requests": {"cpu": "1"}}}});
        for (mut pod, want) in [
            (json!({"spec": {}}), old.clone()),
            (json!({"spec": {"resources": {}}}), json!({"spec": {"resources": {}}})),
        ] {
            keep_pod_level_resources(&mut pod, &old);
            assert_eq!(pod, want);
        }
    }

    #[test]
    fn qos_class_depends_on_requests_and_limits() {
        let full = json!({"cpu": "1", "memory": "1Gi"});
        for (case, resources, want) in [
            ("nothing", vec![json!({})], "BestEffort"),
            ("only other resources", vec![json!({"limits": {"example.com/x": "1"}})], "BestEffort"),
            ("zero", vec![json!({"requests": {"cpu": "0"}})], "BestEffort"),
            ("all equal", vec![json!({"limits": full, "requests": {"cpu": "1", "memory": "1Gi"}})], "Guaranteed"),
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
            assert_eq!(qos_class(&json!({"containers": containers})), want, "{case}");
        }
        let whole = |resources: serde_json::Value| {
            let containers = json!([{"resources": {"requests": {"cpu": "1"}}}]);
            qos_class(&json!({"resources": resources, "containers": containers}))
        };
        assert_eq!(
            whole(json!({"limits": full, "requests": full})),
            "Guaranteed",
            "the pod level counts, not the containers"
        );
        assert_eq!(whole(json!({"requests": {"cpu": "0"}})), "BestEffort");
        assert_eq!(whole(json!({})), "Burstable", "no pod-level resources");
    }
}

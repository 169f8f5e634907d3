//! Tables of documents and their errors.

mod events; // Events

use k8s_openapi::api::core::v1::{Binding, Namespace, Node, Pod};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{binding, namespace, node, pod, pod_status, validate_pod_template};
use crate::core::defaults::{set_pod_defaults, set_pod_spec_defaults};
use crate::field::{ErrorList, Path};
use crate::gates::Gates;

fn texts(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn typed<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a decodable object")
}

/// Merges `over` into `base`, as a merge patch does.
fn merged(mut base: Value, over: Value) -> Value {
    match (&mut base, over) {
        (Value::Object(fields), Value::Object(over)) => {
            for (name, value) in over {
                let merged = merged(fields.remove(&name).unwrap_or(Value::Null), value);
                fields.insert(name, merged);
            }
            base
        }
        (_, over) => over,
    }
}

/// A valid pod with changes to its spec, with the server's defaults.
fn pod_with(spec: Value) -> Pod {
    let base = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u"},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    });
    let mut document = merged(base, json!({ "spec": spec }));
    set_pod_defaults(&mut document, &Gates::default());
    typed(document)
}

fn container_with(part: Value) -> Value {
    json!({"containers": [merged(json!({"name": "main", "image": "x"}), part)]})
}

fn refusals(spec: Value) -> Vec<String> {
    texts(&pod::validate_create(&pod_with(spec), &Gates::default()))
}

#[test]
fn containers_need_names_and_images() {
    for (case, spec, want) in [
        ("good", json!({}), vec![]),
        ("none", json!({"containers": []}), vec!["spec.containers: Required value"]),
        (
            "empty",
            json!({"containers": [{"name": "", "image": ""}]}),
            vec!["spec.containers[0].name: Required value", "spec.containers[0].image: Required value"],
        ),
        (
            "dotted",
            container_with(json!({"name": "a.b"})),
            vec!["spec.containers[0].name: Invalid value: \"a.b\": must not contain dots"],
        ),
        (
            "twice",
            json!({"initContainers": [{"name": "main", "image": "x"}]}),
            vec!["spec.initContainers[0].name: Duplicate value: \"main\""],
        ),
        (
            "whitespace around the image",
            container_with(json!({"image": " x"})),
            vec!["spec.containers[0].image: Invalid value: \" x\": must not have leading or trailing whitespace"],
        ),
        (
            "pull policy",
            container_with(json!({"imagePullPolicy": "Often"})),
            vec![
                "spec.containers[0].imagePullPolicy: Unsupported value: \"Often\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
            ],
        ),
        (
            "mount",
            container_with(json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]})),
            vec!["spec.containers[0].volumeMounts[0].name: Not found: \"v\""],
        ),
    ] {
        assert_eq!(refusals(spec), want, "{case}");
    }
}

#[test]
fn requests_are_within_limits_and_extended_resources_are_integers() {
    for (case, resources, want) in [
        ("good", json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}}), vec![]),
        ("device", json!({"limits": {"nvidia.com/gpu": "8"}}), vec![]),
        (
            "negative",
            json!({"requests": {"cpu": "-1"}}),
            vec!["resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"],
        ),
        (
            "above limit",
            json!({"requests": {"cpu": "2000m"}, "limits": {"cpu": "1"}}),
            vec!["resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"],
        ),
        (
            "fraction of a device",
            json!({"limits": {"nvidia.com/gpu": "500m"}}),
            vec![
                "resources.limits[nvidia.com/gpu]: Invalid value: \"500m\": must be an integer",
                "resources.requests[nvidia.com/gpu]: Invalid value: \"500m\": must be an integer",
            ],
        ),
        (
            "fewer devices than the limit",
            json!({"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}),
            vec!["resources.requests: Invalid value: \"1\": must be equal to nvidia.com/gpu limit of 2"],
        ),
        (
            "devices without a limit",
            json!({"requests": {"nvidia.com/gpu": "1"}}),
            vec!["resources.limits: Required value: Limit must be set for non overcommitable resources"],
        ),
        (
            "unknown name",
            json!({"requests": {"gpu": "1"}}),
            vec![
                "resources.requests[gpu]: Invalid value: \"gpu\": must be a standard resource type or fully qualified",
                "resources.requests[gpu]: Invalid value: \"gpu\": must be a standard resource for containers",
            ],
        ),
        (
            "not for containers",
            json!({"requests": {"pods": "1"}}),
            vec!["resources.requests[pods]: Invalid value: \"pods\": must be a standard resource for containers"],
        ),
        (
            "huge pages alone",
            json!({"limits": {"hugepages-2Mi": "4Mi"}}),
            vec!["resources: Forbidden: HugePages require cpu or memory"],
        ),
    ] {
        let want: Vec<String> = want.iter().map(|text| format!("spec.containers[0].{text}")).collect();
        assert_eq!(refusals(container_with(json!({ "resources": resources }))), want, "{case}");
    }
}

#[test]
fn ports_are_in_range_and_unique() {
    for (case, spec, want) in [
        ("good", container_with(json!({"ports": [{"containerPort": 80, "name": "http"}]})), vec![]),
        (
            "range",
            container_with(json!({"ports": [{"containerPort": 0}, {"containerPort": 65536, "hostPort": -1}]})),
            vec![
                "spec.containers[0].ports[0].containerPort: Required value",
                "spec.containers[0].ports[1].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
                "spec.containers[0].ports[1].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            "twice",
            container_with(
                json!({"ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]}),
            ),
            vec!["spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//80\""],
        ),
        (
            "protocol",
            container_with(json!({"ports": [{"containerPort": 80, "protocol": "X"}]})),
            vec![
                "spec.containers[0].ports[0].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
            ],
        ),
        (
            "host network",
            merged(
                container_with(json!({"ports": [{"containerPort": 80, "hostPort": 81}]})),
                json!({"hostNetwork": true}),
            ),
            vec![
                "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true",
            ],
        ),
    ] {
        assert_eq!(refusals(spec), want, "{case}");
    }
}

#[test]
fn policies_and_names_are_validated() {
    for (case, spec, want) in [
        (
            "restart",
            json!({"restartPolicy": "Maybe"}),
            vec![
                "spec.restartPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \"OnFailure\", \"Never\"",
            ],
        ),
        (
            "deadline",
            json!({"activeDeadlineSeconds": 0}),
            vec!["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
        (
            "gates and node",
            json!({"schedulingGates": [{"name": "e.io/a"}, {"name": "e.io/a"}], "nodeName": "n"}),
            vec![
                "spec.schedulingGates[1]: Duplicate value: \"e.io/a\"",
                "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
            ],
        ),
        ("group", json!({"schedulingGroup": {"podGroupName": "trainer-x1"}}), vec![]),
        (
            "group without a name",
            json!({"schedulingGroup": {}}),
            vec!["spec.schedulingGroup.podGroupName: Invalid value: null: must specify one of: `podGroupName`"],
        ),
    ] {
        assert_eq!(refusals(spec), want, "{case}");
    }
    let bad_group = refusals(json!({"schedulingGroup": {"podGroupName": "A"}}));
    assert!(bad_group[0].starts_with("spec.schedulingGroup.podGroupName: Invalid value: \"A\": a lowercase RFC 1123"));
}

#[test]
fn tolerations_are_validated_by_operator() {
    for (case, toleration, want) in [
        ("equal", json!({"key": "a", "value": "b", "effect": "NoSchedule"}), vec![]),
        ("everything", json!({"operator": "Exists"}), vec![]),
        ("less", json!({"key": "a", "operator": "Lt", "value": "5"}), vec![]),
        (
            "no key",
            json!({"value": "b"}),
            vec![
                "operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ],
        ),
        (
            "value of exists",
            json!({"key": "a", "operator": "Exists", "value": "b"}),
            vec!["operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'"],
        ),
        (
            "operator",
            json!({"key": "a", "operator": "Near"}),
            vec!["operator: Unsupported value: \"Near\": supported values: \"Equal\", \"Exists\""],
        ),
        (
            "seconds",
            json!({"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}),
            vec!["effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set"],
        ),
        (
            "effect",
            json!({"key": "a", "effect": "Never"}),
            vec![
                "effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
            ],
        ),
        (
            "number",
            json!({"key": "a", "operator": "Gt", "value": "05"}),
            vec!["value: Invalid value: \"05\": must be a valid decimal integer in canonical form"],
        ),
    ] {
        let want: Vec<String> = want.iter().map(|text| format!("spec.tolerations[0].{text}")).collect();
        assert_eq!(refusals(json!({ "tolerations": [toleration] })), want, "{case}");
    }
}

#[test]
fn node_affinity_has_terms_and_values() {
    const REQUIRED: &str =
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let expression = |value: Value| json!([{ "matchExpressions": [value] }]);
    for (case, terms, want) in [
        ("good", expression(json!({"key": "zone", "operator": "In", "values": ["a"]})), vec![]),
        ("none", json!([]), vec![": Required value: must have at least one node selector term"]),
        (
            "no values",
            expression(json!({"key": "zone", "operator": "In"})),
            vec![
                "[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            ],
        ),
        (
            "two numbers",
            expression(json!({"key": "n", "operator": "Gt", "values": ["1", "2"]})),
            vec![
                "[0].matchExpressions[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
            ],
        ),
        (
            "operator",
            expression(json!({"key": "n", "operator": "Near"})),
            vec!["[0].matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator"],
        ),
        (
            "field",
            json!([{"matchFields": [{"key": "spec.x", "operator": "In", "values": ["a"]}]}]),
            vec!["[0].matchFields[0].key: Invalid value: \"spec.x\": not a valid field selector key"],
        ),
    ] {
        let spec = json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
        let want: Vec<String> = want.iter().map(|text| format!("{REQUIRED}{text}")).collect();
        assert_eq!(refusals(spec), want, "{case}");
    }
}

#[test]
fn template_may_leave_out_host_ports() {
    let mut spec =
        json!({"hostNetwork": true, "containers": [{"name": "a", "image": "x", "ports": [{"containerPort": 80}]}]});
    set_pod_spec_defaults(&mut spec);
    let template = typed(json!({"metadata": {"labels": {"a": "b"}}, "spec": spec}));
    assert_eq!(texts(&validate_pod_template(&template, &Path::new("spec.template"))), Vec::<String>::new());
}

const ONLY: &str = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\nchanged: ";

#[test]
fn few_fields_of_a_pod_are_mutable() {
    let old = json!({"tolerations": [{"key": "a", "operator": "Exists"}], "activeDeadlineSeconds": 60});
    let frozen = |fields: &str| format!("{ONLY}{fields}");
    for (case, change, want) in [
        ("nothing", json!({}), vec![]),
        ("image", container_with(json!({"image": "y", "imagePullPolicy": "Always"})), vec![]),
        (
            "added toleration",
            json!({"tolerations": [{"operator": "Exists"}, {"key": "a", "operator": "Exists"}]}),
            vec![],
        ),
        ("nearer deadline", json!({"activeDeadlineSeconds": 30}), vec![]),
        (
            "later deadline",
            json!({"activeDeadlineSeconds": 90}),
            vec![
                "spec.activeDeadlineSeconds: Invalid value: 90: must be less than or equal to previous value"
                    .to_owned(),
            ],
        ),
        (
            "no deadline",
            json!({"activeDeadlineSeconds": null}),
            vec![
                "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"
                    .to_owned(),
            ],
        ),
        (
            "removed toleration",
            json!({"tolerations": []}),
            vec![
                "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
                    .to_owned(),
            ],
        ),
        ("node", json!({"nodeName": "b"}), vec![frozen("spec.nodeName")]),
        ("group", json!({"schedulingGroup": {"podGroupName": "g"}}), vec![frozen("spec.schedulingGroup")]),
        (
            "two fields",
            json!({"priority": 5, "nodeSelector": {"a": "b"}}),
            vec![frozen("spec.nodeSelector, spec.priority")],
        ),
        (
            "added container",
            json!({"containers": [{"name": "main", "image": "x"}, {"name": "b", "image": "x"}]}),
            vec!["spec.containers: Forbidden: pod updates may not add or remove containers".to_owned()],
        ),
    ] {
        let new = pod_with(merged(old.clone(), change));
        let errors = pod::validate_update(&new, &pod_with(old.clone()), &Gates::default());
        assert_eq!(texts(&errors), want, "{case}");
    }
}

#[test]
fn gates_can_be_removed_and_node_selector_narrowed() {
    let old = json!({"schedulingGates": [{"name": "e.io/a"}], "nodeSelector": {"a": "b"}});
    for (case, change, want) in [
        ("released", json!({"schedulingGates": []}), vec![]),
        ("narrowed", json!({"nodeSelector": {"c": "d"}}), vec![]),
        (
            "moved",
            json!({"nodeSelector": {"a": "c"}}),
            vec![
                "spec.nodeSelector: Invalid value: {\"a\":\"c\"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)",
            ],
        ),
        (
            "gated again",
            json!({"schedulingGates": [{"name": "e.io/b"}]}),
            vec![
                "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'e.io/b'",
            ],
        ),
    ] {
        let new = pod_with(merged(old.clone(), change));
        let errors = pod::validate_update(&new, &pod_with(old.clone()), &Gates::default());
        assert_eq!(texts(&errors), want, "{case}");
    }
}

#[test]
fn status_update_does_not_change_the_node() {
    let old: Pod = typed(json!({"spec": {"containers": [], "nodeName": "a"}, "status": {"qosClass": "BestEffort"}}));
    for (case, new, want) in [
        (
            "phase",
            json!({"spec": {"containers": [], "nodeName": "a"}, "status": {"phase": "Running", "qosClass": "BestEffort"}}),
            vec![],
        ),
        (
            "node and class",
            json!({"spec": {"containers": [], "nodeName": "b"}, "status": {"qosClass": "Burstable"}}),
            vec![
                "status.nodeName: Forbidden: may not be changed directly",
                "status.qosClass: Invalid value: \"Burstable\": field is immutable",
            ],
        ),
        (
            "nominated",
            json!({"spec": {"containers": [], "nodeName": "a"}, "status": {"nominatedNodeName": "c", "qosClass": "BestEffort"}}),
            vec!["status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"],
        ),
    ] {
        assert_eq!(texts(&pod_status::validate_update(&typed(new), &old, &Gates::default())), want, "{case}");
    }
}

#[test]
fn binding_targets_a_node() {
    for (case, target, want) in [
        ("node", json!({"kind": "Node", "name": "a"}), vec![]),
        ("no kind", json!({"name": "a"}), vec![]),
        ("no name", json!({"kind": "Node"}), vec!["target.name: Required value"]),
        (
            "other kind",
            json!({"kind": "Pod", "name": "a"}),
            vec!["target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\""],
        ),
    ] {
        let binding: Binding = typed(json!({"target": target}));
        assert_eq!(texts(&binding::validate_create(&binding)), want, "{case}");
    }
}

#[test]
fn nodes_have_unique_taints_and_valid_amounts() {
    for (case, part, want) in [
        (
            "good",
            json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}, "status": {"capacity": {"cpu": "4"}}}),
            vec![],
        ),
        (
            "taints",
            json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}, {"key": "b", "effect": ""}]}}),
            vec![
                "spec.taints[1]: Duplicate value: {\"effect\":\"NoExecute\",\"key\":\"a\"}: taints must be unique by key and effect pair",
                "spec.taints[2].effect: Required value",
            ],
        ),
        (
            "amounts",
            json!({"status": {"capacity": {"cpu": "-4", "pods": "1.5"}}}),
            vec![
                "status.capacity.cpu: Invalid value: \"-4\": must be greater than or equal to 0",
                "status.capacity.pods: Invalid value: \"1500m\": must be an integer",
            ],
        ),
    ] {
        let node: Node = typed(merged(json!({"metadata": {"name": "a"}}), part));
        assert_eq!(texts(&node::validate_create(&node, &Gates::default())), want, "{case}");
    }
    let with = |spec: Value| -> Node { typed(json!({"metadata": {"name": "a"}, "spec": spec})) };
    let errors =
        node::validate_update(&with(json!({"providerID": "y"})), &with(json!({"providerID": "x"})), &Gates::default());
    assert_eq!(texts(&errors), ["spec.providerID: Invalid value: null: field cannot be modified once set"]);
    assert!(
        node::validate_update(&with(json!({"unschedulable": true})), &with(json!({})), &Gates::default()).is_empty()
    );
}

#[test]
fn namespace_name_is_a_label_and_phase_matches_deletion() {
    let named = |name: &str| -> Namespace { typed(json!({"metadata": {"name": name}})) };
    assert!(namespace::validate_create(&named("a"), &Gates::default()).is_empty());
    assert_eq!(
        texts(&namespace::validate_create(&named("a.b"), &Gates::default())),
        ["metadata.name: Invalid value: \"a.b\": must not contain dots"]
    );
    let active: Namespace = typed(json!({"metadata": {"name": "a"}, "status": {"phase": "Active"}}));
    let ending: Namespace = typed(json!({"metadata": {"name": "a"}, "status": {"phase": "Terminating"}}));
    assert!(namespace::validate_status_update(&active, &active, &Gates::default()).is_empty());
    assert_eq!(
        texts(&namespace::validate_status_update(&ending, &active, &Gates::default())),
        ["status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"]
    );
}

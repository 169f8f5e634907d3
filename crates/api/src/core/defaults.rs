//! Fills in what a user left out, on the raw document, so that an unknown field survives and nothing is decoded twice.
//!
//! What a kind gets is written down as a table of rules, and one routine (`fill`) carries the tables out.
//! A field counts as left out when it is absent, `null` or the empty text, as it does for Kubernetes.
//! A part of the wrong type is left alone: the schema check has named it before.

use serde_json::{Map, Value, json};

use super::{image, pod_level_resources};
use crate::gates::Gates;

use DefaultRule::{Apply, Field, InList, InObject, NonZeroField, When};
use DefaultValue::{Computed, Empty, Flag, Number, Text};

/// Completes a Pod.
pub fn set_pod_defaults(doc: &mut Value, _gates: &Gates) {
    apply_to_value(doc, &[InObject("spec", POD_ONLY), InObject("spec", POD_SPEC)]);
}

/// Completes the spec of a pod template, and with more above it that of a Pod.
pub fn set_pod_spec_defaults(spec: &mut Value) {
    apply_to_value(spec, POD_SPEC);
}

/// Completes a Node: what is not said to be allocatable apart is the whole capacity.
pub fn set_node_defaults(doc: &mut Value, _gates: &Gates) {
    apply_to_value(doc, NODE);
}

/// Completes a Namespace: it is active, and carries its own name as a label so that selectors can name it.
pub fn set_namespace_defaults(doc: &mut Value, _gates: &Gates) {
    apply_to_value(doc, NAMESPACE);
}

/// Completes an Event: fields that are always written, even when empty.
pub fn set_event_defaults(doc: &mut Value, _gates: &Gates) {
    apply_to_value(doc, EVENT);
}

type JsonMap = Map<String, Value>;
type DefaultRules = &'static [DefaultRule];

/// What happens to one object of a document. The rules of a table are carried out in order.
enum DefaultRule {
    /// The field is given a value if it was left out.
    Field(&'static str, DefaultValue),
    /// As `Field`, for a number of which 0 says nothing.
    NonZeroField(&'static str, DefaultValue),
    /// The rules hold for the object in this field.
    InObject(&'static str, DefaultRules),
    /// The rules hold for each object in the list in this field.
    InList(&'static str, DefaultRules),
    /// The rules hold for this object if it looks like this.
    When(fn(&JsonMap) -> bool, DefaultRules),
    /// The object is changed in a way of its own.
    Apply(fn(&mut JsonMap)),
}

/// The value of a field that was left out.
enum DefaultValue {
    Text(&'static str),
    Number(i64),
    Flag(bool),
    /// An object with nothing in it.
    Empty,
    /// It follows from the object the field stands in; `None`: the field stays out.
    Computed(fn(&JsonMap) -> Option<Value>),
}

/// What holds for pods only: a template's pod gets it when it is created.
const POD_ONLY: DefaultRules = &[
    Field("enableServiceLinks", Flag(true)),
    Apply(clamp_grace_period),
    InList("containers", REQUESTS_FROM_LIMITS),
    InList("initContainers", REQUESTS_FROM_LIMITS),
    Apply(pod_level_resources::set_defaults),
    When(is_on_host_network, &[InList("containers", HOST_NETWORK_PORTS), InList("initContainers", HOST_NETWORK_PORTS)]),
];

const POD_SPEC: DefaultRules = &[
    Field("restartPolicy", Text("Always")),
    Field("dnsPolicy", Text("ClusterFirst")),
    Field("schedulerName", Text("default-scheduler")),
    Field("terminationGracePeriodSeconds", Number(30)),
    Field("securityContext", Empty),
    // The old and the new name of one field; both are written, and the new one wins.
    Field("serviceAccountName", Computed(|spec| text(spec, "serviceAccount"))),
    Apply(copy_service_account_name),
    InList("containers", CONTAINER),
    InList("initContainers", CONTAINER),
    InList("ephemeralContainers", CONTAINER),
    InList("volumes", VOLUME),
];

const CONTAINER: DefaultRules = &[
    Field("imagePullPolicy", Computed(pull_policy)),
    Field("terminationMessagePath", Text("/dev/termination-log")),
    Field("terminationMessagePolicy", Text("File")),
    Field("resources", Empty),
    InList("ports", &[Field("protocol", Text("TCP"))]),
    InList("env", &[InObject("valueFrom", ENV_VAR_SOURCE)]),
    InObject("livenessProbe", PROBE),
    InObject("readinessProbe", PROBE),
    InObject("startupProbe", PROBE),
    InObject("lifecycle", &[InObject("postStart", HANDLER), InObject("preStop", HANDLER)]),
];

const ENV_VAR_SOURCE: DefaultRules = &[
    InObject("fieldRef", &[Field("apiVersion", Text("v1"))]),
    InObject("fileKeyRef", &[Field("optional", Flag(false))]),
];

const REQUESTS_FROM_LIMITS: DefaultRules = &[InObject("resources", &[Apply(default_requests_to_limits)])];

const HOST_NETWORK_PORTS: DefaultRules =
    &[InList("ports", &[NonZeroField("hostPort", Computed(|port| port.get("containerPort").cloned()))])];

const PROBE: DefaultRules = &[
    NonZeroField("timeoutSeconds", Number(1)),
    NonZeroField("periodSeconds", Number(10)),
    NonZeroField("successThreshold", Number(1)),
    NonZeroField("failureThreshold", Number(3)),
    InObject("httpGet", HTTP_GET),
    InObject("grpc", &[Field("service", Text(""))]),
];

const HANDLER: DefaultRules = &[InObject("httpGet", HTTP_GET)];

const HTTP_GET: DefaultRules = &[Field("path", Text("/")), Field("scheme", Text("HTTP"))];

const VOLUME: DefaultRules = &[
    When(has_no_source, &[Field("emptyDir", Empty)]),
    InObject("secret", DEFAULT_FILE_MODE),
    InObject("configMap", DEFAULT_FILE_MODE),
    InObject("downwardAPI", DEFAULT_FILE_MODE),
    InObject("downwardAPI", DOWNWARD_API_ITEMS),
    InObject("projected", DEFAULT_FILE_MODE),
    InObject(
        "projected",
        &[InList("sources", &[InObject("downwardAPI", DOWNWARD_API_ITEMS), InObject("serviceAccountToken", TOKEN)])],
    ),
    InObject("hostPath", &[Field("type", Text(""))]),
    InObject("ephemeral", &[InObject("volumeClaimTemplate", &[InObject("spec", CLAIM)])]),
];

const DEFAULT_FILE_MODE: DefaultRules = &[Field("defaultMode", Number(0o644))];

const DOWNWARD_API_ITEMS: DefaultRules =
    &[InList("items", &[InObject("fieldRef", &[Field("apiVersion", Text("v1"))])])];

const TOKEN: DefaultRules = &[Field("expirationSeconds", Number(3600))];

const CLAIM: DefaultRules = &[Field("volumeMode", Text("Filesystem"))];

const NODE: DefaultRules = &[InObject("status", &[Field("allocatable", Computed(capacity))])];

const NAMESPACE: DefaultRules = &[
    Field("status", Empty),
    InObject("status", &[Field("phase", Text("Active"))]),
    When(has_name, &[InObject("metadata", &[Field("labels", Empty), Apply(set_name_label)])]),
];

const EVENT: DefaultRules =
    &[Field("source", Empty), Field("reportingComponent", Text("")), Field("reportingInstance", Text(""))];

fn apply_to_value(value: &mut Value, rules: &[DefaultRule]) {
    if let Value::Object(object) = value {
        apply_rules(object, rules);
    }
}

fn apply_rules(object: &mut JsonMap, rules: &[DefaultRule]) {
    for rule in rules {
        match rule {
            Field(name, given) => set_if_unset(object, name, given, |value| *value == ""),
            NonZeroField(name, given) => set_if_unset(object, name, given, |value| *value == 0),
            InObject(name, rules) => object.get_mut(*name).into_iter().for_each(|part| apply_to_value(part, rules)),
            InList(name, rules) => {
                let items = object.get_mut(*name).and_then(Value::as_array_mut);
                items.into_iter().flatten().for_each(|item| apply_to_value(item, rules));
            }
            When(holds, rules) if holds(object) => apply_rules(object, rules),
            When(..) => {}
            Apply(change) => change(object),
        }
    }
}

fn set_if_unset(object: &mut JsonMap, name: &str, given: &DefaultValue, is_unset: fn(&Value) -> bool) {
    if object.get(name).is_some_and(|value| !value.is_null() && !is_unset(value)) {
        return;
    }
    let value = match given {
        Text(text) => Some(json!(text)),
        Number(number) => Some(json!(number)),
        Flag(flag) => Some(json!(flag)),
        Empty => Some(json!({})),
        Computed(from) => from(object),
    };
    object.extend(value.map(|value| (name.to_owned(), value)));
}

fn text(object: &JsonMap, name: &str) -> Option<Value> {
    object.get(name).filter(|value| value.as_str().is_some_and(|text| !text.is_empty())).cloned()
}

fn is_on_host_network(spec: &JsonMap) -> bool {
    spec.get("hostNetwork") == Some(&Value::Bool(true))
}

/// A volume that says only its name is an empty directory.
fn has_no_source(volume: &JsonMap) -> bool {
    volume.iter().all(|(name, value)| name == "name" || value.is_null())
}

fn has_name(namespace: &JsonMap) -> bool {
    namespace.get("metadata").and_then(Value::as_object).and_then(|metadata| text(metadata, "name")).is_some()
}

fn capacity(status: &JsonMap) -> Option<Value> {
    status.get("capacity").filter(|capacity| capacity.is_object()).cloned()
}

/// An image that may move, the `latest`, said or implied, is pulled again each time.
fn pull_policy(container: &JsonMap) -> Option<Value> {
    let tag = container.get("image").and_then(Value::as_str).and_then(image::tag);
    let moves = tag == Some("latest");
    Some(json!(if moves { "Always" } else { "IfNotPresent" }))
}

fn clamp_grace_period(spec: &mut JsonMap) {
    if let Some(seconds) = spec.get_mut("terminationGracePeriodSeconds")
        && seconds.as_i64().is_some_and(i64::is_negative)
    {
        *seconds = json!(1);
    }
}

fn copy_service_account_name(spec: &mut JsonMap) {
    spec.extend(text(spec, "serviceAccountName").map(|account| ("serviceAccount".to_owned(), account)));
}

fn default_requests_to_limits(resources: &mut JsonMap) {
    let limits = resources.get("limits").and_then(Value::as_object).cloned().unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    apply_rules(resources, &[Field("requests", Empty)]);
    if let Some(Value::Object(requests)) = resources.get_mut("requests") {
        let unsaid: JsonMap = limits.into_iter().filter(|(name, _)| !requests.contains_key(name)).collect();
        requests.extend(unsaid);
    }
}

fn set_name_label(metadata: &mut JsonMap) {
    let name = text(metadata, "name");
    if let Some(Value::Object(labels)) = metadata.get_mut("labels") {
        labels.extend(name.map(|name| ("kubernetes.io/metadata.name".to_owned(), name)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{set_namespace_defaults, set_node_defaults, set_pod_defaults, set_pod_spec_defaults};
    use crate::gates::Gates;

    fn pod(spec: Value) -> Value {
        let mut pod = json!({"spec": spec});
        set_pod_defaults(&mut pod, &Gates::default());
        pod
    }

    #[test]
    fn a_bare_pod_gets_every_default() {
        let spec = json!({"containers": [{"name": "a", "image": "x", "ports": [{"containerPort": 80}]}]});
        assert_eq!(
            pod(spec),
            json!({"spec": {
                "containers": [{
                    "name": "a",
                    "image": "x",
                    "imagePullPolicy": "Always",
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "resources": {},
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                }],
                "restartPolicy": "Always",
                "dnsPolicy": "ClusterFirst",
                "schedulerName": "default-scheduler",
                "terminationGracePeriodSeconds": 30,
                "securityContext": {},
                "enableServiceLinks": true,
            }})
        );
    }

    #[test]
    fn what_is_said_stays_and_a_second_time_changes_nothing() {
        let spec = json!({
            "restartPolicy": "Never", "dnsPolicy": "None", "schedulerName": "mine", "terminationGracePeriodSeconds": 0,
            "securityContext": {"runAsUser": 1}, "enableServiceLinks": false, "unknown": 1,
            "containers": [{"image": "x", "imagePullPolicy": "Never", "terminationMessagePath": "/x",
                "terminationMessagePolicy": "FallbackToLogsOnError", "resources": {"limits": {}}}],
        });
        let once = pod(spec.clone());
        assert_eq!(once["spec"], spec);
        assert_eq!(pod(once["spec"].clone()), once);
    }

    #[test]
    fn the_pull_policy_follows_from_the_tag() {
        for (image, want) in [
            ("x", "Always"),
            ("x:latest", "Always"),
            ("x:1", "IfNotPresent"),
            ("host:5000/x", "Always"),
            ("host:5000/x:1", "IfNotPresent"),
            ("x@sha256:abc", "IfNotPresent"),
            ("x:latest@sha256:abc", "IfNotPresent"),
        ] {
            let pod = pod(json!({"containers": [{"image": image}]}));
            assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], want, "{image}");
        }
    }

    #[test]
    fn limits_become_requests_in_pods_but_not_in_templates() {
        let spec = json!({"containers": [{"resources": {
            "limits": {"cpu": "2", "nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}}}]});
        let pod = pod(spec.clone());
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"], json!({"cpu": "1", "nvidia.com/gpu": "1"}));
        let mut template = spec.clone();
        set_pod_spec_defaults(&mut template);
        assert_eq!(template["containers"][0]["resources"], spec["containers"][0]["resources"]);
        assert_eq!(template.get("enableServiceLinks"), None);
    }

    #[test]
    fn ports_on_the_network_of_the_node_are_ports_of_the_node() {
        let pod = pod(json!({"hostNetwork": true, "containers": [{"ports": [{"containerPort": 80}]}]}));
        assert_eq!(pod["spec"]["containers"][0]["ports"][0]["hostPort"], 80);
    }

    #[test]
    fn probes_and_volumes_are_completed() {
        let pod = pod(json!({
            "containers": [{"livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5}}],
            "volumes": [{"name": "a"}, {"name": "b", "configMap": {"name": "c"}},
                {"name": "d", "projected": {"sources": [
                    {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                    {"serviceAccountToken": {"path": "t"}}]}},
                {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
        }));
        assert_eq!(
            pod["spec"]["containers"][0]["livenessProbe"],
            json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 5,
                "successThreshold": 1, "failureThreshold": 3})
        );
        assert_eq!(
            pod["spec"]["volumes"],
            json!([{"name": "a", "emptyDir": {}}, {"name": "b", "configMap": {"name": "c", "defaultMode": 420}},
                {"name": "d", "projected": {"defaultMode": 420, "sources": [
                    {"downwardAPI": {"items": [
                        {"path": "n", "fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}]}},
                    {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}},
                {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"volumeMode": "Filesystem"}}}}])
        );
    }

    #[test]
    fn parts_of_the_wrong_type_are_left_alone() {
        for spec in [json!(null), json!(3), json!({"containers": {"a": 1}, "securityContext": []})] {
            let done = pod(spec.clone());
            assert_eq!(done.pointer("/spec/containers"), spec.get("containers"));
        }
    }

    #[test]
    fn nodes_and_namespaces_are_completed() {
        let mut node = json!({"status": {"capacity": {"cpu": "4"}}});
        set_node_defaults(&mut node, &Gates::default());
        assert_eq!(node["status"]["allocatable"], json!({"cpu": "4"}));
        let mut namespace = json!({"metadata": {"name": "a"}});
        set_namespace_defaults(&mut namespace, &Gates::default());
        assert_eq!(
            namespace,
            json!({
                "metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "a"}},
                "status": {"phase": "Active"},
            })
        );
    }
}

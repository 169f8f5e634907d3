//! Sets defaults in the document, so that unknown fields are kept and nothing is decoded twice.
//!
//! Each kind has a table of rules, and one function (`apply_rules`) applies the tables.
//! A field is unset if it is absent, `null` or the empty string, as in Kubernetes.
//! A value of the wrong type is not changed: the schema check has reported it.

use serde_json::{Map, Value, json};

use super::{image, pod_level_resources};
use crate::gates::Gates;

use DefaultRule::{Apply, Field, InList, InObject, NonZeroField, When};
use DefaultValue::{Computed, Empty, Flag, Number, Text};

/// Sets the defaults of a Pod.
pub fn set_pod_defaults(doc: &mut Value, _gates: &Gates) {
    apply_to_value(doc, &[InObject("spec", POD_ONLY), InObject("spec", POD_SPEC)]);
}

/// Sets the defaults of the spec of a pod template. A Pod has more.
pub fn set_pod_spec_defaults(spec: &mut Value) {
    apply_to_value(spec, POD_SPEC);
}

/// Sets the defaults of a Node: allocatable resources default to the capacity.
pub fn set_node_defaults(doc: &mut Value, _gates: &Gates) {
    apply_to_value(doc, NODE);
}

/// Sets the defaults of a Namespace: it is active, and has its name as a label for selectors.
pub fn set_namespace_defaults(doc: &mut Value, _gates: &Gates) {
    apply_to_value(doc, NAMESPACE);
}

/// Sets the defaults of an Event: fields that are always present, even if empty.
pub fn set_event_defaults(doc: &mut Value, _gates: &Gates) {
    apply_to_value(doc, EVENT);
}

type JsonMap = Map<String, Value>;
type DefaultRules = &'static [DefaultRule];

/// A rule for one object of a document. The rules of a table are applied in order.
enum DefaultRule {
    /// Sets the field if it is unset.
    Field(&'static str, DefaultValue),
    /// As `Field`, for a number for which 0 means unset.
    NonZeroField(&'static str, DefaultValue),
    /// Applies rules to the object in this field.
    InObject(&'static str, DefaultRules),
    /// Applies rules to each object of the list in this field.
    InList(&'static str, DefaultRules),
    /// Applies rules to this object if the condition is true.
    When(fn(&JsonMap) -> bool, DefaultRules),
    /// Applies a function to the object.
    Apply(fn(&mut JsonMap)),
}

/// The default of a field.
enum DefaultValue {
    Text(&'static str),
    Number(i64),
    Flag(bool),
    /// An empty object.
    Empty,
    /// Computed from the object with the field. `None` leaves the field unset.
    Computed(fn(&JsonMap) -> Option<Value>),
}

/// Rules for pods only. A template's pod gets these defaults when it is created.
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
    // The old and the new name of one field. Both are set, and the new one wins.
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

/// A volume that has only a name is an empty directory.
fn has_no_source(volume: &JsonMap) -> bool {
    volume.iter().all(|(name, value)| name == "name" || value.is_null())
}

fn has_name(namespace: &JsonMap) -> bool {
    namespace.get("metadata").and_then(Value::as_object).and_then(|metadata| text(metadata, "name")).is_some()
}

fn capacity(status: &JsonMap) -> Option<Value> {
    status.get("capacity").filter(|capacity| capacity.is_object()).cloned()
}

/// An image with the tag `latest`, explicit or implied, is pulled each time.
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
        let missing: JsonMap = limits.into_iter().filter(|(name, _)| !requests.contains_key(name)).collect();
        requests.extend(missing);
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
    fn minimal_pod_gets_every_default() {
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
    fn set_fields_are_kept_and_defaulting_is_idempotent() {
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
    fn pull_policy_depends_on_the_tag() {
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
    fn container_ports_on_the_host_network_are_host_ports() {
        let pod = pod(json!({"hostNetwork": true, "containers": [{"ports": [{"containerPort": 80}]}]}));
        assert_eq!(pod["spec"]["containers"][0]["ports"][0]["hostPort"], 80);
    }

    #[test]
    fn probes_and_volumes_get_defaults() {
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
    fn values_of_the_wrong_type_are_not_changed() {
        for spec in [json!(null), json!(3), json!({"containers": {"a": 1}, "securityContext": []})] {
            let done = pod(spec.clone());
            assert_eq!(done.pointer("/spec/containers"), spec.get("containers"));
        }
    }

    #[test]
    fn nodes_and_namespaces_get_defaults() {
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

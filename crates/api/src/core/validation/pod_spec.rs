//! The spec of a pod, in a Pod or in a template.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};

use super::declared_names::DeclaredNames;
use super::{
    claims, containers, network, out_of_range_message, placement, pod_resources, resources, security, topology_spread,
    volumes,
};
use crate::field::{Error, ErrorList, Path};
use crate::metadata::{self, names, non_empty, violations};

/// The parent of a pod's spec. A template may leave out what is set when its pods are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecParent {
    /// In a Pod.
    Pod,
    /// In a template, as in a Job.
    Template,
}

/// Validates a pod template: metadata and spec of its pods.
pub fn validate_pod_template(template: &PodTemplateSpec, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if let Some(meta) = &template.metadata {
        // Upstream's paths have no `metadata` here.
        if let Some(labels) = &meta.labels {
            errors.extend(metadata::validate_labels(labels, &path.child("labels")));
        }
        if let Some(annotations) = &meta.annotations {
            errors.extend(metadata::validate_annotations(annotations, &path.child("annotations")));
        }
    }
    let path = path.child("spec");
    match &template.spec {
        None => errors.extend(validate_pod_spec(&PodSpec::default(), SpecParent::Template, &path)),
        Some(spec) => {
            errors.extend(validate_pod_spec(spec, SpecParent::Template, &path));
            if spec.ephemeral_containers.as_ref().is_some_and(|list| !list.is_empty()) {
                let detail = "ephemeral containers not allowed in pod template";
                errors.push(Error::forbidden(&path.child("ephemeralContainers"), detail));
            }
        }
    }
    errors
}

/// Validates a defaulted pod spec.
pub fn validate_pod_spec(spec: &PodSpec, of: SpecParent, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let declared = DeclaredNames::of(spec, volumes::validate(spec, &path.child("volumes"), &mut errors));
    errors.extend(claims::validate(spec, &path.child("resourceClaims")));
    containers::validate(spec, of, &declared, path, &mut errors);
    errors.extend(pod_resources::validate(spec, &declared, &path.child("resources")));
    validate_policies(spec, path, &mut errors);
    if let Some(labels) = &spec.node_selector {
        errors.extend(metadata::validate_labels(labels, &path.child("nodeSelector")));
    }
    if let Some(context) = &spec.security_context {
        errors.extend(security::validate_pod(context, spec, &path.child("securityContext")));
    }
    if let Some(affinity) = &spec.affinity {
        placement::validate_affinity(affinity, &path.child("affinity"), &mut errors);
    }
    errors.extend(network::validate_dns(spec, path));
    placement::validate_readiness_gates(spec, &path.child("readinessGates"), &mut errors);
    placement::validate_scheduling_gates(spec, &path.child("schedulingGates"), &mut errors);
    errors.extend(topology_spread::validate(spec, &path.child("topologySpreadConstraints")));
    errors.extend(network::validate_host_name_override(spec, path));
    errors.extend(subdomain(&spec.service_account_name, &path.child("serviceAccountName")));
    errors.extend(subdomain(&spec.node_name, &path.child("nodeName")));
    if let Some(seconds) = spec.active_deadline_seconds
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let detail = out_of_range_message(1, i64::from(i32::MAX));
        errors.push(Error::invalid(&path.child("activeDeadlineSeconds"), seconds, detail));
    }
    errors.extend(network::validate_host_name(spec, path));
    placement::validate_tolerations(spec, &path.child("tolerations"), &mut errors);
    errors.extend(network::validate_host_aliases(spec, path));
    errors.extend(subdomain(&spec.priority_class_name, &path.child("priorityClassName")));
    // An unset class is valid, an empty one is not.
    let class = spec.runtime_class_name.iter();
    errors.extend(class.flat_map(|name| violations(names::dns_subdomain, name, &path.child("runtimeClassName"))));
    if let Some(policy) = spec.preemption_policy.as_deref() {
        one_of(Some(policy), &["PreemptLowerPriority", "Never"], &path.child("preemptionPolicy"), &mut errors);
    }
    if let Some(overhead) = &spec.overhead {
        resources::validate_overhead(overhead, &path.child("overhead"), &mut errors);
    }
    errors.extend(network::validate_os(spec, path));
    placement::validate_scheduling_group(spec, &path.child("schedulingGroup"), &mut errors);
    // Equal errors are reported once. Errors without the index of their item can be equal.
    let mut reported = BTreeSet::new();
    errors.retain(|error| reported.insert(error.to_string()));
    errors
}

fn validate_policies(spec: &PodSpec, path: &Path, errors: &mut ErrorList) {
    let restart = ["Always", "OnFailure", "Never"];
    one_of(spec.restart_policy.as_deref(), &restart, &path.child("restartPolicy"), errors);
    let dns = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(spec.dns_policy.as_deref(), &dns, &path.child("dnsPolicy"), errors);
}

fn subdomain(name: &Option<String>, path: &Path) -> ErrorList {
    non_empty(name).map(|name| violations(names::dns_subdomain, name, path)).unwrap_or_default()
}

/// Checks that the value is one of `supported`. An unset value is missing.
pub(super) fn one_of(value: Option<&str>, supported: &[&str], path: &Path, errors: &mut ErrorList) {
    match value.unwrap_or("") {
        "" => errors.push(Error::required(path, "")),
        value if !supported.contains(&value) => errors.push(Error::not_supported(path, value, supported)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{SpecParent, validate_pod_spec};
    use crate::field::Path;

    /// Paths and kinds of the errors of a pod whose container has `container` and whose spec has `spec`.
    fn problems(spec: Value, container: Value) -> Vec<String> {
        let mut container = container;
        let given = [("name", json!("main")), ("image", json!("i")), ("imagePullPolicy", json!("Always"))];
        for (name, value) in given.into_iter().chain([("terminationMessagePolicy", json!("File"))]) {
            if container.get(name).is_none() {
                container[name] = value;
            }
        }
        let mut pod = json!({"restartPolicy": "Never", "dnsPolicy": "Default", "containers": [container]});
        pod.as_object_mut().expect("a spec").extend(spec.as_object().cloned().unwrap_or_default());
        let spec = serde_json::from_value(pod).expect("a spec");
        let errors = validate_pod_spec(&spec, SpecParent::Template, &Path::new("s"));
        errors.iter().map(|error| format!("{} {}", error.path, error.kind.text())).collect()
    }

    #[test]
    fn each_field_of_a_pod_is_validated() {
        let c = "s.containers[0]";
        for (spec, want) in [
            (json!({"os": {"name": ""}}), "s.os.name Required value"),
            (json!({"hostAliases": [{"ip": "01.2.3.4"}]}), "s.hostAliases[0].ip Invalid value"),
            (json!({"hostname": "B_"}), "s.hostname Invalid value"),
            (json!({"hostnameOverride": ""}), "s.hostnameOverride Invalid value"),
            (json!({"dnsConfig": {"nameservers": ["a"]}}), "s.dnsConfig.nameservers[0] Invalid value"),
            (json!({"dnsPolicy": "None"}), "s.dnsConfig Required value"),
            (json!({"overhead": {"nvidia.com/x": "500m"}}), "s.overhead.limits[nvidia.com/x] Invalid value"),
            (json!({"readinessGates": [{"conditionType": "-"}]}), "s.readinessGates[0].conditionType Invalid value"),
            (json!({"resourceClaims": [{"name": "a"}]}), "s.resourceClaims[0] Invalid value"),
            (json!({"serviceAccountName": "B_"}), "s.serviceAccountName Invalid value"),
            (json!({"securityContext": {"runAsUser": -1}}), "s.securityContext.runAsUser Invalid value"),
        ] {
            assert_eq!(problems(spec.clone(), json!({})), [want], "{spec}");
        }
        for (container, want) in [
            (json!({"terminationMessagePolicy": "x"}), "terminationMessagePolicy Unsupported value"),
            (json!({"env": [{"name": "a", "valueFrom": {}}]}), "env[0].valueFrom Invalid value"),
            (json!({"envFrom": [{}]}), "envFrom Invalid value"),
            (json!({"resources": {"claims": [{"name": "x"}]}}), "resources.claims[0] Not found"),
            (json!({"livenessProbe": {}}), "livenessProbe Required value"),
            (json!({"lifecycle": {"preStop": {"exec": {}}}}), "lifecycle.preStop.exec.command Required value"),
            (json!({"restartPolicy": ""}), "restartPolicy Unsupported value"),
            (json!({"volumeDevices": [{"name": "x", "devicePath": "/a"}]}), "volumeDevices[0].name Not found"),
            (
                json!({"securityContext": {"appArmorProfile": {"type": "x"}}}),
                "securityContext.appArmorProfile.type Unsupported value",
            ),
            (
                json!({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}),
                "resizePolicy Invalid value",
            ),
        ] {
            assert_eq!(problems(json!({}), container.clone()), [format!("{c}.{want}")], "{container}");
        }
    }

    #[test]
    fn init_container_that_is_no_sidecar_has_no_probes() {
        let init = |policy: Value| {
            json!({"initContainers": [{
                "name": "i", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File",
                "restartPolicy": policy, "startupProbe": {"exec": {"command": ["a"]}, "successThreshold": 1},
            }]})
        };
        assert_eq!(problems(init(Value::Null), json!({})), ["s.initContainers[0].startupProbe Forbidden"]);
        assert_eq!(problems(init(json!("Always")), json!({})), [""; 0]);
    }

    #[test]
    fn duplicate_spread_constraint_is_reported_at_the_first() {
        let zone = json!({"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"});
        let want = "s.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable} Duplicate value";
        assert_eq!(problems(json!({"topologySpreadConstraints": [zone, zone]}), json!({})), [want]);
    }
}

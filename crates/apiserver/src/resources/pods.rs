//! Pods. They are written most often of all kinds, so a status update validates only the status.

use api::conversion;
use api::core::{defaults, prepare, validation};
use api::kinds;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec, PodStatus};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::read::table;
use crate::resources::object::ApiObject;
use crate::resources::resource::{Resource, Strategy, Subresource};

pub(super) fn resource() -> Resource {
    let strategy = Strategy {
        normalize_drafts: conversion::normalize_pod_drafts,
        defaults: |pod, gates| defaults::set_pod_defaults(pod.document_mut(), gates),
        prepare_create: |pod, gates| {
            prepare::drop_disabled_pod_fields(pod.document_mut(), None, gates);
            prepare::merge_label_keys(pod.document_mut());
            set_initial_status(pod);
        },
        prepare_update: |new, old, gates| {
            prepare::drop_disabled_pod_fields(new.document_mut(), Some(old.document()), gates);
            prepare::keep_pod_level_resources(new.document_mut(), old.document());
        },
        prepare_status_update: |new, old, _| {
            new.copy_metadata_field_from(old, "ownerReferences");
            if let Some(status) = new.document_mut().get_mut("status") {
                prepare::normalize_pod_ips(status);
                prepare::normalize_pod_status(status, &old.document()["status"]);
            }
            let class = &old.document()["status"]["qosClass"];
            if new.document()["status"].is_object()
                && new.document()["status"]["qosClass"].is_null()
                && !class.is_null()
            {
                new.document_mut()["status"]["qosClass"] = class.clone();
            }
        },
        validate_create: |new, gates| Ok(validation::pod::validate_create(&new.typed()?, gates)),
        validate_update: |new, old, gates| Ok(validation::pod::validate_update(&new.typed()?, &old.typed()?, gates)),
        validate_status_update: |new, old, gates| {
            Ok(validation::pod_status::validate_update(
                &decode_for_status_validation(new)?,
                &decode_for_status_validation(old)?,
                gates,
            ))
        },
        selectable: SELECTABLE,
        fields,
        grace_seconds,
        table: table::pods::TABLE,
        ..Strategy::PLAIN
    };
    Resource {
        storage_version_hash: "xPOwRZ+Yhw8=",
        subresources: &[Subresource::Status, Subresource::Binding, Subresource::Eviction],
        counts_generation: true,
        returns_deleted: true,
        ..super::base_resource(kinds::POD, strategy)
    }
}

/// The fields of a pod that a status update validates. Little of the spec is decoded, because it does not change.
fn decode_for_status_validation(pod: &ApiObject) -> Result<Pod, serde_json::Error> {
    let text = |path: &[&str]| Some(pod.text(path)).filter(|text| !text.is_empty()).map(str::to_owned);
    let spec = &pod.document()["spec"];
    let status: PodStatus = pod.typed_field("status")?;
    let spec = PodSpec {
        node_name: text(&["spec", "nodeName"]),
        restart_policy: text(&["spec", "restartPolicy"]),
        resource_claims: spec.get("resourceClaims").map(Deserialize::deserialize).transpose()?,
        containers: decode_containers(&spec["containers"], status.container_statuses.as_deref())?,
        init_containers: Some(decode_containers(&spec["initContainers"], status.init_container_statuses.as_deref())?),
        ..PodSpec::default()
    };
    Ok(Pod { metadata: pod.typed_field("metadata")?, spec: Some(spec), status: Some(status) })
}

/// The fields of containers that validation of their statuses reads. Resources are read only if devices are reported.
fn decode_containers(
    containers: &Value,
    statuses: Option<&[ContainerStatus]>,
) -> Result<Vec<Container>, serde_json::Error> {
    let has_devices = |status: &ContainerStatus| status.allocated_resources_status.is_some();
    let of_devices = statuses.unwrap_or_default().iter().any(has_devices);
    let decode = |container: &Value| {
        let field = |field: &str| container.get(field);
        Ok(Container {
            name: container["name"].as_str().unwrap_or_default().to_owned(),
            restart_policy: container["restartPolicy"].as_str().map(str::to_owned),
            restart_policy_rules: field("restartPolicyRules").map(Deserialize::deserialize).transpose()?,
            resources: field("resources").filter(|_| of_devices).map(Deserialize::deserialize).transpose()?,
            ..Container::default()
        })
    };
    containers.as_array().into_iter().flatten().map(decode).collect()
}

const SELECTABLE: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
];

fn fields(pod: &ApiObject) -> Vec<(&'static str, String)> {
    let (spec, status) = (&pod.document()["spec"], &pod.document()["status"]);
    let mut fields = Vec::with_capacity(SELECTABLE.len());
    for &field in SELECTABLE {
        let value = match field.split_once('.') {
            Some(("spec", "hostNetwork")) => {
                fields.push((field, (spec["hostNetwork"] == Value::Bool(true)).to_string()));
                continue;
            }
            Some(("spec", name)) => spec[name].as_str(),
            Some((_, name)) => status[name].as_str(),
            None => None,
        };
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            fields.push((field, value.to_owned()));
        }
    }
    fields
}

/// A finished pod, or one that is not bound to a node, is deleted at once.
fn grace_seconds(pod: &ApiObject, requested: Option<i64>) -> i64 {
    let finished = matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed");
    if pod.text(&["spec", "nodeName"]).is_empty() || finished {
        return 0;
    }
    let own = pod.document()["spec"]["terminationGracePeriodSeconds"].as_i64();
    match requested.or(own).unwrap_or(30) {
        // Upstream: negative values still mean the shortest grace period, although new pods with them are refused.
        negative if negative < 0 => 1,
        seconds => seconds,
    }
}

/// The status of a new pod.
fn set_initial_status(pod: &mut ApiObject) {
    let mut status = json!({"phase": "Pending", "qosClass": prepare::qos_class(&pod.document()["spec"])});
    if pod.document()["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": pod.text(&["metadata", "creationTimestamp"]),
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    pod.top_mut().insert("status".to_owned(), status);
}

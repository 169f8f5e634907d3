//! Pods. Of all kinds the one written most often, so a change of status is judged by the status alone.

use api::conversion;
use api::core::{defaults, prepare, validation};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::object::Object;
use crate::resource::{Resource, Strategy, Subresource};
use crate::table;

pub(super) fn resource() -> Resource {
    let strategy = Strategy {
        drafts: conversion::pod_drafts,
        defaults: |pod, gates| defaults::set_pod_defaults(pod.document_mut(), gates),
        prepare_create: |pod, gates| {
            prepare::drop_disabled_pod_fields(pod.document_mut(), None, gates);
            prepare::merge_label_keys(pod.document_mut());
            begin_status(pod);
        },
        prepare_update: |new, old, gates| {
            prepare::drop_disabled_pod_fields(new.document_mut(), Some(old.document()), gates);
        },
        prepare_status_update: |new, old, _| {
            new.take_meta_from(old, "ownerReferences");
            new.document_mut().get_mut("status").into_iter().for_each(prepare::settle_addresses);
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
            Ok(validation::pod::validate_status_update(&reported(new)?, &reported(old)?, gates))
        },
        selectable: SELECTABLE,
        fields,
        grace_seconds,
        table: table::pods::TABLE,
        ..Strategy::PLAIN
    };
    Resource {
        categories: &["all"],
        storage_version_hash: "xPOwRZ+Yhw8=",
        short_names: &["po"],
        subresources: &[Subresource::Status, Subresource::Binding],
        counts_generation: true,
        returns_deleted: true,
        ..super::plain(super::Names("", &["v1"], "pods", "pod", "Pod"), strategy)
    }
}

/// The pod as far as a report of its status is judged: the spec, which is the old one, is not decoded but for the
/// node and the claims.
fn reported(pod: &Object) -> Result<Pod, serde_json::Error> {
    let node = Some(pod.text(&["spec", "nodeName"])).filter(|node| !node.is_empty());
    let claims = pod.document()["spec"].get("resourceClaims").map(Deserialize::deserialize).transpose()?;
    Ok(Pod {
        metadata: pod.typed_part("metadata")?,
        spec: Some(PodSpec { node_name: node.map(str::to_owned), resource_claims: claims, ..PodSpec::default() }),
        status: Some(pod.typed_part("status")?),
    })
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

fn fields(pod: &Object) -> Vec<(&'static str, String)> {
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

/// A pod that no kubelet runs any more, or yet, goes at once.
fn grace_seconds(pod: &Object, asked: Option<i64>) -> i64 {
    let finished = matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed");
    if pod.text(&["spec", "nodeName"]).is_empty() || finished {
        return 0;
    }
    let own = pod.document()["spec"]["terminationGracePeriodSeconds"].as_i64();
    match asked.or(own).unwrap_or(30) {
        // Upstream: "less than nothing" has meant the shortest grace period since before it was refused.
        negative if negative < 0 => 1,
        seconds => seconds,
    }
}

/// The status that a pod has before anyone has looked at it.
fn begin_status(pod: &mut Object) {
    let mut status = json!({"phase": "Pending", "qosClass": qos_class(pod)});
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

/// How much of what it uses the pod has asked for. Quantities are canonical here, so equal ones are equal texts.
fn qos_class(pod: &Object) -> &'static str {
    let spec = &pod.document()["spec"];
    let containers = ["containers", "initContainers"].iter().filter_map(|field| spec[*field].as_array()).flatten();
    let (mut any, mut all) = (false, true);
    for container in containers {
        for resource in ["cpu", "memory"] {
            let positive = |kind: &str| {
                Some(&container["resources"][kind][resource]).filter(|amount| !amount.is_null() && **amount != "0")
            };
            let (request, limit) = (positive("requests"), positive("limits"));
            any |= request.is_some() || limit.is_some();
            all &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

//! The spec of a pod, in a Pod or in a template.

use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};

use super::{between, containers, placement};
use crate::field::{Error, ErrorList, Path};
use crate::metadata::{self, names, push_all};

/// Where a pod's spec stands; a template leaves open what is filled in when its pods are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecOf {
    /// In a Pod.
    Pod,
    /// In a template, as in a Job.
    Template,
}

/// What is wrong with a pod template: the metadata it gives to pods, and their spec.
pub fn validate_pod_template(template: &PodTemplateSpec, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if let Some(meta) = &template.metadata {
        let path = path.child("metadata");
        if let Some(labels) = &meta.labels {
            errors.extend(metadata::validate_labels(labels, &path.child("labels")));
        }
        if let Some(annotations) = &meta.annotations {
            errors.extend(metadata::validate_annotations(annotations, &path.child("annotations")));
        }
    }
    let path = path.child("spec");
    match &template.spec {
        None => errors.extend(validate_pod_spec(&PodSpec::default(), SpecOf::Template, &path)),
        Some(spec) => {
            errors.extend(validate_pod_spec(spec, SpecOf::Template, &path));
            if spec.ephemeral_containers.as_ref().is_some_and(|list| !list.is_empty()) {
                let detail = "ephemeral containers not allowed in pod template";
                errors.push(Error::forbidden(&path.child("ephemeralContainers"), detail));
            }
        }
    }
    errors
}

/// What is wrong with a defaulted pod spec.
pub fn validate_pod_spec(spec: &PodSpec, of: SpecOf, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    containers::validate(spec, of, path, &mut errors);
    validate_policies(spec, path, &mut errors);
    if let Some(labels) = &spec.node_selector {
        errors.extend(metadata::validate_labels(labels, &path.child("nodeSelector")));
    }
    if let Some(affinity) = &spec.affinity {
        placement::validate_affinity(affinity, &path.child("affinity"), &mut errors);
    }
    for (name, field) in [(&spec.node_name, "nodeName"), (&spec.priority_class_name, "priorityClassName")] {
        if let Some(name) = name.as_deref().filter(|name| !name.is_empty()) {
            push_all(names::dns_subdomain(name), name, &path.child(field), &mut errors);
        }
    }
    if let Some(seconds) = spec.active_deadline_seconds
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let detail = between(1, i64::from(i32::MAX));
        errors.push(Error::invalid(&path.child("activeDeadlineSeconds"), seconds, detail));
    }
    placement::validate_tolerations(spec, &path.child("tolerations"), &mut errors);
    placement::validate_scheduling_gates(spec, &path.child("schedulingGates"), &mut errors);
    placement::validate_scheduling_group(spec, &path.child("schedulingGroup"), &mut errors);
    errors
}

fn validate_policies(spec: &PodSpec, path: &Path, errors: &mut ErrorList) {
    let restart = ["Always", "OnFailure", "Never"];
    one_of(spec.restart_policy.as_deref(), &restart, &path.child("restartPolicy"), errors);
    let dns = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(spec.dns_policy.as_deref(), &dns, &path.child("dnsPolicy"), errors);
    if let Some(policy) = spec.preemption_policy.as_deref() {
        one_of(Some(policy), &["PreemptLowerPriority", "Never"], &path.child("preemptionPolicy"), errors);
    }
}

/// An error unless the value is one of `supported`; nothing at all is missing.
pub(super) fn one_of(value: Option<&str>, supported: &[&str], path: &Path, errors: &mut ErrorList) {
    match value.unwrap_or("") {
        "" => errors.push(Error::required(path, "")),
        value if !supported.contains(&value) => errors.push(Error::not_supported(path, value, supported)),
        _ => {}
    }
}

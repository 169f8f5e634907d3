//! `spec.workloadRef` of a Job: the first draft's link from a Job to its Workload (KEP-5547). The types of Kubernetes
//! do not have it, so it is validated in the document.

use serde_json::Value;
use workloadbuilder::{format, rules};

use crate::field::{Error, ErrorList, Path};

/// The versions that a reference may name. The kind is the same in all of them.
const API_VERSIONS: [&str; 4] = [
    "scheduling.k8s.io/v1beta1",
    "scheduling.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1alpha2",
    "scheduling.k8s.io/v1alpha1",
];

/// Validates the reference of a Job, and its change. `spec` is the JSON pointer of the Job's spec: `/spec`, or
/// `/spec/jobTemplate/spec` in a CronJob.
pub fn validate(doc: &Value, old: Option<&Value>, spec: &str) -> ErrorList {
    let pointer = format!("{spec}/workloadRef");
    let (new, before) = (doc.pointer(&pointer), old.and_then(|old| old.pointer(&pointer)));
    let path = Path::new(&pointer.trim_start_matches('/').replace('/', "."));
    match new {
        _ if old.is_some() && new == before => ErrorList::new(),
        // The template of a CronJob may change: it applies to future Jobs.
        _ if old.is_some() && spec == "/spec" => vec![rules::immutable(&path)],
        None => ErrorList::new(),
        Some(reference) => {
            let namespace = doc.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
            validate_reference(reference, namespace, &path)
        }
    }
}

/// The warning about a new Job or CronJob with both a reference and `scheduling`.
pub fn warning(doc: &Value, spec: &str) -> Option<String> {
    let has = |field: &str| doc.pointer(&format!("{spec}/{field}")).is_some_and(|value| !value.is_null());
    let path = Path::new(&spec.trim_start_matches('/').replace('/', "."));
    (has("workloadRef") && has("scheduling")).then(|| {
        format!(
            "{}: has no effect together with {}: the Workload defines how the pods are scheduled",
            path.child("scheduling"),
            path.child("workloadRef")
        )
    })
}

fn validate_reference(reference: &Value, namespace: &str, path: &Path) -> ErrorList {
    let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    let mut errors = rules::validate_required(&path.child("name"), text("name"), format::subdomain);
    for (field, supported) in [("kind", &["Workload"][..]), ("apiVersion", &API_VERSIONS)] {
        if !text(field).is_empty() && !supported.contains(&text(field)) {
            errors.push(Error::not_supported(&path.child(field), text(field), supported));
        }
    }
    let other = text("namespace");
    if !other.is_empty() && other != namespace {
        let detail = format!("must be the namespace of the Job, {namespace}");
        errors.push(Error::invalid(&path.child("namespace"), other, detail));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{validate, warning};

    fn job(reference: Value) -> Value {
        json!({"metadata": {"namespace": "demo"}, "spec": {"workloadRef": reference}})
    }

    // Shows: S001-01
    // Shows: S001-10
    // Shows: S001-12
    #[test]
    fn reference_names_a_workload_of_the_same_namespace() {
        let good =
            json!({"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload", "name": "w", "namespace": "demo"});
        assert_eq!(validate(&job(good), None, "/spec"), vec![]);
        assert_eq!(validate(&json!({"spec": {}}), None, "/spec"), vec![]);
        let bad = json!({"apiVersion": "scheduling.k8s.io/v9", "kind": "Job", "namespace": "elsewhere"});
        let errors: Vec<String> = validate(&job(bad), None, "/spec").iter().map(ToString::to_string).collect();
        assert_eq!(errors.len(), 4, "{errors:?}");
        assert_eq!(errors[0], "spec.workloadRef.name: Required value");
        assert_eq!(errors[1], "spec.workloadRef.kind: Unsupported value: \"Job\": supported values: \"Workload\"");
        assert!(errors[2].starts_with("spec.workloadRef.apiVersion: Unsupported value: \"scheduling.k8s.io/v9\""));
        assert!(errors[3].starts_with("spec.workloadRef.namespace: Invalid value: \"elsewhere\""));
    }

    #[test]
    fn scheduling_together_with_a_reference_gets_a_warning() {
        let mut both = job(json!({"name": "w"}));
        assert_eq!(warning(&both, "/spec"), None);
        both["spec"]["scheduling"] = json!({"schedulingPolicy": {"gang": {}}});
        let want = "spec.scheduling: has no effect together with spec.workloadRef: the Workload defines how the pods are \
                    scheduled";
        assert_eq!(warning(&both, "/spec").as_deref(), Some(want));
        let cron_job = json!({"spec": {"jobTemplate": {"spec": both["spec"]}}});
        let text = warning(&cron_job, "/spec/jobTemplate/spec").unwrap_or_default();
        assert!(text.starts_with("spec.jobTemplate.spec.scheduling: has no effect"), "{text}");
    }

    #[test]
    fn reference_is_immutable() {
        let (old, new) = (job(json!({"name": "w"})), job(json!({"name": "v"})));
        assert_eq!(validate(&old, Some(&old), "/spec"), vec![]);
        let errors = validate(&new, Some(&old), "/spec");
        assert_eq!(errors[0].to_string(), "spec.workloadRef: Invalid value: null: field is immutable");
        assert_eq!(errors.len(), 1);
    }
}

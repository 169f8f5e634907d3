//! The selector of a new Job, and fields of features that are off.

use serde_json::{Map, Value, json};

use super::defaults::labels_from_template;
use crate::core::prepare::drop_disabled_pod_spec_fields;
use crate::gates::{Gate, Gates};

pub use types::views::CONTROLLER_UID_LABEL;

/// Label of a Job's pods: the Job's name.
pub const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";
/// The former name of [`CONTROLLER_UID_LABEL`].
pub const LEGACY_CONTROLLER_UID_LABEL: &str = "controller-uid";
/// The former name of [`JOB_NAME_LABEL`].
pub const LEGACY_JOB_NAME_LABEL: &str = "job-name";

/// Prepares a new Job. Its name and uid must be final.
pub fn prepare_create(doc: &mut Value, gates: &Gates) {
    if let Some(doc) = doc.as_object_mut() {
        doc.remove("status");
    }
    drop_disabled_fields(doc.get_mut("spec"), None, gates);
    if doc.pointer("/spec/manualSelector") != Some(&Value::Bool(true)) {
        generate_selector(doc);
        // Defaulting would set these labels at the next write. They are set at creation, so that a write without
        // changes does not change the object.
        labels_from_template(doc);
    }
}

/// Prepares an update of a Job.
pub fn prepare_update(doc: &mut Value, old: &Value, gates: &Gates) {
    drop_disabled_fields(doc.get_mut("spec"), old.get("spec"), gates);
    // While the gate is off, an update does not change a stored reference. The types of Kubernetes do not have the
    // field, so a client that writes them back would be refused for removing it.
    let stored = old.pointer("/spec/workloadRef").filter(|_| !gates.enabled(Gate::JobWorkloadRef));
    if let (Some(stored), Some(spec)) = (stored, doc.get_mut("spec").and_then(Value::as_object_mut)) {
        spec.insert("workloadRef".to_owned(), stored.clone());
    }
}

/// Adds labels with the Job's name and uid to the pod template, and a selector for the uid. Labels of the user are left
/// for validation.
fn generate_selector(doc: &mut Value) {
    let text = |pointer| doc.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (name, uid) = (text("/metadata/name"), text("/metadata/uid"));
    let Some(spec) = doc.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let selected = child(child(spec, "selector"), "matchLabels");
    selected.entry(CONTROLLER_UID_LABEL).or_insert_with(|| json!(uid));
    let labels = child(child(child(spec, "template"), "metadata"), "labels");
    for (label, value) in [
        (LEGACY_JOB_NAME_LABEL, &name),
        (JOB_NAME_LABEL, &name),
        (LEGACY_CONTROLLER_UID_LABEL, &uid),
        (CONTROLLER_UID_LABEL, &uid),
    ] {
        labels.entry(label).or_insert_with(|| json!(value));
    }
}

/// The object in field `name`. It is created if it does not exist (or is not an object, which decoding refuses).
fn child<'a>(object: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let value = object.entry(name).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it is an object")
}

/// Drops fields of a Job's spec (or of a Job template) whose gate is off, unless they were set before.
pub(super) fn drop_disabled_fields(spec: Option<&mut Value>, old: Option<&Value>, gates: &Gates) {
    let Some(spec) = spec.and_then(Value::as_object_mut) else { return };
    for (field, gate) in [("scheduling", Gate::WorkloadWithJob), ("workloadRef", Gate::JobWorkloadRef)] {
        let was_there = old.and_then(|old| old.get(field)).is_some_and(|value| !value.is_null());
        if !gates.enabled(gate) && !was_there {
            spec.remove(field);
        }
    }
    let pod = spec.get_mut("template").and_then(|template| template.get_mut("spec"));
    drop_disabled_pod_spec_fields(pod, old.and_then(|old| old.pointer("/template/spec")), gates);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{prepare_create, prepare_update};
    use crate::batch::validation::validate_create;
    use crate::gates::{Gate, Gates};

    #[test]
    fn new_job_selects_its_pods_by_uid() {
        let mut job = json!({
            "metadata": {"name": "trainer", "uid": "u1", "labels": {"team": "y"}},
            "spec": {"selector": null, "template": {"metadata": {"labels": {"app": "x"}}}},
            "status": {"active": 3},
        });
        prepare_create(&mut job, &Gates::default());
        assert_eq!(
            job,
            json!({
                "metadata": {"name": "trainer", "uid": "u1", "labels": {"team": "y"}},
                "spec": {
                    "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u1"}},
                    "template": {"metadata": {"labels": {
                        "app": "x",
                        "job-name": "trainer", "batch.kubernetes.io/job-name": "trainer",
                        "controller-uid": "u1", "batch.kubernetes.io/controller-uid": "u1",
                    }}},
                },
            })
        );
    }

    // A Job without labels got its pods' labels only at the next write, which then changed the object.
    #[test]
    fn new_job_without_labels_gets_its_pods_labels_at_creation() {
        let mut job = json!({"metadata": {"name": "trainer", "uid": "u1"}, "spec": {"template": {}}});
        prepare_create(&mut job, &Gates::default());
        assert_eq!(job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]);
        assert_eq!(job["metadata"]["labels"]["job-name"], "trainer");
    }

    #[test]
    fn labels_of_the_job_are_reported_unless_all_were_generated() {
        for (labels, want) in [(json!({"app": "x"}), true), (json!(null), false)] {
            // The name is too long for a label value.
            let name = "a".repeat(64);
            let template = json!({"metadata": {"labels": labels}, "spec": {}});
            let mut job = json!({"metadata": {"name": name, "uid": "u1"}, "spec": {"template": template}});
            if labels.is_null() {
                job["spec"]["template"] = json!({"spec": {}});
            }
            prepare_create(&mut job, &Gates::default());
            let errors = validate_create(&serde_json::from_value(job).expect("a Job"), &Gates::default());
            let reported = |path: &str| errors.iter().any(|error| error.path.as_str() == path);
            assert_eq!((reported("metadata.labels"), reported("spec.template.labels")), (want, true), "{labels}");
        }
    }

    #[test]
    fn labels_and_selector_of_the_user_are_not_changed() {
        let manual = json!({"metadata": {"name": "a", "uid": "u"}, "spec": {"manualSelector": true, "template": {}}});
        let mut job = manual.clone();
        prepare_create(&mut job, &Gates::default());
        assert_eq!(job, manual);
        let mut job = json!({
            "metadata": {"name": "a", "uid": "u"},
            "spec": {"template": {"metadata": {"labels": {"job-name": "other"}}}},
        });
        prepare_create(&mut job, &Gates::default());
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "other");
    }

    // Shows: U-TestDropDisabledFieldsScheduling
    #[test]
    fn fields_of_gates_that_are_off_are_dropped_unless_they_were_set() {
        let off = Gates::default().with(Gate::WorkloadWithJob, false).with(Gate::GenericWorkload, false);
        let with = json!({"metadata": {}, "spec": {
            "manualSelector": true, "scheduling": {}, "template": {"spec": {"schedulingGroup": {"podGroupName": "g"}}},
        }});
        let without = json!({"metadata": {}, "spec": {"manualSelector": true, "template": {"spec": {}}}});
        let mut job = with.clone();
        prepare_create(&mut job, &Gates::default());
        assert_eq!(job, with, "gates on");
        prepare_create(&mut job, &off);
        assert_eq!(job, without, "created with the gates off");
        let mut job = with.clone();
        prepare_update(&mut job, &with, &off);
        assert_eq!(job, with, "set before");
        prepare_update(&mut job, &without, &off);
        assert_eq!(job, without, "not set before");
    }

    // A client that writes back the types of Kubernetes, which do not have the field, was refused.
    // Shows: S001-19
    #[test]
    fn stored_reference_is_kept_while_its_gate_is_off() {
        let job = |reference: serde_json::Value| json!({"metadata": {}, "spec": {"workloadRef": reference}});
        let (stored, without) = (job(json!({"name": "w"})), json!({"metadata": {}, "spec": {}}));
        for mut written in [without.clone(), job(json!({"name": "other"})), stored.clone()] {
            prepare_update(&mut written, &stored, &Gates::default());
            assert_eq!(written, stored);
        }
        let on = Gates::default().with(Gate::JobWorkloadRef, true);
        let mut written = without.clone();
        prepare_update(&mut written, &stored, &on);
        assert_eq!(written, without, "with the gate on, validation refuses it");
        let mut new = job(json!({"name": "w"}));
        prepare_update(&mut new, &without, &Gates::default());
        assert_eq!(new, without, "no reference is added");
    }
}

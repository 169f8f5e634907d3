//! What a new Job gets besides defaults (the selector of its pods), and which fields of features that are off it loses.

use serde_json::{Map, Value, json};

use super::defaults::labels_from_template;
use crate::core::prepare::drop_disabled_pod_spec_fields;
use crate::gates::{Gate, Gates};

pub use types::views::CONTROLLER_UID_LABEL;

/// Labels that a Job's pods carry: the Job's name.
pub const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";
/// The older form of [`CONTROLLER_UID_LABEL`].
pub const LEGACY_CONTROLLER_UID_LABEL: &str = "controller-uid";
/// The older form of [`JOB_NAME_LABEL`].
pub const LEGACY_JOB_NAME_LABEL: &str = "job-name";

/// Settles what a new Job may not say for itself. Its name and uid must be final.
pub fn prepare_create(doc: &mut Value, gates: &Gates) {
    if let Some(doc) = doc.as_object_mut() {
        doc.remove("status");
    }
    drop_disabled_fields(doc.get_mut("spec"), None, gates);
    if doc.pointer("/spec/manualSelector") != Some(&Value::Bool(true)) {
        generate_selector(doc);
        // Every later reading of the Job would give it these, so it has them from the start: or the first write that
        // changes nothing would change them.
        labels_from_template(doc);
    }
}

/// Settles what an update may not bring.
pub fn prepare_update(doc: &mut Value, old: &Value, gates: &Gates) {
    drop_disabled_fields(doc.get_mut("spec"), old.get("spec"), gates);
    // While its gate is off, a stored reference stays whatever is written. The types of Kubernetes lack the field, and a
    // client that writes them back would be refused for having removed it.
    let stored = old.pointer("/spec/workloadRef").filter(|_| !gates.enabled(Gate::JobWorkloadRef));
    if let (Some(stored), Some(spec)) = (stored, doc.get_mut("spec").and_then(Value::as_object_mut)) {
        spec.insert("workloadRef".to_owned(), stored.clone());
    }
}

/// Labels the pods with the Job's name and uid, and selects them by the uid. What the user wrote is left for
/// validation to judge.
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

/// The object called `name` in `object`, made if it is not there (or is no object, which decoding has ruled out).
fn child<'a>(object: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let value = object.entry(name).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was just made an object")
}

/// A field of a Job's spec (or of a template of one) whose gate is off goes, unless it was there already.
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
    fn a_new_job_selects_its_pods_by_its_uid() {
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

    // A Job without any label showed its pods' labels only after the first later write, which then changed it.
    #[test]
    fn a_new_job_without_labels_has_its_pods_labels_from_the_start() {
        let mut job = json!({"metadata": {"name": "trainer", "uid": "u1"}, "spec": {"template": {}}});
        prepare_create(&mut job, &Gates::default());
        assert_eq!(job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]);
        assert_eq!(job["metadata"]["labels"]["job-name"], "trainer");
    }

    #[test]
    fn a_job_is_told_of_its_pods_labels_unless_all_of_them_were_made() {
        for (labels, want) in [(json!({"app": "x"}), true), (json!(null), false)] {
            // Too long for a label, which the name becomes.
            let name = "a".repeat(64);
            let template = json!({"metadata": {"labels": labels}, "spec": {}});
            let mut job = json!({"metadata": {"name": name, "uid": "u1"}, "spec": {"template": template}});
            if labels.is_null() {
                job["spec"]["template"] = json!({"spec": {}});
            }
            prepare_create(&mut job, &Gates::default());
            let errors = validate_create(&serde_json::from_value(job).expect("a Job"), &Gates::default());
            let told = |path: &str| errors.iter().any(|error| error.path.as_str() == path);
            assert_eq!((told("metadata.labels"), told("spec.template.labels")), (want, true), "{labels}");
        }
    }

    #[test]
    fn what_the_user_wrote_is_left_for_validation() {
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
    fn fields_of_gates_that_are_off_are_dropped_unless_they_were_there() {
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
        assert_eq!(job, with, "there before");
        prepare_update(&mut job, &without, &off);
        assert_eq!(job, without, "not there before");
    }

    // A client that writes back the types of Kubernetes, which lack the field, was refused.
    // Shows: S001-19
    #[test]
    fn a_stored_reference_stays_while_its_gate_is_off_whatever_is_written() {
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
        assert_eq!(new, without, "none is added");
    }
}

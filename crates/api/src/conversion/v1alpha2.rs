//! `v1alpha2` of Kubernetes 1.36: the reference to the template is nested, disruption modes are strings, and the
//! condition has a shorter name.

use serde_json::{Value, json};

use super::{ConversionContext, JsonObject, items, spec_of};
use crate::field::{Error, ErrorList, Path};

/// Disruption modes: the string of this version and the member of the current union.
const MODES: [(&str, &str); 2] = [("Pod", "single"), ("PodGroup", "all")];

/// The name of the condition in this version.
pub(super) const SCHEDULED_CONDITION: &str = "PodGroupScheduled";
/// Its current name.
const INITIALLY_SCHEDULED: &str = "PodGroupInitiallyScheduled";

pub(super) fn pod_group_to_storage(doc: &mut Value, _context: &ConversionContext<'_>) -> Result<(), ErrorList> {
    swap_condition(doc);
    let Some(spec) = spec_of(doc) else { return Ok(()) };
    let path = Path::new("spec");
    let mut errors = ErrorList::new();
    if let Some(reference) = spec.remove("podGroupTemplateRef") {
        match reference.get("workload").and_then(Value::as_object) {
            Some(workload) => {
                let name = |field: &str| workload.get(field).cloned().unwrap_or_default();
                let present = json!({
                    "workloadName": name("workloadName"), "templateName": name("podGroupTemplateName"),
                });
                spec.insert("workloadRef".to_owned(), without_nulls(present));
            }
            None => errors.push(Error::required(&path.child("podGroupTemplateRef").child("workload"), "")),
        }
    }
    errors.extend(disruption_mode_to_storage(spec, &path));
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

pub(super) fn pod_group_from_storage(doc: &mut Value) {
    swap_condition(doc);
    let Some(spec) = spec_of(doc) else { return };
    if let Some(reference) = spec.remove("workloadRef") {
        let workload = json!({
            "workloadName": reference["workloadName"], "podGroupTemplateName": reference["templateName"],
        });
        spec.insert("podGroupTemplateRef".to_owned(), json!({"workload": without_nulls(workload)}));
    }
    disruption_mode_from_storage(spec);
}

pub(super) fn workload_to_storage(doc: &mut Value, _context: &ConversionContext<'_>) -> Result<(), ErrorList> {
    let mut errors = ErrorList::new();
    if let Some(spec) = spec_of(doc) {
        visit_templates(spec, &Path::new("spec"), &mut |template, path| {
            errors.extend(disruption_mode_to_storage(template, path))
        });
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

pub(super) fn workload_from_storage(doc: &mut Value) {
    if let Some(spec) = spec_of(doc) {
        visit_templates(spec, &Path::new("spec"), &mut |template, _| disruption_mode_from_storage(template));
    }
}

/// Visits every template of a group of pods below `parent`. Composites were added later and have the current form.
fn visit_templates(parent: &mut JsonObject, path: &Path, visit: &mut dyn FnMut(&mut JsonObject, &Path)) {
    let (leaves, composites) = ("podGroupTemplates", "compositePodGroupTemplates");
    for (i, template) in items(parent, leaves).enumerate() {
        visit(template, &path.child(leaves).index(i));
    }
    for (i, template) in items(parent, composites).enumerate() {
        visit_templates(template, &path.child(composites).index(i), visit);
    }
}

fn disruption_mode_to_storage(group: &mut JsonObject, path: &Path) -> Option<Error> {
    let mode = group.get_mut("disruptionMode")?;
    let word = mode.as_str().unwrap_or_default();
    match MODES.iter().find(|(known, _)| *known == word) {
        Some((_, member)) => {
            *mode = json!({*member: {}});
            None
        }
        None => Some(Error::not_supported(&path.child("disruptionMode"), word, &MODES.map(|(word, _)| word))),
    }
}

fn disruption_mode_from_storage(group: &mut JsonObject) {
    if let Some(mode) = group.get_mut("disruptionMode")
        && let Some((word, _)) = MODES.iter().find(|(_, member)| mode.get(member).is_some())
    {
        *mode = json!(word);
    }
}

/// Swaps the two names of the condition, in either direction.
fn swap_condition(doc: &mut Value) {
    let Some(status) = doc.get_mut("status").and_then(Value::as_object_mut) else { return };
    for condition in items(status, "conditions") {
        swap_text(condition, "type", [SCHEDULED_CONDITION, INITIALLY_SCHEDULED]);
    }
}

/// Replaces one of two strings by the other.
pub(super) fn swap_text(object: &mut JsonObject, field: &str, [one, other]: [&str; 2]) {
    if let Some(text) = object.get_mut(field) {
        if text == one {
            *text = json!(other);
        } else if text == other {
            *text = json!(one);
        }
    }
}

/// Removes `null` fields.
fn without_nulls(mut value: Value) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.retain(|_, value| !value.is_null());
    }
    value
}

//! `v1alpha1` as in the first drafts. Two of them describe a PodGroup differently. Both are accepted, and responses
//! have the fields of both, for readers of either.

use serde_json::{Value, json};

use super::v1alpha2::{self, SCHEDULED_CONDITION, swap_text};
use super::{ConversionContext, JsonObject, child, items, spec_of, text};
use crate::field::{Error, ErrorList, Path};

/// Reasons of a placed group: in the drafts, and now.
const SCHEDULED_REASONS: [&str; 2] = ["MinCountSatisfied", "Scheduled"];
/// The drafts' reason of the condition before the first decision. It is not stored.
const IN_PROGRESS: &str = "SchedulingInProgress";
/// Fields that a group inherits from its template if they are unset.
const INHERITED_FIELDS: [&str; 7] = [
    "schedulingPolicy",
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
];

pub(super) fn pod_group_to_storage(doc: &mut Value, context: &ConversionContext<'_>) -> Result<(), ErrorList> {
    status_to_storage(doc);
    let origin = match spec_of(doc) {
        Some(spec) => origin_to_storage(spec, context)?,
        None => None,
    };
    v1alpha2::pod_group_to_storage(doc, context)?;
    let Some(spec) = spec_of(doc).filter(|spec| !spec.contains_key("schedulingPolicy")) else { return Ok(()) };
    let Some(template) = inherited_spec(origin.as_ref(), context) else {
        // Validation refuses a group without a reference and policy, as in any version.
        return origin.as_ref().map_or(Ok(()), |origin| Err(vec![missing_policy_error(origin)]));
    };
    for field in INHERITED_FIELDS {
        if let (Some(value), false) = (template.get(field), spec.contains_key(field)) {
            spec.insert(field.to_owned(), value.clone());
        }
    }
    Ok(())
}

pub(super) fn pod_group_from_storage(doc: &mut Value) {
    v1alpha2::pod_group_from_storage(doc);
    status_from_storage(doc);
    let Some(spec) = spec_of(doc) else { return };
    let workload = child(spec, "podGroupTemplateRef").and_then(|reference| child(reference, "workload"));
    let Some(workload) = workload.map(|workload| workload.clone()) else { return };
    let template = text(&workload, "podGroupTemplateName");
    spec.insert("workloadRef".to_owned(), json!({"name": text(&workload, "workloadName")}));
    spec.insert("podGroupTemplateName".to_owned(), json!(template));
    if let Some(reference) = child(spec, "podGroupTemplateRef") {
        reference.insert("name".to_owned(), json!(template));
    }
}

pub(super) fn workload_to_storage(doc: &mut Value, context: &ConversionContext<'_>) -> Result<(), ErrorList> {
    if let Some(spec) = spec_of(doc) {
        let path = Path::new("spec").child("controllerRef");
        if let Some(reference) = child(spec, "controllerRef") {
            controller_ref_to_storage(reference, &path).map_err(|error| vec![error])?;
        }
    }
    v1alpha2::workload_to_storage(doc, context)
}

pub(super) fn workload_from_storage(doc: &mut Value) {
    v1alpha2::workload_from_storage(doc);
}

/// Keeps only the group of `apiVersion`.
fn controller_ref_to_storage(reference: &mut JsonObject, path: &Path) -> Result<(), Error> {
    let Some(version) = reference.remove("apiVersion") else { return Ok(()) };
    let version = version.as_str().unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let known = text(reference, "apiGroup");
    if !known.is_empty() && known != group {
        let detail = format!("must be of the group in {}", path.child("apiGroup"));
        return Err(Error::invalid(&path.child("apiVersion"), version, detail));
    }
    if !group.is_empty() {
        reference.insert("apiGroup".to_owned(), json!(group));
    }
    Ok(())
}

/// Workload and template of a group.
struct TemplateOrigin {
    workload: String,
    template: String,
}

/// Reads the reference from all fields that the drafts have for it, and writes that of `v1alpha2`.
fn origin_to_storage(
    spec: &mut JsonObject,
    context: &ConversionContext<'_>,
) -> Result<Option<TemplateOrigin>, ErrorList> {
    let path = Path::new("spec");
    let (reference_path, template_path) = (path.child("workloadRef"), path.child("podGroupTemplateRef"));
    let mut workload = ConsistentName::default();
    let mut template = ConsistentName::default();
    let mut errors = ErrorList::new();
    if let Some(Value::Object(reference)) = spec.remove("workloadRef") {
        errors.extend(validate_workload_reference(&reference, &reference_path, context.namespace));
        workload.record(&reference_path.child("name"), text(&reference, "name"), &mut errors);
    }
    if let Some(Value::Object(mut reference)) = spec.remove("podGroupTemplateRef") {
        template.record(&template_path.child("name"), text(&reference, "name"), &mut errors);
        let path = template_path.child("workload");
        if let Some(nested) = child(&mut reference, "workload") {
            workload.record(&path.child("workloadName"), text(nested, "workloadName"), &mut errors);
            let name = text(nested, "podGroupTemplateName");
            template.record(&path.child("podGroupTemplateName"), name, &mut errors);
        }
    }
    let name = spec.remove("podGroupTemplateName");
    let name = name.as_ref().and_then(Value::as_str).unwrap_or_default();
    template.record(&path.child("podGroupTemplateName"), name, &mut errors);
    let origin = match (workload.0, template.0) {
        (None, None) => None,
        (Some((_, workload)), Some((_, template))) => Some(TemplateOrigin { workload, template }),
        (None, Some(_)) => {
            errors.push(Error::required(&reference_path.child("name"), "a template needs its Workload"));
            None
        }
        (Some(_), None) => {
            errors.push(Error::required(&path.child("podGroupTemplateName"), "a Workload may have several templates"));
            None
        }
    };
    if !errors.is_empty() {
        return Err(errors);
    }
    if let Some(TemplateOrigin { workload, template }) = &origin {
        let nested = json!({"workloadName": workload, "podGroupTemplateName": template});
        spec.insert("podGroupTemplateRef".to_owned(), json!({"workload": nested}));
    }
    Ok(origin)
}

/// Validates that the reference is to a Workload of this namespace.
fn validate_workload_reference(reference: &JsonObject, path: &Path, namespace: &str) -> ErrorList {
    let (kind, other_namespace) = (text(reference, "kind"), text(reference, "namespace"));
    let mut errors = ErrorList::new();
    if !matches!(kind, "" | "Workload") {
        errors.push(Error::not_supported(&path.child("kind"), kind, &["Workload"]));
    }
    if !other_namespace.is_empty() && other_namespace != namespace {
        let detail = format!("must be the namespace of the group, {namespace}");
        errors.push(Error::invalid(&path.child("namespace"), other_namespace, detail));
    }
    errors
}

/// A name that can be set in several fields and must be the same in all of them.
#[derive(Default)]
struct ConsistentName(Option<(Path, String)>);

impl ConsistentName {
    fn record(&mut self, path: &Path, name: &str, errors: &mut ErrorList) {
        if name.is_empty() {
            return;
        }
        match &self.0 {
            None => self.0 = Some((path.clone(), name.to_owned())),
            Some((first, known)) if known != name => {
                errors.push(Error::invalid(path, name, format!("must be the same as {first} ({known})")));
            }
            Some(_) => {}
        }
    }
}

/// The source of a policy that the group does not set: the stored group, or its template.
fn inherited_spec(origin: Option<&TemplateOrigin>, context: &ConversionContext<'_>) -> Option<Value> {
    if let Some(old) = context.old {
        return old.get("spec").cloned();
    }
    let TemplateOrigin { workload, template } = origin?;
    let workload = (context.workload)(workload)?;
    find_template(workload.get("spec")?, template).cloned()
}

/// The template of this name in the tree below `parent`, a Workload's spec or a composite template.
fn find_template<'a>(parent: &'a Value, name: &str) -> Option<&'a Value> {
    let list = |field: &str| parent.get(field).and_then(Value::as_array).into_iter().flatten();
    let leaf = list("podGroupTemplates").find(|template| template.get("name").is_some_and(|known| known == name));
    leaf.or_else(|| list("compositePodGroupTemplates").find_map(|template| find_template(template, name)))
}

fn missing_policy_error(TemplateOrigin { workload, template }: &TemplateOrigin) -> Error {
    let detail = format!(
        "this version takes it from the Workload, and there is no Workload \"{workload}\" with a template \"{template}\" \
         yet: create it first, or set the policy here"
    );
    Error::required(&Path::new("spec").child("schedulingPolicy"), detail)
}

fn status_to_storage(doc: &mut Value) {
    let Some(status) = doc.get_mut("status").and_then(Value::as_object_mut) else { return };
    // The count is only for readers. The pods are counted where it is needed.
    status.remove("scheduledPods");
    for condition in items(status, "conditions") {
        swap_reason(condition);
    }
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions.retain(|condition| {
            !(field_equals(condition, "type", SCHEDULED_CONDITION) && field_equals(condition, "reason", IN_PROGRESS))
        });
        if conditions.is_empty() {
            status.remove("conditions");
        }
    }
    if status.is_empty()
        && let Some(doc) = doc.as_object_mut()
    {
        doc.remove("status");
    }
}

/// The drafts have the condition from the start: `Unknown` before the first decision.
fn status_from_storage(doc: &mut Value) {
    let created = doc.pointer("/metadata/creationTimestamp").cloned();
    let Some(doc) = doc.as_object_mut() else { return };
    let status = doc.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else { return };
    for condition in items(status, "conditions") {
        swap_reason(condition);
    }
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    if !conditions.iter().any(|condition| field_equals(condition, "type", SCHEDULED_CONDITION)) {
        conditions.push(json!({
            "type": SCHEDULED_CONDITION, "status": "Unknown", "reason": IN_PROGRESS,
            "message": "the group has not been looked at yet", "lastTransitionTime": created,
        }));
    }
}

fn swap_reason(condition: &mut JsonObject) {
    if text(condition, "type") == SCHEDULED_CONDITION && text(condition, "status") == "True" {
        swap_text(condition, "reason", SCHEDULED_REASONS);
    }
}

fn field_equals(object: &Value, field: &str, wanted: &str) -> bool {
    object.get(field).is_some_and(|value| value == wanted)
}

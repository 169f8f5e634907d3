//! Workloads: trees of templates.

use std::collections::BTreeSet;

use k8s_openapi::api::scheduling::v1beta1::{
    CompositePodGroupTemplate, PodGroupTemplate, TypedLocalObjectReference, Workload, WorkloadSpec,
};
use serde_json::Value;
use workloadbuilder::rules::{MAX_DEPTH, MAX_TEMPLATES};
use workloadbuilder::{format, rules};

use super::group::{self, GroupFields};
use crate::field::{Error, ErrorList, Path};
use crate::gates::{Gate, Gates};
use crate::metadata::{validate_object_meta, validate_object_meta_update};

/// Validates a new Workload.
pub fn validate_create(workload: &Workload, gates: &Gates) -> ErrorList {
    let mut errors = validate_object_meta(&workload.metadata, true, &Path::new("metadata"));
    errors.extend(validate_handwritten(&workload.spec));
    errors.extend(validate_declarative(&workload.spec, None, gates));
    errors
}

/// Validates a change of a Workload. Only the counts of gangs are mutable.
pub fn validate_update(new: &Workload, old: &Workload, gates: &Gates) -> ErrorList {
    let mut errors = validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    errors.extend(validate_handwritten(&new.spec));
    errors.extend(validate_declarative(&new.spec, Some(&old.spec), gates));
    errors
}

fn leaves(templates: &Option<Vec<PodGroupTemplate>>) -> &[PodGroupTemplate] {
    templates.as_deref().unwrap_or_default()
}

fn composites(templates: &Option<Vec<CompositePodGroupTemplate>>) -> &[CompositePodGroupTemplate] {
    templates.as_deref().unwrap_or_default()
}

/// The rules about the whole tree.
fn validate_handwritten(spec: &WorkloadSpec) -> ErrorList {
    let path = Path::new("spec");
    let mut tree = TemplateTree::default();
    tree.visit_leaves(leaves(&spec.pod_group_templates), &path.child("podGroupTemplates"));
    let list = path.child("compositePodGroupTemplates");
    tree.visit_composites(composites(&spec.composite_pod_group_templates), &list);
    for (i, template) in composites(&spec.composite_pod_group_templates).iter().enumerate() {
        if depth(template) > MAX_DEPTH {
            let detail = format!("maximum template hierarchy depth is {MAX_DEPTH}");
            let below = as_stored(composites(&template.composite_pod_group_templates));
            tree.errors.push(Error::invalid(&list.index(i), below, detail));
        }
    }
    if tree.priorities.len() > 1 {
        let detail = if composites(&spec.composite_pod_group_templates).is_empty() {
            "detected multiple priority configurations"
        } else {
            "all priority and priorityClassName values must be identical, detected multiple values"
        };
        tree.errors.push(Error::invalid(&path, Value::Null, detail));
    }
    tree.errors.append(&mut tree.childless);
    tree.errors
}

/// Templates with the field names of the API server's internal types, as this one error prints them.
fn as_stored(templates: &[CompositePodGroupTemplate]) -> Value {
    let mut value = crate::metadata::to_json(&templates);
    rename(&mut value);
    value
}

fn rename(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(rename),
        Value::Object(fields) => {
            for (name, mut value) in std::mem::take(fields) {
                rename(&mut value);
                fields.insert(name[..1].to_ascii_uppercase() + &name[1..], value);
            }
            // The internal type always has the class of a template.
            if fields.contains_key("SchedulingPolicy") {
                fields.entry("PriorityClassName").or_insert_with(|| "".into());
            }
        }
        _ => {}
    }
}

/// The number of levels from `template` down. A leaf has one.
fn depth(template: &CompositePodGroupTemplate) -> usize {
    let below = composites(&template.composite_pod_group_templates).iter().map(depth).max();
    // A composite without children counts the level of its missing leaves.
    1 + below.unwrap_or(1)
}

/// The names and errors found so far, in the order of the document.
#[derive(Default)]
struct TemplateTree<'a> {
    names: BTreeSet<&'a str>,
    priorities: BTreeSet<(Option<&'a str>, Option<i32>)>,
    errors: ErrorList,
    /// Errors about composites without children. They come last.
    childless: ErrorList,
}

impl<'a> TemplateTree<'a> {
    fn visit_leaves(&mut self, templates: &'a [PodGroupTemplate], path: &Path) {
        self.visit_names(templates.iter().map(|template| template.name.as_str()), path);
        for template in templates {
            self.priorities.insert((template.priority_class_name.as_deref(), template.priority));
        }
    }

    fn visit_composites(&mut self, templates: &'a [CompositePodGroupTemplate], path: &Path) {
        self.visit_names(templates.iter().map(|template| template.name.as_str()), path);
        for (i, template) in templates.iter().enumerate() {
            let path = path.index(i);
            self.priorities.insert((template.priority_class_name.as_deref(), template.priority));
            let (pods, groups) =
                (leaves(&template.pod_group_templates), composites(&template.composite_pod_group_templates));
            if pods.is_empty() && groups.is_empty() {
                let detail = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate";
                self.childless.push(Error::invalid(&path, template.name.as_str(), detail));
            }
            self.visit_leaves(pods, &path.child("podGroupTemplates"));
            self.visit_composites(groups, &path.child("compositePodGroupTemplates"));
        }
    }

    /// Names are unique in the whole tree. Duplicates in one list are reported by that list's own rule.
    fn visit_names(&mut self, names: impl Iterator<Item = &'a str>, path: &Path) {
        let mut here = BTreeSet::new();
        for (i, name) in names.enumerate() {
            if here.insert(name) && self.names.contains(name) {
                self.errors.push(Error::duplicate(&path.index(i).child("name"), name));
            }
        }
        self.names.extend(here);
    }
}

/// The rules that the types declare.
fn validate_declarative(new: &WorkloadSpec, old: Option<&WorkloadSpec>, gates: &Gates) -> ErrorList {
    let path = Path::new("spec");
    let members = |spec: &WorkloadSpec| {
        [
            ("podGroupTemplates", !leaves(&spec.pod_group_templates).is_empty()),
            ("compositePodGroupTemplates", !composites(&spec.composite_pod_group_templates).is_empty()),
        ]
    };
    let mut errors = ErrorList::new();
    if old.map(members) != Some(members(new)) {
        errors.extend(rules::exactly_one(&path, &members(new)));
    }
    match (&new.controller_ref, old) {
        (new, Some(old)) if *new != old.controller_ref => errors.push(rules::immutable(&path.child("controllerRef"))),
        (Some(new), None) => errors.extend(controller_ref(&path.child("controllerRef"), new)),
        _ => {}
    }
    errors.extend(validate_lists(&path, new.into(), old.map(TemplateLists::from), gates));
    errors
}

/// The templates directly below a Workload or a composite template.
#[derive(Clone, Copy)]
struct TemplateLists<'a> {
    leaves: &'a [PodGroupTemplate],
    composites: &'a [CompositePodGroupTemplate],
}

impl<'a> From<&'a WorkloadSpec> for TemplateLists<'a> {
    fn from(spec: &'a WorkloadSpec) -> Self {
        let (inner, outer) = (&spec.pod_group_templates, &spec.composite_pod_group_templates);
        TemplateLists { leaves: leaves(inner), composites: composites(outer) }
    }
}

impl<'a> From<&'a CompositePodGroupTemplate> for TemplateLists<'a> {
    fn from(template: &'a CompositePodGroupTemplate) -> Self {
        let (inner, outer) = (&template.pod_group_templates, &template.composite_pod_group_templates);
        TemplateLists { leaves: leaves(inner), composites: composites(outer) }
    }
}

fn validate_lists(path: &Path, new: TemplateLists<'_>, old: Option<TemplateLists<'_>>, gates: &Gates) -> ErrorList {
    let mut errors = leaf_list(&path.child("podGroupTemplates"), new.leaves, old.map(|old| old.leaves), gates);
    let path = path.child("compositePodGroupTemplates");
    errors.extend(composite_list(&path, new.composites, old.map(|old| old.composites), gates));
    errors
}

fn controller_ref(path: &Path, reference: &TypedLocalObjectReference) -> ErrorList {
    let mut errors = ErrorList::new();
    if let Some(group) = reference.api_group.as_deref().filter(|group| !group.is_empty()) {
        errors.extend(rules::validate_format(&path.child("apiGroup"), group, format::subdomain));
    }
    errors.extend(rules::validate_required(&path.child("kind"), &reference.kind, format::path_segment));
    errors.extend(rules::validate_required(&path.child("name"), &reference.name, format::path_segment));
    errors
}

/// The rules of one template. An unchanged name is not validated again.
fn template(path: &Path, name: &str, new: &GroupFields<'_>, old: Option<&GroupFields<'_>>, gates: &Gates) -> ErrorList {
    let mut errors = ErrorList::new();
    if old.is_none() {
        errors.extend(rules::validate_required(&path.child("name"), name, format::label));
    }
    errors.extend(group::validate_declarative(path, new, old, gates));
    errors
}

fn leaf_list(path: &Path, new: &[PodGroupTemplate], old: Option<&[PodGroupTemplate]>, gates: &Gates) -> ErrorList {
    list(
        path,
        new,
        old,
        |template| &template.name,
        |path, new, old| template(path, &new.name, &new.into(), old.map(GroupFields::from).as_ref(), gates),
    )
}

fn composite_list(
    path: &Path,
    new: &[CompositePodGroupTemplate],
    old: Option<&[CompositePodGroupTemplate]>,
    gates: &Gates,
) -> ErrorList {
    if !gates.enabled(Gate::CompositePodGroup) && !new.is_empty() && old != Some(new) {
        return vec![Error::forbidden(path, "")];
    }
    list(
        path,
        new,
        old,
        |template| &template.name,
        |path, new, old| {
            let mut errors = template(path, &new.name, &new.into(), old.map(GroupFields::from).as_ref(), gates);
            errors.extend(validate_lists(path, new.into(), old.map(TemplateLists::from), gates));
            errors
        },
    )
}

/// A list of templates: its length, unique names, the same templates as before, and each compared with its old one.
fn list<T: PartialEq + serde::Serialize>(
    path: &Path,
    new: &[T],
    old: Option<&[T]>,
    name: fn(&T) -> &String,
    validate_template: impl Fn(&Path, &T, Option<&T>) -> ErrorList,
) -> ErrorList {
    let mut errors = ErrorList::new();
    let before = |template: &T| old.and_then(|old| old.iter().find(|old| name(old) == name(template)));
    if new.len() > MAX_TEMPLATES {
        errors.push(Error::too_many(path, new.len(), MAX_TEMPLATES));
    }
    if let Some(old) = old {
        let added = new.iter().enumerate().filter(|(_, template)| before(template).is_none());
        errors.extend(added.map(|(i, _)| Error::forbidden(&path.index(i), "item may not be added")));
        let removed = old.iter().filter(|old| new.iter().all(|new| name(new) != name(old)));
        errors.extend(removed.map(|_| Error::forbidden(path, "item may not be removed")));
    }
    if !errors.is_empty() {
        return errors;
    }
    errors.extend(rules::validate_unique_names(path, new, name));
    for (i, template) in new.iter().enumerate() {
        let old = before(template);
        if old != Some(template) {
            errors.extend(validate_template(&path.index(i), template, old));
        }
    }
    errors
}

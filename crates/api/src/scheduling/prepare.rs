//! Drops fields of features that are off, unless the object had them before.

use serde_json::{Map, Value};

use crate::gates::{Gate, Gates};

type JsonObject = Map<String, Value>;

/// Prepares a new Workload.
pub fn prepare_workload_create(doc: &mut Value, gates: &Gates) {
    drop_workload_fields(doc, None, gates);
}

/// Prepares an update of a Workload.
pub fn prepare_workload_update(doc: &mut Value, old: &Value, gates: &Gates) {
    drop_workload_fields(doc, Some(old), gates);
}

/// Prepares a new PodGroup: it has no status.
pub fn prepare_pod_group_create(doc: &mut Value, gates: &Gates) {
    if let Some(doc) = doc.as_object_mut() {
        doc.remove("status");
    }
    drop_pod_group_fields(doc, None, gates);
}

/// Prepares an update of a PodGroup: the status is kept.
pub fn prepare_pod_group_update(doc: &mut Value, old: &Value, gates: &Gates) {
    restore_field(doc, old, "status");
    drop_pod_group_fields(doc, Some(old), gates);
}

/// Prepares an update of a PodGroup's status: everything else is kept.
pub fn prepare_pod_group_status_update(doc: &mut Value, old: &Value, gates: &Gates) {
    restore_all_but_status(doc, old);
    let has_claims = old.pointer("/spec/resourceClaims").is_some_and(is_set);
    if !gates.enabled(Gate::DRAWorkloadResourceClaims)
        && !has_claims
        && let Some(status) = doc.get_mut("status").and_then(Value::as_object_mut)
    {
        status.remove("resourceClaimStatuses");
    }
}

/// Prepares a new CompositePodGroup: it has no status.
pub fn prepare_composite_create(doc: &mut Value, gates: &Gates) {
    if let Some(doc) = doc.as_object_mut() {
        doc.remove("status");
    }
    drop_composite_fields(doc, None, gates);
}

/// Prepares an update of a CompositePodGroup: the status is kept.
pub fn prepare_composite_update(doc: &mut Value, old: &Value, gates: &Gates) {
    restore_field(doc, old, "status");
    drop_composite_fields(doc, Some(old), gates);
}

/// Prepares an update of a CompositePodGroup's status: everything else is kept.
pub fn prepare_composite_status_update(doc: &mut Value, old: &Value, _gates: &Gates) {
    restore_all_but_status(doc, old);
}

fn drop_composite_fields(doc: &mut Value, old: Option<&Value>, gates: &Gates) {
    let Some(spec) = doc.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let old = old.and_then(|old| old.get("spec"));
    drop_unless(spec, old, "preemptionPolicy", gates.enabled(Gate::PodGroupPreemptionPolicy));
}

fn restore_all_but_status(doc: &mut Value, old: &Value) {
    restore_field(doc, old, "spec");
    if let (Some(new), Some(old)) = (doc.get_mut("metadata"), old.get("metadata")) {
        for field in ["labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp", "generation"] {
            restore_field(new, old, field);
        }
    }
}

fn restore_field(new: &mut Value, old: &Value, field: &str) {
    let Some(new) = new.as_object_mut() else { return };
    match old.get(field) {
        Some(value) => drop(new.insert(field.to_owned(), value.clone())),
        None => drop(new.remove(field)),
    }
}

fn drop_workload_fields(doc: &mut Value, old: Option<&Value>, gates: &Gates) {
    let Some(spec) = doc.get_mut("spec").and_then(Value::as_object_mut) else { return };
    drop_template_fields(spec, old.and_then(|old| old.get("spec")), gates);
}

/// Drops fields of the templates in `parent`, a Workload's spec or a composite template.
fn drop_template_fields(parent: &mut JsonObject, old: Option<&Value>, gates: &Gates) {
    // Leaf templates keep their index, composite ones are found by name.
    for (i, template) in items(parent, "podGroupTemplates").enumerate() {
        let old = old.and_then(|old| old.get("podGroupTemplates")).and_then(|templates| templates.get(i));
        drop_group_fields(template, old, gates);
    }
    let composites = "compositePodGroupTemplates";
    drop_unless(parent, old, composites, gates.enabled(Gate::CompositePodGroup));
    for template in items(parent, composites) {
        let old = old
            .and_then(|old| old.get(composites))
            .and_then(Value::as_array)
            .and_then(|templates| templates.iter().find(|candidate| candidate.get("name") == template.get("name")));
        drop_unless(template, old, "preemptionPolicy", gates.enabled(Gate::PodGroupPreemptionPolicy));
        drop_template_fields(template, old, gates);
    }
}

fn drop_pod_group_fields(doc: &mut Value, old: Option<&Value>, gates: &Gates) {
    let Some(spec) = doc.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let old = old.and_then(|old| old.get("spec"));
    drop_group_fields(spec, old, gates);
    drop_unless(spec, old, "parentCompositePodGroupName", gates.enabled(Gate::CompositePodGroup));
}

/// Drops fields that groups and templates share.
fn drop_group_fields(group: &mut JsonObject, old: Option<&Value>, gates: &Gates) {
    drop_unless(group, old, "schedulingConstraints", gates.enabled(Gate::TopologyAwareWorkloadScheduling));
    drop_unless(group, old, "resourceClaims", gates.enabled(Gate::DRAWorkloadResourceClaims));
    drop_unless(group, old, "preemptionPolicy", gates.enabled(Gate::PodGroupPreemptionPolicy));
}

fn drop_unless(object: &mut JsonObject, old: Option<&Value>, field: &str, enabled: bool) {
    if !enabled && !old.and_then(|old| old.get(field)).is_some_and(is_set) {
        object.remove(field);
    }
}

/// Whether a field is set. An empty list is not.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

fn items<'a>(object: &'a mut JsonObject, list: &str) -> impl Iterator<Item = &'a mut JsonObject> {
    let items = object.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
    items.filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{
        prepare_composite_create, prepare_composite_status_update, prepare_composite_update, prepare_pod_group_create,
        prepare_pod_group_status_update, prepare_pod_group_update, prepare_workload_create, prepare_workload_update,
    };
    use crate::gates::{Gate, Gates};

    fn without_gate(gate: Gate) -> Gates {
        Gates::default().with(gate, false)
    }

    const FIELDS: [(Gate, &str); 4] = [
        (Gate::TopologyAwareWorkloadScheduling, "schedulingConstraints"),
        (Gate::DRAWorkloadResourceClaims, "resourceClaims"),
        (Gate::PodGroupPreemptionPolicy, "preemptionPolicy"),
        (Gate::CompositePodGroup, "parentCompositePodGroupName"),
    ];

    fn full_spec() -> Value {
        json!({
            "schedulingPolicy": {"basic": {}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
            "resourceClaims": [{"name": "a", "resourceClaimName": "b"}],
            "preemptionPolicy": "Never",
            "parentCompositePodGroupName": "parent",
        })
    }

    #[test]
    fn each_field_of_a_group_depends_on_its_gate() {
        let bare = json!({"spec": {"schedulingPolicy": {"basic": {}}}});
        for (gate, field) in FIELDS {
            let mut want = json!({"spec": full_spec()});
            let full = want.clone();
            want["spec"].as_object_mut().expect("a spec").remove(field);
            let mut group = full.clone();
            prepare_pod_group_create(&mut group, &without_gate(gate));
            assert_eq!(group, want, "created without {field}");
            let mut group = full.clone();
            prepare_pod_group_update(&mut group, &bare, &without_gate(gate));
            assert_eq!(group, want, "updated without {field}");
            let mut group = full.clone();
            prepare_pod_group_update(&mut group, &full, &without_gate(gate));
            assert_eq!(group, full, "{field} was set before");
            let mut group = full.clone();
            prepare_pod_group_create(&mut group, &Gates::default());
            assert_eq!(group, full, "{field} with all gates on");
        }
    }

    #[test]
    fn status_and_spec_are_written_separately() {
        let old = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}, "status": {"conditions": []}});
        let written = json!({"metadata": {"labels": {}, "finalizers": ["f"]}, "spec": {"x": 2}, "status": {"y": 3}});
        let mut group = written.clone();
        prepare_pod_group_create(&mut group, &Gates::default());
        assert_eq!(group.get("status"), None);
        let mut group = written.clone();
        prepare_pod_group_update(&mut group, &old, &Gates::default());
        assert_eq!((&group["spec"], &group["status"]), (&written["spec"], &old["status"]));
        let mut group = written.clone();
        prepare_pod_group_status_update(&mut group, &old, &Gates::default());
        assert_eq!(group, json!({"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}, "status": {"y": 3}}));
    }

    #[test]
    fn composite_has_separate_status_and_gated_preemption_policy() {
        let off = without_gate(Gate::PodGroupPreemptionPolicy);
        let with = json!({"metadata": {}, "spec": {"preemptionPolicy": "Never"}, "status": {"a": 1}});
        let mut group = with.clone();
        prepare_composite_create(&mut group, &off);
        assert_eq!(group, json!({"metadata": {}, "spec": {}}));
        let mut group = json!({"metadata": {}, "spec": {"preemptionPolicy": "Never"}, "status": {"a": 2}});
        prepare_composite_update(&mut group, &with, &off);
        assert_eq!(group, with, "it was set before");
        let mut group = json!({"metadata": {"labels": {}}, "spec": {}, "status": {"a": 2}});
        prepare_composite_status_update(&mut group, &with, &off);
        assert_eq!(group, json!({"metadata": {}, "spec": {"preemptionPolicy": "Never"}, "status": {"a": 2}}));
    }

    #[test]
    fn claim_statuses_are_dropped_while_the_gate_is_off() {
        let gates = without_gate(Gate::DRAWorkloadResourceClaims);
        let written = json!({"metadata": {}, "status": {"resourceClaimStatuses": [{"name": "a"}]}});
        for (old, want) in [
            (json!({"metadata": {}, "spec": {}}), json!({})),
            (
                json!({"metadata": {}, "spec": {"resourceClaims": [{"name": "a"}]}}),
                json!({"resourceClaimStatuses": [{"name": "a"}]}),
            ),
        ] {
            let mut group = written.clone();
            prepare_pod_group_status_update(&mut group, &old, &gates);
            assert_eq!(group["status"], want);
        }
    }

    #[test]
    fn templates_keep_fields_that_they_had() {
        let template = |name: &str| json!({"name": name, "schedulingConstraints": {}});
        let bare = |name: &str| json!({"name": name});
        let gates = without_gate(Gate::TopologyAwareWorkloadScheduling);
        let old = json!({"spec": {"podGroupTemplates": [template("a"), bare("b")]}});
        let mut workload = json!({"spec": {"podGroupTemplates": [template("a"), template("b")]}});
        prepare_workload_update(&mut workload, &old, &gates);
        assert_eq!(workload, old);
        prepare_workload_create(&mut workload, &gates);
        assert_eq!(workload, json!({"spec": {"podGroupTemplates": [bare("a"), bare("b")]}}));
    }

    #[test]
    fn composite_templates_depend_on_their_gate_and_are_found_by_name() {
        let tree = |inner: Value| {
            json!({"spec": {"compositePodGroupTemplates": [
                {"name": "x", "compositePodGroupTemplates": []},
                {"name": "y", "preemptionPolicy": "Never", "podGroupTemplates": [inner]},
            ]}})
        };
        let mut workload = tree(json!({"name": "z"}));
        prepare_workload_create(&mut workload, &without_gate(Gate::CompositePodGroup));
        assert_eq!(workload, json!({"spec": {}}));
        let old = tree(json!({"name": "z"}));
        let mut reordered = old.clone();
        reordered["spec"]["compositePodGroupTemplates"].as_array_mut().expect("a list").reverse();
        let want = reordered.clone();
        prepare_workload_update(&mut reordered, &old, &without_gate(Gate::PodGroupPreemptionPolicy));
        assert_eq!(reordered, want);
    }
}

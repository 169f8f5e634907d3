//! Every rule of the scheduling group with its message.

mod classes; // priority classes

use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::scheduling::v1alpha3::CompositePodGroup;
use k8s_openapi::api::scheduling::v1beta1::{PodGroup, Workload};
use serde_json::{Value, json};

use super::{composite_pod_group, pod_group, priority_class, workload};
use crate::field::ErrorList;
use crate::gates::{Gate, Gates};

fn render(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn metadata() -> Value {
    json!({"name": "trainer", "namespace": "training", "resourceVersion": "7"})
}

fn workload_of(spec: Value) -> Workload {
    serde_json::from_value(json!({"metadata": metadata(), "spec": spec})).expect("a Workload")
}

fn flat(templates: Value) -> Workload {
    workload_of(json!({"podGroupTemplates": templates}))
}

fn group_of(spec: Value) -> PodGroup {
    serde_json::from_value(json!({"metadata": metadata(), "spec": spec})).expect("a PodGroup")
}

fn gang(name: &str, count: i32) -> Value {
    json!({"name": name, "schedulingPolicy": {"gang": {"minCount": count}}})
}

fn basic(name: &str) -> Value {
    json!({"name": name, "schedulingPolicy": {"basic": {}}})
}

fn tree(name: &str, children: Value) -> Value {
    json!({"name": name, "schedulingPolicy": {"basic": {}}, "compositePodGroupTemplates": children})
}

fn with(mut object: Value, name: &str, value: Value) -> Value {
    object[name] = value;
    object
}

#[track_caller]
fn workload_refused(workload: &Workload, wants: &[&str]) {
    assert_eq!(render(&workload::validate_create(workload, &Gates::default())), wants);
}

// Shows: S002-08
#[test]
fn workload_has_templates_of_one_level() {
    workload_refused(&flat(json!([gang("workers", 4), basic("driver")])), &[]);
    let one_of = "`podGroupTemplates`, `compositePodGroupTemplates`";
    workload_refused(&workload_of(json!({})), &[&format!("spec: Invalid value: \"\": must specify one of: {one_of}")]);
    let both = json!({
        "podGroupTemplates": [basic("a")],
        "compositePodGroupTemplates": [{"name": "b", "schedulingPolicy": {"basic": {}}, "podGroupTemplates": [basic("c")]}],
    });
    workload_refused(
        &workload_of(both),
        &[&format!(
            "spec: Invalid value: \"{{podGroupTemplates, compositePodGroupTemplates}}\": must specify exactly one of: {one_of}"
        )],
    );
    let nine: Vec<Value> = (0..9).map(|i| basic(&format!("t{i}"))).collect();
    workload_refused(&flat(json!(nine)), &["spec.podGroupTemplates: Too many: 9: must have at most 8 items"]);
}

#[test]
fn controller_ref_is_validated() {
    let spec = json!({
        "podGroupTemplates": [basic("a")],
        "controllerRef": {"apiGroup": "Batch", "kind": "", "name": "a/b"},
    });
    let errors = render(&workload::validate_create(&workload_of(spec), &Gates::default()));
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(
        errors[0].starts_with("spec.controllerRef.apiGroup: Invalid value: \"Batch\": a lowercase RFC 1123 subdomain")
    );
    assert_eq!(errors[1], "spec.controllerRef.kind: Required value");
    assert_eq!(errors[2], "spec.controllerRef.name: Invalid value: \"a/b\": may not contain '/'");
}

// Shows: S002-05
// Shows: S002-29
// Shows: S002-42
// Shows: S004-28
// Shows: S004-30
#[test]
fn each_template_is_validated() {
    let path = "spec.podGroupTemplates[0]";
    for (template, wants) in [
        (basic(""), vec![format!("{path}.name: Required value")]),
        (basic("a.b"), vec![format!("{path}.name: Invalid value: \"a.b\": must not contain dots")]),
        (
            json!({"name": "a", "schedulingPolicy": {}}),
            vec![format!("{path}.schedulingPolicy: Invalid value: \"\": must specify one of: `basic`, `gang`")],
        ),
        (gang("a", 0), vec![format!("{path}.schedulingPolicy.gang.minCount: Required value")]),
        (
            gang("a", -1),
            vec![format!(
                "{path}.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1"
            )],
        ),
        (
            with(basic("a"), "schedulingConstraints", json!({"topology": [{"key": "a"}, {"key": "b"}]})),
            vec![format!("{path}.schedulingConstraints.topology: Too many: 2: must have at most 1 item")],
        ),
        (
            with(basic("a"), "schedulingConstraints", json!({"topology": [{"key": ""}]})),
            vec![format!("{path}.schedulingConstraints.topology[0].key: Required value")],
        ),
        (
            with(
                basic("a"),
                "resourceClaims",
                json!([{"name": "c", "resourceClaimName": "x", "resourceClaimTemplateName": "y"}]),
            ),
            vec![format!(
                "{path}.resourceClaims[0]: Invalid value: \"{{resourceClaimName, resourceClaimTemplateName}}\": \
                 must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`"
            )],
        ),
        (
            with(
                basic("a"),
                "resourceClaims",
                json!([{"name": "c", "resourceClaimName": "x"}, {"name": "c", "resourceClaimName": "y"}]),
            ),
            vec![format!("{path}.resourceClaims[1]: Duplicate value: {{\"name\":\"c\",\"resourceClaimName\":\"y\"}}")],
        ),
        (
            with(basic("a"), "disruptionMode", json!({})),
            vec![format!("{path}.disruptionMode: Invalid value: \"\": must specify one of: `single`, `all`")],
        ),
        (
            with(basic("a"), "priority", json!(1_000_000_001)),
            vec![format!("{path}.priority: Invalid value: 1000000001: must be less than or equal to 1000000000")],
        ),
        (
            with(basic("a"), "preemptionPolicy", json!("Always")),
            vec![format!(
                "{path}.preemptionPolicy: Unsupported value: \"Always\": supported values: \"Never\", \"PreemptLowerPriority\""
            )],
        ),
    ] {
        assert_eq!(
            render(&workload::validate_create(&flat(json!([template])), &Gates::default())),
            wants,
            "{template}"
        );
    }
}

// Shows: S002-05
#[test]
fn names_are_unique_in_the_whole_tree() {
    workload_refused(
        &flat(json!([basic("a"), basic("a")])),
        &["spec.podGroupTemplates[1]: Duplicate value: {\"name\":\"a\",\"schedulingPolicy\":{\"basic\":{}}}"],
    );
    let spec = json!({"compositePodGroupTemplates": [
        {"name": "a", "schedulingPolicy": {"basic": {}}, "podGroupTemplates": [basic("b"), basic("a")]},
        {"name": "c", "schedulingPolicy": {"basic": {}}, "podGroupTemplates": [basic("b")]},
    ]});
    workload_refused(
        &workload_of(spec),
        &[
            "spec.compositePodGroupTemplates[0].podGroupTemplates[1].name: Duplicate value: \"a\"",
            "spec.compositePodGroupTemplates[1].podGroupTemplates[0].name: Duplicate value: \"b\"",
        ],
    );
}

#[test]
fn tree_has_leaves_and_at_most_four_levels() {
    let leaf =
        json!({"name": "c3", "schedulingPolicy": {"gang": {"minGroupCount": 1}}, "podGroupTemplates": [basic("leaf")]});
    let four = tree("c1", json!([tree("c2", json!([leaf]))]));
    workload_refused(&workload_of(json!({"compositePodGroupTemplates": [four]})), &[]);
    let five = tree("c0", json!([four]));
    let refused = render(&workload::validate_create(
        &workload_of(json!({"compositePodGroupTemplates": [five]})),
        &Gates::default(),
    ));
    assert_eq!(refused.len(), 1, "{refused:?}");
    let shown = "spec.compositePodGroupTemplates[0]: Invalid value: [{\"CompositePodGroupTemplates\":[{";
    assert!(refused[0].starts_with(shown), "{refused:?}");
    assert!(refused[0].contains("\"Name\":\"c1\",\"PriorityClassName\":\"\""), "{refused:?}");
    assert!(refused[0].ends_with(": maximum template hierarchy depth is 4"), "{refused:?}");
    workload_refused(
        &workload_of(json!({"compositePodGroupTemplates": [tree("empty", json!([]))]})),
        &[
            "spec.compositePodGroupTemplates[0]: Invalid value: \"empty\": must have at least one child PodGroupTemplate or \
           CompositePodGroupTemplate",
        ],
    );
}

// Shows: S002-06
#[test]
fn templates_of_a_workload_have_the_same_priority() {
    let high = |template: Value| with(template, "priorityClassName", json!("high"));
    workload_refused(&flat(json!([high(basic("a")), high(basic("b"))])), &[]);
    workload_refused(
        &flat(json!([high(basic("a")), basic("b")])),
        &["spec: Invalid value: null: detected multiple priority configurations"],
    );
    let mixed = json!({"name": "c", "schedulingPolicy": {"basic": {}}, "podGroupTemplates": [high(basic("a"))]});
    workload_refused(
        &workload_of(json!({"compositePodGroupTemplates": [mixed]})),
        &[
            "spec: Invalid value: null: all priority and priorityClassName values must be identical, detected multiple values",
        ],
    );
}

// Shows: S002-04
#[test]
fn only_counts_of_gangs_are_mutable_in_a_workload() {
    let old = json!([gang("a", 4), basic("b")]);
    let list = "spec.podGroupTemplates";
    let imm = "Invalid value: null: field is immutable";
    for (case, new, wants) in [
        ("same", old.clone(), vec![]),
        ("other order", json!([basic("b"), gang("a", 4)]), vec![]),
        ("count", json!([gang("a", 2), basic("b")]), vec![]),
        (
            "zero count",
            json!([gang("a", 0), basic("b")]),
            vec![format!("{list}[0].schedulingPolicy.gang.minCount: Required value")],
        ),
        (
            "added",
            json!([gang("a", 4), basic("b"), basic("c")]),
            vec![format!("{list}[2]: Forbidden: item may not be added")],
        ),
        ("removed", json!([gang("a", 4)]), vec![format!("{list}: Forbidden: item may not be removed")]),
        (
            "gang to basic",
            json!([basic("a"), basic("b")]),
            vec![
                format!("{list}[0].schedulingPolicy.basic: {imm}"),
                format!("{list}[0].schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set"),
            ],
        ),
        (
            "mode",
            json!([with(gang("a", 4), "disruptionMode", json!({"all": {}})), basic("b")]),
            vec![format!("{list}[0].disruptionMode: {imm}")],
        ),
        (
            "topology",
            json!([with(gang("a", 4), "schedulingConstraints", json!({"topology": [{"key": "rack"}]})), basic("b")]),
            vec![format!("{list}[0].schedulingConstraints: {imm}")],
        ),
        (
            "claims",
            json!([with(gang("a", 4), "resourceClaims", json!([{"name": "x"}])), basic("b")]),
            vec![format!("{list}[0].resourceClaims: {imm}")],
        ),
        (
            "preemption policy",
            json!([with(gang("a", 4), "preemptionPolicy", json!("Never")), basic("b")]),
            vec![format!("{list}[0].preemptionPolicy: {imm}")],
        ),
    ] {
        let errors = workload::validate_update(&flat(new), &flat(old.clone()), &Gates::default());
        assert_eq!(render(&errors), wants, "{case}");
    }
    let mut other_owner = flat(old.clone());
    other_owner.spec.controller_ref = Some(Default::default());
    assert_eq!(
        render(&workload::validate_update(&other_owner, &flat(old), &Gates::default())),
        [format!("spec.controllerRef: {imm}")]
    );
}

// Shows: S002-04
#[test]
fn counts_in_a_tree_are_mutable() {
    let spec = |groups: i32, pods: i32| {
        workload_of(json!({"compositePodGroupTemplates": [{
            "name": "c", "schedulingPolicy": {"gang": {"minGroupCount": groups}}, "podGroupTemplates": [gang("a", pods)],
        }]}))
    };
    assert_eq!(render(&workload::validate_update(&spec(2, 3), &spec(1, 4), &Gates::default())), Vec::<String>::new());
    let off = Gates::default().with(Gate::CompositePodGroup, false);
    assert_eq!(
        render(&workload::validate_update(&spec(2, 3), &spec(1, 4), &off)),
        ["spec.compositePodGroupTemplates: Forbidden"]
    );
    assert_eq!(render(&workload::validate_update(&spec(1, 4), &spec(1, 4), &off)), Vec::<String>::new());
}

fn group_spec() -> Value {
    json!({
        "schedulingPolicy": {"gang": {"minCount": 4}},
        "disruptionMode": {"single": {}},
        "workloadRef": {"workloadName": "trainer-x1", "templateName": "workers"},
    })
}

// Shows: S002-25
// Shows: S002-29
#[test]
fn group_is_validated_like_a_template() {
    let bare = json!({"schedulingPolicy": {"basic": {}}});
    for (spec, wants) in [
        (group_spec(), vec![]),
        (bare.clone(), vec![]),
        (
            with(bare.clone(), "schedulingPolicy", json!({})),
            vec!["spec.schedulingPolicy: Invalid value: \"\": must specify one of: `basic`, `gang`"],
        ),
        (
            with(bare.clone(), "workloadRef", json!({"workloadName": "", "templateName": ""})),
            vec!["spec.workloadRef.workloadName: Required value", "spec.workloadRef.templateName: Required value"],
        ),
        (
            with(bare.clone(), "parentCompositePodGroupName", json!("parent")),
            vec!["spec.workloadRef: Required value: must be set when parentCompositePodGroupName is set"],
        ),
        (
            with(bare, "priority", json!(2_000_000_000)),
            vec!["spec.priority: Invalid value: 2000000000: must be less than or equal to 1000000000"],
        ),
    ] {
        assert_eq!(render(&pod_group::validate_create(&group_of(spec.clone()), &Gates::default())), wants, "{spec}");
    }
}

#[test]
fn only_the_count_of_a_gang_is_mutable_in_a_group() {
    let imm = "Invalid value: null: field is immutable";
    for (name, value, wants) in [
        ("schedulingPolicy", json!({"gang": {"minCount": 2}}), vec![]),
        ("priority", json!(5), vec![format!("spec.priority: {imm}")]),
        ("priorityClassName", json!("high"), vec![format!("spec.priorityClassName: {imm}")]),
        ("disruptionMode", json!({"all": {}}), vec![format!("spec.disruptionMode: {imm}")]),
        ("workloadRef", Value::Null, vec![format!("spec.workloadRef: {imm}")]),
        ("parentCompositePodGroupName", json!("p"), vec![format!("spec.parentCompositePodGroupName: {imm}")]),
        ("schedulingConstraints", json!({"topology": []}), vec![format!("spec.schedulingConstraints: {imm}")]),
    ] {
        let new = group_of(with(group_spec(), name, value));
        let errors = pod_group::validate_update(&new, &group_of(group_spec()), &Gates::default());
        assert_eq!(render(&errors), wants, "{name}");
    }
}

#[test]
fn constraints_can_be_removed_while_their_gate_is_off() {
    let off = Gates::default().with(Gate::TopologyAwareWorkloadScheduling, false);
    let constrained =
        |key: &str| group_of(with(group_spec(), "schedulingConstraints", json!({"topology": [{"key": key}]})));
    let update = |new: &PodGroup, old: &PodGroup| render(&pod_group::validate_update(new, old, &off));
    assert_eq!(update(&group_of(group_spec()), &constrained("rack")), Vec::<String>::new());
    assert_eq!(update(&constrained("rack"), &constrained("rack")), Vec::<String>::new());
    assert_eq!(update(&constrained("zone"), &constrained("rack")), ["spec.schedulingConstraints: Forbidden"]);
}

#[test]
fn status_has_valid_conditions_and_claims_of_the_group() {
    let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let spec = with(group_spec(), "resourceClaims", json!([{"name": "nic", "resourceClaimName": "nics"}]));
    let group = |status: Value| -> PodGroup {
        serde_json::from_value(json!({"metadata": metadata(), "spec": spec, "status": status})).expect("a PodGroup")
    };
    for (status, wants) in [
        (json!({"conditions": [condition("PodGroupInitiallyScheduled", "True", "Scheduled")]}), vec![]),
        (json!({"resourceClaimStatuses": [{"name": "nic", "resourceClaimName": "nics-1"}]}), vec![]),
        (
            json!({"conditions": [condition("A", "Maybe", ""), condition("A", "True", "R"), condition("", "True", "R")]}),
            vec![
                "status.conditions[0].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\"",
                "status.conditions[0].reason: Required value",
                "status.conditions[1]: Duplicate value: \"A\"",
                "status.conditions[2].type: Required value: is required",
            ],
        ),
        (
            json!({"resourceClaimStatuses": [{"name": "gpu"}]}),
            vec![
                "status.resourceClaimStatuses[0].name: Invalid value: \"gpu\": \
                  must match the name of an entry in `spec.resourceClaims`",
            ],
        ),
    ] {
        let errors = pod_group::validate_status_update(&group(status.clone()), &group(json!({})), &Gates::default());
        assert_eq!(render(&errors), wants, "{status}");
    }
    let errors = pod_group::validate_status_update(
        &group(json!({"conditions": [condition("A", "True", "not a reason")]})),
        &group(json!({})),
        &Gates::default(),
    );
    assert!(errors[0].to_string().starts_with(
        "status.conditions[0].reason: Invalid value: \"not a reason\": a condition reason must start with alphabetic"
    ));
}

fn composite_spec() -> Value {
    json!({
        "parentCompositePodGroupName": "parent",
        "workloadRef": {"workloadName": "w", "templateName": "t"},
        "schedulingPolicy": {"gang": {"minGroupCount": 2}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "disruptionMode": {"all": {}},
        "priorityClassName": "high",
        "priority": 7,
        "preemptionPolicy": "Never",
    })
}

/// Whether the document has a reference. These tests either leave it out or name a Workload.
fn has_workload_ref(group: &CompositePodGroup) -> bool {
    group.spec.workload_ref != Default::default()
}

fn composite_of(spec: Value) -> CompositePodGroup {
    serde_json::from_value(json!({"metadata": metadata(), "spec": spec})).expect("a CompositePodGroup")
}

// Shows: S004-31
// Shows: S004-27
#[test]
fn composite_has_a_template_and_is_validated_like_one() {
    let required = "spec.workloadRef: Required value";
    for (field, value, wants) in [
        ("priority", json!(1), vec![]),
        ("workloadRef", Value::Null, vec![required.to_owned()]),
        (
            "workloadRef",
            json!({"workloadName": "w"}),
            vec!["spec.workloadRef.templateName: Required value".to_owned()],
        ),
        (
            "schedulingPolicy",
            json!({}),
            vec!["spec.schedulingPolicy: Invalid value: \"\": must specify one of: `basic`, `gang`".to_owned()],
        ),
        (
            "schedulingPolicy",
            json!({"gang": {"minGroupCount": 0}}),
            vec!["spec.schedulingPolicy.gang.minGroupCount: Required value".to_owned()],
        ),
        (
            "schedulingPolicy",
            json!({"gang": {"minGroupCount": -1}}),
            vec!["spec.schedulingPolicy.gang.minGroupCount: Invalid value: -1: must be greater than or equal to 1".to_owned()],
        ),
        (
            "schedulingConstraints",
            json!({"topology": [{"key": "a"}, {"key": "b"}]}),
            vec!["spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item".to_owned()],
        ),
        (
            "disruptionMode",
            json!({"all": {}, "single": {}}),
            vec!["spec.disruptionMode: Invalid value: \"{single, all}\": must specify exactly one of: `single`, `all`".to_owned()],
        ),
        (
            "priority",
            json!(1_000_000_001),
            vec!["spec.priority: Invalid value: 1000000001: must be less than or equal to 1000000000".to_owned()],
        ),
        (
            "preemptionPolicy",
            json!("Sometimes"),
            vec!["spec.preemptionPolicy: Unsupported value: \"Sometimes\": supported values: \"Never\", \"PreemptLowerPriority\"".to_owned()],
        ),
    ] {
        let group = composite_of(with(composite_spec(), field, value));
        assert_eq!(render(&composite_pod_group::validate_create(&group, has_workload_ref(&group), &Gates::default())), wants, "{field}");
    }
    let group = composite_of(with(composite_spec(), "parentCompositePodGroupName", json!("A_b")));
    let errors = render(&composite_pod_group::validate_create(&group, has_workload_ref(&group), &Gates::default()));
    assert!(errors[0].starts_with("spec.parentCompositePodGroupName: Invalid value: \"A_b\""), "{errors:?}");
}

#[test]
fn missing_and_empty_reference_of_a_composite_have_different_errors() {
    let none = json!({"spec": {"workloadRef": null}});
    let empty = json!({"spec": {"workloadRef": {"templateName": "", "workloadName": ""}}});
    let group = composite_of(with(composite_spec(), "workloadRef", json!({})));
    let create = |document: &Value| {
        render(&composite_pod_group::validate_create(
            &group,
            composite_pod_group::has_workload_ref(document),
            &Gates::default(),
        ))
    };
    assert_eq!(create(&none), ["spec.workloadRef: Required value"]);
    let both = ["spec.workloadRef.workloadName: Required value", "spec.workloadRef.templateName: Required value"];
    assert_eq!(create(&empty), both);
    let old = composite_of(composite_spec());
    assert_eq!(
        render(&composite_pod_group::validate_update(&group, false, &old, &Gates::default())),
        ["spec.workloadRef: Invalid value: null: field is immutable", "spec.workloadRef: Required value"]
    );
}

#[test]
fn missing_time_of_a_condition_is_reported_with_its_other_errors() {
    let document = json!({"metadata": metadata(), "spec": group_spec(), "status": {"conditions": [
        {"type": "", "status": "", "reason": "", "message": "", "lastTransitionTime": null}]}});
    let new: PodGroup =
        serde_json::from_value(super::with_transition_times(&document).into_owned()).expect("it decodes");
    let errors = pod_group::validate_status_update(&new, &group_of(group_spec()), &Gates::default());
    assert_eq!(
        render(&errors),
        [
            "status.conditions[0].type: Required value: is required",
            "status.conditions[0].status: Required value",
            "status.conditions[0].lastTransitionTime: Required value",
            "status.conditions[0].reason: Required value",
        ]
    );
}

#[test]
fn too_many_claims_are_reported_even_if_claims_are_immutable() {
    let claims: Vec<Value> = (0..5).map(|n| json!({"name": format!("c{n}"), "resourceClaimName": "x"})).collect();
    let new = group_of(with(group_spec(), "resourceClaims", claims.into()));
    let errors = pod_group::validate_update(&new, &group_of(group_spec()), &Gates::default());
    assert_eq!(
        render(&errors),
        [
            "spec.resourceClaims: Invalid value: null: field is immutable",
            "spec.resourceClaims: Too many: 5: must have at most 4 items",
        ]
    );
}

#[test]
fn composite_is_immutable_and_accepted_fields_are_not_validated_again() {
    for (field, value) in [
        ("parentCompositePodGroupName", Value::Null),
        ("workloadRef", json!({"workloadName": "w", "templateName": "other"})),
        ("schedulingPolicy", json!({"gang": {"minGroupCount": 3}})),
        ("schedulingPolicy", json!({"basic": {}})),
        ("schedulingConstraints", Value::Null),
        ("disruptionMode", json!({"single": {}})),
        ("priorityClassName", json!("low")),
        ("priority", json!(8)),
        ("preemptionPolicy", Value::Null),
    ] {
        let (old, new) = (composite_of(composite_spec()), composite_of(with(composite_spec(), field, value)));
        let errors = render(&composite_pod_group::validate_update(&new, true, &old, &Gates::default()));
        assert_eq!(errors, [format!("spec.{field}: Invalid value: null: field is immutable")]);
    }
    // A composite that an older server accepted can still get labels.
    let lax = composite_of(with(composite_spec(), "schedulingPolicy", json!({"gang": {"minGroupCount": -4}})));
    assert_eq!(composite_pod_group::validate_update(&lax, true, &lax, &Gates::default()), vec![]);
}

#[test]
fn status_of_a_composite_has_valid_conditions() {
    let group = |conditions: Value| -> CompositePodGroup {
        let status = json!({"conditions": conditions});
        serde_json::from_value(json!({"metadata": metadata(), "spec": composite_spec(), "status": status}))
            .expect("a CompositePodGroup")
    };
    let old = group(json!([]));
    let condition = json!({
        "type": "CompositePodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    });
    let accepted = composite_pod_group::validate_status_update(&group(json!([condition])), &old, &Gates::default());
    assert_eq!(accepted, vec![]);
    let twice = group(json!([condition, with(condition.clone(), "reason", json!(""))]));
    let errors = render(&composite_pod_group::validate_status_update(&twice, &old, &Gates::default()));
    assert_eq!(
        errors,
        [
            "status.conditions[1]: Duplicate value: \"CompositePodGroupInitiallyScheduled\"",
            "status.conditions[1].reason: Required value",
        ]
    );
}

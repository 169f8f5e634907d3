//! A Workload to groups: copies of the templates, in order, each with its parent.

use k8s_openapi::api::scheduling::v1beta1::Workload;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::{BuiltGroup, find_template, templates, workload_owner};
use crate::build::{BuildOptions, Builder};
use crate::names;
use crate::target::SchedulingVersion;

fn owner(kind: &str) -> OwnerReference {
    OwnerReference {
        api_version: "example.com/v1".to_owned(),
        kind: kind.to_owned(),
        name: "train".to_owned(),
        uid: "u1".to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    }
}

/// A Workload of a server: a composite with a leaf and another composite below it.
fn stored_workload() -> Workload {
    let document = json!({
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "train-x1", "namespace": "ml", "uid": "w1"},
        "spec": {"compositePodGroupTemplates": [{
            "name": "set",
            "schedulingPolicy": {"gang": {"minGroupCount": 2}},
            "schedulingConstraints": {"topology": [{"key": "zone"}]},
            "disruptionMode": {"all": {}},
            "priorityClassName": "high",
            "priority": 1000,
            "preemptionPolicy": "Never",
            "podGroupTemplates": [{"name": "driver", "schedulingPolicy": {"basic": {}}, "priorityClassName": "high"}],
            "compositePodGroupTemplates": [{
                "name": "stage",
                "schedulingPolicy": {"basic": {}},
                "priorityClassName": "high",
                "podGroupTemplates": [{
                    "name": "workers",
                    "schedulingPolicy": {"gang": {"minCount": 4}},
                    "schedulingConstraints": {"topology": [{"key": "rack"}]},
                    "disruptionMode": {"all": {}},
                    "resourceClaims": [{"name": "nic", "resourceClaimTemplateName": "nics"}],
                    "priorityClassName": "high",
                    "priority": 1000,
                    "preemptionPolicy": "Never",
                }],
            }],
        }]},
    });
    serde_json::from_value(document).expect("a Workload")
}

fn builder() -> Builder {
    Builder::from_workload(
        stored_workload(),
        BuildOptions { owner: Some(owner("Training")), ..BuildOptions::default() },
    )
}

fn to_json(group: &BuiltGroup) -> Value {
    match group {
        BuiltGroup::Composite(group) => serde_json::to_value(group),
        BuiltGroup::Pods(group) => serde_json::to_value(group),
    }
    .expect("JSON")
}

// Shows: S002-11
// Shows: S002-41
// Shows: S004-60
// Shows: U-builder
#[test]
fn pod_group_is_a_copy_of_its_template_at_any_depth() {
    let group = builder().build_pod_group("train-workers", "workers").expect("a group");
    assert_eq!(
        serde_json::to_value(&group).expect("JSON"),
        json!({
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {
                "name": "train-workers",
                "namespace": "ml",
                "ownerReferences": [{
                    "apiVersion": "example.com/v1", "kind": "Training", "name": "train", "uid": "u1", "controller": true,
                }],
            },
            "spec": {
                "workloadRef": {"workloadName": "train-x1", "templateName": "workers"},
                "schedulingPolicy": {"gang": {"minCount": 4}},
                "schedulingConstraints": {"topology": [{"key": "rack"}]},
                "disruptionMode": {"all": {}},
                "resourceClaims": [{"name": "nic", "resourceClaimTemplateName": "nics"}],
                "priorityClassName": "high",
                "priority": 1000,
            },
        })
    );
}

// Shows: S003-21
#[test]
fn composite_is_a_copy_of_its_template_without_children() {
    let group = builder().build_composite_pod_group("train-set", "set").expect("a group");
    assert_eq!(
        serde_json::to_value(&group).expect("JSON"),
        json!({
            "apiVersion": "scheduling.k8s.io/v1alpha3",
            "kind": "CompositePodGroup",
            "metadata": {
                "name": "train-set",
                "namespace": "ml",
                "ownerReferences": [{
                    "apiVersion": "example.com/v1", "kind": "Training", "name": "train", "uid": "u1", "controller": true,
                }],
            },
            "spec": {
                "workloadRef": {"workloadName": "train-x1", "templateName": "set"},
                "schedulingPolicy": {"gang": {"minGroupCount": 2}},
                "schedulingConstraints": {"topology": [{"key": "zone"}]},
                "disruptionMode": {"all": {}},
                "priorityClassName": "high",
                "priority": 1000,
            },
        })
    );
}

// Shows: S004-52
// Shows: S004-62
#[test]
fn groups_of_a_tree_are_ordered_parents_first_and_name_their_parents() {
    let groups = builder().build_groups().expect("groups");
    let name = |template: &str| names::pod_group_name("train-x1", template);
    let found: Vec<_> = groups.iter().map(|group| (group.template(), group.parent().map(str::to_owned))).collect();
    assert_eq!(
        found,
        [("set", None), ("stage", Some(name("set"))), ("workers", Some(name("stage"))), ("driver", Some(name("set")))]
    );
    for group in &groups {
        assert_eq!(group.name(), name(group.template()));
        assert_eq!(to_json(group)["spec"]["parentCompositePodGroupName"].as_str(), group.parent());
    }
    assert!(matches!(groups[1], BuiltGroup::Composite(_)) && matches!(groups[2], BuiltGroup::Pods(_)));
}

// Shows: S003-02
// Shows: S004-57
#[test]
fn each_replica_has_its_own_groups_of_one_template() {
    let builder = builder();
    let [one, other] =
        ["0", "1"].map(|replica| builder.build_instance("stage", replica, Some("above")).expect("groups"));
    for groups in [&one, &other] {
        assert_eq!(groups.iter().map(BuiltGroup::template).collect::<Vec<_>>(), ["stage", "workers"]);
        assert_eq!(groups[0].parent(), Some("above"));
        assert_eq!(groups[1].parent(), Some(groups[0].name()), "the parent is of the same replica");
    }
    assert!(one.iter().zip(&other).all(|(one, other)| one.name() != other.name()));
    let alone = builder.build_instance("workers", "", None).expect("a group");
    assert_eq!(alone[0].name(), names::pod_group_name("train-x1", "workers"));
}

#[test]
fn templates_are_found_at_every_depth() {
    let workload = stored_workload();
    let all: Vec<&str> = templates(&workload.spec).into_iter().map(super::GroupTemplate::name).collect();
    assert_eq!(all, ["set", "stage", "workers", "driver"]);
    assert!(all.iter().all(|name| find_template(&workload.spec, name).is_some_and(|found| found.name() == *name)));
    assert_eq!(find_template(&workload.spec, "missing"), None);
}

#[test]
fn missing_template_and_template_of_the_other_level_are_named() {
    let builder = builder();
    let missing = "workload train-x1 has no template \"evaluator\", only: set, stage, workers, driver";
    assert_eq!(builder.build_pod_group("g", "evaluator").expect_err(missing).to_string(), missing);
    assert_eq!(builder.build_composite_pod_group("g", "evaluator").expect_err(missing).to_string(), missing);
    assert_eq!(builder.build_instance("evaluator", "", None).expect_err(missing).to_string(), missing);
    let composite = "template set of workload train-x1 is for a CompositePodGroup, not for a PodGroup";
    assert_eq!(builder.build_pod_group("g", "set").expect_err(composite).to_string(), composite);
    let pods = "template driver of workload train-x1 is for a PodGroup, not for a CompositePodGroup";
    assert_eq!(builder.build_composite_pod_group("g", "driver").expect_err(pods).to_string(), pods);
}

#[test]
fn group_has_the_owners_of_the_options() {
    let workload = stored_workload();
    let second = workload_owner(&workload, SchedulingVersion::V1beta1);
    assert_eq!((second.uid.as_str(), second.controller, second.block_owner_deletion), ("w1", None, None));
    let options = BuildOptions { owner: Some(owner("Job")), group_owners: vec![second], ..BuildOptions::default() };
    let group = Builder::from_workload(workload.clone(), options).build_pod_group("g", "workers").expect("a group");
    let kinds: Vec<String> =
        group.metadata.owner_references.unwrap_or_default().into_iter().map(|owner| owner.kind).collect();
    assert_eq!(kinds, ["Job", "Workload"]);
    // An owner is optional: it can be set later.
    let group =
        Builder::from_workload(workload, BuildOptions::default()).build_pod_group("g", "workers").expect("a group");
    assert_eq!(group.metadata.owner_references, None);
}

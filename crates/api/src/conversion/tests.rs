//! Round trips through older versions, and draft spellings.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    Conversion, ConversionContext, POD_GROUP_CONVERSIONS, WORKLOAD_CONVERSIONS, current_api_version,
    normalize_cron_job_drafts, normalize_job_drafts, normalize_pod_drafts, normalize_workload_drafts,
};
use crate::field::ErrorList;
use crate::gates::{Gate, Gates};

fn conversion(of: &'static [Conversion], version: &str) -> &'static Conversion {
    of.iter().find(|conversion| conversion.version == version).expect("an older version")
}

fn empty_context() -> ConversionContext<'static> {
    ConversionContext { namespace: "training", old: None, workload: &|_| None }
}

#[track_caller]
fn convert_to_storage(
    of: &'static [Conversion],
    version: &str,
    mut doc: Value,
    context: &ConversionContext<'_>,
) -> Value {
    (conversion(of, version).to_storage)(&mut doc, context).expect("it converts");
    doc
}

fn convert_from_storage(of: &'static [Conversion], version: &str, mut doc: Value) -> Value {
    (conversion(of, version).from_storage)(&mut doc);
    doc
}

fn render(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn refused(of: &'static [Conversion], version: &str, mut doc: Value, wants: &[&str]) {
    let errors = (conversion(of, version).to_storage)(&mut doc, &empty_context()).expect_err("it is refused");
    assert_eq!(render(&errors), wants);
}

// Shows: S002-02
// Shows: S002-16
// Shows: S003-08
#[test]
fn group_of_v1alpha2_converts_both_ways() {
    let old = json!({
        "spec": {
            "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
            "schedulingPolicy": {"gang": {"minCount": 4}}, "disruptionMode": "PodGroup",
        },
        "status": {"conditions": [{"type": "PodGroupScheduled", "status": "True"}, {"type": "Other"}]},
    });
    let new = json!({
        "spec": {
            "workloadRef": {"workloadName": "w", "templateName": "t"},
            "schedulingPolicy": {"gang": {"minCount": 4}}, "disruptionMode": {"all": {}},
        },
        "status": {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}, {"type": "Other"}]},
    });
    assert_eq!(convert_to_storage(POD_GROUP_CONVERSIONS, "v1alpha2", old.clone(), &empty_context()), new);
    assert_eq!(convert_from_storage(POD_GROUP_CONVERSIONS, "v1alpha2", new), old);
    refused(
        POD_GROUP_CONVERSIONS,
        "v1alpha2",
        json!({"spec": {"podGroupTemplateRef": {}, "disruptionMode": "All"}}),
        &[
            "spec.podGroupTemplateRef.workload: Required value",
            "spec.disruptionMode: Unsupported value: \"All\": supported values: \"Pod\", \"PodGroup\"",
        ],
    );
}

#[test]
fn disruption_modes_of_v1alpha2_templates_convert_at_any_depth() {
    let tree = |mode: Value| {
        let leaf = json!({"name": "a", "disruptionMode": mode});
        json!({"spec": {
            "podGroupTemplates": [leaf.clone(), {"name": "b"}],
            "compositePodGroupTemplates": [{
                "name": "c", "disruptionMode": {"all": {}}, "podGroupTemplates": [leaf.clone()],
                "compositePodGroupTemplates": [{"name": "d", "podGroupTemplates": [leaf]}],
            }],
        }})
    };
    for (word, member) in [("Pod", "single"), ("PodGroup", "all")] {
        assert_eq!(
            convert_to_storage(WORKLOAD_CONVERSIONS, "v1alpha2", tree(json!(word)), &empty_context()),
            tree(json!({member: {}}))
        );
        assert_eq!(
            convert_from_storage(WORKLOAD_CONVERSIONS, "v1alpha2", tree(json!({member: {}}))),
            tree(json!(word))
        );
    }
    refused(
        WORKLOAD_CONVERSIONS,
        "v1alpha2",
        json!({"spec": {"podGroupTemplates": [{"name": "a"}, {"name": "b", "disruptionMode": ""}]}}),
        &["spec.podGroupTemplates[1].disruptionMode: Unsupported value: \"\": supported values: \"Pod\", \"PodGroup\""],
    );
}

// Shows: S000-15
#[test]
fn workload_of_the_drafts_converts_both_ways() {
    let template = json!({"name": "pg", "schedulingPolicy": {"gang": {"minCount": 8}}});
    let mut draft = json!({"spec": {
        "controllerRef": {"apiVersion": "batch/v1", "kind": "Job", "name": "j"}, "podGroupTemplate": [template],
    }});
    let warned = normalize_workload_drafts(&mut draft, &Gates::default()).expect("it is replaced");
    assert_eq!(warned, ["spec.podGroupTemplate: a name from a draft of the API; use podGroupTemplates"]);
    let stored = json!({"spec": {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "j"}, "podGroupTemplates": [template],
    }});
    assert_eq!(convert_to_storage(WORKLOAD_CONVERSIONS, "v1alpha1", draft, &empty_context()), stored);
    assert_eq!(
        convert_to_storage(
            WORKLOAD_CONVERSIONS,
            "v1alpha1",
            convert_from_storage(WORKLOAD_CONVERSIONS, "v1alpha1", stored.clone()),
            &empty_context()
        ),
        stored
    );
    refused(
        WORKLOAD_CONVERSIONS,
        "v1alpha1",
        json!({"spec": {"controllerRef": {"apiVersion": "batch/v1", "apiGroup": "apps"}}}),
        &[
            "spec.controllerRef.apiVersion: Invalid value: \"batch/v1\": must be of the group in spec.controllerRef.apiGroup",
        ],
    );
}

// Shows: S000-16
// Shows: S003-06
#[test]
fn every_draft_form_of_a_template_reference_is_accepted() {
    let policy = json!({"gang": {"minCount": 8}});
    let stored = json!({"spec": {
        "workloadRef": {"workloadName": "w", "templateName": "t"}, "schedulingPolicy": policy,
    }});
    let nested = json!({"workload": {"workloadName": "w", "podGroupTemplateName": "t"}});
    for spec in [
        json!({"schedulingPolicy": policy, "podGroupTemplateRef": nested}),
        json!({"schedulingPolicy": policy, "workloadRef": {"name": "w"}, "podGroupTemplateRef": {"name": "t"}}),
        json!({"schedulingPolicy": policy, "workloadRef": {"name": "w"}, "podGroupTemplateName": "t"}),
    ] {
        assert_eq!(
            convert_to_storage(POD_GROUP_CONVERSIONS, "v1alpha1", json!({"spec": spec}), &empty_context()),
            stored
        );
    }
    let read = convert_from_storage(POD_GROUP_CONVERSIONS, "v1alpha1", stored.clone());
    assert_eq!(read["spec"]["workloadRef"], json!({"name": "w"}));
    assert_eq!(read["spec"]["podGroupTemplateName"], "t");
    assert_eq!(read["spec"]["podGroupTemplateRef"]["name"], "t");
    assert_eq!(read["spec"]["podGroupTemplateRef"]["workload"], nested["workload"]);
    assert_eq!(convert_to_storage(POD_GROUP_CONVERSIONS, "v1alpha1", read, &empty_context()), stored);
    let group = |spec: Value| json!({"spec": spec});
    refused(
        POD_GROUP_CONVERSIONS,
        "v1alpha1",
        group(json!({"workloadRef": {"name": "other"}, "podGroupTemplateRef": nested})),
        &[
            "spec.podGroupTemplateRef.workload.workloadName: Invalid value: \"w\": must be the same as spec.workloadRef.name (other)",
        ],
    );
    refused(
        POD_GROUP_CONVERSIONS,
        "v1alpha1",
        group(json!({"podGroupTemplateName": "t"})),
        &["spec.workloadRef.name: Required value: a template needs its Workload"],
    );
    refused(
        POD_GROUP_CONVERSIONS,
        "v1alpha1",
        group(
            json!({"workloadRef": {"name": "w", "kind": "Job", "namespace": "elsewhere"}, "podGroupTemplateName": "t"}),
        ),
        &[
            "spec.workloadRef.kind: Unsupported value: \"Job\": supported values: \"Workload\"",
            "spec.workloadRef.namespace: Invalid value: \"elsewhere\": must be the namespace of the group, training",
        ],
    );
}

// Shows: S002-41
#[test]
fn group_without_a_policy_gets_that_of_its_template() {
    let workload = json!({"spec": {"compositePodGroupTemplates": [{"name": "c", "podGroupTemplates": [{
        "name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
    }]}]}});
    let find = |name: &str| (name == "w").then(|| workload.clone());
    let context = ConversionContext { workload: &find, ..empty_context() };
    let draft = json!({"spec": {"workloadRef": {"name": "w"}, "podGroupTemplateRef": {"name": "t"}}});
    let stored = convert_to_storage(POD_GROUP_CONVERSIONS, "v1alpha1", draft.clone(), &context);
    assert_eq!(
        stored["spec"],
        json!({
            "workloadRef": {"workloadName": "w", "templateName": "t"},
            "schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
        })
    );
    // The count of the group was changed since: it does not change.
    let mut old = stored.clone();
    old["spec"]["schedulingPolicy"]["gang"]["minCount"] = json!(3);
    let again = convert_to_storage(
        POD_GROUP_CONVERSIONS,
        "v1alpha1",
        draft.clone(),
        &ConversionContext { old: Some(&old), ..empty_context() },
    );
    assert_eq!(again["spec"], old["spec"]);
    refused(
        POD_GROUP_CONVERSIONS,
        "v1alpha1",
        draft,
        &[
            "spec.schedulingPolicy: Required value: this version takes it from the Workload, and there is no Workload \"w\" with a \
           template \"t\" yet: create it first, or set the policy here",
        ],
    );
}

// Shows: S003-08
#[test]
fn condition_of_the_drafts_is_unknown_before_the_first_decision() {
    let group = |conditions: Value| json!({"metadata": {"creationTimestamp": "2030-01-01T00:00:00Z"}, "spec": {"schedulingPolicy": {"basic": {}}}, "status": {"conditions": conditions}});
    let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason});
    for (stored, draft) in [
        (
            condition("PodGroupInitiallyScheduled", "True", "Scheduled"),
            condition("PodGroupScheduled", "True", "MinCountSatisfied"),
        ),
        (
            condition("PodGroupInitiallyScheduled", "False", "Unschedulable"),
            condition("PodGroupScheduled", "False", "Unschedulable"),
        ),
    ] {
        assert_eq!(
            convert_from_storage(POD_GROUP_CONVERSIONS, "v1alpha1", group(json!([stored]))),
            group(json!([draft]))
        );
        assert_eq!(
            convert_to_storage(POD_GROUP_CONVERSIONS, "v1alpha1", group(json!([draft])), &empty_context()),
            group(json!([stored]))
        );
    }
    let bare = json!({"metadata": {"creationTimestamp": "2030-01-01T00:00:00Z"}, "spec": {}});
    let read = convert_from_storage(POD_GROUP_CONVERSIONS, "v1alpha1", bare.clone());
    let condition = &read["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("PodGroupScheduled"), &json!("Unknown")));
    assert_eq!(convert_to_storage(POD_GROUP_CONVERSIONS, "v1alpha1", read, &empty_context()), bare);
}

// Shows: S001-07
#[test]
fn short_group_name_of_the_drafts_is_accepted() {
    assert_eq!(current_api_version("scheduling/v1alpha1").as_deref(), Some("scheduling.k8s.io/v1alpha1"));
    assert_eq!(current_api_version("scheduling.k8s.io/v1alpha1"), None);
}

fn draft_scheduling() -> Value {
    json!({
        "policy": {"gang": {}}, "constraints": {"topology": [{"level": "topology.kubernetes.io/zone"}]},
        "disruption": {"all": {}},
    })
}

// Shows: S004-13
// Shows: S004-16
#[test]
fn draft_spellings_are_replaced_with_a_warning() {
    let present = json!({
        "schedulingPolicy": {"gang": {}},
        "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/zone"}]},
        "disruptionMode": {"all": {}},
    });
    let warnings = |path: &str| {
        vec![
            format!("{path}.policy: a name from a draft of the API; use schedulingPolicy"),
            format!("{path}.constraints: a name from a draft of the API; use schedulingConstraints"),
            format!("{path}.disruption: a name from a draft of the API; use disruptionMode"),
            format!("{path}.schedulingConstraints.topology[0].level: a name from a draft of the API; use key"),
        ]
    };
    let mut job = json!({"spec": {"scheduling": draft_scheduling()}});
    assert_eq!(normalize_job_drafts(&mut job, &Gates::default()), Ok(warnings("spec.scheduling")));
    assert_eq!(job, json!({"spec": {"scheduling": present}}));
    assert_eq!(normalize_job_drafts(&mut job, &Gates::default()), Ok(vec![]), "nothing is left to replace");
    let mut cron_job = json!({"spec": {"jobTemplate": {"spec": {"scheduling": draft_scheduling()}}}});
    let warned = normalize_cron_job_drafts(&mut cron_job, &Gates::default());
    assert_eq!(warned, Ok(warnings("spec.jobTemplate.spec.scheduling")));
    assert_eq!(cron_job["spec"]["jobTemplate"]["spec"]["scheduling"], present);
}

// Shows: S004-13
#[test]
fn both_spellings_at_once_are_refused() {
    let mut scheduling = draft_scheduling();
    scheduling["schedulingPolicy"] = json!({"basic": {}});
    scheduling["constraints"]["topology"][0]["key"] = json!("rack");
    let errors =
        normalize_job_drafts(&mut json!({"spec": {"scheduling": scheduling}}), &Gates::default()).expect_err("refused");
    let together =
        |name: &str| format!("Forbidden: may not be set together with {name}, of which it is an older spelling");
    assert_eq!(
        render(&errors),
        [
            format!("spec.scheduling.policy: {}", together("schedulingPolicy")),
            format!("spec.scheduling.schedulingConstraints.topology[0].level: {}", together("key")),
        ]
    );
}

// Shows: S003-10
#[test]
fn draft_reference_of_a_pod_to_its_group_is_accepted() {
    let mut pod = json!({"spec": {"workloadRef": {"name": "w", "podGroupName": "g"}}});
    let warned = normalize_pod_drafts(&mut pod, &Gates::default()).expect("it is replaced");
    assert_eq!(warned, ["spec.workloadRef: a name from a draft of the API; use spec.schedulingGroup.podGroupName"]);
    assert_eq!(pod, json!({"spec": {"schedulingGroup": {"podGroupName": "g"}}}));
    let refusal = |reference: Value| {
        let mut pod = json!({"spec": {"workloadRef": reference, "schedulingGroup": {"podGroupName": "other"}}});
        render(&normalize_pod_drafts(&mut pod, &Gates::default()).expect_err("it is refused"))
    };
    assert!(refusal(json!({"podGroupName": "other"}))[0].starts_with("spec.workloadRef.name: Required value"));
    let another = refusal(json!({"name": "w", "podGroupName": "g"}));
    assert_eq!(
        another,
        ["spec.workloadRef: Forbidden: may not be set together with another spec.schedulingGroup.podGroupName"]
    );
    let mut job = json!({"spec": {"template": {"spec": {"workloadRef": {"name": "w", "podGroupName": "g"}}}}});
    assert_eq!(normalize_job_drafts(&mut job, &Gates::default()).map(|warnings| warnings.len()), Ok(1));
    assert_eq!(job["spec"]["template"]["spec"], json!({"schedulingGroup": {"podGroupName": "g"}}));
}

// Shows: S003-11
// Shows: S003-34
#[test]
fn replica_keys_and_groups_in_a_workload_are_refused_with_a_remedy() {
    let mut pod = json!({"spec": {"workloadRef": {"name": "w", "podGroup": "g", "podGroupReplicaKey": "0"}}});
    let errors = render(&normalize_pod_drafts(&mut pod, &Gates::default()).expect_err("it is refused"));
    assert_eq!(errors.len(), 2);
    assert_eq!(
        errors[0],
        "spec.workloadRef.podGroupReplicaKey: Forbidden: one PodGroup is one replica: create a PodGroup for each replica, and \
         name it in spec.schedulingGroup.podGroupName of its pods"
    );
    let mut workload = json!({"spec": {"podGroups": [{"name": "a", "policy": {"basic": {}}}]}});
    let errors = render(&normalize_workload_drafts(&mut workload, &Gates::default()).expect_err("it is refused"));
    assert!(
        errors[0].starts_with("spec.podGroups: Forbidden:") && errors[0].contains("podGroupTemplates"),
        "{errors:?}"
    );
}

// Shows: S001-06
#[test]
fn workload_ref_of_a_job_needs_its_gate_in_both_forms() {
    let reference = json!({"apiVersion": "scheduling/v1alpha1", "name": "w", "namespace": "demo"});
    let in_pod = json!({"spec": {"template": {"spec": {"workloadRef": reference}}}});
    let off = Gates::default();
    let on = off.with(Gate::JobWorkloadRef, true);
    let mut job = in_pod.clone();
    let warned = normalize_job_drafts(&mut job, &off).expect("it is dropped");
    let path = "spec.template.spec.workloadRef";
    assert_eq!(warned, [format!("{path}: dropped, because the feature gate JobWorkloadRef is off")]);
    assert_eq!(job, json!({"spec": {"template": {"spec": {}}}}));
    let mut job = in_pod.clone();
    let warned = normalize_job_drafts(&mut job, &on).expect("it is moved");
    assert_eq!(
        warned,
        [
            format!("{path}: a reference of the Job; write spec.workloadRef"),
            "spec.workloadRef.apiVersion: a name from a draft of the API; use scheduling.k8s.io/v1alpha1".to_owned(),
        ]
    );
    assert_eq!(job["spec"]["workloadRef"]["apiVersion"], "scheduling.k8s.io/v1alpha1");
    let mut both = in_pod.clone();
    both["spec"]["workloadRef"] = reference;
    assert!(normalize_job_drafts(&mut both.clone(), &on).is_ok(), "they are equal");
    both["spec"]["workloadRef"]["name"] = json!("other");
    let errors = render(&normalize_job_drafts(&mut both, &on).expect_err("they differ"));
    assert!(errors[0].ends_with("must be the same as spec.workloadRef"), "{errors:?}");
}

/// A PodGroup in the storage form, with some of its fields.
fn stored_pod_group() -> impl Strategy<Value = Value> {
    let modes = prop_oneof![Just(json!({"single": {}})), Just(json!({"all": {}}))];
    let conditions = prop::collection::vec(
        (
            prop_oneof![Just("PodGroupInitiallyScheduled"), Just("PodGroupScheduled"), Just("DisruptionTarget")],
            prop_oneof![Just("True"), Just("False")],
            prop_oneof![Just("Scheduled"), Just("MinCountSatisfied"), Just("Unschedulable")],
        ),
        1..3,
    );
    (any::<[bool; 6]>(), modes, "[a-z]{1,8}", "[a-z]{1,8}", conditions, any::<i32>()).prop_map(
        |(has, mode, workload, template, conditions, priority)| {
            let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": 2}}});
            let fields = [
                ("workloadRef", json!({"workloadName": workload, "templateName": template})),
                ("disruptionMode", mode),
                ("priority", json!(priority)),
                ("preemptionPolicy", json!("Never")),
                ("parentCompositePodGroupName", json!("parent")),
            ];
            for ((field, value), _) in fields.into_iter().zip(has).filter(|(_, has)| *has) {
                spec[field] = value;
            }
            let mut group = json!({"metadata": {"creationTimestamp": "2030-01-01T00:00:00Z"}, "spec": spec});
            if has[5] {
                let conditions: Vec<Value> = conditions
                    .into_iter()
                    .map(|(kind, status, reason)| json!({"type": kind, "status": status, "reason": reason}))
                    .collect();
                group["status"] = json!({"conditions": conditions});
            }
            group
        },
    )
}

/// A tree of templates in the storage form.
fn stored_workload() -> impl Strategy<Value = Value> {
    let leaf = ("[a-z]{1,6}", prop::option::of(prop_oneof![Just("single"), Just("all")])).prop_map(|(name, mode)| {
        let mut leaf = json!({"name": name, "schedulingPolicy": {"basic": {}}});
        if let Some(mode) = mode {
            leaf["disruptionMode"] = json!({mode: {}});
        }
        leaf
    });
    let leaves = prop::collection::vec(leaf, 1..4);
    (leaves.clone(), prop::option::of((leaves, any::<bool>())), any::<bool>()).prop_map(|(flat, tree, controlled)| {
        let mut spec = json!({});
        match tree {
            None => spec["podGroupTemplates"] = json!(flat),
            Some((inner, deep)) => {
                let mut top = json!({"name": "top", "disruptionMode": {"all": {}}, "podGroupTemplates": flat});
                if deep {
                    top["compositePodGroupTemplates"] = json!([{"name": "deep", "podGroupTemplates": inner}]);
                }
                spec["compositePodGroupTemplates"] = json!([top]);
            }
        }
        if controlled {
            spec["controllerRef"] = json!({"apiGroup": "batch", "kind": "Job", "name": "j"});
        }
        json!({"metadata": {}, "spec": spec})
    })
}

proptest! {
    #[test]
    fn group_is_unchanged_by_a_round_trip_through_any_older_version(group in stored_pod_group()) {
        for conversion in POD_GROUP_CONVERSIONS {
            let mut there = group.clone();
            (conversion.from_storage)(&mut there);
            let older = there.clone();
            prop_assert_eq!((conversion.to_storage)(&mut there, &empty_context()), Ok(()));
            prop_assert_eq!(&there, &group, "{}", conversion.version);
            (conversion.from_storage)(&mut there);
            prop_assert_eq!(there, older, "round trip of the older form");
        }
    }

    #[test]
    fn workload_is_unchanged_by_a_round_trip_through_any_older_version(workload in stored_workload()) {
        for conversion in WORKLOAD_CONVERSIONS {
            let mut there = workload.clone();
            (conversion.from_storage)(&mut there);
            prop_assert_eq!((conversion.to_storage)(&mut there, &empty_context()), Ok(()));
            prop_assert_eq!(&there, &workload, "{}", conversion.version);
        }
    }

    #[test]
    fn older_version_is_unchanged_by_a_round_trip_through_another(group in stored_pod_group(), workload in stored_workload()) {
        for (conversions, stored) in [(POD_GROUP_CONVERSIONS, group), (WORKLOAD_CONVERSIONS, workload)] {
            for (from, through) in conversions.iter().flat_map(|from| conversions.iter().map(move |to| (from, to))) {
                let mut older = stored.clone();
                (from.from_storage)(&mut older);
                let mut there = older.clone();
                for (inward, outward) in [(from, through), (through, from)] {
                    prop_assert_eq!((inward.to_storage)(&mut there, &empty_context()), Ok(()));
                    (outward.from_storage)(&mut there);
                }
                prop_assert_eq!(there, older, "{} through {}", from.version, through.version);
            }
        }
    }

    #[test]
    fn documents_of_an_older_version_have_only_its_fields(group in stored_pod_group(), workload in stored_workload()) {
        for (kind, conversions, document) in [("PodGroup", POD_GROUP_CONVERSIONS, group), ("Workload", WORKLOAD_CONVERSIONS, workload)] {
            for conversion in conversions {
                let mut older = document.clone();
                (conversion.from_storage)(&mut older);
                let findings = crate::schema::check("scheduling.k8s.io", conversion.version, kind, &mut older);
                prop_assert_eq!(findings.unknown, Vec::<String>::new());
                let typed: Vec<String> = findings.type_errors.iter().map(ToString::to_string).collect();
                prop_assert_eq!(typed, Vec::<String>::new());
            }
        }
    }
}

//! Every rule for Jobs with its message. A case is a change to a valid Job.

use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use super::{validate_create, validate_status_update, validate_update};
use crate::batch::{defaults, prepare};
use crate::field::{ErrorKind, ErrorList};
use crate::gates::{Gate, Gates};

/// A Job as the server has it before validation, with `change` merged into it (null removes a field).
fn document(change: &Value) -> Value {
    let mut job = json!({
        "metadata": {"name": "trainer", "namespace": "training", "uid": "u1"},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "trainer:1"}],
        }}},
    });
    defaults::set_defaults(&mut job, &Gates::default());
    prepare::prepare_create(&mut job, &Gates::default());
    merge(&mut job, change);
    job["metadata"]["resourceVersion"] = json!("7");
    job
}

fn job(change: &Value) -> Job {
    serde_json::from_value(document(change)).expect("a Job")
}

fn merge(target: &mut Value, change: &Value) {
    match (target, change) {
        (Value::Object(target), Value::Object(change)) => {
            for (name, value) in change {
                match target.get_mut(name) {
                    Some(inner) if !value.is_null() => merge(inner, value),
                    _ if value.is_null() => drop(target.remove(name)),
                    _ => drop(target.insert(name.clone(), value.clone())),
                }
            }
        }
        (target, change) => *target = change.clone(),
    }
}

fn render(errors: &ErrorList) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn refused_on_create(change: Value, wants: &[&str]) {
    assert_eq!(render(&validate_create(&job(&change), &Gates::default())), wants, "{change}");
}

#[track_caller]
fn refused_on_update(old: &Value, new: &Value, wants: &[&str]) {
    assert_eq!(render(&validate_update(&job(new), &job(old), &Gates::default())), wants, "{old} to {new}");
}

#[track_caller]
fn refused_status(old: Value, new: Value, wants: &[&str]) {
    let (old, new) = (json!({"status": old}), json!({"status": new}));
    assert_eq!(render(&validate_status_update(&job(&new), &job(&old), &Gates::default())), wants, "{old} to {new}");
}

#[test]
fn minimal_job_is_valid() {
    refused_on_create(json!({}), &[]);
    refused_on_update(&json!({}), &json!({}), &[]);
}

#[test]
fn counts_are_not_negative() {
    for name in ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"] {
        let want = format!("spec.{name}: Invalid value: -1: must be greater than or equal to 0");
        refused_on_create(json!({"spec": {name: -1}}), &[&want]);
    }
}

#[test]
fn generated_selector_cannot_be_changed() {
    refused_on_create(
        json!({"spec": {"selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "other"}}}}),
        &[
            "spec.selector: Invalid value: {\"matchLabels\":{\"batch.kubernetes.io/controller-uid\":\"other\"}}: \
             `selector` not auto-generated",
            "spec.template.metadata.labels: Invalid value: {\"batch.kubernetes.io/controller-uid\":\"u1\",\
             \"batch.kubernetes.io/job-name\":\"trainer\",\"controller-uid\":\"u1\",\"job-name\":\"trainer\"}: \
             `selector` does not match template `labels`",
        ],
    );
    refused_on_create(
        json!({"spec": {"template": {"metadata": {"labels": {"job-name": "x", "controller-uid": null}}}}}),
        &[
            "spec.template.metadata.labels[controller-uid]: Required value: must be 'u1'",
            "spec.template.metadata.labels[job-name]: Invalid value: {\"batch.kubernetes.io/controller-uid\":\"u1\",\
             \"batch.kubernetes.io/job-name\":\"trainer\",\"job-name\":\"x\"}: must be 'trainer'",
        ],
    );
    refused_on_create(
        json!({"spec": {"manualSelector": true, "selector": null, "template": {"metadata": {"labels": null}}}}),
        &[
            "spec.selector: Required value",
            "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
        ],
    );
}

#[test]
fn restart_policy_of_a_job_is_never_or_on_failure() {
    let restart = |policy: &str| json!({"spec": {"template": {"spec": {"restartPolicy": policy}}}});
    let path = "spec.template.spec.restartPolicy";
    refused_on_create(restart("OnFailure"), &[]);
    refused_on_create(restart("Always"), &[&format!("{path}: Required value: valid values: \"OnFailure\", \"Never\"")]);
    let errors = render(&validate_create(&job(&restart("Sometimes")), &Gates::default()));
    let want = format!("{path}: Unsupported value: \"Sometimes\": supported values: \"OnFailure\", \"Never\"");
    assert!(errors.contains(&want), "{errors:?}");
}

#[test]
fn completion_modes_have_their_own_rules() {
    refused_on_create(
        json!({"spec": {"completionMode": "Sorted"}}),
        &["spec.completionMode: Unsupported value: \"Sorted\": supported values: \"NonIndexed\", \"Indexed\""],
    );
    refused_on_create(
        json!({"spec": {"completionMode": "Indexed", "completions": null}}),
        &["spec.completions: Required value: when completion mode is Indexed"],
    );
    refused_on_create(
        json!({"spec": {"completionMode": "Indexed", "parallelism": 100_001}}),
        &[
            "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
        ],
    );
    refused_on_create(
        json!({"spec": {"completionMode": "Indexed", "maxFailedIndexes": 2}}),
        &[
            "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
            "spec.maxFailedIndexes: Invalid value: 2: must be less than or equal to completions",
        ],
    );
    refused_on_create(
        json!({"spec": {"completionMode": "Indexed", "completions": 100_001, "backoffLimitPerIndex": 1, "parallelism": 10_001}}),
        &[
            "spec.maxFailedIndexes: Required value: must be specified when completions is above 100000",
            "spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are above \
             100000 and used with backoff limit per index",
        ],
    );
    refused_on_create(
        json!({"spec": {"backoffLimitPerIndex": 1, "successPolicy": {"rules": [{"succeededCount": 1}]}}}),
        &[
            "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
            "spec.successPolicy: Invalid value: {\"rules\":[{\"succeededCount\":1}]}: requires indexed completion mode",
        ],
    );
}

#[test]
fn last_pod_of_an_indexed_job_has_a_valid_name() {
    let named = |name: String| json!({"metadata": {"name": name}, "spec": {"manualSelector": true, "completionMode": "Indexed", "completions": 10}});
    refused_on_create(named("a".repeat(61)), &[]);
    let name = "a".repeat(62);
    refused_on_create(
        named(name.clone()),
        &[&format!(
            "metadata.name: Invalid value: \"{name}\": will not able to create pod with invalid DNS label: {name}-9"
        )],
    );
}

#[test]
fn managed_by_has_a_domain() {
    let managed_by = |value: &str| json!({"spec": {"managedBy": value}});
    refused_on_create(managed_by("acme.io/foo"), &[]);
    refused_on_create(managed_by(""), &["spec.managedBy: Required value"]);
    refused_on_create(
        managed_by("acme"),
        &["spec.managedBy: Invalid value: \"acme\": must be a domain-prefixed path (such as \"acme.io/foo\")"],
    );
    let long = format!("acme.io/{}", "a".repeat(60));
    refused_on_create(managed_by(&long), &["spec.managedBy: Too long: may not be more than 63 bytes"]);
}

#[test]
fn pod_replacement_policy_is_a_known_one() {
    refused_on_create(
        json!({"spec": {"podReplacementPolicy": "Never"}}),
        &[
            "spec.podReplacementPolicy: Unsupported value: \"Never\": supported values: \"Failed\", \"TerminatingOrFailed\"",
        ],
    );
    refused_on_create(
        json!({"spec": {"podFailurePolicy": {"rules": []}}}),
        &["spec.podReplacementPolicy: Unsupported value: \"TerminatingOrFailed\": supported values: \"Failed\""],
    );
}

#[test]
fn failure_policy_rules_are_validated() {
    let rule = |rule: Value| json!({"spec": {"podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": [rule]}}});
    let path = "spec.podFailurePolicy.rules[0]";
    refused_on_create(rule(json!({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1, 42]}})), &[]);
    refused_on_create(
        rule(json!({"action": "", "onExitCodes": {"operator": "", "values": []}})),
        &[
            &format!("{path}.action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]"),
            &format!("{path}.onExitCodes.operator: Required value: valid values: [\"In\" \"NotIn\"]"),
            &format!("{path}.onExitCodes.values: Invalid value: []: at least one value is required"),
        ],
    );
    refused_on_create(
        rule(
            json!({"action": "FailIndex", "onExitCodes": {"operator": "In", "containerName": "x", "values": [3, 0, 3]}}),
        ),
        &[
            &format!("{path}.action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set"),
            &format!(
                "{path}.onExitCodes.containerName: Invalid value: \"x\": must be one of the container or initContainer \
                 names in the pod template"
            ),
            &format!("{path}.onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator"),
            &format!("{path}.onExitCodes.values[2]: Duplicate value: 3"),
            &format!("{path}.onExitCodes.values: Invalid value: [3,0,3]: must be ordered"),
        ],
    );
    refused_on_create(
        rule(json!({"action": "Count"})),
        &[&format!("{path}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required")],
    );
    refused_on_create(
        rule(json!({
            "action": "Count",
            "onExitCodes": {"operator": "NotIn", "values": [0]},
            "onPodConditions": [{"type": "DisruptionTarget", "status": "Maybe"}],
        })),
        &[
            &format!(
                "{path}.onPodConditions[0].status: Unsupported value: \"Maybe\": \
                 supported values: \"False\", \"True\", \"Unknown\""
            ),
            &format!("{path}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"),
        ],
    );
}

#[test]
fn success_policy_rules_name_existing_indexes() {
    let rule = |rule: Value| json!({"spec": {"completionMode": "Indexed", "completions": 4, "successPolicy": {"rules": [rule]}}});
    let path = "spec.successPolicy.rules[0]";
    refused_on_create(rule(json!({"succeededIndexes": "0-2", "succeededCount": 3})), &[]);
    refused_on_create(
        rule(json!({})),
        &[&format!("{path}: Required value: at least one of succeededCount or succeededIndexes must be specified")],
    );
    refused_on_create(
        rule(json!({"succeededIndexes": "4"})),
        &[&format!(
            "{path}.succeededIndexes: Invalid value: \"4\": error parsing succeededIndexes: too large index: \"4\""
        )],
    );
    refused_on_create(
        rule(json!({"succeededIndexes": "0-2", "succeededCount": 5})),
        &[
            &format!(
                "{path}.succeededCount: Invalid value: 5: must be less than or equal to 4 \
                 (the number of specified completions)"
            ),
            &format!(
                "{path}.succeededCount: Invalid value: 5: must be less than or equal to 3 \
                 (the number of indexes in the specified succeededIndexes field)"
            ),
        ],
    );
}

// Shows: S004-28
// Shows: S004-29
// Shows: S004-32
// Shows: U-declarative-validation
#[test]
fn scheduling_of_a_job_is_validated() {
    let with_scheduling =
        |parallelism: i32, scheduling: Value| json!({"spec": {"parallelism": parallelism, "scheduling": scheduling}});
    let path = "spec.scheduling";
    let gang = |count: i32| json!({"schedulingPolicy": {"gang": {"minCount": count}}});
    refused_on_create(with_scheduling(4, json!({})), &[]);
    refused_on_create(with_scheduling(4, gang(4)), &[]);
    refused_on_create(
        with_scheduling(0, json!({"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}})),
        &[],
    );
    refused_on_create(
        with_scheduling(4, gang(5)),
        &[&format!(
            "{path}.schedulingPolicy.gang.minCount: Invalid value: 5: must not be greater than parallelism (4)"
        )],
    );
    let without_parallelism = json!({"spec": {"parallelism": null, "scheduling": gang(2)}});
    refused_on_create(
        without_parallelism,
        &[&format!(
            "{path}.schedulingPolicy.gang.minCount: Invalid value: 2: must not be greater than parallelism (1)"
        )],
    );
    let basic_all = format!(
        "{path}.disruptionMode: Invalid value: \"\": the disruptionMode `all` is not supported with the Basic scheduling policy"
    );
    refused_on_create(with_scheduling(4, json!({"disruptionMode": {"all": {}}})), &[&basic_all]);
    // Handwritten rules come before declared ones.
    refused_on_create(
        with_scheduling(
            1,
            json!({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 2}}, "disruptionMode": {"all": {}, "single": {}}}),
        ),
        &[
            &format!(
                "{path}.schedulingPolicy.gang.minCount: Invalid value: 2: must not be greater than parallelism (1)"
            ),
            &format!(
                "{path}.schedulingPolicy: Invalid value: \"{{basic, gang}}\": must specify exactly one of: `basic`, `gang`"
            ),
            &format!(
                "{path}.disruptionMode: Invalid value: \"{{single, all}}\": must specify exactly one of: `single`, `all`"
            ),
        ],
    );
    refused_on_create(
        with_scheduling(
            1,
            json!({"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}, "resourceClaims": [{"name": "a"}]}),
        ),
        &[
            &format!("{path}.schedulingConstraints.topology: Too many: 2: must have at most 1 item"),
            &format!(
                "{path}.resourceClaims[0]: Invalid value: \"\": must specify one of: `resourceClaimName`, \
                 `resourceClaimTemplateName`"
            ),
        ],
    );
}

// Shows: U-declarative-validation
#[test]
fn only_the_count_of_a_gang_is_mutable_in_scheduling() {
    let with_scheduling = |scheduling: Value| json!({"spec": {"parallelism": 4, "scheduling": scheduling}});
    let gang = with_scheduling(json!({"schedulingPolicy": {"gang": {}}}));
    let gang_2 = with_scheduling(json!({"schedulingPolicy": {"gang": {"minCount": 2}}}));
    let basic = with_scheduling(json!({"schedulingPolicy": {"basic": {}}}));
    let nothing = with_scheduling(Value::Null);
    let path = "spec.scheduling";
    refused_on_update(&gang, &gang_2, &[]);
    refused_on_update(&gang_2, &gang, &[]);
    refused_on_update(&nothing, &gang, &[&format!("{path}: Invalid value: null: field cannot be set once created")]);
    refused_on_update(&gang, &nothing, &[&format!("{path}: Invalid value: null: field cannot be cleared once set")]);
    refused_on_update(
        &with_scheduling(json!({})),
        &gang,
        &[&format!("{path}.schedulingPolicy: Invalid value: null: field cannot be set once created")],
    );
    refused_on_update(
        &basic,
        &gang,
        &[&format!(
            "{path}.schedulingPolicy: Invalid value: null: the basic/gang policy variant is immutable after creation; \
             only schedulingPolicy.gang.minCount may be updated"
        )],
    );
    refused_on_update(&with_scheduling(json!({})), &with_scheduling(json!({"resourceClaims": []})), &[]);
    for (name, value) in [
        ("schedulingConstraints", json!({"topology": [{"key": "rack"}]})),
        ("disruptionMode", json!({"single": {}})),
        ("resourceClaims", json!([{"name": "a", "resourceClaimName": "b"}])),
    ] {
        let want = format!("{path}.{name}: Invalid value: null: field is immutable");
        refused_on_update(&with_scheduling(json!({})), &with_scheduling(json!({name: value})), &[&want]);
        refused_on_update(&with_scheduling(json!({name: value})), &with_scheduling(json!({})), &[&want]);
    }
    let shrunk = json!({"spec": {"parallelism": 1, "scheduling": {"schedulingPolicy": {"gang": {"minCount": 2}}}}});
    refused_on_update(
        &gang_2,
        &shrunk,
        &[&format!(
            "{path}.schedulingPolicy.gang.minCount: Invalid value: 2: must not be greater than parallelism (1)"
        )],
    );
}

// Shows: U-declarative-validation
#[test]
fn stored_scheduling_is_kept_unchanged_while_the_gate_is_off() {
    let off = Gates::default().with(Gate::WorkloadWithJob, false);
    let gang = |count: i32| {
        job(&json!({"spec": {"parallelism": 4, "scheduling": {"schedulingPolicy": {"gang": {"minCount": count}}}}}))
    };
    assert_eq!(render(&validate_update(&gang(2), &gang(2), &off)), Vec::<String>::new());
    assert_eq!(render(&validate_update(&gang(3), &gang(2), &off)), ["spec.scheduling: Forbidden"]);
}

#[test]
fn immutable_fields_of_a_job() {
    let was = json!({"spec": {"completionMode": "Indexed", "completions": 4, "backoffLimitPerIndex": 1, "managedBy": "acme.io/foo"}});
    for (change, want) in [
        (json!({"backoffLimitPerIndex": 2}), "spec.backoffLimitPerIndex: Invalid value: 2: field is immutable"),
        (json!({"managedBy": "acme.io/bar"}), "spec.managedBy: Invalid value: \"acme.io/bar\": field is immutable"),
        (
            json!({"completions": 5}),
            "spec.completions: Invalid value: 5: can only be modified in tandem with spec.parallelism",
        ),
        (
            json!({"successPolicy": {"rules": [{"succeededCount": 1}]}}),
            "spec.successPolicy: Invalid value: {\"rules\":[{\"succeededCount\":1}]}: field is immutable",
        ),
    ] {
        let mut now = was.clone();
        merge(&mut now["spec"], &change);
        refused_on_update(&was, &now, &[want]);
    }
    refused_on_update(
        &json!({}),
        &json!({"spec": {"completions": 2}}),
        &["spec.completions: Invalid value: 2: field is immutable"],
    );
    refused_on_update(
        &json!({"spec": {"completions": 1}}),
        &json!({"spec": {"completionMode": "Indexed", "completions": 1}}),
        &["spec.completionMode: Invalid value: \"Indexed\": field is immutable"],
    );
    // Both counts of an Indexed Job may change together, and these fields always.
    let mut now = was.clone();
    merge(&mut now["spec"], &json!({"completions": 6, "parallelism": 6, "suspend": true, "backoffLimit": 9}));
    refused_on_update(&was, &now, &[]);
}

#[test]
fn template_is_immutable_unless_the_job_is_suspended_without_pods() {
    let template = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let with = |mut base: Value, more: &Value| {
        merge(&mut base, more);
        base
    };
    let directives = template(json!({
        "nodeSelector": {"rack": "r1"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
    }));
    let image = template(json!({"containers": [{"name": "main", "image": "trainer:2"}]}));
    let resources = template(json!({"containers": [{
        "name": "main", "image": "trainer:1", "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "resources": {"requests": {"cpu": "2"}},
    }]}));
    let suspended = json!({"spec": {"suspend": true}});
    let started = json!({"spec": {"suspend": true}, "status": {"startTime": "2026-01-01T00:00:00Z"}});
    let with_condition = json!({"status": {"conditions": [{"type": "Suspended", "status": "True"}]}});
    let active = json!({"status": {"active": 1}});
    for (case, old, change, frozen_at) in [
        ("running, scheduling directives", json!({}), &directives, Some("spec.template")),
        ("suspended by the same write", json!({}), &with(directives.clone(), &suspended), Some("spec.template")),
        ("suspended, scheduling directives", suspended.clone(), &directives, None),
        ("suspended, resources", suspended.clone(), &resources, None),
        ("suspended, image", suspended.clone(), &image, Some("spec.template.spec")),
        ("suspended, without the condition", started.clone(), &directives, Some("spec.template")),
        ("suspended, with the condition", with(started.clone(), &with_condition), &directives, None),
        ("pods left", with(with(started, &with_condition), &active), &directives, Some("spec.template")),
        (
            "suspended, scheduling group",
            suspended,
            &template(json!({"schedulingGroup": {"podGroupName": "g"}})),
            Some("spec.template.spec"),
        ),
    ] {
        let new = with(old.clone(), change);
        let errors = validate_update(&job(&new), &job(&old), &Gates::default());
        let immutable: Vec<&str> =
            errors.iter().filter(|error| error.kind == ErrorKind::Immutable).map(|error| error.path.as_str()).collect();
        assert_eq!(immutable, frozen_at.into_iter().collect::<Vec<_>>(), "{case}");
    }
}

#[test]
fn counts_of_a_status_are_validated() {
    for name in ["active", "succeeded", "failed", "ready", "terminating"] {
        let (old, new) = (job(&json!({})), job(&json!({"status": {name: -1}})));
        let errors = render(&validate_status_update(&new, &old, &Gates::default()));
        assert_eq!(errors[0], format!("status.{name}: Invalid value: -1: must be greater than or equal to 0"));
    }
    refused_status(
        json!({"failed": 2, "succeeded": 2}),
        json!({"failed": 1, "succeeded": 1, "active": 1, "ready": 2}),
        &[
            "status.ready: Invalid value: 2: cannot set more ready pods than active",
            "status.failed: Invalid value: 1: cannot decrease the failed counter",
            "status.succeeded: Invalid value: 1: cannot decrease the succeeded counter",
        ],
    );
    refused_status(
        json!({}),
        json!({"uncountedTerminatedPods": {"succeeded": ["a", ""], "failed": ["a"]}}),
        &[
            "status.uncountedTerminatedPods.succeeded[1]: Invalid value: \"\": must not be empty",
            "status.uncountedTerminatedPods.failed[0]: Duplicate value: \"a\"",
        ],
    );
    refused_status(
        json!({}),
        json!({"completedIndexes": "x", "failedIndexes": ""}),
        &[
            "status.completedIndexes: Invalid value: \"x\": error parsing completedIndexes: cannot convert string to \
             integer for index: \"x\"",
            "status.completedIndexes: Invalid value: \"x\": cannot set non-empty completedIndexes when non-indexed \
             completion mode",
            "status.failedIndexes: Invalid value: \"\": cannot set non-null failedIndexes when backoffLimitPerIndex is null",
        ],
    );
}

const COMPLETE: &str = r#"{"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:01:00Z", "succeeded": 1,
    "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]}"#;

#[test]
fn terminal_conditions_are_complete_and_final() {
    let complete: Value = serde_json::from_str(COMPLETE).expect("a status");
    let running = json!({"startTime": "2026-01-01T00:00:00Z", "active": 1});
    let with = |change: Value| {
        let mut status = complete.clone();
        merge(&mut status, &change);
        status
    };
    let condition = |kind: &str| json!({"type": kind, "status": "True"});
    refused_status(running.clone(), complete.clone(), &[]);
    for (new, want) in [
        (
            with(json!({"completionTime": null})),
            "status.completionTime: Required value: completionTime is required for Complete jobs",
        ),
        (
            with(json!({"startTime": null})),
            "status.startTime: Invalid value: null: field is immutable for unsuspended job once set",
        ),
        (with(json!({"active": 1})), "status.active: Invalid value: 1: active>0 is invalid for finished job"),
        (
            with(json!({"terminating": 1})),
            "status.terminating: Invalid value: 1: terminating>0 is invalid for finished job",
        ),
        (
            with(json!({"uncountedTerminatedPods": {"failed": ["a"]}})),
            "status.uncountedTerminatedPods: Invalid value: {\"failed\":[\"a\"]}: must be empty for finished job",
        ),
        (
            with(json!({"completionTime": "2025-01-01T00:00:00Z"})),
            "status.completionTime: Invalid value: \"2025-01-01T00:00:00Z\": must be equal to or after `startTime`",
        ),
        (
            with(json!({"conditions": [condition("Complete")]})),
            "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        ),
        (
            with(json!({"completionTime": null, "conditions": [condition("Failed")]})),
            "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
        ),
    ] {
        let errors = render(&validate_status_update(
            &job(&json!({"status": new})),
            &job(&json!({"status": running})),
            &Gates::default(),
        ));
        assert!(errors.iter().any(|error| error == want), "{want}: {errors:?}");
    }
    refused_status(
        complete.clone(),
        with(json!({"conditions": [condition("SuccessCriteriaMet")]})),
        &[
            "status.completionTime: Invalid value: \"2026-01-01T00:01:00Z\": cannot set completionTime when there is no \
             Complete=True condition",
            "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
        ],
    );
    refused_status(
        complete.clone(),
        with(json!({"completionTime": "2026-01-01T00:02:00Z"})),
        &["status.completionTime: Invalid value: \"2026-01-01T00:02:00Z\": field is immutable"],
    );
    refused_status(
        running,
        with(
            json!({"conditions": [condition("SuccessCriteriaMet"), condition("Complete"), condition("FailureTarget")]}),
        ),
        &[
            "status.conditions: Invalid value: cannot set Complete=True and FailureTarget=true conditions",
            "status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        ],
    );
}

//! What is filled in when a Job leaves it out.

use serde_json::{Map, Value, json};

use crate::core::defaults::set_pod_spec_defaults;
use crate::gates::Gates;

/// Fills in what a Job leaves out. `spec.scheduling` gets nothing: what is unset there follows other fields later.
pub fn set_defaults(doc: &mut Value, _gates: &Gates) {
    labels_from_template(doc);
    let Some(spec) = doc.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if !has(spec, "parallelism") {
        // Without completions the first success ends the Job; one pod is then all it ever needs.
        if !has(spec, "completions") {
            spec.insert("completions".to_owned(), json!(1));
        }
        spec.insert("parallelism".to_owned(), json!(1));
    }
    let backoff_limit = if has(spec, "backoffLimitPerIndex") { i32::MAX } else { 6 };
    let replacement = if has(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    default(spec, "backoffLimit", json!(backoff_limit));
    default(spec, "completionMode", json!("NonIndexed"));
    default(spec, "suspend", json!(false));
    default(spec, "manualSelector", json!(false));
    default(spec, "podReplacementPolicy", json!(replacement));
    for pattern in pod_condition_patterns(spec) {
        default(pattern, "status", json!("True"));
    }
    if let Some(template) = spec.get_mut("template").and_then(Value::as_object_mut)
        && let Some(pod) = template.get_mut("spec")
    {
        set_pod_spec_defaults(pod);
    }
}

/// A Job without labels of its own gets its template's.
pub(super) fn labels_from_template(doc: &mut Value) {
    let is_empty = |labels: Option<&Value>| labels.and_then(Value::as_object).is_none_or(Map::is_empty);
    let labels = doc.pointer("/spec/template/metadata/labels");
    if is_empty(labels) || !is_empty(doc.pointer("/metadata/labels")) {
        return;
    }
    let labels = labels.cloned();
    if let (Some(metadata), Some(labels)) = (doc.get_mut("metadata").and_then(Value::as_object_mut), labels) {
        metadata.insert("labels".to_owned(), labels);
    }
}

fn pod_condition_patterns(spec: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let rules = spec.get_mut("podFailurePolicy").and_then(|policy| policy.get_mut("rules"));
    let rules = rules.and_then(Value::as_array_mut).into_iter().flatten();
    let patterns = rules.filter_map(|rule| rule.get_mut("onPodConditions").and_then(Value::as_array_mut));
    patterns.flatten().filter_map(Value::as_object_mut)
}

fn has(object: &Map<String, Value>, name: &str) -> bool {
    object.get(name).is_some_and(|value| !value.is_null())
}

fn default(object: &mut Map<String, Value>, name: &str, value: Value) {
    if !has(object, name) {
        object.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::set_defaults;
    use crate::gates::Gates;

    fn defaulted(mut job: Value) -> Value {
        set_defaults(&mut job, &Gates::default());
        job
    }

    #[test]
    fn a_job_that_says_nothing_runs_one_pod_once() {
        assert_eq!(
            defaulted(json!({"metadata": {}, "spec": {"scheduling": {"schedulingPolicy": {"gang": {}}}}})),
            json!({"metadata": {}, "spec": {
                "parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed",
                "suspend": false, "manualSelector": false, "podReplacementPolicy": "TerminatingOrFailed",
                "scheduling": {"schedulingPolicy": {"gang": {}}},
            }})
        );
    }

    #[test]
    fn counts_depend_on_which_are_given() {
        for (spec, parallelism, completions) in [
            (json!({}), json!(1), json!(1)),
            (json!({"parallelism": null}), json!(1), json!(1)),
            (json!({"completions": 4}), json!(1), json!(4)),
            (json!({"parallelism": 4}), json!(4), Value::Null),
            (json!({"parallelism": 0, "completions": 2}), json!(0), json!(2)),
        ] {
            let job = defaulted(json!({"spec": spec}));
            assert_eq!((&job["spec"]["parallelism"], &job["spec"]["completions"]), (&parallelism, &completions));
        }
    }

    #[test]
    fn other_defaults_follow_what_is_set() {
        let job = defaulted(json!({"spec": {
            "backoffLimitPerIndex": 1,
            "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
        }}));
        assert_eq!(job["spec"]["backoffLimit"], json!(2_147_483_647));
        assert_eq!(job["spec"]["podReplacementPolicy"], "Failed");
        assert_eq!(job["spec"]["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"], "True");
    }

    #[test]
    fn a_job_without_labels_gets_its_templates() {
        let template = json!({"metadata": {"labels": {"app": "trainer"}}, "spec": {"containers": []}});
        let job = defaulted(json!({"metadata": {}, "spec": {"template": template}}));
        assert_eq!(job["metadata"]["labels"], json!({"app": "trainer"}));
        assert_eq!(job["spec"]["template"]["spec"]["restartPolicy"], "Always");
        let job = defaulted(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"template": template}}));
        assert_eq!(job["metadata"]["labels"], json!({"a": "b"}));
    }
}

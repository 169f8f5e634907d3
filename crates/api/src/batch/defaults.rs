//! Defaults of Jobs.

use serde_json::{Map, Value, json};

use crate::core::defaults::set_pod_spec_defaults;
use crate::gates::Gates;

/// Sets the defaults of a Job. `spec.scheduling` gets none: its unset fields follow other fields later.
pub fn set_defaults(doc: &mut Value, _gates: &Gates) {
    // A new Job without a selector gets its labels together with the generated selector.
    let has_selector = doc.pointer("/spec/selector").is_some_and(|selector| !selector.is_null());
    if has_selector || doc.pointer("/spec/manualSelector") == Some(&Value::Bool(true)) {
        labels_from_template(doc);
    }
    let Some(spec) = doc.as_object_mut().and_then(|doc| object_or_default(doc, "spec")) else { return };
    if !has(spec, "parallelism") {
        // Without completions the first success completes the Job, so one pod is enough.
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
    set_template_defaults(spec);
}

/// Sets the defaults that Jobs and Job templates share: those of the pods and of the failure policy.
pub(super) fn set_template_defaults(spec: &mut Map<String, Value>) {
    // An empty list of rules becomes null here, unlike other empty lists.
    if let Some(rules) = spec.get_mut("podFailurePolicy").and_then(|policy| policy.get_mut("rules"))
        && rules.as_array().is_some_and(Vec::is_empty)
    {
        *rules = Value::Null;
    }
    for pattern in pod_condition_patterns(spec) {
        default_text(pattern, "status", "True");
    }
    if let Some(template) = object_or_default(spec, "template") {
        object_or_default(template, "spec");
        if let Some(pod) = template.get_mut("spec") {
            set_pod_spec_defaults(pod);
        }
    }
}

/// The field `name`, which every object of the kind has. If it is unset it becomes an empty object, so that errors are
/// about the fields that are missing in it.
pub(super) fn object_or_default<'a>(
    object: &'a mut Map<String, Value>,
    name: &str,
) -> Option<&'a mut Map<String, Value>> {
    default(object, name, json!({}));
    object.get_mut(name).and_then(Value::as_object_mut)
}

/// Copies the labels of the template to a Job without labels.
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

/// Sets a field that is missing or `null`.
pub(super) fn default(object: &mut Map<String, Value>, name: &str, value: Value) {
    if !has(object, name) {
        object.insert(name.to_owned(), value);
    }
}

/// Sets a string field that is missing, `null` or empty.
pub(super) fn default_text(object: &mut Map<String, Value>, name: &str, value: &str) {
    if object.get(name).and_then(Value::as_str).unwrap_or_default().is_empty() {
        object.insert(name.to_owned(), json!(value));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::set_defaults;
    use crate::gates::Gates;

    fn with_defaults(mut job: Value) -> Value {
        set_defaults(&mut job, &Gates::default());
        job
    }

    #[test]
    fn minimal_job_runs_one_pod_once() {
        let mut job =
            with_defaults(json!({"metadata": {}, "spec": {"scheduling": {"schedulingPolicy": {"gang": {}}}}}));
        let template = job["spec"]["template"].take();
        assert_eq!(
            job,
            json!({"metadata": {}, "spec": {
                "parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed",
                "suspend": false, "manualSelector": false, "podReplacementPolicy": "TerminatingOrFailed",
                "scheduling": {"schedulingPolicy": {"gang": {}}}, "template": null,
            }})
        );
        assert_eq!(template["spec"]["dnsPolicy"], "ClusterFirst", "the pod gets its defaults too");
        assert_eq!(with_defaults(json!({}))["spec"]["template"], template, "a Job without a spec gets them too");
    }

    #[test]
    fn default_counts_depend_on_which_are_set() {
        for (spec, parallelism, completions) in [
            (json!({}), json!(1), json!(1)),
            (json!({"parallelism": null}), json!(1), json!(1)),
            (json!({"completions": 4}), json!(1), json!(4)),
            (json!({"parallelism": 4}), json!(4), Value::Null),
            (json!({"parallelism": 0, "completions": 2}), json!(0), json!(2)),
        ] {
            let job = with_defaults(json!({"spec": spec}));
            assert_eq!((&job["spec"]["parallelism"], &job["spec"]["completions"]), (&parallelism, &completions));
        }
    }

    #[test]
    fn other_defaults_depend_on_set_fields() {
        let job = with_defaults(json!({"spec": {
            "backoffLimitPerIndex": 1,
            "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": ""}]}]},
        }}));
        let without_rules = with_defaults(json!({"spec": {"podFailurePolicy": {"rules": []}}}));
        assert_eq!(without_rules["spec"]["podFailurePolicy"], json!({"rules": null}));
        assert_eq!(job["spec"]["backoffLimit"], json!(2_147_483_647));
        assert_eq!(job["spec"]["podReplacementPolicy"], "Failed");
        assert_eq!(job["spec"]["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"], "True");
    }

    #[test]
    fn job_without_labels_gets_those_of_its_template() {
        let template = json!({"metadata": {"labels": {"app": "trainer"}}, "spec": {"containers": []}});
        let job = with_defaults(json!({"metadata": {}, "spec": {"template": template}}));
        assert_eq!(job["metadata"].get("labels"), None, "it gets those of the generated selector");
        let job = with_defaults(json!({"metadata": {}, "spec": {"manualSelector": true, "template": template}}));
        assert_eq!(job["metadata"]["labels"], json!({"app": "trainer"}));
        assert_eq!(job["spec"]["template"]["spec"]["restartPolicy"], "Always");
        let job =
            with_defaults(json!({"metadata": {"labels": {"a": "b"}}, "spec": {"selector": {}, "template": template}}));
        assert_eq!(job["metadata"]["labels"], json!({"a": "b"}));
    }
}

//! What is filled in when a group, single or composite, or a priority class leaves it out. A Workload gets nothing: its templates are
//! filled in when groups are made from them.

use serde_json::{Map, Value, json};

use crate::gates::{Gate, Gates};

/// Fills in what a PodGroup leaves out; a CompositePodGroup gets the same.
pub fn set_pod_group_defaults(doc: &mut Value, gates: &Gates) {
    let Some(spec) = doc.get_mut("spec").and_then(Value::as_object_mut) else { return };
    default(spec, "disruptionMode", json!({"single": {}}));
    if gates.enabled(Gate::PodGroupPreemptionPolicy) {
        default(spec, "preemptionPolicy", json!("PreemptLowerPriority"));
    }
}

/// Fills in what a priority class leaves out.
pub fn set_priority_class_defaults(doc: &mut Value, _gates: &Gates) {
    let Some(class) = doc.as_object_mut() else { return };
    default(class, "preemptionPolicy", json!("PreemptLowerPriority"));
}

fn default(object: &mut Map<String, Value>, name: &str, value: Value) {
    if object.get(name).is_none_or(Value::is_null) {
        object.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{set_pod_group_defaults, set_priority_class_defaults};
    use crate::gates::{Gate, Gates};

    #[test]
    fn a_group_is_disrupted_one_by_one_and_may_preempt() {
        let off = Gates::default().with(Gate::PodGroupPreemptionPolicy, false);
        for (spec, gates, want) in [
            (
                json!({}),
                Gates::default(),
                json!({"disruptionMode": {"single": {}}, "preemptionPolicy": "PreemptLowerPriority"}),
            ),
            (json!({"disruptionMode": null}), off, json!({"disruptionMode": {"single": {}}})),
            (
                json!({"disruptionMode": {"all": {}}, "preemptionPolicy": "Never"}),
                Gates::default(),
                json!({"disruptionMode": {"all": {}}, "preemptionPolicy": "Never"}),
            ),
        ] {
            let mut group = json!({"spec": spec});
            set_pod_group_defaults(&mut group, &gates);
            assert_eq!(group, json!({"spec": want}));
        }
    }

    #[test]
    fn pods_of_a_class_may_preempt_unless_it_says_never() {
        for (class, want) in [(json!({}), "PreemptLowerPriority"), (json!({"preemptionPolicy": "Never"}), "Never")] {
            let mut class: Value = class;
            set_priority_class_defaults(&mut class, &Gates::default());
            assert_eq!(class["preemptionPolicy"], want);
        }
    }
}

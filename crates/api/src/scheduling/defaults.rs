//! Defaults of PodGroups, CompositePodGroups and priority classes. A Workload gets none: its templates get them when
//! groups are created from them.

use serde_json::{Map, Value, json};

use crate::gates::{Gate, Gates};

/// Sets the defaults of a PodGroup or CompositePodGroup.
pub fn set_pod_group_defaults(doc: &mut Value, gates: &Gates) {
    let Some(spec) = doc.get_mut("spec").and_then(Value::as_object_mut) else { return };
    default(spec, "disruptionMode", json!({"single": {}}));
    if gates.enabled(Gate::PodGroupPreemptionPolicy) {
        default(spec, "preemptionPolicy", json!("PreemptLowerPriority"));
    }
}

/// Sets the defaults of a priority class.
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
    fn default_of_a_group_is_single_disruption_and_preemption() {
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
    fn default_preemption_policy_of_a_class_is_preempt_lower_priority() {
        for (class, want) in [(json!({}), "PreemptLowerPriority"), (json!({"preemptionPolicy": "Never"}), "Never")] {
            let mut class: Value = class;
            set_priority_class_defaults(&mut class, &Gates::default());
            assert_eq!(class["preemptionPolicy"], want);
        }
    }
}

//! Validation of priority classes.

use super::*;

fn class(name: &str, value: i32) -> PriorityClass {
    PriorityClass {
        metadata: serde_json::from_value(json!({"name": name, "resourceVersion": "7"})).expect("metadata"),
        value: Some(value),
        preemption_policy: Some("PreemptLowerPriority".to_owned()),
        ..PriorityClass::default()
    }
}

#[test]
fn highest_priorities_are_reserved_for_the_system() {
    for (class, wants) in [
        (class("high", 1_000_000_000), vec![]),
        (class("system-node-critical", 2_000_001_000), vec![]),
        (
            class("high", 1_000_000_001),
            vec!["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        ),
        (
            class("system-mine", 1),
            vec![
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. \
                  error: system-mine is not a known system priority class",
            ],
        ),
        (
            PriorityClass { preemption_policy: Some("Maybe".to_owned()), ..class("high", 1) },
            vec![
                "preemptionPolicy: Unsupported value: \"Maybe\": supported values: \"PreemptLowerPriority\", \"Never\"",
            ],
        ),
    ] {
        assert_eq!(
            render(&priority_class::validate_create(&class, &Gates::default())),
            wants,
            "{:?}",
            class.metadata.name
        );
    }
}

#[test]
fn value_of_a_class_is_immutable() {
    let old = class("high", 1);
    let new = PriorityClass { preemption_policy: Some("Never".to_owned()), ..class("high", 2) };
    assert_eq!(
        render(&priority_class::validate_update(&new, &old, &Gates::default())),
        [
            "value: Forbidden: may not be changed in an update.",
            "preemptionPolicy: Invalid value: \"Never\": field is immutable",
        ]
    );
    let described = PriorityClass { description: Some("for training".to_owned()), ..old.clone() };
    assert_eq!(render(&priority_class::validate_update(&described, &old, &Gates::default())), Vec::<String>::new());
}

//! Events, validated by the rules of both API groups.

use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};

use super::super::event;
use super::{merged, texts, typed};
use crate::gates::Gates;

#[test]
fn event_is_in_the_namespace_of_its_object() {
    for (case, part, want) in [
        ("same", json!({"involvedObject": {"namespace": "n"}}), vec![]),
        ("cluster object in default", json!({"metadata": {"namespace": "default"}}), vec![]),
        (
            "another",
            json!({"involvedObject": {"namespace": "m"}}),
            vec!["involvedObject.namespace: Invalid value: \"m\": does not match event.namespace"],
        ),
        (
            "new form",
            json!({"involvedObject": {"namespace": "n"}, "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "r",
                "reportingComponent": "phalanx.dev/scheduler", "reportingInstance": "i"}),
            vec!["action: Required value"],
        ),
    ] {
        let base = json!({"metadata": {"name": "e", "namespace": "n"}, "involvedObject": {}});
        let event: Event = typed(merged(base, part));
        assert_eq!(texts(&event::validate_create(&event, &Gates::default())), want, "{case}");
    }
    let named: Event =
        typed(json!({"metadata": {"name": "E_1", "namespace": "n"}, "involvedObject": {"namespace": "n"}}));
    assert!(event::validate_create(&named, &Gates::default()).is_empty(), "a name that is not a DNS name");
    assert_eq!(event::validate_create_in_events_group(&named)[0].path.as_str(), "metadata.name");
}

/// A valid Event of `events.k8s.io`, with changes.
fn newer_event(part: Value) -> Event {
    let base = json!({
        "metadata": {"name": "e", "namespace": "n"}, "involvedObject": {"namespace": "n", "name": "a"},
        "eventTime": "2026-01-01T00:00:00.000000Z", "reason": "r", "action": "a", "type": "Normal",
        "reportingComponent": "phalanx.dev/scheduler", "reportingInstance": "i",
    });
    typed(merged(base, part))
}

#[test]
fn event_of_the_events_group_has_the_newer_form() {
    let unset = |field: &str| vec![format!("{field}: Invalid value: \"\": needs to be unset")];
    for (case, part, want) in [
        ("newer", json!({}), vec![]),
        ("a series", json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}}), vec![]),
        (
            "a series of one without a time",
            json!({"series": {"count": 1}}),
            vec![
                "series.count: Invalid value: \"\": should be at least 2".to_owned(),
                "series.lastObservedTime: Required value".to_owned(),
            ],
        ),
        ("without a time", json!({"eventTime": null}), vec!["eventTime: Required value".to_owned()]),
        ("empty type", json!({"type": ""}), vec!["type: Invalid value: \"\": has invalid value: ".to_owned()]),
        ("unknown type", json!({"type": "x"}), vec!["type: Invalid value: \"\": has invalid value: x".to_owned()]),
        ("firstTimestamp", json!({"firstTimestamp": "2026-01-01T00:00:00Z"}), unset("firstTimestamp")),
        ("lastTimestamp", json!({"lastTimestamp": "2026-01-01T00:00:00Z"}), unset("lastTimestamp")),
        ("counted", json!({"count": 1}), unset("count")),
        ("with a source", json!({"source": {"host": "h"}}), unset("source")),
        (
            "no reporter",
            json!({"reportingComponent": "a b"}),
            vec![
                "reportingController: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', \
                 '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
                 '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
                    .to_owned(),
            ],
        ),
    ] {
        assert_eq!(texts(&event::validate_create_in_events_group(&newer_event(part))), want, "{case}");
    }
}

#[test]
fn only_series_is_mutable_in_the_events_group() {
    let series = json!({"series": {"count": 3, "lastObservedTime": "2026-01-01T00:00:00.000000Z"}});
    for (case, part, want) in [
        ("its series", series, vec![]),
        ("its labels", json!({"metadata": {"labels": {"a": "b"}}}), vec![]),
        ("a series of one", json!({"series": {"count": 1}}), vec!["series.count", "series.lastObservedTime"]),
        ("its object", json!({"involvedObject": {"name": "b"}}), vec!["involvedObject"]),
        ("its message", json!({"message": "m"}), vec!["message"]),
        ("its reason", json!({"reason": "s"}), vec!["reason"]),
        ("its time", json!({"eventTime": "2026-01-01T00:00:00.000001Z"}), vec!["eventTime"]),
        ("its reporter", json!({"reportingComponent": "b"}), vec!["reportingController"]),
        ("its count", json!({"count": 2}), vec!["count"]),
    ] {
        let errors = event::validate_update_in_events_group(&newer_event(part.clone()), &newer_event(json!({})));
        let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(paths, want, "{case}");
        let in_core = event::validate_update(&newer_event(part), &newer_event(json!({})), &Gates::default());
        assert!(in_core.is_empty(), "{case}: {in_core:?}");
    }
}

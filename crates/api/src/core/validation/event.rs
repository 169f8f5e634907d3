//! Events, in the older form (without `eventTime`) and the newer one: the rules of both API groups, and the additional
//! rules of `events.k8s.io`. There an Event has the newer form, fields of the older one must be unset, and only its
//! series may change.

use k8s_openapi::api::core::v1::Event;

use crate::field::{Error, ErrorList, Path};
use crate::gates::Gates;
use crate::metadata::{self, immutable, names, non_empty, violations};

type EventTextField = fn(&Event) -> &Option<String>;

/// The strings of the newer form: whether they are required, and their maximum length in bytes.
const TEXTS: [(&str, EventTextField, TextPresence, usize); 4] = [
    ("reportingInstance", |event| &event.reporting_instance, TextPresence::Required, 128),
    ("action", |event| &event.action, TextPresence::Required, 128),
    ("reason", |event| &event.reason, TextPresence::Required, 128),
    ("message", |event| &event.message, TextPresence::Optional, 1024),
];

#[derive(PartialEq)]
enum TextPresence {
    Required,
    Optional,
}

/// The field name of the reporting component in each group.
const REPORTING_COMPONENT: &str = "reportingComponent";
const REPORTING_CONTROLLER: &str = "reportingController";

/// Validates a new event of the core group. Its name can be any path segment.
pub fn validate_create(event: &Event, _gates: &Gates) -> ErrorList {
    let errors: ErrorList = problems(event, REPORTING_COMPONENT).collect();
    if !errors.is_empty() {
        return errors;
    }
    metadata::validate_object_meta_named(&event.metadata, true, names::path_segment, &Path::new("metadata"))
}

/// Validates a change of an event in the core group, such as a higher count.
pub fn validate_update(new: &Event, old: &Event, _gates: &Gates) -> ErrorList {
    let mut errors = metadata::validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    errors.extend(problems(new, REPORTING_COMPONENT));
    errors
}

/// Validates a new event of `events.k8s.io`. Paths are those of the core group, as upstream.
pub fn validate_create_in_events_group(event: &Event) -> ErrorList {
    let mut errors: ErrorList = problems(event, REPORTING_CONTROLLER).collect();
    errors.extend(metadata::validate_object_meta(&event.metadata, true, &Path::new("metadata")));
    errors.extend(series_problems(event));
    if event.event_time.is_none() {
        errors.push(Error::required(&Path::new("eventTime"), ""));
    }
    let kind = non_empty(&event.type_).unwrap_or("");
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(Error::invalid(&Path::new("type"), "", format!("has invalid value: {kind}")));
    }
    let source = event.source.as_ref();
    let is_set = [
        ("firstTimestamp", event.first_timestamp.is_some()),
        ("lastTimestamp", event.last_timestamp.is_some()),
        ("count", event.count.unwrap_or(0) != 0),
        ("source", source.is_some_and(|source| non_empty(&source.component).or(non_empty(&source.host)).is_some())),
    ];
    let is_set = is_set.into_iter().filter(|(_, is_set)| *is_set);
    errors.extend(is_set.map(|(field, _)| Error::invalid(&Path::new(field), "", "needs to be unset")));
    errors
}

/// Validates a change of an event in `events.k8s.io`.
pub fn validate_update_in_events_group(new: &Event, old: &Event) -> ErrorList {
    let mut errors = metadata::validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    errors.extend(problems(new, REPORTING_CONTROLLER));
    if new.series != old.series {
        errors.extend(series_problems(new));
    }
    errors.extend(IMMUTABLE_FIELDS.iter().filter_map(|(field, changed)| changed(new, old, &Path::new(field))));
    errors
}

/// The error for a change of one field, from the new event and the old one.
type EventChangeCheck = fn(&Event, &Event, &Path) -> Option<Error>;

/// Immutable fields in `events.k8s.io`.
const IMMUTABLE_FIELDS: [(&str, EventChangeCheck); 13] = [
    ("involvedObject", |new, old, path| immutable(&new.involved_object, &old.involved_object, path)),
    ("reason", |new, old, path| text_unchanged(&new.reason, &old.reason, path)),
    ("message", |new, old, path| text_unchanged(&new.message, &old.message, path)),
    ("source", |new, old, path| immutable(&new.source, &old.source, path)),
    ("firstTimestamp", |new, old, path| immutable(&new.first_timestamp, &old.first_timestamp, path)),
    ("lastTimestamp", |new, old, path| immutable(&new.last_timestamp, &old.last_timestamp, path)),
    ("count", |new, old, path| immutable(&new.count.unwrap_or(0), &old.count.unwrap_or(0), path)),
    ("type", |new, old, path| text_unchanged(&new.type_, &old.type_, path)),
    ("eventTime", |new, old, path| immutable(&new.event_time, &old.event_time, path)),
    ("action", |new, old, path| text_unchanged(&new.action, &old.action, path)),
    ("related", |new, old, path| immutable(&new.related, &old.related, path)),
    (REPORTING_CONTROLLER, |new, old, path| text_unchanged(&new.reporting_component, &old.reporting_component, path)),
    ("reportingInstance", |new, old, path| text_unchanged(&new.reporting_instance, &old.reporting_instance, path)),
];

fn text_unchanged(new: &Option<String>, old: &Option<String>, path: &Path) -> Option<Error> {
    immutable(&non_empty(new).unwrap_or(""), &non_empty(old).unwrap_or(""), path)
}

/// A series has a count of at least two and a last time.
fn series_problems(event: &Event) -> ErrorList {
    let Some(series) = &event.series else { return ErrorList::new() };
    let too_few = series.count.unwrap_or(0) < 2;
    let too_few = too_few.then(|| Error::invalid(&Path::new("series.count"), "", "should be at least 2"));
    let no_time = series.last_observed_time.is_none();
    let no_time = no_time.then(|| Error::required(&Path::new("series.lastObservedTime"), ""));
    too_few.into_iter().chain(no_time).collect()
}

/// Errors in either group. `reporter` is the name of the field with the reporting component.
fn problems(event: &Event, reporter: &'static str) -> impl Iterator<Item = Error> {
    let newer = event.event_time.iter();
    let newer = newer.flat_map(move |_| component_problems(event, reporter).into_iter().chain(text_problems(event)));
    namespace_problem(event).into_iter().chain(newer)
}

/// An event is in the namespace of its object. Events about cluster-scoped objects are in `default`, those of the newer
/// form also in `kube-system`. An event of the newer form about a namespaced object can be in any namespace.
fn namespace_problem(event: &Event) -> Option<Error> {
    let about = non_empty(&event.involved_object.namespace);
    let places: &[&str] = match (about, &event.event_time) {
        (Some(_), Some(_)) => return None,
        (Some(about), None) => &[about],
        (None, Some(_)) => &["default", "kube-system"],
        (None, None) => &["", "default"],
    };
    let namespace_of_event = non_empty(&event.metadata.namespace).unwrap_or("");
    (!places.contains(&namespace_of_event)).then(|| {
        let path = Path::new("involvedObject").child("namespace");
        Error::invalid(&path, about.unwrap_or(""), "does not match event.namespace")
    })
}

/// An empty name has two errors: that it is missing, and its format.
fn component_problems(event: &Event, reporter: &str) -> ErrorList {
    let path = Path::new(reporter);
    let component = non_empty(&event.reporting_component).unwrap_or("");
    let missing = component.is_empty().then(|| Error::required(&path, ""));
    missing.into_iter().chain(violations(names::qualified_name, component, &path)).collect()
}

fn text_problems(event: &Event) -> impl Iterator<Item = Error> {
    TEXTS.iter().filter_map(|(field, text, presence, max_bytes)| match non_empty(text(event)) {
        None => (*presence == TextPresence::Required).then(|| Error::required(&Path::new(field), "")),
        Some(text) => (text.len() > *max_bytes).then(|| {
            // The value is left out of the message because it is too long.
            Error::invalid(&Path::new(field), "", format!("can have at most {max_bytes} characters"))
        }),
    })
}

//! Events, in the older form (no `eventTime`) and the newer.

use k8s_openapi::api::core::v1::Event;

use crate::field::{Error, ErrorList, Path};
use crate::gates::Gates;
use crate::metadata::{self, breaches, names, said};

type TextOf = fn(&Event) -> &Option<String>;

/// The texts of the newer form: whether there must be one, and how many bytes it may have.
const TEXTS: [(&str, TextOf, Presence, usize); 4] = [
    ("reportingInstance", |event| &event.reporting_instance, Presence::Required, 128),
    ("action", |event| &event.action, Presence::Required, 128),
    ("reason", |event| &event.reason, Presence::Required, 128),
    ("message", |event| &event.message, Presence::Optional, 1024),
];

#[derive(PartialEq)]
enum Presence {
    Required,
    Optional,
}

/// What is wrong with an event to be created.
pub fn validate_create(event: &Event, _gates: &Gates) -> ErrorList {
    let mut errors = metadata::validate_object_meta(&event.metadata, true, &Path::new("metadata"));
    errors.extend(problems(event));
    errors
}

/// What is wrong with a change of an event, such as a higher count.
pub fn validate_update(new: &Event, old: &Event, _gates: &Gates) -> ErrorList {
    let mut errors = metadata::validate_object_meta_update(&new.metadata, &old.metadata, &Path::new("metadata"));
    errors.extend(problems(new));
    errors
}

fn problems(event: &Event) -> impl Iterator<Item = Error> {
    let newer = event.event_time.iter().flat_map(|_| component_problems(event).into_iter().chain(text_problems(event)));
    namespace_problem(event).into_iter().chain(newer)
}

/// An event stands where its object does. Those about objects without a namespace are kept in `default`, newer ones
/// also in `kube-system`; a newer one about an object with a namespace may stand anywhere.
fn namespace_problem(event: &Event) -> Option<Error> {
    let about = said(&event.involved_object.namespace);
    let places: &[&str] = match (about, &event.event_time) {
        (Some(_), Some(_)) => return None,
        (Some(about), None) => &[about],
        (None, Some(_)) => &["default", "kube-system"],
        (None, None) => &["", "default"],
    };
    let place = said(&event.metadata.namespace).unwrap_or("");
    (!places.contains(&place)).then(|| {
        let path = Path::new("involvedObject").child("namespace");
        Error::invalid(&path, about.unwrap_or(""), "does not match event.namespace")
    })
}

/// The empty name is told both that it is missing and what it should look like.
fn component_problems(event: &Event) -> ErrorList {
    let path = Path::new("reportingComponent");
    let component = said(&event.reporting_component).unwrap_or("");
    let missing = component.is_empty().then(|| Error::required(&path, ""));
    missing.into_iter().chain(breaches(names::qualified_name, component, &path)).collect()
}

fn text_problems(event: &Event) -> impl Iterator<Item = Error> {
    TEXTS.iter().filter_map(|(field, text, presence, bytes_max)| match said(text(event)) {
        None => (*presence == Presence::Required).then(|| Error::required(&Path::new(field), "")),
        Some(text) => (text.len() > *bytes_max).then(|| {
            // The value is left out of the message: it is too long to be shown.
            Error::invalid(&Path::new(field), "", format!("can have at most {bytes_max} characters"))
        }),
    })
}

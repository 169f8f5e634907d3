//! Events as rows.

use api::Timestamp;
use serde_json::Value;

use super::{Column, Table, or, since};
use crate::object::Object;

/// Last Seen, Type, Reason, Object, Message; wide: Subobject, Source, First Seen, Count, Name.
pub const TABLE: Table = Table {
    columns: &[
        Column::text("Last Seen", "Time since the event last happened."),
        Column::text("Type", "Normal or Warning."),
        Column::text("Reason", "Why it happened, in one word."),
        Column::text("Object", "What it happened to."),
        Column::wide("Subobject", "The part of the object it happened to."),
        Column::wide("Source", "Who noticed it."),
        Column::text("Message", "What happened, in a sentence."),
        Column::wide("First Seen", "Time since the event first happened."),
        Column::wide("Count", "How often it happened."),
        Column { format: "name", ..Column::wide("Name", "Name of the event.") },
    ],
    cells,
};

fn cells(event: &Object, now: Timestamp) -> Vec<Value> {
    let document = event.document();
    let first = since(or(event.text(&["firstTimestamp"]), event.text(&["eventTime"])), now);
    let series = &document["series"];
    let (count, last) = if series.is_object() {
        (series["count"].as_i64().unwrap_or(0), series["lastObservedTime"].as_str().unwrap_or_default())
    } else {
        (document["count"].as_i64().unwrap_or(0), event.text(&["lastTimestamp"]))
    };
    vec![
        if last.is_empty() { first.clone() } else { since(last, now) }.into(),
        event.text(&["type"]).into(),
        event.text(&["reason"]).into(),
        about(event).into(),
        event.text(&["involvedObject", "fieldPath"]).into(),
        source(event).into(),
        event.text(&["message"]).trim().into(),
        first.into(),
        // An event that does not count itself has happened once.
        count.max(1).into(),
        event.name().into(),
    ]
}

/// `pod/a`.
fn about(event: &Object) -> String {
    let kind = event.text(&["involvedObject", "kind"]).to_lowercase();
    match event.text(&["involvedObject", "name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Object) -> String {
    let component = or(event.text(&["source", "component"]), event.text(&["reportingComponent"]));
    let host = or(event.text(&["source", "host"]), event.text(&["reportingInstance"]));
    if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") }
}

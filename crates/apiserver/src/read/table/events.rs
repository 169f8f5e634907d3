//! Events as rows.

use api::Timestamp;
use serde_json::Value;

use super::{PrinterColumn, PrinterTable, non_empty_or, since};
use crate::resources::object::ApiObject;

/// Last Seen, Type, Reason, Object, Message; wide: Subobject, Source, First Seen, Count, Name.
pub const TABLE: PrinterTable = PrinterTable {
    columns: &[
        PrinterColumn::text("Last Seen", "Time since the event last happened."),
        PrinterColumn::text("Type", "Normal or Warning."),
        PrinterColumn::text("Reason", "The reason, as one word."),
        PrinterColumn::text("Object", "The object of the event."),
        PrinterColumn::wide("Subobject", "The field of the object."),
        PrinterColumn::wide("Source", "The component that reported the event."),
        PrinterColumn::text("Message", "The description of the event."),
        PrinterColumn::wide("First Seen", "Time since the event first happened."),
        PrinterColumn::wide("Count", "How often it happened."),
        PrinterColumn { format: "name", ..PrinterColumn::wide("Name", "Name of the event.") },
    ],
    cells,
};

fn cells(event: &ApiObject, now: Timestamp) -> Vec<Value> {
    let document = event.document();
    let first = since(non_empty_or(event.text(&["firstTimestamp"]), event.text(&["eventTime"])), now);
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
        involved_object(event).into(),
        event.text(&["involvedObject", "fieldPath"]).into(),
        source(event).into(),
        event.text(&["message"]).trim().into(),
        first.into(),
        // An event without a count happened once.
        count.max(1).into(),
        event.name().into(),
    ]
}

/// `pod/a`.
fn involved_object(event: &ApiObject) -> String {
    let kind = event.text(&["involvedObject", "kind"]).to_lowercase();
    match event.text(&["involvedObject", "name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &ApiObject) -> String {
    let component = non_empty_or(event.text(&["source", "component"]), event.text(&["reportingComponent"]));
    let host = non_empty_or(event.text(&["source", "host"]), event.text(&["reportingInstance"]));
    if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") }
}

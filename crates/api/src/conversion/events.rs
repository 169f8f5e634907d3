//! `events.k8s.io/v1`: the Events of the core group with different names of some fields. Validation has the required
//! fields of each group.

use serde_json::Value;

use super::ConversionContext;
use crate::field::ErrorList;

/// Fields by their name in this group and in the core group. All others have the same name in both.
const NAMES: [(&str, &str); 7] = [
    ("deprecatedCount", "count"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedSource", "source"),
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
];

pub(super) fn to_storage(doc: &mut Value, _context: &ConversionContext<'_>) -> Result<(), ErrorList> {
    rename_all(doc, NAMES);
    Ok(())
}

pub(super) fn from_storage(doc: &mut Value) {
    rename_all(doc, NAMES.map(|(here, in_core)| (in_core, here)));
}

fn rename_all(doc: &mut Value, names: [(&str, &str); 7]) {
    let Some(event) = doc.as_object_mut() else { return };
    for (from, to) in names {
        if let Some(value) = event.remove(from) {
            event.insert(to.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Map, json};

    use super::*;
    use crate::schema::{ValueType, table};

    fn fields_in(group: &str) -> BTreeSet<String> {
        let event_type = table().kind(group, "v1", "Event").expect("it is served");
        let ValueType::Object(number) = event_type else { panic!("an Event is an object") };
        table().object(number).fields.iter().map(|field| field.name.to_string()).collect()
    }

    #[test]
    fn every_field_of_one_group_has_a_counterpart_in_the_other() {
        let of_core = fields_in("").into_iter().map(|name| (name.clone(), json!(name)));
        let event = Value::Object(of_core.collect::<Map<_, _>>());
        let mut there = event.clone();
        from_storage(&mut there);
        let names = there.as_object().expect("still an object").keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(names, fields_in("events.k8s.io"));
        let context = ConversionContext { namespace: "training", old: None, workload: &|_| None };
        assert_eq!((to_storage(&mut there, &context), there), (Ok(()), event));
    }
}

//! Object → stored form: canonical bytes with a gap for the resource version, and the values that selectors read.

use serde_json::{Map, Value};
use store::{Document, StoredMeta};

use crate::resources::object::ApiObject;
use crate::resources::resource::Resource;

/// The object's canonical JSON: sorted keys, no whitespace, an empty `metadata.resourceVersion`.
pub fn document(object: &ApiObject) -> Document {
    let mut bytes = Vec::with_capacity(1024);
    let mut gap = 0;
    bytes.push(b'{');
    for (index, (name, value)) in object.top().iter().enumerate() {
        separate(&mut bytes, index);
        if name == "metadata" {
            bytes.extend_from_slice(b"\"metadata\":");
            gap = write_metadata(object.metadata(), &mut bytes);
        } else {
            write_field(name, value, &mut bytes);
        }
    }
    bytes.push(b'}');
    Document::new(bytes, gap)
}

/// Writes the metadata with an empty `resourceVersion` in key order. Returns the position of the gap.
fn write_metadata(metadata: &Map<String, Value>, bytes: &mut Vec<u8>) -> usize {
    const VERSION: &str = "resourceVersion";
    bytes.push(b'{');
    let mut written = 0;
    for (name, value) in metadata.iter().take_while(|(name, _)| name.as_str() < VERSION) {
        separate(bytes, written);
        write_field(name, value, bytes);
        written += 1;
    }
    separate(bytes, written);
    bytes.extend_from_slice(b"\"resourceVersion\":\"");
    let gap = bytes.len();
    bytes.push(b'"');
    for (name, value) in metadata.iter().filter(|(name, _)| name.as_str() > VERSION) {
        bytes.push(b',');
        write_field(name, value, bytes);
    }
    bytes.push(b'}');
    gap
}

fn separate(bytes: &mut Vec<u8>, index: usize) {
    if index > 0 {
        bytes.push(b',');
    }
}

fn write_field(name: &str, value: &Value, bytes: &mut Vec<u8>) {
    serde_json::to_writer(&mut *bytes, name).expect("a string is always JSON");
    bytes.push(b':');
    serde_json::to_writer(bytes, value).expect("a JSON value is always JSON");
}

/// The values that selectors and the garbage collector read. The caller sets the expiry.
pub fn meta(resource: &Resource, object: &ApiObject) -> StoredMeta {
    let metadata = object.metadata();
    let labels = metadata.get("labels").and_then(Value::as_object).into_iter().flatten();
    StoredMeta {
        uid: object.uid().into(),
        labels: labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?.to_owned()))).collect(),
        fields: (resource.strategy.fields)(object).into_iter().collect(),
        deleting: object.is_deleting(),
        expires: None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use api::Revision;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_version_is_inserted_in_key_order() {
        for (metadata, want) in [
            (json!({}), r#"{"resourceVersion":"7"}"#),
            (json!({"name": "a"}), r#"{"name":"a","resourceVersion":"7"}"#),
            (json!({"uid": "u"}), r#"{"resourceVersion":"7","uid":"u"}"#),
            (
                json!({"name": "a", "resourceVersion": "3", "uid": "u"}),
                r#"{"name":"a","resourceVersion":"7","uid":"u"}"#,
            ),
        ] {
            let object =
                ApiObject::new(json!({"spec": {"b": 1, "a": "\"resourceVersion\":\"\""}, "metadata": metadata}));
            let bytes = document(&object.unwrap()).with_revision(Revision(7));
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            assert_eq!(text, format!(r#"{{"metadata":{want},"spec":{{"a":"\"resourceVersion\":\"\"","b":1}}}}"#));
        }
    }
}

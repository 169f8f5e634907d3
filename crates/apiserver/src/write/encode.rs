//! Object → what the store keeps: canonical bytes with a hole for the version, and the values that selectors read.

use serde_json::{Map, Value};
use store::{Document, StoredMeta};

use crate::resources::object::ApiObject;
use crate::resources::resource::Resource;

/// The object's canonical JSON: sorted keys, no blanks, `metadata.resourceVersion` empty.
pub fn document(object: &ApiObject) -> Document {
    let mut bytes = Vec::with_capacity(1024);
    let mut hole = 0;
    bytes.push(b'{');
    for (index, (name, value)) in object.top().iter().enumerate() {
        separate(&mut bytes, index);
        if name == "metadata" {
            bytes.extend_from_slice(b"\"metadata\":");
            hole = write_metadata(object.metadata(), &mut bytes);
        } else {
            write_field(name, value, &mut bytes);
        }
    }
    bytes.push(b'}');
    Document::new(bytes, hole)
}

/// Writes the metadata with an empty `resourceVersion` at its place in the order; says where its hole is.
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
    let hole = bytes.len();
    bytes.push(b'"');
    for (name, value) in metadata.iter().filter(|(name, _)| name.as_str() > VERSION) {
        bytes.push(b',');
        write_field(name, value, bytes);
    }
    bytes.push(b'}');
    hole
}

fn separate(bytes: &mut Vec<u8>, index: usize) {
    if index > 0 {
        bytes.push(b',');
    }
}

fn write_field(name: &str, value: &Value, bytes: &mut Vec<u8>) {
    serde_json::to_writer(&mut *bytes, name).expect("a text is always JSON");
    bytes.push(b':');
    serde_json::to_writer(bytes, value).expect("a JSON value is always JSON");
}

/// What selectors and collectors read. How long the object lives is not its own to say.
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
    fn the_version_stands_at_its_place_whatever_surrounds_it() {
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
